"""``nki run --where``: the time of native runs on this host, by source line and by native routine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from nki.backend.cpu.runtime.row_times import RowTime
from nki.base.source import source_line
from nki.cli.output.documents import HostRoutine, Where, WhereLine
from nki.compilation.executable import Executable

ROWS: Final = 12
"""Lines, and routines, that the text shows; JSON has all."""
_WIDTH: Final = 100


def report(executable: Executable, pointers: Sequence[int], runs: int) -> Where:
    """Launch ``runs`` times, after one launch that is not counted, with a look at the clock around each row.

    ``nanoseconds`` and ``calls`` are those of one run on average; those of several threads or cores are added up.
    ``python_calls``: rows of one run that call Python. ``with`` of a line: the other lines whose instructions share its
    loop and its time.
    """
    cores = executable.with_times()
    executable.launch(pointers)
    for core in cores:
        core.clear()
    for _ in range(runs):
        executable.launch(pointers)
    rows = [row for core in cores for row in core.rows()]
    routines: dict[int, str] = {}
    for row in rows:
        routines.setdefault(row.routine, "fill memory" if row.inst is None else repr(row.inst).strip("<>"))
    return {
        "nanoseconds": sum(row.nanoseconds for row in rows) / runs,
        "python_calls": sum(row.calls for row in rows if row.inst and row.inst.effects.prints) / runs,
        "lines": cast("list[WhereLine]", _summed(rows, runs, _place)),
        "routines": cast("list[HostRoutine]", _summed(rows, runs, lambda row: _routine(row, routines))),
    }


_Name = tuple[tuple[str, Any], ...]


def _place(row: RowTime) -> _Name:
    spans = [part.where.span for part in row.parts]
    span = spans[-1] if spans else None
    place = (("file", span.file if span else ""), ("line", span.line if span else 0))
    others = {other.line for other in spans if other is not None and span is not None and other.file == span.file}
    others -= {span.line if span else 0}
    return (*place, ("with", tuple(sorted(others)))) if others else place


def _routine(row: RowTime, names: dict[int, str]) -> _Name:
    return (("routine", names[row.routine]), ("address", row.routine))


def _summed(rows: Sequence[RowTime], runs: int, name: Callable[[RowTime], _Name]) -> list[dict[str, Any]]:
    """Time and calls of the rows of each name, the longest time first."""
    totals: dict[_Name, list[int]] = {}
    for row in rows:
        total = totals.setdefault(name(row), [0, 0])
        total[0] += row.nanoseconds
        total[1] += row.calls
    ordered = sorted(totals.items(), key=lambda item: -item[1][0])
    return [
        {key: value for key, value in named if key != "address"} | {"nanoseconds": ns / runs, "calls": calls / runs}
        for named, (ns, calls) in ordered
    ]


def text(where: Where) -> list[str]:
    """The report as lines of text."""
    total = where["nanoseconds"]
    calls = where["python_calls"]
    lines = [f"  {_micro(total)} in native routines, {calls:g} call{'s' * (calls != 1)} into Python"]
    places = [_shown(entry["file"], entry["line"]) for entry in where["lines"]]
    width = max(map(len, [*places[:ROWS], "line"]))
    lines += ["", f"  {'line':<{width}}  {'time':>10}  {'share':>6}  {'calls':>6}"]
    for entry, place in zip(where["lines"][:ROWS], places, strict=False):
        source = source_line(entry["file"], entry["line"]).strip()
        shared = entry.get("with", ())
        others = f"  (one loop with line{'s' * (len(shared) > 1)} {', '.join(map(str, shared))})" if shared else ""
        lines.append(_cut(f"  {place:<{width}}  {_numbers(entry, total)}  {source}") + others)
    lines += _rest(where["lines"], total)
    lines += ["", f"  {'':<{width}}  {'time':>10}  {'share':>6}  {'calls':>6}  routine, by its first use"]
    for entry in where["routines"][:ROWS]:
        lines.append(_cut(f"  {'':<{width}}  {_numbers(entry, total)}  {entry['routine']}"))
    return [*lines, *_rest(where["routines"], total)]


def _numbers(entry: WhereLine | HostRoutine, total: float) -> str:
    share = entry["nanoseconds"] / total if total else 0.0
    return f"{_micro(entry['nanoseconds']):>10}  {share * 100:>4.1f} %  {entry['calls']:>6g}"


def _micro(nanoseconds: float) -> str:
    return f"{nanoseconds * 1e-3:.1f} µs"


def _rest(entries: Sequence[WhereLine | HostRoutine], total: float) -> list[str]:
    rest = sum(entry["nanoseconds"] for entry in entries[ROWS:])
    return [f"  {len(entries) - ROWS} more: {rest / total * 100:.1f} %"] if rest else []


def _shown(file: str, line: int) -> str:
    if not file:
        return "(inserted by the compiler)"
    path = Path(file)
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line}"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
