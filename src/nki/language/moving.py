"""Functions that move elements: ``nl.where``, ``nl.broadcast_to``, ``nl.transpose``, and ``nl.matmul`` with them."""

from __future__ import annotations

from typing import Any

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, MemoryRegionError, ShapeError
from nki.base.source import here
from nki.ir.types import Buffer
from nki.isa.tables.operators import OPS
from nki.language.creation import ndarray, sizes_of
from nki.language.nki_tensor import NkiTensor
from nki.language.operands import (
    Operand,
    aligned,
    in_sbuf,
    lifted,
    operand_of,
    promoted,
    result,
    scratch,
    spread,
    tile_of,
)


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where ``condition`` is not 0 (NaN counts as true), else ``y``, as a new SBUF tile.

    ``condition``: a tile; ``x``, ``y``: tiles or numbers. Dimensions of size 1 are repeated, with a
    :class:`NkiPortabilityWarning`. ``dtype``: of the result, by default what the tiles' types make together, or
    float32. Raises :class:`ShapeError` for shapes that do not fit. Emits ``nisa.tensor_scalar`` (the condition as
    uint8), ``nisa.tensor_copy`` or ``nisa.memset``, and ``nisa.tensor_copy_predicated``.
    """
    mask = tile_of(condition, "nl.where", "condition")
    yes, no = operand_of(x, "nl.where", "x"), operand_of(y, "nl.where", "y")
    tiles = {name: t for name, t in (("x", yes), ("y", no)) if isinstance(t, NkiTensor)}
    mask, *repeated = aligned("nl.where", condition=mask, **tiles)
    both = dict(zip(tiles, repeated, strict=True))
    yes, no = both.get("x", yes), both.get("y", no)
    dst = result("where", mask.shape, _type(yes, no) if dtype is None else dtype)
    _fill(dst, no)
    predicate = scratch("predicate", mask.shape, dt.uint8)
    isa.tensor_scalar(predicate, mask, OPS["not_equal"], 0.0)
    if isinstance(yes, NkiTensor) and yes.dtype is not dst.dtype:
        converted = scratch("chosen", dst.shape, dst.dtype)
        isa.tensor_copy(converted, yes)
        yes = converted
    isa.tensor_copy_predicated(dst, yes, predicate)
    return dst


def _type(x: Operand, y: Operand) -> DType:
    kinds = [side.dtype for side in (x, y) if isinstance(side, NkiTensor)]
    return promoted(*kinds) if len(kinds) == 2 else kinds[0] if kinds else dt.float32


def _fill(dst: NkiTensor, value: Operand) -> None:
    if isinstance(value, NkiTensor):
        isa.tensor_copy(dst, value)
    else:
        isa.memset(dst, value)


def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """``data[p, indices[p, i]]`` in place of each index, the free dimensions of ``data`` counted as one.

    ``data``: a tile; ``indices``: an integer tile with as many partitions. ``axis``: 0, the only one that is
    documented. ``dtype``: of the result, by default the dtype of ``data``; the result has the shape of ``indices``.
    Emits ``nisa.nc_n_gather``, which takes uint32, and ``nisa.tensor_copy`` for other dtypes or a tile in PSUM.
    """
    tile = in_sbuf(tile_of(data, "nl.gather_flattened", "data"))
    offsets = in_sbuf(tile_of(indices, "nl.gather_flattened", "indices"))
    if offsets.dtype is dt.int32:
        offsets = offsets.view(dt.uint32)
    elif offsets.dtype.is_integer and offsets.dtype is not dt.uint32:
        narrow, offsets = offsets, scratch("indices", offsets.shape, dt.uint32)
        isa.tensor_copy(offsets, narrow)
    if axis != 0:
        raise ArgumentError(f"nl.gather_flattened: axis={axis!r}; only 0 is defined", fix="leave it out")
    kind = tile.dtype if dtype is None else dt.of(dtype)
    dst = result("gather_flattened", offsets.shape, kind)
    gathered = dst if kind is tile.dtype else scratch("found", offsets.shape, tile.dtype)
    isa.nc_n_gather(gathered, tile, offsets)
    if gathered is not dst:
        isa.tensor_copy(dst, gathered)
    return dst


def broadcast_to(x: Any, shape: Any, dtype: Any = None) -> NkiTensor:
    """``x`` with its dimensions of size 1 repeated to ``shape``, which has as many dimensions.

    ``x``: a tile in SBUF or PSUM. It comes back as it is if it has that shape, and ``dtype`` (by default its own); what
    else comes back is a new SBUF tile. Emits ``nisa.tensor_copy``; to repeat a row over partitions first two
    ``nisa.dma_copy`` by way of HBM. Raises :class:`ShapeError` for a shape that ``x`` cannot be repeated to.
    """
    tile, wanted = tile_of(x, "nl.broadcast_to"), sizes_of(shape, "nl.broadcast_to")
    if len(wanted) != tile.ndim or any(have not in (1, want) for have, want in zip(tile.shape, wanted, strict=False)):
        raise ShapeError(
            f"nl.broadcast_to: '{tile.name}' {tile.shape} cannot be repeated to {wanted}",
            fix="keep the number of dimensions; each keeps its size, unless that is 1",
        )
    kind = tile.dtype if dtype is None else dt.of(dtype)
    if wanted == tile.shape and kind is tile.dtype:
        return tile
    dst = result("broadcast_to", wanted, kind)
    isa.tensor_copy(dst, spread(tile, wanted))
    return dst


def expand_dims(x: Any, axis: Any) -> NkiTensor:
    """A view of the tile ``x`` with a new dimension of size 1 at position ``axis``: from 1, or negative from the end.

    The same as ``x.expand_dim(axis)``. No instruction.
    """
    return tile_of(x, "nl.expand_dims").expand_dim(axis)


def transpose(x: Any, dtype: Any = None) -> NkiTensor:
    """The tile ``x`` with partitions and free dimension exchanged, as a new tile in PSUM.

    ``x``: (rows, columns), each at most 128, in SBUF (from PSUM it is copied first). ``dtype``: of the result, by
    default the dtype of ``x``. Bits are moved unchanged (``nisa.nc_transpose`` on the Tensor engine); another dtype
    costs a ``nisa.tensor_copy``. Raises :class:`ShapeError` for other shapes.
    """
    tile = tile_of(x, "nl.transpose")
    if tile.ndim != 2 or tile.shape[1] > 128:
        raise ShapeError(
            f"nl.transpose: '{tile.name}' {tile.shape} is not a tile of two dimensions of at most 128",
            fix="reshape it to two dimensions, and transpose blocks of 128 columns",
        )
    label = assigned_name(here(), "transpose")
    kind = tile.dtype if dtype is None else dt.of(dtype)
    dst = ndarray(tile.shape[::-1], kind, Buffer.psum, label)
    turned = dst if kind is tile.dtype else ndarray(dst.shape, tile.dtype, Buffer.psum, f"{label}_as_it_was")
    isa.nc_transpose(turned, in_sbuf(tile))
    if turned is not dst:
        isa.tensor_copy(dst, turned)
    return dst


def matmul(x: Any, y: Any, transpose_x: bool = False) -> NkiTensor:
    """``x @ y``, or ``x.T @ y`` with ``transpose_x``, as a new float32 tile in PSUM.

    ``y``: (K, N) in SBUF. ``x``: in SBUF, (K, M) with ``transpose_x``; else (M, K), which is transposed first
    (``nisa.nc_transpose``, ``nisa.tensor_copy``), with a :class:`NkiPortabilityWarning`. K and M are at most 128, N at
    most what a PSUM bank holds (512). Raises :class:`ShapeError` for shapes that do not fit and
    :class:`MemoryRegionError` for a tile outside SBUF. Emits ``nisa.nc_matmul``.
    """
    left, right = tile_of(x, "nl.matmul"), tile_of(y, "nl.matmul", "y")
    for name, t in (("x", left), ("y", right)):
        if t.buffer is not Buffer.sbuf:
            raise MemoryRegionError(
                f"nl.matmul: {name} '{t.name}' is in {t.buffer.value}; the Tensor engine reads sbuf",
                fix=f"copy it first: nl.copy({t.name})",
            )
    if not isinstance(transpose_x, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
        raise ArgumentError(f"nl.matmul: transpose_x={transpose_x!r} is neither True nor False", fix="pass one of them")
    shared = left.shape[0] if transpose_x else left.shape[-1]
    if left.ndim != 2 or right.ndim != 2 or shared != right.shape[0]:
        raise ShapeError(
            f"nl.matmul: x '{left.name}' {left.shape}{' transposed' if transpose_x else ''} times y '{right.name}' "
            f"{right.shape} is no product of matrices",
            fix="(M, K) goes with (K, N); with transpose_x=True, (K, M) with (K, N)",
        )
    label = assigned_name(here(), "matmul")
    if not transpose_x:
        lifted("nl.matmul without transpose_x=True: NKI's own fails there (known issues of NKI 0.3); keep x transposed")
        turned = ndarray(left.shape[::-1], left.dtype, Buffer.psum, f"{label}_transposed")
        isa.nc_transpose(turned, left)
        left = in_sbuf(turned)
    dst = ndarray((left.shape[1], right.shape[1]), dt.float32, Buffer.psum, label)
    isa.nc_matmul(dst, left, right)
    return dst


__all__ = ["broadcast_to", "expand_dims", "gather_flattened", "matmul", "transpose", "where"]
