"""nki.isa.rand2 (Vector Engine, gen4); see :mod:`.xorwow` for the generator.

Chosen where the reference is silent: the upper 24 bits of a number, divided by 2**24, say how far from min to max.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics, xorwow
from .numerics import Array
from .tile import broadcast
from .vectors import f32, i16, vector


def oracle(dst: Array, *, states: Array, **ends: Any) -> tuple[Array, Array]:
    """Uniform float32 numbers from min to max, rounded once to ``dst``. Reference: nki.isa.rand2."""
    numbers, after = xorwow.draw(states, dst.size // dst.shape[0])
    part = (numbers >> np.uint32(8)).astype(np.float64) / 2**24
    low, high = (broadcast(ends[name], part) for name in ("min", "max"))
    value = numerics.round32(low + numerics.round32(part * numerics.round32(high - low)))
    # Rounding may carry a number past the end of the range, which +0 is if the range ends at -0.
    past = (value > high) | ((value == 0) & (high == 0) & np.signbit(high))
    value = np.where(past, high, np.where(np.isnan(high), np.nan, value))
    return numerics.write(value, dst.dtype).reshape(dst.shape), after


# 246875399 >> 8 = 964357 and 3690007200 >> 8 = 14414090; 362437 >> 8 = 1415.
_parts = np.array([[964357, 1415, 1415, 1415, 14414090]], np.float64) / 2**24
VECTORS = [
    vector((_parts.astype(np.float32), xorwow.ends(4, 2)), min=0.0, max=1.0, states=xorwow.starts(4)),
    vector(
        (i16(-89, -100, -100, -100, 72), xorwow.ends(4, 2)), min=f32(-100.0), max=f32(100.0), states=xorwow.starts(4)
    ),
    # Less than half of the smallest number is 0, more is all of it: the last is -2**-149 + 2**-149 = +0, past -0.
    vector(
        (f32([-(2.0**-149)] * 4 + [-0.0]), xorwow.ends(4, 2)),
        min=f32(-(2.0**-149)),
        max=f32(-0.0),
        states=xorwow.starts(4),
    ),
]
