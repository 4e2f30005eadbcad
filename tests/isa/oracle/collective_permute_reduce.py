"""nki.collectives.collective_permute_implicit_reduce among one rank.

Chosen where the reference is silent: integers are combined exactly; of 8 and 16 bits they saturate, of 32 they wrap.
"""

from __future__ import annotations

from typing import Any

from .among_one import among_one, combined, results
from .numerics import Array
from .vectors import bf16, f32, i8, i32, u32


def oracle(dst: Array, *, srcs: list[Array], others: list[Array], dsts: list[Array], op: str, **_: Any) -> Any:
    """``op(src0, src1)`` of each channel, which the one rank receives from itself."""
    parts = zip(srcs, others, dsts, strict=True)
    return results([combined(op, one, two).reshape(dst.shape) for one, two, dst in parts])


_PAIRS = {"pairs": ((0, 0),)}
VECTORS = [
    among_one(f32([4, 2], [1, -9]), srcs=[f32([1, -2], [3, 4])], others=[f32([3, 4], [-2, -13])], op="add", **_PAIRS),
    among_one(
        f32([1, -2], [-2, 4]), i8(2, 5),
        srcs=[f32([1, -2], [3, 4]), i8(2, 9)], others=[f32([3, 4], [-2, 5]), i8(3, 5)], op="minimum", **_PAIRS,
    ),
    # In float32, rounded once: 256 + 2.5 is 258.5, and the nearest bfloat16 is 258.
    among_one(bf16(258), srcs=[bf16(256)], others=[bf16(2.5)], op="add", **_PAIRS),
    among_one(u32(2**32 - 1), srcs=[u32(2**32 - 1)], others=[u32(2**32 - 2)], op="maximum", **_PAIRS),
    among_one(i8(127, -128), srcs=[i8(100, -100)], others=[i8(100, -100)], op="add", **_PAIRS),
    among_one(i32(-(2**31), 2**24 + 1), srcs=[i32(2**31 - 1, 2**24)], others=[i32(1, 1)], op="add", **_PAIRS),
]  # fmt: skip
