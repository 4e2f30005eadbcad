"""``nl.tiles`` and ``nl.blocks``, and ``nl.alloc_tiles`` and ``nl.alloc_blocks``, which allocate."""

from __future__ import annotations

import math
from itertools import repeat
from typing import Any, cast

from nki.base.assigned_name import assigned_name
from nki.base.errors import DynamicIndexError, TileShapeError, TileTypeError, ViewError
from nki.base.source import here
from nki.ir.types import Access, Buffer, is_element_indexed, is_row_indexed
from nki.language.creation import ndarray
from nki.language.grids.axis import Axis
from nki.language.grids.grid import NkiBlockGrid, NkiGrid, NkiTileGrid
from nki.language.nki_tensor import NkiTensor

Shape = tuple[int, ...]


def tiles(source: NkiTensor | NkiTileGrid | NkiBlockGrid, *, tile_shape: Shape | None = None) -> NkiTileGrid:
    """``source`` as a grid of tiles of ``tile_shape``; the last ones end where the source ends.

    ``tile_shape``: at least two sizes, for the last dimensions of ``source``. Dimensions in front of them, in HBM
    only, are indexed one slab at a time. ``source`` may be a grid: a block opens into its tiles, and another
    ``tile_shape`` tiles the selection anew, if it is one tensor. A view; no instruction. Raises :class:`TileTypeError`
    (a TypeError) unless the shape is a tuple of integers, and :class:`TileShapeError` (a ValueError) for wrong ones.
    """
    what = "nl.tiles"
    if isinstance(source, NkiGrid):
        if tile_shape is None or _sizes(what, "tile_shape", tile_shape) == source.tile_shape:
            return NkiTileGrid(*_regrouped(what, source, repeat(1)))
        anew = _tiled(what, source.data, tile_shape)
        for old, axis in zip(source.axes, anew.axes, strict=True):
            axis.live = axis.tiled or old.tiled or old.live  # a slab that was chosen stays chosen
        return anew
    return _tiled(what, source, tile_shape)


def blocks(
    source: NkiTensor | NkiTileGrid | NkiBlockGrid, *, tile_shape: Shape | None = None, block_shape: Shape
) -> NkiBlockGrid:
    """``source`` as a grid of blocks of ``block_shape`` tiles; the last ones end where the source ends.

    ``block_shape``: tiles along each dimension of ``tile_shape``. The other arguments and errors are as in
    :func:`tiles`.
    """
    what = "nl.blocks"
    sizes = _sizes(what, "block_shape", block_shape)
    if isinstance(source, NkiGrid):
        grid = tiles(source, tile_shape=tile_shape)
    else:
        grid = _tiled(what, source, tile_shape)
    if len(sizes) != len(grid.tile_shape):
        raise TileShapeError(
            f"{what}: block_shape {sizes} counts tiles of {grid.tile_shape}, which have {len(grid.tile_shape)} "
            "dimensions",
            fix="give the number of tiles along each of them",
        )
    grains = (*repeat(1, len(grid.axes) - len(sizes)), *sizes)
    return NkiBlockGrid(*_regrouped(what, grid, grains))


def alloc_tiles(
    *, tile_shape: Shape, element_shape: Shape, buffer: Buffer, dtype: Any,
    address: tuple[int, int] | None = None, name: str = "",
) -> NkiTileGrid:  # fmt: skip
    """A grid of tiles over a new tensor with undefined contents.

    ``element_shape``: the elements of all tiles; in HBM the tensor has this shape. In SBUF and PSUM it has
    ``tile_shape[0]`` partitions, and the tiles lie in the free dimension, row by row of the grid; tiles at the border
    take the room of a whole one. ``dtype``, ``address``, ``name``: as in ``nl.ndarray``. Raises as :func:`tiles`,
    and :class:`TileTypeError` for a ``buffer`` that is no memory.
    """
    return _allocated("nl.alloc_tiles", tile_shape, element_shape, buffer, dtype, address, name)


def alloc_blocks(
    *, tile_shape: Shape, block_shape: Shape, element_shape: Shape, buffer: Buffer, dtype: Any,
    address: tuple[int, int] | None = None, name: str = "",
) -> NkiBlockGrid:  # fmt: skip
    """A grid of blocks over a new tensor with undefined contents.

    The tensor is as from :func:`alloc_tiles`: blocks do not change the order of tiles. ``block_shape``: as in
    :func:`blocks`; the other arguments are as in :func:`alloc_tiles`.
    """
    _sizes("nl.alloc_blocks", "block_shape", block_shape)
    grid = _allocated("nl.alloc_blocks", tile_shape, element_shape, buffer, dtype, address, name)
    return blocks(grid, block_shape=block_shape)


