"""Kernels with every collective, for tests that run them on ranks of different kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

Groups = tuple[tuple[int, ...], ...]
ROWS, COLUMNS = 12, 5
"""Of the argument; groups of 1, 2, 3 and 4 ranks divide the rows."""


def _new(shape: Any, dtype: Any, name: str) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm, name=name)


def _given(a: Any, name: str) -> Any:
    copy = _new(a.shape, a.dtype, name)
    nisa.dma_copy(dst=copy, src=a)
    return copy


def _result(t: Any) -> Any:
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


@nki.jit
def every_collective(a: Any, table: Any, groups: Groups) -> Any:
    """The results of all collectives of ``a`` among ``groups``; ``table`` has the pieces of the ones by count."""
    group, count = ncc.ReplicaGroup(groups), len(groups[0])
    src, part = _given(a, "src"), (a.shape[0] // count, a.shape[1])
    total, least = _new(a.shape, a.dtype, "total"), _new(a.shape, a.dtype, "least")
    ncc.all_reduce([src], [total], group, nl.add)
    ncc.all_reduce([src], [least], group, nl.minimum)
    gathered = _new((a.shape[0] * count, a.shape[1]), a.dtype, "gathered")
    ncc.all_gather([src], [gathered], group, 0)
    scattered = _new(part, a.dtype, "scattered")
    ncc.reduce_scatter([src], [scattered], group, 0, nl.add)
    swapped = _new(a.shape, a.dtype, "swapped")
    ncc.all_to_all([src], [swapped], group, 0)
    around = _new(a.shape, a.dtype, "around")
    ncc.collective_permute_implicit([[src]], [[around]], group)
    joined = _new(a.shape, a.dtype, "joined")
    ncc.collective_permute_implicit_reduce([[src]], [[around]], [[joined]], group, nl.maximum)
    permuted = _given(a, "permuted")
    ncc.collective_permute([src], [permuted], [(groups[0][0], groups[0][-1])])
    counts = _given(table, "counts")
    pieces = _new(a.shape, a.dtype, "pieces")
    nisa.dma_copy(dst=pieces, src=a)
    ncc.all_to_all_v([src], [pieces], group, counts)
    tile = nl.load(a)
    summed = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    ncc.all_reduce([tile], [summed], group, nl.add)
    kept = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=kept, src=summed)
    tensors = (total, least, gathered, scattered, swapped, around, joined, permuted, pieces, counts)
    return (*[_result(t) for t in tensors], kept)


@nki.jit
def sum_of_all(a: Any, groups: Groups) -> Any:
    """The sum over each group."""
    src, total = _given(a, "src"), _new(a.shape, a.dtype, "total")
    ncc.all_reduce([src], [total], ncc.ReplicaGroup(groups), nl.add)
    return _result(total)


@nki.jit
def least_of_all(a: Any, groups: Groups) -> Any:
    """The minimum over each group."""
    src, least = _given(a, "src"), _new(a.shape, a.dtype, "least")
    ncc.all_reduce([src], [least], ncc.ReplicaGroup(groups), nl.minimum)
    return _result(least)


@nki.jit
def sum_by_core(a: Any, groups: Groups) -> Any:
    """The sum over each group, of a tile that each of two cores has: its half of the rows."""
    core, half = nl.program_id(0), a.shape[0] // 2
    rows = nl.ds(core * half, half)
    tile = nl.load(a[rows])
    total = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    ncc.all_reduce([tile], [total], ncc.ReplicaGroup(groups), nl.add)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[rows], src=total)
    return out


def argument(rank: int, dtype: Any = np.float32) -> Any:
    """The argument of ``rank``: sums in another order would have other bits."""
    return np.random.default_rng(rank).normal(size=(ROWS, COLUMNS)).astype(dtype)


def pieces(rank: int, count: int) -> Any:
    """A table of counts, displacements, and room for what comes, for a group of ``count`` ranks."""
    slot = ROWS * COLUMNS // count
    sent = [(rank + place) % slot for place in range(count)]
    return np.array([sent, np.arange(count) * slot, [0] * count], np.uint32)
