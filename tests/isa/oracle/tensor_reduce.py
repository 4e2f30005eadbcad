"""nki.isa.tensor_reduce (Vector Engine).

Chosen where the reference is silent: ``subtract`` takes the second and later elements from the first; a logical
reduction of one element is its truth value; elements are taken in memory order; 32-bit integers go through float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics
from .numerics import Array
from .vectors import bf16, by_position, f32, i8, i32, u8


def _lanes(data: Array, axis: Any) -> Array:
    """(results, elements per result), checking that the axes are the last ones and not the partition."""
    axes = sorted(a % data.ndim for a in ([axis] if isinstance(axis, int) else axis))
    assert axes == list(range(data.ndim - len(axes), data.ndim)) and axes[0] > 0
    return data.reshape(-1, int(np.prod([data.shape[a] for a in axes])))


def oracle(
    dst: Array, *, op: str, data: Array, axis: Any, negate: bool = False, keepdims: bool = False, **_: Any
) -> Array:
    """The trailing axes folded by ``op`` from left to right, starting from the first element, in float32.

    ``negate`` multiplies the float32 result by -1 before the cast. ``keepdims`` only shapes ``dst``. Bitvec operators
    fold the bits. Reference: nki.isa.tensor_reduce; "Supported Math Operators" for which operators reduce.
    """
    assert op in alu.REDUCTIONS
    lanes = _lanes(data, axis)
    if op in alu.BITVEC:
        assert not negate
        bits = alu.pattern(lanes)
        folded = bits[:, 0]
        for i in range(1, bits.shape[1]):
            folded = alu.bitvec(op, folded, bits[:, i])
        return alu.store_pattern(folded, dst.dtype).reshape(dst.shape)
    values = numerics.read(lanes)
    total = values[:, 0]
    if op.startswith("logical") and values.shape[1] == 1:
        total = alu.arithmetic("not_equal", total, 0.0)
    for i in range(1, values.shape[1]):
        total = alu.arithmetic(op, total, values[:, i])
    return numerics.write(-total if negate else total, dst.dtype).reshape(dst.shape)


_vector = by_position("data", "op", "axis")
_count = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
VECTORS = [
    _vector(f32([6, 22, 38], [54, 70, 86]), _count, "add", (2,)),
    _vector(f32([66], [210]), _count, "add", (1, 2)),
    _vector(f32([[66]], [[210]]), _count, "add", [1, 2], keepdims=True),
    # From left to right each 1 is lost against 2**24; summing pairs would keep two of them.
    _vector(f32(2**24), f32(2**24, 1, 1, 1), "add", 1),
    _vector(f32(2**24 + 2), f32(1, 1, 2**24), "add", 1),
    # The sum starts from the first element, not from +0.
    _vector(f32(-0.0), f32(-0.0, -0.0), "add", 1),
    _vector(f32(0.0), f32(-0.0, -0.0), "add", 1, negate=True),
    _vector(f32(-9), f32(3, 9, -4), "maximum", 1, negate=True),
    _vector(f32(np.nan), f32(3, np.nan, 4), "maximum", 1),
    _vector(f32(-4), f32(3, 5, 2), "subtract", 1),
    _vector(f32([24], [-0.0]), f32([2, 3, 4], [2, 0, -3]), "multiply", 1),
    _vector(f32([0], [1]), f32([2, 0, 4], [2, -1, 4]), "logical_and", 1),
    _vector(f32(1), f32(2, -1, 4), "logical_xor", 1),
    _vector(i8(127), i8(100, 100, -100, 100), "add", 1),
    # bfloat16 accumulates in float32 and rounds once: 256 + 1 + 1 = 258; rounding each step would stay at 256.
    _vector(bf16(258), bf16(256, 1, 1), "add", 1),
    _vector(i32(2**24 + 1), i32(-1, 2**24 + 1), "bitwise_and", 1),
    _vector(u8(0b110), u8(0b101, 0b011), "bitwise_xor", 1),
]
