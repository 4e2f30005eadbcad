"""Lowering: operands as accesses over the part of an operation that its mask leaves, and instructions on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from nki import isa
from nki.base import element_types as dt
from nki.base.beta1_errors import Beta1OperandError
from nki.base.element_types import DType
from nki.base.source import here
from nki.beta1.beta1_tensor import Tensor, flush, state_of
from nki.beta1.block_storage import Storage
from nki.beta1.index import Mask
from nki.beta1.mask_regions import Region, boxes_of, region
from nki.beta1.view import strides_of
from nki.frontend.builder import current
from nki.ir.constant import constant as constant_of
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer
from nki.isa.build import copy_by_dma
from nki.isa.tables.operators import OPS
from nki.target.memory_spaces import start_partitions

_PRODUCTS: Final = (dt.float32, dt.bfloat16, dt.float16)
"""Dtypes with numbers that a product with one repeats exactly."""
Shape = tuple[int, ...]
Number = int | float
Operand = Tensor | Number


def record(inst: Inst) -> None:
    """Record ``inst``."""
    current("a function of NKI").emit(inst)


def scratch(name: str, shape: Shape, kind: DType = dt.float32, buffer: Buffer = Buffer.sbuf) -> Tensor:
    """A tile for something in between."""
    tile = Tensor.whole(Storage(name, (), shape, kind, buffer, current("a tile").at or here()))
    tile.is_new = True
    return tile


def tile_of(x: Any, what: str, name: str) -> Tensor:
    """``x``, which has to be a tile in SBUF or PSUM; a mask is a tile of ones and zeros."""
    if isinstance(x, Mask):
        x = constant_tile(x.array(x.shape).astype(np.uint8))
    if not isinstance(x, Tensor):
        raise Beta1OperandError(
            f"{what}: {name} is {x!r:.40} ({type(x).__name__}), not a tile", fix="pass a tile, such as one of nl.load"
        )
    if not x.buffer.on_chip:
        raise Beta1OperandError(
            f"unsupported_memory: {what}: {name} '{x.name}' is in {x.buffer.value}; functions compute on tiles in "
            "sbuf and psum",
            fix=f"load it first: nl.load({x.name})",
        )
    if x.mask is not None and not any(word in what for word in ("matmul", "transpose", "store")):
        raise Beta1OperandError(
            f"unsupported_expression_in_mask: {what}: {name} '{x.name}' is indexed with a mask, which only operands of "
            "matrix products, transpositions and copies to and from HBM may be",
            fix="pass mask= to the function",
        )
    flush()  # a result that waits may write to this tile, or read what the caller writes
    return x.settle()


def operand_of(x: Any, what: str, name: str) -> Operand:
    """``x`` as a tile or a number."""
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0):
        x = cast("Any", x).item()
    if isinstance(x, bool | int | float):
        return x
    return tile_of(x, what, name)


def padded(shape: Shape, ndim: int) -> Shape:
    """``shape`` with ``ndim`` dimensions: ones behind the partitions."""
    return (*shape[:1], *(1,) * (ndim - len(shape)), *shape[1:])


def repeats(shape: Shape, wanted: Shape) -> bool:
    """True if dimensions of size 1 repeat ``shape`` to ``wanted``."""
    own = padded(shape, len(wanted))
    return len(own) == len(wanted) and all(have in (1, want) for have, want in zip(own, wanted, strict=True))


def joint_shape(what: str, *tiles: Tensor) -> Shape:
    """The shape to which all tiles can be repeated. Raises :class:`Beta1OperandError` where there is none."""
    shapes = {t.shape for t in tiles}
    if len(shapes) == 1:
        return shapes.pop()
    ndim = max(t.ndim for t in tiles)
    try:
        return tuple(np.broadcast_shapes(*(padded(t.shape, ndim) for t in tiles)))
    except ValueError:
        listed = " and ".join(f"'{t.name}' {t.shape}" for t in tiles)
        raise Beta1OperandError(
            f"{what}: {listed} cannot be repeated to one shape", fix="dimensions have the same size, or size 1"
        ) from None


def alike(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Two operands of an instruction, which counts the elements of a partition: as many in another shape take the one
    of ``left``.
    """
    if left.shape == right.shape or left.shape[0] != right.shape[0] or left.size != right.size:
        return left, right
    return left, _reshaped(right, left.shape)


def _reshaped(t: Tensor, shape: Shape) -> Tensor:
    """The elements of ``t`` in another shape: a view, or a copy where they are too far apart for one."""
    if strides_of(t.shape, t.base.strides, shape) is None:
        t = copied(t, f"{t.name}_dense")
    return t.reshape(shape)


