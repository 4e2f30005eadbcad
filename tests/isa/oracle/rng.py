"""nki.isa.rng (Vector or GpSimd Engine); see :mod:`.xorwow` for the generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import xorwow
from .numerics import Array
from .vectors import i8, u32, vector


def oracle(dst: Array, *, states: Array, **_: Any) -> tuple[Array, Array]:
    """The low bits of one 32-bit number for each element. Reference: nki.isa.rng."""
    numbers, after = xorwow.draw(states, dst.size // dst.shape[0])
    size = dst.dtype.itemsize
    low = (numbers.astype(np.int64) % 2 ** (8 * size)).astype(f"u{size}")
    return low.view(dst.dtype).reshape(dst.shape), after


_numbers = np.array([xorwow.NUMBERS[:3]], np.uint32)
_mixed = u32(246875399, 362437, 362437, 362437, 3690007200, 724874)
VECTORS = [
    vector((_numbers, xorwow.ends(1, 3)), engine="gpsimd", states=xorwow.starts(1)),
    # Three words modulo 256, seen as signed numbers.
    vector((i8(0x07, 0xA0 - 256, 0x8D - 256), xorwow.ends(1, 3)), engine="gpsimd", states=xorwow.starts(1)),
    # Four generators in turn; of the second round two numbers are left over.
    vector((_mixed.reshape(1, 2, 3), xorwow.ends(4, 2)), engine="vector", states=xorwow.starts(4)),
]
