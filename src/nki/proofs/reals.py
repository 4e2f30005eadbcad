"""The functions of kernels on :class:`Symbols`: extremes, comparisons, choices, and the activation functions.

What has no formula in the field is an unknown function: a keyed hash of its arguments, so that equal arguments give
equal results and nothing else is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import pi
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.proofs.arithmetic import Arithmetic
from nki.proofs.extremes import Sets, tagged
from nki.proofs.field import Words, mixed
from nki.proofs.symbols import FILL, Symbols, UndecidedError


@dataclass
class Reals(Arithmetic):
    """Arithmetic with the functions that it knows nothing of but their names."""

    sets: Sets = field(default_factory=Sets)
    truths: list[Words] = field(default_factory=list[Words])
    """Words of numbers that are 0 or 1: results of comparisons."""

    def unknown_function(self, name: str, *arguments: Symbols, salt: int | NDArray[np.uint64] = 0) -> Symbols:
        """An unknown function of the ``arguments``, element by element."""
        words = np.asarray(
            np.uint64(_salt(name)) + np.uint64(0)
            if isinstance(salt, int) and not salt
            else np.uint64(_salt(name)) ^ salt
        )
        for argument in arguments:
            words = mixed(words ^ self.words(argument), self.key)
        self.unknown[name] = self.unknown.get(name, 0) + words.size
        return self.of_words(words)

    def constant_like(self, number: float, value: Symbols) -> Symbols:
        return self.constant(np.full(value.shape, number, np.float32))

    # -- extremes

    def maximum(self, left: Symbols, right: Symbols) -> Symbols:
        shape = np.broadcast_shapes(left.shape, right.shape)
        values = [value.moved(lambda part: np.broadcast_to(part, shape)) for value in (left, right)]
        return self.greatest(self.joined(values, lambda parts: np.stack(parts, axis=-1)))

    def minimum(self, left: Symbols, right: Symbols) -> Symbols:
        return self.negative(self.maximum(self._opposite(left), self._opposite(right)))

    def least(self, value: Symbols) -> Symbols:
        """The minimum along the last axis."""
        return self.negative(self.greatest(self._opposite(value)))

    def _opposite(self, value: Symbols) -> Symbols:
        """``-value``; a number that is read as minus infinity is none here."""
        if value.infinities is not None and (value.infinities == FILL).any():
            raise UndecidedError("a minimum is taken of a constant that is read as minus infinity")
        return self.negative(value)

    def greatest(self, value: Symbols) -> Symbols:
        """The maximum along the last axis."""
        *outer, count = value.shape
        words = self.words(value).reshape(-1, count)
        shape = tuple(outer)
        if value.infinities is not None:
            return self._greatest_of_extended(value, words, shape)
        return self._greatest(value, words).moved(lambda part: part.reshape(shape))

    def _greatest_of_extended(self, value: Symbols, words: Words, shape: tuple[int, ...]) -> Symbols:
        assert value.infinities is not None
        infinities = value.infinities.reshape(words.shape)
        if (infinities > 0).any():
            raise UndecidedError("a maximum is taken of infinity")
        # A finite member in place of each infinite one changes no set; without any, the result is infinite.
        first = (infinities == 0).argmax(axis=1)[:, None]
        stand_in = np.take_along_axis(words, first, axis=1)
        alone = (infinities != 0).all(axis=1)
        rest = replace(value.moved(lambda part: part.reshape(words.shape)), infinities=None)
        finite = rest.moved(lambda part: np.where(infinities == 0, part, np.take_along_axis(part, first, axis=1)))
        found = self._greatest(finite, np.where(infinities == 0, words, stand_in))
        result = replace(found, infinities=np.where(alone, infinities.max(axis=1), 0).astype(np.int8))
        if not alone.any():
            result = replace(result, infinities=None)
        return self._without(result).moved(lambda part: part.reshape(shape))

    def _greatest(self, value: Symbols, words: Words) -> Symbols:
        """The maxima of the rows of ``words``, which are finite."""
        value = value.moved(lambda part: part.reshape(words.shape))
        first = value.moved(lambda part: part[:, 0])
        same = (words == words[:, :1]).all(axis=1)
        if same.all():
            return first
        hashes, members, starts = self.sets.canonical(words)
        single = np.diff(starts.astype(np.int64)) == 1
        named = self.of_words(hashes, value.is_whole)
        assert named.residues is not None
        result = replace(named, residues=tagged(named.residues, self.field.p))
        result = (
            self.joined([first, result], lambda parts: np.where(single, parts[0], parts[1])) if single.any() else result
        )
        # Of a set of one member the maximum is that member: it is a set of its own already.
        self.sets.keep(self.words(replace(result, infinities=None)), members, starts)
        return replace(result, is_whole=value.is_whole, degree=(1, 0))

    # -- comparisons

    def greater(self, left: Symbols, right: Symbols) -> Symbols:
        """1 where ``left > right``, else 0."""
        if left.infinities is not None or right.infinities is not None:
            return self._greater_of_extended(left, right)
        return self._positive(self.subtract(left, right))

    def _greater_of_extended(self, left: Symbols, right: Symbols) -> Symbols:
        shape = np.broadcast_shapes(left.shape, right.shape)
        order = [
            np.zeros(shape, np.int8) if v.infinities is None else np.broadcast_to(v.infinities, shape)
            for v in (left, right)
        ]
        order = [np.sign(each) for each in order]
        inner = self._positive(self.subtract(left.finite(), right.finite()))
        known = (order[0] != 0) | (order[1] != 0)
        return self.choose(known, self.constant((order[0] > order[1]).astype(np.int32)), inner)

    def _positive(self, value: Symbols) -> Symbols:
        """1 where the number is greater than 0."""
        found = self.unknown_function("> 0", value)
        zero = self.is_zero(value)
        if zero.any():
            found = self.choose(zero, self.constant(np.zeros(value.shape, np.int32)), found)
        return self._noted(replace(found, is_whole=True))

    def equal(self, left: Symbols, right: Symbols) -> Symbols:
        """1 where both are the same number, else 0."""
        if left.infinities is not None or right.infinities is not None:
            raise UndecidedError("an infinite number is compared for equality")
        difference = self.subtract(left, right)
        words = [self.words(each) for each in (difference, self.negative(difference))]
        found = self.of_words(mixed(np.minimum(*words) ^ np.uint64(_salt("= 0")), self.key))
        self.unknown["= 0"] = self.unknown.get("= 0", 0) + found.present.size
        zero = self.is_zero(difference)
        if zero.any():
            found = self.choose(zero, self.constant(np.ones(zero.shape, np.int32)), found)
        return self._noted(replace(found, is_whole=True))

    def opposite_truth(self, truth: Symbols) -> Symbols:
        """1 - truth."""
        return self.subtract(self.constant_like(1, truth), truth)

    def _noted(self, truth: Symbols) -> Symbols:
        self.truths += [self.words(each).reshape(-1) for each in (truth, self.opposite_truth(truth))]
        return truth

    def truth(self, value: Symbols) -> Symbols:
        """1 where the number is not 0, else 0; a number that is one of these by itself stays."""
        if value.infinities is not None:
            raise UndecidedError("an infinite number is taken for a truth value")
        words = self.words(value)
        known = (
            np.isin(words, np.concatenate([_ZERO_AND_ONE, *self.truths]))
            if self.truths
            else np.isin(words, _ZERO_AND_ONE)
        )
        if known.all():
            return value
        other = self.opposite_truth(self.equal(value, self.constant_like(0, value)))
        return self.choose(known, value, other) if known.any() else other

    def both(self, left: Symbols, right: Symbols) -> Symbols:
        """1 where both truths hold."""
        return self._noted(self.multiply(self.truth(left), self.truth(right)))

    def select(self, condition: Symbols, yes: Symbols, no: Symbols) -> Symbols:
        """``yes`` where ``condition`` is not 0, else ``no``."""
        shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
        condition, yes, no = (v.moved(lambda part: np.broadcast_to(part, shape)) for v in (condition, yes, no))
        truth = self.truth(condition)
        if yes.infinities is not None or no.infinities is not None:
            same = self.words(yes) == self.words(no)
            return self.choose(same, yes, self.unknown_function("select with infinity", truth, yes, no))
        return self.add(no, self.multiply(truth, self.subtract(yes, no)))

    # -- functions with formulas

    def sigmoid(self, x: Symbols) -> Symbols:
        return self.reciprocal(self.add(self.constant_like(1, x), self.exp(self.negative(x))))

    def tanh(self, x: Symbols) -> Symbols:
        """(exp(2 x) - 1) / (exp(2 x) + 1)."""
        squared, one = self.exp(self.add(x, x)), self.constant_like(1, x)
        return self.divide(self.subtract(squared, one), self.add(squared, one))

    def odd(self, name: str, x: Symbols) -> Symbols:
        """An unknown function with f(-x) = -f(x)."""
        if x.infinities is not None:
            raise UndecidedError(f"{name} of an infinite number")
        words = [self.words(each) for each in (x, self.negative(x))]
        lower = words[0] < words[1]
        found = self.of_words(mixed(np.minimum(*words) ^ np.uint64(_salt(name)), self.key))
        self.unknown[name] = self.unknown.get(name, 0) + found.present.size
        result = self.choose(lower, found, self.negative(found))
        zero = self.is_zero(x)
        return self.choose(zero, self.constant_like(0, x), result) if zero.any() else result

    def normal(self, x: Symbols) -> Symbols:
        """The distribution function of the normal law: (1 + erf(x / sqrt(2))) / 2."""
        half = self.constant_like(0.5, x)
        inner = self.multiply(x, self.constant_like(0.5**0.5, x))
        return self.multiply(half, self.add(self.constant_like(1, x), self.odd("erf", inner)))

    def softplus(self, x: Symbols) -> Symbols:
        return self.log(self.add(self.constant_like(1, x), self.exp(x)))

    def times(self, x: Symbols, number: float) -> Symbols:
        return self.multiply(x, self.constant_like(number, x))

    def activation(self, name: str, x: Symbols) -> Symbols:
        """A row of :data:`nki.isa.tables.activations.ACTIVATIONS` without parameter, by the formula of that row."""
        return ACTIVATIONS[name](self, x)

    def gelu_tanh_inner(self, x: Symbols) -> Symbols:
        """sqrt(8 / pi) (x + 0.044715 x^3), of which gelu_apprx_tanh takes the sigmoid."""
        cubed = self.multiply(self.multiply(x, x), x)
        return self.times(self.add(x, self.times(cubed, 0.044715)), (8 / pi) ** 0.5)

    def silu_dx(self, x: Symbols) -> Symbols:
        s, one = self.sigmoid(x), self.constant_like(1, x)
        return self.multiply(s, self.add(one, self.multiply(x, self.subtract(one, s))))

    def gelu_dx(self, x: Symbols) -> Symbols:
        density = self.times(self.exp(self.times(self.multiply(x, x), -0.5)), (0.5 / pi) ** 0.5)
        return self.add(self.normal(x), self.multiply(x, density))

    def erf_dx(self, x: Symbols) -> Symbols:
        return self.times(self.exp(self.negative(self.multiply(x, x))), (4 / pi) ** 0.5)


def _salt(name: str) -> int:
    return int.from_bytes(name.encode()[:64], "little") * 0x9E3779B97F4A7C15 % (1 << 61)


_ZERO_AND_ONE: Final = np.array([0, 1 << 32 | 1], np.uint64)

ACTIVATIONS: Final[dict[str, Callable[[Reals, Symbols], Symbols]]] = {
    "copy": lambda m, x: x,
    "square": lambda m, x: m.multiply(x, x),
    "sigmoid": Reals.sigmoid,
    "relu": lambda m, x: m.maximum(x, m.constant_like(0, x)),
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
    "rsqrt": lambda m, x: m.reciprocal(m.sqrt(x)),
    "reciprocal": Reals.reciprocal,
    "sign": lambda m, x: m.odd("sign", x),
    "abs": lambda m, x: m.maximum(x, m.negative(x)),
}
"""The activation functions without parameter."""

__all__ = ["ACTIVATIONS", "Reals"]