def _tiled(what: str, source: Any, tile_shape: Any) -> NkiTileGrid:
    """The tensor ``source`` in tiles, each where the source has it."""
    if not isinstance(source, NkiTensor):
        raise TileTypeError(
            f"{what}: source is {source!r:.40} ({type(source).__name__}), neither a tensor nor a grid",
            fix="pass an argument of the kernel, a tensor of nl.ndarray, or a grid of nl.tiles or nl.blocks",
        )
    if tile_shape is None:
        raise TileTypeError(
            f"{what}: tensor '{source.name}' {source.shape} without tile_shape; only grids have one already",
            fix="pass tile_shape=(128, 512), or smaller sizes",
        )
    sizes, access = _sizes(what, "tile_shape", tile_shape), source.access
    if is_row_indexed(access) or is_element_indexed(access):
        raise DynamicIndexError(
            f"{what}: the rows or elements of '{source.name}' {source.shape} are chosen at run time, so no part of it "
            "is a tile",
            fix="tile the tensor and its indices, and index last",
        )
    if 0 in access.shape:
        raise TileShapeError(
            f"{what}: '{source.name}' {source.shape} has no elements", fix="skip the work for an empty piece with an if"
        )
    tile = _fitted(what, sizes, access.shape, source.buffer, f"'{source.name}'")
    steps = zip(access.shape, tile, access.strides, strict=True)
    front = len(tile) - len(sizes)
    axes = [Axis(n, size, step, size * step, tiled=dim >= front) for dim, (n, size, step) in enumerate(steps)]
    return NkiTileGrid(access, tuple(axes))


def _allocated(
    what: str, tile_shape: Any, element_shape: Any, buffer: Any, dtype: Any, address: Any, name: str
) -> NkiTileGrid:
    sizes, extent = _sizes(what, "tile_shape", tile_shape), _sizes(what, "element_shape", element_shape)
    if not isinstance(buffer, Buffer):
        raise TileTypeError(
            f"{what}: buffer={buffer!r} ({type(buffer).__name__}) is no nl.MemoryRegion",
            fix="use nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm",
        )
    if buffer is Buffer.register:
        raise TileShapeError(f"{what}: tiles in {buffer!r}", fix="use nl.sbuf, nl.psum, nl.shared_hbm or nl.hbm")
    tile = _fitted(what, sizes, extent, buffer, "element_shape")
    label = name or assigned_name(here(), "tiles")
    if buffer.is_hbm:
        return _tiled(what, ndarray(extent, dtype, buffer, label, address), tile_shape)
    counts = [-(-n // size) for n, size in zip(extent, tile, strict=True)]
    room = math.prod(tile[1:])
    free = math.prod(counts) * room
    tensor = ndarray((tile[0], free), dtype, buffer, label, address)
    axes: list[Axis] = []
    for dim, (n, size) in enumerate(zip(extent, tile, strict=True)):
        near = math.prod(tile[dim + 1 :]) if dim else free
        axes.append(Axis(n, size, near, math.prod(counts[dim + 1 :]) * room))
    return NkiTileGrid(tensor.access, tuple(axes))


def _regrouped(what: str, grid: NkiGrid, grains: Any) -> tuple[Access, tuple[Axis, ...]]:
    """The selection of ``grid`` as a source of its own, with so many tiles for each coordinate."""
    axes: list[Axis] = []
    for dim, (axis, grain) in enumerate(zip(grid.axes, grains, strict=False)):
        regrouped = axis.regrouped(grain)
        if regrouped is None:
            raise ViewError(
                f"{what}: the blocks that {grid!r} selects along coordinate {dim} do not touch each other",
                fix="open one block at a time: nl.tiles(grid[i, j])",
            )
        axes.append(regrouped)
    source = grid.source
    start = source.offset + sum(axis.offset for axis in grid.axes)
    moved = source.__class__(source.tensor, start, source.shape, source.strides, source.dtype, source.dynamic)
    return moved, tuple(axes)


def _sizes(what: str, parameter: str, shape: Any) -> Shape:
    """``shape`` after the checks of a tuple of sizes."""
    entries = cast("tuple[Any, ...]", shape)
    if type(entries) is not tuple or any(type(n) is not int for n in entries):
        raise TileTypeError(
            f"{what}: {parameter}={entries!r:.60} ({type(entries).__name__}) is not a tuple of Python integers",
            fix=f"pass {parameter}=(128, 512), or other sizes",
        )
    if any(n < 1 for n in entries):
        raise TileShapeError(f"{what}: {parameter}={shape} has a size below 1", fix="make every size at least 1")
    return entries


def _fitted(what: str, sizes: Shape, extent: Shape, buffer: Buffer, name: str) -> Shape:
    """``sizes`` with a 1 for each dimension in front of the tiles."""
    if not 2 <= len(sizes) <= len(extent):
        raise TileShapeError(
            f"{what}: tile_shape {sizes} has {len(sizes)} dimensions; tiles of {name} {extent} have 2 to {len(extent)}",
            fix="give a size for at least two of the last dimensions, and for no more than there are",
        )
    front = len(extent) - len(sizes)
    if front and buffer.on_chip:
        raise TileShapeError(
            f"{what}: tile_shape {sizes} leaves {front} of the dimensions of {name} {extent} untiled, which only "
            f"tensors in HBM may have; this is {buffer.value}",
            fix=f"give {len(extent)} sizes",
        )
    return (*repeat(1, front), *sizes)


__all__ = ["alloc_blocks", "alloc_tiles", "blocks", "tiles"]
