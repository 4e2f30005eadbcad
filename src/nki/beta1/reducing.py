"""Reductions over free dimensions, and functions made of them. A mask leaves out what is outside."""

from __future__ import annotations

import math
import operator
from typing import Any, cast

import numpy as np

from nki import isa
from nki.base.beta1_errors import Beta1OperandError
from nki.beta1 import dtypes
from nki.beta1.beta1_tensor import Pending, Tensor
from nki.beta1.elementwise import binary, unary
from nki.beta1.lowering import (
    at_quadrant,
    at_start,
    constant_tile,
    copied,
    elementwise,
    scratch,
    tile_of,
    within,
    write,
)
from nki.beta1.mask_regions import Region, region
from nki.ir.types import Access
from nki.isa.tables.operators import OPS, Op

Shape = tuple[int, ...]
_NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf, "max": -math.inf,
            "min": math.inf, "logical_and": 1.0, "logical_or": 0.0, "bitwise_or": 0.0, "bitwise_xor": 0.0}  # fmt: skip


def axes_of(what: str, tile: Tensor, axis: Any) -> Shape:
    """The reduced dimensions, counted from the front and sorted."""
    entries: tuple[Any, ...] = tuple(cast("list[Any]", axis)) if isinstance(axis, tuple | list) else (axis,)
    try:
        axes = tuple(sorted(a + tile.ndim if a < 0 else a for a in map(operator.index, entries)))
    except TypeError:
        raise Beta1OperandError(f"{what}: axis={axis!r:.40} is no integer", fix="pass 1, or [1, 2]") from None
    if not axes or len(set(axes)) < len(axes) or axes[0] < 1 or axes[-1] >= tile.ndim:
        raise Beta1OperandError(
            f"{what}: axis={axis!r} of '{tile.name}' {tile.shape}: only the free dimensions can be reduced, and once",
            fix="transpose the tile first to reduce over partitions, or use nisa.tensor_partition_reduce",
        )
    return axes


def left_of(shape: Shape, axes: Shape, *, keepdims: bool) -> Shape:
    """The shape of a result: at least two dimensions."""
    if keepdims:
        return tuple(1 if dim in axes else size for dim, size in enumerate(shape))
    rest = tuple(size for dim, size in enumerate(shape) if dim not in axes)
    return rest if len(rest) > 1 else (*rest, 1)


def reduce(
    op: Op, x: Any, axis: Any, what: str, *, dtype: Any = None, mask: Any = None, keepdims: bool = False,
    name: str = "reduced",
) -> Tensor:  # fmt: skip
    """``x`` folded with ``op`` over ``axis``: a waiting result."""
    tile = tile_of(x, what, "x")
    axes = axes_of(what, tile, axis)
    shape = left_of(tile.shape, axes, keepdims=keepdims)
    kind = dtypes.chosen(dtype, tile.kind)

    def emit(dst: Tensor) -> None:
        fold(dst, op, tile, axes, mask, keepdims=keepdims)

    return Tensor.wait(Pending(shape, kind, emit, name=name))


def fold(
    dst: Tensor, op: Op, tile: Tensor, axes: Shape, mask: Any, *, keepdims: bool = False, negate: bool = False
) -> None:
    """``dst`` = ``tile`` folded over ``axes`` where ``mask`` holds."""
    over = region(mask, tile.shape)
    if over.is_empty:
        return
    if any(step < 0 for step in tile.base.strides):
        tile = unary("copy", tile).settle()
    if over.array is not None:
        tile, over = with_neutral(within(tile, over), over, op), Region(tile.shape, over.box)
    assert over.box is not None
    order = (*(d for d in range(tile.ndim) if d not in axes), *axes)
    source = tile.bare(over)
    tile.place.before_read(source)
    source = at_quadrant(source)
    turned = Access(
        source.tensor, source.offset, tuple(source.shape[d] for d in order), tuple(source.strides[d] for d in order),
        source.dtype, source.dynamic,
    )  # fmt: skip
    kept = [over.box[d] for d in range(tile.ndim) if d not in axes]
    if keepdims:
        box = tuple((0, 1) if d in axes else over.box[d] for d in range(tile.ndim))
    else:
        box = tuple(kept) if len(kept) > 1 else (*kept, (0, 1))
    into = write(dst, Region(dst.shape, box))
    count = len(axes)
    ndim = len(order)
    last = tuple(range(ndim - count, ndim))
    at_start(into, lambda place: isa.tensor_reduce(place, op, turned, last, negate=negate))


