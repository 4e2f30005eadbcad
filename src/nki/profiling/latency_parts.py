"""The parts of the latency: the launch, and each engine on the critical path."""

from __future__ import annotations

from typing import Final

from nki.profiling.metrics import ENGINES, engine_of
from nki.profiling.predicted_run import PredictedRun

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
