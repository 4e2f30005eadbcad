"""The outcome of ``nki optimise`` in values that JSON has."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from nki.optimising.outcome import Attempt, Optimised
from nki.optimising.version import Gain
from nki.profiling.advice import Advice


class GainRecord(TypedDict):
    """The predicted time that an edit saves, over the text before it."""

    expected: Annotated[float, "as predicted; s"]
    least: Annotated[float, "if what is not known about the hardware is at one end of its range; s"]
    most: Annotated[float, "at the other end; s"]


class AttemptRecord(TypedDict):
    """An edit that was tried."""

    title: Annotated[str, "what it does"]
    line: Annotated[int, "its line in the text at that time, from 1"]
    result: Annotated[
        Literal["kept", "refused", "no faster", "another result"],
        "`refused`: the kernel does not compile with it; `another result`: another function, or too much error",
    ]
    gain: Annotated[GainRecord | None, "null if it was refused"]
    error: Annotated[float | None, "the greatest relative error of a result with it, if it stays"]
    reason: Annotated[str, "why it does not stay; empty if it does"]


class LeftRecord(TypedDict):
    """Advice about the new text that no edit carries out."""

    title: Annotated[str, "the finding"]
    remedy: Annotated[str, "what to do"]
    seconds: Annotated[float, "what the model expects to gain; s"]
    lines: Annotated[list[int], "the lines in the new text"]


class OptimiseRecord(TypedDict):
    """The fields of an outcome."""

    kernel: Annotated[str, "its name"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    file: Annotated[str, "the kernel's file"]
    before: Annotated[float, "the predicted device time as it was; s"]
    after: Annotated[float, "the same with the edits that stay; s"]
    speedup: Annotated[float, "the first as a multiple of the second"]
    error: Annotated[float, "the greatest relative error of a result as it was"]
    new_error: Annotated[float, "the same with the edits that stay"]
    proof: Annotated[str, "how it is known that both are the same function; empty if nothing stays"]
    attempts: Annotated[list[AttemptRecord], "the edits that were tried, in order"]
    left: Annotated[list[LeftRecord], "advice for a person"]
    stopped: Annotated[str, "why edits are left that were not tried; empty if none are"]
    diff: Annotated[str, "the change of the file as a unified diff; empty if nothing stays"]
    written: Annotated[bool, "true with `--write`, if anything stays"]


def record(found: Optimised, *, written: bool = False) -> OptimiseRecord:
    """``found`` as a record."""
    return {
        "kernel": found.kernel,
        "target": str(found.before.target),
        "file": str(found.path),
        "before": found.before.device_time,
        "after": found.after.device_time,
        "speedup": found.speedup,
        "error": found.error,
        "new_error": found.new_error,
        "proof": found.proof,
        "attempts": [_attempt(each) for each in found.attempts],
        "left": [_left(each) for each in found.left],
        "stopped": found.stopped,
        "diff": found.diff,
        "written": written,
    }


def _attempt(attempt: Attempt) -> AttemptRecord:
    return {
        "title": attempt.title,
        "line": attempt.line,
        "result": attempt.result,
        "gain": None if attempt.gain is None else _gain(attempt.gain),
        "error": attempt.error,
        "reason": attempt.reason,
    }


def _gain(gain: Gain) -> GainRecord:
    return {"expected": gain.expected, "least": gain.least, "most": gain.most}


def _left(advice: Advice) -> LeftRecord:
    lines = [span.line for span in advice.lines]
    return {"title": advice.title, "remedy": advice.remedy, "seconds": advice.seconds, "lines": lines}


__all__ = ["OptimiseRecord", "record"]
