"""nki.isa.tensor_copy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics
from .numerics import Array
from .vectors import f32, i8, i32, u8, u16, vector


def copies_bits(dst: Array, *, src: Array, engine: str = "unknown", target: str = "gen3", **_: Any) -> bool:
    return src.dtype == dst.dtype and not (engine == "scalar" and target == "gen2")


def oracle(dst: Array, *, src: Array, engine: str = "unknown", target: str = "gen3", **_: Any) -> Array:
    """The elements of each partition in order: bit for bit if the types agree, else through float32.

    The Scalar Engine of gen2 goes through float32 always, so large integers round there. (The same page also says that
    gen2 does not offer it; then only ``activation(copy)`` reaches that path.) Reference: nki.isa.tensor_copy; Trainium2
    architecture guide, "Scalar Engine", for the bit-accurate copy from gen3 on.
    """
    assert src.shape[0] == dst.shape[0] and src.size == dst.size
    if engine == "scalar" and target == "gen2":
        return numerics.write(numerics.exact(src), dst.dtype).reshape(dst.shape)
    return numerics.convert(src, dst.dtype).reshape(dst.shape)


_big = i32(2**24 + 1, -(2**31))
VECTORS = [
    vector(_big, src=_big),
    vector(_big, src=_big, engine="scalar"),
    vector(i32(2**24, -(2**31)), src=_big, engine="scalar", target="gen2"),
    # Ties go to the even integer, NaN to 0, infinities to the ends; the free axes may be shaped differently.
    vector(i8(0, 2, 2, 0, -2, 0, 127, -128), src=f32([[0.5, 1.5, 2.5, -0.5], [-1.5, np.nan, np.inf, -np.inf]])),
    # float8_e4m3 ends at 240 and overflows to infinity from 248 on; float8_e4m3fn ends at 448 and has only NaN above.
    vector(u8(0x77, 0x77, 0x78, 0xF8).view(ml_dtypes.float8_e4m3), src=f32(240, 247.9, 248, -1e9)),
    vector(u8(0x7E, 0x7E, 0x7F, 0x7F).view(ml_dtypes.float8_e4m3fn), src=f32(448, 464, 465, np.inf)),
    # float16: the smallest subnormal is 2**-24 and half of it is a tie with zero; 65520 rounds to infinity.
    vector(u16(0x0000, 0x0001, 0x7BFF, 0x7C00).view(np.float16), src=f32(2**-25, 2**-25 * 1.5, 65519, 65520)),
]