def spread_rows(t: Tensor, rows: int) -> Tensor:
    """The one row of ``t`` on ``rows`` partitions: a product with a column of ones, as Beta 1's compiler makes it ("NKI
    invokes such matmul under the hood when ``broadcast_input.broadcast_to(…)`` is called", architecture guide).

    Numbers that the Tensor engine does not take go by way of HBM.
    """
    flush()  # a result that waits comes first, as in the kernel
    row = in_sbuf(t)
    result = scratch(f"{t.name}_rows", (rows, *row.shape[1:]), row.kind)
    if row.kind in _PRODUCTS:
        _spread_by_product(row, result)
        return result
    outside = scratch(f"{t.name}_row", row.shape, row.kind, Buffer.hbm).access
    record(copy_by_dma(outside, row.access))
    repeated = Access(outside.tensor, 0, result.shape, (0, *outside.strides[1:]), outside.dtype)
    record(copy_by_dma(result.bare(), repeated))
    return result


def _spread_by_product(row: Tensor, result: Tensor) -> None:
    """Fill ``result`` with the one row of ``row``, 512 elements at a time.

    Scalar evicts the products: in the published profile of the mamba tutorial (trn1) Vector runs none of the copies.
    """
    builder = current("a tile")
    rows, free, limit = result.shape[0], math.prod(row.shape[1:]), builder.target.gemm_moving_fmax
    known = state_of(builder).ones
    ones = known.get(row.kind)
    if ones is None:
        ones = known[row.kind] = scratch("ones", (1, builder.target.partitions), row.kind)
        isa.memset(ones.bare(), 1.0)
    source, into = _reshaped(row, (1, free)), result.reshape((rows, free))
    for first in range(0, free, limit):
        part = slice(first, min(first + limit, free))
        total = scratch("repeated", (rows, part.stop - first), buffer=Buffer.psum).bare()
        moving = at_quadrant(source[:, part].access)
        isa.nc_matmul(total, ones[:, :rows].access, moving, is_stationary_onezero=True, accumulate=False)
        isa.activation(into[:, part].bare(), OPS["copy"], total)


def copied(source: Tensor | Access, name: str, kind: DType | None = None) -> Tensor:
    """A copy of ``source`` in a new tile in SBUF, of dtype ``kind`` if one is given."""
    own = source.kind if isinstance(source, Tensor) else source.dtype
    tile = scratch(name, source.shape, kind or own)
    isa.tensor_copy(tile.bare(), source.access if isinstance(source, Tensor) else source)
    return tile


def in_sbuf(t: Tensor) -> Tensor:
    """``t``, or a copy of it in SBUF if it is in PSUM."""
    return t if t.buffer is Buffer.sbuf else copied(t, f"{t.name}_copy")


def converted(t: Tensor, kind: DType) -> Tensor:
    """``t``, or a copy of it in SBUF with dtype ``kind``."""
    return t if t.kind is kind else copied(t, f"{t.name}_{kind}", kind)


def by_way_of(dst: Access, name: str, kind: DType, compute: Callable[[Access], object], *, dma: bool = False) -> None:
    """``compute(tile)`` with a new tile in SBUF of the shape of ``dst``, which is then copied or moved to ``dst``."""
    tile = scratch(name, dst.shape, kind).bare()
    compute(tile)
    if dma:
        record(copy_by_dma(dst, tile))
    else:
        isa.tensor_copy(dst, tile)


def as_bits(access: Access) -> Access:
    """``access``, the zeros and ones of bool as uint8."""
    if access.dtype is not dt.bool_:
        return access
    return Access(access.tensor, access.offset, access.shape, access.strides, dt.uint8, access.dynamic)


def into_bits(dst: Access, kind: DType, compute: Callable[[Access], object]) -> None:
    """``compute(place)`` of ``kind``, where ``place`` is ``dst`` or a tile that is converted to its dtype."""
    bits = dt.uint8 if kind is dt.bool_ else kind
    place = dst if dst.dtype is dt.bool_ and kind is not dt.bool_ else as_bits(dst)
    if place.dtype is dt.bool_ or place.dtype.is_float or place.dtype.itemsize != bits.itemsize:
        by_way_of(dst, "bits", bits, compute)
    else:
        compute(place)


def over_box(t: Tensor, shape: Shape, over: Region) -> Access:
    """The access of ``t``, repeated to ``shape``, over a region of that shape; without a note of its use."""
    if t.shape == shape:
        return t.bare(over)
    return Tensor(t.storage, t.base.repeated(shape)).bare(Region(shape, over.box))


