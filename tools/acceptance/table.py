"""The table of a run: a row for each kernel of the library, as markdown and as JSON."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.acceptance import phases
from tools.acceptance.journal import Record
from tools.acceptance.library import Test, kernel_of

_GIB: Final = 1 << 30
_TIMES: Final = (phases.RECORD, phases.COMPILE, phases.RUN, phases.REFERENCE)
HEAD: Final = (
    "kernel",
    "collected",
    "run",
    "compared",
    "right",
    "both executors",
    "refused as it must",
    "nothing compared",
    "failed, by cause",
    "skipped, by cause",
    "instructions",
    *(f"{name} s" for name in _TIMES),
    "SBUF",
    "PSUM",
    "host GiB",
    "trn2 µs",
    "trn3 µs",
)


@dataclass
class Row:
    """The tests of one kernel. ``compared`` counts tests with a comparison to a reference, the ones that fail too;
    times, peaks and latencies are lists with an item for each test.
    """

    kernel: str
    collected: int = 0
    run: int = 0
    compared: int = 0
    right: int = 0
    both: int = 0
    refusals: int = 0
    uncompared: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])
    skipped: Counter[str] = field(default_factory=Counter[str])
    instructions: list[int] = field(default_factory=list[int])
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _TIMES})
    sbuf: int = 0
    psum: int = 0
    host: int = 0
    latency: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, record: Record) -> None:
        """Count one test."""
        launches: Sequence[Mapping[str, Any]] = record.get("launches", ())
        self.run += 1
        is_compared = any(numbers.get("compared") for numbers in launches)
        self.compared += is_compared
        match record["outcome"]:
            case "passed" if is_compared:
                self.right += 1
                self.both += all(numbers.get("executors") == "both" for numbers in launches)
            case "passed" if any("compared" not in numbers for numbers in launches):
                self.refusals += 1
            case "passed":
                self.uncompared += 1
            case "failed":
                self.failed[record.get("cause", "?")] += 1
            case _:
                self.skipped[record.get("cause", record["outcome"])] += 1
        self._measure(record, launches)

    def _measure(self, record: Record, launches: Iterable[Mapping[str, Any]]) -> None:
        for name, times in self.seconds.items():
            if name in record.get("seconds", {}):
                times.append(record["seconds"][name])
        self.host = max(self.host, record.get("peak", 0))
        for numbers in launches:
            if "instructions" in numbers:
                self.instructions.append(numbers["instructions"])
            if "latency" in numbers:
                self.latency[record["platform"]].append(numbers["latency"] * 1e6)
            self.sbuf = max(self.sbuf, numbers.get("sbuf", 0))
            self.psum = max(self.psum, numbers.get("psum", 0))

    def cells(self) -> list[str]:
        """The row of the markdown table."""
        counts = (self.collected, self.run, self.compared, self.right, self.both, self.refusals, self.uncompared)
        return [
            self.kernel,
            *(f"{count:,}" for count in counts),
            _causes(self.failed),
            _causes(self.skipped),
            _range(self.instructions, 0),
            *(_range(times, 2) for times in self.seconds.values()),
            f"{self.sbuf:,}",
            f"{self.psum:,}",
            f"{self.host / _GIB:.2f}",
            *(_range(self.latency.get(platform, []), 1) for platform in ("trn2", "trn3")),
        ]


class Table:
    """Rows of ``records``, of tests among the ``collected`` ones. ``name`` has the date and both commits."""

    def __init__(self, collected: Iterable[Test], records: Iterable[Record], name: Mapping[str, str]) -> None:
        self.name, self.records = dict(name), list(records)
        rows = {test.kernel: Row(test.kernel) for test in sorted(collected)}
        for test in collected:
            rows[test.kernel].collected += 1
        for record in self.records:
            kernel = kernel_of(record["id"])
            rows.setdefault(kernel, Row(kernel)).add(record)
        self.rows = [rows[kernel] for kernel in sorted(rows)]

    def as_json(self) -> str:
        """All numbers, with each test that failed."""
        rows = [vars(row) | {"latency": dict(row.latency)} for row in self.rows]
        kept = ("id", "platform", "cause", "text", "where")
        failed = [{key: r.get(key, "") for key in kept} for r in self.records if r["outcome"] == "failed"]
        return json.dumps({**self.name, "rows": rows, "failed": failed, "slowest": self.slowest()}, indent=1)

    def as_markdown(self) -> str:
        """The table, the causes of all failures, and the slowest tests."""
        lines = [self.summary(), "", f"| {' | '.join(HEAD)} |", f"|---|{'--:|' * (len(HEAD) - 1)}"]
        lines += [f"| {' | '.join(row.cells())} |" for row in self.rows if row.run]
        untouched = [f"{row.kernel} ({row.collected})" for row in self.rows if not row.run]
        if untouched:
            lines += ["", f"Not run: {', '.join(untouched)}."]
        for name, rows in self.slowest().items():
            lines += ["", f"| slowest to {name} | seconds | instructions |", "|---|--:|--:|"]
            lines += [f"| `{test}` | {seconds:.1f} | {count:,} |" for test, seconds, count in rows]
        if off := self._launches("hazards_off", lambda _, numbers: numbers["hazards_off"].partition(":")[0]):
            lines += ["", f"Refused for undefined results, with OPEN_NKI_HAZARDS=0: {_causes(off)}."]
        if spilled := self._launches("spills", lambda record, _: record["outcome"]):
            lines += ["", f"Do not fit on chip, and spill: {_causes(spilled)}."]
        return "\n".join(lines) + "\n"

    def _launches(self, key: str, outcome: Callable[[Record, Mapping[str, Any]], str]) -> Counter[str]:
        """The outcomes of the launches that have ``key`` among their numbers."""
        found = ((record, numbers) for record in self.records for numbers in record.get("launches", ()))
        return Counter(outcome(record, numbers) for record, numbers in found if key in numbers)

    def summary(self) -> str:
        """One sentence with the numbers of all kernels."""
        run, right, refusals = (sum(getattr(row, name) for row in self.rows) for name in ("run", "right", "refusals"))
        failed, skipped = Counter[str](), Counter[str]()
        for row in self.rows:
            failed += row.failed
            skipped += row.skipped
        uncompared = sum(row.uncompared for row in self.rows)
        collected = sum(row.collected for row in self.rows)
        return (
            f"{self.name['date']}, library {self.name['library']}, Open NKI {self.name['ours']}: {run:,} of "
            f"{collected:,} tests run: {right:,} agree with their references, {refusals:,} are refused as they must, "
            f"{uncompared:,} pass and compare nothing, {failed.total():,} failed ({_causes(failed) or 'none'}), "
            f"{skipped.total():,} skipped."
        )

    def slowest(self, count: int = 10) -> dict[str, list[tuple[str, float, int]]]:
        """The ``count`` tests that take longest to record and compile, and to run: id, seconds, instructions."""
        parts = {"compile": (phases.RECORD, phases.COMPILE), "run": (phases.RUN,)}
        result: dict[str, list[tuple[str, float, int]]] = {}
        for name, summed in parts.items():
            rows = [
                (
                    f"{r['platform']} {r['id'].removeprefix('integration/nkilib/')}",
                    sum(r.get("seconds", {}).get(phase, 0.0) for phase in summed),
                    max((numbers.get("instructions", 0) for numbers in r.get("launches", ())), default=0),
                )
                for r in self.records
            ]
            result[name] = sorted(rows, key=lambda row: -row[1])[:count]
        return result


def _causes(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in counts.most_common()).replace("|", "/")


def _range(values: Sequence[float], digits: int) -> str:
    """Median, and the most behind it where that is another number."""
    if not values:
        return ""
    middle, most = (f"{value:,.{digits}f}" for value in (statistics.median(values), max(values)))
    return middle if middle == most else f"{middle}, max {most}"
