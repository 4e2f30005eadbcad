"""nki.isa.tensor_scalar.

Chosen where the reference is silent: the result of the first operator is rounded to float32 before the second (no
fused multiply-add); unary operators ignore their operand and the reversal; shifting by the width or more gives 0; a bit
operator's result has the width of the element ("bit patterns without any data type casting"), so that what the first
shifts out does not come back in the second. The exact int32 address arithmetic that the page mentions without defining
it (``tensor_scalar_addr``) is not modelled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alu, numerics, verdict
from .numerics import Array
from .tile import broadcast, rows

TOLERANCE = "power and rsqrt within 2 ulp of float32 where they occur; everything else exact"


def _bits_of(operand: Any, like: Array) -> Array:
    if operand is None:
        return np.full(like.shape, 0, object)
    if isinstance(operand, np.ndarray) and operand.ndim:
        return np.repeat(alu.pattern(operand.reshape(-1, 1)), like.shape[1], axis=1)
    return np.full(like.shape, int(operand) & alu.MASK, object)


def oracle(
    dst: Array,
    *,
    data: Array,
    op0: str,
    operand0: Any,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: Any = None,
    reverse1: bool = False,
    **_: Any,
) -> Array:
    """``(data op0 operand0) op1 operand1`` with each operand a number or one number per partition.

    A reversed operator has its operand on the left. Bitvec operators work on the bits; the rest is float32.
    Reference: nki.isa.tensor_scalar.
    """
    steps = [(op0, operand0, reverse0)] + ([(op1, operand1, reverse1)] if op1 is not None else [])
    if op0 in alu.BITVEC:
        bits = alu.pattern(rows(data))
        for op, operand, reverse in steps:
            other = _bits_of(operand, bits)
            bits = alu.bitvec(op, other, bits) if reverse and op != "invert" else alu.bitvec(op, bits, other)
            bits = alu.pattern(alu.store_pattern(bits, data.dtype))
        return alu.store_pattern(bits, dst.dtype).reshape(dst.shape)
    value = numerics.read(rows(data))
    for op, operand, reverse in steps:
        other = broadcast(0.0 if operand is None else operand, value)
        value = (
            alu.arithmetic(op, other, value) if reverse and op not in alu.UNARY else alu.arithmetic(op, value, other)
        )
    return numerics.write(value, dst.dtype).reshape(dst.shape)


def bounds(
    dst: Array,
    *,
    data: Array,
    op0: str,
    operand0: Any,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: Any = None,
    reverse1: bool = False,
    **_: Any,
) -> verdict.Bounds | None:
    if op0 not in alu.ULPS and op1 not in alu.ULPS:
        return None
    values = [numerics.read(rows(data))]
    for op, operand, reverse in ((op0, operand0, reverse0), (op1, operand1, reverse1)):
        if op is not None:
            values = alu.outcomes(op, values, broadcast(0.0 if operand is None else operand, values[0]), reverse)
    return verdict.span(values, dst)


def _f(*values: float) -> Array:
    return np.array([values], np.float32)


def _vector(expected: Array, data: Array, op0: str, operand0: Any, **more: Any) -> tuple[dict[str, Any], Array]:
    return {
        "dst": np.zeros(expected.shape, expected.dtype),
        "data": data,
        "op0": op0,
        "operand0": operand0,
        **more,
    }, expected


_per_row = np.array([[2.0], [-1.0]], np.float32)
VECTORS = [
    # The three worked examples of the reference: x - 1, 1 - x, and x * vector + 2.5.
    _vector(_f(2, -1), _f(3, 0), "subtract", 1.0),
    _vector(_f(-2, 1), _f(3, 0), "subtract", 1.0, reverse0=True),
    _vector(
        np.array([[4.5, 6.5], [-0.5, -1.5]], np.float32),
        np.array([[1, 2], [3, 4]], np.float32),
        "multiply",
        _per_row,
        op1="add",
        operand1=2.5,
    ),
    # Rounded in between: (1 + 2**-12)**2 - 1 - 2**-11 is 2**-24 exactly, but 0 after rounding the product.
    _vector(_f(0), _f(1 + 2**-12), "multiply", 1 + 2**-12, op1="subtract", operand1=1 + 2**-11),
    _vector(_f(1), _f(4), "divide", 2.0, op1="subtract", operand1=3.0, reverse1=True),
    _vector(_f(3, 0), _f(-3, -0.0), "abs", None),
    _vector(_f(9), _f(-3), "square", 0),
    _vector(_f(0.5), _f(4), "rsqrt", 0.0),
    _vector(_f(0.25), _f(4), "reciprocal", 0.0),
    _vector(_f(3), _f(9), "power", 0.5),
    # int32 through float32: 2**24 + 1 is a tie; the int8 result saturates.
    _vector(np.array([[2**24]], np.int32), np.array([[2**24 + 1]], np.int32), "add", 0.0),
    _vector(np.array([[127]], np.int8), np.array([[100]], np.int8), "multiply", 2.0),
    _vector(np.array([[1, 0]], np.uint8), _f(3, 2), "greater", 2.5),
    # Two bit operators: take the second byte.
    _vector(
        np.array([[0x56]], np.int32),
        np.array([[0x12345678]], np.int32),
        "right_shift",
        8,
        op1="bitwise_and",
        operand1=0xFF,
    ),
    _vector(np.array([[0xF0]], np.uint8), np.array([[0x0F]], np.uint8), "invert", None),
    _vector(np.array([[8, 1]], np.int32), np.array([[3, 0]], np.int32), "left_shift", 1, reverse0=True),
]
