"""Products in small random programs: of what is computed, loaded, filled by parts or transposed; and their readers."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import copied, transposed
from tests.support.small_tiles import few, width_of


def turn(m, step):
    """A tile gets the transposed corner of another one."""
    dst, a = m.tiles[step.to], m.tiles[step.one]
    size = min(dst.shape[0], few(dst))
    if dst.dtype != nl.int32 and a.dtype != nl.int32:
        nisa.tensor_copy(dst[0:size, 0:size], transposed(a[0:size, 0:size]))


def as_factor(tile, kind):
    """A tile in the dtype of factors: float32, or 16 or 8 bits."""
    dtype = (nl.float32, nl.bfloat16, nl.float32, nl.bfloat16, nl.float8_e5m2)[kind % 5]
    return tile if tile.dtype == dtype else copied(tile, dtype)


def consumed(m, step, total):
    """A product goes to a tile, by an instruction of several kinds."""
    rows, columns = total.shape
    dst = m.tiles[step.to][0:rows, 0:columns]
    if step.number % 5 == 0:
        nisa.tensor_copy(dst, total)
    elif step.number % 5 == 1:
        nisa.tensor_scalar(dst, total, nl.multiply, 0.125)
    elif step.number % 5 == 2:
        nisa.activation(dst, nl.tanh if step.number % 2 else nl.exp, total, bias=m.columns[0][0:rows], scale=0.25)
    elif step.number % 5 == 3:
        nisa.tensor_tensor(dst, dst, total, nl.subtract)
    else:
        nisa.tensor_scalar(dst, total, nl.add, 1.0)
        nisa.tensor_tensor(dst, total, dst, nl.maximum)


def product(m, step):
    """Products of tiles, of many rows, of few, or of one column; accumulated or not, and what takes them."""
    a = as_factor(m.tiles[step.one], step.number)
    b = as_factor(m.tiles[step.two], step.number)
    rows = min(a.shape[0], few(a))
    rows = (rows, rows, min(rows, 16), rows, 1)[step.to + step.number % 2]
    columns = (width_of(b), width_of(b), width_of(b) // 2, 1)[step.number // 5 % 4]
    total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, a[:, 0:rows], b[:, 0:columns])
    if step.number % 3 == 0:
        nisa.nc_matmul(total, a[:, 0:rows], b[:, 0:columns])
    consumed(m, step, total)


def window(m, step, rows, narrow):
    """A load of a window of an input, which may come again."""
    source = m.inputs[1 if narrow else 0]
    first, width = 32 * (step.number % 2), width_of(m.tiles[0])
    tile = nl.ndarray((rows, width), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, source[first : first + rows, 0:width])
    return tile


def loaded_product(m, step):
    """Two products of loads of the same windows, or of other parts of them."""
    depth, width = m.tiles[0].shape
    narrow = step.view == "whole"
    rows = min(depth, few(m.tiles[0]))
    for number in range(2):
        a, b = window(m, step, depth, narrow), window(m, step, depth, narrow)
        if step.number % 7 == 0:
            nisa.memset(a[:, 0:32], 0.5)
        total = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, a[:, 0:rows], b)
        if step.number % 2:
            nisa.nc_matmul(total, a[:, 0:rows], b)
        if number == 0:
            consumed(m, step, total)
        else:
            nisa.tensor_scalar(m.tiles[step.two][0:rows], total, nl.multiply, 0.25)


def filled_by_parts(m, step):
    """Copies fill a tile from windows of an input; products read each part, both at once, or before all is there."""
    depth, width = m.tiles[0].shape
    rows, source = min(depth, width // 2, 128), m.inputs[1 if step.view == "whole" else 0]
    tile = nl.ndarray((depth, 2, width), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile[:, 0, :], source[0:depth, 0:width])
    total = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
    b = window(m, step, depth, step.view == "whole")
    nisa.dma_copy(tile[:, 1, :], source[32 : 32 + depth, 0:width])
    nisa.nc_matmul(total, tile[:, 0, 0:rows], b)
    if step.number % 5 == 0:
        nisa.dma_copy(tile[:, 0, :], source[16 : 16 + depth, 0:width])
    if step.number % 3 == 0:
        both_parts = tile.reshape((depth, 2 * width))[:, width - rows // 2 : width - rows // 2 + rows]
        nisa.nc_matmul(total, both_parts, tile[:, 1, :])
    else:
        nisa.nc_matmul(total, tile[:, step.number % 2, 0:rows], tile[:, 1, :])
    consumed(m, step, total)


def attention(m, step):
    """A product with a stationary operand that is transposed from a result; its source may change before."""
    narrow = step.view == "whole"
    depth, width = m.tiles[0].shape[0], few(m.tiles[0])
    dtype = nl.bfloat16 if narrow else nl.float32
    weights = nl.ndarray((depth, width), dtype=dtype, buffer=nl.sbuf)
    nisa.activation(weights, nl.exp, m.tiles[step.one][:, 0:width], scale=0.125)
    operand = transposed(weights)
    if step.number % 3 == 0:
        nisa.memset(weights, 1.0)
    source = m.inputs[1 if narrow else 0]
    moving = nl.ndarray((width, width), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(moving, source[0:width, 0:width])
    total = nl.ndarray((depth, width), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, operand, moving)
    if step.number % 4 == 0:
        nisa.nc_matmul(total, transposed(weights), moving)
    consumed(m, step, total)
    if step.number % 5 == 0:
        nisa.tensor_tensor(m.tiles[step.to][0:1, 0:1], m.tiles[step.to][0:1, 0:1], operand[0:1, 0:1], nl.add)


def heads(m, step):
    """Blocks of columns, each transposed, side by side in one tile; each product reads one."""
    depth, width = m.tiles[0].shape[0], few(m.tiles[0])
    narrow = step.view == "whole"
    weights = nl.ndarray((depth, width), dtype=nl.bfloat16 if narrow else nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(weights, m.tiles[step.one][:, 0:width], nl.multiply, 0.25)
    half = width // 2
    spread = nl.ndarray((half, 2, depth), dtype=weights.dtype, buffer=nl.psum)
    for n in range(2):
        nisa.nc_transpose(spread[:, n, :], weights[:, n * half : (n + 1) * half])
    tile = copied(spread)
    total = nl.ndarray((depth, width), dtype=nl.float32, buffer=nl.psum)
    for n in range(2):
        moving = nl.ndarray((half, width), dtype=weights.dtype, buffer=nl.sbuf)
        nisa.dma_copy(moving, m.inputs[1 if narrow else 0][n * half : (n + 1) * half, 0:width])
        nisa.nc_matmul(total, tile[:, n, :], moving)
    if step.number % 3 == 0:
        across_both = tile.reshape((half, 2 * depth))[:, depth // 2 : depth // 2 + depth]
        nisa.nc_matmul(total, across_both, moving)
    consumed(m, step, total)


PRODUCTS = (turn, product, loaded_product, filled_by_parts, attention, heads)
