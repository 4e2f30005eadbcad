"""The functions of kernels on :class:`Symbols`: extremes, comparisons, choices, and the activation functions.

What has no formula in the field is an unknown function: a keyed hash of its arguments, so that equal arguments give
equal results and nothing else is known.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf, pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs.arithmetic import Arithmetic, are_equal
from nki.proofs.extremes import Sets
from nki.proofs.field import Words, mixed
from nki.proofs.indicators import MOST, Found, Indicators
from nki.proofs.numbers import LEAST_FILL, LEAST_LEVEL
from nki.proofs.symbols import KNOWN_SIZE, MINUS, NOT_NEGATIVE, POSITIVE, Array, Levels, Size, Symbols, UndecidedError


@dataclass
class Reals(Arithmetic):
    """Arithmetic with the functions that it knows nothing of but their names."""

    sets: Sets = field(default_factory=Sets)
    ties: bool = True
    """Numbers that are compared may be equal; else it is assumed that no two real numbers are."""
    bits: bool = False
    """The sign of a number is drawn, so that what follows it is exact; no two numbers are equal."""
    indicators: Indicators = field(default_factory=Indicators)
    choices: list[tuple[Symbols, Symbols, Symbols]] = field(default_factory=list[tuple[Symbols, Symbols, Symbols]])
    """Elements that were gathered, with the truths of each place and the rows that they are from."""
    truths: list[Words] = field(default_factory=list[Words])
    """Words of numbers that are 0 or 1: results of comparisons."""
    deadline: float = inf
    """The time at which the computation is given up, in seconds of :func:`time.monotonic`."""

    def unknown_function(self, name: str, *arguments: Symbols, salt: Words | None = None) -> Symbols:
        """An unknown function of the ``arguments``, element by element; ``salt``: words of further arguments."""
        words: Words = np.asarray(_salt(name)) if salt is None else salt ^ _salt(name)
        for argument in arguments:
            words = mixed(words ^ self.words(argument), self.key)
        return self._named(name, words, *arguments)

    def _named(self, name: str, words: Words, *arguments: Symbols) -> Symbols:
        """Unknown numbers for ``words``, which an unknown function ``name`` has made of its ``arguments``."""
        self.unknown[name] = self.unknown.get(name, 0) + words.size
        return replace(self.of_words(words), size=self._of_unknown(*arguments))

    def number(self, number: float) -> Symbols:
        """One known element."""
        return self.constant(np.array(number, np.float32))

    def _known(self, number: int, like: Symbols) -> Symbols:
        """As many elements as ``like`` has, all of them ``number``."""
        return self.number(number).moved(lambda part: np.broadcast_to(part, like.shape))

    def function_of_rows(self, name: str, value: Symbols, *places: Symbols) -> Symbols:
        """An unknown function of each row of the last axis of ``value``, and of ``places``, of as many rows."""
        positions = mixed(np.arange(value.shape[-1], dtype=np.uint64), self.key)
        rows = mixed(self.words(value) ^ positions, self.key).sum(axis=-1, dtype=np.uint64)
        found = self.unknown_function(name, *places, salt=rows[..., None])
        return replace(found, size=self._of_row(value, value.shape[-1]).joined(self._of_unknown(*places)))

    def _of_row(self, value: Symbols, count: int) -> Size:
        """The size of an unknown number that depends on ``count`` elements like ``value``."""
        size = self._of_unknown(value)
        # Rows are the same by chance if one of the elements is: hardly ever if both parts of it have to be.
        own = 1 if value.residues is not None and value.exponents is not None else count
        return Size(1, 0, min(self.created, own + count * value.size.unknown), count * size.truths)

    def ranked(self, value: Symbols, count: int) -> Symbols:
        """The largest ``count`` elements of each row of the last axis, in descending order.

        The first is the maximum; each of the others is an unknown function of the set of the row's elements.
        """
        shape = (*value.shape[:-1], count)
        rows = mixed(self.words(value), self.key).sum(axis=-1, dtype=np.uint64)
        places = self.constant(np.broadcast_to(np.arange(count, dtype=np.int32), shape))
        found = self.unknown_function("rank", places, salt=rows[..., None])
        found = replace(found, size=self._of_row(value, value.shape[-1]))
        first = self.greatest(value).moved(lambda part: np.broadcast_to(part[..., None], shape))
        return self.choose(np.broadcast_to(np.arange(count) == 0, shape), first, found)

    # -- integers of a range

    def integers(self, name: str, shape: tuple[int, ...], least: int, most: int) -> Symbols:
        """The input ``name``, of integers from ``least`` to ``most``."""
        count, elements = most - least + 1, int(np.prod(shape))
        if not 1 <= count * elements <= MOST:
            return self.variables(name, shape, True)
        truths = self.variables(name, (elements, count), True)
        parts: list[Words] = []
        columns: list[Words] = []
        for part, modulus in ((truths.residues, self.p), (truths.exponents, self.n)):
            assert part is not None
            part[:, -1] = (modulus + 1 - part[:, :-1].sum(axis=1, dtype=np.uint64) % modulus) % modulus
            numbers = np.mod(np.arange(least, most + 1), int(modulus)).astype(np.uint64)
            parts.append((part * numbers % modulus).sum(axis=1, dtype=np.uint64) % modulus)
            columns.append(part)
        flat = Symbols(parts[0], parts[1], None, True)
        self.indicators.add(self.words(flat), least, columns[0], columns[1], (self.p, self.n))
        return flat.moved(lambda part: part.reshape(shape))

    def _of_integers(self, value: Symbols, known: Symbols) -> tuple[Found, NDArray[np.int64]] | None:
        """The truths of ``value``, if it is an input of integers, beside ``known`` integers; None if not."""
        is_known = known.size == KNOWN_SIZE and known.is_whole and known.is_finite
        if not self.indicators.tables or not is_known or known.residues is None or not value.is_finite:
            return None
        shape = np.broadcast_shapes(value.shape, known.shape)
        found = self.indicators.find(self.words(value))
        if found is None:
            return None
        signed = known.residues.astype(np.int64)
        numbers = np.where(signed > self.field.p // 2, signed - self.field.p, signed)
        rows = np.broadcast_to(found.rows, shape)
        return Found(found.table, rows), np.broadcast_to(numbers, shape)

    def _truth_of(self, parts: tuple[Words, Words], like: Symbols) -> Symbols:
        return self._noted(Symbols(parts[0], parts[1], None, True, like.size))

    def gathered(self, value: Symbols, indices: Symbols) -> Symbols:
        """Elements of each row of the last axis of ``value`` at ``indices``: the sum of all, each times the truth that
        the index is its place; of long rows an unknown function.
        """
        count = value.shape[-1]
        if count > _MOST_GATHERED or not value.is_finite or not indices.is_finite:
            return self.function_of_rows("gather", value, indices)
        found = self.indicators.find(self.words(indices))
        if found is None or found.least < 0 or found.least + found.count > count:
            self.assumptions.add("indices are within what they index")
        shape = np.broadcast_shapes(value.shape[:-1], indices.shape[:-1])
        rows = value.moved(lambda part: np.broadcast_to(part[..., None, :], (*shape, 1, count)))
        places = self.constant(np.arange(count, dtype=np.int32))
        truths = self.equal(indices.moved(lambda part: part[..., None]), places)
        found = self.total(self.multiply(truths, rows), -1)
        self.choices = [*self.choices[-_MOST_CHOICES:], (found, truths, rows)]
        return found

    def _of_choice(self, function: Callable[[Symbols], Symbols], value: Symbols) -> Symbols | None:
        """``function`` of elements that were gathered: one of its results for all elements of the row."""
        for found, truths, rows in self.choices:
            if are_equal(found, value):
                results = self.total(self.multiply(truths, function(rows)), -1)
                return results.moved(lambda part: part.reshape(value.shape))
        return None

    def log(self, value: Symbols) -> Symbols:
        found = self._of_choice(super().log, value)
        return super().log(value) if found is None else found

    def exp(self, value: Symbols) -> Symbols:
        found = self._of_choice(super().exp, value)
        return super().exp(value) if found is None else found

    # -- extremes

    def maximum(self, left: Symbols, right: Symbols) -> Symbols:
        shape = np.broadcast_shapes(left.shape, right.shape)
        values = [value.moved(lambda part: np.broadcast_to(part, shape)) for value in (left, right)]
        found = self.greatest(self.joined(values, lambda parts: np.stack(parts, axis=-1)))
        # It depends on what both depend on, and on the truth that one is greater, and that both are equal.
        most = 2 + left.size.unknown + right.size.unknown
        return replace(found, size=found.size._replace(unknown=min(found.size.unknown, most)))

    def minimum(self, left: Symbols, right: Symbols) -> Symbols:
        return self.negative(self.maximum(self.negative(left), self.negative(right)))

    def least(self, value: Symbols) -> Symbols:
        """The minimum along the last axis."""
        return self.negative(self.greatest(self.negative(value)))

    def greatest(self, value: Symbols) -> Symbols:
        """The maximum along the last axis."""
        *outer, count = value.shape
        words = self.words(value).reshape(-1, count)
        shape = tuple(outer)
        if value.infinities is not None or (value.levels is not None and (value.levels < 0).any()):
            return self._greatest_of_extended(value, words, shape)
        return self._greatest(value, words).moved(lambda part: part.reshape(shape))

    def _greatest_of_extended(self, value: Symbols, words: Words, shape: tuple[int, ...]) -> Symbols:
        infinities = value.signs.reshape(words.shape)
        if (infinities > 0).any():
            raise UndecidedError("a maximum is taken of infinity")
        heights: Levels = np.where(infinities < 0, -np.inf, np.minimum(value.heights.reshape(words.shape), 0.0))
        if ((heights < 0) & (heights > -np.inf)).any():
            self.note_fill()
        # A member of the highest level in place of each lower one changes no set.
        top: Levels = heights.max(axis=1)
        high = np.greater_equal(heights, np.where(top == -np.inf, top, top - LEAST_LEVEL)[:, None])
        first = np.argmax(high, axis=1)[:, None]
        rest = replace(value.moved(lambda part: part.reshape(words.shape)), infinities=None, levels=None)
        finite = rest.moved(lambda part: np.where(high, part, np.take_along_axis(part, first, axis=1)))
        found = self._greatest(finite, np.where(high, words, np.take_along_axis(words, first, axis=1)))
        if (top == -np.inf).any():
            found = self._without(replace(found, infinities=np.where(top == -np.inf, MINUS, 0).astype(np.int8)))
        if (levels := np.where(top == -np.inf, 0.0, top)).any():
            found = replace(found, levels=levels)
        return found.moved(lambda part: part.reshape(shape))

    def _greatest(self, value: Symbols, words: Words) -> Symbols:
        """The maxima of the rows of ``words``, which are finite."""
        value = value.moved(lambda part: part.reshape(words.shape))
        first = value.moved(lambda part: part[:, 0])
        same = (words == words[:, :1]).all(axis=1)
        if same.all():
            return first
        if self.bits and value.shape[1] == 2 and value.kept is None:  # one of both, which is no new number
            return self._greater_of_two(first, value.moved(lambda part: part[:, 1]))
        unions = self.sets.unions(words)
        if value.shape[1] == 2 and value.kept is None and (unions.counts <= 2).all():
            result = self._greater_of_two(first, value.moved(lambda part: part[:, 1]))
        else:
            single = unions.counts == 1
            size = self._of_row(value, words.shape[1])
            named = replace(self.of_words(unions.hashes, value.is_whole), size=size, sign=value.sign)
            result = self.choose(single, first, named) if single.any() else named
        self.sets.keep(self.words(result), unions)
        return result

    def _greater_of_two(self, left: Symbols, right: Symbols) -> Symbols:
        """right + (left - right) [left > right], written so that it is the same for both orders."""
        for one, other in ((left, right), (right, left)):
            if one.sign and other.size == KNOWN_SIZE and self.is_zero(other).all():
                return one
            if (found := self._greater_of_multiples(one, other)) is not None:
                return found
        difference = self.subtract(left, right)
        is_lower, truth, _ = self._comparison(difference)
        oriented = self.choose(is_lower, difference, self.negative(difference))
        product = self.multiply(truth, oriented)
        is_whole, sign = left.is_whole and right.is_whole, max(left.sign, right.sign)
        return replace(self.add(self.choose(is_lower, right, left), product), is_whole=is_whole, sign=sign)

    def _greater_of_multiples(self, x: Symbols, other: Symbols) -> Symbols | None:
        """The greater of x and c x for a known number c, by the sign of x; None if ``other`` is no such number."""
        if x.size == KNOWN_SIZE or x.residues is None or other.residues is None:
            return None
        for number, factor in [(-1.0, self.number(-1)), *self.scalars.items()]:
            assert factor.residues is not None
            if not np.array_equal(other.residues, x.residues * factor.residues % self.p):
                continue
            is_lower, truth, _ = self._comparison(x)
            small, large = (other, x) if number < 1 else (x, other)  # of a positive x
            below, above = self.choose(is_lower, small, large), self.choose(is_lower, large, small)
            found = self.add(below, self.multiply(truth, self.subtract(above, below)))
            return replace(found, is_whole=x.is_whole and other.is_whole, sign=max(x.sign, other.sign))
        return None

    # -- comparisons

    def _check_kept(self, *values: Symbols) -> None:
        if any(value.kept is not None for value in values):
            raise UndecidedError("a number that may be minus infinity is compared")

    def greater(self, left: Symbols, right: Symbols) -> Symbols:
        """1 where ``left > right``, else 0."""
        self._check_kept(left, right)
        if any(each.infinities is not None or each.levels is not None for each in (left, right)):
            return self._greater_of_extended(left, right)
        if (found := self._of_integers(left, right)) is not None:  # at least the number behind
            return self._truth_of(found[0].at_least(found[1] + 1), left)
        if (found := self._of_integers(right, left)) is not None:
            return self.opposite_truth(self._truth_of(found[0].at_least(found[1]), right))
        return self._positive(self.subtract(left, right))

    def _greater_of_extended(self, left: Symbols, right: Symbols) -> Symbols:
        lows = [np.where(each.signs != 0, each.signs * np.inf, np.minimum(each.heights, 0.0)) for each in (left, right)]
        one, other = np.broadcast_arrays(*lows)
        if any((np.isfinite(each) & (each < 0)).any() for each in (one, other)):
            self.note_fill()
        inner = self._positive(self.subtract(left.finite(), right.finite()))
        known = np.isinf(one) | np.isinf(other) | (np.abs(one - other) > LEAST_LEVEL)
        return self.choose(known, self.constant((one > other).astype(np.int32)), inner)

    def _comparison(self, value: Symbols) -> tuple[NDArray[np.bool_], Symbols, Symbols]:
        """The sign of a number x: if x comes before -x in an order of words; the unknown truth that the first of both
        is greater than 0, and the unknown truth that it is 0.
        """
        words = [self.words(each) for each in (value, self.negative(value))]
        lower: Words = np.minimum(*words)
        hashed = mixed(lower ^ _salt("> 0"), self.key)
        greater = self._named("> 0", hashed, value)
        greater = replace(greater, is_whole=True, size=greater.size._replace(truths=greater.size.truths + 1))
        if self.bits:
            bits = hashed >> np.uint64(63)
            return words[0] <= words[1], replace(greater, residues=bits, exponents=bits), self._known(0, value)
        if not self.ties and not value.is_whole:
            return words[0] <= words[1], greater, self._known(0, value)
        equal = replace(self._named("= 0", mixed(lower ^ _salt("= 0"), self.key), value), is_whole=True)
        return words[0] <= words[1], greater, equal

    def _positive(self, value: Symbols) -> Symbols:
        """1 where the number is greater than 0."""
        if value.sign == POSITIVE:
            return self._known(1, value)
        is_lower, greater, equal = self._comparison(value)
        found = self.choose(is_lower, greater, self.opposite_truth(self.add(greater, equal)))
        zero = self.is_zero(value)
        return self._noted(self.choose(zero, self._known(0, found), found) if zero.any() else found)

    def equal(self, left: Symbols, right: Symbols) -> Symbols:
        """1 where both are the same number, else 0."""
        self._check_finite("equality is asked of", left, right)
        for one, other in ((left, right), (right, left)):
            if (found := self._of_integers(one, other)) is not None:
                return self._truth_of(found[0].equal(found[1]), one)
        difference = self.subtract(left, right)
        found = self._comparison(difference)[2]
        for each in (difference, self.negative(difference)):  # t = 0 and t = 1 of a truth t
            if (known := self.is_truth(each)).any():
                found = self.choose(known, self.opposite_truth(each), found)
        zero = self.is_zero(difference)
        return self._noted(self.choose(zero, self._known(1, found), found) if zero.any() else found)

    def opposite_truth(self, truth: Symbols) -> Symbols:
        """1 - truth."""
        return replace(self.subtract(self.number(1), truth), sign=NOT_NEGATIVE)

    def _noted(self, truth: Symbols) -> Symbols:
        self.truths += [self.words(each).reshape(-1) for each in (truth, self.opposite_truth(truth))]
        return replace(truth, sign=NOT_NEGATIVE)

    def scaled(self, value: Symbols, factors: Array) -> Symbols:
        """``value`` times known numbers; a truth times a large negative one is a mask."""
        distinct = np.unique(factors)
        if len(distinct) == 1 and abs(distinct[0]) >= -LEAST_FILL and value.is_finite:
            truth = value if distinct[0] < 0 else self.negative(value)
            if self.is_truth(truth).all():
                fill, nothing = (self.number(number) for number in (-abs(float(distinct[0])), 0))
                return self.select(truth, fill, nothing)
        return self.scale(value, factors)

    def truth(self, value: Symbols) -> Symbols:
        """1 where the number is not 0, else 0; a number that is one of these by itself stays."""
        self._check_finite("a condition is", value)
        known = self.is_truth(value)
        if known.all():
            return value
        other = self.opposite_truth(self.equal(value, self.number(0)))
        return self.choose(known, value, other) if known.any() else other

    def is_truth(self, value: Symbols) -> NDArray[np.bool_]:
        """True where the number is known to be 0 or 1."""
        return np.isin(self.words(value), np.concatenate([_ZERO_AND_ONE, *self.truths]))

    def both(self, left: Symbols, right: Symbols) -> Symbols:
        """1 where both truths hold."""
        return self._noted(self.multiply(self.truth(left), self.truth(right)))

    def select(self, condition: Symbols, yes: Symbols, no: Symbols) -> Symbols:
        """``yes`` where ``condition`` is not 0, else ``no``."""
        shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
        condition, yes, no = (v.moved(lambda part: np.broadcast_to(part, shape)) for v in (condition, yes, no))
        truth = self.truth(condition)
        if not (no.is_masked or yes.is_masked) and yes.is_finite and no.is_finite:
            found = self.add(no, self.multiply(truth, self.subtract(yes, no)))
            return replace(found, sign=min(yes.sign, no.sign))
        if no.is_masked:
            return self.kept_where(truth, yes, no)
        if yes.is_masked:
            return self.kept_where(self.opposite_truth(truth), no, yes)
        same = self.words(yes) == self.words(no)
        return self.choose(same, yes, self.unknown_function("choice of infinities", truth, yes, no))

    def kept_where(self, truth: Symbols, value: Symbols, other: Symbols) -> Symbols:
        """``value`` where ``truth`` holds, else ``other``, which is minus infinity."""
        if other.levels is not None:
            self.note_fill()
        residues = self.with_residues(truth).residues
        assert residues is not None
        if value.kept is not None:
            residues = residues * value.kept % self.p
        return replace(value, kept=residues)

    # -- functions with formulas

    def sqrt(self, value: Symbols) -> Symbols:
        """The root; of a square that was made as such |x|."""
        roots = [root for root, square in self.roots if are_equal(square, value)]
        if not roots or value.size == KNOWN_SIZE:
            return super().sqrt(value)
        return self.activation("abs", roots[-1].moved(lambda part: part.reshape(value.shape)))

    def signum(self, x: Symbols) -> Symbols:
        """[x > 0] - [x < 0]."""
        zero = self.number(0)
        return self.subtract(self.greater(x, zero), self.greater(zero, x))

    def sigmoid(self, x: Symbols) -> Symbols:
        return self.reciprocal(self.add(self.number(1), self.exp(self.negative(x))))

    def tanh(self, x: Symbols) -> Symbols:
        """(exp(2 x) - 1) / (exp(2 x) + 1)."""
        squared, one = self.exp(self.add(x, x)), self.number(1)
        return self.divide(self.subtract(squared, one), self.add(squared, one))

    def odd(self, name: str, x: Symbols) -> Symbols:
        """An unknown function with f(-x) = -f(x)."""
        self._check_finite(f"{name} of", x)
        words = [self.words(each) for each in (x, self.negative(x))]
        lower = words[0] < words[1]
        found = self._named(name, mixed(np.minimum(*words) ^ _salt(name), self.key), x)
        result = self.choose(lower, found, self.negative(found))
        zero = self.is_zero(x)
        return self.choose(zero, self._known(0, result), result) if zero.any() else result

    def normal(self, x: Symbols) -> Symbols:
        """The distribution function of the normal law: (1 + erf(x / sqrt(2))) / 2."""
        half = self.number(0.5)
        inner = self.multiply(x, self.number(0.5**0.5))
        return self.multiply(half, self.add(self.number(1), self.odd("erf", inner)))

    def softplus(self, x: Symbols) -> Symbols:
        return replace(self.log(self.add(self.number(1), self.exp(x))), sign=POSITIVE)

    def times(self, x: Symbols, number: float) -> Symbols:
        return self.multiply(x, self.number(number))

    def activation(self, name: str, x: Symbols) -> Symbols:
        """A row of :data:`nki.isa.tables.activations.ACTIVATIONS` without parameter, by the formula of that row."""
        return ACTIVATIONS[name](self, x)

    def gelu_tanh_inner(self, x: Symbols) -> Symbols:
        """sqrt(8 / pi) (x + 0.044715 x^3): gelu_apprx_tanh takes the sigmoid of it."""
        cubed = self.multiply(self.multiply(x, x), x)
        return self.times(self.add(x, self.times(cubed, 0.044715)), (8 / pi) ** 0.5)

    def silu_dx(self, x: Symbols) -> Symbols:
        s, one = self.sigmoid(x), self.number(1)
        return self.multiply(s, self.add(one, self.multiply(x, self.subtract(one, s))))

    def gelu_dx(self, x: Symbols) -> Symbols:
        density = self.times(self.exp(self.times(self.multiply(x, x), -0.5)), (0.5 / pi) ** 0.5)
        return self.add(self.normal(x), self.multiply(x, density))

    def erf_dx(self, x: Symbols) -> Symbols:
        return self.times(self.exp(self.negative(self.multiply(x, x))), (4 / pi) ** 0.5)


@functools.cache
def _salt(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


_MOST_GATHERED: Final = 256
"""Elements of a row up to which a gather is a sum."""
_MOST_CHOICES: Final = 8
_ZERO_AND_ONE: Final = np.array([0, 1 << 32 | 1], np.uint64)

ACTIVATIONS: Final[dict[str, Callable[[Reals, Symbols], Symbols]]] = {
    "copy": lambda _, x: x,
    "square": lambda m, x: m.multiply(x, x),
    "sigmoid": Reals.sigmoid,
    "relu": lambda m, x: x if x.sign else m.maximum(x, m.number(0)),
    "gelu": lambda m, x: m.multiply(x, m.normal(x)),
    "gelu_dx": Reals.gelu_dx,
    "gelu_apprx_tanh": lambda m, x: m.multiply(x, m.sigmoid(m.gelu_tanh_inner(x))),
    "gelu_apprx_sigmoid": lambda m, x: m.multiply(x, m.sigmoid(m.times(x, 1.702))),
    "gelu_apprx_sigmoid_dx": lambda m, x: m.silu_dx(m.times(x, 1.702)),
    "silu": lambda m, x: m.multiply(x, m.sigmoid(x)),
    "silu_dx": Reals.silu_dx,
    "tanh": Reals.tanh,
    "softplus": Reals.softplus,
    "mish": lambda m, x: m.multiply(x, m.tanh(m.softplus(x))),
    "erf": lambda m, x: m.odd("erf", x),
    "erf_dx": Reals.erf_dx,
    "exp": Reals.exp,
    "log": Reals.log,
    "sin": lambda m, x: m.odd("sin", x),
    "arctan": lambda m, x: m.odd("arctan", x),
    "sqrt": Reals.sqrt,
    "rsqrt": Reals.rsqrt,
    "reciprocal": Reals.reciprocal,
    "sign": lambda m, x: m.constant(np.ones(x.shape, np.int32)) if x.sign == POSITIVE else m.signum(x),
    "abs": lambda m, x: x if x.sign else replace(m.maximum(x, m.negative(x)), sign=NOT_NEGATIVE),
}
"""The activation functions without parameter."""

__all__ = ["ACTIVATIONS", "Reals"]
