"""``nki.framework``, ``nki.compiler.*`` and ``nki.runtime``: harnesses that compile, load and run by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nki
from nki.base.errors import ArtifactError, DeviceOnlyError, KernelArgumentError
from nki.compilation.bridges import STAND_INS
from nki.compilation.launch_errors import DegreeError
from nki.compiler.driver import _compile_bir_to_neff, compile_to_bir
from nki.compiler.frontend import ParserFrontend, TracerFrontend, resolve_frontend_cls
from nki.compiler.ncc_driver import (
    CompilationMode,
    CompiledKernel,
    CompileOptions,
    compile_bir_to_neff,
    compile_mlir_to_neff,
    extract_perf_metrics,
)
from nki.framework.compiled import CompileKernel, StandaloneKernel, compile_kernel_to_nir, run_from_bir
from nki.framework.kernel import Kernel
from nki.frameworks.backend_config import BackendConfig
from nki.runtime import SpikeModel, SpikeTensor, configure, get_spike_singleton, reset
from tests.harness import kernels

pytestmark = pytest.mark.filterwarnings("ignore:.*it is no NEFF")


def options(folder: Path, **other: Any) -> CompileOptions:
    return CompileOptions(
        target="trn2", lnc=1, output_path=str(folder / "out" / "k.neff"), artifacts_dir=str(folder), **other
    )


def compiled(folder: Path, arrays: Any, func: Any = kernels.add, names: tuple[str, str] = ("a", "b")) -> CompiledKernel:
    inputs = dict(zip(names, arrays, strict=True))
    return compile_bir_to_neff(
        options(folder), compile_to_bir(kernel_func=func, inputs=inputs, compile_opts=options(folder)), [], [], []
    )


def test_a_decorated_function_is_a_kernel_object(arrays: Any) -> None:
    kernel = nki.jit(kernels.add)
    assert isinstance(kernel, Kernel)
    assert kernel.func is kernel.__wrapped__ is kernels.add
    assert (kernel.lnc, kernel[2].lnc) == (1, 2)
    assert np.array_equal(Kernel(kernels.add)(*arrays), arrays[0] + arrays[1])


def test_the_call_of_kernels_can_be_patched(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    original = Kernel.__call__
    monkeypatch.setattr(
        Kernel, "__call__", lambda self, *a, **k: names.append(self.__name__) or original(self, *a, **k)
    )
    nki.jit(kernels.add)(*arrays)
    assert names == ["add"]


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("kind", [CompileKernel, StandaloneKernel])
def test_compile_kernel_runs_and_leaves_an_artifact(
    arrays: Any, make: Any, tmp_path: Path, kind: Any, simulated: bool
) -> None:
    a, b = map(make, arrays)
    kernel = kind(func=kernels.add, lnc=1, target="trn2", artifacts_dir=str(tmp_path), _enable_simulation=simulated)
    with pytest.warns(nki.NkiPortabilityWarning, match="'kernel.neff' is an artifact of Open NKI"):
        result = kernel(a, b, scale=2.0)
    assert type(result) is type(a)
    assert np.array_equal(np.asarray(result), arrays[0] + 2 * arrays[1])
    assert SpikeModel.load_from_neff(tmp_path / "kernel.neff").executable.kernel.target == "trn2"


def test_compile_kernel_of_a_launched_kernel(tmp_path: Path) -> None:
    kernel = nki.jit(kernels.cores)[2]._to_subclass(CompileKernel, artifacts_dir=str(tmp_path), target="trn3")
    assert (kernel.lnc, kernel[1].lnc) == (2, 1)
    assert np.unique(kernel(np.zeros((4, 4), np.float32))) == 2


def test_compile_kernel_checks_the_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert np.unique(CompileKernel(func=kernels.cores)(np.zeros((4, 4), np.float32))) == 2
    with pytest.raises(DegreeError):
        CompileKernel(func=kernels.cores, lnc=1)(np.zeros((4, 4), np.float32))


def test_compile_kernel_can_be_subclassed(arrays: Any) -> None:
    @dataclass(frozen=True)
    class Named(CompileKernel):
        label: str = ""

    kernel = replace(Named(func=kernels.add, label="first"), label="second")
    assert kernel.label == "second"
    assert np.array_equal(kernel(*arrays), arrays[0] + arrays[1])


def test_an_executor_runs_the_kernel(arrays: Any, make: Any) -> None:
    seen: list[CompiledKernel] = []

    def execute(kernel: CompiledKernel, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        seen.append(kernel)
        model = SpikeModel.load_from_neff(kernel.neff_path, core_id=0)
        tensors = {name: SpikeTensor.from_numpy(array, name) for name, array in inputs.items()}
        results = {name: SpikeTensor.from_numpy(array, name) for name, array in outputs.items()}
        assert model(inputs=tensors, outputs=results) is None
        for name, tensor in results.items():
            np.copyto(outputs[name], tensor.numpy())

    total, copy = CompileKernel(func=kernels.both, _executor=execute)(*map(make, arrays))
    assert np.array_equal(total, arrays[0] + arrays[1]) and np.array_equal(copy, arrays[0])
    assert Path(seen[0].neff_path).name == "kernel.neff"


def test_kernel_to_nir_to_neff_step_by_step(arrays: Any, make: Any, tmp_path: Path) -> None:
    kernel = nki.jit(kernels.add)._to_subclass(CompileKernel, _frontend_cls=resolve_frontend_cls())
    opts = replace(kernel._compile_opts(), artifacts_dir=str(tmp_path), output_path="kernel.neff", target="trn2")
    nir = compile_kernel_to_nir(
        kernel,
        inputs=kernel._bind_args(tuple(map(make, arrays)), {}),
        compile_opts=opts.disable_backend_optimizations().set_pipeline_options("enable-linear-scan-allocation=false"),
        frontend=kernel._frontend_cls(enable_backend_opt=kernel._enable_backend_opt),
        enable_cache=False,
    )
    out = compile_bir_to_neff(
        opts,
        nir,
        input_arrays=[],
        argument_names=[spec.name for spec in nir.descriptor.input_specs],
        output_arg_names=[spec.name for spec in nir.descriptor.output_specs],
    )
    assert Path(out.neff_path) == tmp_path / "kernel.neff"
    assert out.mlir_time > 0 and out.neuronx_cc_time > 0
    assert [(s.name, s.shape, np.dtype(s.dtype)) for s in out.input_specs] == [(n, (8, 16), np.float32) for n in "ab"]
    inputs = out.prepare_inputs(dict(zip("ab", arrays, strict=True)))
    assert np.array_equal(run_from_bir(nir, opts, inputs), arrays[0] + arrays[1])
    again = _compile_bir_to_neff(kernel._cached_compile_to_bir(inputs=inputs, compile_opts=opts), opts, inputs)
    assert Path(again.neff_path).read_bytes() == Path(out.neff_path).read_bytes()
    assert {name: array.shape for name, array in out.prepare_outputs().items()} == {"out": (8, 16)}
    with pytest.raises(KernelArgumentError, match="there is no input 'b'"):
        out.prepare_inputs({"a": arrays[0]})


def test_a_compiled_kernel_from_its_file(arrays: Any, tmp_path: Path) -> None:
    out = CompiledKernel(neff_path=compiled(tmp_path, arrays).neff_path, lnc=1)
    assert [spec.name for spec in out.output_specs] == ["out"]


@pytest.mark.parametrize("frontend", [ParserFrontend(), TracerFrontend(enable_backend_opt=False), None])
def test_nir_describes_the_kernel(arrays: Any, frontend: Any) -> None:
    nir = compile_to_bir(
        kernel_func=kernels.both,
        frontend=frontend,
        inputs=dict(zip("ab", arrays, strict=True)),
        output_names=["o1", "o2"],
    )
    assert nir.is_tuple_return and [s.name for s in nir.output_specs] == ["out", "copy"]
    config = nir.build_config()
    assert BackendConfig.decode(config.backend_config_b64).func_name == "both"
    assert config.operand_output_aliases == {}
    with pytest.warns(nki.NkiPortabilityWarning, match="a prediction of Open NKI's timing model"):
        assert nir.total_time_ns > 0
    with pytest.raises(DeviceOnlyError, match="mac_count"):
        _ = nir.mac_count
    with pytest.raises(KernelArgumentError, match="has 2 outputs"):
        compile_to_bir(kernels.both, inputs=dict(zip("ab", arrays, strict=True)), output_names=["o1"])


def test_a_kernel_that_changes_its_input(arrays: Any, tmp_path: Path) -> None:
    out = compiled(tmp_path, arrays, kernels.accumulate, ("state", "x"))
    assert out.bir is not None and out.bir.build_config().operand_output_aliases == {0: 0}
    model = SpikeModel.load_from_neff(out.neff_path)
    inputs = {name: SpikeTensor.from_numpy(a, name) for name, a in zip(("state", "x"), arrays, strict=True)}
    for rounds in (1, 2):
        results = model(inputs=inputs)
        assert results is not None
        expected = arrays[0] + arrays[1] if rounds == 1 else (arrays[0] + arrays[1]) + arrays[1]
        assert np.array_equal(inputs["state"].numpy(), expected)
        assert np.array_equal(next(iter(results.values())).numpy(), expected)
    assert np.array_equal(inputs["x"].numpy(), arrays[1])


def test_a_model_runs_and_measures(arrays: Any, tmp_path: Path) -> None:
    model = SpikeModel.load_from_neff(compiled(tmp_path, arrays).neff_path, core_id=1, name="mine")
    info = model.input_tensors_info["a"]
    assert (model.name, info.shape, info.size, info.dtype) == ("mine", (8, 16), 512, np.float32)
    inputs = {name: SpikeTensor.from_numpy(array, name=name) for name, array in zip("ab", arrays, strict=True)}
    with pytest.warns(nki.NkiPortabilityWarning, match="no trace"):
        results = model(inputs=inputs, save_trace=True, ntff_name=str(tmp_path / "t.ntff"))
    assert results is not None and np.array_equal(results["out"].numpy(), arrays[0] + arrays[1])
    assert not (tmp_path / "t.ntff").exists()
    with pytest.warns(nki.NkiPortabilityWarning, match="it says nothing of Trainium"):
        times = model.benchmark(inputs, warmup_iter=1, benchmark_iter=4, mode="host")
    assert (times.iterations, times.warmup_iterations, len(times.durations_ms)) == (4, 1, 4)
    assert times.min_ms <= times.mean_ms <= times.max_ms
    with pytest.raises(KernelArgumentError, match="there is no such mode"):
        model.benchmark(inputs, mode="fast")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("b"), "needs the input 'b'"),
        (lambda t: t.update(c=t["a"]), "has no input 'c'"),
        (lambda t: t.update(a=t["a"].numpy()), "is array"),
        (lambda t: t.update(a=SpikeTensor.from_numpy(np.zeros((8, 16), np.int32))), "was compiled as float32"),
        (lambda t: t.update(a=SpikeTensor.from_numpy(np.zeros((16, 8), np.float32))), "was compiled as float32"),
    ],
)
def test_tensors_that_do_not_fit(arrays: Any, tmp_path: Path, change: Any, message: str) -> None:
    model = SpikeModel.load_from_neff(compiled(tmp_path, arrays).neff_path)
    inputs: dict[str, Any] = {name: SpikeTensor.from_numpy(array) for name, array in zip("ab", arrays, strict=True)}
    change(inputs)
    with pytest.raises(KernelArgumentError, match=message):
        model(inputs=inputs)


def test_a_file_of_another_compiler_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real.neff").write_bytes(b"\x02\x00\x00\x00NEFF")
    with pytest.raises(ArtifactError):
        SpikeModel.load_from_neff(tmp_path / "real.neff")
    with pytest.raises(DeviceOnlyError, match="several ranks"):
        SpikeModel.load_from_neff(tmp_path / "real.neff", cc_enabled=True, world_size=2)


def test_tensors_of_the_runtime() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = SpikeTensor.from_numpy(array.T, "t", core_id=3)
    array[:] = 0
    assert (tensor.name, tensor.shape, tensor.dtype, tensor.size) == ("t", (3, 2), np.float32, 24)
    assert np.array_equal(tensor.numpy()[:, 1], [3, 4, 5])
    tensor.write_from_numpy(np.ones(6, np.float32))
    assert tensor.numpy().sum() == 6
    with pytest.raises(KernelArgumentError, match="has 24 bytes, the array 4"):
        tensor.write_from_numpy(np.ones(1, np.float32))
    with pytest.warns(nki.NkiPortabilityWarning, match=r"visible_cores=\[0, 1\]"):
        configure(visible_cores=range(2))
    get_spike_singleton().free_tensor(tensor)
    reset()


def test_the_examples_of_the_document(arrays: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "harnesses.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"add": kernels.add, "a": arrays[0], "b": arrays[1]}
    for block in page.split("```python\n")[1:]:
        with STAND_INS.provided():
            exec(block.partition("```")[0], names)
    assert np.array_equal(names["results"]["out"].numpy(), arrays[0] + arrays[1])
    a, b = map(torch.from_numpy, arrays)
    assert torch.equal(names["added"](a, b), a + b)


def test_services_of_the_device_are_errors() -> None:
    with pytest.raises(DeviceOnlyError, match="Open NKI has none"):
        compile_mlir_to_neff("module", "name", None)
    with pytest.raises(DeviceOnlyError, match="reads a trace of Trainium"):
        extract_perf_metrics("k.neff", "k.ntff", verbose=True)
    assert list(CompilationMode) == []
