"""Combinations of instructions: what a declaration says of the work of another that its instruction could do as well.

Each function of a :class:`Combining` returns None where there is no such combination; the defaults know none. No
program is changed by them: advice prices the combined instruction
(:mod:`nki.profiling.suggestions.instruction_combining`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from nki.ir.types import Access


class Step(NamedTuple):
    """An arithmetic operator by name; its operand: a number, one number a partition, or None; whether that is on the
    left.
    """

    op: str
    operand: Any
    reverse: bool = False


class Scaling(NamedTuple):
    """``dst`` is ``data`` after ``steps``, in float32; without steps it is a copy that may convert."""

    dst: Access
    data: Access
    steps: tuple[Step, ...]


class RowSum(NamedTuple):
    """``dst`` is the sum of all elements of each partition of ``data``."""

    dst: Access
    data: Access


class Combination(NamedTuple):
    """An instruction that does the work of two, and the words in which advice says so; the words for Beta 1,
    if they are others.
    """

    inst: Any
    advice: str
    older_advice: str = ""


def _never(*_: object) -> None:
    return None


@dataclass(frozen=True, eq=False, repr=False)
class Combining:
    """The combinations of one declaration. Each function takes the instruction first."""

    scaling: Callable[[Any], Scaling | None] = _never
    """The scaling that the instruction is."""
    row_sum: Callable[[Any], RowSum | None] = _never
    """The sum by partition that the instruction is."""
    after_scaling: Callable[[Any, Scaling, Access], Combination | None] = _never
    """The instruction that scales as well, where this one reads the result of a scaling through the access."""
    with_row_sum: Callable[[Any, RowSum], Combination | None] = _never
    """The instruction that adds up its results as well."""
    by_column: Callable[[Any], Any] = _never
    """The instruction that takes one number a partition in place of a tile that repeats it, or None."""


NONE = Combining()
