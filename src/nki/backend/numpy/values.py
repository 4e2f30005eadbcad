"""Values of the NumPy executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.dtype_conversion import from_float32, to_float32
from nki.base.element_types import DType

Array = NDArray[Any]


@dataclass(slots=True)
class Value:
    """A tile value: a two-dimensional array (partitions, elements) and the dtype that its elements have."""

    array: Array
    dtype: DType


class Runs(Value):
    """A value of one row that lies in several arrays, one behind the other, and is joined only where it must be."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[Array], dtype: DType) -> None:
        self.runs, self.dtype = runs, dtype

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
