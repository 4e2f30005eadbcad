"""Loads, stores, transpositions and matrix products."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.base.beta1_errors import Beta1OperandError
from nki.base.element_types import DType
from nki.beta1 import dtypes
from nki.beta1.beta1_tensor import Pending, Tensor, flush, operations
from nki.beta1.index import Mask
from nki.beta1.lowering import (
    at_quadrant,
    at_start,
    check_mutable,
    converted,
    forwards,
    in_sbuf,
    operand_of,
    record,
    reordered,
    repeats,
    scratch,
    tile_of,
)
from nki.beta1.mask_regions import Region, boxes_of, joined, region
from nki.beta1.view import check_bounds, part, strides_of
from nki.frontend.builder import current
from nki.ir.algebra import permuted
from nki.ir.types import Access, Buffer
from nki.isa import build
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS

Shape = tuple[int, ...]


def hbm_of(x: Any, what: str, name: str) -> Tensor:
    """``x``, which has to be a tensor in HBM."""
    if not isinstance(x, Tensor):
        raise Beta1OperandError(
            f"{what}: {name} is {x!r:.40} ({type(x).__name__}), not a tensor", fix="pass an argument of the kernel"
        )
    if x.buffer.on_chip:
        raise Beta1OperandError(
            f"unsupported_memory: {what}: {name} '{x.name}' is in {x.buffer.value}, not in HBM",
            fix="tiles on chip need no nl.load or nl.store: use them, or nl.copy",
        )
    flush()  # a load that waits may read what the caller writes
    return x


def at_least_2d(t: Tensor) -> Tensor:
    """``t``, a vector as a column and a single element as (1, 1)."""
    own = len(t.base.shape)
    if own >= 2:
        return t
    return Tensor(t.storage, t.base.arranged((*range(own), *(None,) * (2 - own))))


def transfer(dst: Tensor, src: Tensor, mask: Any, turns: Shape = (), **options: Any) -> None:
    """DMA from ``src`` to ``dst``, of one shape, box by box of the mask; ``turns``: the axes, exchanged in pairs, by
    which ``src`` views a tensor to transpose.
    """
    shape = dst.shape
    over = region(mask, shape)
    if over.is_empty:
        return
    check_bounds(src.storage.name, src.base, over)
    check_bounds(dst.storage.name, dst.base, over)
    source, target = src.unchecked, dst.unchecked
    boxes = [over.box] if dst.is_new and over.array is not None and over.box and _inside(src, over) else boxes_of(over)
    for box in boxes:
        assert box is not None
        if over.is_whole:
            read, write = source, target
        else:
            read, write = part(source, box), part(target, box)
        src.place.before_read(read)
        dst.place.before_write(write, certain=over.is_whole)
        if turns and transposes_by_dma(read, write.dtype):
            _transpose(write, permuted(read, turns))
        else:
            forwards(lambda d, s: record(build.copy_by_dma(d, s[0], **options)), write, [read])


def transposes_by_dma(src: Access, dtype: DType) -> bool:
    """Test if the DMA engines transpose ``src`` as they move it: elements of 2 or 4 bytes (Trainium2 Architecture Guide
    for NKI, DMA Transpose). The engines of trn1 do, too, at a low rate (NKI performance guide, Opt #10, from before
    trn2).
    """
    return (
        src.dynamic is None
        and min(src.strides) >= 0
        and src.dtype.itemsize in (2, 4)
        and src.dtype.computes
        and dtype.computes
    )


def _transpose(dst: Access, src: Access) -> None:
    """``src``, with its first and last dimensions exchanged, to ``dst``; a transpose by DMA keeps the dtype."""
    if dst.dtype is src.dtype and min(dst.strides) >= 0:
        record(build.transpose_by_dma(dst, src))
        return
    kept = scratch(f"{dst.name}_transposed", dst.shape, src.dtype).bare()
    record(build.transpose_by_dma(kept, src))
    forwards(lambda d, s: at_start(d, lambda place: isa.tensor_copy(place, s[0])), dst, [kept])


def _inside(src: Tensor, over: Region) -> bool:
    """True if every element of the box around the region is inside ``src``."""
    whole = Region(over.shape, over.box)
    return all(bound.outside(whole) is None for bound in src.base.bounds)


def load(src: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Any:
    """A tile in SBUF with the elements of a tensor in HBM."""
    what = "nl.load"
    source = at_least_2d(hbm_of(src, what, "src"))
    check_tile(source.shape, f"{what}: src '{source.name}'")
    kind = dtypes.chosen(dtype, source.kind)
    mask = joined(mask, src.mask)

    def emit(dst: Tensor) -> None:
        transfer(dst, source, mask)

    return Tensor.wait(Pending(source.shape, kind, emit, name="load", direct=lambda t: t.buffer is Buffer.sbuf))


def check_tile(shape: Shape, what: str) -> None:
    """Raise unless a tile may have so many partitions."""
    most = current("a tile").target.partitions
    if shape[0] > most:
        raise Beta1OperandError(
            f"num_partition_exceed_arch_limit: {what} {shape} has {shape[0]} partitions; a tile has at most {most}",
            fix=f"split its first dimension into tiles of {most}",
        )


def store(dst: Any, value: Any, *, mask: Any = None, **_: Any) -> None:
    """Write a tile or a number to a tensor in HBM."""
    flush()
    what = "nl.store"
    if not isinstance(dst, Tensor):
        hbm_of(dst, what, "dst")
    given = operand_of(value, what, "value")
    if isinstance(given, Tensor):
        mask = joined(mask, given.mask)
    target = at_least_2d(hbm_of(dst, what, "dst"))
    check_mutable(target)
    if not isinstance(given, Tensor):
        shape = target.shape
        tile = scratch("value", shape, target.kind)
        number = given if target.kind.is_float or target.kind.kind == "b" else int(given)
        isa.memset(tile.bare(), number)
        tile.place.fresh = None
    else:
        tile = in_sbuf(given)
    mask = joined(mask, dst.mask)
    target = _as_rows(target, tile) if mask is None else target
    transfer(target, stored(tile, target, what), mask)


def _as_rows(target: Tensor, tile: Tensor) -> Tensor:
    """``target`` in HBM, as a view of the shape of ``tile`` where dimensions of size 1 alone differ: a row takes a
    column of one element per partition.
    """
    fitted = target.base.fitted(tile.shape)
    if fitted is None or fitted.dynamic is not None or target.shape[0] == tile.shape[0]:
        return target
    return Tensor(target.storage, fitted)


def move(target: Tensor, value: Tensor, mask: Any) -> None:
    """``target[…] = value`` where one of them is in HBM."""
    source = in_sbuf(value.settle()) if value.buffer is Buffer.psum else value
    if mask is not None:
        transfer(target, stored(source, target, "assignment"), mask)
        return
    access = target.bare()
    target.place.before_write(access)
    record(build.copy_by_dma(access, source.access))


operations.update({"move": move, "store": store})


def stored(tile: Tensor, target: Tensor, what: str) -> Tensor:
    """``tile`` repeated to the shape of ``target``, or with as many elements in the same order."""
    shape = target.shape
    if tile.shape == shape:
        return tile
    fitted = tile.base.fitted(shape) if tile.shape[0] == shape[0] or tile.buffer.is_hbm else None
    if fitted is not None:
        return Tensor(tile.storage, fitted)
    if repeats(tile.shape, shape):
        view = tile.base.repeated(shape)
        check_bounds(tile.storage.name, view, region(None, shape))
        return Tensor(tile.storage, replace(view, bounds=()))
    if tile.size == math.prod(shape):
        if tile.shape[0] == shape[0]:
            return tile.reshape(shape)
        raise Beta1OperandError(
            f"num_partition_mismatch: '{tile.name}' {tile.shape} is stored to {shape}: their first dimensions differ",
            fix="index the destination so that its first dimension is the tile's partitions",
        )
    raise Beta1OperandError(
        f"store_dst_shape_smaller_than_other_shape: {what}: value '{tile.name}' {tile.shape} cannot be repeated to dst "
        f"'{target.name}' {shape}",
        fix="index both sides to one shape",
    )


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Any:
    """A tile in SBUF with the transposed elements of a matrix in HBM."""
    source = at_least_2d(hbm_of(src, "nl.load_transpose2d", "src"))
    if source.ndim != 2:
        raise Beta1OperandError(
            f"nl.load_transpose2d: src '{source.name}' {source.shape} is no matrix", fix="index it to two dimensions"
        )
    kind = dtypes.chosen(dtype, source.kind)
    shape = source.shape[::-1]
    check_tile(shape, f"nl.load_transpose2d: the transposed '{source.name}'")
    turned = reordered(source, (1, 0))
    mask = joined(mask, src.mask)
    turned_mask = None if mask is None else _turned_mask(mask, source.shape)

    def emit(dst: Tensor) -> None:
        transfer(dst, turned, turned_mask, (1, 0))

    return Tensor.wait(Pending(shape, kind, emit, name="load", direct=lambda t: t.buffer is Buffer.sbuf))


def _turned_mask(mask: Any, shape: Shape) -> Any:
    from_mask = region(mask, shape)
    array = np.zeros(shape, np.bool_)
    if from_mask.box is not None:
        inside = tuple(slice(*bound) for bound in from_mask.box)
        array[inside] = True if from_mask.array is None else from_mask.array
    return Mask.of(shape[::-1], array.T)


def transpose(x: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
    """A tile with partitions and free dimension exchanged."""
    tile = tile_of(x, "nl.transpose", "x")
    return turned(tile, dtype, mask, "nl.transpose")


def turned(tile: Tensor, dtype: Any, mask: Any, what: str, buffer: Buffer = Buffer.psum) -> Tensor:
    """A transposition on the Tensor engine; ``mask`` is over the axes of ``tile``."""
    free = math.prod(tile.shape[1:])
    if free > 128 or tile.shape[0] > 128:
        raise Beta1OperandError(
            f"size_of_dimension_exceed_arch_limit: {what}: '{tile.name}' {tile.shape} is larger than 128 x 128",
            fix="transpose blocks of 128 x 128",
        )
    kind = dtypes.chosen(dtype, tile.kind)
    mask = joined(mask, tile.mask)

    def emit(dst: Tensor) -> None:
        over = region(mask, tile.shape)
        if over.box is None:
            return
        source = in_sbuf(tile)
        access = source.bare(Region(tile.shape, over.box))
        source.place.before_read(access)
        access = at_quadrant(access)
        shape = (math.prod(access.shape[1:]), access.shape[0])
        (first, _), *others = over.box
        column = first
        row = others[0][0] if len(others) == 1 else 0
        box = ((row, row + shape[0]), (column, column + shape[1]))
        into = dst.bare(Region(dst.shape, box))
        dst.place.before_write(into, certain=over.is_whole)
        if into.buffer is Buffer.psum and (into.dtype is access.dtype or _leaves_float32(into.dtype, access.dtype)):
            isa.nc_transpose(into, access)
            return
        middle = scratch("turned", shape, access.dtype, Buffer.psum)
        isa.nc_transpose(middle.bare(), access)
        middle.place.fresh = None
        at_start(into, lambda place: isa.tensor_copy(place, middle.bare()))

    return Tensor.wait(Pending((free, tile.shape[0]), kind, emit, name="transposed", buffer=buffer))


def _leaves_float32(into: DType, source: DType) -> bool:
    """True where the Tensor engine multiplies by an identity to transpose, and its sums are wanted as they are."""
    return _widens(into, source) and not current("nl.transpose").target.matmul_transpose_mode


def _widens(into: DType, source: DType) -> bool:
    return source in (dt.bfloat16, dt.float16) and into is dt.float32


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **_: Any) -> Any:
    """``x @ y``, or ``x.T @ y`` with ``transpose_x``, in PSUM."""
    what = "nl.matmul"
    left, right = tile_of(x, what, "x"), tile_of(y, what, "y")
    if not transpose_x:
        mask_x = left.mask
        left = turned(left, None, None, what).settle()
        if mask_x is not None:  # the operand's own: outside it nothing was transposed
            left = left[_turned_mask(mask_x, (x.shape[0], left.shape[0]))]
    return product(left, right, mask, what)


Bounds = tuple[tuple[int, int], tuple[int, int]]
"""Of the rows and of the columns, start and end."""


def _part(t: Tensor) -> Bounds | None:
    """The rows and columns of an operand that its mask leaves, which may mask one free dimension; None: nothing."""
    over = region(t.mask, t.shape)
    free = (0, math.prod(t.shape[1:]))
    if over.box is None:
        return None
    if over.is_whole:
        return over.box[0], free
    if over.array is not None or (len(t.shape) > 2 and over.box[1:] != tuple((0, n) for n in t.shape[1:])):
        raise Beta1OperandError(
            f"unsupported_expression_in_mask: the mask of operand '{t.name}' is no box", fix="slice the operand"
        )
    return over.box[0], over.box[1] if len(t.shape) == 2 else free


def _rows(t: Tensor, bounds: Bounds | None) -> Tensor:
    """``t`` within the bounds of its mask, outside which it may leave the tensor."""
    if t.mask is None or bounds is None:
        return t if t.mask is None else Tensor(t.storage, t.base)
    check_bounds(t.storage.name, t.base, region(t.mask, t.shape))
    inside = Tensor(t.storage, replace(t.base, bounds=()))
    (a, b), (c, d) = bounds
    return inside[a:b] if len(t.shape) > 2 else inside[a:b, c:d]


def _common(over: Region, inside: Region) -> Bounds | None:
    """The elements in both regions, which are boxes; None: there are none."""
    if over.box is None or inside.box is None:
        return None
    rows, columns = ((max(a, c), min(b, d)) for (a, b), (c, d) in zip(over.box, inside.box, strict=True))
    return (rows, columns) if rows[0] < rows[1] and columns[0] < columns[1] else None


def product(stationary: Tensor, moving: Tensor, mask: Any, what: str, **options: Any) -> Tensor:
    """``stationary.T @ moving`` in PSUM: a waiting result that an ``+=`` accumulates.

    A mask of an operand leaves out rows of the contraction, and rows or columns of the result.
    """
    double = "perf_mode" in options
    left_part, right_part = _part(stationary), _part(moving)
    if left_part is None or right_part is None:
        mask = False
    shape = tuple(t.shape[-1] if double else math.prod(t.shape[1:]) for t in (stationary, moving))
    columns, rows = (part or ((0, 0), (0, n)) for part, n in ((left_part, shape[0]), (right_part, shape[1])))
    inside = Region(shape, (columns[1], rows[1]))
    stationary, moving = in_sbuf(_rows(stationary, left_part)), in_sbuf(_rows(moving, right_part))
    _check_product(stationary, moving, inside, what)
    kind = stationary.kind if options.get("is_transpose") else dt.float32
    wide = {stationary.kind is dt.float32, moving.kind is dt.float32}
    if len(wide) == 2:
        stationary, moving = converted(stationary, dt.float32), converted(moving, dt.float32)

    def run(dst: Tensor, adds: bool | None = None) -> bool:
        chosen = region(joined(mask, dst.mask), shape)
        if chosen.array is not None and not dst.is_new:
            raise Beta1OperandError(
                f"unsupported_expression_in_mask: {what}: the mask of a product is no box",
                fix="compute the product without a mask, and mask what uses it",
            )
        over = _common(chosen, inside)
        if over is None:
            return True
        left, right = (t if double else _flattened(t) for t in (stationary, moving))
        (a, b), (c, d) = over
        is_whole = over == tuple((0, n) for n in shape)
        into = dst.bare() if is_whole else dst.bare(Region(dst.shape, over))
        if not is_whole:
            (first, _), (second, _) = columns[1], rows[1]
            left, right = left[:, a - first : b - first], right[:, c - second : d - second]
        if adds is None:
            starts = dst.place.starts_sum(into)
            if starts is None:
                return False
            adds = not starts
        else:
            dst.place.before_write(into)
        accumulates = None if options.get("is_transpose") else adds
        operands = at_quadrant(left.access), at_quadrant(right.access)
        isa.nc_matmul(into, *operands, accumulate=accumulates, **options)
        return True

    def whole(dst: Tensor) -> None:
        run(dst, False)

    def direct(t: Tensor) -> bool:  # a product with an identity leaves float32, as every product does
        return t.buffer is Buffer.psum and (t.kind is kind or _widens(t.kind, kind))

    return Tensor.wait(Pending(shape, kind, whole, name="product", buffer=Buffer.psum, direct=direct, product=run))


def _check_product(stationary: Tensor, moving: Tensor, inside: Region, what: str) -> None:
    """Raise unless the operands of a product with a result that covers ``inside`` have the sizes of the Tensor
    engine.
    """
    assert inside.box is not None
    columns, rows = (b - a for a, b in inside.box)
    if stationary.shape[0] != moving.shape[0]:
        raise Beta1OperandError(
            f"num_partition_mismatch: {what}: '{stationary.name}' {stationary.shape} and '{moving.name}' "
            f"{moving.shape} are contracted over different numbers of partitions",
            fix="load as many rows of both",
        )
    if stationary.shape[0] > 128 or columns > 128 or rows > 512:
        raise Beta1OperandError(
            f"size_of_dimension_exceed_arch_limit: {what}: ({stationary.shape[0]}, {columns}) and "
            f"({moving.shape[0]}, {rows}); the limits are (128, 128) and (128, 512)",
            fix="split the product into tiles",
        )


def _flattened(t: Tensor) -> Tensor:
    """``t`` with one free dimension where a view has it; instructions count free dimensions as one anyway."""
    free = math.prod(t.shape[1:])
    if t.ndim == 2 or strides_of(t.shape, t.base.strides, (t.shape[0], free)) is None:
        return t
    return t.reshape((t.shape[0], free))


def add_to(target: Tensor, source: Tensor, mask: Any, mode: enums.oob_mode = enums.oob_mode.error) -> None:
    """Add ``source``, a tile of the same shape, to ``target`` in HBM."""
    over = region(mask, target.shape)
    for box in boxes_of(over):
        a, b = part(target.unchecked, box), part(source.access, box)
        isa.dma_compute(a, [b, a], OPS["add"], oob_mode=mode)
