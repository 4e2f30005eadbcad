"""nki.isa.dropout (Vector Engine); see :mod:`.xorwow` for the generator.

Chosen where the reference is silent: an element goes if the upper 24 bits of its number, divided by 2**24, are below
the probability; what stays keeps its bits and is not scaled. NaN is no probability that anything survives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics, xorwow
from .numerics import Array
from .tile import broadcast, rows
from .vectors import f32, i32, vector


def copies_bits(dst: Array, **_: Any) -> bool:
    return True


def oracle(dst: Array, *, data: Array, prob: Any, states: Array, **_: Any) -> tuple[Array, Array]:
    """Elements replaced by zero with the given probability. Reference: nki.isa.dropout."""
    numbers, after = xorwow.draw(states, dst.size // dst.shape[0])
    part = (numbers >> np.uint32(8)).astype(np.float64) / 2**24
    result = rows(data).copy()
    words = numerics.bits(result)
    words[~(part >= broadcast(prob, part))] = 0
    return words.view(dst.dtype).reshape(dst.shape), after


_data = f32(1.0, -2.0, np.inf, -0.0, np.nan)
_ints = np.arange(1, 6, dtype=np.int32)[None]
# The numbers are 0.0575, three times 0.00008, and 0.859.
VECTORS = [
    vector((f32(1.0, 0.0, 0.0, 0.0, np.nan), xorwow.ends(4, 2)), data=_data, prob=0.01, states=xorwow.starts(4)),
    vector((_data, xorwow.ends(4, 2)), data=_data, prob=0.0, states=xorwow.starts(4)),
    vector(
        (np.zeros((1, 5), np.int32), xorwow.ends(4, 2)),
        dst=np.ones((1, 5), np.int32),
        data=_ints,
        prob=1.0,
        states=xorwow.starts(4),
    ),
    vector((i32(0, 0, 0, 0, 5), xorwow.ends(4, 2)), data=_ints, prob=f32(0.5), states=xorwow.starts(4)),
]
