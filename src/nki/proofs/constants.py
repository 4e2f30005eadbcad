"""Constants of kernels as numbers: what a float32 stands for.

A kernel that says 0.088388346 means one over the root of 128. Over the real numbers these differ, so a constant is read
as the simplest number that rounds to it: a fraction, or a fraction times one of a few known numbers, or the root of
such a product, or a decimal of few digits. What is read is within half a unit in the last place, so that a proof holds
up to the rounding of constants, as it holds up to the rounding of everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

ATOMS: Final = {"pi": math.pi, "ln 2": math.log(2)}
"""Numbers without a fraction; each power of one is a symbol to the proof."""
_MOST: Final = 21
"""Bits in numerator and denominator beyond which a fraction is no simpler than the float32 itself, which has 24."""
_DIGITS: Final = 6
"""Digits of a number that a person wrote."""
_ROOT_BITS: Final = 3
_ATOM_BITS: Final = 4
_RECIPROCAL_BITS: Final = 1.0
"""Bits that a root, a known number, and one over a decimal count for."""


@dataclass(frozen=True, slots=True)
class Closed:
    """``sign * fraction * atom ** power``, or ``sign`` times the root of that; the fraction is not negative."""

    fraction: Fraction
    atom: str = ""
    power: int = 0
    is_root: bool = False
    sign: int = 1

    def __str__(self) -> str:
        factors = [str(self.fraction)] if self.fraction != 1 or not self.atom else []
        if self.atom:
            factors.append(self.atom if self.power == 1 else f"{self.atom}^{self.power}")
        text = " * ".join(factors)
        return ("-" if self.sign < 0 else "") + (f"sqrt({text})" if self.is_root else text)


@lru_cache(maxsize=4096)
def read(value: float) -> Closed:
    """The number that ``value``, a finite float32, stands for."""
    if value < 0:
        positive = read(-value)
        return replace(positive, sign=-1)
    if value < 1 << 24 and value == int(value):
        return Closed(Fraction(int(value)))
    word = np.float32(value)
    exact, below = Fraction(float(word)), Fraction(float(np.nextafter(word, np.float32(0))))
    step = (exact - below) / 2  # above a power of two it is twice as long, which does not matter here
    low, high = exact - step, exact + step
    found = min([*_candidates(low, high), *_decimals(word)], key=lambda pair: pair[0])
    return found[1] if found[0] <= _MOST else Closed(exact)


def _decimals(word: np.float32) -> list[tuple[float, Closed]]:
    """Readings as a person writes numbers, such as 0.044715, or one over such a number, each with its bits."""
    result: list[tuple[float, Closed]] = []
    for digits in range(1, _DIGITS + 1):
        for number, bits in ((float(word), 0.0), (1 / float(word), _RECIPROCAL_BITS)):
            decimal = Fraction(f"{number:.{digits}g}")
            fraction = 1 / decimal if bits else decimal
            with np.errstate(over="ignore"):  # the largest float32, rounded up
                if np.float32(float(fraction)) == word:
                    result.append((digits * math.log2(10) + bits, Closed(fraction)))
    return result


def _candidates(low: Fraction, high: Fraction) -> list[tuple[float, Closed]]:
    """Readings of a number between ``low`` and ``high``, each with its bits."""
    result: list[tuple[float, Closed]] = []
    for is_root in (False, True):
        ends = (low * low, high * high) if is_root else (low, high)
        for atom, power in [("", 0), *((name, power) for name in ATOMS for power in (1, -1))]:
            scale = Fraction(ATOMS[atom]) ** power if atom else Fraction(1)
            fraction = simplest(ends[0] / scale, ends[1] / scale)
            bits = math.log2(fraction.numerator) + math.log2(fraction.denominator)
            result.append(
                (bits + _ROOT_BITS * is_root + _ATOM_BITS * bool(atom), Closed(fraction, atom, power, is_root))
            )
    return result


def simplest(low: Fraction, high: Fraction) -> Fraction:
    """The fraction of the smallest denominator in the open interval of positive numbers: by continued fractions."""
    whole = math.floor(low)
    if whole + 1 < high:
        return Fraction(whole + 1)
    if low == whole:  # between whole and whole + 1: one over the smallest number that fits
        return whole + Fraction(1, math.floor(1 / (high - whole)) + 1)
    return whole + 1 / simplest(1 / (high - whole), 1 / (low - whole))


__all__ = ["ATOMS", "Closed", "read", "simplest"]
