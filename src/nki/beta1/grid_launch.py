"""``nki.jit`` of Beta 1 and its relatives: kernels on grids, sub-kernels, simulation, measurement."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, Self, cast

import numpy as np

from nki import target as targets
from nki.base import knobs
from nki.base.beta1_errors import Beta1LaunchError
from nki.beta1.beta1_dialect import BETA1, BETA1_STATIC
from nki.beta1.functions import Axis
from nki.compilation.bridges import untraced
from nki.frontend.dialect import assigned_dialect, under_dialect
from nki.frontend.inlining import is_inlined
from nki.frontend.python.flattened_arguments import separated
from nki.frontend.specialise import sharded
from nki.harness import beta1_harness as harness
from nki.ir.recorder import is_recording
from nki.jit import Kernel, simulate
from nki.target.model import Target

MODES: Final = ("auto", "jax", "torchxla", "baremetal", "benchmark", "profile", "simulation", "trace")
_STATIC: Final = frozenset({"--disable-internal-io-dge", "--disable-dge"})
"""Options of the compiler (release 2.26.1: examples of attention; "Profiling NKI kernels") without which it generates
the descriptors of inputs and outputs while the kernel runs."""
_SEVERAL: Any = (tuple, list)
"""The types of a grid of several axes, for code that the compiler of PyTorch traces (it knows no ``cast``)."""
DEFAULT_TARGET: Final = "trn2"
"""The newest target of release 2.26.1, for which Beta 1 kernels are written."""


class Beta1Kernel(Kernel):
    """A kernel of Beta 1: ``kernel[grid](…)`` runs the programs of a grid of any rank, on each core one by one."""

    mode = "auto"

    def __getitem__(self, grid: Any) -> Beta1Kernel:
        axes: Any = grid if isinstance(grid, _SEVERAL) else (grid,)
        return getattr(self, _launched(self, tuple([axis.parts if isinstance(axis, Axis) else axis for axis in axes])))

    def chosen_target(self) -> Target:
        return self.target or (targets.default() if targets.is_chosen() else targets.find(DEFAULT_TARGET))

    def launch_grid(self, target: Target | None = None) -> tuple[int, ...]:  # noqa: ARG002  # as of all kernels
        return self.grid

    def varied(self, **fields: Any) -> Self:
        copy = super().varied(**fields)
        copy.mode = self.mode
        return copy

    def __reduce__(self) -> str | tuple[Any, ...]:
        made = super().__reduce__()
        return made if isinstance(made, str) or self.mode == "auto" else (*made, {"mode": self.mode})

    def on_cores(self, count: int) -> Kernel:
        return self[Axis(count, count)]

    def grid_of(self, grid: Any) -> tuple[int, ...]:
        return grid_of(grid)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return separated(super().bind(args, kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_recording() and is_inlined(args, kwargs):
            if self.grid:
                raise Beta1LaunchError(
                    f"nested_kernel_with_spmd_grid: {self.func.__name__} is called in another kernel, with a grid",
                    fix="call it without a grid, and loop over the programs",
                )
            return super().__call__(*args, **kwargs)
        if self.mode == "simulation":
            return simulate(self)(*args, **kwargs)
        return super().__call__(*args, **kwargs)


@untraced
def _launched(kernel: Beta1Kernel, axes: tuple[Any, ...]) -> str:
    """The name of the attribute of ``kernel`` that is itself on the grid of ``axes``.

    Of ``nl.nc`` and ``nl.spmd_dim`` it takes ``Axis.parts``, as the compiler of PyTorch knows constants of Python only.
    """
    sizes = grid_of(tuple(Axis(*axis[1:]) if _is_parts(axis) else axis for axis in axes))
    name = f"_grid_{sizes}"
    if name not in kernel.__dict__:
        kernel.__dict__.setdefault(name, kernel.varied(grid=sizes).beside(kernel))
    return name


def _is_parts(axis: Any) -> bool:
    return isinstance(axis, tuple) and cast("tuple[Any, ...]", axis)[:1] == ("nl.nc",)


def grid_of(grid: Any) -> tuple[int, ...]:
    """The launch grid of ``kernel[grid]``: ``nl.nc(n)`` alone is cores; cores share the programs of a grid that has
    it as a part; one core runs the programs of any other.
    """
    axes = cast("tuple[Any, ...]", grid) if isinstance(grid, tuple | list) else (grid,)
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in axes):
        raise Beta1LaunchError(f"launch grid {grid!r:.60}: an axis is no positive number", fix="write kernel[4, 2](…)")
    if not axes:
        return ()
    sizes = tuple(max(1, int(n)) for n in axes)  # published scripts write kernel[0] for one program
    shared = [number for number, axis in enumerate(axes) if isinstance(axis, Axis) and axis.cores > 1]
    if len(shared) > 1:
        raise Beta1LaunchError(
            f"launch grid {grid!r:.60}: axes {shared[0]} and {shared[1]} have nl.nc", fix="write nl.nc on one axis"
        )
    if shared:
        axis = axes[shared[0]]
        return sizes if sizes == (axis.cores,) else sharded(sizes, shared[0], axis.cores, axis.stride)
    return sizes if len(axes) == 1 and isinstance(axes[0], Axis) and sizes == (1,) else (*sizes, 1)


def jit(func: Callable[..., Any] | None = None, mode: str = "auto", **options: Any) -> Any:
    """Make a kernel of a function, or give a kernel another mode.

    Of the options, ``platform_target`` selects the target, and ``additional_compile_opt`` may turn the generation of
    DMA descriptors off, which a profile shows; others do nothing.
    """
    if func is None:
        return functools.partial(jit, mode=mode, **options)
    if mode not in MODES:
        raise Beta1LaunchError(f"nki.jit has no mode {mode!r}", fix=f"use one of {', '.join(MODES)}")
    target = options.get("platform_target")
    flags = str(options.get("additional_compile_opt") or "")
    kernel = _kernel(func, None if target is None else targets.find(str(target)), flags)
    kernel.mode = mode
    if mode == "benchmark":
        return benchmark(kernel)
    if mode == "profile":
        return kernel
    return kernel


def _kernel(func: Any, target: Target | None, options: str = "") -> Beta1Kernel:
    options = f"{options} {knobs.compiler_flags()}"
    inner: Any = func
    given: Kernel | None = None
    while not isinstance(inner, FunctionType):
        if isinstance(inner, harness.Baremetal):
            inner = inner.kernel
        elif isinstance(inner, Kernel):
            given, inner = given or inner, inner.func
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        else:
            inspect.signature(inner)
            break
    if isinstance(inner, FunctionType):
        static = assigned_dialect(inner) is BETA1_STATIC or not _STATIC.isdisjoint(options.split())
        inner = under_dialect(inner, BETA1_STATIC if static else BETA1)
    if given is None:
        return Beta1Kernel(inner, target=target)
    return Beta1Kernel(inner, given.grid, target or given.target, given.schedule, given.check, given.configs)


def trace(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Mark a function that kernels call."""
    return jit(func, mode="trace", **options)


def simulate_kernel(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run ``kernel(*args, **kwargs)`` in the simulator."""
    if isinstance(kernel, harness.Baremetal):
        kernel = kernel.kernel
    launched = kernel if isinstance(kernel, Beta1Kernel) else _kernel(kernel, None)
    return simulate(launched)(*args, **kwargs)


def baremetal(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Run a kernel natively; ``save_neff_name`` keeps its artifact."""
    return _measured(harness.Baremetal, baremetal, kernel, options)


def benchmark(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Run a kernel natively and measure it: ``benchmark_result.nc_latency``."""
    return _measured(harness.Benchmark, benchmark, kernel, options)


def profile(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Run a kernel natively and keep its artifact in ``working_directory``."""
    return _measured(harness.Profile, profile, func, options)


def _measured(kind: type[harness.Baremetal], decorator: Any, func: Any, options: dict[str, Any]) -> Any:
    if func is None:
        return functools.partial(decorator, **options)
    flags = str(options.get("additional_compile_opt") or "")
    kernel = func if isinstance(func, Beta1Kernel) and not flags else _kernel(func, None, flags)
    options.pop("artifacts_dir", None)
    return kind(kernel, options)
