"""Reduction registers last from one instruction of an engine to the next, whichever they are."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from tests.support.kernel_parts import returned

command = nisa.reduce_cmd
LOWEST = float(np.finfo(np.float32).min)


def both(kernel, *arguments):
    """The kernel's result from native code, which eager execution must confirm to the bit."""
    got = kernel(*arguments)
    np.testing.assert_array_equal(nki.simulate(kernel)(*arguments).view(np.uint32), got.view(np.uint32))
    return got


def rows(partitions, width, seed=3):
    return np.random.default_rng(seed).integers(-50, 50, (partitions, width)).astype(np.float32)


@nki.jit
def largest_of_all(data, bounds):
    """The maximum over three tiles, by three instructions; only the last reads it out."""
    partitions, width = data.shape
    tile, bound = nl.load(data), nl.load(bounds)
    out = nl.ndarray((partitions, width), dtype=nl.bfloat16)
    predicate = nl.ndarray((partitions, width), dtype=nl.uint8)
    nisa.memset(predicate, 1)
    nisa.range_select(out, tile, nl.greater_equal, nl.less, bound, bound, reduce_cmd=command.reset_reduce)
    nisa.tensor_scalar_reduce(out, tile, nl.add, 100.0, nl.maximum, reduce_cmd=command.reduce)
    held = nl.ndarray((partitions, 1), dtype=nl.float32)
    nisa.select_reduce(out, predicate, tile, 0.0, reduce_res=held, reduce_cmd=command.reduce)
    return returned(held)


@pytest.mark.parametrize("partitions", [1, 33, 128])
def test_three_instructions_of_the_vector_engine_share_registers(partitions):
    data, bounds = rows(partitions, 19), np.zeros((partitions, 1), np.float32)
    np.testing.assert_array_equal(both(largest_of_all, data, bounds), data.max(1, keepdims=True) + 100)


