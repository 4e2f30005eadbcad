"""The accuracy of a kernel as JSON values. Numbers that are infinite are the text ``"inf"``."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypedDict

from nki.rounding.findings import Findings, LineError, OutputError, WiderTiles
from nki.rounding.parting import Parting, Step

Number = float | str


class OutputAccuracy(TypedDict):
    """The error of an output against the same kernel without rounding."""

    name: Annotated[str, "its name in the kernel"]
    shape: Annotated[list[int], "elements along each axis"]
    dtype: Annotated[str, "the NKI dtype"]
    error: Annotated[Number, "the root mean square of the errors, as a part of the exact elements'; `inf` as text"]
    needed: Annotated[Number, "the same of the exact result, rounded once to the dtype"]
    max_abs: Annotated[Number, "the greatest error"]
    max_rel: Annotated[Number, "the greatest error as a part of its element"]
    ulps: Annotated[Number, "the greatest error in units in the last place of the dtype"]
    wrong: Annotated[int, "elements that are not finite but should be"]


class LineAccuracy(TypedDict):
    """The error that a source line causes."""

    file: Annotated[str | None, "the path"]
    line: Annotated[int | None, "from 1"]
    code: Annotated[str, "the text of the line"]
    error: Annotated[Number, "at the output, as an output's `error`; `inf` as text"]
    share: Annotated[float, "its part of the squared error of all lines, from 0 to 1"]
    local: Annotated[Number, "the most that one execution adds, as a part of the greatest element that it stores"]
    cause: Annotated[
        str,
        "`cast`, `cancellation`, `overflow`, `underflow`, `absorption`, `long sum`, `rounding`, or `result`: the "
        "rounding that the caller asks for",
    ]
    text: Annotated[str, "the cause in words"]
    events: Annotated[list[str], "what else happened at the line"]
    tiles: Annotated[list[str], "tensors that casts at the line fill"]
    notable: Annotated[bool, "true if it loses more than rounding in float32 explains"]


class WiderRecord(TypedDict):
    """Tiles in float32 in a second run."""

    tiles: Annotated[list[str], "their names"]
    dtype: Annotated[str, "the dtype that they have in the kernel"]
    less: Annotated[Number, "the factor by which the error falls"]
    time: Annotated[float | None, "the predicted time as a multiple of the kernel's; null if no such kernel is legal"]
    problem: Annotated[str, "why it is not, or empty"]


class StepRecord(TypedDict):
    """A line that stores a value which the other kernel never has."""

    file: Annotated[str | None, "the path"]
    line: Annotated[int | None, "from 1"]
    code: Annotated[str, "the text of the line"]
    tile: Annotated[str, "the tensor that it fills"]


class OutputPartingRecord(TypedDict):
    """The difference of an output of two kernels."""

    name: Annotated[str, "its name in the first kernel"]
    real: Annotated[Number, "the root mean square of the difference, as a part of the first kernel's elements"]
    exact: Annotated[Number, "the same without rounding"]


class PartingRecord(TypedDict):
    """Two kernels on the same data."""

    other: Annotated[str, "the name of the second kernel"]
    same: Annotated[bool, "true if rounding explains all differences"]
    outputs: Annotated[list[OutputPartingRecord], "the outputs, in order"]
    first: Annotated[StepRecord | None, "where the first kernel parts from the other"]
    second: Annotated[StepRecord | None, "where the second one does"]
    shared: Annotated[int, "values of the first kernel that the second has too"]
    stored: Annotated[int, "values that the first kernel stores"]


class AccuracyRecord(TypedDict):
    """The accuracy of a kernel on some data."""

    kernel: Annotated[str, "its name"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    instructions: Annotated[int, "instructions of the program"]
    outputs: Annotated[list[OutputAccuracy], "the outputs, in order"]
    lines: Annotated[list[LineAccuracy], "the lines with errors or events, the greatest error first"]
    wider: Annotated[list[WiderRecord], "tiles in float32, the best first"]


def record(found: Findings) -> AccuracyRecord:
    """``found`` as JSON values."""
    return {
        "kernel": found.name,
        "target": found.target,
        "instructions": found.instructions,
        "outputs": list(map(_output, found.outputs)),
        "lines": list(map(_line, found.lines)),
        "wider": list(map(_wider, found.wider)),
    }


def _number(value: float) -> Number:
    return value if math.isfinite(value) else "inf"


def _output(each: OutputError) -> OutputAccuracy:
    return {
        "name": each.name,
        "shape": list(each.shape),
        "dtype": each.dtype,
        "error": _number(each.error),
        "needed": _number(each.needed),
        "max_abs": _number(each.max_abs),
        "max_rel": _number(each.max_rel),
        "ulps": _number(each.ulps),
        "wrong": each.wrong,
    }


def _line(each: LineError) -> LineAccuracy:
    return {
        "file": each.span.file if each.span is not None else None,
        "line": each.span.line if each.span is not None else None,
        "code": each.code,
        "error": _number(each.error),
        "share": each.share,
        "local": _number(each.local),
        "cause": each.cause,
        "text": each.text,
        "events": list(each.events),
        "tiles": list(each.tiles),
        "notable": each.is_notable,
    }


def _wider(each: WiderTiles) -> WiderRecord:
    return {
        "tiles": list(each.tiles),
        "dtype": each.dtype,
        "less": _number(each.less),
        "time": each.time,
        "problem": each.problem,
    }


def parting_record(found: Parting) -> PartingRecord:
    """``found`` as JSON values."""
    outputs: list[Any] = [
        {"name": each.name, "real": _number(each.real), "exact": _number(each.exact)} for each in found.outputs
    ]
    return {
        "other": found.names[1],
        "same": found.is_same,
        "outputs": outputs,
        "first": _step(found.first),
        "second": _step(found.other),
        "shared": found.shared,
        "stored": found.stored,
    }


def _step(step: Step | None) -> StepRecord | None:
    if step is None:
        return None
    span = step.span
    return {
        "file": span.file if span is not None else None,
        "line": span.line if span is not None else None,
        "code": step.code,
        "tile": step.tile,
    }