def read(t: Tensor, shape: Shape, over: Region) -> Access:
    """:func:`over_box`, to be read."""
    access = over_box(t, shape, over)
    t.place.before_read(access)
    return at_quadrant(access)


def at_quadrant(access: Access) -> Access:
    """``access``, or a copy that starts at a partition at which engines may start."""
    if starts_well(access) or access.buffer is not Buffer.sbuf:
        return access
    moved = scratch(f"{access.name}_moved", access.shape, access.dtype).bare()
    record(copy_by_dma(moved, access))
    return moved


def starts_well(access: Access) -> bool:
    """True if engines may start at the first partition of ``access``."""
    if not access.buffer.on_chip:
        return True
    first, count = access.start_partition, access.partitions
    return first == 0 or first in start_partitions(current("a tile").target, count)


def at_start(into: Access, compute: Callable[[Access], object]) -> None:
    """``compute(into)``; a tile that is moved there, if engines may not start at the first partition of ``into``."""
    if starts_well(into) or into.buffer is not Buffer.sbuf:
        compute(into)
    else:
        by_way_of(into, f"{into.name}_moved", into.dtype, compute, dma=True)


def check_mutable(target: Tensor) -> None:
    """Raise if ``target`` is an argument that the kernel must not write."""
    if not target.storage.mutable:
        raise Beta1OperandError(
            f"cannot_update_immutable_parameter: '{target.name}' is an argument that the kernel does not declare as "
            "mutable",
            fix="annotate it with nt.mutable_tensor and return it, or write to a tensor of nl.ndarray",
        )


def write(t: Tensor, over: Region) -> Access:
    """The access of the destination ``t`` over a region, to be written."""
    check_mutable(t)
    access = t.bare(over)
    t.place.before_write(access)
    return access


def written(t: Tensor, *, certain: bool = True) -> Access:
    """The access of all of ``t``, a result or an argument that an instruction writes; ``certain``: all elements."""
    access = t.bare()
    t.place.before_write(access, certain=certain)
    return access


def in_dtype(dst: Access, kind: DType, name: str, compute: Callable[[Access], object]) -> None:
    """``compute(place)`` with a place of dtype ``kind``: ``dst``, or a tile that is converted to its dtype."""
    if dst.dtype is kind:
        compute(dst)
    else:
        by_way_of(dst, name, kind, compute)


def reordered(t: Tensor, axes: Shape) -> Tensor:
    """``t`` with its dimensions in the order ``axes``."""
    return Tensor(t.storage, t.base.arranged(axes))


def within(t: Tensor, over: Region) -> Tensor:
    """``t``, or a copy of what a mask lets through where the index leads out of the tensor elsewhere."""
    if over.array is None or not any(bound.outside(region(None, t.shape)) for bound in t.base.bounds):
        return t
    inside = scratch(f"{t.name}_inside", t.shape, t.kind)
    isa.memset(inside.bare(), 0)
    for box in boxes_of(over):
        part = Region(t.shape, box)
        source = read(t, t.shape, part)
        at_start(inside.bare(part), partial(isa.tensor_copy, src=source))
    return inside


def _own(t: Tensor, shape: Shape, over: Region) -> Region:
    """The region of ``t`` that a region of ``shape``, to which it is repeated, reads."""
    own = padded(t.shape, len(shape))
    ones = tuple(axis for axis, (n, whole) in enumerate(zip(own, shape, strict=True)) if n == 1 < whole)
    added = range(1, 1 + len(shape) - t.ndim)
    kept = [axis for axis in range(len(shape)) if axis not in added]
    assert over.box is not None and over.array is not None
    array: NDArray[np.bool_] = np.asarray(over.array.any(axis=ones, keepdims=True))
    box = tuple((0, 1) if axis in ones else over.box[axis] for axis in kept)
    return Region(t.shape, box, array.reshape([array.shape[axis] for axis in kept]))


Compute = Callable[[Access, list[Access]], object]


