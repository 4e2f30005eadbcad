"""The steps of the vendor's compiler as harnesses call them: a kernel to a program, a program to a file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki import target as targets
from nki.base.errors import DeviceOnlyError, KernelArgumentError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.compilation import pipeline
from nki.compilation.executable import Executable
from nki.frameworks.kernel_adapter import config_for
from nki.harness import native_timing
from nki.harness.artifacts import NEFF, save
from nki.harness.device import SpikeModel
from nki.harness.native_timing import KernelTimes
from nki.harness.simulation import as_kernel
from nki.ir.types import TensorSpec
from nki.jit import Kernel, adapter_for
from nki.profiling.kernel_profile import Profile, of_program


@dataclass(frozen=True)
class CompileOptions:
    """Options of a compilation. ``target``, ``lnc``, ``output_path`` and ``artifacts_dir`` have their meaning here.

    The others are for the vendor's compiler, or choose reports that it writes, and do nothing.
    """

    target: str | None = None
    lnc: int | None = None
    output_path: str = NEFF
    artifacts_dir: str | None = None
    neuronx_cc_args: tuple[str, ...] = ()
    verbose: bool = False
    kernel_json_filename: str | None = None
    enable_device_dump: bool = False
    emit_predicted_latency: bool = False
    enable_statistics: bool = False
    debug: bool = False
    lower_dma_transpose: bool = False

    def set_pipeline_options(self, *options: str) -> CompileOptions:  # noqa: ARG002
        """The same options: the vendor's pipeline changes no result."""
        return self

    def disable_backend_optimizations(self) -> CompileOptions:
        """The same options: native code has no other form."""
        return self

    def file(self) -> Path:
        """The file that a compilation writes: a relative ``output_path`` lies in ``artifacts_dir``."""
        return Path(self.artifacts_dir or ".", self.output_path)

    def launched(self, kernel: Kernel) -> Kernel:
        """``kernel`` for this target and this number of cores."""
        if self.target is not None:
            kernel = kernel.varied(target=targets.find(self.target))
        return kernel if self.lnc is None else kernel.on_cores(self.lnc)


