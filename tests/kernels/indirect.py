"""Tensor indirection: elements of tiles that offsets choose when the kernel runs."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

from .case import EPSILON, case

ROUNDS, CHOSEN, WIDTH = 4, 24, 96


def places(lists, count, group):
    """The offset of each partition and number: a list for each group, down its partitions first."""
    return np.array(
        [[part[i % group, i // group] for i in range(count)] for part in _groups(lists, group) for _ in range(group)]
    )


def _groups(lists, group):
    return lists.reshape(-1, group, lists.shape[1])


def table_and_lists(random):
    """All offsets of a list differ, so that what is added at them does not depend on an order."""
    table = random.standard_normal((64, WIDTH)).astype(np.float32)
    lists = [[random.permutation(WIDTH)[:32].reshape(2, 16).T for _ in range(4)] for _ in range(ROUNDS)]
    return [table, np.array(lists, np.uint16).reshape(ROUNDS, 64, 2)]


def doubled(table, lists):
    result = table.copy()
    rows = np.arange(64)[:, None]
    for one in lists:
        where = places(one, CHOSEN, 16)
        result[rows, where] = np.exp(result[rows, where] * 0.25) - table[:, :CHOSEN]
    return result


@case(table_and_lists, doubled, 256 * EPSILON, ("trn3",))
@nki.jit
def elements_in_place(table, lists):
    """Round after round other elements of a tile are replaced, on two engines."""
    tile, out = nl.load(table), nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    first = nl.copy(tile[:, 0:CHOSEN])
    for number in range(ROUNDS):
        index = nl.load(lists[number])
        found = nl.ndarray((64, CHOSEN), dtype=table.dtype)
        nisa.activation(found, nl.exp, tile.indirect(index, num_elem=CHOSEN), scale=0.25)
        nisa.tensor_tensor(tile.indirect(index, num_elem=CHOSEN), found, first, nl.subtract)
    nl.store(out, tile)
    return out


def columns_and_lists(random):
    left, right = (random.standard_normal((128, n)).astype(ml_dtypes.bfloat16) for n in (128, 256))
    lists = random.integers(0, 256, (128, 2)).astype(np.int32)
    return [left, right, lists, random.permutation(64)[:32].astype(np.uint32)[:, None].repeat(2, 1)]


def product_of_columns(left, right, lists, kept):
    gathered = np.take_along_axis(right, places(lists, 64, 32), 1)
    stationary = left[:, kept[:, 0]]
    return stationary.T @ gathered


@case(columns_and_lists, product_of_columns, 64 * EPSILON, ("trn3",))
@nki.jit
def matmul_of_chosen_columns(left, right, lists, kept):
    """The Tensor engine gathers both operands; all groups of the stationary tile have one list."""
    stationary, moving, index = nl.load(left), nl.load(right), nl.load(lists)
    same = nl.ndarray((128, 2), dtype=nl.uint32)
    for group in range(4):
        nisa.dma_copy(same[32 * group : 32 * group + 32], kept)
    total = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)
    chosen = stationary.indirect(same, num_elem=32)
    nisa.nc_matmul(total, chosen, moving.indirect(index, num_elem=64))
    return returned(nl.copy(total))
