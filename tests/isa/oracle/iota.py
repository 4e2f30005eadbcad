"""nki.isa.iota (GpSimd Engine).

Chosen where the reference is silent: 32-bit arithmetic wraps; an integer ``dst`` receives the integer, saturated to its
range; a float ``dst`` receives it by way of float32.
"""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np

from . import numerics
from .numerics import Array
from .vectors import by_position, i8, i16, i32, u16


def affine(partitions: int, pattern: Any, offset: Any, channel_multiplier: int) -> Array:
    """``offset + partition * channel_multiplier + sum of step * index`` in wrapping int32, (partitions, elements)."""
    steps, offset = [step for step, _ in pattern], int(np.asarray(offset).reshape(()))  # a register is (1, 1)
    values: list[list[int]] = []
    for partition in range(partitions):
        row: list[int] = []
        for index in itertools.product(*(range(num) for _, num in pattern)):
            value = offset + partition * channel_multiplier + sum(s * i for s, i in zip(steps, index, strict=True))
            row.append((value + 2**31) % 2**32 - 2**31)
        values.append(row)
    return np.array(values, np.int64)


def oracle(dst: Array, *, pattern: Any, offset: Any = 0, channel_multiplier: int = 0, **_: Any) -> Array:
    """The affine numbers in order, the first pair of ``pattern`` outermost. Reference: nki.isa.iota."""
    values = affine(dst.shape[0], pattern, offset, channel_multiplier)
    if dst.dtype.name in numerics.INTEGERS:
        return numerics.to_integer(values.astype(np.float64), dst.dtype.name).reshape(dst.shape)
    return numerics.write(values.astype(np.float64), dst.dtype).reshape(dst.shape)


_vector = by_position("pattern")
_three = np.array([[0], [1], [2]])
VECTORS = [
    # The worked examples: counting along a row, down the partitions, backwards, 5 + 2 p, and the sum of both.
    _vector(np.arange(512, dtype=np.int32)[None], [[1, 512]]),
    _vector(np.arange(128, dtype=np.int32)[:, None], [[1, 1]], channel_multiplier=1),
    _vector(-np.arange(512, dtype=np.int32)[None], [[-1, 512]]),
    _vector(np.arange(5, 260, 2, dtype=np.int32)[:, None], [[0, 1]], offset=5, channel_multiplier=2),
    _vector((_three + np.arange(4)).astype(np.float32), [[1, 4]], channel_multiplier=1),
    _vector(i16(7, 8, 17, 18, 27, 28), [[10, 3], [1, 2]], offset=7),
    _vector(i32(2**31 - 1, -(2**31)), [[1, 2]], offset=2**31 - 1),
    _vector(i8(-128, 0, 127), [[1000, 3]], offset=-1000),
    _vector(u16(0x4380, 0x4380, 0x4381).view(ml_dtypes.bfloat16), [[1, 3]], offset=256),
]
