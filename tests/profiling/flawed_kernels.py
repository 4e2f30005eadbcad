"""Kernels with one planted inefficiency each, and the same kernels without it."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl

ROWS = 128
VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
BOTH = (VECTOR, SCALAR)
"""The engines that take sums out of PSUM, in turn."""


def _tile(columns, dtype, buffer=nl.sbuf, rows=ROWS):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=buffer)


def _loaded(view):
    """A tile of the shape of a part of a tensor in HBM, with its elements."""
    tile = _tile(view.shape[1], view.dtype, rows=view.shape[0])
    nisa.dma_copy(dst=tile, src=view)
    return tile


def _output(shape, dtype):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def scale(x, width):
    """x * 2, in transfers of ``width`` columns."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[1], width):
        tile = _loaded(x[:, first : first + width])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=VECTOR)
        nisa.dma_copy(dst=y[:, first : first + width], src=tile)
    return y


def scale_on_cores(x, width, rows, divided):
    """x * 2 on two cores, in tiles of ``rows`` rows and ``width`` columns: each its half of the rows, or all."""
    y = _output(x.shape, x.dtype)
    count = x.shape[0] // nl.num_programs() if divided else x.shape[0]
    begin = nl.program_id(0) * count if divided else 0
    for row in range(begin, begin + count, rows):
        for first in range(0, x.shape[1], width):
            tile, place = _tile(width, x.dtype, rows=rows), (slice(row, row + rows), slice(first, first + width))
            nisa.dma_copy(dst=tile, src=x[place])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=VECTOR)
            nisa.dma_copy(dst=y[place], src=tile)
    return y


def copies(x):
    """A copy through one tile of the shape of ``x``."""
    y = _output(x.shape, x.dtype)
    tile = _loaded(x)
    nisa.dma_copy(dst=y, src=tile)
    return y


def products(x, w, keep):
    """The product of the transpose of each block of ``x`` with ``w``, which is loaded once if ``keep``."""
    blocks = x.shape[1] // ROWS
    columns = w.shape[1]
    y = _output((x.shape[1], columns), x.dtype)
    weights = None
    for block in range(blocks):
        place = slice(block * ROWS, block * ROWS + ROWS)
        if weights is None or not keep:
            weights = _loaded(w)
        stationary = _loaded(x[:, place])
        result = _tile(columns, x.dtype)
        for number, first in enumerate(range(0, columns, 512)):
            total, part = _tile(512, nl.float32, nl.psum), slice(first, first + 512)
            nisa.nc_matmul(dst=total, stationary=stationary, moving=weights[:, part])
            nisa.tensor_copy(dst=result[:, part], src=total, engine=BOTH[number % 2])
        nisa.dma_copy(dst=y[place], src=result)
    return y


def polynomial(x, rows):
    """Four steps of Horner's rule on a tensor of 128 partitions times ``rows``/128 columns."""
    columns = x.shape[0] * x.shape[1] // rows
    flat = x.reshape((rows, columns))
    y = _output((rows, columns), x.dtype)
    tile, total = _tile(columns, x.dtype, rows=rows), _tile(columns, x.dtype, rows=rows)
    nisa.dma_copy(dst=tile, src=flat)
    nisa.tensor_scalar(dst=total, data=tile, op0=nl.multiply, operand0=0.5, engine=VECTOR)
    for _ in range(4):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.multiply, engine=VECTOR)
    nisa.dma_copy(dst=y, src=total)
    return y