class Spec(NamedTuple):
    """Name, shape and NumPy dtype of an input or an output."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def _specs(specs: Sequence[TensorSpec]) -> tuple[Spec, ...]:
    return tuple(Spec(spec.name, spec.shape, spec.dtype.dtype) for spec in specs)


class Descriptor:
    """Inputs and outputs of a compiled kernel. Outputs have the names of their tensors in the kernel."""

    def __init__(self, executable: Executable) -> None:
        self.input_specs = _specs(executable.inputs)
        self.output_specs = _specs(executable.outputs)
        self.operand_output_aliases = {i: o for o, i in executable.changes.items()}

    def to_input_output_aliases_dict(self) -> dict[str, str]:
        """The names of the outputs that are inputs, each with the name of its input."""
        aliases = self.operand_output_aliases
        return {self.output_specs[o].name: self.input_specs[i].name for i, o in aliases.items()}


class Config(Descriptor):
    """The custom call that a framework writes into its graph, to the kernel as it is compiled on this machine."""

    def __init__(self, executable: Executable) -> None:
        super().__init__(executable)
        self.backend_config_b64 = config_for(executable, executable.kernel.grid).encode()


class Nir:
    """A compiled kernel, where harnesses expect the vendor's program for its graph compiler."""

    def __init__(self, executable: Executable, seconds: float) -> None:
        self.executable = executable
        self.seconds = seconds
        self.descriptor = Descriptor(executable)
        self.input_specs = self.descriptor.input_specs
        self.output_specs = self.descriptor.output_specs
        self.is_tuple_return = executable.returns_sequence

    def build_config(self) -> Config:
        """The config of a custom call, which another process can run, too."""
        return Config(self.executable)

    @property
    def total_time_ns(self) -> float:
        """Time of the slowest core as the estimates of ``nki.cost`` predict it: no measurement."""
        return self._predicted("total_time_ns").timeline.ns

    @property
    def estimated_utilization(self) -> dict[str, float]:
        """Percent of :attr:`total_time_ns` in which each engine works, as ``nki profile`` predicts it; the mean over
        the cores.
        """
        profile = self._predicted("estimated_utilization")
        whole = profile.timeline.ns * len(profile.timeline.cores)
        result: dict[str, float] = {}
        for use in profile.engines:
            result[use.engine] = result.get(use.engine, 0.0) + (100.0 * use.busy / whole if whole else 0.0)
        return result

    @property
    def mac_count(self) -> int:
        """Not known here: raises :class:`DeviceOnlyError`."""
        raise DeviceOnlyError(
            "mac_count is a statistic of the vendor's graph compiler",
            fix="read total_time_ns, a prediction, or run `nki dump --queues`",
        )

    def _predicted(self, name: str) -> Profile:
        program = self.executable.kernel
        warn_here(
            f"{name} is a prediction of Open NKI's timing model, and no measurement on Trainium", NkiPortabilityWarning
        )
        return of_program(pipeline.compile(None, {}, targets.find(program.target), start=program))


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel in a file. The times are seconds of this machine: compilation, and writing the file."""

    neff_path: str
    target: str | None = None
    lnc: int | None = None
    artifacts_dir: str | None = None
    bir: Nir | None = None
    mlir_time: float = 0.0
    neuronx_cc_time: float = 0.0

    _PEAK_HBM_BW: ClassVar = {
        target.name: target.hbm_chip_gbps * 1e9 / target.cores_per_chip for target in targets.GENERATIONS
    }
    """Bytes per second of HBM that a core has of its chip's, by target; ``nki.target`` names the sources."""

    @property
    def total_time_ns(self) -> float:
        return self._nir().total_time_ns

    @property
    def estimated_utilization(self) -> dict[str, float]:
        return self._nir().estimated_utilization

    @property
    def input_specs(self) -> tuple[Spec, ...]:
        return self._nir().input_specs

    @property
    def output_specs(self) -> tuple[Spec, ...]:
        return self._nir().output_specs

    @classmethod
    def from_frontend(cls, result: Nir, compile_opts: CompileOptions) -> CompiledKernel:
        """Write what :meth:`Frontend.compile` has returned to the file that ``compile_opts`` names."""
        return compile_bir_to_neff(compile_opts, result)

    def benchmark(self, warmup: int = 5, iterations: int = 5, **tensors: Any) -> KernelTimes:
        """Times of native runs on this machine's CPU, not Trainium's, and the outputs by name."""
        adapter = adapter_for((), tensors)
        given = self.prepare_inputs({name: adapter.to_numpy(tensor) for name, tensor in tensors.items()})
        executable, outputs = self._nir().executable, self.prepare_outputs()
        native_timing.run(executable, {name: array.copy() for name, array in given.items()}, outputs)
        return KernelTimes(native_timing.measure(executable, list(given.values()), warmup, iterations), warmup, outputs)

    def prepare_inputs(self, arguments: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """The arrays among ``arguments`` that the kernel reads, row by row, by name."""
        names = [spec.name for spec in self.input_specs]
        if missing := [name for name in names if name not in arguments]:
            raise KernelArgumentError(f"there is no input {missing[0]!r}", fix=f"pass {', '.join(names)}")
        return {name: np.ascontiguousarray(arguments[name]) for name in names}

    def prepare_outputs(self) -> dict[str, NDArray[Any]]:
        """An array of zeros for each output, by name."""
        return {spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.output_specs}

    def load(self) -> SpikeModel:
        """The kernel, ready to run."""
        return SpikeModel.load_from_neff(self.neff_path)

    def _nir(self) -> Nir:
        if self.bir is not None:
            return self.bir
        return Nir(Executable.load(self.neff_path), 0.0)


class CompilationMode(Enum):
    """Modes of the vendor's compiler. Their names are in no public document, and none has a meaning here."""


class Frontend:
    """A frontend as an object: Open NKI has one. ``enable_backend_opt`` is for the vendor's compiler."""

    def __init__(self, *, enable_backend_opt: bool = True, **_: Any) -> None:
        self.enable_backend_opt = enable_backend_opt

    def compile(
        self,
        context: Any,  # noqa: ARG002  # of the vendor's MLIR
        kernel: Any,
        inputs: Mapping[str, Any] | None = None,
        target: str | None = None,
        lnc: int | None = None,
        artifacts_dir: str | None = None,
        output_names: Sequence[str] | None = None,
        **_: Any,
    ) -> Nir:
        """:func:`compile_to_bir`; further options choose reports of the vendor's compiler and do nothing."""
        options = CompileOptions(target=target, lnc=lnc, artifacts_dir=artifacts_dir)
        return compile_to_bir(kernel, self, inputs, options, output_names)


class ParserFrontend(Frontend):
    """The frontend up to NKI 0.6, which reads the syntax of a kernel."""


class TracerFrontend(Frontend):
    """The frontend of NKI 0.7, which runs a kernel."""


def resolve_frontend_cls() -> type[Frontend]:
    """The frontend in use: here the one name stands for the other, since both end in the same checks and programs."""
    return TracerFrontend


nki_ir_context = nullcontext
"""Harnesses open a context of the vendor's MLIR; there is nothing to open."""


def compile_to_bir(
    kernel_func: Any,
    frontend: Frontend | type[Frontend] | None = None,  # noqa: ARG001  # there is one
    inputs: Mapping[str, Any] | None = None,
    compile_opts: CompileOptions | None = None,
    output_names: Sequence[str] | None = None,
    **_: Any,
) -> Nir:
    """Compile a kernel for ``inputs``, arrays and constants by the names of its parameters.

    ``kernel_func`` is a function, a kernel, or an object that holds one. There must be as many ``output_names`` as the
    kernel has outputs, with or without inputs that it changes and does not return; these and the outputs keep the names
    that they have in the kernel.
    """
    kernel = kernel_of(kernel_func)
    started = time.perf_counter()
    executable = (compile_opts or CompileOptions()).launched(kernel).compile(**dict(inputs or {}))
    if output_names is not None and len(output_names) not in (executable.returned, len(executable.outputs)):
        raise KernelArgumentError(
            f"kernel {executable.name!r} has {executable.returned} outputs; output_names={list(output_names)}",
            fix="name each output, or leave output_names out",
        )
    return Nir(executable, time.perf_counter() - started)


def kernel_of(value: Any) -> Kernel:
    """The kernel that ``value`` is or holds."""
    held = getattr(value, "kernel", None)
    return held if isinstance(held, Kernel) else as_kernel(value)


def compile_bir_to_neff(compile_opts: CompileOptions, bir: Nir, *_: Any, **__: Any) -> CompiledKernel:
    """Write a compiled kernel to the file that ``compile_opts`` names. Arrays and names of arguments are not needed."""
    started = time.perf_counter()
    path = save(bir.executable.kernel, compile_opts.file().absolute())
    seconds = time.perf_counter() - started
    lnc = len(bir.executable.kernel.cores)
    target = bir.executable.kernel.target
    return CompiledKernel(str(path), target, lnc, compile_opts.artifacts_dir, bir, bir.seconds, seconds)


def write_nir(nir: Nir, compile_opts: CompileOptions, inputs: Any = None) -> CompiledKernel:  # noqa: ARG001
    """:func:`compile_bir_to_neff` with its arguments in another order."""
    return compile_bir_to_neff(compile_opts, nir)


def compile_mlir_to_neff(*_: Any, **__: Any) -> CompiledKernel:
    """Raise :class:`DeviceOnlyError`: Open NKI has no MLIR."""
    raise DeviceOnlyError(
        "compile_mlir_to_neff takes the vendor's MLIR, and Open NKI has none",
        fix="compile the kernel with compile_to_bir, and write it with compile_bir_to_neff",
    )


def extract_perf_metrics(neff: Any = None, ntff: Any = None, **_: Any) -> dict[str, Any]:  # noqa: ARG001
    """Raise :class:`DeviceOnlyError`: the metrics need a run on Trainium."""
    raise DeviceOnlyError(
        f"extract_perf_metrics reads a trace of Trainium, and {str(ntff)!r} is none that this machine has written",
        fix="use nki.benchmark or SpikeModel.benchmark for times of this machine's CPU",
    )
