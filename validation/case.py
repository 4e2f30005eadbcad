"""A published time, and the prediction of the model for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nki.cost.dma_costs import bandwidth
from nki.ir.estimate import Dma, Matmul
from nki.profiling.kernel_profile import Profile, profile
from nki.sim.timing import Timeline

Span = Literal["benchmark", "kernel", "descriptors"]
"""The time that a published number includes."""


@dataclass(frozen=True)
class Times:
    """Predicted seconds of a case, the interval of the model around them, and the seconds of a naive roofline:
    operations at the peak, or bytes at the bandwidth.
    """

    predicted: float
    interval: tuple[float, float]
    roofline: float


@dataclass(frozen=True)
class Case:
    """``measured`` is the published time in seconds: the least and the greatest, where several were published.

    ``span``: a benchmark's time includes the launch; a profiler's takes the kernel alone, from its first instruction to
    its last result, or begins only when the ``descriptors`` of its first transfer are complete, where the profile shows
    the end of their generation alone.
    """

    family: str
    name: str
    target: str
    measured: tuple[float, float]
    source: str
    kernel: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    span: Span = "kernel"

    def profile(self) -> Profile:
        """The profile of the kernel on the target."""
        return profile(self.kernel, target=self.target)(*self.arguments, **self.options)

    def times(self) -> Times:
        """Prediction, interval and roofline."""
        predicted = self.profile()
        ends = [end.run() for end in predicted.ends]
        if self.span == "descriptors":  # the profile shows that there are some
            ends = [timeline for timeline in ends if any(_descriptors(timeline))]
        seconds, *both = (self.seconds(timeline) for timeline in (predicted.timeline, *ends))
        return Times(seconds, (min(seconds, *both), max(seconds, *both)), roofline(predicted))

    def seconds(self, timeline: Timeline) -> float:
        """The part of a predicted run that the published time includes."""
        match self.span:
            case "benchmark":
                return timeline.ns * 1e-9 + timeline.target.launch_ns * 1e-9
            case "kernel":
                return timeline.ns * 1e-9
            case "descriptors":
                return timeline.ns * 1e-9 - first_descriptors(timeline)

    def error(self, seconds: float) -> float:
        """Relative error of ``seconds``: 0 within what was measured, else against the nearer end."""
        low, high = self.measured
        nearest = min(max(seconds, low), high)
        return seconds / nearest - 1


def first_descriptors(timeline: Timeline) -> float:
    """The seconds until the descriptors of the first transfer with a generator are complete."""
    return min(_descriptors(timeline)) * 1e-9


def _descriptors(timeline: Timeline) -> Iterator[float]:
    """The time in ns at which each generator has the descriptors of a transfer of the first core."""
    core = timeline.cores[0]
    for number, release in zip(core.numbers, core.replay.releases, strict=True):
        if isinstance(one := core.estimates[number], Dma) and one.dge:
            yield release


def roofline(predicted: Profile) -> float:
    """The longer of two times: all operations at the rate of their dtype, all bytes of HBM traffic at the bandwidth."""
    target = predicted.target
    compute = 0.0
    for core in predicted.cores:
        for estimate, runs in zip(core.estimates, core.runs.tolist(), strict=True):
            if isinstance(estimate, Matmul) and estimate.flops:
                compute += runs * (estimate.occupancy - target.matmul_issue_cycles / target.tensor_clock_ghz) * 1e-9
    cores = len(predicted.cores)
    return max(compute / cores, predicted.hbm_bytes / (bandwidth(target) * 1e9 * cores))