def exponential(x, width):
    """exp(x) / 2, in tiles of ``width`` columns, so that loads, activations and stores can overlap."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[1], width):
        tile = _loaded(x[:, first : first + width])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5, engine=VECTOR)
        nisa.dma_copy(dst=y[:, first : first + width], src=tile)
    return y


def chains(x, interleaved):
    """64 steps on each of four small tiles, one tile after the other or in turn."""
    y = _output(x.shape, x.dtype)
    width = x.shape[1] // 4
    tile = _loaded(x)
    parts = [tile[:, n * width : n * width + width] for n in range(4)]
    steps = [(part, step) for step in range(64) for part in parts]
    if not interleaved:
        steps = [(part, step) for part in parts for step in range(64)]
    with nl.no_reorder():
        for part, step in steps:
            nisa.tensor_scalar(dst=part, data=part, op0=nl.add, operand0=float(step), engine=VECTOR)
    nisa.dma_copy(dst=y, src=tile)
    return y


def turned_products(x, w, turn):
    """``x @ w`` for each of many blocks of ``x``; ``turn``: the blocks are transposed on the Tensor engine."""
    columns = w.shape[1]
    y = _output((ROWS, x.shape[1] // ROWS * columns), nl.bfloat16)
    weights = _loaded(w)
    for group in range(x.shape[1] // 1024):
        tile, result = _tile(1024, x.dtype), _tile(8 * columns, nl.bfloat16)
        nisa.dma_copy(dst=tile, src=x[:, group * 1024 : group * 1024 + 1024])
        for block in range(8):
            stationary = tile[:, block * ROWS : block * ROWS + ROWS]
            if turn:
                turned = _tile(ROWS, x.dtype, nl.psum)
                nisa.nc_transpose(dst=turned, data=stationary, engine=nisa.engine.tensor)
                stationary = _tile(ROWS, x.dtype)
                nisa.tensor_copy(dst=stationary, src=turned, engine=BOTH[block % 2])
            total = _tile(columns, nl.float32, nl.psum)
            nisa.nc_matmul(dst=total, stationary=stationary, moving=weights)
            place = slice(block * columns, block * columns + columns)
            nisa.tensor_copy(dst=result[:, place], src=total, engine=BOTH[block % 2])
        place = slice(group * 8 * columns, group * 8 * columns + 8 * columns)
        nisa.dma_copy(dst=y[:, place], src=result)
    return y


def sums_of_products(x, w):
    """The sum of 64 products of 128 x 128 x 512: the Tensor engine has most of the work."""
    y = _output((ROWS, 512), nl.float32)
    tile, weights = _loaded(x), _loaded(w)
    total = _tile(512, nl.float32, nl.psum)
    for number in range(64):
        block = number % (x.shape[1] // ROWS)
        nisa.nc_matmul(dst=total, stationary=tile[:, block * ROWS : block * ROWS + ROWS], moving=weights)
    result = _tile(512, nl.float32)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=y, src=result)
    return y


def evictions(x, w, engines):
    """Products with sums that leave PSUM through ``engines`` in turn; the Vector engine scales what they leave."""
    y = _output((ROWS, x.shape[1] // ROWS * 512), nl.bfloat16)
    weights = _loaded(w)
    for block in range(x.shape[1] // ROWS):
        if block % 8 == 0:
            tile = _loaded(x[:, block * ROWS : block * ROWS + 1024])
        if block % 2 == 0:
            result = _tile(1024, nl.bfloat16)
        total = _tile(512, nl.float32, nl.psum)
        nisa.nc_matmul(dst=total, stationary=tile[:, block % 8 * ROWS : block % 8 * ROWS + ROWS], moving=weights)
        part = result[:, block % 2 * 512 : block % 2 * 512 + 512]
        nisa.tensor_copy(dst=part, src=total, engine=engines[block % len(engines)])
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=0.5, engine=VECTOR)
        if block % 2 == 1:
            nisa.dma_copy(dst=y[:, block * 512 - 512 : block * 512 + 512], src=result)
    return y


def powers(x, w):
    """The product of ``w`` with itself again and again: each product waits for the copy of the one before."""
    y = _output((ROWS, 512), nl.bfloat16)
    tile, power = _loaded(w), _loaded(x)
    for _ in range(32):
        total = _tile(512, nl.float32, nl.psum)
        nisa.nc_matmul(dst=total, stationary=tile, moving=power)
        nisa.tensor_copy(dst=power, src=total, engine=VECTOR)
    nisa.dma_copy(dst=y, src=power)
    return y


def buffered(x, buffers):
    """The maximum of many blocks, which are loaded into ``buffers`` tiles in turn."""
    width = 2048
    y = _output((ROWS, width), x.dtype)
    tiles = [_tile(width, x.dtype) for _ in range(buffers)]
    most = _tile(width, x.dtype)
    nisa.memset(dst=most, value=0.0)
    for number, first in enumerate(range(0, x.shape[1], width)):
        tile = tiles[number % buffers]
        nisa.dma_copy(dst=tile, src=x[:, first : first + width])
        nisa.tensor_tensor(dst=most, data1=most, data2=tile, op=nl.maximum, engine=VECTOR)
    nisa.dma_copy(dst=y, src=most)
    return y


def activations(x, groups):
    """exp of one half of the columns of each tile and tanh of the other: in turn, or ``groups`` of tiles at once."""
    y = _output(x.shape, x.dtype)
    width = 1024
    tiles = []
    for first in range(0, x.shape[1], width):
        tile = _loaded(x[:, first : first + width])
        tiles.append(tile)
    with nl.no_reorder():
        for first in range(0, len(tiles), groups):
            group = tiles[first : first + groups]
            for tile in group:
                nisa.activation(dst=tile[:, : width // 2], op=nl.exp, data=tile[:, : width // 2])
            for tile in group:
                nisa.activation(dst=tile[:, width // 2 :], op=nl.tanh, data=tile[:, width // 2 :])
    for number, tile in enumerate(tiles):
        nisa.dma_copy(dst=y[:, number * width : number * width + width], src=tile)
    return y


def squared_beside(x, engines):
    """x ** 2 of each tile in turn on ``engines``."""
    y = _output(x.shape, x.dtype)
    for number, first in enumerate(range(0, x.shape[1], 2048)):
        tile = _loaded(x[:, first : first + 2048])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply, engine=engines[number % len(engines)])
        nisa.dma_copy(dst=y[:, first : first + 2048], src=tile)
    return y


def gathered(table, rows):
    """Rows of ``table``, 128 at once, as ``rows`` says."""
    y = _output((rows.shape[1] * ROWS, table.shape[1]), table.dtype)
    index = _loaded(rows)
    width = table.shape[1]
    for number in range(rows.shape[1]):
        tile, column = _tile(width, table.dtype), index[:, number : number + 1]
        nisa.dma_copy(dst=tile, src=table.ap([[width, ROWS], [1, width]], 0, vector_offset=column, indirect_dim=0))
        nisa.dma_copy(dst=y[number * ROWS : number * ROWS + ROWS], src=tile, dge_mode=nisa.dge_mode.none)
    return y


def product_in_a_loop(x, rounds):
    """A load, a product, a copy out of PSUM by Vector, and a store, one after the other in a loop."""
    y = _output((ROWS, 512), nl.bfloat16)
    tile, result = _tile(512, x.dtype), _tile(512, nl.bfloat16)

    def body(_):
        total = _tile(512, nl.float32, nl.psum)
        nisa.dma_copy(dst=tile, src=x)
        nisa.nc_matmul(dst=total, stationary=tile[:, :ROWS], moving=tile)
        nisa.tensor_copy(dst=result, src=total, engine=VECTOR)
        nisa.dma_copy(dst=y, src=result)

    nl.fori_loop(0, rounds, body)
    return y


def copies_within_hbm(x):
    """A copy that never comes to the chip, in eight parts."""
    y = _output(x.shape, x.dtype)
    rows = x.shape[0] // 8
    for first in range(0, x.shape[0], rows):
        nisa.dma_copy(dst=y[first : first + rows], src=x[first : first + rows])
    return y


def products_of_half(x, w, parts):
    """128 products of 64 rows each, one after the other, or (``parts``) in both halves of the array."""
    rows, columns = x.shape[1], w.shape[1]
    y = _output((rows, columns), nl.float32)
    tile, weights = _loaded(x), _loaded(w)
    sums = [_tile(columns, nl.float32, nl.psum, rows=rows) for _ in range(2)]
    for _ in range(64):
        for half, total in enumerate(sums):
            part = slice(half * 64, half * 64 + 64)
            more = {"tile_position": (half * 64, 0), "tile_size": (64, 128)} if parts else {}
            nisa.nc_matmul(dst=total, stationary=tile[part], moving=weights[part], **more)
    result = _tile(columns, nl.float32, rows=rows)
    nisa.tensor_copy(dst=result, src=sums[0], engine=VECTOR)
    nisa.tensor_tensor(dst=result, data1=result, data2=sums[1], op=nl.add, engine=VECTOR)
    nisa.dma_copy(dst=y, src=result)
    return y


def normalised(x, kept):
    """The rows of ``x`` divided by their sums: a loop over narrow tiles adds, and one over wider ones divides.
    ``kept``: the second loop uses the tiles of the first.
    """
    y = _output(x.shape, x.dtype)
    for rows in (slice(first, first + ROWS) for first in range(0, x.shape[0], ROWS)):
        sums, total = _tile(8, nl.float32), _tile(1, nl.float32)
        tile = _tile(x.shape[1], x.dtype)
        width = x.shape[1] // 8
        for number in range(8):
            part = tile[:, number * width : number * width + width] if kept else _tile(width, x.dtype)
            nisa.dma_copy(dst=part, src=x[rows, number * width : number * width + width])
            nisa.tensor_reduce(dst=sums[:, number : number + 1], op=nl.add, data=part, axis=1)
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        nisa.reciprocal(dst=total, data=total)
        for number in range(4):
            place = slice(number * 2 * width, number * 2 * width + 2 * width)
            part = tile[:, place]
            if not kept:
                part = _loaded(x[rows, place])
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=total, engine=VECTOR)
            nisa.dma_copy(dst=y[rows, place], src=part)
    return y


def scaled_in_a_loop(x, scale, before):
    """``x * scale`` in tiles, by a loop on the device that loads ``scale`` each time, or (``before``) once."""
    y = _output(x.shape, x.dtype)
    factors = _tile(scale.shape[1], scale.dtype)
    if before:
        nisa.dma_copy(dst=factors, src=scale)

    def body(i):
        tile = _tile(scale.shape[1], x.dtype)
        if not before:
            nisa.dma_copy(dst=factors, src=scale)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * ROWS, ROWS)])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply, engine=VECTOR)
        nisa.dma_copy(dst=y[nl.ds(i * ROWS, ROWS)], src=tile)

    nl.fori_loop(0, x.shape[0] // ROWS, body)
    return y


def two_loops(x, through_hbm):
    """exp(x) ** 2, by a loop that raises and one that squares, and that keep the tiles between them in HBM or SBUF."""
    y = _output(x.shape, x.dtype)
    between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    tiles = []
    places = [slice(first, first + 2048) for first in range(0, x.shape[1], 2048)]
    for place in places:
        tile = _loaded(x[:, place])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        if through_hbm:
            nisa.dma_copy(dst=between[:, place], src=tile)
        tiles.append(tile)
    for place, tile in zip(places, tiles, strict=True):
        if through_hbm:
            tile = _tile(2048, x.dtype)
            nisa.dma_copy(dst=tile, src=between[:, place])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply, engine=VECTOR)
        nisa.dma_copy(dst=y[:, place], src=tile)
    return y


def exponential_of_rows(x, rows):
    """exp(x), in tiles of ``rows`` rows."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[0], rows):
        tile = _loaded(x[first : first + rows])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=y[first : first + rows], src=tile)
    return y


