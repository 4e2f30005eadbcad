"""Gathers, searches and shuffles as real kernels combine them, and at the sizes that the reference allows."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

BOTH = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["native", "simulated"])


@nki.jit
def affinities(scores, indices):
    """Scores gathered into every other column of a wider tile; all of the tile is read back."""
    wide = nl.ndarray((128, 16, 32), dtype=nl.float32)
    source, index = nl.ndarray(scores.shape, dtype=nl.float32), nl.ndarray(indices.shape, dtype=nl.uint16)
    nisa.dma_copy(dst=source, src=scores)
    nisa.dma_copy(dst=index, src=indices)
    nisa.memset(wide, -1.0)
    nisa.local_gather(
        dst=wide.ap([[512, 128], [32, 16], [2, 16]], offset=1),
        src_buffer=source,
        index=index,
        num_elem_per_idx=1,
        num_valid_indices=256,
    )
    return returned(wide)


@BOTH
def test_local_gather_fills_a_window_and_nothing_else(run) -> None:
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((128, 60)).astype(np.float32)
    indices = rng.integers(0, 60, (128, 16)).astype(np.uint16)
    got = run(affinities)(scores, indices)
    for group in range(8):
        rows = slice(16 * group, 16 * group + 16)
        listed = indices[rows].flatten(order="F")
        np.testing.assert_array_equal(got[rows, :, 1::2].reshape(16, 256), scores[rows][:, listed])
    assert (got[:, :, ::2] == -1).all()


@nki.jit
def in_place(data, indices):
    """A gather, and a shuffle, from a tile to itself."""
    tile, index = nl.ndarray(data.shape, dtype=data.dtype), nl.ndarray(indices.shape, dtype=nl.uint32)
    nisa.dma_copy(dst=tile, src=data)
    nisa.dma_copy(dst=index, src=indices)
    nisa.nc_n_gather(dst=tile, data=tile, indices=index)
    nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[*range(1, 31), 255, 0])
    return returned(tile)


@BOTH
@pytest.mark.parametrize("kind", [np.float32, np.int8, np.uint16])
def test_reads_come_before_writes(run, kind) -> None:
    rng = np.random.default_rng(4)
    data = rng.integers(0, 100, (96, 37)).astype(kind)
    indices = rng.integers(0, 37, (96, 37)).astype(np.uint32)
    want = np.take_along_axis(data, indices.astype(np.int64), axis=1)
    order = np.array([*range(1, 31), 30, 0])
    want = np.concatenate([want[q + order] for q in range(0, 96, 32)])
    np.testing.assert_array_equal(run(in_place)(data, indices), want)


@nki.jit
def best(rows, count):
    """The ``count`` largest of each row and their columns, in ascending order."""
    total, n = rows.shape
    columns, kept = n // 16, -(-count // 16)
    values = nl.ndarray((total, 16, kept), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    places = nl.ndarray((total, 16, kept), dtype=nl.uint32, buffer=nl.shared_hbm)
    snake = nl.ndarray((16 * total, columns), dtype=nl.bfloat16)
    for row in range(total):  # column c of a group holds 16 neighbours
        nisa.dma_copy(dst=snake[16 * row : 16 * row + 16, :], src=rows.ap([[1, 16], [16, columns]], offset=row * n))
    value, place = (nl.ndarray((16 * total, count), dtype=kind) for kind in (nl.bfloat16, nl.uint32))
    nisa.memset(value, 0)
    nisa.memset(place, 0)
    nisa.topk(val_dst=value, idx_dst=place, src=snake, n=n)
    for tile, result in ((value, values), (place, places)):
        for row in range(total):
            nisa.dma_copy(dst=result[row], src=tile[16 * row : 16 * row + 16, 0:kept])
    return values, places


@BOTH
@pytest.mark.parametrize(("total", "n", "count"), [(8, 64, 16), (2, 4096, 100), (1, 65520, 32767)])
def test_topk_of_rows(run, total: int, n: int, count: int) -> None:
    rows = np.random.default_rng(n).standard_normal((total, n)).astype(np.float32).astype(nl.bfloat16)
    values, places = (a.swapaxes(1, 2).reshape(total, -1)[:, :count] for a in run(best)(rows, count))
    for row in range(total):
        order = sorted(range(n), key=lambda i: (-float(rows[row, i]), i))[:count][::-1]
        np.testing.assert_array_equal(places[row], order)
        np.testing.assert_array_equal(values[row].astype(np.float32), rows[row, order].astype(np.float32))


@nki.jit
def found(mask, offset):
    """Where columns of ``mask`` are not zero: eight columns, each in the first partition of a GpSimd core."""
    length = mask.shape[0]
    source = nl.ndarray((128, length), dtype=nl.float32)
    for column in range(8):
        nisa.dma_copy(dst=source[16 * column : 16 * column + 1, :], src=mask.ap([[1, 1], [8, length]], offset=column))
    listed = nl.ndarray((128, length + 1), dtype=nl.int32)
    nisa.memset(listed, 0)
    nisa.nonzero_with_count(dst=listed, src=source, index_offset=offset, padding_val=-1)
    out = nl.ndarray((128, length + 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=listed)
    # The odd cores' results move to where a quadrant can be read.
    nisa.nc_stream_shuffle(dst=listed, src=listed, shuffle_mask=[16] + [255] * 31)
    odd = nl.ndarray((128, length + 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=odd, src=listed)
    return out, odd


@BOTH
def test_nonzero_elements_of_columns(run) -> None:
    mask = (np.random.default_rng(5).random((300, 8)) < [0, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1]).astype(np.float32)
    out, odd = run(found)(mask, 1000)
    for column in range(8):
        where = np.flatnonzero(mask[:, column])
        want = [*(where + 1000), *[-1] * (300 - len(where)), len(where)]
        assert out[16 * column].tolist() == want
        if column % 2:
            assert odd[32 * (column // 2)].tolist() == want
    assert not out[np.arange(128) % 16 != 0].any()


@nki.jit
def bounds(ids):
    tile = nl.ndarray(ids.shape, dtype=ids.dtype)
    nisa.dma_copy(dst=tile, src=ids)
    held = nl.ndarray((1, 2, ids.shape[1]), dtype=ids.dtype)
    nisa.sequence_bounds(dst=held, segment_ids=tile)
    return returned(held)


@BOTH
@pytest.mark.parametrize("kind", [np.int32, np.float32])
@pytest.mark.parametrize("n", [1, 2, 513, 4096])
def test_bounds_of_packed_sequences(run, kind, n: int) -> None:
    rng = np.random.default_rng(n)
    lengths = [int(length) for length in rng.integers(1, max(2, n // 3), n)]
    ids = np.repeat(np.arange(n) % 5, lengths)[:n].astype(kind)[None]
    edges = np.flatnonzero(np.diff(ids[0], prepend=-1))
    ends = [*edges[1:], n]
    want = np.empty((1, 2, n), kind)
    for first, last in zip(edges, ends, strict=True):
        want[0, :, first:last] = [[n], [-1]] if ids[0, first] == 0 else [[first], [last]]
    np.testing.assert_array_equal(run(bounds)(ids), want)
