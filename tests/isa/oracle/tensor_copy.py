"""nki.isa.tensor_copy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import numerics
from .numerics import Array

TOLERANCE = None


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


_big = np.array([[2**24 + 1, -(2**31)]], np.int32)
VECTORS = [
    ({"dst": np.zeros((1, 2), np.int32), "src": _big}, _big),
    ({"dst": np.zeros((1, 2), np.int32), "src": _big, "engine": "scalar"}, _big),
    (
        {"dst": np.zeros((1, 2), np.int32), "src": _big, "engine": "scalar", "target": "gen2"},
        np.array([[2**24, -(2**31)]], np.int32),
    ),
    # Ties go to the even integer, NaN to 0, infinities to the ends; the free axes may be shaped differently.
    (
        {
            "dst": np.zeros((1, 8), np.int8),
            "src": np.array([[[0.5, 1.5, 2.5, -0.5], [-1.5, np.nan, np.inf, -np.inf]]], np.float32),
        },
        np.array([[0, 2, 2, 0, -2, 0, 127, -128]], np.int8),
    ),
    # float8_e4m3 ends at 240 and overflows to infinity from 248 on; float8_e4m3fn ends at 448 and has only NaN above.
    (
        {"dst": np.zeros((1, 4), ml_dtypes.float8_e4m3), "src": np.array([[240, 247.9, 248, -1e9]], np.float32)},
        np.array([[0x77, 0x77, 0x78, 0xF8]], np.uint8).view(ml_dtypes.float8_e4m3),
    ),
    (
        {"dst": np.zeros((1, 4), ml_dtypes.float8_e4m3fn), "src": np.array([[448, 464, 465, np.inf]], np.float32)},
        np.array([[0x7E, 0x7E, 0x7F, 0x7F]], np.uint8).view(ml_dtypes.float8_e4m3fn),
    ),
    # float16: the smallest subnormal is 2**-24 and half of it is a tie with zero; 65520 rounds to infinity.
    (
        {"dst": np.zeros((1, 4), np.float16), "src": np.array([[2**-25, 2**-25 * 1.5, 65519, 65520]], np.float32)},
        np.array([[0x0000, 0x0001, 0x7BFF, 0x7C00]], np.uint16).view(np.float16),
    ),
]