def multiples(x, w, fused):
    """``w`` plus 2 ``x``, six times over: in one instruction, or in two."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[1], 1024):
        place = slice(first, first + 1024)
        tile, total, part = (_tile(1024, x.dtype) for _ in range(3))
        nisa.dma_copy(dst=tile, src=x[:, place])
        nisa.dma_copy(dst=total, src=w[:, place])
        for _ in range(6):
            if fused:
                nisa.scalar_tensor_tensor(total, tile, nl.multiply, 2.0, nl.add, total)
            else:
                nisa.tensor_scalar(dst=part, data=tile, op0=nl.multiply, operand0=2.0, engine=VECTOR)
                nisa.tensor_tensor(dst=total, data1=part, data2=total, op=nl.add, engine=VECTOR)
        nisa.dma_copy(dst=y[:, place], src=total)
    return y


def softmax(x, fused):
    """Softmax of each row; ``fused``: the exponentials are added up by the instruction that computes them."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[0], ROWS):
        tile, raised = _tile(x.shape[1], x.dtype), _tile(x.shape[1], nl.float32)
        most, total = _tile(1, nl.float32), _tile(1, nl.float32)
        nisa.dma_copy(dst=tile, src=x[first : first + ROWS])
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=tile, axis=1, negate=True)
        if fused:
            sums = {"reduce_op": nl.add, "reduce_res": total, "reduce_cmd": nisa.reduce_cmd.reset_reduce}
            nisa.activation(dst=raised, op=nl.exp, data=tile, bias=most, **sums)
        else:
            nisa.activation(dst=raised, op=nl.exp, data=tile, bias=most)
            nisa.tensor_reduce(dst=total, op=nl.add, data=raised, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=raised, op0=nl.multiply, operand0=total, engine=VECTOR)
        nisa.dma_copy(dst=y[first : first + ROWS], src=tile)
    return y


