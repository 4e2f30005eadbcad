"""The profile of a step as a record. Times are seconds."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from nki.profiling.record import details
from nki.profiling.steps.step_run import ASSUMPTIONS, StepRun
from nki.profiling.summary import SOURCE, summary


class StepKernelRecord(TypedDict):
    """A kernel of a step, specialised for its arguments."""

    kernel: Annotated[str, "its title: the name, with arguments where several have it"]
    launches: Annotated[int, "its launches in the step"]
    latency: Annotated[float, "of one launch; s"]
    total: Annotated[float, "of all its launches; s"]
    share: Annotated[float, "the part of the step that they take; of 1"]
    report: Annotated[dict[str, Any], "its own session, as `nki profile` has it"]


class StepLaunchRecord(TypedDict):
    """A launch in a step; they are in the order of time."""

    kernel: Annotated[str, "the title of its kernel"]
    begin: Annotated[float, "s from the beginning of the step"]
    seconds: Annotated[float, "the launch and the kernel on the device; s"]
    needs: Annotated[list[int], "launches with results that it needs, from 0; without those that these need"]


class StepOperation(TypedDict):
    """Operations of a framework that have no price: equal ones on tensors of equal types."""

    name: Annotated[str, "the operator of PyTorch, or the primitive of JAX"]
    count: Annotated[int, "how often it is called"]
    operands: Annotated[list[str], "the types of its tensors, such as `128x512:float32`"]
    results: Annotated[list[str], "the types of its results"]
    bytes: Annotated[int, "bytes of operands and results of one call; of a collective of its results"]
    is_collective: Annotated[bool, "true if it moves data between devices"]


class StepRecord(TypedDict):
    """A step: the kernels that a function of a framework launches, and what it does between them."""

    source: Annotated[str, "`open-nki model`: a prediction, no measurement"]
    step: Annotated[str, "the name of the function"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    latency: Annotated[float, "all launches and operations with a price, one after the other; s"]
    device_time: Annotated[float, "the kernels on the device; s"]
    launch_time: Annotated[float, "the launches beside that; s"]
    operation_time: Annotated[float, "operations of the framework that have a price; s"]
    latency_min: Annotated[float, "the latency at the fast end, with one launch for the whole step; s"]
    latency_max: Annotated[float, "the latency at the slow end; s"]
    critical_time: Annotated[float, "the latencies of the critical path; s"]
    critical_path: Annotated[
        list[int], "the longest chain of launches that need each other's results, by their numbers"
    ]
    kernels: Annotated[list[StepKernelRecord], "the kernels, in the order of their first launches"]
    launches: Annotated[list[StepLaunchRecord], "the launches"]
    unpriced: Annotated[list[StepOperation], "what is not in these times"]
    assumptions: Annotated[list[str], "what the model assumes"]
    notes: Annotated[list[str], "what the trace does not know, such as the iterations of a `while` loop"]


def record(step: StepRun) -> StepRecord:
    """``step`` as a record."""
    return {
        "source": SOURCE,
        "step": step.name,
        "target": step.target.name,
        "latency": step.latency,
        "device_time": step.device_time,
        "launch_time": step.launch_time,
        "operation_time": step.operation_time,
        "latency_min": step.interval[0],
        "latency_max": step.interval[1],
        "critical_time": step.critical_time,
        "critical_path": [each.number for each in step.critical_path],
        "kernels": [
            {
                "kernel": each.title,
                "launches": each.launches,
                "latency": each.profile.latency,
                "total": each.latency,
                "share": step.share(each),
                "report": {**summary(each.profile), **details(each.profile)},
            }
            for each in step.kernels
        ],
        "launches": [
            {
                "kernel": each.kernel.title,
                "begin": each.begin,
                "seconds": each.kernel.profile.latency,
                "needs": list(each.needs),
            }
            for each in step.launches
        ],
        "unpriced": [
            {
                "name": each.name,
                "count": each.count,
                "operands": list(each.operands),
                "results": list(each.results),
                "bytes": each.bytes,
                "is_collective": each.is_collective,
            }
            for each in step.unpriced
        ],
        "assumptions": list(ASSUMPTIONS),
        "notes": step.notes,
    }
