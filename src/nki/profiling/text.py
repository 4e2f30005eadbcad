"""A profile as text for a terminal: the answer first, then where the time goes, then what to do about it."""

from __future__ import annotations

import itertools
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from nki.base.source import Span, source_line
from nki.base.terms import TERMS, limit, resource_name
from nki.profiling.advice import AdvisedRun
from nki.profiling.against.calibration import about_facts
from nki.profiling.amounts import count, duration, number, percent, place, short, size
from nki.profiling.callers import Calls, call_text, total_of
from nki.profiling.draws import ranking_of
from nki.profiling.metrics import LEAST_WORTH, Cost, EngineUse, changed_lines
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.titles import titles

BAR = 24
"""Characters of a bar; a narrow text has shorter ones."""
LINES = 8
"""Source lines that are listed, unless more are asked for."""
CALLERS = 3
"""Calls that are listed below a line in a function that several calls reach; all of them with all lines."""
HEADINGS: Final = ("stalled", "critical", "HBM", "MFU", "MBU", "ridge")
"""Words of the text that its last lines explain, beside the causes of stalls."""
WIDTH = 100
"""Columns of the text; source lines are cut to it."""
WIDTHS: Final = (60, 160)
"""Least and most columns that the text can be given."""


def report(profile: AdvisedRun, width: int = WIDTH, lines: int | None = LINES) -> str:
    """The profile in about 40 lines of ``width`` columns, within :data:`WIDTHS`; with ``lines`` lines of the source, or
    all of them (None).
    """
    width = min(max(width, WIDTHS[0]), WIDTHS[1])
    parts = [_head(profile, width), _engines(profile, width), _transfers(profile), _lines(profile, width, lines)]
    parts += [_memory(profile, width), _advice(profile, width)]
    shown = "\n\n".join(filter(None, parts))
    return "\n".join([shown, "", *_words(profile, shown, width)])


def _words(profile: PredictedRun, shown: str, width: int) -> list[str]:
    """The meaning of the words in the text that not everyone knows."""
    used = {word for word in HEADINGS if word in shown} | {cause for use in profile.engines for cause in use.stalls}
    if any(use.throttled for use in profile.engines):
        used.add("slow clock")
    words = [word for word in TERMS if word in used]
    longest = max(map(len, words), default=0)
    rows = ["  words"]
    for word in words:
        rows += _wrapped(f"{word:<{longest}}  {TERMS[word]}", "  ", width, " " * (longest + 2))
    return rows


def _head(profile: PredictedRun, width: int) -> str:
    first, second = profile.interval
    bound = profile.lower_bound
    texts = (
        f"{duration(profile.device_time)} on the device, {duration(profile.launch_time)} of launch; "
        f"{duration(profile.total_time)} in a profiler's capture",
        f"at least {duration(bound.seconds)} in any order of these instructions: {limit(bound.resource)}",
        f"{count(profile.instructions, 'instruction')}, {size(profile.hbm_bytes)} to and from HBM, "
        f"{number(profile.flops)}FLOP in products",
        f"MFU {percent(profile.mfu)}, MBU {percent(profile.mbu)}; {_intensity(profile)}",
        *about_assumptions(profile),
        *about_facts(profile.target),
    )
    title = (
        f"{profile.name} on {profile.target}: {duration(profile.latency)}, "
        f"between {duration(first)} and {duration(second)}"
    )
    return "\n".join([*_wrapped(title, "", width), *(row for text in texts for row in _wrapped(text, "  ", width))])


def about_assumptions(profile: PredictedRun) -> list[str]:
    """A row for each assumption about another compiler, with what it adds to the range; and for each aside that
    changes the latency by :data:`LEAST_WORTH` or more.
    """
    rows: list[str] = []
    for each, _, part in profile.worths:
        if each.end == "aside" and abs(part) < LEAST_WORTH:
            continue
        sign = "\N{MINUS SIGN}" if each.end == "fast" or part < 0 else "+"
        aside = " of the latency, and not in the range" if each.end == "aside" else ""
        rows.append(f"{each.name}: {sign}{percent(abs(part))}{aside}: {each.about}")
    return rows


