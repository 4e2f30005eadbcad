"""nki.isa.tensor_tensor.

Chosen where the reference is silent: GpSimd integers wrap modulo 2**32; division, remainders and power of integers go
through float32 there as well; comparing int32 with uint32 compares values; bitvec operands of different widths are
extended with zeros to 32 bits and the result is cut to the width of ``dst``; shifting by 32 or more gives 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import rows
from .vectors import by_position, f32, i8, i32, u8, u32

TOLERANCE = "power within 2 ulp of float32 before the cast; everything else exact"
_WORDS = (np.dtype(np.int32), np.dtype(np.uint32))


def _on_gpsimd_integers(dst: Array, data1: Array, data2: Array, op: str, engine: str, in_psum: bool) -> bool:
    words = all(t.dtype in _WORDS for t in (dst, data1, data2))
    chosen = engine == "gpsimd" or (engine == "unknown" and not in_psum)
    return words and chosen and op in alu.INTEGER


def oracle(
    dst: Array, *, data1: Array, data2: Array, op: str, engine: str = "unknown", in_psum: bool = False, **_: Any
) -> Array:
    """``data1 op data2``, element by element. ``in_psum``: some operand is in PSUM, so GpSimd is not chosen by itself.

    Bitvec operators work on the bits; int32/uint32 throughout on GpSimd are exact; the rest is float32 arithmetic with
    one cast. Reference: nki.isa.tensor_tensor.
    """
    one, two = rows(data1), rows(data2)
    if op in alu.BITVEC:
        result = alu.store_pattern(alu.bitvec(op, alu.pattern(one), alu.pattern(two)), dst.dtype)
    elif _on_gpsimd_integers(dst, data1, data2, op, engine, in_psum):
        result = alu.store_pattern(alu.integer(op, one, two), dst.dtype)
    else:
        result = numerics.write(alu.arithmetic(op, numerics.read(one), numerics.read(two)), dst.dtype)
    return result.reshape(dst.shape)


def bounds(dst: Array, *, data1: Array, data2: Array, op: str, **_: Any) -> verdict.Bounds | None:
    if op not in alu.ULPS:
        return None
    return verdict.span(alu.outcomes(op, [numerics.read(rows(data1))], numerics.read(rows(data2))), dst)


_vector = by_position("data1", "data2", "op")
_inf, _nan = float("inf"), float("nan")
VECTORS = [
    # Published: abs_max and abs_min keep the sign, and a tie gives the second operand.
    _vector(f32(-5, -1), f32(-5, 1), f32(3, -1), "abs_max"),
    _vector(f32(-3, -1), f32(5, 1), f32(-3, -1), "abs_min"),
    _vector(f32(9), f32(3), f32(2), "power"),
    _vector(f32(5), f32(3), f32(5), "maximum"),
    # Rounding: 2**24 + 1 is a tie (to 2**24); + 3 goes up to + 4; the largest float32 plus half an ulp overflows.
    _vector(f32(2**24, 2**24 + 4, _inf), f32(2**24, 2**24, 3.4028235e38), f32(1, 3, 2.0**103), "add"),
    _vector(f32(0.0, -0.0, _nan), f32(1, -0.0, _inf), f32(-1, -0.0, -_inf), "add"),
    _vector(f32(_nan, _nan, 0.0, 0.0), f32(_nan, 1, 0.0, -0.0), f32(1, _nan, -0.0, 0.0), "maximum"),
    _vector(f32(_nan, -0.0), f32(_nan, 0.0), f32(-_inf, -0.0), "minimum"),
    _vector(f32(0, 1, 0), f32(_nan, 0.0, 1), f32(_nan, -0.0, 2), "equal"),
    _vector(f32(1, 0, 1), f32(_nan, 0.0, 1), f32(_nan, -0.0, 2), "not_equal"),
    _vector(f32(0, 0, 1, 0), f32(0, 2, 2, -0.0), f32(3, 0, -3, -0.0), "logical_and"),
    _vector(f32(1, 0), f32(2, 2), f32(0, 3), "logical_xor"),
    # Remainders: the sign of the divisor (mod) or of the dividend (fmod).
    _vector(f32(1, -1, 1.5), f32(-5, 5, 5.5), f32(3, -3, 2), "mod"),
    _vector(f32(-2, 2, 1.5), f32(-5, 5, 5.5), f32(3, -3, 2), "fmod"),
    _vector(f32(_inf, -_inf, _nan, 0.5), f32(1, 1, 0, 1), f32(0.0, -0.0, 0, 2), "divide"),
    # 32-bit integers: GpSimd by default, exact and wrapping; Vector by way of float32, saturating.
    _vector(i32(2**24 + 2, -(2**31)), i32(2**24 + 1, 2**31 - 1), i32(1, 1), "add"),
    _vector(i32(2**24, 2**31 - 1), i32(2**24 + 1, 2**31 - 1), i32(0, 1), "add", engine="vector"),
    _vector(i32(2**24), i32(2**24 + 1), i32(0), "add", in_psum=True),
    _vector(i32(131073), i32(65537), i32(65537), "multiply"),  # (2**16 + 1)**2 = 2**32 + 2**17 + 1
    _vector(u32(0), u32(2**32 - 1), u32(1), "add"),
    _vector(i8(127, -128), i8(100, -100), i8(100, -100), "add"),
    # Bits: the right shift is logical at the width of the element.
    _vector(i8(0x40), i8(-128), i8(1), "right_shift"),
    _vector(i32(0x7FFFFFFF, 0), i32(-1, -1), i32(1, 32), "right_shift"),
    _vector(i32(-(2**31), 0), i32(1, 1), i32(31, 32), "left_shift"),
    _vector(i32(2**24 + 1), i32(2**24 + 3), i32(2**24 + 1), "bitwise_and"),
    _vector(u8(0x3C), u8(0xF0), u8(0xCC), "bitwise_xor"),
]
