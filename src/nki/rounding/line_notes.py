"""Notes of each source line while a kernel runs with its shadows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.source import Span
from nki.ir.instruction import Inst
from nki.ir.types import Tensor
from nki.rounding.tracked import Doubles

Place = tuple[str, int]
_NOWHERE: Final[Place] = ("", 0)
SMALLEST: Final = {dt.float16: 2.0**-14}
"""The smallest normal magnitudes; other floats have the exponents of float32, or are too narrow to have subnormals
that matter.
"""
_SMALLEST_OF_FLOAT32: Final = 2.0**-126
_MOST: Final = 0.5
EPSILON: Final = 2.0**-24
"""The unit roundoff of float32: the greatest relative error of one rounding."""


@dataclass(slots=True)
class LineNotes:
    """Events of one source line; numbers of elements count each execution.

    ``local``: the greatest error that one execution added, as a part of the greatest magnitude that it stored.
    ``overflows``, ``underflows``, ``subnormals``: results that became infinite or no number from finite operands, 0
    from operands that do not give 0, or smaller than the smallest normal number. ``absorbed``: elements that a sum did
    not change by its smaller operand. ``cancelled``: elements with operands that agreed in up to ``bits`` leading bits
    while they had errors; ``origin`` had made the most of these. ``terms``: of the sum with the greatest error,
    ``sum_error`` units of roundoff. ``casts``: the dtypes that were rounded to, and ``tiles`` the tensors that hold the
    results; ``cast_overflows`` and ``cast_zeros``: finite elements that a cast made infinite, and others that it made
    0; ``zeros_matter``: these zeros were the most of the error of a cast.
    """

    span: Span | None
    local: float = 0.0
    executions: int = 0
    elements: int = 0
    overflows: int = 0
    underflows: int = 0
    subnormals: int = 0
    absorbed: int = 0
    cancelled: int = 0
    bits: int = 0
    origin: Span | None = None
    terms: int = 0
    sum_error: float = 0.0
    cast_overflows: int = 0
    cast_zeros: int = 0
    zeros_matter: bool = False
    casts: set[str] = field(default_factory=set[str])
    tiles: dict[Tensor, None] = field(default_factory=dict[Tensor, None])

    def stored(self, real: Doubles, local: Doubles, added: Doubles, dtype: DType) -> None:
        """Note the result of one execution: as it is, as it would be without rounding, and the difference."""
        self.executions += 1
        self.elements += real.size
        self._added(local, added)
        with np.errstate(all="ignore"):
            magnitude = np.abs(real)
            if not np.isfinite(magnitude.max(initial=0.0)):
                self.overflows += int((~np.isfinite(real) & np.isfinite(local)).sum())
            small = magnitude < SMALLEST.get(dtype, _SMALLEST_OF_FLOAT32)
            if small.any():
                zeros = real == 0
                self.underflows += int((zeros & (local != 0) & (np.abs(local) < _SMALLEST_OF_FLOAT32)).sum())
                self.subnormals += int((small & ~zeros).sum())

    def rounded(self, dtype: DType, before: Doubles, error: Doubles) -> None:
        """Note a cast to ``dtype`` of the numbers ``before``, and its ``error``."""
        self.casts.add(dtype.name)
        self._added(before, error)
        if not np.isfinite(error).all():
            self.cast_overflows += int((np.isfinite(before) & ~np.isfinite(error)).sum())
        zeros = (before != 0) & (error == -before)
        if dtype.is_float and zeros.any():
            self.cast_zeros += int(zeros.sum())
            self.zeros_matter |= float(np.square(error[zeros]).sum()) > _MOST * float(np.square(error).sum())

    def _added(self, right: Doubles, error: Doubles) -> None:
        with np.errstate(all="ignore"):
            greatest = float(np.abs(right).max(initial=0.0))
            worst = float(np.abs(error).max(initial=0.0))
        if worst > 0 and greatest > 0:
            part = worst / greatest
            self.local = max(self.local, part if math.isfinite(part) else math.inf)

    def summed(self, terms: int, units: float) -> None:
        """Note a sum of so many terms, with an error of so many units of roundoff of its greatest result."""
        if units > self.sum_error:
            self.terms, self.sum_error = terms, units


class Notes:
    """The notes of all lines, in the order in which they first ran."""

    def __init__(self) -> None:
        self.lines: list[LineNotes] = []
        self._numbers: dict[Place, int] = {}
        self._of: dict[int, tuple[Inst, int]] = {}

    def number(self, inst: Inst) -> int:
        """The number of the line of ``inst``."""
        known = self._of.get(id(inst))
        if known is not None:
            return known[1]
        span = inst.where.span
        place = _NOWHERE if span is None else (span.file, span.line)
        number = self._numbers.setdefault(place, len(self.lines))
        if number == len(self.lines):
            self.lines.append(LineNotes(span))
        self._of[id(inst)] = inst, number  # an instruction that is kept keeps its id
        return number
