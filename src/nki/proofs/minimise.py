"""Simpler inputs that still show a difference: most of them zero, the rest small whole numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shows = Callable[[list[Array]], bool]
"""True if inputs show the difference."""

_FEW: Final = 12
"""Elements that are simplified one by one."""


class Minimiser:
    """Simplifies inputs step by step, each kept only if ``shows`` still holds, until ``deadline``.

    ``deadline`` is in seconds of :func:`time.monotonic`.
    """

    def __init__(self, arrays: Sequence[Array], shows: Shows, deadline: float) -> None:
        self.arrays = [array.copy() for array in arrays]
        self._shows = shows
        self._deadline = deadline

    def run(self) -> list[Array]:
        """The simplest inputs that were found; the given ones at worst."""
        order = sorted(range(len(self.arrays)), key=lambda number: -self.arrays[number].size)
        for step in (self._whole, self._blocks, self._values, self._blocks, self._elements):
            for number in order:
                step(number)
        return self.arrays

    @property
    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _try(self, number: int, array: Array) -> bool:
        """Take ``array`` for input ``number`` if the difference stays."""
        if self._late or array.tobytes() == self.arrays[number].tobytes():
            return False
        changed = list(self.arrays)
        changed[number] = array
        if not self._shows(changed):
            return False
        self.arrays = changed
        return True

    def _whole(self, number: int) -> None:
        """All zero, or all one."""
        old = self.arrays[number]
        if not self._try(number, np.zeros_like(old)) and old.dtype.kind != "V":
            self._try(number, np.ones_like(old))

    def _blocks(self, number: int) -> None:
        """Zeros in place of halves of the elements that are not zero, of quarters, and so on (delta debugging)."""
        parts = 2
        while not self._late:
            places = np.flatnonzero(_flat(self.arrays[number]) != 0)
            if len(places) < 2 and parts > 2:
                return
            removed = False
            for block in np.array_split(places, min(parts, len(places))) if len(places) else ():
                changed = self.arrays[number].copy()
                _flat(changed)[block] = 0
                removed = self._try(number, changed) or removed
            if parts >= len(places) and not removed:
                return
            parts = max(2, parts // 2) if removed and parts > 2 else parts * 2

    def _values(self, number: int) -> None:
        """One value for all elements that are not zero: 1, or their signs; or the nearest whole numbers."""
        old = self.arrays[number]
        for changed in _simpler(old):
            if changed.tobytes() == old.tobytes() or self._try(number, changed):
                return

    def _elements(self, number: int) -> None:
        places = np.flatnonzero(_flat(self.arrays[number]) != 0)
        if len(places) > _FEW:
            return
        for place in places.tolist():
            single = _flat(self.arrays[number])[place : place + 1]
            for value in (np.zeros_like(single), *_simpler(single)):
                changed = self.arrays[number].copy()
                _flat(changed)[place : place + 1] = value
                if value.tobytes() == single.tobytes() or self._try(number, changed):
                    break


def _flat(array: Array) -> Array:
    """A writable view of all elements, which are dense; packed ones as their words."""
    row = array.reshape(-1)
    return row.view(f"u{row.dtype.itemsize}") if row.dtype.kind == "V" and row.dtype.names is not None else row


def _simpler(array: Array) -> Iterator[Array]:
    """``array`` with simpler values, the simplest first."""
    numbers = _numbers(array)
    if numbers is None:
        return
    here = numbers != 0
    yield here.astype(array.dtype)
    if array.dtype.kind in "iu":  # perhaps indices or labels, of an unknown number
        return
    yield np.sign(numbers).astype(array.dtype)
    yield (2 * np.sign(numbers)).astype(array.dtype)
    yield np.rint(numbers).astype(array.dtype)
    with np.errstate(all="ignore"):
        powers = np.exp2(np.rint(np.log2(np.abs(numbers))))
    yield np.where(here, np.sign(numbers) * np.where(here, powers, 0), 0).astype(array.dtype)


def _numbers(array: Array) -> Array | None:
    """The elements in float64; None for packed ones."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        return None
