"""``nki.framework.compiled``: kernels that compile and run outside of a framework's graph."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from nki.harness import native_timing
from nki.harness.artifacts import NEFF
from nki.harness.compilation import (
    CompiledKernel,
    CompileOptions,
    Frontend,
    Nir,
    TracerFrontend,
    compile_bir_to_neff,
    compile_to_bir,
    kernel_of,
)
from nki.jit import Kernel, adapter_for, simulate

Executor = Callable[[CompiledKernel, Mapping[str, Any], Mapping[str, Any]], Any]
"""A function of a harness that runs a compiled kernel: it reads arrays by name, and fills others."""


@dataclass(frozen=True)
class CompileKernel:
    """A kernel that a call compiles, writes to ``artifacts_dir`` as ``kernel.neff`` (a ``.klir`` artifact), and runs.

    The run is native on this machine; with ``_enable_simulation`` it is the simulator's. An ``_executor`` runs it in
    place of both. Results are the kernel's, in the caller's framework; for an executor, NumPy arrays.
    """

    func: Callable[..., Any] | Kernel
    lnc: int | None = None
    target: str | None = None
    artifacts_dir: str | None = None
    _enable_simulation: bool = False
    _executor: Executor | None = None
    _frontend_cls: type[Frontend] = TracerFrontend
    _enable_backend_opt: bool = True

    def __getitem__(self, lnc: int) -> Self:
        return replace(self, lnc=lnc)

    @property
    def kernel(self) -> Kernel:
        """The kernel for the target and the number of cores."""
        return self._compile_opts().launched(kernel_of(self.func))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kernel = self.kernel
        if self._executor is None and self.artifacts_dir is None:
            return simulate(kernel)(*args, **kwargs) if self._enable_simulation else kernel(*args, **kwargs)
        arguments = kernel.bind(args, kwargs)
        nir = compile_to_bir(kernel, inputs=arguments)
        options = self._compile_opts()
        if self.artifacts_dir is None:
            options = replace(options, artifacts_dir=tempfile.mkdtemp(prefix="open-nki-"))
        compiled = compile_bir_to_neff(options, nir)
        if self._executor is not None:
            return run_from_bir(nir, compiled, arguments, executor=self._executor)
        return simulate(kernel)(*args, **kwargs) if self._enable_simulation else kernel(*args, **kwargs)

    def _compile_opts(self) -> CompileOptions:
        return CompileOptions(self.target, self.lnc, NEFF, self.artifacts_dir)

    def _bind_args(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return self.kernel.bind(args, kwargs)

    def _cached_compile_to_bir(
        self,
        frontend: Any = None,
        inputs: Mapping[str, Any] | None = None,
        compile_opts: CompileOptions | None = None,
    ) -> Nir:
        return compile_to_bir(self.kernel, frontend, inputs, compile_opts)


@dataclass(frozen=True)
class StandaloneKernel(CompileKernel):
    """The same under the name of older releases."""


def compile_kernel_to_nir(
    kernel: Any,
    inputs: Mapping[str, Any] | None = None,
    compile_opts: CompileOptions | None = None,
    frontend: Any = None,
    **_: Any,
) -> Nir:
    """Compile ``kernel`` for ``inputs``. ``enable_cache`` and the like do nothing: the cache has its own keys."""
    return compile_to_bir(kernel, frontend, inputs, compile_opts)


def run_from_bir(
    nir: Nir,
    options: CompileOptions | CompiledKernel,
    inputs: Mapping[str, Any],
    executor: Executor | None = None,
) -> Any:
    """Run a compiled kernel on ``inputs``: NumPy arrays, one or a tuple as the kernel returns them.

    ``executor(compiled, inputs, outputs)`` fills the arrays of ``outputs``; without one, native code does.
    """
    compiled = options if isinstance(options, CompiledKernel) else compile_bir_to_neff(options, nir)
    adapter = adapter_for((), inputs)
    tensors = {name: adapter.to_numpy(t) for name, t in inputs.items() if adapter.is_framework_tensor(t)}
    given, outputs = compiled.prepare_inputs(tensors), compiled.prepare_outputs()
    if executor is None:
        native_timing.run(nir.executable, given, outputs)
    else:
        executor(compiled, given, outputs)
    results = tuple(outputs[spec.name] for spec in nir.output_specs[: nir.executable.returned])
    return results if nir.is_tuple_return else results[0]
