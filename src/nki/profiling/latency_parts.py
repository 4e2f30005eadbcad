"""The parts of the latency: the launch, and each engine on the critical path; and the longest steps of that path."""

from __future__ import annotations

from typing import Final, NamedTuple

from nki.base.source import Span
from nki.profiling.metrics import ENGINES, Step, engine_of
from nki.profiling.predicted_run import PredictedRun

STEPS: Final = 12
"""Steps of the critical path that reports list."""
LAUNCH: Final = "launch"
BETWEEN: Final = "between steps"
"""The part of the latency that no step of the critical path explains."""
LEAST_BETWEEN: Final = 0.005
"""Least part of the latency for which that is told."""


def latency_parts(profile: PredictedRun) -> list[tuple[str, float]]:
    """The parts of the latency, each with its ns: the launch, then the engines of the critical path."""
    ns: dict[str, float] = {}
    for step in profile.critical_path:
        core = profile.cores[step.core]
        engine = engine_of(core.queues[int(core.queue[step.row])])
        ns[engine] = ns.get(engine, 0.0) + step.ns
    parts = [(LAUNCH, profile.launch_time * 1e9)]
    parts += [(engine, ns[engine]) for engine in ENGINES if ns.get(engine)]
    rest = profile.device_time * 1e9 - sum(ns.values())
    if rest > profile.latency * 1e9 * LEAST_BETWEEN:
        parts.append((BETWEEN, rest))
    return parts


class LongStep(NamedTuple):
    """A step of the critical path with what reports say of it; ``iterations`` of a loop that it stands for."""

    step: Step
    queue: str
    mnemonic: str
    iterations: int
    span: Span | None


def longest_steps(profile: PredictedRun) -> list[LongStep]:
    """The :data:`STEPS` longest steps of the critical path, the longest first."""
    result: list[LongStep] = []
    for step in sorted(profile.critical_path, key=lambda step: -step.ns)[:STEPS]:
        core = profile.cores[step.core]
        number, queue = int(core.number[step.row]), core.queues[int(core.queue[step.row])]
        weight = int(core.weight[step.row])
        result.append(LongStep(step, queue, core.instructions[number].mnemonic, weight, core.span(number)))
    return result
