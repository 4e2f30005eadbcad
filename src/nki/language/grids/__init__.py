"""Tensors seen as grids of tiles and of blocks of tiles."""

from __future__ import annotations

from nki.language.grids.grid import NkiBlockGrid, NkiGrid, NkiTileGrid
from nki.language.grids.tile_grids import alloc_blocks, alloc_tiles, blocks, tiles

__all__ = ["NkiBlockGrid", "NkiGrid", "NkiTileGrid", "alloc_blocks", "alloc_tiles", "blocks", "tiles"]
