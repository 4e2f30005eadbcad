"""One source dimension of a grid: its tiles, the part of them that is selected, and where they lie in the storage."""

from __future__ import annotations


class Axis:
    """A dimension of ``extent`` elements in tiles of ``tile``; every ``pace``-th coordinate is selected.

    A coordinate counts ``grain`` tiles: 1 in a grid of tiles, the size of a block in a grid of blocks. ``count``
    coordinates from tile ``first`` are selected; ``live`` says if they are still to be indexed. The storage has
    ``near`` elements from one element to the next within a tile, and ``far`` from a tile to the next. The last tile
    ends with the dimension.
    """

    __slots__ = ("count", "extent", "far", "first", "grain", "live", "near", "pace", "tile", "tiled")

    def __init__(self, extent: int, tile: int, near: int, far: int, *, grain: int = 1, tiled: bool = True) -> None:
        self.extent = extent
        self.tile = tile
        self.near = near
        self.far = far
        self.grain = grain
        self.tiled = tiled
        self.first = 0
        self.count = -(-extent // (tile * grain))
        self.pace = 1
        self.live = True

    def part(self, start: int, count: int, step: int, *, live: bool) -> Axis:
        """``count`` of the selected coordinates from ``start``, every ``step``-th."""
        part = Axis(self.extent, self.tile, self.near, self.far, grain=self.grain, tiled=self.tiled)
        part.first = self.first + start * self.grain * self.pace
        part.count = count
        part.pace = self.pace * step if live else 1
        part.live = live
        return part

    @property
    def elements(self) -> int:
        """The number of selected elements. Only the last coordinate may have fewer than the others."""
        each = self.grain * self.tile
        last = (self.first + (self.count - 1) * self.grain * self.pace) * self.tile
        return (self.count - 1) * each + min(self.extent, last + each) - last

    @property
    def step(self) -> int:
        """Source elements from one coordinate to the next."""
        return self.pace * self.grain * self.tile

    @property
    def offset(self) -> int:
        """The first selected element, in elements of the storage."""
        return self.first * self.far

    def is_remainder(self) -> bool:
        """True if a selected tile or block is smaller than the others."""
        return self.elements < self.count * self.grain * self.tile

    def stride(self) -> int | None:
        """The equal step between all selected elements in the storage; None if their steps differ."""
        if self.elements <= self.tile:  # within one tile
            return self.near
        step = self.tile_step()
        if step is None:
            return None
        return step if self.tile == 1 else self.near if step == self.tile * self.near else None

    def tile_step(self) -> int | None:
        """The equal step between all selected tiles in the storage; None for blocks of tiles that lie apart."""
        if self.pace == 1 or self.count == 1:
            return self.far
        return self.far * self.pace if self.grain == 1 else None

    def regrouped(self, grain: int) -> Axis | None:
        """The selected elements as a dimension of their own, ``grain`` tiles a coordinate; None if it cannot be.

        A consumed coordinate of a dimension without tiles stays consumed.
        """
        far = self.tile_step()
        if far is None:
            return None
        axis = Axis(self.elements, self.tile, self.near, far, grain=grain, tiled=self.tiled)
        axis.live = self.live or self.tiled
        return axis


__all__ = ["Axis"]
