"""Two vectors of exponentials: mostly all are normal numbers, which takes fewer operations, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from nki.backend.cpu.codegen.convert import encode, encode_normal, side_by_side
from nki.backend.cpu.codegen.function import Builder, Value
from nki.base.dtype import DType
from nki.numerics.float32 import has_normal_exp, normal_exp
from nki.numerics.simd import Lanes


def emit_exponentials(
    b: Builder, given: Sequence[Value], dtype: DType, others: Callable[[], Sequence[Value]]
) -> tuple[list[Value], Value]:
    """The exponentials of two vectors, and both side by side as elements of ``dtype``.

    ``others`` emits the exponentials of any numbers, with the canonical NaN.
    """
    low, high = given
    lanes, all_lanes = Lanes(b, low), ir.IntType(low.type.count)
    are_normal = b.icmp_signed("==", b.bitcast(has_normal_exp(lanes, given), all_lanes), ir.Constant(all_lanes, -1))
    ways: list[tuple[list[Value], Value]] = []
    with b.if_else(are_normal, likely=True) as (then, otherwise):
        with then:
            low, high = (normal_exp(lanes, x) for x in given)
            ways.append(([low, high, encode_normal(b, low, high, dtype)], b.block))
        with otherwise:
            low, high = others()
            stored = encode(b, side_by_side(b, low, high), dtype, has_canonical_nan=True)
            ways.append(([low, high, stored], b.block))
    results: list[Value] = [b.phi(value.type) for value in ways[0][0]]
    for values, block in ways:
        for result, value in zip(results, values, strict=True):
            result.add_incoming(value, block)
    return results[:2], results[2]


__all__ = ["emit_exponentials"]
