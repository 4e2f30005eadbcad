"""Times of native runs on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nki.base.errors import ArgumentError, DeviceOnlyError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.compilation.executable import Executable

_STATED = "is the time of native code on the CPU of this machine: it says nothing of Trainium"


class Latency:
    """Times of native runs on the CPU of this machine, where harnesses expect the latency of a NeuronCore."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self.cpu_seconds = tuple(seconds)

    def get_latency_percentile(self, percentile: float) -> float:
        """The time, in microseconds of this CPU, within which so many percent of the runs were complete."""
        if not 0 <= percentile <= 100:
            raise ArgumentError(f"get_latency_percentile({percentile!r}): no percentile", fix="pass 0 to 100")
        warn_here(f"get_latency_percentile {_STATED}", NkiPortabilityWarning)
        return float(np.percentile(self.cpu_seconds, percentile)) * 1e6

    def __repr__(self) -> str:
        return f"<median of {len(self.cpu_seconds)} runs on this CPU: {np.median(self.cpu_seconds) * 1e6:.1f} us>"


class BenchmarkResult:
    """The outcome of ``nki.benchmark``. ``cpu_latency`` and ``nc_latency`` are the same times, of this CPU."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self.cpu_latency = self.nc_latency = Latency(seconds)

    def __repr__(self) -> str:
        return f"BenchmarkResult(cpu_latency={self.cpu_latency})"


class ModelTimes:
    """The outcome of ``SpikeModel.benchmark``, named like ``nrtpy.BenchmarkResult``: milliseconds of this CPU."""

    def __init__(self, seconds: Sequence[float], warmup: int) -> None:
        self.durations_ms = [each * 1e3 for each in seconds]
        self.mean_ms = float(np.mean(self.durations_ms))
        self.min_ms = min(self.durations_ms)
        self.max_ms = max(self.durations_ms)
        self.std_dev_ms = float(np.std(self.durations_ms))
        self.iterations = len(self.durations_ms)
        self.warmup_iterations = warmup
        warn_here(f"the result of benchmark {_STATED}", NkiPortabilityWarning)


class KernelTimes(ModelTimes):
    """The outcome of ``CompiledKernel.benchmark``: seconds of this CPU, and what the kernel computed."""

    def __init__(self, seconds: Sequence[float], warmup: int, outputs: Mapping[str, Any]) -> None:
        super().__init__(seconds, warmup)
        self.latency, self.latency_std = float(np.mean(seconds)), float(np.std(seconds))
        self.latency_min, self.latency_max = min(seconds), max(seconds)
        self.outputs = dict(outputs)

    @property
    def estimated_utilization(self) -> float:
        """Not known here: raises :class:`DeviceOnlyError`."""
        raise DeviceOnlyError(
            "estimated_utilization is a share of Trainium's peak, and the kernel ran on this machine's CPU",
            fix="read the prediction of `nki profile`",
        )


def measure(executable: Executable, inputs: Sequence[Any], warmup: int, runs: int) -> list[float]:
    """Seconds of each of ``runs`` launches after ``warmup`` others, on copies of ``inputs``."""
    for name, value, least in (("warmup", warmup, 0), ("iters", runs, 1)):
        if type(value) is not int or value < least:
            raise ArgumentError(f"{name}={value!r}: this is no number of runs", fix=f"pass {least} or more")
    arrays, outputs = _buffers(executable, inputs)
    pointers = [array.ctypes.data for array in arrays + outputs]
    seconds: list[float] = []
    for _ in range(warmup + runs):
        started = time.perf_counter()
        executable.launch(pointers)
        seconds.append(time.perf_counter() - started)
    return seconds[warmup:]


def _buffers(executable: Executable, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Copies of the inputs, and an array for each output; what the kernel changes is both."""
    arrays = [np.array(array, order="C") for array in inputs]
    outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
    for output, number in executable.changes.items():
        outputs[output] = arrays[number]
    return arrays, outputs


def run(executable: Executable, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on arrays by name, and write the results into ``outputs``."""
    arrays, results = _buffers(executable, [inputs[spec.name] for spec in executable.inputs])
    executable.launch([array.ctypes.data for array in arrays + results])
    for spec, array in zip(executable.outputs, results, strict=True):
        if spec.name in outputs:
            result = outputs[spec.name]
            result[...] = array.reshape(spec.shape).view(result.dtype)
    for number in executable.changes.values():
        changed = inputs[executable.inputs[number].name]
        changed[...] = arrays[number]
