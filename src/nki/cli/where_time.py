"""``nki run --where``: the time of native runs on this host, by source line and by native routine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from nki.backend.cpu.runtime.entry_times import EntryTime
from nki.base.source import source_line
from nki.base.wording import shown_path
from nki.cli.output.documents import HostRoutine, Where, WhereLine
from nki.compilation.executable import Executable

ROWS: Final = 12
"""Lines, and routines, that the text shows; JSON has all."""
_WIDTH: Final = 100


def report(executable: Executable, pointers: Sequence[int], runs: int) -> Where:
    """Launch ``runs`` times, after one launch that is not counted, with a look at the clock around each dispatch entry.

    ``nanoseconds`` and ``calls``: of one run on average; several threads or cores are added up. ``python_calls``:
    entries of one run that call Python. ``with`` of a line: the other lines with instructions that share its loop and
    its time.
    """
    cores = executable.with_times()
    executable.launch(pointers)
    for core in cores:
        core.clear()
    for _ in range(runs):
        executable.launch(pointers)
    entries = [entry for core in cores for entry in core.entries()]
    routines: dict[int, str] = {}
    for entry in entries:
        name = "fill memory" if entry.inst is None else repr(entry.inst).strip("<>")
        routines.setdefault(entry.routine, name)
    return {
        "nanoseconds": sum(entry.nanoseconds for entry in entries) / runs,
        "python_calls": sum(entry.calls for entry in entries if entry.inst and entry.inst.effects.prints) / runs,
        "lines": cast("list[WhereLine]", _summed(entries, runs, _place)),
        "routines": cast("list[HostRoutine]", _summed(entries, runs, lambda entry: _routine(entry, routines))),
    }


_Name = tuple[tuple[str, Any], ...]


def _place(entry: EntryTime) -> _Name:
    spans = [part.where.span for part in entry.parts]
    span = spans[-1] if spans else None
    place = (("file", span.file if span else ""), ("line", span.line if span else 0))
    others = {other.line for other in spans if other is not None and span is not None and other.file == span.file}
    others -= {span.line if span else 0}
    return (*place, ("with", tuple(sorted(others)))) if others else place


def _routine(entry: EntryTime, names: dict[int, str]) -> _Name:
    return (("routine", names[entry.routine]), ("address", entry.routine))


def _summed(entries: Sequence[EntryTime], runs: int, name: Callable[[EntryTime], _Name]) -> list[dict[str, Any]]:
    """Time and calls of the entries of each name, the longest time first."""
    totals: dict[_Name, list[int]] = {}
    for entry in entries:
        total = totals.setdefault(name(entry), [0, 0])
        total[0] += entry.nanoseconds
        total[1] += entry.calls
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
    return f"{shown_path(file)}:{line}" if file else "(inserted by the compiler)"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
