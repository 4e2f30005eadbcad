"""Arithmetic of real numbers on :class:`Symbols`: each operation on residues and on exponents alike.

The identities that hold exactly are the identities of a field, and: exp(x + y) = exp(x) exp(y), exp(0) = 1,
log(x y) = log(x) + log(y), log(exp(x)) = x, sqrt(x y) = sqrt(x) sqrt(y), and powers made of these. Everything else is
an unknown function: a keyed hash of its arguments (:mod:`nki.proofs.reals`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs.field import UnluckyError, Words, mixed, product
from nki.proofs.numbers import LEAST_FILL, Numbers, large
from nki.proofs.symbols import (
    KNOWN_SIZE,
    NOT_NEGATIVE,
    PLUS,
    POSITIVE,
    Array,
    Join,
    Signs,
    Size,
    Symbols,
    UndecidedError,
    joined,
)

_MOST_DEGREE: Final = 256
_INDEPENDENT: Final = "for the bound, quotients of high degree count as independent random numbers"
_NO_SQUARES: Final = "for the bound, products of the numbers under different roots are no squares"
_MANY: Final = 512
"""In so many exponents some are no units by chance: one of 6,000 is none."""
_MOST_ROOTS: Final = 8
_POWERS: Final = (2, -2, 1, -1, 4, -4, 3, -3, 6, 8)
"""Twice the factors of logarithms with which their powers are known."""


@dataclass
class Arithmetic(Numbers):
    """Operations on numbers."""

    def _of_unknown(self, *arguments: Symbols) -> Size:
        """The size of an unknown number that depends on ``arguments``."""
        for each in arguments:
            if each.residues is not None:
                self.arguments = self.arguments.joined(each.size)
            else:
                self.exponents = self.exponents.joined(each.size)
        created = max((each.present.size for each in arguments), default=1)
        self.created += created
        unknown, truths = (sum(each.size[part] for each in arguments) for part in (2, 3))
        return Size(1, 0, min(self.created, 1 + unknown), truths)

    def _limited(self, size: Size) -> Size:
        """``size``; a quotient of high degree counts as an unknown number itself."""
        if not size.denominator or size.numerator + size.denominator <= _MOST_DEGREE:
            return size
        self.assumptions.add(_INDEPENDENT)
        return Size(1, 0, size.unknown + 1, size.truths)

    # -- parts

    def _common(self, left: Symbols, right: Symbols) -> tuple[Symbols, Symbols]:
        """Both with at least one part that both have."""
        has_residues = left.residues is not None and right.residues is not None
        has_exponents = left.exponents is not None and right.exponents is not None
        return (left, right) if has_residues or has_exponents else (self.with_residues(left), self.with_residues(right))

    # -- the field

    def add(self, left: Symbols, right: Symbols) -> Symbols:
        left, right = self._common(left, right)
        infinities = self._sum_of_infinities(left, right)
        return self._without(
            Symbols(
                None if left.residues is None or right.residues is None else (left.residues + right.residues) % self.p,
                None
                if left.exponents is None or right.exponents is None
                else (left.exponents + right.exponents) % self.n,
                infinities,
                left.is_whole and right.is_whole,
                self._limited(left.size.added(right.size)),
                self._product_of_kept(left, right),
                max(left.sign, right.sign) if left.sign and right.sign else 0,
                None if left.levels is None and right.levels is None else large(left.heights + right.heights),
                self._power_of_sum(left, right),
            )
        )

    def _power_of_sum(self, left: Symbols, right: Symbols) -> Symbols | None:
        has_power = left.power is not None or right.power is not None
        if not has_power and (left.exponents is None) != (right.exponents is None):
            self.has_split, has_power = True, self.splits
        return self.multiply(*map(self._power_of, (left, right))) if has_power else None

    def _power_of(self, value: Symbols) -> Symbols:
        """``exp`` of a value, residues only."""
        return self.exp(value) if value.power is None else value.power

    def _product_of_kept(self, left: Symbols, right: Symbols) -> Words | None:
        if left.kept is None or right.kept is None:
            kept = left.kept if left.kept is not None else right.kept
            return None if kept is None else np.broadcast_to(kept, np.broadcast_shapes(left.shape, right.shape))
        return left.kept * right.kept % self.p

    def _sum_of_infinities(self, left: Symbols, right: Symbols) -> Signs | None:
        if left.infinities is None and right.infinities is None:
            return None
        one, other = np.broadcast_arrays(left.signs, right.signs)
        if ((one > 0) & (other < 0) | (one < 0) & (other > 0)).any():
            raise UndecidedError("infinity is subtracted from infinity, which gives NaN")
        return np.where(other == 0, one, other)

    def _without(self, value: Symbols) -> Symbols:
        """``value`` with parts of 0 at infinite elements."""
        if value.infinities is None:
            return value
        finite = value.infinities == 0
        return replace(
            value,
            residues=None if value.residues is None else value.residues * finite,
            exponents=None if value.exponents is None else value.exponents * finite,
        )

    def _check_finite(self, what: str, *values: Symbols) -> None:
        if not all(value.is_finite for value in values):
            raise UndecidedError(f"{what} an infinite number")

    def negative(self, value: Symbols) -> Symbols:
        if value.kept is not None:
            raise UndecidedError("a number that may be minus infinity is negated")
        return self._without(
            Symbols(
                None if value.residues is None else (self.p - value.residues) % self.p,
                None if value.exponents is None else (self.n - value.exponents) % self.n,
                None if value.infinities is None else -value.infinities,
                value.is_whole,
                value.size,
                None,
                NOT_NEGATIVE if value.size == KNOWN_SIZE and self.is_zero(value).all() else 0,
                None if value.levels is None else -value.levels,
                None if value.power is None else self.reciprocal(value.power),
            )
        )

    def subtract(self, left: Symbols, right: Symbols) -> Symbols:
        return self.add(left, self.negative(right))

    def multiply(self, left: Symbols, right: Symbols) -> Symbols:
        left, right = self._common(left, right)
        self._check_finite("a number of unknown sign multiplies", left, right)
        is_square = _are_same(left, right)
        if is_square and (found := self._square_of_root(left)) is not None:
            return found
        result = Symbols(
            None if left.residues is None or right.residues is None else left.residues * right.residues % self.p,
            None if left.exponents is None or right.exponents is None else left.exponents * right.exponents % self.n,
            None,
            left.is_whole and right.is_whole,
            self._limited(left.size.multiplied(right.size)),
            None,
            min(left.sign, right.sign) or NOT_NEGATIVE * is_square,
            None,
            self._power_of_product(left, right),
        )
        if is_square and left.size != KNOWN_SIZE:
            self._note_root(left, result)
        return result

    def _note_root(self, root: Symbols, square: Symbols) -> None:
        self.roots.append((root, square))
        del self.roots[:-_MOST_ROOTS]

    def _square_of_root(self, root: Symbols) -> Symbols | None:
        """The square that ``root`` was made a root of, if it was."""
        found = [square for each, square in self.roots if are_equal(each, root)]
        return found[-1].moved(lambda part: part.reshape(root.shape)) if found else None

    def _power_of_product(self, left: Symbols, right: Symbols) -> Symbols | None:
        """exp(k x) = exp(x)^k for halves of whole numbers k."""
        for value, factor in ((left, right), (right, left)):
            if value.power is not None and factor.size == KNOWN_SIZE and factor.residues is not None:
                for twice in _POWERS:
                    if (factor.residues == self._fraction(Fraction(twice, 2))[0]).all():
                        shape = np.broadcast_shapes(left.shape, right.shape)
                        found = self.power(value.power, twice / 2)
                        return found.moved(partial(np.broadcast_to, shape=shape))
        return None

    def scale(self, value: Symbols, factors: Array) -> Symbols:
        """``value`` times known numbers, which may have infinite elements if the factors there are not 0."""
        if value.is_finite:
            found = self.multiply(value, self.constant(factors))
            if value.levels is None:
                return found
            return replace(found, levels=large(value.levels * factors.astype(np.float64)))
        if value.kept is not None:
            if (factors.astype(np.float32) <= 0).any():
                raise UndecidedError("a number that may be minus infinity is multiplied by one that is not positive")
            scaled = self.scale(replace(value, kept=None), factors)
            return replace(scaled, kept=np.broadcast_to(value.kept, scaled.shape))
        assert value.infinities is not None
        infinities, known = np.broadcast_arrays(value.infinities, factors.astype(np.float32))
        if (known[infinities != 0] == 0).any():
            raise UndecidedError("infinity is multiplied by 0, which gives NaN")
        signs = np.where(known < 0, -infinities, infinities)
        product = self.scale(value.finite(), factors)
        return self._without(replace(product, infinities=signs))

    def reciprocal(self, value: Symbols) -> Symbols:
        if value.kept is not None:
            raise UndecidedError("a number that may be minus infinity divides")
        if value.infinities is None:
            residues = None if value.residues is None else self.field.inverse(value.residues)
            exponents = self._exponent_inverses(value)
            sign = POSITIVE if value.sign else 0
            return Symbols(residues, exponents, size=self._limited(value.size.inverted()), sign=sign)
        infinite = value.infinities != 0
        inverse = self.reciprocal(value.finite().moved(lambda part: np.where(infinite, np.uint64(1), part)))
        return inverse.moved(lambda part: np.where(infinite, np.uint64(0), part))

    def _exponent_inverses(self, value: Symbols) -> Words | None:
        """None if some of many exponents are no units: a new draw would have such again, and residues tell enough."""
        if value.exponents is None:
            return None
        try:
            return self.field.exponent_inverse(value.exponents)
        except UnluckyError:
            if value.residues is None or value.exponents.size < _MANY:
                raise
            return None

    def divide(self, left: Symbols, right: Symbols) -> Symbols:
        return self.multiply(left, self.reciprocal(right))

    def total(self, value: Symbols, axis: int) -> Symbols:
        """The sum along an axis."""
        if value.kept is not None:
            raise UndecidedError("a number that may be minus infinity is added up")
        infinities = None
        if value.infinities is not None:
            positive, negative = ((sign * value.infinities > 0).any(axis) for sign in (1, -1))
            if (positive & negative).any():
                raise UndecidedError("infinities of both signs are added, which gives NaN")
            infinities = np.where(positive, np.int8(PLUS), value.infinities.min(axis))
        # A sum of 2**32 words below 2**32 fits into one.
        return self._without(
            Symbols(
                None if value.residues is None else value.residues.sum(axis, dtype=np.uint64) % self.p,
                None if value.exponents is None else value.exponents.sum(axis, dtype=np.uint64) % self.n,
                infinities,
                value.is_whole,
                self._limited(value.size.summed(value.shape[axis])),
                None,
                value.sign,
                None if value.levels is None else large(value.levels.sum(axis)),
                None if value.power is None else self._product(value.power, axis),
            )
        )

    def _product(self, value: Symbols, axis: int) -> Symbols:
        """The product along an axis."""
        columns = [value.moved(lambda part, i=i: np.take(part, i, axis)) for i in range(value.shape[axis])]
        return functools.reduce(self.multiply, columns)

    def matmul(self, left: Symbols, right: Symbols) -> Symbols:
        """``left @ right`` of matrices."""
        self._check_finite("a matrix product takes", left, right)
        left, right = self._common(left, right)
        residues = exponents = None
        if left.residues is not None and right.residues is not None:
            residues = product(left.residues, right.residues, self.field.p)
        if left.exponents is not None and right.exponents is not None:
            exponents = product(left.exponents, right.exponents, self.field.n)
        size = self._limited(left.size.multiplied(right.size).summed(left.shape[1]))
        return Symbols(
            residues, exponents, None, left.is_whole and right.is_whole, size, sign=min(left.sign, right.sign)
        )

    # -- exp, log and powers

    def exp(self, value: Symbols) -> Symbols:
        if value.infinities is not None and (value.infinities > 0).any():
            raise UndecidedError("exp of plus infinity")
        is_masked = value.levels is not None and value.levels < 0
        if np.any(is_masked):
            self.note_fill()
        if value.exponents is not None and value.power is None:
            self.exponents = self.exponents.joined(value.size)
        exponents = self.with_exponents(value).exponents
        assert exponents is not None
        residues, size = self.field.exp(exponents), self._of_unknown(value)
        if value.power is not None:
            assert value.power.residues is not None
            residues, size = value.power.residues, value.power.size
        is_zero = is_masked if value.infinities is None else is_masked | (value.infinities < 0)
        if np.any(is_zero):
            residues = np.where(is_zero, np.uint64(0), residues)
        if value.kept is not None:
            residues = residues * value.kept % self.p
        sign = NOT_NEGATIVE if np.any(is_zero) or value.kept is not None else POSITIVE
        return Symbols(residues, None, None, False, size, sign=sign)

    def note_fill(self) -> None:
        self.assumptions.add(
            f"numbers are above the constants of at most {LEAST_FILL:g} that mask, and exp of what these mask is 0"
        )

    def log(self, value: Symbols) -> Symbols:
        self._check_finite("log of", value)
        residues = self.with_residues(value).residues
        assert residues is not None
        power = 2 * self.field.r  # log(x) = log(y) if x^2r = y^2r
        size = Size(power * value.size.numerator, power * value.size.denominator)
        self.arguments = self.arguments.joined(size)
        power = Symbols(residues, None, size=value.size, sign=value.sign)
        return Symbols(None, self.field.log(residues), None, False, self._of_unknown(value), power=power)

    def sqrt(self, value: Symbols) -> Symbols:
        self._check_finite("root of", value)
        is_known = value.size == KNOWN_SIZE
        if self.root_key is not None and not is_known:
            value = replace(self.with_residues(value), exponents=None)
        residues = None if value.residues is None else self.field.sqrt(value.residues)
        exponents = None if value.exponents is None else self.field.exponent_sqrt(value.exponents)
        if not is_known:
            self.assumptions.add(_NO_SQUARES)
            are_squares = self._are_squares(value, residues, exponents)
            self.are_squares.append(are_squares.reshape(-1))
            if self.root_key is not None and residues is not None:
                random = mixed(mixed(self.words(value), self.key), self.root_key) % self.p
                residues = np.where(are_squares, residues, random)
        sign = max(value.sign, NOT_NEGATIVE)
        result = Symbols(residues, exponents, None, False, self._of_unknown(value), sign=sign)
        if not is_known:
            self._note_root(result, value)
        return result

    def _are_squares(self, value: Symbols, residues: Words | None, exponents: Words | None) -> NDArray[np.bool_]:
        """True of elements that are squares in all fields, as x * x is: its real root is x or -x by the sign of x, and
        numbers of a field have none.
        """
        squares = np.ones(value.shape, np.bool_)
        if residues is not None and value.residues is not None:
            squares &= residues * residues % self.p == value.residues
        if exponents is not None and value.exponents is not None:
            squares &= exponents * exponents % self.n == value.exponents
        return squares

    def rsqrt(self, value: Symbols) -> Symbols:
        """``1 / sqrt(x)``."""
        result = replace(self.reciprocal(self.sqrt(value)), size=self._of_unknown(value))
        if value.size != KNOWN_SIZE:
            self._note_root(result, self.reciprocal(value))
        return result

    def power(self, value: Symbols, exponent: float) -> Symbols:
        """``value`` to a known power: by products, roots and reciprocals for halves, else exp(exponent log(value))."""
        twice = 2 * exponent
        if twice != int(twice) or abs(twice) > 256:
            return self.exp(self.multiply(self.constant(np.array(exponent, np.float32)), self.log(value)))
        if exponent == -0.5:
            return self.rsqrt(value)
        if exponent < 0:
            return self.reciprocal(self.power(value, -exponent))
        result = self.constant(np.ones(value.shape, np.int32))
        square = value
        whole = int(exponent)
        while whole:
            if whole & 1:
                result = self.multiply(result, square)
            whole >>= 1
            if whole:
                square = self.multiply(square, square)
        return self.multiply(result, self.sqrt(value)) if twice % 2 else result

    # -- structure

    def joined(self, values: Sequence[Symbols], join: Join) -> Symbols:
        return joined(values, join, self.with_residues, self.exp)

    def choose(self, condition: NDArray[np.bool_], yes: Symbols, no: Symbols) -> Symbols:
        """Elements of ``yes`` where the known ``condition`` holds, else of ``no``; all of one shape."""
        return self.joined([yes, no], partial(_chosen, condition))

    def is_zero(self, value: Symbols) -> NDArray[np.bool_]:
        """True where the element is the number 0, or the program has luck."""
        zero = np.ones(value.shape, np.bool_)
        for part in (value.residues, value.exponents):
            if part is not None:
                zero &= part == 0
        if value.kept is not None:
            zero &= value.kept == 1
        return zero if value.infinities is None else zero & (value.infinities == 0)


def _are_same(left: Symbols, right: Symbols) -> bool:
    """True if both are the same numbers."""
    return left.shape == right.shape and all(
        one is other or (one is not None and other is not None and np.array_equal(one, other))
        for one, other in ((left.residues, right.residues), (left.exponents, right.exponents))
    )


def are_equal(one: Symbols, other: Symbols) -> bool:
    """As :func:`_are_same`, in any shape."""
    return one.present.size == other.present.size and _are_same(
        *(each.moved(lambda part: part.reshape(-1)) for each in (one, other))
    )


def _chosen(condition: NDArray[np.bool_], parts: list[Array]) -> Array:
    return np.where(condition, parts[0], parts[1])


__all__ = ["Arithmetic", "are_equal"]
