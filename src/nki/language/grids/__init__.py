"""Tensors seen as grids of tiles and of blocks of tiles."""

from __future__ import annotations

from nki.language.grids.creation import alloc_blocks, alloc_tiles, blocks, tiles
from nki.language.grids.grid import NkiBlockGrid, NkiGrid, NkiTileGrid

__all__ = ["NkiBlockGrid", "NkiGrid", "NkiTileGrid", "alloc_blocks", "alloc_tiles", "blocks", "tiles"]
