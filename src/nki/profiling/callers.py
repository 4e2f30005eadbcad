"""Costs by call: of a line in a function that is called from several places, and of each call as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nki.base.source import Span, source_line
from nki.profiling import metrics
from nki.profiling.events import CoreEvents
from nki.profiling.metrics import Cost, Step

Calls = tuple[Span, ...]
"""The calls that lead to an instruction, outermost first."""


@dataclass(frozen=True, slots=True)
class Callers:
    """The costs of a profile by the calls that lead to them, the greatest part of the critical path first; ns.

    ``of_line``: for each line that several calls reach, its cost by these calls. ``of_call``: for each call in a
    kernel, the cost of all that happens in it.
    """

    of_line: dict[Span, dict[Calls, Cost]]
    of_call: dict[Span, Cost]

    def distinct(self, line: Span | None) -> Iterator[tuple[Calls, Cost]]:
        """The calls that reach a line, with its cost by each; without those that all have in common at both ends."""
        paths = self.of_line.get(line, {}) if line is not None else {}
        if not paths:
            return
        first = _shared(list(paths))
        last = _shared([calls[first:][::-1] for calls in paths])
        for calls, cost in paths.items():
            yield calls[first : len(calls) - last], cost


def callers(cores: Sequence[CoreEvents], critical_path: Sequence[Step]) -> Callers:
    """The costs of a run by call."""
    by_path = metrics.costs(cores, critical_path, _path)
    of_line: dict[Span, dict[Calls, Cost]] = {}
    parts: dict[Span, list[Cost]] = {}
    for (line, calls), cost in by_path.items():
        if line is not None and calls:
            of_line.setdefault(line, {})[calls] = cost
        for call in dict.fromkeys(calls):  # one that comes again, of a recursion, counts once
            parts.setdefault(call, []).append(cost)
    several = {line: paths for line, paths in of_line.items() if len(paths) > 1}
    of_call = {call: total_of(costs) for call, costs in parts.items()}
    ordered = sorted(of_call.items(), key=lambda item: (-item[1].critical, -item[1].busy))
    return Callers(several, dict(ordered))


def _path(events: CoreEvents, number: int) -> tuple[Span | None, Calls]:
    return metrics.by_line(events, number), events.instructions[number].where.stack


def total_of(costs: Iterable[Cost]) -> Cost:
    """The sum of ``costs``."""
    total = Cost()
    for cost in costs:
        total.busy += cost.busy
        total.critical += cost.critical
        total.executions += cost.executions
        total.hbm_bytes += cost.hbm_bytes
        for engine, ns in cost.engines.items():
            total.engines[engine] = total.engines.get(engine, 0.0) + ns
    return total


def _shared(paths: list[Calls]) -> int:
    """The number of first calls that all ``paths`` have in common; of the shortest at least one is left."""
    most = min(map(len, paths)) - 1
    return next((n for n in range(most) if len({calls[n] for calls in paths}) > 1), max(most, 0))


def call_text(call: Span) -> str:
    """The text of a call, as it stands in its file; empty if that may not be shown."""
    line = source_line(call.file, call.line)
    return line[call.column : call.end_column or None].strip()
