"""Kernels that use two cores badly, and the same kernels with even shares."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl
from tests.profiling.flawed_kernels import ROWS, VECTOR, _output, _tile


def exponentials_of_blocks(x, first, count):
    """``count`` exponentials of each element: core 0 has the first ``first`` blocks of rows, core 1 has the others."""
    y = _output(x.shape, x.dtype)
    for block in range(first) if nl.program_id(0) == 0 else range(first, x.shape[0] // ROWS):
        tile, rows = _tile(x.shape[1], x.dtype), slice(block * ROWS, block * ROWS + ROWS)
        nisa.dma_copy(dst=tile, src=x[rows])
        for _ in range(count):
            nisa.activation(dst=tile, data=tile, op=nl.exp)
        nisa.dma_copy(dst=y[rows], src=tile)
    return y


def squares_that_meet(x, squares):
    """Each core squares each block as often as ``squares`` says of it; the cores meet behind each block."""
    rank = nl.program_id(0)
    y = _output((2, *x.shape), x.dtype)
    for first in range(0, x.shape[0], ROWS):
        tile, rows = _tile(x.shape[1], x.dtype), slice(first, first + ROWS)
        nisa.dma_copy(dst=tile, src=x[rows])
        for _ in range(squares[rank]):
            nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply, engine=VECTOR)
        nisa.dma_copy(dst=y[rank, rows], src=tile)
        nisa.core_barrier(y, (0, 1))
    return y


def products_on_cores(x, w, divided):
    """``x.T @ w``; each core loads all of both tensors, for its half of the rows, or for all rows."""
    y = _output((x.shape[1], w.shape[1]), nl.float32)
    blocks = [slice(first, first + ROWS) for first in range(0, x.shape[0], ROWS)]
    lhs, rhs = ([_tile(each.shape[1], each.dtype) for _ in blocks] for each in (x, w))
    for block, one, two in zip(blocks, lhs, rhs, strict=True):
        nisa.dma_copy(dst=one, src=x[block])
        nisa.dma_copy(dst=two, src=w[block])
    count = x.shape[1] // 2 if divided else x.shape[1]
    begin = nl.program_id(0) * count if divided else 0
    for row in range(begin, begin + count, ROWS):
        total, result = _tile(w.shape[1], nl.float32, nl.psum), _tile(w.shape[1], nl.float32)
        for number, (one, two) in enumerate(zip(lhs, rhs, strict=True)):
            nisa.nc_matmul(dst=total, stationary=one[:, row : row + ROWS], moving=two, accumulate=number > 0)
        nisa.tensor_copy(dst=result, src=total, engine=VECTOR)
        nisa.dma_copy(dst=y[row : row + ROWS], src=result)
    return y
