"""The accuracy of a kernel as text for a terminal."""

from __future__ import annotations

import math
from typing import Final

from nki.base.source import Span
from nki.profiling.amounts import count, place, short
from nki.rounding.findings import Findings, LineError, OutputError, WiderTiles

LINES: Final = 8
"""Source lines that are listed, unless more are asked for."""


def report(found: Findings, lines: int | None = LINES) -> str:
    """The report, with ``lines`` lines of the source, or all of them (None)."""
    parts = [_head(found), _outputs(found), _lines(found, lines), _wider(found)]
    return "\n\n".join(filter(None, parts))


def verdict(found: Findings) -> str:
    """The answer in one sentence."""
    first = found.first
    if first is None:
        return "no line loses more than rounding in float32 does everywhere"
    return f"{place(first.span)} loses the most: {first.text}"


def _head(found: Findings) -> str:
    return f"{found.name} on {found.target}: {count(found.instructions, 'instruction')}\n  {verdict(found)}"


def _outputs(found: Findings) -> str:
    names = max((len(each.name) for each in found.outputs), default=0)
    names = max(names, len("output"))
    titles = "  ".join(f"{title:>8}" for title in ("error", "rounding", "max abs", "max rel", "ulps"))
    rows = [f"  {'output':<{names}}  {'dtype':<9}  {titles}"]
    for each in found.outputs:
        numbers = (each.error, each.needed, each.max_abs, each.max_rel, each.ulps)
        cells = "  ".join(f"{number(value):>8}" for value in numbers)
        rows.append(f"  {each.name:<{names}}  {each.dtype:<9}  {cells}{_wrong(each)}")
    return "\n".join(rows)


def _wrong(output: OutputError) -> str:
    return f"  {count(output.wrong, 'element')} not finite" if output.wrong else ""


def number(value: float) -> str:
    """A number with two digits, as a power of ten where it is far from 1."""
    if math.isinf(value):
        return "infinite"
    if value == 0:
        return "0"
    return f"{value:.1e}" if not 0.01 <= abs(value) < 1000 else f"{value:.3g}"


def _lines(found: Findings, most: int | None) -> str:
    if not found.lines:
        return ""
    listed = found.lines[:most]
    width = max(len(place(line.span)) for line in listed)
    rows = [f"  {'line':<{width}}  {'share':>6}  {'error':>8}  {'adds':>8}"]
    for line in listed:
        share = f"{100 * line.share:.0f} %"
        head = f"  {place(line.span):<{width}}  {share:>6}  {number(line.error):>8}  {number(line.local):>8}"
        rows.append(f"{head}  {line.code}"[:120].rstrip())
        rows += [f"  {'':<{width}}    {text}" for text in told(line)]
    if rest := len(found.lines) - len(listed):
        rows.append(f"  {count(rest, 'other line')} (--lines all shows them)")
    return "\n".join(rows)


def told(line: LineError) -> list[str]:
    """The cause of a line's error and its events, unless there is nothing to tell."""
    said = [] if line.cause == "rounding" or not line.error else [line.text]
    return [*said, *line.events]


def _wider(found: Findings) -> str:
    return "\n".join(f"  {advice(each)}" for each in found.wider)


def advice(each: WiderTiles) -> str:
    """A change of tiles as a sentence, both numbers from runs."""
    names = ", ".join(f"'{name}'" for name in each.tiles[:4]) + (", …" if len(each.tiles) > 4 else "")
    where = ", ".join(dict.fromkeys(map(_place, each.spans)))
    less = "no error is left" if math.isinf(each.less) else f"{short(each.less)} times less error"
    if each.time is None:
        return f"store {names} in float32 instead of {each.dtype}: {less}, but {each.problem} ({where})"
    change = 100 * (each.time - 1)
    cost = "the same time" if abs(change) < 0.05 else f"{abs(change):.1f} % {'more' if change > 0 else 'less'} time"
    return f"store {names} in float32 instead of {each.dtype}: {less}, {cost} ({where})"


def _place(span: Span) -> str:
    return place(span)
