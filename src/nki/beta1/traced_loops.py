"""Loops of Beta 1, with bodies that its compiler traces once: numbers that the body changes begin each round anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Rounds:
    """``nl.affine_range`` and ``nl.sequential_range``: the numbers of a range."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> int:
        return self.numbers[index]


def once(iterable: Any, current: Callable[[], tuple[Any, ...]]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The rounds of a loop, each with the values of the variables that its body computes from themselves.

    In a loop of Beta 1, numbers get back the value that they had before the loop.
    """
    before: tuple[Any, ...] | None = None
    for item in iterable:
        values = _values(current)
        if isinstance(iterable, Rounds):
            before = values if before is None else before
            values = tuple(old if type(old) in (int, float) else new for old, new in zip(before, values, strict=True))
        yield item, values


def _values(current: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """The present values; None for variables that have none yet."""
    try:
        return current()
    except NameError:
        cells = current.__closure__ or ()
        names = dict(zip(current.__code__.co_freevars, cells, strict=True))
        return tuple(_content(names.get(name)) for name in current.__code__.co_freevars)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
