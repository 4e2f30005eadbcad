"""``NkiTileGrid`` and ``NkiBlockGrid``: views of a tensor that are indexed by tile or by block (NKI 0.7)."""

from __future__ import annotations

import operator
from typing import Any, NoReturn, cast

from nki.base.element_types import DType
from nki.base.errors import DynamicIndexError, IndexRangeError, TensorOperatorError, ViewError
from nki.ir.types import Access, Buffer, access_of
from nki.language.grids.axis import Axis
from nki.language.nki_tensor import NkiTensor


class NkiGrid:
    """Base of :class:`NkiTileGrid` and :class:`NkiBlockGrid`, which ``nl.tiles`` and ``nl.blocks`` make.

    A grid is a view: making, indexing and slicing one allocates nothing, copies nothing and emits no instruction.
    ``g[i, j]`` is a grid of one tile (block), ``g[i, :]`` a row, ``g[:, j]`` a column; an integer consumes its
    coordinate, ``g[i]`` is ``g[i, :]``. Instructions take ``g[i, j].data``. Coordinates are integers from 0 and slices
    of at least one; dimensions in front of the tiles take an integer or ``:``. Raises :class:`IndexRangeError` for
    others, and :class:`DynamicIndexError` for an index that is known only when the kernel runs.
    """

    __slots__ = ("axes", "source")

    def __init__(self, source: Access, axes: tuple[Axis, ...]) -> None:
        self.source = source
        self.axes = axes

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of tiles (blocks) along each coordinate, of slabs along a dimension in front of the tiles."""
        return tuple(axis.count for axis in self.axes if axis.live)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The elements of a whole tile, also where the last tile is smaller."""
        return tuple(axis.tile for axis in self.axes if axis.tiled)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The number of selected elements along each dimension of the source: exact, and 1 for a consumed slab."""
        return tuple(axis.elements for axis in self.axes)

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """The step of each coordinate in elements of the source."""
        return tuple(axis.step for axis in self.axes if axis.live)

    @property
    def is_remainder(self) -> bool:
        """True if a selected tile or block ends at the border, with fewer elements than the others."""
        return any(axis.is_remainder() for axis in self.axes)

    @property
    def buffer(self) -> Buffer:
        """The memory of the tensor behind the grid."""
        return self.source.buffer

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor behind the grid."""
        return self.source.dtype

    @property
    def is_data_representable(self) -> bool:
        """True if ``data`` can express the selection: its elements have equal steps along each dimension."""
        return self._uneven() is None

    @property
    def data(self) -> NkiTensor:
        """The selection as one tensor of shape ``element_shape``, which instructions take.

        Raises :class:`ViewError` if its elements have no equal steps: of tiles on chip, which lie side by side in the
        free dimension, several rows; and every second tile.
        """
        uneven = self._uneven()
        if uneven is not None:
            raise ViewError(
                f"data of {self!r}: the tiles along dimension {uneven} of '{self.source.name}' in {self.buffer.value} "
                "are not one tensor, their elements have no equal steps",
                fix="go through it tile by tile: tiles = nl.tiles(selection); tiles[i, j].data",
            )
        strides = tuple(cast(int, axis.stride()) for axis in self.axes)
        source = self.source
        start = source.offset + sum(axis.offset for axis in self.axes)
        return NkiTensor(
            source.__class__(source.tensor, start, self.element_shape, strides, source.dtype, source.dynamic)
        )

    def _uneven(self) -> int | None:
        """The first dimension along which the selected elements have no equal steps."""
        for dim, axis in enumerate(self.axes):
            stride = axis.stride()
            if stride is None or (dim == 0 and self.buffer.on_chip and stride != axis.near):
                return dim
        return None

    def __getitem__(self, key: Any) -> NkiGrid:
        keys = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
        live = [dim for dim, axis in enumerate(self.axes) if axis.live]
        if len(keys) > len(live):
            raise IndexRangeError(
                f"{self!r} has {len(live)} coordinates; {len(keys)} indices were given",
                fix="give at most one index per coordinate; an integer consumes its own",
            )
        axes = list(self.axes)
        for coordinate, item in enumerate(keys):
            axes[live[coordinate]] = self._part(axes[live[coordinate]], item, f"coordinate {coordinate} of {self!r}")
        return self.__class__(self.source, tuple(axes))

    def _part(self, axis: Axis, item: Any, what: str) -> Axis:
        if isinstance(item, slice):
            start, stop, step = self._bounds(axis, cast(slice, item), what)
            return axis.part(start, -(-(stop - start) // step), step, live=True)
        if isinstance(access_of(item), Access):
            raise DynamicIndexError(
                f"{self!r} is indexed by '{access_of(item).name}', which is known only when the kernel runs: the last "
                "tile may be smaller, and shapes are fixed when the kernel is compiled",
                fix="unroll with range(…), or move a window over the tensor itself: t.ap(pattern, scalar_offset=i)",
            )
        at = None if isinstance(item, bool) else _integer(item)
        if at is None:
            raise IndexRangeError(
                f"index {item!r:.40} ({type(item).__name__}) into {what}",
                fix="index with integers and slices",
            )
        if not 0 <= at < axis.count:
            raise IndexRangeError(
                f"index {at} is outside {what}, which has {axis.count}",
                fix=f"use an index from 0 to {axis.count - 1}",
            )
        return axis.part(at, 1, 1, live=False)

    def _bounds(self, axis: Axis, item: slice, what: str) -> tuple[int, int, int]:
        start = 0 if item.start is None else _integer(item.start)
        stop = axis.count if item.stop is None else _integer(item.stop)
        step = 1 if item.step is None else _integer(item.step)
        if start is None or stop is None or step is None or step < 1 or not 0 <= start < stop <= axis.count:
            raise IndexRangeError(
                f"{item} of {what} is no part of its {axis.count}",
                fix=f"keep 0 <= start < stop <= {axis.count}, and a positive step",
            )
        if not axis.tiled and (start, stop, step) != (0, axis.count, 1):
            raise IndexRangeError(
                f"{item} of {what}, a dimension in front of the tiles, which is indexed one slab at a time",
                fix=f"index it with one integer, or slice the tensor before: nl.tiles({self.source.name}[{start}:{stop}"
                "], …)",
            )
        return start, stop, step

    def __iter__(self) -> NoReturn:
        raise TensorOperatorError(f"iteration over {self!r}", fix="write for i in range(grid.shape[0]): … grid[i]")

    def __setitem__(self, key: Any, value: object) -> NoReturn:
        raise TensorOperatorError(
            f"assignment into {self!r}", fix="assign to the tensor that it selects: grid[i, j].data[...] = tile"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.shape} of '{self.source.name}'"


class NkiTileGrid(NkiGrid):
    """A tensor seen as a grid of tiles: ``nl.tiles`` makes it, and says the rest."""

    __slots__ = ()


class NkiBlockGrid(NkiGrid):
    """A tensor seen as a grid of blocks of tiles: ``nl.blocks`` makes it, ``nl.tiles(block)`` opens one."""

    __slots__ = ()

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The number of tiles of a whole block."""
        return tuple(axis.grain for axis in self.axes if axis.tiled)


def _integer(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) or isinstance(access_of(value), Access) else operator.index(value)
    except TypeError:
        return None


__all__ = ["NkiBlockGrid", "NkiGrid", "NkiTileGrid"]
