"""A capture beside a prediction as text, and as a record for ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Annotated, Any, Final, TypedDict

from nki.profiling.against.measured import Beside, Explanation, MeasuredRun, Value
from nki.profiling.amounts import count, duration, percent, short
from nki.profiling.text import columns

ROWS = 8
"""Instructions that the text lists, and lines."""
_INDENTS: Final[Any] = {"initial_indent": "  ", "subsequent_indent": "    "}
NOTHING = "nothing is named: no fact within its range, and no assumption, explains a part of the difference for sure"


class MeasuredTime(TypedDict):
    """A time that was measured and predicted."""

    name: Annotated[str, "`total time`, `device time`, an engine, `engine opcode line`, or a source line"]
    measured: Annotated[float, "in the capture; s"]
    predicted: Annotated[float, "s"]
    measured_count: Annotated[int, "times in the capture that it is the mean of"]
    predicted_count: Annotated[int, "times in the prediction"]


class Explained(TypedDict):
    """A fact or an assumption that explains a part of the difference."""

    name: Annotated[str, "the fact of the target, or the assumption about another compiler"]
    share: Annotated[float, "the part of the difference that it explains, with those before it; of 1"]
    before: Annotated[float | None, "the value in the prediction; null of an assumption, as the next five"]
    after: Annotated[float | None, "the value that explains the capture best"]
    least: Annotated[float | None, "the least value that explains about as much"]
    most: Annotated[float | None, "the greatest one"]
    unit: Annotated[str | None, "of all of them"]
    in_range: Annotated[bool | None, "true if the fact's range holds the value"]
    about: Annotated[str, "what an assumption is about, else empty"]
    alike: Annotated[list[str], "facts and assumptions that explain as much: the kernel cannot tell them apart"]


class AgainstRecord(TypedDict):
    """A capture beside the prediction."""

    capture: Annotated[str, "the file or folder"]
    form: Annotated[str, "`parquet` or `summary`"]
    date: Annotated[str, "the day of the capture, or of its file if the capture does not say"]
    is_modelled: Annotated[bool, "true if this model has written it"]
    times: Annotated[list[MeasuredTime], "whole times, then the time in which each engine works"]
    instructions: Annotated[list[MeasuredTime], "means by engine, opcode and line; the greatest difference first"]
    lines: Annotated[list[MeasuredTime], "sums by source line, likewise; none of a summary"]
    explanations: Annotated[list[Explained], "what explains the difference: none, one, or two together"]


def record(against: MeasuredRun) -> AgainstRecord:
    """``against`` as a record."""
    return {
        "capture": str(against.capture.file),
        "form": against.capture.form,
        "date": against.capture.date,
        "is_modelled": against.capture.modelled,
        "times": _times(against.times),
        "instructions": _times(against.instructions),
        "lines": _times(against.by_line),
        "explanations": [_explained(each) for each in against.explanations],
    }


def _times(rows: Iterable[Beside]) -> list[MeasuredTime]:
    return [
        {
            "name": row.name,
            "measured": row.measured,
            "predicted": row.predicted,
            "measured_count": row.counts[0],
            "predicted_count": row.counts[1],
        }
        for row in rows
    ]


def _explained(each: Explanation) -> Explained:
    value = each.value
    return {
        "name": each.name,
        "share": each.share,
        "before": value and value.before,
        "after": value and value.after,
        "least": value and value.least,
        "most": value and value.most,
        "unit": value and value.unit,
        "in_range": value and value.is_in_range,
        "about": each.about,
        "alike": [other.name for other in each.alike],
    }


def text(against: MeasuredRun, width: int = 100) -> str:
    """The capture beside the prediction, in ``width`` columns: the engines, what differs most, and what explains it."""
    form = {"parquet": "Parquet tables", "summary": "summary-json"}[against.capture.form]
    by = ", written by this model" if against.capture.modelled else ""
    parts = [
        f"{against.profile.name} on {against.profile.target} against {against.capture.file}: {form}, "
        f"{against.capture.date}{by}",
        table("engine works", against.times),
    ]
    differing = [row for row in against.instructions if is_different(row)]
    if differing:
        parts.append(table("mean of each", differing[:ROWS]))
    if lines := [row for row in against.by_line if is_different(row)]:
        parts.append(table("line, in all", lines[:ROWS]))
    rows = explained(against.explanations) or [NOTHING]
    parts.append("\n".join(line for row in rows for line in wrap(row, width, **_INDENTS)))
    return "\n\n".join(parts)


def is_different(row: Beside) -> bool:
    """Test if two times, or how many they are of, differ in what a text shows."""
    return abs(row.difference) >= 0.005 * abs(row.predicted) or row.counts[0] != row.counts[1]


def table(title: str, rows: Sequence[Beside]) -> str:
    """Measured, predicted and the difference."""
    cells = [(named(row), [duration(row.measured), duration(row.predicted), difference(row)]) for row in rows]
    return columns([(title, ["measured", "predicted", "difference"]), *cells])


def named(row: Beside) -> str:
    """The name of a row, with the number of times that it is of."""
    one, other = row.counts
    if one == other:
        return row.name + (f" ({one} x)" if one > 1 else "")
    return f"{row.name} ({one} x, predicted {other} x)"


def difference(row: Beside) -> str:
    """The difference as a part of the prediction."""
    return f"{100 * row.difference / row.predicted:+.1f} %" if row.predicted else ""


def explained(explanations: Sequence[Explanation]) -> list[str]:
    """Sentences about what explains the difference."""
    rows: list[str] = []
    for number, each in enumerate(explanations):
        together = f"{explanations[0].name} and " if number else ""
        verb = "explain" if number else "explains"
        known = f" {_range(each.value)}" if each.value else f" ({each.about})"
        rows.append(f"{together}{_change(each)} {verb} {percent(each.share)} of the difference{known}")
        if each.alike:
            others = ", ".join(_change(other) for other in each.alike)
            rows.append(f"this kernel cannot tell it from {others}: {_apart(each)}")
    return rows


def _change(each: Explanation) -> str:
    value = each.value
    if value is None:
        return f"the assumption {each.name!r}"
    unit = f" {value.unit}" if value.unit else ""
    return f"{each.name} {short(value.before)} -> {short(value.after)}{unit}"


def _range(value: Value) -> str:
    low, high = sorted(value.range)
    word = "in its range" if value.is_in_range else "out of its range"
    return f"({word}, {short(low)} to {short(high)}; {short(value.least)} to {short(value.most)} explain about as much)"


def _apart(each: Explanation) -> str:
    """A capture that would tell facts apart."""
    names = [each.name, *(other.name for other in each.alike)]
    if any(other.value is None for other in (each, *each.alike)):
        return "capture a kernel with one instruction at a time, in which no order and no merging matters"
    if all(name.startswith("dma_") for name in names):
        return "capture a kernel with transfers of another size, of other rows, and of one direction"
    engines = {name.partition("_")[0] for name in names}
    if len(engines) == 1:
        return "capture a kernel with instructions of another width, one behind the other and one at a time"
    return "capture a kernel that uses one of them without the other"


def learned(against: MeasuredRun, file: str) -> str:
    """A line about the file of facts."""
    facts = against.calibration().facts
    return (
        f"{file}: {count(len(facts), 'fact')}{': ' + ', '.join(facts) if facts else ', for this kernel decides none'}"
    )
