"""Kernels with one planted inefficiency in the products of each, and the same kernels without it."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl
from tests.profiling.flawed_kernels import ROWS, VECTOR, _output, _tile


def sums_of_blocks(x, w, in_psum):
    """The product of the transpose of ``x`` with ``w``; PSUM adds up the parts, or Vector."""
    blocks = x.shape[0] // ROWS
    y = _output((x.shape[1], w.shape[1]), nl.float32)
    lhs, rhs = ([_tile(each.shape[1], each.dtype) for _ in range(blocks)] for each in (x, w))
    for block in range(blocks):
        nisa.dma_copy(dst=lhs[block], src=x[block * ROWS : block * ROWS + ROWS])
        nisa.dma_copy(dst=rhs[block], src=w[block * ROWS : block * ROWS + ROWS])
    for row in range(0, x.shape[1], ROWS):
        for column in range(0, w.shape[1], 512):
            total, part = _tile(512, nl.float32), _tile(512, nl.float32, nl.psum)
            if not in_psum:
                nisa.memset(dst=total, value=0.0)
            for block in range(blocks):
                if not in_psum:
                    part = _tile(512, nl.float32, nl.psum)
                operands = lhs[block][:, row : row + ROWS], rhs[block][:, column : column + 512]
                nisa.nc_matmul(dst=part, stationary=operands[0], moving=operands[1])
                if not in_psum:
                    nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add, engine=VECTOR)
            if in_psum:
                nisa.tensor_copy(dst=total, src=part, engine=VECTOR)
            nisa.dma_copy(dst=y[row : row + ROWS, column : column + 512], src=total)
    return y


def sums_of_rows(x, w, rows):
    """The sum of 256 rows of products, in products of ``rows`` rows, 32 times over."""
    y = _output((ROWS, 512), nl.float32)
    count = x.shape[0] // rows
    lhs, rhs = ([_tile(each.shape[1], each.dtype, rows=rows) for _ in range(count)] for each in (x, w))
    for number in range(count):
        nisa.dma_copy(dst=lhs[number], src=x[number * rows : number * rows + rows])
        nisa.dma_copy(dst=rhs[number], src=w[number * rows : number * rows + rows])
    total, result = _tile(512, nl.float32, nl.psum), _tile(512, nl.float32)
    for _ in range(32):
        for number in range(count):
            nisa.nc_matmul(dst=total, stationary=lhs[number], moving=rhs[number])
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=y, src=result)
    return y


def few_columns(x, w, moving):
    """The product of the transpose of ``x``, of few columns, with 512 columns of ``w``, eight times over; ``moving``:
    ``x`` moves.
    """
    columns, blocks = x.shape[1], x.shape[0] // ROWS
    short, long = ([_tile(each.shape[1], each.dtype) for _ in range(blocks)] for each in (x, w))
    for block in range(blocks):
        nisa.dma_copy(dst=short[block], src=x[block * ROWS : block * ROWS + ROWS])
        nisa.dma_copy(dst=long[block], src=w[block * ROWS : block * ROWS + ROWS])
    parts = [slice(first, first + ROWS) for first in range(0, 512, ROWS)] if moving else [slice(0, 512)]
    shape = (ROWS, columns) if moving else (columns, 512)
    y = _output((len(parts) * shape[0], shape[1]), nl.float32)
    for number, part in enumerate(parts):
        total = _tile(shape[1], nl.float32, nl.psum, shape[0])
        for block in [*range(blocks)] * 8:
            operands = (long[block][:, part], short[block]) if moving else (short[block], long[block])
            nisa.nc_matmul(dst=total, stationary=operands[0], moving=operands[1])
        result = _tile(shape[1], nl.float32, rows=shape[0])
        nisa.tensor_copy(dst=result, src=total, engine=VECTOR)
        nisa.dma_copy(dst=y[number * shape[0] : number * shape[0] + shape[0]], src=result)
    return y


def products_of_powers(x, w, products, squares, apart):
    """The sum of ``products`` by ``w`` of each power of ``x`` that Vector makes by ``squares`` from the one before:
    between two powers, or (``apart``) without gaps when all powers are there, the last one first.
    """
    columns = x.shape[1]
    y, weights, total = _output((ROWS, columns), nl.float32), _tile(ROWS, w.dtype), _tile(columns, nl.float32, nl.psum)
    nisa.dma_copy(dst=weights, src=w)
    power, powers = _tile(columns, x.dtype), []
    nisa.dma_copy(dst=power, src=x)
    for step in range(24):
        for number in range(0 if apart else products):
            nisa.nc_matmul(dst=total, stationary=weights, moving=power, accumulate=step + number > 0)
        powers.append(power)
        power = _tile(columns, x.dtype) if apart else power
        nisa.tensor_tensor(dst=power, data1=powers[-1], data2=powers[-1], op=nl.multiply, engine=VECTOR)
        for _ in range(squares - 1):
            nisa.tensor_tensor(dst=power, data1=power, data2=power, op=nl.multiply, engine=VECTOR)
    for step, each in enumerate(reversed(powers) if apart else ()):
        for number in range(products):
            nisa.nc_matmul(dst=total, stationary=weights, moving=each, accumulate=step + number > 0)
    result = _tile(columns, nl.float32)
    nisa.tensor_tensor(dst=result, data1=total, data2=power, op=nl.add, engine=VECTOR)
    nisa.dma_copy(dst=y, src=result)
    return y
