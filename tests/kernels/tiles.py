"""Grids of tiles and of blocks, and assignment into views."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

from .case import EPSILON, case, normal, normals


@case(normals((200, 150), (200, 300)), lambda x, y: x.T @ y, 200 * EPSILON)
@nki.jit
def product_by_tiles(x, y):
    """``x.T @ y``: both held on chip in tiles that borders cut, products tile by tile."""
    out = nl.ndarray((x.shape[1], y.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    held = []
    for source, tile_shape in ((x, (128, 64)), (y, (128, 128))):
        tiles = nl.tiles(source, tile_shape=tile_shape)
        own = nl.alloc_tiles(tile_shape=tile_shape, element_shape=source.shape, buffer=nl.sbuf, dtype=source.dtype)
        for k in range(tiles.shape[0]):
            own[k, :].data[...] = tiles[k, :].data
        held.append(own)
    left, right = held
    sums = nl.alloc_tiles(tile_shape=(64, 128), element_shape=out.shape, buffer=nl.psum, dtype=nl.float32)
    stored = nl.tiles(out, tile_shape=(64, 128))
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            for k in range(left.shape[0]):
                nisa.nc_matmul(sums[i, j].data, left[k, i].data, right[k, j].data)
        strip = nl.copy(sums[i, :].data)
        stored[i, :].data[...] = strip
    return out


@case(normal(96, 200), lambda x: np.concatenate([x[:, 100:], x[:, :100]], axis=1) * 3, EPSILON)
@nki.jit
def halves_exchanged(x):
    """Blocks of tiles from HBM, opened on chip; columns assigned one by one."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype)
    blocks = nl.blocks(x, tile_shape=(96, 32), block_shape=(1, 3))
    kept = nl.blocks(tile, tile_shape=blocks.tile_shape, block_shape=blocks.block_shape)
    for b in range(blocks.shape[1]):
        kept[0, b].data[...] = blocks[0, b].data
        opened = nl.tiles(kept[0, b])
        for j in range(opened.shape[1]):
            nisa.tensor_scalar(opened[0, j].data, opened[0, j].data, nl.multiply, 3.0)
    exchanged = nl.ndarray(x.shape, dtype=x.dtype)
    for column in range(x.shape[1]):
        exchanged[:, column] = tile[:, (column + 100) % 200]
    out[...] = exchanged
    return out
