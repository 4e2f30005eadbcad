"""``nki.benchmark(kernel)(*args)``: times of native runs on this machine, and the predicted latency on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nki.base.errors import ArgumentError, KernelArgumentError
from nki.harness.native_timing import measure
from nki.harness.simulation import as_kernel
from nki.jit import adapter_for
from nki.profiling.amounts import duration
from nki.profiling.kernel_profile import Profile
from nki.profiling.kernel_profile import profile as predicted
from nki.profiling.shapes import is_shape_only

WARMUP: Final = 10
ITERATIONS: Final = 100
"""Runs that are not measured, and runs that are, unless the caller says otherwise; the defaults of Beta 1."""
PERCENTILES: Final = (0, 50, 90, 99, 100)


@dataclass(frozen=True)
class Benchmark:
    """Seconds of native runs on the CPU of this machine, after ``warmup`` others, and the ``profile`` of the kernel.

    The two times have nothing in common but the kernel: the CPU's are measured, the device's is the model's.
    """

    warmup: int
    cpu_seconds: tuple[float, ...]
    profile: Profile

    @property
    def iterations(self) -> int:
        """Number of runs that were measured."""
        return len(self.cpu_seconds)

    def percentile(self, percent: float) -> float:
        """The seconds of this CPU within which so many percent of the runs were complete."""
        if not 0 <= percent <= 100:
            raise ArgumentError(
                f"percentile({percent!r}): this is no number from 0 to 100", fix="pass 50 for the median"
            )
        return float(np.percentile(self.cpu_seconds, percent))

    @property
    def predicted_seconds(self) -> float:
        """The predicted latency on the device, launch included; ``profile.device_time`` is without."""
        return self.profile.latency

    def __str__(self) -> str:
        first, second = self.profile.interval
        names = {0: "min", 50: "median", 100: "max"}
        times = [f"{names.get(each, f'p{each}')} {duration(self.percentile(each))}" for each in PERCENTILES]
        return "\n".join(
            (
                f"{self.profile.name}: {self.iterations} runs after {self.warmup} to warm up",
                f"  this CPU, measured: {', '.join(times)}",
                f"  {self.profile.target}, predicted: {duration(self.predicted_seconds)}, "
                f"between {duration(first)} and {duration(second)}",
                f"  {duration(self.profile.device_time)} of them on the device, "
                f"{duration(self.profile.launch_time)} of launch",
            )
        )

    def __repr__(self) -> str:
        median = duration(self.percentile(50))
        return f"<benchmark of {self.profile.name}: {median} on this CPU, {self.profile!r}>"


def benchmark(
    kernel: Callable[..., Any], *, target: str | None = None, warmup: int = WARMUP, iters: int = ITERATIONS
) -> Callable[..., Benchmark]:
    """``benchmark(kernel)(*args)``: ``iters`` timed native runs on copies of the arrays, and the predicted latency."""

    @functools.wraps(getattr(kernel, "func", kernel))
    def run(*args: Any, **kwargs: Any) -> Benchmark:
        for value in (*args, *kwargs.values()):
            if is_shape_only(value):
                raise KernelArgumentError(
                    f"nki.benchmark runs the kernel, and {value!r} has no data",
                    fix="pass an array; nki.profile takes shapes alone",
                )
        adapter = adapter_for(args, kwargs)
        executable, tensors = as_kernel(kernel).specialise(args, kwargs, adapter)
        times = measure(executable, [adapter.to_numpy(tensor) for tensor in tensors], warmup, iters)
        return Benchmark(warmup, tuple(times), predicted(kernel, target)(*args, **kwargs))

    return run
