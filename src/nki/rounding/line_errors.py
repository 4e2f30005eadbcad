"""The errors of outputs and lines, from what a run with shadows has kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from nki.base.element_types import DType
from nki.base.source import source_line
from nki.rounding.findings import Cause, LineError, OutputError
from nki.rounding.line_notes import LineNotes, Notes
from nki.rounding.shadow_run import Output
from nki.rounding.tracked import OTHERS, Doubles, Kind, Source, difference

UNITS: Final = {
    "float32": 2.0**-24, "tfloat32": 2.0**-11, "bfloat16": 2.0**-8, "float16": 2.0**-11,
    "float8_e4m3": 2.0**-4, "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3,
}  # fmt: skip
"""The unit roundoff of a dtype: the greatest relative error of one rounding to it. 2 to the power of minus p, where p
counts the bits of its significand with the leading one (IEEE 754-2019, and the formats of OCP's 8-bit floats).
"""
_ONE: Final = 1.5
"""Error of one rounding, with what chance adds, as a multiple of the mean of one rounding."""
_LONG: Final = 32
"""Terms from which on a sum is long."""
_FAR: Final = 4.0
"""Units of roundoff by which a long sum has to be wrong so that its order matters."""


def output_error(output: Output) -> OutputError:
    """The error of ``output``."""
    error = difference(output.real, output.exact)
    wrong = ~np.isfinite(output.real) & np.isfinite(output.exact) | np.isnan(output.real) & ~np.isnan(output.exact)
    with np.errstate(all="ignore"):
        size = np.where(wrong, np.inf, np.abs(error))
        nonzero = output.exact != 0
        parts = size[nonzero] / np.abs(output.exact[nonzero])
        spacing = _spacing(output.exact, output.dtype)
        needed = spacing / np.sqrt(12.0)
    return OutputError(
        output.name,
        output.shape,
        output.dtype.name,
        _greatest(size),
        _greatest(parts),
        relative(error, output.exact),
        _greatest(size / spacing),
        int(wrong.sum()),
        relative(needed, output.exact),
    )


def _spacing(exact: Doubles, dtype: DType) -> Doubles:
    """The distance of the numbers of ``dtype`` around ``exact``; 1 for integers."""
    unit = UNITS.get(dtype.name)
    if unit is None:
        return np.ones(exact.shape)
    with np.errstate(all="ignore"):
        exponents = np.frexp(np.abs(np.where(np.isfinite(exact), exact, 1.0)))[1]
    lowest = -13 if dtype.name == "float16" else -125
    return np.ldexp(2.0 * unit, np.maximum(exponents, lowest) - 1)


def _greatest(values: Doubles) -> float:
    value = float(values.max(initial=0.0))
    return math.inf if math.isnan(value) else value


def relative(error: Doubles, exact: Doubles) -> float:
    """The root of the mean square of ``error`` as a part of the same of ``exact``, where that is finite."""
    finite = np.isfinite(exact)
    if not finite.any():
        return 0.0
    values, right = error[finite], exact[finite]
    scale = float(np.abs(right).max(initial=0.0))
    if not np.isfinite(values).all():
        return math.inf
    greatest = float(np.abs(values).max(initial=0.0))
    if greatest == 0:
        return 0.0
    if scale == 0:
        return math.inf
    top = greatest * math.sqrt(float(np.mean((values / greatest) ** 2)))
    return top / (scale * math.sqrt(float(np.mean((right / scale) ** 2))))


def line_errors(outputs: Sequence[Output], notes: Notes) -> tuple[LineError, ...]:
    """The lines with an error at an output, or with events, in the order of :class:`Accuracy`."""
    found: dict[int, tuple[float, float, dict[Source, float], set[Source]]] = {}
    for output in outputs:
        by_source = {source: relative(error, output.exact) for source, error in output.errors.items()}
        _charge_overflow(output, by_source, notes)
        results = _result_roundings(output, by_source, notes)
        by_line: dict[int, float] = {}
        for source, error in by_source.items():
            by_line[source.line] = math.hypot(by_line.get(source.line, 0.0), error)
        total = math.hypot(*by_line.values())
        for line, error in by_line.items():
            share = error / total if math.isfinite(total) and total else float(not math.isfinite(error))
            if line != OTHERS.line and (line not in found or error > found[line][0]):
                own = {source: error for source, error in by_source.items() if source.line == line}
                found[line] = error, share * share, own, results
    rows = [
        (number, _line(notes.lines[number], number, *found.get(number, (0.0, 0.0, {}, set[Source]()))))
        for number in range(len(notes.lines))
        if number in found or _events(notes.lines[number])
    ]
    rows.sort(key=lambda row: (row[1].cause == "result", -row[1].error, row[0]))
    return tuple(line for _, line in rows)


def _result_roundings(output: Output, by_source: dict[Source, float], notes: Notes) -> set[Source]:
    """The last casts that round to the dtype of the output, and add no more error than that one rounding."""
    with np.errstate(all="ignore"):
        needed = relative(_spacing(output.exact, output.dtype) / np.sqrt(12.0), output.exact)
    return {
        source
        for source in output.last
        if notes.lines[source.line].casts == {output.dtype.name} and by_source.get(source, 0.0) <= _ONE * needed
    }


def _charge_overflow(output: Output, by_source: dict[Source, float], notes: Notes) -> None:
    """Charge the first line that overflowed, if an output has no number but no error is infinite: float64 did too."""
    if np.isfinite(output.real).all() or any(not math.isfinite(error) for error in by_source.values()):
        return
    for number, note in enumerate(notes.lines):
        if note.overflows:
            by_source[Source(number, Kind.arithmetic)] = math.inf
            return


def _line(
    note: LineNotes, number: int, error: float, share: float, own: dict[Source, float], results: set[Source]
) -> LineError:
    source = max(own, key=lambda each: own[each], default=Source(number, Kind.arithmetic))
    cause, text = _cause(note, source, source in results)
    code = source_line(note.span.file, note.span.line).strip() if note.span is not None else ""
    events = tuple(each for each in _events(note) if each != text)
    tiles = tuple(tensor.name for tensor in note.tiles)
    return LineError(note.span, code, error, share, note.local, cause, text, events, tiles)


def _cause(note: LineNotes, source: Source, is_result: bool) -> tuple[Cause, str]:
    if source.kind is Kind.cancellation:
        return "cancellation", _cancelled(note)
    if source.kind is Kind.cast:
        names = " and ".join(sorted(note.casts))
        if is_result:
            return "result", f"rounds the result to {names}, as the caller asks"
        if note.cast_overflows:
            return "overflow", f"{_many(note.cast_overflows, 'element')} too large for {names}"
        if note.zeros_matter:
            return "underflow", f"rounds to {names}, and {_many(note.cast_zeros, 'element')} to 0"
        return "cast", f"rounds to {names}"
    if note.overflows:
        return "overflow", f"{_many(note.overflows, 'result')} not finite, from finite operands"
    if note.terms >= _LONG and note.sum_error >= _FAR:
        return "long sum", _summed(note)
    if note.underflows:
        return "underflow", f"{_many(note.underflows, 'result')} smaller than float32 holds: 0"
    if note.absorbed:
        return "absorption", f"{_many(note.absorbed, 'sum')} too large to change by the smaller operand"
    return "rounding", "rounds in float32"


def _cancelled(note: LineNotes) -> str:
    text = f"{_many(note.cancelled, 'difference')} of inexact numbers that agree in up to {note.bits} of 24 bits"
    here = note.origin is None or (note.span is not None and note.origin.line == note.span.line)
    return text if here or note.origin is None else f"{text}; line {note.origin.line} rounded them most"


def _summed(note: LineNotes) -> str:
    return f"sum of {note.terms} terms, one after the other, wrong by {note.sum_error:.0f} units of roundoff"


def _events(note: LineNotes) -> tuple[str, ...]:
    events: list[str] = []
    if note.overflows:
        events.append(f"{_many(note.overflows, 'result')} not finite, from finite operands")
    if note.cancelled:
        events.append(_cancelled(note))
    if note.terms >= _LONG and note.sum_error >= _FAR:
        events.append(_summed(note))
    if note.cast_zeros:
        events.append(f"{_many(note.cast_zeros, 'element')} rounded to 0")
    if note.underflows:
        events.append(f"{_many(note.underflows, 'result')} smaller than float32 holds: 0")
    if note.subnormals:
        events.append(f"{_many(note.subnormals, 'result')} subnormal, with fewer bits")
    if note.absorbed:
        events.append(f"{_many(note.absorbed, 'sum')} too large to change by the smaller operand")
    return tuple(events)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