def with_neutral(tile: Tensor, over: Region, op: Op) -> Tensor:
    """A copy of ``tile`` with the neutral element of ``op`` outside the region."""
    assert over.box is not None and over.array is not None
    value = _NEUTRAL.get(op.name)
    if value is None:
        raise Beta1OperandError(
            f"unsupported_expression_in_mask: {op} has no neutral element for a mask that is no box", fix="use a box"
        )
    filled = scratch(f"{tile.name}_neutral", tile.shape, tile.kind)
    isa.memset(filled.bare(), value if tile.kind.is_float else int(max(min(value, 2**31 - 1), -(2**31))))
    array = np.zeros(tile.shape, np.uint8)
    array[tuple(slice(*b) for b in over.box)] = over.array
    source = tile.access
    if source.dtype is not filled.kind or source.buffer is not filled.buffer:
        source = copied(source, "same", filled.kind).bare()
    isa.tensor_copy_predicated(filled.bare(), source, constant_tile(array).access)
    return filled


def mean(x: Any, axis: Any = -1, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **_: Any) -> Any:
    """The mean over free dimensions."""
    tile = tile_of(x, "nl.mean", "x")
    axes = axes_of("nl.mean", tile, axis)
    shape = left_of(tile.shape, axes, keepdims=keepdims)
    kind = dtypes.chosen(dtype, tile.kind)
    count = _count(tile, axes, mask)

    def emit(dst: Tensor) -> None:
        total = scratch("total", shape)
        fold(total, OPS["add"], tile, axes, mask, keepdims=keepdims)
        elementwise(dst, [total], None, lambda d, s: isa.tensor_scalar(d, s[0], OPS["multiply"], 1.0 / count))

    return Tensor.wait(Pending(shape, kind, emit, name="mean"))


def _count(tile: Tensor, axes: Shape, mask: Any) -> int:
    over = region(mask, tile.shape)
    if over.box is None:
        return 1
    return math.prod(b - a for d, (a, b) in enumerate(over.box) if d in axes)


def var(x: Any, axis: Any = -1, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
    """The variance over free dimensions."""
    tile = tile_of(x, "nl.var", "x")
    axes = axes_of("nl.var", tile, axis)
    shape = left_of(tile.shape, axes, keepdims=False)
    kind = dtypes.chosen(dtype, tile.kind)
    middle = mean(tile, axes, dtype=np.float32, mask=mask, keepdims=True)
    distance = binary("subtract", tile, middle, dtype=np.float32, mask=mask)
    squares = unary("square", distance, mask=mask).settle()

    def emit(dst: Tensor) -> None:
        result = mean(squares, axes, dtype=kind, mask=mask).settle()
        elementwise(dst, [result], None, lambda d, s: isa.tensor_copy(d, s[0]))

    return Tensor.wait(Pending(shape, kind, emit, name="var"))


def softmax(x: Any, axis: Any, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None, **_: Any) -> Any:
    """The softmax over free dimensions."""
    tile = tile_of(x, "nl.softmax", "x")
    kind = dtype if dtype is not None else compute_dtype if compute_dtype is not None else tile.kind
    most = reduce(OPS["maximum"], tile, axis, "nl.softmax", dtype=np.float32, mask=mask, keepdims=True)
    raised = unary("exp", binary("subtract", tile, most, dtype=np.float32, mask=mask), mask=mask).settle()
    total = reduce(OPS["add"], raised, axis, "nl.softmax", mask=mask, keepdims=True)
    return binary("multiply", raised, unary("reciprocal", total), dtype=kind, mask=mask)


def rms_norm(
    x: Any, w: Any, axis: Any, n: Any, epsilon: float = 1e-6, *, dtype: Any = None, compute_dtype: Any = None,
    mask: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """``x`` divided by the root of its mean square, times ``w``."""
    tile = tile_of(x, "nl.rms_norm", "x")
    kind = dtype if dtype is not None else compute_dtype if compute_dtype is not None else tile.kind
    squares = unary("square", tile, dtype=np.float32, mask=mask)
    total = reduce(OPS["add"], squares, axis, "nl.rms_norm", mask=mask, keepdims=True).settle()
    scale = scratch("scale", total.shape)
    isa.tensor_scalar(
        scale.bare(), total.access, OPS["multiply"], 1.0 / float(n), op1=OPS["add"], operand1=float(epsilon)
    )
    factor = unary("rsqrt", scale).settle()
    return binary("multiply", binary("multiply", tile, factor, dtype=np.float32, mask=mask), w, dtype=kind, mask=mask)


__all__ = ["axes_of", "fold", "left_of", "mean", "reduce", "rms_norm", "softmax", "var"]
