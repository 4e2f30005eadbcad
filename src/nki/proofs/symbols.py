"""Values of a proof: for each element a residue modulo p and an exponent modulo n, both of the same real number.

Both are the images of one real expression, each under its own homomorphism. ``exp`` maps the exponent to a residue and
``log`` maps back, so that the result of ``exp`` has no exponent and the result of ``log`` no residue. What is missing
is None for all elements of a value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.base.source import Where
from nki.base.wording import shown_path
from nki.proofs.field import Words

Signs = NDArray[np.int8]
Levels = NDArray[np.float64]
Array = NDArray[Any]

MINUS: Final = -1
"""Minus infinity."""
PLUS: Final = 1
NOT_NEGATIVE: Final = 1
POSITIVE: Final = 2


class UndecidedError(Exception):
    """The proof cannot follow an operation; the message is a sentence that says which and why."""

    where: Where | None = None
    """The line of a kernel at which this is so."""

    def __str__(self) -> str:
        span = None if self.where is None else self.where.span
        text = super().__str__()
        return text if span is None else f"{text} ({shown_path(span.file)}:{span.line})"


class Size(NamedTuple):
    """The complexity of an element, at most: the degrees of its numerator and denominator as polynomials of the inputs
    and of unknown numbers, how many unknown numbers (results of exp and of unknown functions) these are, and how many
    of them are truths of comparisons.
    """

    numerator: float = 1
    denominator: float = 0
    unknown: float = 0
    truths: float = 0

    @property
    def degree(self) -> float:
        """Of the difference of two elements of this size, at most: each numerator times the other denominator."""
        return self.numerator + self.denominator

    def added(self, other: Size) -> Size:
        """The size of a sum of two elements."""
        top = max(self.numerator + other.denominator, other.numerator + self.denominator)
        return Size(top, self.denominator + other.denominator, *self._both(other))

    def _both(self, other: Size) -> tuple[float, float]:
        return self.unknown + other.unknown, self.truths + other.truths

    def multiplied(self, other: Size) -> Size:
        return Size(*(one + another for one, another in zip(self, other, strict=True)))

    def summed(self, count: int) -> Size:
        """The size of a sum of ``count`` such elements."""
        top = self.numerator + max(count - 1, 0) * self.denominator
        return Size(top, count * self.denominator, count * self.unknown, count * self.truths)

    def inverted(self) -> Size:
        return Size(self.denominator, self.numerator, self.unknown, self.truths)

    def joined(self, other: Size) -> Size:
        """The size of either."""
        return Size(*map(max, self, other))


KNOWN_SIZE: Final = Size(0)
VARIABLE_SIZE: Final = Size()


@dataclass(frozen=True, slots=True)
class Symbols:
    """Elements in an array of any shape, which ``residues`` and ``exponents`` both have.

    ``infinities``: MINUS or PLUS where an element is infinite, 0 elsewhere; None if none is. Residues and
    exponents are 0 there. ``is_whole``: all elements are integers. ``size``: of the largest element.
    """

    residues: Words | None
    exponents: Words | None
    infinities: Signs | None = None
    is_whole: bool = False
    size: Size = VARIABLE_SIZE
    kept: Words | None = None
    """Residues of the truth that an element is finite, where that depends on the inputs; otherwise it is MINUS."""
    sign: int = 0
    """NOT_NEGATIVE or POSITIVE if all elements are known to be so, else 0."""
    levels: Levels | None = None
    """For elements that are a large known number, such as the filling of a mask, and something small beside it: the
    number; 0 for others. Residues and exponents are of the whole element."""
    power: Symbols | None = None
    """``exp`` of the elements, residues only, where it is known otherwise than by their exponents: for logarithms."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.present.shape

    @property
    def present(self) -> Words:
        """The part that is there; residues if both are."""
        part = self.residues if self.residues is not None else self.exponents
        assert part is not None
        return part

    @property
    def signs(self) -> Signs:
        """``infinities``, 0 for all elements if there are none."""
        return np.zeros(self.shape, np.int8) if self.infinities is None else self.infinities

    def moved(self, move: Callable[[Array], Array]) -> Symbols:
        """The elements in other places: ``move`` is called with each part."""
        all_parts = (self.residues, self.exponents, self.infinities, self.kept, self.levels)
        residues, exponents, infinities, kept, levels = [None if part is None else move(part) for part in all_parts]
        power = None if self.power is None else self.power.moved(move)
        return replace(
            self, residues=residues, exponents=exponents, infinities=infinities, kept=kept, levels=levels, power=power
        )

    def finite(self) -> Symbols:
        """The value without infinities, where their places do not matter any more."""
        return self if self.infinities is None else replace(self, infinities=None)

    @property
    def is_finite(self) -> bool:
        """True if no element is infinite for any inputs."""
        return self.infinities is None and self.kept is None

    @property
    def heights(self) -> Levels:
        """``levels``, 0 for all elements if there are none."""
        return np.zeros(self.shape) if self.levels is None else self.levels

    @property
    def is_masked(self) -> bool:
        """True if all elements are minus infinity, or so far below others that ``exp`` of them is 0."""
        return bool(((self.signs < 0) | (self.heights < 0)).all())


Join = Callable[[list[Any]], Any]
"""Makes one array of several."""


def joined(
    values: Sequence[Symbols], join: Join, fill: Callable[[Symbols], Symbols], exp: Callable[[Symbols], Symbols]
) -> Symbols:
    """Several values as one: ``join`` is called with the parts of all; ``fill`` gives a value its residues, and ``exp``
    its power.
    """
    if any(value.residues is None for value in values) and any(value.exponents is None for value in values):
        values = [fill(value) for value in values]
    residues = [value.residues for value in values if value.residues is not None]
    exponents = [value.exponents for value in values if value.exponents is not None]
    infinities = kept = levels = power = None
    if any(value.kept is not None for value in values):
        kept = join([np.ones(value.shape, np.uint64) if value.kept is None else value.kept for value in values])
    if any(value.infinities is not None for value in values):
        infinities = join([value.signs for value in values])
    if any(value.levels is not None for value in values):
        levels = join([value.heights for value in values])
    if any(value.power is not None for value in values):
        power = joined([exp(value) if value.power is None else value.power for value in values], join, fill, exp)
    return Symbols(
        join(list(residues)) if len(residues) == len(values) else None,
        join(list(exponents)) if len(exponents) == len(values) else None,
        infinities,
        all(value.is_whole for value in values),
        functools.reduce(Size.joined, (value.size for value in values)),
        kept,
        min(value.sign for value in values),
        levels,
        power,
    )


__all__ = [
    "KNOWN_SIZE",
    "MINUS",
    "NOT_NEGATIVE",
    "PLUS",
    "POSITIVE",
    "VARIABLE_SIZE",
    "Array",
    "Join",
    "Levels",
    "Signs",
    "Size",
    "Symbols",
    "UndecidedError",
    "joined",
]