def elementwise(
    dst: Tensor, sources: Sequence[Tensor], mask: Any, compute: Compute, columns: Sequence[Tensor] = ()
) -> None:
    """Record ``compute(dst, sources)`` where ``mask`` holds: sources repeated to the shape of ``dst``.

    ``columns``: (partitions, 1) operands, which come behind the sources and keep their one column.
    """
    shape = dst.shape
    over = region(mask, shape)
    if over.is_empty:
        return
    assert over.box is not None
    if over.array is not None:
        sources = [within(t, _own(t, shape, over)) if t.base.bounds else t for t in sources]
    sources = [spread_rows(t, shape[0]) if t.shape[0] == 1 < shape[0] else t for t in sources]
    columns = [spread_rows(t, shape[0]) if t.shape[0] == 1 < shape[0] else t for t in columns]
    as_it_is = over.array is None and (not dst.is_new or _may_start(over.box))
    whole = over if as_it_is else Region(shape, ((0, over.box[0][1]), *over.box[1:]))  # from the first partition
    if dst.is_new or over.array is None:
        reads, into = _reads(sources, columns, shape, whole), write(dst, whole)
        at_start(into, lambda place: forwards(compute, place, reads, len(columns)))
        return
    temporary = scratch(f"{dst.name}_masked", tuple(b - a for a, b in whole.box or ()), dst.kind)
    forwards(compute, temporary.bare(), _reads(sources, columns, shape, whole), len(columns))
    assert over.array is not None, "boxes have gone the other way"
    if any(bound.outside(whole) for bound in dst.base.bounds):  # where the mask is False
        for box in boxes_of(over):
            inner = tuple((a - start, b - start) for (a, b), (start, _) in zip(box, whole.box or (), strict=True))
            source = read(temporary, temporary.shape, Region(temporary.shape, inner))
            at_start(write(dst, Region(shape, box)), partial(isa.tensor_copy, src=source))
        return
    predicated(dst, temporary, whole, _lower(over.array, over.box[0][0]))


def forwards(compute: Compute, dst: Access, reads: list[Access], columns: int = 0) -> None:
    """``compute(dst, reads)``, in parts where an access goes backwards: engines step forwards only."""
    whole = reads[: len(reads) - columns]
    axes = [a for a in range(1, len(dst.shape)) if dst.shape[a] > 1 and any(r.strides[a] < 0 for r in (dst, *whole))]
    if not axes:
        compute(dst, reads)
        return
    for place in np.ndindex(*(dst.shape[a] for a in axes)):
        at = dict(zip(axes, (int(n) for n in place), strict=True))
        compute(_at(dst, at), [*(_at(r, at) for r in whole), *reads[len(whole) :]])


def _at(access: Access, at: dict[int, int]) -> Access:
    """``access`` with one position on each of the axes ``at``, which stay with size 1."""
    offset = access.offset + sum(access.strides[a] * n for a, n in at.items())
    shape = tuple(1 if a in at else n for a, n in enumerate(access.shape))
    strides = tuple(0 if a in at else s for a, s in enumerate(access.strides))
    return Access(access.tensor, offset, shape, strides, access.dtype, access.dynamic)


def _lower(chosen: NDArray[np.bool_], start: int) -> NDArray[np.bool_]:
    """``chosen`` with ``start`` rows of False in front."""
    return np.concatenate([np.zeros((start, *chosen.shape[1:]), np.bool_), chosen])


def predicated(dst: Tensor, src: Tensor, whole: Region, chosen: NDArray[np.bool_]) -> None:
    """Copy ``src`` to the box ``whole`` of ``dst`` where ``chosen``, an array of its shape, is True."""
    predicate = constant_tile(chosen.astype(np.uint8))
    access = dst.bare(whole)
    dst.place.before_read(access)
    dst.place.before_write(access, certain=False)
    isa.tensor_copy_predicated(access, src.access, predicate.access)


def _may_start(box: Sequence[tuple[int, int]]) -> bool:
    (first, last), target = box[0], current("a mask").target
    return first in start_partitions(target, last - first)


def _reads(sources: Sequence[Tensor], columns: Sequence[Tensor], shape: Shape, over: Region) -> list[Access]:
    accesses = [read(t, shape, over) for t in sources]
    assert over.box is not None
    for t in columns:
        own = Region(t.shape, (over.box[0], *((0, n) for n in t.shape[1:])))
        access = t.bare(own)
        t.place.before_read(access)
        accesses.append(access)
    return accesses


def constant_tile(array: NDArray[Any]) -> Tensor:
    """A tile in SBUF with the contents of ``array``, loaded once for each contents."""
    builder = current("a mask")
    data = constant_of(np.ascontiguousarray(array).tobytes())
    known = state_of(builder).constants
    key = (array.shape, array.dtype.str, array.tobytes())
    tile = known.get(key)
    if tile is None:
        source = builder.constant("mask", array.shape, dt.of(array.dtype), data, here())
        tile = known[key] = scratch("mask", array.shape, dt.of(array.dtype))
        record(copy_by_dma(tile.bare(), Access.whole(source)))
    return tile