def _intensity(profile: PredictedRun) -> str:
    if not profile.flops:
        return "no products"
    intensity, ridge = profile.intensity, profile.ridge
    limit = "transfers" if intensity < ridge else "the Tensor engine"
    return f"{short(intensity)} FLOP per byte, ridge at {short(ridge)}: {limit} would be the limit"


def _engines(profile: PredictedRun, width: int) -> str:
    if not profile.engines:
        return ""
    several = len(profile.cores) > 1
    total = profile.timeline.ns
    cells = BAR if width >= WIDTH else BAR - min(WIDTH - width, 2 * BAR // 3)
    legend = "busy █  stalled ▒" if cells >= 17 else "█ ▒"
    names = [f"{use.core}.{use.engine}" if several else use.engine for use in profile.engines]
    column = max(10, *map(len, names))
    rows = [f"  {'engine':<{column}}  {legend:<{cells}}     busy  stalled  waiting for"]
    for name, use in zip(names, profile.engines, strict=True):
        shares = f"{percent(_part(use.busy, total)):>7}  {percent(_part(use.stalled, total)):>7}"
        row = f"  {name:<{column}}  {bar(use, total, cells)}  {shares}  "
        causes = _wrapped(_causes(use, total), "", max(width - len(row), 16), "") or [""]
        rows.append(f"{row}{causes[0]}".rstrip())
        rows += [" " * len(row) + more for more in causes[1:]]
    return "\n".join(rows)


def bar(use: EngineUse, total: float, width: int = BAR) -> str:
    """The parts of the time in which an engine is busy, stalled and idle; a part that is not 0 has a character."""
    busy = _cells(use.busy, total, width)
    stall = min(_cells(use.stalled, total, width), width - busy)
    return "█" * busy + "▒" * stall + "·" * (width - busy - stall)


def _cells(part: float, total: float, width: int) -> int:
    return min(width, max(1, round(width * part / total))) if part > 0 and total else 0


def _causes(use: EngineUse, total: float) -> str:
    causes = [f"{name.removeprefix('waits for ')} {percent(_part(ns, total))}" for name, ns in use.causes[:3]]
    if use.throttled > 0:
        causes.append(f"(slow clock {percent(_part(use.throttled, total))} of busy)")
    return ", ".join(causes)


def _part(part: float, total: float) -> float:
    return part / total if total else 0.0


def _transfers(profile: PredictedRun) -> str:
    if not profile.transfers:
        return ""
    rows = [f"  {'DMA transfers':<16}  {'count':>7}  {'bytes':>9}  {'rate':>10}"]
    for row in profile.transfers:
        rate = f"{row.bytes / row.busy:.3g} GB/s" if row.busy else ""
        rows.append(f"  {'up to ' + size(row.up_to):<16}  {row.count:>7}  {size(row.bytes):>9}  {rate:>10}")
    return "\n".join(rows)


def _lines(profile: PredictedRun, width: int, most: int | None) -> str:
    costs = list(profile.lines.items())
    if not costs:
        return ""
    rows: list[tuple[str, Cost, str]] = []
    for span, cost in costs[:most]:
        rows.append((place(span), cost, source_line(span.file, span.line).strip() if span else ""))
        paths = sorted(profile.callers.distinct(span), key=lambda path: -path[1].critical)
        shown = paths[: most and CALLERS]
        rows += [(f"  from {_call(calls)}", cost, call_text(calls[-1])) for calls, cost in shown]
        if others := paths[len(shown) :]:
            rows.append((f"  from {count(len(others), 'other call')}", total_of(cost for _, cost in others), ""))
    names = [name for name, _, _ in rows]
    if width < WIDTH:  # so that the line itself still has room
        names = [name if name.startswith(" ") else name.rpartition(os.sep)[2] for name in names]
    longest = max(map(len, names))
    total = profile.timeline.ns
    texts = [f"  {'line':<{longest}}  critical  {'busy':>8}  {'HBM':>9}"]
    for name, (_, cost, code) in zip(names, rows, strict=True):
        numbers = f"{percent(_part(cost.critical, total)):>8}  {_cost(cost)}"
        texts.append(_cut(f"  {name:<{longest}}  {numbers}  {code}", width))
    if rest := costs[len(costs[:most]) :]:
        critical = sum(cost.critical for _, cost in rest)
        texts.append(f"  {count(len(rest), 'other line')}: {percent(_part(critical, total))} (--lines all shows them)")
    return "\n".join(texts)


def _call(calls: Calls) -> str:
    """Calls that lead to a line, outermost first; a file is named once."""
    names = [place(calls[0])]
    names += [str(call.line) if call.file == before.file else place(call) for before, call in itertools.pairwise(calls)]
    return " > ".join(names)


def _cost(cost: Cost) -> str:
    moved = size(cost.hbm_bytes) if cost.hbm_bytes else ""
    return f"{duration(cost.busy * 1e-9):>8}  {moved:>9}"


def _memory(profile: PredictedRun, width: int) -> str:
    peaks = profile.peak_memory
    parts = [
        f"{memory.upper()} {peaks[memory]} of {available} bytes ({percent(peaks[memory] / available)})"
        for memory, available in profile.available_memory.items()
    ]
    return "\n".join(_wrapped(f"most memory in use per partition: {', '.join(parts)}", "  ", width))


def _advice(profile: AdvisedRun, width: int) -> str:
    rows: list[str] = []
    for each in profile.advice:
        most = "up to " if each.at_most else ""
        condition = f", with {each.condition}" if each.condition else ""
        title = f"{most}{duration(each.seconds)} less{condition}: {each.title}{_places(each.lines)}"
        rows.extend(_wrapped(title, "  ", width))
        for text in filter(None, (each.evidence, each.remedy)):
            rows.extend(_wrapped(text, "    ", width))
    if not rows:
        none = f"no advice: no change that the model knows gains {LEAST_WORTH:.0%} of the latency"
        return "\n".join(_wrapped(none, "  ", width))
    return "\n".join(["  advice, by what it saves", *rows])


def _wrapped(text: str, indent: str, width: int, more: str = "  ") -> list[str]:
    """The lines of ``text``; a number and its ``%`` stay together."""
    together = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(
        together, width, initial_indent=indent, subsequent_indent=indent + more, break_on_hyphens=False
    )
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines]


