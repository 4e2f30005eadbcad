"""Functions of NKI Beta 1: ``nki.baremetal``, ``nki.benchmark``, ``nki.profile``, ``nki.simulate_kernel``.

Source of the options: NKI API Reference (Beta 1), the pages of these names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki.base.errors import ArtifactError, KernelArgumentError
from nki.harness import benchmark as beside
from nki.harness.artifacts import check_options, save, warn_of_trace
from nki.harness.native_timing import BenchmarkResult, measure
from nki.harness.simulation import as_kernel
from nki.jit import Kernel, adapter_for, simulate
from nki.profiling import kernel_profile as predicted
from nki.profiling.shapes import is_shape_only, placeholder

_COMMON: Final = frozenset({"save_neff_name", "save_trace_name", "additional_compile_opt"})
_BENCHMARK: Final = _COMMON | {"warmup", "iters", "device_lock", "benchmark_machine"}
_PREDICTED: Final = frozenset({"target", "trips", "order", "facts"})
_PROFILE: Final = _COMMON | {"working_directory", "overwrite", "profile_nth"}


def filled(value: Any) -> Any:
    """Zeros of the shape and dtype of ``value``, if that describes a tensor, such as ``nt.tensor[shape, dtype]`` or
    :class:`nki.ShapeDtype`; else ``value``.
    """
    if getattr(value, "device", None) is not None or not is_shape_only(value):
        return value
    return np.array(placeholder(value))


class Baremetal:
    """A kernel that a harness calls directly: compiled, run natively on this machine, saved if a name is given.

    ``additional_compile_opt`` is for the vendor's compiler and does nothing here. ``save_trace_name`` asks for a trace
    of the hardware: a warning says that there is none, and no file is written.
    """

    name = "nki.baremetal"
    known = _COMMON

    def __init__(self, kernel: Kernel, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, kernel.func)
        check_options(self.name, options, self.known)
        self.kernel = kernel
        self.func = kernel.func
        self.options = options

    def __getitem__(self, grid: Any) -> Baremetal:
        return type(self)(self.kernel[grid], self.options)

    def __repr__(self) -> str:
        return f"<{self.name} of {self.kernel!r}>"

    def artifact(self) -> Path | None:
        """The file that the call leaves; None if the harness names none."""
        name = self.options.get("save_neff_name")
        return Path(name) if name else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = tuple(filled(value) for value in args)
        kwargs = {name: filled(value) for name, value in kwargs.items()}
        if (file := self.artifact()) is not None:
            save(self.kernel.compile(*args, **kwargs).kernel, file)
        if self.options.get("save_trace_name"):
            warn_of_trace(self.options["save_trace_name"])
        return self.kernel(*args, **kwargs)


class Benchmark(Baremetal):
    """A kernel that a call also measures: ``benchmark_result`` holds the times of ``iters`` native runs on this CPU.

    The times are this machine's and not Trainium's. ``device_lock`` and ``benchmark_machine`` select a device, and do
    nothing here.
    """

    name = "nki.benchmark"
    known = _BENCHMARK
    benchmark_result: BenchmarkResult

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = tuple(filled(value) for value in args)
        kwargs = {name: filled(value) for name, value in kwargs.items()}
        result = super().__call__(*args, **kwargs)
        adapter = adapter_for(args, kwargs)
        executable, tensors = self.kernel.specialise(args, kwargs, adapter)
        arrays = [adapter.to_numpy(t) for t in tensors]
        times = measure(executable, arrays, self.options.get("warmup", 10), self.options.get("iters", 100))
        self.benchmark_result = BenchmarkResult(times)
        return result


class Profile(Baremetal):
    """A kernel that leaves its artifact in ``working_directory`` when called; no trace of the hardware, as a warning
    says.

    As in NKI, ``working_directory`` is absolute, and an artifact that exists is an error unless ``overwrite=True``.
    """

    name = "nki.profile"
    known = _PROFILE

    def __init__(self, kernel: Kernel, options: dict[str, Any]) -> None:
        super().__init__(kernel, {"save_trace_name": "profile.ntff", **options})

    def artifact(self) -> Path:
        folder = self.options.get("working_directory")
        if folder is None or not Path(folder).is_absolute():
            raise KernelArgumentError(
                f"nki.profile(working_directory={folder!r}): this is no absolute path", fix="pass an absolute path"
            )
        file = Path(folder, self.options.get("save_neff_name") or "file.neff")
        if file.exists() and not self.options.get("overwrite", False):
            raise ArtifactError(f"{file} exists", fix="remove it, or pass overwrite=True")
        return file


def _decorate(kind: type[Baremetal], options: dict[str, Any], func: Any) -> Baremetal:
    return kind(as_kernel(func), options)


def _decorator(kind: type[Baremetal], func: Any, options: dict[str, Any]) -> Any:
    if func is None:
        return functools.partial(_decorate, kind, options)
    return _decorate(kind, options, func)


def baremetal(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Run a kernel directly; use as decorator, with or without options, or as a call. See :class:`Baremetal`."""
    return _decorator(Baremetal, kernel, options)


def benchmark(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Measure a kernel: ``nki.benchmark(kernel)(*args)`` gives times of this CPU and the predicted latency.

    ``kernel`` is one of ``nki.jit``; with ``target=`` any function, and ``warmup=`` and ``iters=`` as well. With other
    options, or around a function that is no kernel yet, it is Beta 1's, as decorator or as a call: :class:`Benchmark`.
    """
    if "target" in options or (isinstance(kernel, Kernel) and not options):
        if kernel is None:
            return functools.partial(benchmark, **options)
        check_options("nki.benchmark", options, frozenset({"target", "warmup", "iters"}))
        return beside.benchmark(kernel, **options)
    return _decorator(Benchmark, kernel, options)


def profile(func: Callable[..., Any] | None = None, *args: Any, **options: Any) -> Any:
    """Predict the run of a kernel on the device: ``nki.profile(kernel, target="trn2")(*args)`` gives its profile.

    With the options of Beta 1 (``working_directory=``, ``save_neff_name=``, …), as decorator or as a call, it runs the
    kernel and keeps its artifact: :class:`Profile`.
    """
    if args:
        raise KernelArgumentError(
            f"nki.profile(kernel, {args[0]!r:.60}): it takes a kernel alone",
            fix='name the options, and pass the arguments of the kernel behind: nki.profile(kernel, target="trn2")(x)',
        )
    if options.keys() & _PROFILE and (mixed := sorted(options.keys() & _PREDICTED)):
        old = ", ".join(sorted(options.keys() & _PROFILE))
        raise KernelArgumentError(
            f"nki.profile: {old} and {', '.join(mixed)} do not go together",
            fix=f'leave {old} out for a prediction: nki.profile(kernel, target="trn2")(x); Beta 1 has no {mixed[0]}',
        )
    if func is not None and not options.keys() & _PROFILE:
        check_options("nki.profile", options, _PREDICTED)
        return predicted.profile(func, **options)
    return _decorator(Profile, func, options)


def simulate_kernel(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run ``func(*args, **kwargs)`` in the simulator, as :func:`nki.simulate` does."""
    return simulate(as_kernel(func))(*args, **kwargs)
