"""DMA as kernels use it: transposes with and without gathered rows, and sums in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ArgumentError, GenerationError, NkiError, OutOfBoundsError
from tests.support.kernel_parts import returned

BOTH = pytest.mark.parametrize("how", [lambda k: k, nki.simulate], ids=["native", "eager"])
How = Callable[[Any], Callable[..., Any]]
skip = nisa.oob_mode.skip


def numbers(*shape: int, kind: Any = ml_dtypes.bfloat16) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(kind)


def indices(*rows: int, columns: int = 1) -> Any:
    return np.array(rows, np.uint32).reshape(columns, -1).T.copy()


@nki.jit
def turned(a, axes=None, through=False):
    """``a`` with its first and last dimensions exchanged, straight from HBM or out of a tile."""
    shape = (a.shape[-1], *a.shape[1:-1], a.shape[0])
    src = nl.load(a) if through else a
    tile = nl.ndarray(shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(tile, src, axes=axes)
    return returned(tile)


@BOTH
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("shape", [(5, 7), (16, 128), (6, 3, 9), (16, 2, 5, 24), (3, 1, 4, 2)])
@pytest.mark.parametrize("kind", [np.uint8, ml_dtypes.bfloat16, np.float32])
def test_first_and_last_dimension_change_places(how: How, shape: tuple[int, ...], through: bool, kind: Any) -> None:
    a = numbers(*shape, kind=np.float32).view(np.uint32).astype(np.uint8 if kind is np.uint8 else kind)
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    np.testing.assert_array_equal(how(turned)(a, axes, through), a.transpose(axes))
    np.testing.assert_array_equal(how(turned)(a, None, through), a.transpose(axes))


@nki.jit
def window_of_window(a):
    """The middle columns of some rows, into a part of a tile: neither side is dense."""
    tile = nl.ndarray((6, 20), a.dtype, buffer=nl.sbuf)
    nisa.memset(tile, -1.0)
    nisa.dma_transpose(tile[0:6, 2:18:2], a[8:16, 5:11])
    return returned(tile)


@BOTH
def test_windows_are_transposed_in_place(how: How) -> None:
    a = numbers(20, 16)
    want = np.full((6, 20), -1, a.dtype)
    want[:, 2:18:2] = a[8:16, 5:11].T
    np.testing.assert_array_equal(how(window_of_window)(a), want)


@nki.jit
def cache_rows(table, index, rows, oob_mode=nisa.oob_mode.error):
    """Rows of a table (blocks, 1, length, width), chosen by ``index``, with the width on the partitions."""
    _, one, length, width = table.shape
    chosen = nl.load(index)
    tile = nl.ndarray((width, one, length, rows), table.dtype, buffer=nl.sbuf)
    nisa.memset(tile, -1.0)
    step = length * width
    src = table.ap([[step, rows], [step, 1], [width, length], [1, width]], vector_offset=chosen, indirect_dim=0)
    nisa.dma_transpose(tile, src, axes=(3, 1, 2, 0), dge_mode=nisa.dge_mode.swdge, oob_mode=oob_mode)
    return returned(tile)


def gathered(table: Any, chosen: list[int]) -> Any:
    """What that leaves: -1 where an index is outside."""
    want = np.full((table.shape[3], *table.shape[1:3], len(chosen)), -1, table.dtype)
    for place, row in enumerate(chosen):
        if row < len(table):
            want[..., place] = table[row].transpose(2, 0, 1)
    return want


@BOTH
@pytest.mark.parametrize(("count", "columns", "rows"), [(16, 1, 16), (48, 1, 32), (256, 2, 256), (384, 3, 272)])
def test_indices_go_down_one_column_after_the_other(how: How, count: int, columns: int, rows: int) -> None:
    table = numbers(40, 1, 3, 24)
    chosen = [int(i) for i in np.random.default_rng(columns).integers(0, 40, count)]
    got = how(cache_rows)(table, indices(*chosen, columns=columns), rows)
    np.testing.assert_array_equal(got, gathered(table, chosen[:rows]))


@BOTH
def test_a_skipped_row_leaves_its_column_alone(how: How) -> None:
    table = numbers(40, 1, 3, 24)
    chosen = [7, 40, 39, 2**32 - 1, *range(12)]
    np.testing.assert_array_equal(how(cache_rows)(table, indices(*chosen), 16, skip), gathered(table, chosen))
    with pytest.raises(OutOfBoundsError, match=r"dma_transpose: src 'table' .* at run-time index 40 from 'chosen'"):
        how(cache_rows)(table, indices(*chosen), 16)


def test_trn1_gathers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    np.testing.assert_array_equal(turned(numbers(16, 8)), numbers(16, 8).T)
    with pytest.raises(GenerationError, match="trn1 has no DMA with an index for each row"):
        cache_rows(numbers(40, 1, 3, 24), indices(*range(16)), 16)


@nki.jit
def one_of_several(a, index, oob_mode=nisa.oob_mode.error):
    """A single index chooses the matrix that is transposed."""
    where = nl.load(index)
    tile = nl.ndarray((a.shape[2], a.shape[1]), a.dtype, buffer=nl.sbuf)
    nisa.memset(tile, -1.0)
    nisa.dma_transpose(tile, a.select(0, where), oob_mode=oob_mode)
    return returned(tile)


@BOTH
def test_one_index_moves_all_of_it(how: How) -> None:
    a = numbers(4, 6, 8, kind=np.float32)
    np.testing.assert_array_equal(how(one_of_several)(a, np.array([[2]], np.int32)), a[2].T)
    np.testing.assert_array_equal(how(one_of_several)(a, np.array([[9]], np.int32), skip), np.full((8, 6), -1, a.dtype))


@nki.jit
def rows_as(a, index, kind):
    """Rows of ``a``, seen as ``kind``, where an index is inside; of the others what was there before."""
    table = a.view(kind)
    tile = nl.ndarray((index.shape[0], table.shape[1]), kind, buffer=nl.sbuf)
    nisa.dma_copy(tile, table[0 : index.shape[0]])
    nisa.dma_copy(tile, table.vector_select(0, nl.load(index)), oob_mode=skip)
    out = nl.ndarray((index.shape[0], a.shape[1]), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out.view(kind), tile)
    return out


@BOTH
@pytest.mark.parametrize(
    "kind", [nl.int32, nl.uint32, nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4], ids=str
)
def test_gathered_elements_keep_their_bits(how: How, kind: Any) -> None:
    """Integers beyond 2**24, and packed elements, next to a row that is skipped."""
    a = np.random.default_rng(3).integers(0, 2**32, (6, 8), np.uint32)
    got = how(rows_as)(a, np.array([[5], [6], [0], [2**32 - 1]], np.uint32), kind)
    np.testing.assert_array_equal(got, a[[5, 1, 0, 3]])


@nki.jit
def flattened(data, index, kind=None):
    tile = nl.load(data).reshape((data.shape[0], 2, data.shape[1] // 2))
    picked = nl.gather_flattened(tile, nl.load(index), dtype=kind)
    return returned(picked)


@BOTH
@pytest.mark.parametrize("index", [np.uint32, np.int32, np.uint16, np.uint8])
@pytest.mark.parametrize("kind", [None, nl.bfloat16, nl.float32])
def test_elements_are_gathered_in_their_partitions(how: How, index: Any, kind: Any) -> None:
    data = numbers(32, 64, kind=np.float32)
    chosen = np.random.default_rng(4).integers(0, 64, (32, 10)).astype(index)
    got = how(flattened)(data, chosen, kind)
    want = np.take_along_axis(data, chosen.astype(np.int64), 1)
    np.testing.assert_array_equal(got, want if kind is None else want.astype(kind.dtype), strict=True)


def test_what_cannot_be_gathered_is_refused() -> None:
    def other_axis(a):
        return nl.gather_flattened(nl.load(a), nl.load(a), axis=1)

    def numbers_as_indices(a):
        return nl.gather_flattened(nl.load(a), nl.load(a))

    def no_tile(a):
        return nl.gather_flattened(nl.load(a), 3)

    for body, says in ((other_axis, "axis=1"), (numbers_as_indices, "nc_n_gather: indices"), (no_tile, "is a int")):
        with pytest.raises(NkiError, match=says):
            nki.simulate(body)(numbers(4, 6, kind=np.float32))


@nki.jit
def total(a, b, c):
    out = nl.ndarray(a.shape, nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(c)
    nisa.dma_compute(out, [a, b.reshape((a.shape[0], 1, a.shape[1])), tile], reduce_op=nl.add, scales=[1.0, 1.0, 1.0])
    return out


@BOTH
@pytest.mark.filterwarnings("ignore:dma_compute. a result is not exact in float32:nki.NkiWarning")  # 2**24 + 1
def test_sums_are_taken_in_float32_and_rounded_once(how: How) -> None:
    a, b, c = (np.full((4, 6), v, np.float32) for v in (256.0, 1.0, 1.0))
    np.testing.assert_array_equal(how(total)(a, b, c), np.full((4, 6), 258, ml_dtypes.bfloat16))
    a, b, c = (np.full((4, 6), v, np.int32) for v in (2**24, 1, -(2**24)))
    np.testing.assert_array_equal(how(total)(a, b, c), np.zeros((4, 6), ml_dtypes.bfloat16))


@nki.jit
def experts(table, index, oob_mode=nisa.oob_mode.error):
    """For each token the sum of its rows: the first is copied, the others are added to it."""
    tokens, count = index.shape
    chosen = nl.load(index)
    tile = nl.ndarray((tokens, table.shape[1]), table.dtype, buffer=nl.sbuf)
    nisa.memset(tile, 0.0)
    for k in range(count):
        rows = table.vector_select(0, chosen[:, k : k + 1])
        if k == 0:
            nisa.dma_copy(dst=tile, src=rows, oob_mode=oob_mode)
        else:
            nisa.dma_compute(dst=tile, srcs=[rows, tile], reduce_op=nl.add, unique_indices=True, oob_mode=oob_mode)
    return returned(tile)


@nki.jit
def scattered_by_constants(start, tile, first):
    """``start`` with the rows of ``tile`` added to the rows from ``first`` on, or all to the first row."""
    out = nl.ndarray(start.shape, start.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, start)
    index = nl.ndarray((tile.shape[0], 1), nl.uint32)
    if first is None:
        nisa.memset(index, 0)
    else:
        nisa.iota(index, [[1, 1]], offset=first, channel_multiplier=1)
    rows = out.vector_select(0, index)
    nisa.dma_compute(rows, [rows, nl.load(tile)], nl.add)
    return out


def test_rows_that_are_added_to_have_unique_indices() -> None:
    table, tile = numbers(9, 6, kind=np.float32), numbers(3, 6, 1, kind=np.float32)[..., 0]
    twice = np.array([[1], [2], [1]], np.uint32)
    with pytest.raises(ArgumentError, match=r"DA11.* names no row of dst 'out' twice: row 1 is named 2 times"):
        nki.simulate(scattered)(table, tile, twice)
    want = table.copy()
    np.add.at(want, twice[:, 0], tile)
    np.testing.assert_array_equal(scattered(table, tile, twice), want)
    outside = np.array([[1], [100], [100]], np.uint32)  # which adds to no row
    want = table.copy()
    want[1] += tile[0]
    np.testing.assert_array_equal(nki.simulate(scattered)(table, tile, outside, skip), want)


@BOTH
def test_constant_indices_that_name_a_row_twice_are_refused_before_any_run(how: How) -> None:
    table, tile = numbers(9, 6, kind=np.float32), numbers(3, 6, 1, kind=np.float32)[..., 0]
    want = table.copy()
    want[4:7] += tile
    np.testing.assert_array_equal(how(scattered_by_constants)(table, tile, 4), want)
    with pytest.raises(ArgumentError, match=r"DA11.* row 0 is named 3 times"):
        how(scattered_by_constants)(table, tile, None)


@nki.jit
def scattered(start, tile, index, oob_mode=nisa.oob_mode.error):
    """``start`` with the rows of ``tile`` added to those that ``index`` names."""
    out = nl.ndarray(start.shape, start.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, start)
    rows = out.vector_select(0, nl.load(index))
    nisa.dma_compute(rows, [rows, nl.load(tile)], nl.add, oob_mode=oob_mode)
    return out


@BOTH
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
def test_rows_are_added_to_a_tile_and_a_tile_to_rows(how: How, kind: Any) -> None:
    table, tile = numbers(9, 6, kind=kind), numbers(3, 6, 1, kind=kind)[..., 0]
    picks = np.array([[3, 8], [0, 100], [5, 5]], np.uint32)

    def add(x: Any, y: Any) -> Any:
        return (x.astype(np.float32) + y.astype(np.float32)).astype(kind)

    want = np.stack([add(table[3], table[8]), table[0], add(table[5], table[5])])
    np.testing.assert_array_equal(how(experts)(table, picks, skip), want)
    want = table.copy()
    want[8], want[5] = add(table[8], tile[0]), add(table[5], tile[2])
    np.testing.assert_array_equal(how(scattered)(table, tile, picks[:, 1:].copy(), skip), want)
    for kernel, arguments in ((experts, (table, picks)), (scattered, (table, tile, picks[:, 1:].copy()))):
        with pytest.raises(OutOfBoundsError, match=r"dma_compute: .* at run-time index 100\b"):
            how(kernel)(*arguments)


def test_a_list_of_something_else_is_refused() -> None:
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nisa.dma_compute(out, [a, 1.0], nl.add)
        return out

    with pytest.raises(NkiError, match=r"dma_compute: srcs=.* is not made of tensors"):
        nki.simulate(kernel)(numbers(4, 6))
