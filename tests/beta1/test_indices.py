"""Index expressions, on chip and in HBM, against NumPy's indexing of the same elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki
from nki.base.errors import NkiError

P, F = np.arange(4)[:, None], np.arange(6)[None, :]
GRID = np.mgrid[0:4, 0:2, 0:3]

CASES = {
    "arange": (lambda: (nl.arange(4)[:, None], nl.arange(6)[None, :]), (P, F)),
    "offset and step": (lambda: (nl.arange(4)[:, None] + 2, 2 * nl.arange(6)[None, :] + 1), (P + 2, 2 * F + 1)),
    "backwards": (lambda: (nl.arange(4)[:, None], 7 - nl.arange(6)[None, :]), (P, 7 - F)),
    "mgrid": (lambda: tuple(nl.mgrid[0:4, 0:6]), (P, F)),
    "named axes": (lambda: (nl.mgrid[0:4, 0:6].p, nl.mgrid[0:4, 0:6].x), (P, F)),
    "integer column": (lambda: (nl.arange(4)[:, None], 3), (P, np.array([[3]]))),
    "two variables": (lambda: _two(), (GRID[0], 4 * GRID[1] + GRID[2])),
    "halved": (lambda: (nl.arange(4)[:, None], (4 * nl.arange(6)[None, :]) // 2), (P, 2 * F)),
    "slices": (lambda: (slice(0, 4), slice(1, 13, 2)), (slice(0, 4), slice(1, 13, 2))),
    "ds": (lambda: (nl.ds(0, 4), nl.ds(5, 6)), (slice(0, 4), slice(5, 11))),
    "ellipsis": (lambda: (slice(0, 4), ...), (slice(0, 4), ...)),
    "negative": (lambda: (slice(-4, None), slice(None, -10)), (slice(-4, None), slice(None, -10))),
}


def _two() -> Any:
    p, i, j = nl.mgrid[0:4, 0:2, 0:3]
    return p, 4 * i + j


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("on_chip", [False, True])
def test_an_index_names_these_elements(both: Any, data: Any, case: str, on_chip: bool) -> None:
    made, expected = CASES[case]
    x = data(8, 16)
    want = x[expected]
    if on_chip and case == "offset and step":  # engines start at partitions 0, 32, 64 and 96
        made, want = lambda: (nl.arange(4)[:, None], 2 * nl.arange(6)[None, :] + 1), x[P, 2 * F + 1]
    shape = want.shape

    @nki.jit
    def kernel(x):
        index = made()
        out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.load(x)[index]) if on_chip else nl.load(x[index]))
        return out

    assert (both(kernel, x) == want).all()


def test_ranks_below_two_become_columns(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        assert tile.shape == (8, 1)
        nl.store(out, tile)
        return out

    x = data(8)
    assert (both(kernel, x) == x).all()


def test_an_integer_keeps_the_partition_and_drops_other_dimensions(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        assert tile[0].shape == (1, 3, 4)
        assert tile[0:2, 1].shape == (2, 4)
        nl.store(out, nl.copy(tile[0:2, 1]))
        return out

    x = data(2, 3, 4)
    assert (both(kernel, x) == x[:, 1]).all()


def test_an_index_tile_gathers_and_scatters_rows(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(4)[:, None], nl.arange(6)[None, :]
        chosen = nl.load(rows[p])
        tile = nl.load(x[chosen[p, 0], f])
        nl.store(out, nl.zeros((8, 6), dtype=x.dtype))
        nl.store(out[nisa.iota(2 * nl.arange(4)[:, None], dtype=np.int32), f], tile)
        return out

    x, rows = data(9, 6), np.array([5, 0, 8, 3], np.int32)
    want = np.zeros((8, 6), np.float32)
    want[::2] = x[rows]
    assert (both(kernel, x, rows) == want).all()


def test_an_index_tile_adds_to_rows(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.ones((8, 6), dtype=x.dtype))
        rows = nisa.iota(2 * nl.arange(4)[:, None], dtype=np.int32)
        nl.atomic_rmw(out[rows, nl.arange(6)[None, :]], nl.load(x), op=np.add)
        return out

    x = data(4, 6)
    want = np.ones((8, 6), np.float32)
    want[::2] += x
    assert (both(kernel, x) == want).all()


def test_a_free_index_that_only_the_data_tell(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, where):
        out = nl.ndarray((4, 3), dtype=x.dtype, buffer=nl.shared_hbm)
        tile, at = nl.load(x), nl.load(where)
        p, f = nl.mgrid[0:4, 0:1]
        result = nl.ndarray((4, 3), dtype=x.dtype)
        for i in nl.affine_range(3):
            result[p, i] = nisa.tensor_copy_dynamic_src(tile[p, at[0, i] + f])
        nl.store(out, result)
        return out

    x, where = data(4, 9), np.array([[7, 0, 2]], np.int32)
    assert (both(kernel, x, where) == x[:, [7, 0, 2]]).all()


def test_reshape_view_and_expand(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 12), dtype=np.int32, buffer=nl.shared_hbm)
        tile = nl.load(x.reshape((4, 3, 4))).reshape((4, 12))
        assert tile.expand_dims(2).shape == (4, 12, 1)
        nl.store(out, nl.copy(tile.view(np.int32)))
        return out

    x = data(12, 4)
    assert (both(kernel, x) == x.reshape(4, 12).view(np.int32)).all()


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (lambda: (nl.arange(4),), "1d_arange"),
        (lambda: (nl.arange(4)[:, None], slice(0, 6)), "unsupported_mixing_basic_advanced_tensor_indexing"),
        (lambda: (nl.arange(4)[:, None], nl.arange(6)[None, :] + 11), "tensor_access_out_of_bound"),
        (lambda: (slice(0, 4), slice(0, 17)), "tensor_access_out_of_bound"),
        (lambda: (0, 0, 0), "3 indices"),
        (lambda: (nl.arange(4)[:, None], nl.arange(6)[:, None]), "broadcast|shape"),
    ],
)
def test_an_index_that_is_none(data: Any, index: Any, text: str) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[index()]))
        return out

    with pytest.raises(NkiError, match=text):
        kernel(data(8, 16))


def test_a_run_time_number_behind_a_slice_takes_its_dimension_away(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, which):
        out = nl.ndarray((16, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        chosen = nl.load(which)
        tile = nl.ndarray((16, 2, 3), dtype=x.dtype, buffer=nl.sbuf).reshape((16, 6))
        tile[...] = nl.load(x[:, chosen[0, 1]])
        tile[:, 0:3] = nl.load(x[:, chosen[0, 2], nl.ds(1, 3)])
        nl.store(out, tile)
        return out

    x = data(16, 5, 6)
    result = both(kernel, x, np.array([[0, 3, 4]], np.int32))
    assert (result == np.concatenate([x[:, 4, 1:4], x[:, 3, 3:]], axis=1)).all()


def test_iota_of_a_number(both: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        program = nl.program_id(0)
        nl.store(out[program, 0], nisa.iota(program + 5, dtype=nl.int32).reshape((1, 1)))
        return out

    assert both(kernel[3], np.zeros((2, 2), np.float32)).tolist() == [[5], [6], [7]]


def test_a_number_of_a_tile_chooses_a_matrix(both: Any, data: Any) -> None:
    """An element that is known at run time takes its dimension away, wherever it stands beside several slices."""

    @nki.jit
    def kernel(table, numbers):
        out = nl.ndarray((3, 8, 6), dtype=np.float32, buffer=nl.shared_hbm)
        chosen = nl.load(numbers)
        for i in nl.affine_range(3):
            one = chosen[0:1, i : i + 1]
            nl.store(out[i], nl.load(table[one[0, 0], :, :]))
        return out

    table, numbers = data(5, 8, 6), np.array([[4, 0, 2]], np.int32)
    assert (both(kernel, table, numbers) == table[numbers[0]]).all()


def test_a_run_time_index_that_is_no_integer(data: Any) -> None:
    @nki.jit
    def kernel(table, numbers):
        out = nl.ndarray((8, 6), dtype=np.float32, buffer=nl.shared_hbm)
        chosen = nl.load(numbers)
        nl.store(out, nl.load(table[chosen[0, 0], :, :]))
        return out

    with pytest.raises(NkiError, match=r"'chosen', which is float32(.*\n)*.*nl.copy\(chosen, dtype=nl.int32\)"):
        kernel(data(5, 8, 6), data(1, 3))


@pytest.mark.parametrize("turned", [False, True])
def test_a_column_is_stored_to_a_row(both: Any, data: Any, turned: bool) -> None:
    """One element of each partition is a row of HBM; one partition of a row is a column."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, 2, 50) if turned else (50, 2, 3), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(3):
            for k in nl.affine_range(2):
                part = nl.load(x[k, i * 50 : i * 50 + 50] if turned else x[k : k + 1, i * 50 : i * 50 + 50])
                if turned:
                    nl.store(out[i, k : k + 1, 0:50], part)
                else:
                    nl.store(out[0:50, k, i : i + 1], nl.transpose(part))
        return out

    x = data(2, 150)
    wanted = x.reshape(2, 3, 50).transpose(1, 0, 2) if turned else x.reshape(2, 3, 50).transpose(2, 0, 1)
    assert (both(kernel, x) == wanted).all()


def test_a_row_takes_no_masked_column(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((1, 50), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.transpose(nl.load(x)), mask=nl.arange(50)[None, :] < 20)
        return out

    with pytest.raises(NkiError, match="num_partition_mismatch"):
        kernel(data(1, 50))
