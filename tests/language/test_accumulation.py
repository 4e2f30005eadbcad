"""What matmuls add to and what they overwrite, and the warnings about sums that hardware leaves undefined."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import PsumError
from nki.base.warning import NkiWarning
from nki.target import ENVIRONMENT
from tests.support.kernel_parts import returned, stored

A = np.random.default_rng(5).integers(-4, 5, (8, 12)).astype(np.float32)
PRODUCT = A.T @ A
BOTH = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["compiled", "simulated"])


@nki.jit
def stairs(a):
    """A corner of 4 rows and 4 columns, then the whole, then the whole again."""
    tile, psum = nl.load(a), nl.ndarray((12, 12), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(psum[0:4, 0:4], tile[:, 0:4], tile[:, 0:4])
    nisa.nc_matmul(psum, tile, tile)
    nisa.nc_matmul(psum, tile, tile)
    return stored(psum)


@BOTH
def test_a_place_is_overwritten_first_and_added_to_then(run: Callable[[Any], Any]) -> None:
    times = np.full((12, 12), 2.0)
    times[0:4, 0:4] = 3
    np.testing.assert_array_equal(run(stairs)(A), times * PRODUCT)


def test_only_what_was_not_written_is_cleared() -> None:
    body = list(stairs.compile(A).kernel.instructions())
    cleared = [i.dst for i in body if i.mnemonic == "psum_zero"]
    assert [(d.start_partition, d.shape, d.offset % 12) for d in cleared] == [(0, (4, 8), 4), (4, (8, 12), 0)]
    assert [i.accumulate for i in body if i.mnemonic == "nc_matmul"] == [False, True, True]
    assert all(i.where.span is not None for i in body if i.mnemonic == "psum_zero")


@nki.jit
def in_rounds(a):
    """Three rounds, each with its own tile of two overlapping windows."""
    tile, total = nl.load(a), nl.ndarray((12, 13), nl.float32)
    nisa.memset(total, 0.0)

    def body(i):
        psum = nl.ndarray((12, 13), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(psum[:, 0:12], tile, tile)
        nisa.nc_matmul(psum[:, 1:13], tile, tile)
        nisa.tensor_tensor(total, total, psum, op=nl.add)

    nl.fori_loop(0, 3, body)
    return returned(total)


@BOTH
def test_windows_overlap_in_every_round(run: Callable[[Any], Any]) -> None:
    want = np.zeros((12, 13))
    want[:, 0:12] += 3 * PRODUCT
    want[:, 1:13] += 3 * PRODUCT
    np.testing.assert_array_equal(run(in_rounds)(A), want)


@nki.jit
def onto_nothing(a):
    tile, psum = nl.load(a), nl.ndarray((12, 12), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(psum[0:6], tile[:, 0:6], tile)
    nisa.nc_matmul(psum, tile, tile, accumulate=True)
    return stored(psum)


@BOTH
def test_adding_to_what_nobody_wrote_is_warned_of(run: Callable[[Any], Any], monkeypatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    with pytest.warns(NkiWarning, match=r"'psum' \(12, 12\), of which 50% was never written") as given:
        got = run(onto_nothing)(A)
    assert {w.filename for w in given} == {__file__} and len({w.lineno for w in given}) == 1
    np.testing.assert_array_equal(got[:6], 2 * PRODUCT[:6])
    assert np.isnan(got[6:]).all()


@nki.jit
def onto_ones(a, accumulate):
    tile, psum = nl.load(a), nl.ndarray((12, 12), nl.float32, buffer=nl.psum)
    nisa.memset(psum, 1.0)
    nisa.nc_matmul(psum, tile, tile, accumulate=accumulate)
    nisa.nc_matmul(psum, tile, tile)
    return stored(psum)


@BOTH
@pytest.mark.parametrize("accumulate", [True, None])
def test_before_trn3_only_matmuls_are_added_to(run: Callable[[Any], Any], accumulate: bool | None, monkeypatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    monkeypatch.setenv(ENVIRONMENT, "trn3")
    np.testing.assert_array_equal(run(onto_ones)(A, accumulate), 1 + 2 * PRODUCT)
    monkeypatch.setenv(ENVIRONMENT, "trn2")
    with pytest.warns(NkiWarning, match="which another engine wrote; on trn2 that is undefined"):
        run(onto_ones)(A, accumulate)


@BOTH
def test_overwriting_makes_it_the_matmuls_own(run: Callable[[Any], Any], monkeypatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "trn2")
    np.testing.assert_array_equal(run(onto_ones)(A, False), 2 * PRODUCT)


def at_a_place(again: bool | None, *, whole: bool) -> Any:
    """A kernel that writes two columns that a register names, twice; ``whole``: all of the tile was written before."""

    @nki.jit
    def kernel(a, number):
        tile, psum = nl.load(a), nl.ndarray((12, 12), nl.float32, buffer=nl.psum)
        index = nisa.register_alloc()
        nisa.register_load(index, nl.load(number))
        place = psum.ap([[12, 12], [1, 2]], scalar_offset=index, indirect_dim=1)
        if whole:
            nisa.nc_matmul(psum, tile, tile)
        nisa.nc_matmul(place, tile, tile[:, 0:2])
        nisa.nc_matmul(place, tile, tile[:, 0:2], accumulate=again)
        return stored(psum)

    return kernel


@BOTH
def test_a_sum_at_a_run_time_index_is_added_to_where_all_is_written(run: Callable[[Any], Any]) -> None:
    want = PRODUCT.copy()
    want[:, 5:7] += 2 * PRODUCT[:, 0:2]
    np.testing.assert_array_equal(run(at_a_place(None, whole=True))(A, np.array([[5]], np.int32)), want)


@BOTH
def test_a_second_sum_at_a_run_time_index_has_to_say_what_it_does(run: Callable[[Any], Any], monkeypatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")  # the other columns are read, and nothing wrote them
    number = np.array([[5]], np.int32)
    with pytest.raises(PsumError, match="was written at places that are known only when the kernel runs"):
        run(at_a_place(None, whole=False))(A, number)
    got = run(at_a_place(True, whole=False))(A, number)
    np.testing.assert_array_equal(got[:, 5:7], 2 * PRODUCT[:, 0:2])


def test_an_unrolled_loop_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each iteration has a tensor of its own, and one line is at fault."""
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")  # the same mistake is an error of the next stage

    @nki.jit
    def kernel(a):
        tile = nl.load(a)
        for _ in range(5):
            total = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, tile, tile, accumulate=True)
        result = nl.ndarray((32, 32), dtype=nl.float32)
        nisa.tensor_copy(result, total)
        return returned(result)

    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("default")
        kernel.compile(np.ones((32, 32), np.float32))
    assert [str(one.message).count("was never written") for one in given] == [1]
