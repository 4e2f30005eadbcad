"""Kernels with loops that do work again, or let rounds wait for each other, and the same kernels without that."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl
from tests.profiling.flawed_kernels import ROWS, VECTOR, _output, _tile

KEPT, NEW = "one tile", "new tiles"


def streamed(x, form):
    """exp(x), block by block: through tiles of each round, or through one tile or two for all rounds."""
    y = _output(x.shape, x.dtype)
    loaded = _tile(x.shape[2], x.dtype)
    raised = loaded if form == "in place" else _tile(x.shape[2], x.dtype)
    for number in range(x.shape[0]):
        if form in (NEW, "one result"):
            loaded = _tile(x.shape[2], x.dtype)
        if form == NEW:
            raised = _tile(x.shape[2], x.dtype)
        nisa.dma_copy(dst=loaded, src=x[number])
        nisa.activation(dst=raised, op=nl.exp, data=loaded)
        nisa.dma_copy(dst=y[number], src=raised)
    return y


def halved_streams(x, form):
    """exp of one half of the columns of each block and tanh of the other, which fill a tile in two parts."""
    half = x.shape[2] // 2
    y = _output(x.shape, x.dtype)
    tile = _tile(x.shape[2], x.dtype)
    for number in range(x.shape[0]):
        if form == NEW:
            tile = _tile(x.shape[2], x.dtype)
        nisa.dma_copy(dst=tile[:, :half], src=x[number][:, :half])
        nisa.dma_copy(dst=tile[:, half:], src=x[number][:, half:])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5, engine=VECTOR)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=y[number], src=tile)
    return y


def squares_in_a_loop(x, form):
    """x ** 2, in iterations of a loop on the device of four blocks each."""
    y = _output(x.shape, x.dtype)
    columns = x.shape[1]

    def body(i):
        tile = _tile(columns, x.dtype)
        for part in range(4):
            if form == NEW:
                tile = _tile(columns, x.dtype)
            rows = nl.ds(i * (4 * ROWS) + part * ROWS, ROWS)
            nisa.dma_copy(dst=tile, src=x[rows])
            nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply, engine=VECTOR)
            nisa.dma_copy(dst=y[rows], src=tile)

    nl.fori_loop(0, x.shape[0] // (4 * ROWS), body)
    return y


def summed_products(x, w, form):
    """The product of the transpose of ``x`` with ``w``, with one tile of PSUM for all sums, or with new ones."""
    blocks = x.shape[0] // ROWS
    y = _output((x.shape[1], w.shape[1]), x.dtype)
    lhs, rhs = ([_tile(each.shape[1], each.dtype) for _ in range(blocks)] for each in (x, w))
    for block in range(blocks):
        nisa.dma_copy(dst=lhs[block], src=x[block * ROWS : block * ROWS + ROWS])
        nisa.dma_copy(dst=rhs[block], src=w[block * ROWS : block * ROWS + ROWS])
    total = _tile(512, nl.float32, nl.psum)
    for row in range(0, x.shape[1], ROWS):
        for column in range(0, w.shape[1], 512):
            if form == NEW:
                total = _tile(512, nl.float32, nl.psum)
            for block in range(blocks):
                operands = lhs[block][:, row : row + ROWS], rhs[block][:, column : column + 512]
                nisa.nc_matmul(dst=total, stationary=operands[0], moving=operands[1], accumulate=block > 0)
            result = _tile(512, x.dtype)
            nisa.tensor_copy(dst=result, src=total, engine=VECTOR)
            nisa.dma_copy(dst=y[row : row + ROWS, column : column + 512], src=result)
    return y


def maxima(x, width):
    """The greatest number of each row, in tiles of ``width`` columns; two wide ones do not fit."""
    blocks = x.shape[1] // width
    y = _output((ROWS, 1), nl.float32)
    most, part = _tile(1, nl.float32), None
    nisa.memset(dst=most, value=-3e38)
    for block in range(blocks):
        tile, part = _tile(width, x.dtype), _tile(1, nl.float32)
        nisa.dma_copy(dst=tile, src=x[:, block * width : block * width + width])
        nisa.tensor_reduce(dst=part, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_tensor(dst=most, data1=most, data2=part, op=nl.maximum, engine=VECTOR)
    nisa.dma_copy(dst=y, src=most)
    return y


def scaled_by_rows(x, scales, through_hbm):
    """Blocks of ``x`` times one row of ``scales`` each, which all partitions get by way of HBM, or in one load."""
    y = _output(x.shape, x.dtype)
    columns = x.shape[1]
    for number, first in enumerate(range(0, x.shape[0], ROWS)):
        tile, row = _tile(columns, x.dtype), slice(number, number + 1)
        nisa.dma_copy(dst=tile, src=x[first : first + ROWS])
        if through_hbm:
            factors = nl.broadcast_to(nl.load(scales[row]), (ROWS, columns))
        else:
            factors = _tile(columns, scales.dtype)
            nisa.dma_copy(dst=factors, src=scales[row].broadcast(0, ROWS))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply, engine=VECTOR)
        nisa.dma_copy(dst=y[first : first + ROWS], src=tile)
    return y


def shifted_in_a_loop(x, shift, through_hbm):
    """``x`` plus a row, by a loop on the device, where each iteration repeats its row over the partitions."""
    y = _output(x.shape, x.dtype)
    columns = x.shape[1]
    row = None
    if through_hbm:
        row = _tile(columns, shift.dtype, rows=1)
        nisa.dma_copy(dst=row, src=shift)

    def body(i):
        tile, rows = _tile(columns, x.dtype), nl.ds(i * ROWS, ROWS)
        nisa.dma_copy(dst=tile, src=x[rows])
        if through_hbm:
            addends = nl.broadcast_to(row, (ROWS, columns))
        else:
            addends = _tile(columns, shift.dtype)
            nisa.dma_copy(dst=addends, src=shift.broadcast(0, ROWS))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=addends, op=nl.add, engine=VECTOR)
        nisa.dma_copy(dst=y[rows], src=tile)

    nl.fori_loop(0, x.shape[0] // ROWS, body)
    return y


def scanned(u, rates, left, right, engines):
    """A scan over time for the states of each row; the products beside it run on ``engines``."""
    y = _output(u.shape, u.dtype)
    rows, columns = u.shape[0], u.shape[1]
    x, speeds, total = (_tile(each, nl.float32, rows=rows) for each in (columns, rates.shape[1], columns))
    nisa.dma_copy(dst=x, src=u)
    nisa.dma_copy(dst=speeds, src=rates)
    nisa.memset(dst=total, value=0.0)
    for n in range(rates.shape[1]):
        decay, one, two, state = (_tile(columns, nl.float32, rows=rows) for _ in range(4))
        nisa.activation(dst=decay, op=nl.exp, data=x, scale=speeds[:, n : n + 1])
        nisa.dma_copy(dst=one, src=left[n : n + 1].broadcast(0, rows))
        nisa.dma_copy(dst=two, src=right[n : n + 1].broadcast(0, rows))
        nisa.tensor_tensor(dst=one, data1=one, data2=x, op=nl.multiply, engine=engines[0])
        nisa.tensor_tensor_scan(dst=state, data0=decay, data1=one, initial=0.0, op0=nl.multiply, op1=nl.add)
        nisa.tensor_tensor(dst=state, data1=state, data2=two, op=nl.multiply, engine=engines[1])
        nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add, engine=VECTOR)
    nisa.dma_copy(dst=y, src=total)
    return y


def polynomials(x, engines):
    """x ** 4 + x ** 2 of each tile; the second half runs on ``engines`` in turn."""
    y = _output(x.shape, x.dtype)
    for number, first in enumerate(range(0, x.shape[1], 1024)):
        tile, square, fourth = (_tile(1024, x.dtype) for _ in range(3))
        nisa.dma_copy(dst=tile, src=x[:, first : first + 1024])
        nisa.tensor_tensor(dst=square, data1=tile, data2=tile, op=nl.multiply, engine=VECTOR)
        nisa.tensor_tensor(dst=fourth, data1=square, data2=square, op=nl.multiply, engine=VECTOR)
        on = engines[number % len(engines)]
        nisa.tensor_tensor(dst=fourth, data1=fourth, data2=square, op=nl.add, engine=on)
        nisa.tensor_tensor(dst=square, data1=fourth, data2=square, op=nl.maximum, engine=on)
        nisa.dma_copy(dst=y[:, first : first + 1024], src=square)
    return y


def divided_by_sums(x, rounds):
    """Each row of a small matrix over its sum, again and again; a partition has one matrix."""
    y = _output(x.shape, x.dtype)
    tokens, size = x.shape[0], int(x.shape[1] ** 0.5)
    tile = _tile(x.shape[1], x.dtype, rows=tokens)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(rounds):
        for row in range(size):
            part, total = tile[:, row * size : row * size + size], _tile(1, nl.float32, rows=tokens)
            nisa.tensor_reduce(dst=total, op=nl.add, data=part, axis=1)
            nisa.reciprocal(dst=total, data=total)
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=y, src=tile)
    return y


def every_second_column(x, whole):
    """The even columns of ``x``: by a transfer that steps over the others, or ``whole`` rows and a step on chip."""
    rows, columns = x.shape
    y = _output((rows, columns // 2), x.dtype)
    tile = _tile(columns // 2, x.dtype, rows=rows)
    if whole:
        loaded = _tile(columns, x.dtype, rows=rows)
        nisa.dma_copy(dst=loaded, src=x)
        nisa.tensor_copy(dst=tile, src=loaded[:, ::2])
    else:
        nisa.dma_copy(dst=tile, src=x[:, ::2])
    nisa.dma_copy(dst=y, src=tile)
    return y


def turned_by_dma(x, at_once):
    """The transpose of the first 128 columns of ``x``, by DMA: 128 rows in a transfer, or all."""
    rows = x.shape[0]
    y, tile = _output((ROWS, rows), x.dtype), _tile(rows, x.dtype)
    step = rows if at_once else ROWS
    for row in range(0, rows, step):
        nisa.dma_transpose(dst=tile[:, row : row + step], src=x[row : row + step, 0:ROWS])
    nisa.dma_copy(dst=y, src=tile)
    return y


def rows_by_index(x, numbers, column, at_once):
    """The rows of ``x`` that ``numbers`` name, or the same in a ``column``: one by one, or all at once."""
    columns = x.shape[1]
    y, tile = _output((ROWS, columns), x.dtype), _tile(columns, x.dtype)
    if at_once:
        index = _tile(1, column.dtype)
        nisa.dma_copy(dst=index, src=column)
        nisa.dma_copy(dst=tile, src=x.vector_select(0, index))
    else:
        index = _tile(ROWS, numbers.dtype, rows=1)
        nisa.dma_copy(dst=index, src=numbers)
        for row in range(ROWS):
            nisa.dma_copy(dst=tile[row : row + 1], src=x[nl.ds(index[0:1, row : row + 1], 1)])
    nisa.dma_copy(dst=y, src=tile)
    return y


def rows_repeated(x, rows):
    """The sum of all rows of ``x``, with each row loaded into some partitions."""
    y, total = _output((rows, x.shape[1]), x.dtype), _tile(x.shape[1], x.dtype, rows=rows)
    nisa.memset(dst=total, value=0.0)
    for number in range(x.shape[0]):
        tile = _tile(x.shape[1], x.dtype, rows=rows)
        nisa.dma_copy(dst=tile, src=x[number : number + 1].broadcast(0, rows))
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add, engine=VECTOR)
    nisa.dma_copy(dst=y, src=total)
    return y