def scaled_exponentials(x, scales, fused):
    """The sum over all columns of ``scales`` of exp(column * x), scaled by the activation or before it."""
    y = _output(x.shape, x.dtype)
    columns = _tile(scales.shape[1], nl.float32)
    nisa.dma_copy(dst=columns, src=scales)
    for first in range(0, x.shape[1], 1024):
        place = slice(first, first + 1024)
        tile, total = _tile(1024, x.dtype), _tile(1024, x.dtype)
        nisa.dma_copy(dst=tile, src=x[:, place])
        nisa.memset(dst=total, value=0.0)
        for number in range(scales.shape[1]):
            column, part = columns[:, number : number + 1], _tile(1024, x.dtype)
            if fused:
                nisa.activation(dst=part, op=nl.exp, data=tile, scale=column)
            else:
                nisa.tensor_scalar(dst=part, data=tile, op0=nl.multiply, operand0=column, engine=VECTOR)
                nisa.activation(dst=part, op=nl.exp, data=part)
            nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add, engine=VECTOR)
        nisa.dma_copy(dst=y[:, place], src=total)
    return y


def scaled_and_shifted(x, rounds, fused):
    """2 x + 1, ``rounds`` times over: in one instruction each, or in two."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[1], 1024):
        tile = _loaded(x[:, first : first + 1024])
        for _ in range(rounds):
            both = {"op1": nl.add, "operand1": 1.0} if fused else {}
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=VECTOR, **both)
            if not fused:
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=VECTOR)
        nisa.dma_copy(dst=y[:, first : first + 1024], src=tile)
    return y


def repeated_column(x, column, as_operand):
    """x * column ** 3, with the column as an operand of its own or as a tile that repeats its elements."""
    y = _output(x.shape, x.dtype)
    factor = _tile(1, nl.float32)
    nisa.dma_copy(dst=factor, src=column)
    for first in range(0, x.shape[1], 2048):
        tile = _loaded(x[:, first : first + 2048])
        for _ in range(3):
            if as_operand:
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor, engine=VECTOR)
            else:
                factors = factor.ap([[1, ROWS], [0, 2048]])
                nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply, engine=VECTOR)
        nisa.dma_copy(dst=y[:, first : first + 2048], src=tile)
    return y


def doubled_in_slices(x, width):
    """2 x, in instructions of ``width`` elements per partition."""
    y = _output(x.shape, x.dtype)
    for first in range(0, x.shape[1], 2048):
        tile, result = _tile(2048, x.dtype), _tile(2048, x.dtype)
        nisa.dma_copy(dst=tile, src=x[:, first : first + 2048])
        for start in range(0, 2048, width):
            part = slice(start, start + width)
            nisa.tensor_scalar(dst=result[:, part], data=tile[:, part], op0=nl.multiply, operand0=2.0, engine=VECTOR)
        nisa.dma_copy(dst=y[:, first : first + 2048], src=result)
    return y
