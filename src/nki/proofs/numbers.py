"""Numbers of a proof as they come from outside: inputs, constants, and hashes of other numbers."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs import constants
from nki.proofs.constants import Closed
from nki.proofs.field import Field, UnluckyError, Words, mixed
from nki.proofs.symbols import (
    KNOWN_SIZE,
    MINUS,
    NOT_NEGATIVE,
    PLUS,
    POSITIVE,
    VARIABLE_SIZE,
    Array,
    Levels,
    Size,
    Symbols,
    UndecidedError,
)

Pair = tuple[int, int]
"""Residue and exponent."""

LEAST_FILL: Final = -9000.0
"""A float32 constant of at most this masks: exp(x - 9000) is 0 for every x below 8896."""
LEAST_LEVEL: Final = 900.0
"""After a scale or a sum such a constant still masks if it is at least so large; else it is a number as others."""
_EXPONENT_SALT: Final = 0x5851F42D4C957F2D
_UNDEFINED_SALT: Final = 0x2545F4914F6CDD1D
_NO_PART: Final = np.uint64(0xFFFFFFFF)
_MOST_SCALARS: Final = 32


@dataclass
class Numbers:
    """Numbers of one ``field``, with ``key`` for the hashes; what is assumed of them is in ``assumptions``."""

    field: Field
    key: int
    assumptions: set[str] = dataclasses.field(default_factory=set[str])
    unknown: dict[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Names of unknown functions, and how many elements each was computed for."""
    readings: dict[float, Closed] = dataclasses.field(default_factory=dict[float, Closed])
    """Constants that were read as other numbers than their float32."""

    arguments: Size = VARIABLE_SIZE
    """The size of the arguments of unknown functions, at most."""
    exponents: Size = VARIABLE_SIZE
    """The same of arguments that only have exponents, and of arguments of exp."""

    created: int = 0
    """Unknown numbers that there are, at most."""
    thresholds: set[float] = dataclasses.field(default_factory=set[float])
    """Known numbers with which others are compared."""
    splits: bool = False
    """exp(x + y) is exp(x) exp(y) also if only y has exponents; else exp knows x + y as a whole."""
    has_split: bool = False
    """``splits`` would have made a difference."""
    root_key: int | None = None
    """If not None, roots of what is no square modulo p are random numbers that depend on it too; others are exact."""
    are_squares: list[NDArray[np.bool_]] = dataclasses.field(default_factory=list[NDArray[np.bool_]])
    """For each root the elements that are squares in all fields."""
    roots: list[tuple[Symbols, Symbols]] = dataclasses.field(default_factory=list[tuple[Symbols, Symbols]])
    """Roots and their squares, as the kernel has made the one of the other."""
    side: int = 0
    """The program of the proof that is computed, 0 or 1: each reads numbers of its own where nothing has written."""
    reads_undefined: bool = False
    """A NaN is memory that nothing has written, an unknown number; else a proof cannot follow it."""
    scalars: dict[float, Symbols] = dataclasses.field(default_factory=dict[float, Symbols])
    """Known numbers that stood alone."""

    def __post_init__(self) -> None:
        self.p, self.n = np.uint64(self.field.p), np.uint64(self.field.n)

    # -- values from outside

    def variables(self, name: str, shape: tuple[int, ...], is_whole: bool) -> Symbols:
        """A random value for each element of the input ``name``."""
        seed = [self.key, *name.encode()]
        random = np.random.default_rng(seed)
        residues = random.integers(0, self.field.p, shape, np.uint64)
        return Symbols(residues, random.integers(0, self.field.n, shape, np.uint64), None, is_whole)

    def constant(self, numbers: Array) -> Symbols:
        """Known numbers: integers exactly, floats as :func:`nki.proofs.constants.read` reads them."""
        found = self._constant(numbers)
        if numbers.size == 1 and np.isfinite(float(numbers.flat[0])) and len(self.scalars) < _MOST_SCALARS:
            self.scalars.setdefault(float(numbers.flat[0]), found.moved(lambda part: part.reshape(())))
        return found

    def _constant(self, numbers: Array) -> Symbols:
        if numbers.dtype.kind in "iub":
            whole = numbers.astype(np.int64)
            return Symbols(*self._of_whole(whole), None, True, KNOWN_SIZE, sign=_sign_of(whole))
        values = numbers.astype(np.float32)
        if (missing := np.isnan(values)).any():
            if not self.reads_undefined:
                raise UndecidedError("a NaN, or memory that nothing has written, is read")
            return self._with_undefined(self._constant(np.where(missing, np.float32(0), values)), missing)
        infinities = np.zeros(values.shape, np.int8)
        infinities[np.isneginf(values)] = MINUS
        infinities[np.isposinf(values)] = PLUS
        levels = np.where((values <= LEAST_FILL) & (infinities == 0), values.astype(np.float64), 0.0)
        has_infinities = bool(infinities.any())
        values = np.where(infinities != 0, np.float32(0), values) if has_infinities else values
        is_whole = bool((values == np.rint(values)).all() and (np.abs(values) < 1 << 53).all())
        sign = 0 if has_infinities else _sign_of(values)
        if is_whole:
            residues, exponents = self._of_whole(values.astype(np.int64))
        else:
            distinct, places = np.unique(values, return_inverse=True)
            pairs = [self._read(float(value)) for value in distinct]
            tables = [np.array([pair[part] for pair in pairs], np.uint64) for part in (0, 1)]
            residues, exponents = (table[places].reshape(values.shape) for table in tables)
        return Symbols(
            residues,
            exponents,
            infinities if has_infinities else None,
            is_whole and not has_infinities,
            KNOWN_SIZE,
            sign=sign,
            levels=large(levels),
        )

    def _with_undefined(self, value: Symbols, missing: NDArray[np.bool_]) -> Symbols:
        """``value`` with numbers that equal no others for memory that nothing has written: results that depend on one
        differ.
        """
        name, count = "memory that nothing has written", math.prod(missing.shape)
        first = self.unknown.get(name, 0)
        self.unknown[name] = first + count
        self.created += count
        numbers = np.arange(first, first + count, dtype=np.uint64).reshape(missing.shape) + np.uint64(self.side << 48)
        words = self.of_words(mixed(numbers, self.key ^ _UNDEFINED_SALT))
        assert value.residues is not None and value.exponents is not None
        assert words.residues is not None and words.exponents is not None
        residues = np.where(missing, words.residues, value.residues)
        exponents = np.where(missing, words.exponents, value.exponents)
        size = value.size.joined(Size(1, 0, 1))
        return replace(value, residues=residues, exponents=exponents, is_whole=False, size=size, sign=0)

    def _of_whole(self, numbers: NDArray[np.int64]) -> tuple[Words, Words]:
        residues, exponents = (np.mod(numbers, modulus) for modulus in (self.field.p, self.field.n))
        return residues.astype(np.uint64), exponents.astype(np.uint64)

    def _read(self, value: float) -> tuple[int, int]:
        """Residue and exponent of a constant."""
        closed = constants.read(value)
        if value > LEAST_FILL and (closed.is_root or closed.atom or closed.fraction != Fraction(value)):
            self.readings[value] = closed
        found = self._fraction(closed.fraction)
        if closed.atom:
            atom = self.unknown_number(closed.atom)
            found = self._times(found, atom if closed.power > 0 else self._inverted(atom))
        if closed.is_root:
            roots = self.field.sqrt, self.field.exponent_sqrt
            residue, exponent = (
                int(root(np.array([part], np.uint64))[0]) for root, part in zip(roots, found, strict=True)
            )
            found = residue, exponent
        return self._times(found, (-1, -1)) if closed.sign < 0 else found

    def _times(self, one: Pair, other: Pair) -> Pair:
        return one[0] * other[0] % self.field.p, one[1] * other[1] % self.field.n

    def _inverted(self, pair: Pair) -> Pair:
        try:
            return pow(pair[0], -1, self.field.p), pow(pair[1], -1, self.field.n)
        except ValueError:
            raise UnluckyError from None

    def _fraction(self, number: Fraction) -> Pair:
        top, bottom = number.numerator, number.denominator
        return self._times((top, top), self._inverted((bottom, bottom)))

    def unknown_number(self, name: str) -> Pair:
        """Residue and exponent of a positive number with a name, and nothing else is known of it: of a square."""
        root = self.variables(f"the number {name}", (), False)
        assert root.residues is not None and root.exponents is not None
        return self._times(*((int(root.residues), int(root.exponents)),) * 2)

    # -- parts

    def words(self, value: Symbols) -> Words:
        """One word for each element: equal ones for elements that are the same number."""
        low = value.exponents if value.exponents is not None else _NO_PART
        high = value.residues if value.residues is not None else _NO_PART
        words: Words = np.asarray(high << np.uint64(32) | low)
        if value.kept is not None:
            words = np.where(value.kept == 1, words, mixed(words ^ mixed(value.kept, self.key), self.key))
        if value.infinities is not None:
            words = np.where(value.infinities == 0, words, ~np.uint64(0) - (value.infinities != PLUS))
        return words

    def of_words(self, words: Words, is_whole: bool = False) -> Symbols:
        """Random residues and exponents that depend on ``words`` alone."""
        hashed = mixed(words, self.key)
        return Symbols(hashed % self.p, mixed(hashed, _EXPONENT_SALT) % self.n, None, is_whole)

    def with_residues(self, value: Symbols) -> Symbols:
        """``value`` with residues: if it has none, a hash of its exponents."""
        if value.residues is not None:
            return value
        return replace(value, residues=self.of_words(self.words(value)).residues)

    def with_exponents(self, value: Symbols) -> Symbols:
        """``value`` with exponents: if it has none, a hash of its residues."""
        if value.exponents is not None:
            return value
        return replace(value, exponents=self.of_words(self.words(value)).exponents)


def _sign_of(numbers: Array) -> int:
    """The sign that all known numbers have."""
    least = numbers.min(initial=1)
    return POSITIVE if least > 0 else NOT_NEGATIVE if least == 0 else 0


def large(levels: Levels) -> Levels | None:
    """``levels``, 0 for small ones; None if all are."""
    large = np.where(np.abs(levels) < LEAST_LEVEL, 0.0, levels)
    return large if large.any() else None


__all__ = ["LEAST_FILL", "LEAST_LEVEL", "Numbers", "large"]
