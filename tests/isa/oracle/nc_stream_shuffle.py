"""nki.isa.nc_stream_shuffle (Vector Engine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numerics import Array
from .tile import rows
from .vectors import f32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, src: Array, shuffle_mask: Any, **_: Any) -> Array:
    """Each quadrant of 32 partitions takes its partitions from the same quadrant of ``src``; 255 changes nothing.

    Reference: nki.isa.nc_stream_shuffle.
    """
    result, source = rows(dst).copy(), rows(src)
    for p in range(dst.shape[0]):
        if shuffle_mask[p % 32] != 255:
            result[p] = source[p - p % 32 + shuffle_mask[p % 32]]
    return result.reshape(dst.shape)


_numbers = np.arange(128, dtype=np.float32).reshape(128, 1) + f32(0.25, 0.5)
_rotate = [(p - 1) % 32 for p in range(32)]
VECTORS = [
    # The worked examples: each partition to the next one, one partition to all, four quadrants at once.
    vector(np.roll(_numbers[:32], 1, 0), src=_numbers[:32], shuffle_mask=_rotate),
    vector(np.repeat(_numbers[:1], 32, 0), src=_numbers[:1], shuffle_mask=[0] * 32),
    vector(
        np.concatenate([np.roll(_numbers[q : q + 32], 1, 0) for q in range(0, 128, 32)]),
        src=_numbers,
        shuffle_mask=_rotate,
    ),
    # What 255 marks keeps its contents, rather than becoming zero.
    vector(
        np.concatenate([_numbers[16:17], -_numbers[1:32], _numbers[48:49]]),
        dst=-_numbers[:33],
        src=_numbers[:64],
        shuffle_mask=[16, *[255] * 31],
    ),
]
