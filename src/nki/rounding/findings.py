"""The findings of a run with shadows: errors of outputs, the lines that they come from, and tiles to widen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from nki.base.source import Span
from nki.rounding.line_notes import EPSILON

Cause = Literal["cast", "cancellation", "overflow", "underflow", "absorption", "long sum", "rounding", "result"]
NOTABLE: Final = 16 * EPSILON
"""A line with less error than this at the output loses no more than float32 does everywhere."""


@dataclass(frozen=True)
class OutputError:
    """The error of one output, against the same kernel without rounding.

    ``max_abs``: the greatest error. ``max_rel``: the greatest one as a part of its exact element, of those that are
    not 0. ``error``: the root of the mean square of the errors, as a part of the same of the exact elements. ``ulps``:
    the greatest error in units in the last place of ``dtype``. ``wrong``: elements that are infinite or no number, but
    should not be, or the other way round. ``needed``: ``error`` of the exact results rounded once to ``dtype``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    max_rel: float
    error: float
    ulps: float
    wrong: int
    needed: float


@dataclass(frozen=True)
class LineError:
    """The error that one source line causes.

    ``error``: at the output with the most of it, as :attr:`OutputError.error`; infinite if it makes elements infinite
    or no number. ``share``: its part of the squared error of all lines there, from 0 to 1. ``local``: the most that one
    execution adds, as a part of the greatest element that it stores. ``cause``: what the most of the error is;
    ``"result"``: the rounding to the dtype that the caller asked for. ``text``: the cause in words, with its numbers.
    ``events``: what else happened there. ``tiles``: the names of the tensors that casts at this line fill.
    """

    span: Span | None
    code: str
    error: float
    share: float
    local: float
    cause: Cause
    text: str
    events: tuple[str, ...]
    tiles: tuple[str, ...]

    @property
    def is_notable(self) -> bool:
        """Test if the line loses more than rounding in float32 explains, and more than the caller asked for."""
        return self.cause != "result" and self.error > NOTABLE


@dataclass(frozen=True)
class WiderTiles:
    """Tiles that were stored in float32 in a second run.

    ``less``: by what factor the error of the outputs fell. ``time``: the predicted time as a multiple of the old one;
    None if the wider kernel breaks a rule, ``problem``, or has no room.
    """

    tiles: tuple[str, ...]
    dtype: str
    spans: tuple[Span, ...]
    less: float
    time: float | None
    problem: str = ""


@dataclass(frozen=True)
class Findings:
    """The errors of a kernel on some data, and their causes.

    ``lines``: the ones with the most error first. ``wider``: what storing tiles in float32 would do, the best first.
    """

    name: str
    target: str
    instructions: int
    outputs: tuple[OutputError, ...]
    lines: tuple[LineError, ...]
    wider: tuple[WiderTiles, ...] = ()

    @property
    def first(self) -> LineError | None:
        """The line that loses the most; None if none loses more than rounding in float32 does everywhere."""
        return next((line for line in self.lines if line.is_notable), None)

    @property
    def error(self) -> float:
        """The greatest :attr:`OutputError.error`."""
        return max((output.error for output in self.outputs), default=0.0)
