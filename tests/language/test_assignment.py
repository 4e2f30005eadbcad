"""Assignment into a view records the copy that a kernel could have called, and has its rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.ir.text import printer
from tests.support.both_executors import both, numbers, refused

A = numbers(32, 48)


def result(tensor):
    return nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.shared_hbm)


@nki.jit
def column_by_column(a):
    """On chip, from PSUM too, and whole tensors to and from HBM."""
    out, tile = result(a), nl.ndarray(a.shape, a.dtype)
    tile[...] = a
    reversed_ = nl.ndarray(a.shape, a.dtype)
    bank = nl.ndarray(a.shape, a.dtype, buffer=nl.psum)
    bank[:, 0:48] = tile
    for i in range(a.shape[1]):
        reversed_[:, i : i + 1] = bank[:, 47 - i]
    out[...] = reversed_
    return out


def test_a_tile_is_copied_column_by_column() -> None:
    assert (both(column_by_column, A) == A[:, ::-1]).all()


@nki.jit
def assigned(a):
    out, tile = result(a), nl.ndarray((32, 48), a.dtype)
    tile[0:32] = a[0:32]
    tile[:, 0:4] = tile[:, 4:8]
    out[3] = tile[3:4]
    out[4:32, :] = a[4:32]
    out[0:3] = tile[0:3]
    return out


@nki.jit
def copied(a):
    out, tile = result(a), nl.ndarray((32, 48), a.dtype)
    nisa.dma_copy(tile[0:32], a[0:32])
    nisa.tensor_copy(tile[:, 0:4], tile[:, 4:8])
    nisa.dma_copy(out[3], tile[3:4])
    nisa.dma_copy(out[4:32, :], a[4:32])
    nisa.dma_copy(out[0:3], tile[0:3])
    return out


def test_an_assignment_is_the_instruction_that_it_stands_for() -> None:
    texts = [printer.show(k.compile(A).kernel) for k in (assigned, copied)]
    lines = [[line.partition("#")[0] for line in text.splitlines()[1:]] for text in texts]
    assert lines[0] == lines[1]
    assert both(assigned, A).tobytes() == both(copied, A).tobytes()


@nki.jit
def at_a_register(a, at):
    out, tile = result(a), nl.load(a)
    tile[:, nisa.register_alloc(nl.load(at))] = tile[:, 0:1]
    out[...] = tile
    return out


def test_the_view_may_be_found_at_run_time() -> None:
    expected = A.copy()
    expected[:, 7] = A[:, 0]
    assert (both(at_a_register, A, np.array([[7]], np.int32)) == expected).all()


@nki.jit
def converted(a):
    out, tile = nl.ndarray(a.shape, nl.bfloat16, buffer=nl.shared_hbm), nl.ndarray(a.shape, nl.bfloat16)
    tile[...] = nl.load(a)
    out[...] = tile
    return out


def test_elements_are_converted() -> None:
    assert (both(converted, A) == A.astype(nl.bfloat16)).all()


def partitions_differ(tile, out):
    tile[0:4] = tile[0:8]


def same_elements_in_another_shape(tile, out):
    out[0:2, 0:6] = tile[0:3, 0:4]


def psum_to_hbm(tile, out):
    bank = nl.ndarray(tile.shape, tile.dtype, buffer=nl.psum)
    bank[...] = tile
    out[...] = bank


def a_number_on_chip(tile, out):
    tile[0:32] = 0.0


def a_number_in_hbm(tile, out):
    out[0:2] = 1.5


def a_register(tile, out):
    tile[0:1, 0:1] = nisa.register_alloc(3)


def an_array(tile, out):
    tile[...] = np.zeros((32, 48), np.float32)


def beyond(tile, out):
    tile[:, 0:49] = tile


def overlapping(tile, out):
    tile.ap([[48, 32], [1, 24], [1, 2]])[...] = tile.reshape((32, 24, 2))


@pytest.mark.parametrize(
    ("mistake", "parts"),
    [
        (partitions_differ, ["NKI-SH001", "assignment of 'tile' (8, 48) into 'tile' (4, 48)", "tile[0:4] = tile[0:8]"]),
        (same_elements_in_another_shape, ["'tile' (3, 4) into 'out' (2, 6)", "nisa.dma_copy(dst=…, src=…)"]),
        (psum_to_hbm, ["psum", "out[...] = bank"]),
        (a_number_on_chip, ["NKI-TN003", "into 'tile' of 0.0 (float)", "nisa.memset(dst=tile[0:32], value=0.0)"]),
        (a_number_in_hbm, ["nisa.dma_copy(dst=out[0:2], src=nl.full("]),
        (a_register, ["NKI-AR001", "into 'tile' of register 'register'", "nisa.register_store(tile[…], register)"]),
        (an_array, ["NKI-AR001", "(ndarray), which is no tensor", "nl.shared_constant"]),
        (beyond, ["NKI-TN001", "leaves the dimension, which has size 48"]),
        (overlapping, ["NKI-TN004"]),
    ],
)
def test_what_is_refused(mistake: Any, parts: list[str]) -> None:
    @nki.jit
    def kernel(a, mistake):
        out, tile = result(a), nl.load(a)
        mistake(tile, out)
        nl.store(out, tile)
        return out

    report = refused(kernel, A, mistake)
    assert all(part in report for part in parts), report


def test_data_of_a_tensor_is_the_tensor() -> None:
    @nki.jit
    def kernel(a):
        out, tile = result(a), nl.load(a)
        assert tile.data in [tile]
        nisa.dma_copy(dst=out.data, src=tile.data)
        return out

    assert (both(kernel, A) == A).all()
