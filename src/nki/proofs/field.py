"""Finite fields in which kernels are evaluated: residues modulo a prime p, and exponents modulo n.

``p = 2 r n + 1`` is prime, and ``n = a b`` for primes a and b. So the numbers that are not 0 modulo p have exactly one
subgroup of order n, and ``exp`` maps an exponent into it: ``generator ** exponent``, with
``exp(x + y) = exp(x) exp(y)``. Because a and b are small, the discrete logarithm is two look-ups in tables. 2, 3, 5 and
7 are squares modulo p, a and b, and r, a and b are odd, so :func:`Field.sqrt` is multiplicative, and right for numbers
that are made of these.

All arrays are of uint64, with numbers below 2**32: a product of two fits into a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_LOW: Final = np.uint64(0xFFFF)
_HALF: Final = np.uint64(16)
_FEW: Final = 64
"""Numbers below which each is inverted by itself."""


class UnluckyError(Exception):
    """A random number is 0 or no unit where the program divides by it: the round tells nothing, and is drawn anew."""


@dataclass(frozen=True)
class Field:
    """The prime ``p``, ``n = a * b`` with ``p = 2 * r * n + 1``, and tables for a and b."""

    p: int
    r: int
    a: int
    b: int

    @property
    def n(self) -> int:
        return self.a * self.b

    @cached_property
    def generator(self) -> int:
        """A number of order n."""
        for base in range(2, self.p):
            found = pow(base, 2 * self.r, self.p)
            if pow(found, self.a, self.p) != 1 and pow(found, self.b, self.p) != 1:
                return found
        raise AssertionError("p is prime")

    # -- residues modulo p

    def exp(self, exponents: Words) -> Words:
        """``generator ** exponent`` modulo p: from tables for the low and the high half of the exponent."""
        low, high = self._powers
        step = np.uint64(len(low))
        return low[exponents % step] * high[exponents // step] % np.uint64(self.p)

    @cached_property
    def _powers(self) -> tuple[Words, Words]:
        step = 1 << 14
        return self._progression(self.generator, step), self._progression(
            pow(self.generator, step, self.p), self.n // step + 1
        )

    def _progression(self, ratio: int, count: int) -> Words:
        """The first ``count`` powers of ``ratio`` modulo p."""
        powers = [1]
        for _ in range(count - 1):
            powers.append(powers[-1] * ratio % self.p)
        return np.array(powers, np.uint64)

    def log(self, residues: Words) -> Words:
        """The exponent of each residue's part in the subgroup of order n: log(x y) = log(x) + log(y), log(exp(e)) = e.

        Raises :class:`UnluckyError` for 0.
        """
        if not residues.all():
            raise UnluckyError
        inside = self.power(residues, 2 * self.r)
        parts: list[Words] = []
        for prime, (keys, logs) in zip((self.a, self.b), self._logs, strict=True):
            found = np.searchsorted(keys, self.power(inside, self.n // prime))
            parts.append(logs[found])
        whole = self._joined(*parts)  # the exponent of x ** (2 r), modulo a and b
        return whole * np.uint64(pow(2 * self.r, -1, self.n)) % np.uint64(self.n)

    @cached_property
    def _logs(self) -> list[tuple[Words, Words]]:
        """For each prime: the members of the subgroup of that order, sorted, and their exponents."""
        tables: list[tuple[Words, Words]] = []
        for prime in (self.a, self.b):
            powers = self._progression(pow(self.generator, self.n // prime, self.p), prime)
            order = np.argsort(powers)
            tables.append((powers[order], order.astype(np.uint64)))
        return tables

    def power(self, residues: Words, exponent: int) -> Words:
        """``residues ** exponent`` modulo p, for a whole exponent; negative ones divide."""
        if exponent < 0:
            residues, exponent = self.inverse(residues), -exponent
        return _power(residues, exponent, self.p)

    def inverse(self, residues: Words) -> Words:
        """``1 / x`` modulo p. Raises :class:`UnluckyError` for 0."""
        flat = residues.reshape(-1)
        if not flat.all():
            raise UnluckyError
        return self._inverse(flat).reshape(residues.shape)

    def _inverse(self, flat: Words) -> Words:
        """Inverses of pairs from the inverse of their product: three products for each number, and few powers."""
        if len(flat) < _FEW:
            return _power(flat, self.p - 2, self.p)
        p, half = np.uint64(self.p), len(flat) // 2
        first, second, rest = flat[:half], flat[half : 2 * half], flat[2 * half :]
        both = self._inverse(np.concatenate([first * second % p, rest]))
        return np.concatenate([both[:half] * second % p, both[:half] * first % p, both[half:]])

    def sqrt(self, residues: Words) -> Words:
        """The root of ``|x|``, which is x or -x, whichever is a square modulo p: multiplicative, as the real one is."""
        odd = (self.p - 1) // 2
        return _power(residues, (odd + 1) * ((odd + 1) // 2) % (self.p - 1), self.p)

    # -- exponents modulo n

    def exponent_inverse(self, exponents: Words) -> Words:
        """``1 / x`` modulo n. Raises :class:`UnluckyError` if x is no unit."""
        parts = [exponents % np.uint64(prime) for prime in (self.a, self.b)]
        if not all(part.all() for part in parts):
            raise UnluckyError
        inverses = [table[0][part] for table, part in zip(self._units, parts, strict=True)]
        return self._joined(*inverses)

    def exponent_sqrt(self, exponents: Words) -> Words:
        """As :meth:`sqrt`, modulo a and modulo b."""
        roots = [
            table[1][exponents % np.uint64(prime)] for table, prime in zip(self._units, (self.a, self.b), strict=True)
        ]
        return self._joined(*roots)

    @cached_property
    def _units(self) -> list[tuple[Words, Words]]:
        """For each prime: inverses and roots of all residues."""
        tables: list[tuple[Words, Words]] = []
        for prime in (self.a, self.b):
            numbers, odd = np.arange(prime, dtype=np.uint64), (prime - 1) // 2
            root = (odd + 1) * ((odd + 1) // 2) % (prime - 1)
            tables.append((_power(numbers, prime - 2, prime), _power(numbers, root, prime)))
        return tables

    def _joined(self, of_a: Words, of_b: Words) -> Words:
        """The number modulo n that is ``of_a`` modulo a and ``of_b`` modulo b."""
        n = np.uint64(self.n)
        for_a, for_b = self.b * pow(self.b, -1, self.a), self.a * pow(self.a, -1, self.b)
        return (of_a * np.uint64(for_a) + of_b * np.uint64(for_b)) % n


def _power(base: Words, exponent: int, modulus: int) -> Words:
    m, result = np.uint64(modulus), np.ones_like(base)
    square = base % m
    while exponent:
        if exponent & 1:
            result = result * square % m
        exponent >>= 1
        if exponent:
            square = square * square % m
    return result


def product(left: Words, right: Words, modulus: int) -> Words:
    """The product of matrices ``left @ right`` modulo ``modulus``, for at most 2**21 terms.

    From products in float64 of 16-bit halves: each is exact, since a sum of 2**21 products of 32 bits has 53.
    """
    m = np.uint64(modulus)
    halves = [(part >> _HALF).astype(np.float64) for part in (left, right)]
    lows = [(part & _LOW).astype(np.float64) for part in (left, right)]
    high, low = halves[0] @ halves[1], lows[0] @ lows[1]
    middle = [(part.astype(np.uint64) % m) for part in (halves[0] @ lows[1], lows[0] @ halves[1])]
    result = (high.astype(np.uint64) % m << _HALF) % m + (middle[0] + middle[1]) % m
    return ((result % m << _HALF) % m + low.astype(np.uint64) % m) % m


FIELDS: Final = (
    Field(4192175879, 11, 12911, 14759),
    Field(4025676359, 11, 12239, 14951),
    Field(3928743479, 11, 12239, 14591),
    Field(3919429559, 11, 12071, 14759),
    Field(3659101799, 11, 11399, 14591),
    Field(3237794759, 11, 11399, 12911),
    Field(3523519319, 11, 10799, 14831),
    Field(3668217719, 11, 10559, 15791),
)
"""The largest primes of this form with factors above 10,000; found by search, and checked by a test."""


_INCREMENT: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def mixed(words: Words, key: int) -> Words:
    """A keyed hash of 64-bit words: twice the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    state = np.atleast_1d(words)  # a sum of scalars would warn that it wraps
    for salt in (np.uint64(key), _SECOND):
        state = (state ^ salt) + _INCREMENT
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        state = state ^ (state >> np.uint64(31))
    return state.reshape(words.shape)


__all__ = ["FIELDS", "Field", "UnluckyError", "Words", "mixed", "product"]