def _places(spans: Sequence[Span]) -> str:
    """Up to three source lines in brackets, and the number of the others."""
    names = [place(span) for span in spans[:3]]
    if len(spans) > 3:
        names.append(count(len(spans) - 3, "other"))
    return f" ({', '.join(names)})" if names else ""


def side_by_side(profiles: Sequence[PredictedRun]) -> str:
    """Profiles in columns under their titles, the first as the measure of the others."""
    rows = [("", titles(profiles))]
    rows += [(name, [show(profile) for profile in profiles]) for name, show, _ in _MEASURES]
    first = profiles[0]
    rows.append(("speedup", ["", *(f"{first.latency / each.latency:.2f} x" for each in profiles[1:])]))
    rows += [(name, list(map(percent, shares))) for name, shares in _busy_shares(profiles)]
    return columns(rows)


def compared(first: PredictedRun, second: PredictedRun) -> str:
    """Two profiles side by side, with the difference of each measure."""
    return "\n\n".join(filter(None, [columns(comparison_rows(first, second)), _changed_lines(first, second)]))


def comparison_rows(first: PredictedRun, second: PredictedRun) -> list[tuple[str, list[str]]]:
    """The rows of a comparison: a name, and the cells of both profiles and of their difference; the titles first."""
    rows = [("", [*titles([first, second]), "difference"])]
    for name, show, value in _MEASURES:
        change = _difference(value(first), value(second), points=show(first).endswith("%")) if value else ""
        rows.append((name, [show(first), show(second), change]))
    rows.append(("speedup", ["", f"{first.latency / second.latency:.2f} x", ""]))
    if (ranking := ranking_of(first, second)) is not None:
        rows.append(("sure", ["", str(ranking), ""]))
    for name, shares in _busy_shares([first, second]):
        rows.append((name, [*map(percent, shares), _difference(*shares, points=True)]))
    return rows


