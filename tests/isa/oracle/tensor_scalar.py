"""nki.isa.tensor_scalar.

Chosen where the reference is silent: the result of the first operator is rounded to float32 before the second (no
fused multiply-add); unary operators ignore their operand and the reversal; shifting by the width or more gives 0; a bit
operator's result has the width of the element ("bit patterns without any data type casting"), so that what the first
shifts out does not come back in the second. The exact int32 address arithmetic that the page mentions without defining
it (``tensor_scalar_addr``) is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import broadcast, rows
from .vectors import by_position, f32, i8, i32, u8

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur; everything else exact"


def _bits_of(operand: Any, like: Array) -> Array:
    if operand is None:
        return np.full(like.shape, 0, object)
    if isinstance(operand, np.ndarray) and operand.ndim:
        return np.repeat(alu.pattern(operand.reshape(-1, 1)), like.shape[1], axis=1)
    return np.full(like.shape, int(operand) & alu.MASK, object)


def _steps(asked: Mapping[str, Any]) -> list[tuple[str, Any, bool]]:
    """The operators with their operands, and which are reversed."""
    named = [n for n in "01" if asked.get(f"op{n}") is not None]
    return [(asked[f"op{n}"], asked.get(f"operand{n}"), asked.get(f"reverse{n}", False)) for n in named]


def oracle(dst: Array, *, data: Array, **asked: Any) -> Array:
    """``(data op0 operand0) op1 operand1`` with each operand a number or one number per partition.

    A reversed operator has its operand on the left. Bitvec operators work on the bits; the rest is float32.
    Reference: nki.isa.tensor_scalar.
    """
    steps = _steps(asked)
    if steps[0][0] in alu.BITVEC:
        bits = alu.pattern(rows(data))
        for op, operand, reverse in steps:
            other = _bits_of(operand, bits)
            bits = alu.bitvec(op, other, bits) if reverse and op != "invert" else alu.bitvec(op, bits, other)
            bits = alu.pattern(alu.store_pattern(bits, data.dtype))
        return alu.store_pattern(bits, dst.dtype).reshape(dst.shape)
    value = numerics.read(rows(data))
    for op, operand, reverse in steps:
        other = broadcast(0.0 if operand is None else operand, value)
        value = alu.arithmetic(op, value, other, reverse)
    return numerics.write(value, dst.dtype).reshape(dst.shape)


def bounds(dst: Array, *, data: Array, **asked: Any) -> verdict.Bounds | None:
    if not any(op in alu.ULPS for op, *_ in _steps(asked)):
        return None
    values = [numerics.read(rows(data))]
    for op, operand, reverse in _steps(asked):
        values = alu.outcomes(op, values, broadcast(0.0 if operand is None else operand, values[0]), reverse)
    return verdict.span(values, dst)


_vector = by_position("data", "op0", "operand0")
_per_row = f32([2.0], [-1.0])
VECTORS = [
    # The three worked examples of the reference: x - 1, 1 - x, and x * vector + 2.5.
    _vector(f32(2, -1), f32(3, 0), "subtract", 1.0),
    _vector(f32(-2, 1), f32(3, 0), "subtract", 1.0, reverse0=True),
    _vector(f32([4.5, 6.5], [-0.5, -1.5]), f32([1, 2], [3, 4]), "multiply", _per_row, op1="add", operand1=2.5),
    # Rounded in between: (1 + 2**-12)**2 - 1 - 2**-11 is 2**-24 exactly, but 0 after rounding the product.
    _vector(f32(0), f32(1 + 2**-12), "multiply", 1 + 2**-12, op1="subtract", operand1=1 + 2**-11),
    _vector(f32(1), f32(4), "divide", 2.0, op1="subtract", operand1=3.0, reverse1=True),
    _vector(f32(3, 0), f32(-3, -0.0), "abs", None),
    _vector(f32(9), f32(-3), "square", 0),
    _vector(f32(0.5), f32(4), "rsqrt", 0.0),
    _vector(f32(0.25), f32(4), "reciprocal", 0.0),
    _vector(f32(3), f32(9), "power", 0.5),
    # int32 through float32: 2**24 + 1 is a tie; the int8 result saturates.
    _vector(i32(2**24), i32(2**24 + 1), "add", 0.0),
    _vector(i8(127), i8(100), "multiply", 2.0),
    _vector(u8(1, 0), f32(3, 2), "greater", 2.5),
    # Two bit operators: take the second byte.
    _vector(i32(0x56), i32(0x12345678), "right_shift", 8, op1="bitwise_and", operand1=0xFF),
    _vector(u8(0xF0), u8(0x0F), "invert", None),
    _vector(i32(8, 1), i32(3, 0), "left_shift", 1, reverse0=True),
]
