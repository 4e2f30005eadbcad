"""``CompiledKernel.from_frontend(…).benchmark(…)`` and ``nki.cpu_simulate``, as public harnesses call them."""

from __future__ import annotations

import numpy as np
import pytest

import nki
from nki.base.errors import DeviceOnlyError, KernelArgumentError
from nki.compiler.driver import compile_to_bir
from nki.compiler.frontend import ParserFrontend, TracerFrontend
from nki.compiler.ncc_driver import CompiledKernel, CompileOptions
from tests.frameworks.kernels import add, scale_in_place

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")
A = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("frontend", [ParserFrontend, TracerFrontend])
def test_compile_and_benchmark(frontend, tmp_path):
    with compile_to_bir.__globals__["nki_ir_context"]() as context:
        result = frontend().compile(
            context, add, inputs={"a": A, "b": A}, target="trn2", lnc=1, artifacts_dir=str(tmp_path), debug=False
        )
        options = CompileOptions(target="trn2", lnc=1, artifacts_dir=str(tmp_path), output_path="add.neff")
        compiled = CompiledKernel.from_frontend(result, options)
    assert (tmp_path / "add.neff").is_file() and compiled.target == "trn2"
    times = compiled.benchmark(warmup=1, iterations=4, a=A, b=A + 1)
    assert 0 < times.latency_min <= times.latency <= times.latency_max and times.latency_std >= 0
    assert np.array_equal(times.outputs["out"], A + A + 1)
    with pytest.raises(DeviceOnlyError, match="nki profile"):
        _ = times.estimated_utilization
    with pytest.raises(KernelArgumentError, match="no input 'b'"):
        compiled.benchmark(a=A)


def test_what_a_harness_reads_beside_its_measurement(tmp_path):
    options = CompileOptions(target="trn1", artifacts_dir=str(tmp_path))
    result = ParserFrontend().compile(
        None, add, inputs={"a": A, "b": A}, target="trn1", debug=options.debug, lower=options.lower_dma_transpose
    )
    compiled = CompiledKernel.from_frontend(result, options)
    peaks = CompiledKernel._PEAK_HBM_BW
    assert sorted(peaks) == ["trn1", "trn2", "trn3"] and peaks["trn1"] == pytest.approx(410e9)
    with pytest.warns(nki.NkiPortabilityWarning, match="estimated_utilization is a prediction"):
        busy = compiled.estimated_utilization
    assert {"dma", "vector"} <= set(busy) and all(0 <= share <= 100 for share in busy.values()) and busy["vector"] > 0
    assert compiled.total_time_ns == nki.profile(add, target="trn1")(A, A).timeline.ns


def test_what_a_kernel_changes_is_a_copy(tmp_path):
    result = ParserFrontend().compile(None, scale_in_place, inputs={"a": A, "scale": 2.0})
    compiled = CompiledKernel.from_frontend(result, CompileOptions(artifacts_dir=str(tmp_path)))
    kept = A.copy()
    times = compiled.benchmark(warmup=0, iterations=3, a=kept)
    assert np.array_equal(kept, A) and np.array_equal(times.outputs["a"], 2 * A)


def test_cpu_simulate():
    assert np.array_equal(nki.cpu_simulate(add)[1](A, b=A), A + A)
    assert np.array_equal(nki.cpu_simulate(add)(A, A), A + A)