def measures(first: PredictedRun, second: PredictedRun) -> list[tuple[str, float, float]]:
    """The measures of a comparison as numbers: a name, the first profile's and the second profile's."""
    rows = [(name, value(first), value(second)) for name, _, value in _MEASURES if value is not None]
    return rows + [(name, one, other) for name, (one, other) in _busy_shares([first, second])]


def _busy_shares(profiles: Sequence[PredictedRun]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Each engine that one of ``profiles`` uses, with the part of the time in which it is busy in each of them."""
    for name in dict.fromkeys(use.engine for profile in profiles for use in profile.engines):
        yield f"{name} busy", tuple(busy_share(profile, name) for profile in profiles)


def _changed_lines(first: PredictedRun, second: PredictedRun) -> str:
    """The lines of the kernel that changed most in their part of the critical path, if both profiles are of one
    kernel.
    """
    largest = changed_lines(first.lines, second.lines)[:LINES]
    if not largest:
        return ""
    width = max(len(place(span)) for span, _ in largest)
    rows = [f"  {'line':<{width}}  change of its critical time"]
    for span, change in largest:
        sign = "-" if change < 0 else "+"
        rows.append(f"  {place(span):<{width}}  {sign}{duration(abs(change) * 1e-9)}")
    return "\n".join(rows)


def busy_share(profile: PredictedRun, engine: str) -> float:
    """The part of the time in which an engine is busy, as the mean of the cores; 0 if nothing runs on it."""
    uses = [use.busy for use in profile.engines if use.engine == engine]
    whole = profile.timeline.ns * len(profile.cores)
    return _part(sum(uses), whole)


def _difference(first: float, second: float, *, points: bool) -> str:
    """The change in percent of ``first``; of shares (``points``) in points."""
    if points:
        return f"{100 * (second - first):+.1f} points"
    return f"{100 * (second - first) / first:+.1f} %" if first else ""


_Measure = tuple[str, Callable[[PredictedRun], str], Callable[[PredictedRun], float] | None]
_MEASURES: Final[tuple[_Measure, ...]] = (
    ("latency", lambda p: duration(p.latency), lambda p: p.latency),
    ("at best", lambda p: duration(p.interval[0]), lambda p: p.interval[0]),
    ("at worst", lambda p: duration(p.interval[1]), lambda p: p.interval[1]),
    ("on the device", lambda p: duration(p.device_time), lambda p: p.device_time),
    ("in any order", lambda p: duration(p.lower_bound.seconds), lambda p: p.lower_bound.seconds),
    ("because of", lambda p: resource_name(p.lower_bound.resource), None),
    ("MFU", lambda p: percent(p.mfu), lambda p: p.mfu),
    ("MBU", lambda p: percent(p.mbu), lambda p: p.mbu),
    ("FLOP per byte", lambda p: short(p.intensity), lambda p: p.intensity),
    ("HBM traffic", lambda p: size(p.hbm_bytes), lambda p: p.hbm_bytes),
    ("SBUF peak", lambda p: f"{p.peak_memory['sbuf']} bytes", lambda p: p.peak_memory["sbuf"]),
    ("PSUM peak", lambda p: f"{p.peak_memory['psum']} bytes", lambda p: p.peak_memory["psum"]),
)
"""Measures that stand side by side: name, text, and the number that is compared."""


def columns(rows: Iterable[tuple[str, list[str]]]) -> str:
    """Names and their cells, one below the other."""
    rows = list(rows)
    names = max(len(name) for name, _ in rows)
    widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
    texts = [
        f"  {name:<{names}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for name, cells in rows
    ]
    return "\n".join(text.rstrip() for text in texts)


def _cut(text: str, width: int) -> str:
    text = text.rstrip()
    return text if len(text) <= width else text[: width - 1] + "…"
