"""Perfetto trace of a step.

The first process is the step: its launches, the kernels on the device, and the operations of the framework; those
without a price take no time. Flows lead from a kernel to those that need its result. A process of its own has the
engines of each kernel, in its first launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nki.profiling.steps.step_run import StepLaunch, StepRun
from nki.profiling.summary import SOURCE
from nki.profiling.trace import Slice, Writer, new_writer, write_kernel, write_pieces

_FLOWS: Final = 1 << 40
"""Identifiers of flows for each kernel."""
_PROCESSES: Final = 16
"""Numbers of processes for each kernel: more than it has cores."""


def write(step: StepRun, path: Path) -> Path:
    """Write the trace to ``path``.

    Raises :class:`MissingPackageError` without ``perfetto``, :class:`ProfileFileError` if the file cannot be written.
    """
    return write_pieces(_pieces(step), path)


def trace(step: StepRun) -> bytes:
    """The trace as a serialised ``perfetto.protos.Trace``."""
    return b"".join(_pieces(step))


def _pieces(step: StepRun) -> list[bytes]:
    writer = new_writer()
    _step(writer, step)
    first = {launch.kernel: launch for launch in reversed(step.launches)}
    for number, kernel in enumerate(step.kernels, 1):
        writer.first_flow, writer.first_process = number * _FLOWS, number * _PROCESSES
        writer.begin = _device_begin(first[kernel]) * 1e9
        write_kernel(writer, kernel.profile)
    return writer.serialized()


def _device_begin(launch: StepLaunch) -> float:
    return launch.begin + launch.kernel.profile.launch_time


def _step(writer: Writer, step: StepRun) -> None:
    process = writer.process(1, f"step {step.name} on {step.target} ({SOURCE})")
    flows: dict[int, list[int]] = {}
    pairs = ((earlier, launch.number) for launch in step.launches for earlier in launch.needs)
    for flow, pair in enumerate(pairs, 1):
        for number in pair:
            flows.setdefault(number, []).append(flow)
    launches = (
        Slice("launch", each.begin * 1e9, _device_begin(each) * 1e9, (), {"kernel": each.kernel.title})
        for each in step.launches
    )
    writer.slices(writer.track("Launches", process), launches)
    critical = {each.number for each in step.critical_path}
    kernels = (
        Slice(
            each.kernel.title,
            _device_begin(each) * 1e9,
            each.end * 1e9,
            tuple(each.kernel.profile.origin.arguments),
            {"launch": each.number, "critical": int(each.number in critical)},
            flows.get(each.number, ()),
        )
        for each in step.launches
    )
    writer.slices(writer.track("Kernels", process), kernels)
    if step.operations:
        writer.slices(writer.track("Operations", process), _operations(step))


def _operations(step: StepRun) -> Iterator[Slice]:
    for found in step.operations:
        each, begin = found.operation, found.begin * 1e9
        shapes = {"operands": ", ".join(map(str, each.operands)), "results": ", ".join(map(str, each.results))}
        end = begin + (found.seconds or 0.0) * 1e9
        yield Slice(each.name, begin, end, (), {**shapes, "bytes": each.nbytes, "count": each.count})
