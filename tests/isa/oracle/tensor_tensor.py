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


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


def _i(*values: int, dtype: Any = np.int32) -> Array:
    return np.array([values], dtype)


def _vector(expected: Array, one: Array, two: Array, op: str, **more: Any) -> tuple[dict[str, Any], Array]:
    return {"dst": np.zeros(expected.shape, expected.dtype), "data1": one, "data2": two, "op": op, **more}, expected


_inf, _nan = float("inf"), float("nan")
VECTORS = [
    # Published: abs_max and abs_min keep the sign, and a tie gives the second operand.
    _vector(_f(-5, -1), _f(-5, 1), _f(3, -1), "abs_max"),
    _vector(_f(-3, -1), _f(5, 1), _f(-3, -1), "abs_min"),
    _vector(_f(9), _f(3), _f(2), "power"),
    _vector(_f(5), _f(3), _f(5), "maximum"),
    # Rounding: 2**24 + 1 is a tie (to 2**24); + 3 goes up to + 4; the largest float32 plus half an ulp overflows.
    _vector(_f(2**24, 2**24 + 4, _inf), _f(2**24, 2**24, 3.4028235e38), _f(1, 3, 2.0**103), "add"),
    _vector(_f(0.0, -0.0, _nan), _f(1, -0.0, _inf), _f(-1, -0.0, -_inf), "add"),
    _vector(_f(_nan, _nan, 0.0, 0.0), _f(_nan, 1, 0.0, -0.0), _f(1, _nan, -0.0, 0.0), "maximum"),
    _vector(_f(_nan, -0.0), _f(_nan, 0.0), _f(-_inf, -0.0), "minimum"),
    _vector(_f(0, 1, 0), _f(_nan, 0.0, 1), _f(_nan, -0.0, 2), "equal"),
    _vector(_f(1, 0, 1), _f(_nan, 0.0, 1), _f(_nan, -0.0, 2), "not_equal"),
    _vector(_f(0, 0, 1, 0), _f(0, 2, 2, -0.0), _f(3, 0, -3, -0.0), "logical_and"),
    _vector(_f(1, 0), _f(2, 2), _f(0, 3), "logical_xor"),
    # Remainders: the sign of the divisor (mod) or of the dividend (fmod).
    _vector(_f(1, -1, 1.5), _f(-5, 5, 5.5), _f(3, -3, 2), "mod"),
    _vector(_f(-2, 2, 1.5), _f(-5, 5, 5.5), _f(3, -3, 2), "fmod"),
    _vector(_f(_inf, -_inf, _nan, 0.5), _f(1, 1, 0, 1), _f(0.0, -0.0, 0, 2), "divide"),
    # 32-bit integers: GpSimd by default, exact and wrapping; Vector by way of float32, saturating.
    _vector(_i(2**24 + 2, -(2**31)), _i(2**24 + 1, 2**31 - 1), _i(1, 1), "add"),
    _vector(_i(2**24, 2**31 - 1), _i(2**24 + 1, 2**31 - 1), _i(0, 1), "add", engine="vector"),
    _vector(_i(2**24), _i(2**24 + 1), _i(0), "add", in_psum=True),
    _vector(_i(131073), _i(65537), _i(65537), "multiply"),  # (2**16 + 1)**2 = 2**32 + 2**17 + 1
    _vector(_i(0, dtype=np.uint32), _i(2**32 - 1, dtype=np.uint32), _i(1, dtype=np.uint32), "add"),
    _vector(_i(127, -128, dtype=np.int8), _i(100, -100, dtype=np.int8), _i(100, -100, dtype=np.int8), "add"),
    # Bits: the right shift is logical at the width of the element.
    _vector(_i(0x40, dtype=np.int8), _i(-128, dtype=np.int8), _i(1, dtype=np.int8), "right_shift"),
    _vector(_i(0x7FFFFFFF, 0), _i(-1, -1), _i(1, 32), "right_shift"),
    _vector(_i(-(2**31), 0), _i(1, 1), _i(31, 32), "left_shift"),
    _vector(_i(2**24 + 1), _i(2**24 + 3), _i(2**24 + 1), "bitwise_and"),
    _vector(_i(0x3C, dtype=np.uint8), _i(0xF0, dtype=np.uint8), _i(0xCC, dtype=np.uint8), "bitwise_xor"),
]
