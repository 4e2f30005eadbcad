"""Values of the NumPy executor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nki.base.dtype_conversion import from_float32, to_float32
from nki.base.element_types import DType
from nki.ir.algebra import Step, last_of
from nki.ir.types import Access

Array = NDArray[Any]
T = TypeVar("T")


@dataclass(slots=True)
class Value:
    """A tile value: a two-dimensional array (partitions, elements) and the dtype that its elements have."""

    array: Array
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Partitions and elements."""
        return self.array.shape


class Runs(Value):
    """A value of one row that lies in several arrays, one behind the other, and is joined only where it must be."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[Array], dtype: DType) -> None:
        self.runs, self.dtype = runs, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return 1, sum(run.size for run in self.runs)

    def __getattr__(self, name: str) -> Any:
        if name != "array":
            raise AttributeError(name)
        self.array = np.concatenate(self.runs, axis=1)
        return self.array

    def cast(self, dtype: DType) -> Runs:
        """The value in ``dtype``."""
        return Runs([from_float32(to_float32(run, self.dtype), dtype) for run in self.runs], dtype)

    def copy_to(self, row: Array) -> None:
        """Write the elements to ``row``, an array of one dimension and as many elements."""
        start = 0
        for run in self.runs:
            row[start : start + run.size] = run[0]
            start += run.size


def laid_out(target: Access, shape: tuple[int, ...]) -> tuple[Access, Callable[[Array], Array]]:
    """The elements to which a value of ``shape`` is stored, and what gives an array of the value their shape.

    Of a write to one place the last element of each partition is left.
    """
    count = math.prod(shape)
    if target.one_place():
        rows = target.partitions
        last = last_of(target)
        if count == target.size:
            return last, lambda array: array.reshape(rows, -1)[:, -1:]
        return last, lambda array: np.broadcast_to(array[:, -1:], last.shape)
    if count == target.size:
        return target, lambda array: array.reshape(target.shape)
    tile = (target.partitions, target.free_elements)
    return target, lambda array: np.broadcast_to(array, tile).reshape(target.shape)


def runs_of(array: Array, groups: int, first: Array | None = None) -> Array:
    """The elements of each partition as so many runs, each behind the partition's element of ``first``."""
    rows = len(array)
    runs = array.reshape(rows, groups, array.shape[1] // groups)
    if first is None:
        return runs
    return np.concatenate([np.broadcast_to(first[:, :, None], (rows, groups, 1)), runs], axis=2)


def states(
    steps: Sequence[Step], columns: Iterable[Sequence[T]], state: T, operate: Callable[[str, T, T], T]
) -> list[T]:
    """Every state of a scan from the first ``state``; of each column an element for each of the ``steps``."""
    found: list[T] = []
    for column in columns:
        for step, element in zip(steps, column, strict=True):
            state = operate(step.op, *((state, element) if step.state_first else (element, state)))
        found.append(state)
    return found
