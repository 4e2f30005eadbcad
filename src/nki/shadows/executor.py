"""The NumPy executor with a shadow beside each value: what is the same for any arithmetic.

A shadow consists of arrays in the shape of its value. Here are the primitives that only put elements elsewhere, and the
order in which others meet; an arithmetic says what stands in memory, what becomes of elements that are moved, and what
a fold and a step of a scan are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.executor import Reference
from nki.backend.numpy.values import Value, runs_of
from nki.ir.types import Access

Array = NDArray[Any]
Real = Callable[[], Value]
"""Runs a primitive on the bits, without shadows."""
Move = Callable[..., Array]
"""Makes one array of an array of each operand: the bits or a part of their shadows, which it moves alike."""


class ShadowExecutor(Reference, ABC):
    """The algebra over values with shadows."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.prints = False

    # -- what an arithmetic says

    @abstractmethod
    def loaded(self, source: Access, rows: int, real: Real) -> Value:
        """The elements of ``source``, as so many rows."""

    @abstractmethod
    def moved(self, real: Real, move: Move, *values: Value) -> Value:
        """The result of a primitive that takes elements of ``values``, and computes nothing."""

    @abstractmethod
    def folded(self, op: str, real: Real, move: Move, *values: Value) -> Value:
        """The fold by ``op`` of the last of the three axes in which ``move`` arranges the elements of ``values``."""

    # -- memory

    def load(self, source: Access | float) -> Value:
        if not isinstance(source, Access):
            return super().load(source)
        return self.loaded(source, source.shape[0], partial(super().load, source))

    def flat(self, source: Access) -> Value:
        return self.loaded(source, 1, partial(super().flat, source))

    # -- places

    def transpose(self, value: Value) -> Value:
        def swapped(x: Array) -> Array:
            return x.T.copy()

        return self.moved(partial(super().transpose, value), swapped, value)

    def strided(self, value: Value, start: int, step: int, count: int | None = None) -> Value:
        chosen = slice(start, None if count is None else start + count * step, step)

        def taken(x: Array) -> Array:
            return x[:, chosen]

        return self.moved(partial(super().strided, value, start, step, count), taken, value)

    def reshape(self, value: Value, partitions: int) -> Value:
        def in_rows(x: Array) -> Array:
            return x.reshape(partitions, -1)

        return self.moved(partial(super().reshape, value, partitions), in_rows, value)

    def stack(self, values: Sequence[Value], partitions: int) -> Value:
        def joined(*parts: Array) -> Array:
            return np.concatenate([part.reshape(-1) for part in parts]).reshape(partitions, -1)

        return self.moved(partial(super().stack, values, partitions), joined, *values)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """As the bits of ``condition`` say."""
        return self.moved(partial(super().select, condition, yes, no), partial(np.where, condition.array != 0), yes, no)

    def gather(self, value: Value, index: Value) -> Value:
        """As the bits of ``index`` say; :meth:`beyond` is asked about places beyond the partition."""
        numbers, (rows, count) = index.array.astype(np.int64), value.shape
        outside = (numbers < 0) | (numbers >= count)
        lines = np.arange(max(rows, len(numbers)))[:, None] % rows
        places = np.where(outside, 0, numbers)

        def taken(x: Array) -> Array:
            return x[lines, places]

        done = self.moved(partial(super().gather, value, index), taken, value)
        return self.beyond(done, np.broadcast_to(outside, done.shape)) if outside.any() else done

    @abstractmethod
    def beyond(self, gathered: Value, outside: NDArray[np.bool_]) -> Value:
        """``gathered``, which has something else in place of the elements that are ``outside``."""

    # -- folds

    def reduce(self, op: str, value: Value, groups: int = 1, start: Value | None = None) -> Value:
        def runs(x: Array, first: Array | None = None) -> Array:
            return runs_of(x, groups, first)

        values = (value,) if start is None else (value, start)
        return self.folded(op, partial(super().reduce, op, value, groups, start), runs, *values)

    def reduce_partitions(self, op: str, value: Value) -> Value:
        def columns(x: Array) -> Array:
            return x.T[None]

        return self.folded(op, partial(super().reduce_partitions, op, value), columns, value)


__all__ = ["Move", "Real", "ShadowExecutor"]
