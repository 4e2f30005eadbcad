"""Polynomials with whole coefficients over pieces of source text: the arithmetic of indices and extents.

``m * 128 + 128 - m * 128`` is 128 here, so that rewritten code shows extents as a person would write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_SIMPLE: Final = re.compile(r"[\w.]+(\[[\w.+-]*\])?(\.\w+)*(\([^()]*\))?")
"""Text that needs no parentheses as a factor."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of ``coefficient * factor * factor …``: each term is the tuple of its factors' texts and a coefficient."""

    terms: tuple[tuple[tuple[str, ...], int], ...] = ()

    @classmethod
    def of(cls, value: int | str) -> Polynomial:
        """A constant, or one opaque piece of source text."""
        if isinstance(value, int):
            return cls((((), value),)) if value else cls()
        return cls((((value,), 1),))

    @property
    def constant(self) -> int | None:
        """The value, if it is known; else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __add__(self, other: Polynomial | int) -> Polynomial:
        right = other if isinstance(other, Polynomial) else Polynomial.of(other)
        sums = dict(self.terms)
        for factors, coefficient in right.terms:
            sums[factors] = sums.get(factors, 0) + coefficient
        return Polynomial(tuple((factors, n) for factors, n in sums.items() if n))

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((factors, -n) for factors, n in self.terms))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + (-(other if isinstance(other, Polynomial) else Polynomial.of(other)))

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        right = other if isinstance(other, Polynomial) else Polynomial.of(other)
        result = Polynomial()
        for factors, n in self.terms:
            for others, m in right.terms:
                result += Polynomial(((_joined(factors, others), n * m),))
        return result

    @property
    def text(self) -> str:
        """Source code of the value. Terms with positive signs come first, constants last."""
        match self.terms:
            case [((factor,), 1)]:
                return factor
            case _:
                ordered = sorted(self.terms, key=lambda term: (term[1] < 0, not term[0]))
        parts: list[str] = []
        for factors, coefficient in ordered:
            sign = "-" if coefficient < 0 else "+"
            parts += [sign, _product(factors, abs(coefficient))]
        if not parts:
            return "0"
        head = parts[1] if parts[0] == "+" else f"-{parts[1]}"
        return " ".join([head, *parts[2:]])


def _joined(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The factors of a product, in one order: equal products get equal tuples."""
    return tuple(sorted((*one, *other)))


def _product(factors: tuple[str, ...], coefficient: int) -> str:
    texts = [factor if _SIMPLE.fullmatch(factor) else f"({factor})" for factor in factors]
    if coefficient != 1 or not texts:
        texts.append(str(coefficient))
    return " * ".join(texts)


def smallest(values: Iterable[Polynomial]) -> str:
    """Source code of the least of ``values``; constants among them are compared here."""
    return _extreme("min", values)


def largest(values: Iterable[Polynomial]) -> str:
    """Source code of the greatest of ``values``."""
    return _extreme("max", values)


def _extreme(name: str, values: Iterable[Polynomial]) -> str:
    unique = list(dict.fromkeys(values))
    known = [value.constant for value in unique if value.constant is not None]
    others = [value for value in unique if value.constant is None]
    if known:
        others.append(Polynomial.of(min(known) if name == "min" else max(known)))
    texts = [value.text for value in others]
    return texts[0] if len(texts) == 1 else f"{name}({', '.join(texts)})"


__all__ = ["Polynomial", "largest", "smallest"]
