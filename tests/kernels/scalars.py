"""Scalars that the device computes: as offsets, bounds and results."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

from .case import EPSILON, case


def pages(dtype):
    def make(random):
        cache = random.standard_normal((12, 64)).astype(np.float32)
        return [cache, np.array([[3, 1, 5]], dtype), np.array([[2]], np.int32)]

    return make


def summed(cache, table, count):
    rows = [2 * int(page) + half for page in table[0, : int(count[0, 0]) + 1] for half in (0, 1)]
    return [sum(cache[row] for row in rows).reshape(1, 64), np.array([[len(rows)]])]


def sum_of_pages(cache, table, count):
    """The sum of the rows of the first ``count + 1`` pages of two rows, and how many rows these are."""
    total = nl.zeros((1, 64), nl.float32)
    row = nl.ndarray((1, 64), nl.float32)
    entries = nl.ndarray(table.shape, table.dtype)
    entries[...] = table
    most = nisa.scalar_load(nl.load(count)) + 1
    entry = nl.ndarray((1, 1), table.dtype)

    def visit(i):
        nisa.dma_copy(entry, entries[0:1, nl.ds(i, 1)])
        first = nisa.scalar_load(entry) * 2

        for half in range(2):
            row[...] = cache[nl.ds(first + half, 1)]
            nisa.tensor_tensor(total, total, row, nl.add)

    nl.fori_loop(0, most, visit)
    out = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    out[...] = total
    rows = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.scalar_store(rows, most + most)
    return out, rows


@case(pages(np.int32), summed, 8 * EPSILON)
@nki.jit
def sum_of_pages_by_int32(cache, table, count):
    return sum_of_pages(cache, table, count)


@case(pages(np.int64), summed, 8 * EPSILON)
@nki.jit
def sum_of_pages_by_int64(cache, table, count):
    return sum_of_pages(cache, table, count)