@nki.jit
def sums_of_both_engines(data):
    """Both engines add up, in turn; then each reads out its own sum."""
    partitions, width = data.shape
    results = nl.ndarray((2, partitions, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(data)
    out = nl.ndarray((partitions, width), dtype=nl.float32)
    sums = nl.ndarray((partitions, 2), dtype=nl.float32)
    nisa.tensor_scalar_reduce(out, tile, nl.multiply, 1.0, nl.add)
    nisa.activation(out, nl.copy, tile, scale=10.0, reduce_op=nl.add, reduce_cmd=command.reset_reduce)
    nisa.tensor_scalar_reduce(out, tile, nl.multiply, 2.0, nl.add, sums[:, 0:1], reduce_cmd=command.reduce)
    nisa.activation_reduce(out, nl.copy, tile, nl.add, None, scale=3.0)
    nisa.activation(
        out, nl.copy, tile, scale=20.0, reduce_op=nl.add, reduce_res=sums[:, 1:2], reduce_cmd=command.reduce
    )
    for i in range(2):
        nisa.dma_copy(results[i], sums[:, i : i + 1])
    return results


def test_each_engine_has_registers_of_its_own():
    data = rows(64, 21)
    total = data.sum(1, keepdims=True)
    np.testing.assert_array_equal(both(sums_of_both_engines, data), np.stack([3 * total, 23 * total]))


@nki.jit
def running(data, chunk):
    """Cumulative sums over chunks: each goes on where the last one ended."""
    partitions, width = data.shape
    tile = nl.load(data)
    out = nl.ndarray((partitions, width), dtype=nl.float32)
    for first in range(0, width, chunk):
        part = slice(first, min(first + chunk, width))
        how = command.load_reduce if first == 0 else command.reduce
        nisa.tensor_scalar_cumulative(out[:, part], tile[:, part], nl.multiply, nl.add, 1.0, 7.0, how)
    return returned(out)


@pytest.mark.parametrize("chunk", [1, 5, 16, 40])
def test_cumulative_goes_on_from_chunk_to_chunk(chunk):
    data = np.random.default_rng(chunk).standard_normal((128, 40)).astype(np.float32)
    want = np.add.accumulate(np.concatenate([np.full((128, 1), 7, np.float32), data], axis=1), axis=1)[:, 1:]
    np.testing.assert_array_equal(both(running, data, chunk), want)


@nki.jit
def after_idle(data, repaired):
    """An instruction without accumulation between two with it, which the registers need not survive."""
    partitions, width = data.shape
    tile = nl.load(data)
    out, sums = nl.ndarray((partitions, width), dtype=nl.float32), nl.ndarray((partitions, 1), dtype=nl.float32)
    nisa.tensor_scalar_reduce(out, tile, nl.multiply, 1.0, nl.add)
    nisa.exponential(out, tile)
    again = command.reset_reduce if repaired else command.reduce
    nisa.tensor_scalar_reduce(out, tile, nl.multiply, 1.0, nl.add, sums, reduce_cmd=again)
    return returned(sums)


def test_nobody_knows_the_registers_after_idle(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    data = rows(32, 9)
    assert np.isnan(both(after_idle, data, False)).all()
    np.testing.assert_array_equal(both(after_idle, data, True), data.sum(1, keepdims=True))


@nki.jit
def result_inside_dst(data, which):
    """``reduce_res`` is a column of ``dst``."""
    partitions, width = data.shape
    tile = nl.load(data)
    out = nl.ndarray((partitions, width), dtype=nl.float32)
    column = out[:, 2:3]
    if which == "activation":
        nisa.activation(out, nl.copy, tile, reduce_op=nl.add, reduce_res=column, reduce_cmd=command.reset_reduce)
    elif which == "activation_reduce":
        nisa.activation_reduce(out, nl.copy, tile, nl.add, column)
    elif which == "activate2":
        nisa.activate2(
            out, nl.copy, tile, 0.0, 0.0, nl.bypass, nl.bypass, reduce_op=nl.add, reduce_res=column,
            reduce_cmd=command.reset_reduce,
        )  # fmt: skip
    else:
        nisa.tensor_scalar_reduce(out, tile, nl.add, 0.0, nl.add, column)
    return returned(out)


@pytest.mark.parametrize("which", ["activation", "activation_reduce", "activate2", "tensor_scalar_reduce"])
def test_the_sum_is_read_out_after_the_results_are_written(which, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    data = rows(48, 11)
    want = data.copy()
    want[:, 2] = data.sum(1)
    np.testing.assert_array_equal(both(result_inside_dst, data, which), want)


@nki.jit
def by_column(data):
    """Attention's partial maxima: the result goes to column ``i`` of a tile, written as an integer index."""
    partitions, width = data.shape
    tile, maxima = nl.load(data), nl.ndarray((partitions, 2), dtype=nl.float32)
    half = width // 2
    out = nl.ndarray((partitions, half), dtype=nl.float32)
    for i in range(2):
        nisa.tensor_scalar_reduce(out, tile[:, nl.ds(i * half, half)], nl.multiply, 2.0, nl.maximum, maxima[:, i])
    return returned(maxima)


def test_a_column_by_its_number_takes_the_result():
    data = rows(128, 32)
    np.testing.assert_array_equal(both(by_column, data), 2 * data.reshape(128, 2, 16).max(2))


@nki.jit
def lowest_as_fill(data, bounds, fill):
    """range_select with a fill value that the caller passes."""
    tile, bound = nl.load(data), nl.load(bounds)
    out = nl.ndarray(data.shape, dtype=nl.float32)
    nisa.range_select(out, tile, nl.greater_equal, nl.less, bound[:, 0:1], bound[:, 1:2], on_false_value=fill)
    return returned(out)


@pytest.mark.parametrize("fill", [LOWEST, -3.4028235e38, np.float32(LOWEST), float(np.finfo(np.float32).min)])
def test_the_lowest_number_however_it_is_written(fill):
    data, bounds = rows(16, 8), np.tile(np.float32([2, 5]), (16, 1))
    want = np.full_like(data, LOWEST)
    want[:, 2:5] = data[:, 2:5]
    np.testing.assert_array_equal(both(lowest_as_fill, data, bounds, fill), want)


def test_no_other_number_fills():
    with pytest.raises(NkiError, match="RS03"):
        lowest_as_fill(rows(16, 8), np.zeros((16, 2), np.float32), float("-inf"))
