"""Kernels that compute the same again in each round, and the same kernels that compute it once."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl
from tests.profiling.flawed_kernels import ROWS, VECTOR, _output, _tile


def norm(tile):
    """The rows of ``tile`` over the root of their mean square."""
    columns = tile.shape[1]
    squares, total, result = _tile(columns, nl.float32), _tile(1, nl.float32), _tile(columns, tile.dtype)
    nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / columns, op1=nl.add, operand1=1e-6)
    nisa.activation(dst=total, op=nl.rsqrt, data=total)
    nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=total, engine=VECTOR)
    return result


def _rows(x, number):
    tile = _tile(x.shape[1], x.dtype)
    nisa.dma_copy(dst=tile, src=x[number * ROWS : number * ROWS + ROWS])
    return tile


def sums_of_norms(q, k, before):
    """Each block of normalised rows of ``q`` plus all blocks of ``k``, which are normalised once, or for each."""
    y = _output(q.shape, q.dtype)
    blocks = k.shape[0] // ROWS
    kept = [norm(_rows(k, number)) for number in range(blocks)] if before else None
    for number in range(q.shape[0] // ROWS):
        total = norm(_rows(q, number))
        for block in range(blocks):
            other = kept[block] if kept else norm(_rows(k, block))
            nisa.tensor_tensor(dst=total, data1=total, data2=other, op=nl.add, engine=VECTOR)
        nisa.dma_copy(dst=y[number * ROWS : number * ROWS + ROWS], src=total)
    return y


def weighted_in_a_loop(x, w, before):
    """``x`` times the exponential of ``w``, which each iteration of a loop on the device computes, or one for all."""
    y = _output(x.shape, x.dtype)

    def weights():
        tile, raised = _rows(w, 0), _tile(w.shape[1], nl.float32)
        nisa.activation(dst=raised, op=nl.exp, data=tile)
        nisa.tensor_scalar(dst=raised, data=raised, op0=nl.add, operand0=1.0, engine=VECTOR)
        nisa.reciprocal(dst=raised, data=raised)
        return raised

    kept = weights() if before else None

    def body(i):
        tile = _tile(x.shape[1], x.dtype)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * ROWS, ROWS)])
        factors = kept if before else weights()
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply, engine=VECTOR)
        nisa.dma_copy(dst=y[nl.ds(i * ROWS, ROWS)], src=tile)

    nl.fori_loop(0, x.shape[0] // ROWS, body)
    return y


def products_with_powers(x, w, before):
    """Products of each block of columns of ``x`` with a function of ``w``, which is computed for each, or once."""
    columns = w.shape[1]
    y = _output((x.shape[1], columns), nl.bfloat16)
    plain = _rows(w, 0)
    kept = None
    for number in range(x.shape[1] // ROWS):
        block = _tile(ROWS, x.dtype)
        nisa.dma_copy(dst=block, src=x[:, number * ROWS : number * ROWS + ROWS])
        if kept is None or not before:
            kept = _tile(columns, w.dtype)
            for half in range(2):
                part = slice(half * columns // 2, (half + 1) * columns // 2)
                nisa.activation(dst=kept[:, part], op=nl.tanh, data=plain[:, part])
                nisa.activation(dst=kept[:, part], op=nl.tanh, data=kept[:, part])
                nisa.activation(dst=kept[:, part], op=nl.tanh, data=kept[:, part])
        total, result = _tile(columns, nl.float32, nl.psum), _tile(columns, nl.bfloat16)
        nisa.nc_matmul(dst=total, stationary=block, moving=kept)
        nisa.tensor_copy(dst=result, src=total, engine=VECTOR)
        nisa.dma_copy(dst=y[number * ROWS : number * ROWS + ROWS], src=result)
    return y


def changing(x, form):
    """Rounds that look alike with results that differ: the data, the tile, or the number change."""
    y = _output((4 * ROWS, x.shape[1]), x.dtype)
    between = nl.ndarray((ROWS, x.shape[1]), dtype=x.dtype, buffer=nl.hbm)
    source = _rows(x, 0)
    nisa.dma_copy(dst=between, src=source)
    for number in range(4):
        raised = _tile(x.shape[1], x.dtype)
        if form == "stored":
            tile = _tile(x.shape[1], x.dtype)
            nisa.dma_copy(dst=tile, src=between)
            nisa.activation(dst=raised, op=nl.tanh, data=tile)
            nisa.dma_copy(dst=between, src=raised)
        elif form == "tile":
            nisa.activation(dst=raised, op=nl.tanh, data=source)
            nisa.tensor_scalar(dst=source, data=source, op0=nl.add, operand0=1.0, engine=VECTOR)
        else:
            nisa.tensor_scalar(dst=raised, data=source, op0=nl.add, operand0=float(number), engine=VECTOR)
        nisa.dma_copy(dst=y[number * ROWS : number * ROWS + ROWS], src=raised)
    return y
