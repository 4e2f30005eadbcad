"""nki.isa.topk (GpSimd Engine).

The reference describes the input of a group of 16 partitions as a snake, and the output as if every partition held all
K numbers. The vendor's own top-k kernel, which runs on hardware, finds them laid out as the input is: number s in
partition s % 16, column s // 16, and nothing behind the last one. So it is here.
Chosen where the reference is silent: of equal values the one with the lower index is the larger; -0 is below +0, and
every NaN is above all numbers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import numerics
from .numerics import Array
from .vectors import vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def _below(one: tuple[float, int], two: tuple[float, int]) -> int:
    """Negative if the first (value, index) counts as smaller."""
    (x, i), (y, j) = one, two
    missing = (x != x) - (y != y)
    if missing or (x == x and x != y):
        return missing or (-1 if x < y else 1)
    signs = int(np.signbit(y)) - int(np.signbit(x)) if x == x else 0
    return signs or j - i


def oracle(dst: Array, *, src: Array, idx_dst: Array, n: int, **_: Any) -> tuple[Array, Array]:
    """Ascending values and their places, for each group of 16 partitions. Reference: nki.isa.topk."""
    values, places = dst.copy(), idx_dst.copy()
    numbers = numerics.exact(src)
    count = dst.shape[1]
    for first in range(0, src.shape[0], 16):
        snake = [(float(numbers[first + s % 16, s // 16]), s) for s in range(n)]
        best = sorted(snake, key=functools.cmp_to_key(_below))[n - count :]
        for rank, (_, s) in enumerate(best):
            values[first + rank % 16, rank // 16] = src[first + s % 16, s // 16]
            places[first + rank % 16, rank // 16] = s
    return values, places


_kind = numerics.write(np.zeros(1), "bfloat16").dtype
_src = np.zeros((16, 2), np.float32)
_src[:, 0] = [3, 1, 4, 1, 5, -9, 2, 6, 5, 3, 5, -8, 9, 7, 9, 3]
_src[:4, 1] = [2, 3, 8, 4]
_src[4:, 1] = 100  # behind the last of 20 numbers
_values, _places = np.zeros((16, 18), np.float32), np.full((16, 18), 77, np.uint32)
# In ascending order; of equal numbers the first is the largest and so the last.
_order = [3, 1, 16, 6, 17, 15, 9, 0, 19, 2, 10, 8, 4, 7, 13, 18, 14, 12]
for _rank, _s in enumerate(_order):
    _values[_rank % 16, _rank // 16] = _src[_s % 16, _s // 16]
    _places[_rank % 16, _rank // 16] = _s
VECTORS = [
    vector(
        (_values.astype(_kind), _places),
        val_dst=np.zeros((16, 18), _kind),
        idx_dst=np.full((16, 18), 77, np.uint32),
        src=_src.astype(_kind),
        n=20,
    )
]
