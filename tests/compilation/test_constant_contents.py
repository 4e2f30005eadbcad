"""Operands that need certain contents, says the reference: the compiler checks constants, the simulator others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ShapeError, UnwrittenReadError
from nki.base.warning import NkiWarning
from nki.compilation import simulated_run
from nki.target import ENVIRONMENT
from tests.support.kernel_parts import stored

X = np.arange(16, dtype=np.float32).reshape(4, 4) + 1
EYE = np.eye(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "trn2")


def made(how, given):
    """A square tile, constant except for "argument" and "computed"."""
    tile = nl.ndarray((4, 4), nl.float32)
    if how == "argument":
        nisa.dma_copy(tile, given)
    elif how == "identity":
        tile = nl.shared_identity_matrix(4, nl.float32)
    elif how == "selected":
        ones = nl.ndarray((4, 4), nl.float32)
        nisa.memset(ones, 1.0)
        nisa.affine_select(tile, [[-1, 4]], 1, ones, 0.0)
    elif how == "compared":
        numbers = nl.ndarray((4, 4), nl.int32)
        rows = nl.ndarray((4, 1), nl.float32)
        nisa.iota(numbers, [[1, 4]], 0)
        nisa.iota(rows, [[0, 1]], 0, channel_multiplier=1)
        nisa.tensor_scalar(tile, numbers, nl.equal, rows)
    elif how == "columns":
        nisa.memset(tile, 0.0)
        for i in range(4):
            nisa.affine_select(tile[:, i : i + 1], [[0, 1]], 1, nl.full((4, 1), 1.0, nl.float32), 0.0, offset=-i)
    elif how == "ones":
        nisa.memset(tile, 1.0)
    elif how == "reversed":
        nisa.affine_select(tile, [[1, 4]], 1, nl.full((4, 4), 1.0, nl.float32), 0.0, offset=-3)
    elif how == "twice":
        nisa.dma_copy(tile, nl.shared_identity_matrix(4, nl.float32))
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    elif how == "computed":
        nisa.dma_copy(tile, given)
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.0)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return tile


@nki.jit
def turned(x, eye, how):
    moving, sums = made(how, eye), nl.ndarray((4, 4), x.dtype, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary=nl.load(x), moving=moving, is_transpose=True)
    return stored(sums)


@pytest.mark.parametrize("how", ["argument", "identity", "selected", "compared", "columns"])
def test_an_identity_is_one_however_it_is_made(how: str) -> None:
    assert np.array_equal(turned(X, EYE, how), X.T)
    assert np.array_equal(nki.simulate(turned)(X, EYE, how), X.T)


@pytest.mark.parametrize("how", ["ones", "reversed", "twice"])
def test_a_constant_that_is_no_identity_is_refused_when_compiled(how: str) -> None:
    for run in (turned, nki.simulate(turned)):
        with pytest.raises(
            ShapeError, match=r"is_transpose needs an identity as moving; .* is none: element \[0, "
        ) as e:
            run(X, EYE, how)
        assert e.value.rule == "MM14"
        assert e.value.span is not None
        assert e.value.span.line == turned.func.__code__.co_firstlineno + 3


@pytest.mark.parametrize("how", ["argument", "computed"])
def test_what_the_data_decide_is_refused_in_a_run(how: str) -> None:
    program = turned.compile(X, X, how).kernel
    for run in (nki.simulate(turned), lambda *given: simulated_run.run(program, list(given[:2]))):
        with pytest.raises(ShapeError, match=r"element .* is .*, and .* of 16 elements differ"):
            run(X, X, how)
    if how == "argument":
        turned(X, X, how)


def test_an_identity_that_nothing_wrote_is_an_error() -> None:
    with pytest.raises(UnwrittenReadError, match="moving"):
        nki.simulate(turned)(X, EYE, "none")


@nki.jit
def in_rounds(x, rounds, changes):
    """A transposition in a loop, by an identity that the loop may change behind it."""
    out, tile = nl.ndarray((2, 4, 4), x.dtype, buffer=nl.shared_hbm), nl.load(x)
    eye = nl.shared_identity_matrix(4, nl.float32)
    sums = nl.ndarray((4, 4), x.dtype, buffer=nl.psum)

    def body(i):
        nisa.nc_matmul(sums, stationary=tile, moving=eye, is_transpose=True)
        nl.store(out[i], nl.copy(sums))
        if changes:
            nisa.memset(eye, 1.0)

    nl.fori_loop(0, rounds, body)
    return out


def test_a_later_round_may_find_other_contents() -> None:
    assert np.array_equal(in_rounds(X, 2, False)[1], X.T)
    assert np.array_equal(nki.simulate(in_rounds)(X, 2, False)[1], X.T)
    with pytest.raises(ShapeError, match="is none"):
        nki.simulate(in_rounds)(X, 2, True)


@nki.jit
def hinted(x, y, number):
    left, sums = nl.full((4, 4), number, nl.float32), nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary=left, moving=nl.load(y), is_stationary_onezero=True)
    return stored(sums)


def test_a_hint_of_ones_and_zeros_that_is_false_is_told_of() -> None:
    def run(kernel: Any, number: float) -> Any:
        return kernel(X, X, number)

    for kernel in (hinted, nki.simulate(hinted)):
        run(kernel, 1.0)
        with pytest.warns(NkiWarning, match=r"is_stationary_onezero=True, but .* element \[0, 0\] is 3.0"):
            run(kernel, 3.0)
