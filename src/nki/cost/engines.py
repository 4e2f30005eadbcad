"""The cost formulas that most instructions share, in cycles of the engine that runs them.

``N`` is elements per partition; ``MIN_INTERVAL`` the least distance between two instructions of one engine. Both are
from the cost entries of the NKI reference (Beta 1, release 2.26.1), which newer references drop.
"""

from __future__ import annotations

from nki.ir.instruction import Cost

MIN_INTERVAL = 64.0
"""Cycles; the reference says "about 64"."""
_BOOK = "NKI reference of release 2.26.1, nki.isa."


def streaming(elements: float, name: str, factor: float = 1.0, extra: float = 0.0) -> Cost:
    """``max(MIN_INTERVAL, factor * N) + extra`` cycles."""
    return Cost(max(MIN_INTERVAL, factor * elements) + extra, "docs", _BOOK + name)


def generated(elements: float, name: str) -> Cost:
    """``150 + N`` GpSimd cycles."""
    return Cost(150.0 + elements, "docs", _BOOK + name)


def guessed(cycles: float, why: str) -> Cost:
    """A number that nobody published."""
    return Cost(cycles, "guess", why)
