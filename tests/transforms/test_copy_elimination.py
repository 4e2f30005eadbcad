"""Copies that native code leaves out, copies that it must not, and results that stay equal to the simulator's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.compilation.executable import lower
from tests.support.both_executors import both
from tests.support.kernel_parts import activated, applied, product, returned, stored

X = np.random.default_rng(0).normal(size=(256, 192)).astype(np.float32)


def out(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm)


def tile(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, buffer=nl.sbuf)


def loaded(x):
    """The upper half of the input."""
    return nl.load(x[0:128])


def elementwise(x):
    return returned(activated(nl.load(x[128:256, 64:128]), nl.square))


def through(x):
    return returned(loaded(x))


def parts_of_a_tile(x):
    a, b = tile(128, 3, 64), tile(128, 32)
    nisa.dma_copy(a, x[0:128])
    nisa.tensor_tensor(b, a[:, 1, 0:64:2], a[:, 2, 32:64], nl.add)
    return returned(b)


def converted(x):
    result, a = out(128, 192, dtype=nl.bfloat16), tile(128, 192, dtype=nl.bfloat16)
    nisa.dma_copy(a, x[0:128])
    nisa.dma_copy(result, applied(a, nl.multiply, 3.0, nl.float32))
    return result


def written_again(x):
    a = loaded(x)
    nisa.tensor_scalar(a[:, 0:64], a[:, 0:64], nl.add, 1.0)
    return returned(a)


def written_in_parts(x):
    a, b = loaded(x), tile(128, 192)
    nisa.memset(b[:, 0:100], 2.0)  # the rest of b is never written, and the output shows it
    nisa.tensor_copy(b[:, 50:150], a[:, 0:100])
    return returned(b)


def interleaved(x):
    """Two tiles go to overlapping windows of the output: the copies' order decides."""
    result, a = out(128, 192), loaded(x)
    nisa.dma_copy(result, a)
    b, c = applied(a[:, 0:128], nl.add, 1.0), applied(a[:, 64:192], nl.add, 2.0)
    nisa.dma_copy(result[:, 0:128], c)
    nisa.dma_copy(result[:, 64:192], b)
    return result


def read_back(x):
    """The output is read between the write of the tile and its copy."""
    result, a = out(128, 192), loaded(x)
    nisa.dma_copy(result, a)
    b = applied(a, nl.multiply, 5.0)
    c = nl.load(result)
    nisa.dma_copy(result, b)
    nisa.tensor_scalar(c, c, nl.add, 0.5)
    return result, returned(c)


def side_by_side(x):
    """Both halves are computed before either is stored: the windows of the output share no byte."""
    result, a = out(128, 192), loaded(x)
    b, c = applied(a[:, 0:192:2], nl.add, 1.0), applied(a[:, 1:192:2], nl.add, 2.0)
    nisa.dma_copy(result[:, 0:192:2], b)
    nisa.dma_copy(result[:, 1:192:2], c)
    return result


def turned(x):
    """The input is seen in another shape; the tile's rows are pieces of the input's rows."""
    a, b = tile(128, 192), tile(128, 3, 64)
    nisa.dma_copy(a, x.reshape((2, 128, 192))[1])
    nisa.tensor_copy(b, a)
    return returned(b)


def wide_stationary(x):
    a = nl.load(x[0:128, 0:128])
    return stored(product(a, a))


def shuffled_in_part(x):
    """The shuffle leaves partitions of its tile alone: the output must not show what it held before."""
    result, a, b = out(32, 4), nl.load(x[0:32, 0:4]), tile(32, 4)
    nisa.dma_copy(result, a)
    nisa.nc_stream_shuffle(b, a, [0] + [255] * 31)
    nisa.dma_copy(result, b)
    return result


def one_place(x):
    """The instruction writes one element of each partition many times, and names as many as the tile has."""
    result, a, b = out(32, 4), nl.load(x[0:32, 0:4]), tile(32, 4)
    nisa.dma_copy(result, a)
    nisa.tensor_scalar(b[:, 0:1].broadcast(1, 4), a, nl.add, 1.0)
    nisa.dma_copy(result, b)
    return result


def in_place(x):
    """Each instruction writes the whole tile anew: the first reads the input, the last writes the output."""
    a = loaded(x)
    nisa.tensor_scalar(a, a, nl.add, 1.0)
    nisa.activation(a, nl.square, a)
    nisa.tensor_scalar(a, a, nl.multiply, 0.5)
    return returned(a)


def in_place_and_stored_twice(x):
    """The contents in the middle are stored, too; those at the end are read after their store."""
    a = loaded(x)
    nisa.tensor_scalar(a, a, nl.add, 1.0)
    middle = returned(a)
    nisa.tensor_scalar(a, a, nl.multiply, 0.5)
    result = returned(a)
    nisa.tensor_scalar(a, a, nl.add, 2.0)
    nisa.tensor_scalar(a[:, 0:64], a[:, 64:128], nl.add, 3.0)
    return middle, result, returned(a)


def loaded_twice(x):
    """The second load replaces contents that are read before; both are read in one instruction with what is written."""
    a = loaded(x)
    b = applied(a, nl.add, 1.0)
    nisa.dma_copy(a, x[128:256])
    nisa.tensor_tensor(b, a, b, nl.subtract)
    return returned(b)


def written_in_part_after_the_load(x):
    """The write in the middle keeps the rest of what was loaded."""
    a = loaded(x)
    nisa.tensor_scalar(a[:, 0:64], a[:, 64:128], nl.add, 1.0)
    nisa.tensor_scalar(a, a, nl.add, 1.0)
    return returned(a)


def repeated(row):
    """A row of HBM in all partitions, and 1 more."""
    b = tile(128, 192)
    nisa.dma_copy(b, row.ap([[0, 128], [1, 192]]))
    return returned(applied(b, nl.add, 1.0))


def row_by_way_of_hbm(x):
    """A row goes to HBM, and from there to all partitions, as ``nl.broadcast_to`` does it."""
    row = nl.ndarray((1, 192), nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(row, nl.load(x[3:4]))
    return repeated(row)


def hbm_written_in_part(x):
    """The second write changes a part of what the first one has left in HBM, before it is read."""
    row = nl.ndarray((1, 192), nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(row, x[3:4])
    nisa.dma_copy(row[:, 0:64], x[7:8, 64:128])
    return repeated(row)


# The kernel, and how many of its DMA copies are left.
CASES: list[tuple[Callable[..., Any], int]] = [
    (elementwise, 0),
    (through, 1),
    (parts_of_a_tile, 0),
    (converted, 2),
    (written_again, 2),
    (written_in_parts, 1),
    (interleaved, 2),
    (read_back, 3),
    (side_by_side, 0),
    (turned, 0),
    (wide_stationary, 1),
    (shuffled_in_part, 2),
    (one_place, 2),
    (in_place, 0),
    (in_place_and_stored_twice, 3),
    (loaded_twice, 1),
    (written_in_part_after_the_load, 1),
    (row_by_way_of_hbm, 0),
    (hbm_written_in_part, 3),
]


@pytest.mark.parametrize(("kernel", "left"), CASES, ids=[kernel.__name__ for kernel, _ in CASES])
def test_copies_go_and_results_stay(kernel: Callable[..., Any], left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")  # one of them returns what it never wrote
    made = nki.jit(kernel)
    body = lower(made.compile(X).kernel, "layouts").core.body
    assert [inst.mnemonic for inst in body].count("dma_copy") == left
    found, expected = made(X), nki.simulate(made)(X)
    for one, two in zip(np.atleast_2d(found), np.atleast_2d(expected), strict=True):
        assert np.array_equal(one.astype(np.float32), two.astype(np.float32), equal_nan=True)


def over_the_other(x):
    """Core 0 stores, after a barrier, what it computed before: over what core 1 stores in between."""
    result = out(128, 192)
    a = tile(128, 192)
    if nl.program_id(0) == 0:
        nisa.tensor_copy(a, loaded(x))
        nisa.core_barrier(result, (0, 1))
        nisa.dma_copy(result, a)
    else:
        nisa.dma_copy(result, loaded(x))
        nisa.core_barrier(result, (0, 1))
    return result


def test_no_store_moves_before_a_barrier() -> None:
    lowered = lower(nki.jit(over_the_other)[2].compile(X).kernel, "layouts")
    assert [inst.mnemonic for inst in lowered.cores[0].instructions()] == ["tensor_copy", "core_barrier", "dma_copy"]


def through_shared_memory(x):
    """Core 0 fills a tensor that both cores read, and that is no output."""
    result, between = out(2, 128, 192), nl.ndarray((128, 192), nl.float32, buffer=nl.shared_hbm, name="between")
    rank = nl.program_id(0)
    if rank == 0:
        nisa.dma_copy(between, x[0:128])
    nisa.core_barrier(between, (0, 1))
    nisa.dma_copy(result[rank], applied(nl.load(between), nl.add, 1.0))
    return result


def test_what_another_core_reads_is_written() -> None:
    kernel = nki.jit(through_shared_memory)[2]
    assert np.array_equal(kernel(X), np.stack([X[:128] + 1] * 2))
    first = lower(kernel.compile(X).kernel, "layouts").cores[0]
    assert "between" in {access.tensor.name for inst in first.instructions() for access in inst.writes()}


def test_a_store_stays_behind_an_exchange() -> None:
    @nki.jit
    def kernel(x):
        result = nl.ndarray((128, 192), nl.float32, buffer=nl.shared_hbm, name="result")
        a, c, other = loaded(x), tile(128, 192), 1 - nl.program_id(0)
        b = applied(a, nl.multiply, 2.0)
        if other == 0:
            nisa.dma_copy(result, a)
        nisa.sendrecv(a, c, other, other, 0)
        if other == 1:
            nisa.dma_copy(result, b)
        return result

    lowered = lower(kernel[2].compile(X).kernel, "layouts")
    assert [inst.mnemonic for inst in lowered.cores[0].instructions()][-1] == "dma_copy"
    assert np.array_equal(kernel[2](X), 2 * X[:128])


@pytest.mark.parametrize("gap", [0, 1], ids=["dense", "with a gap"])
def test_quantize_mx_keeps_its_fours(gap: int) -> None:
    """Groups of four run over dimensions of one element; a window of the input may have no such groups."""

    def kernel(a):
        source = tile(32, 12, 1, 11, dtype=nl.bfloat16)
        nisa.dma_copy(source, a[:, :, :, 0:11])
        values, scales = tile(32, 33, dtype=nl.float8_e4m3fn_x4), tile(32, 33, dtype=nl.uint8)
        nisa.memset(scales, 0)
        nisa.quantize_mx(values, source, scales)
        results = out(32, 33, dtype=nl.float8_e4m3fn_x4), out(32, 33, dtype=nl.uint8)
        nisa.dma_copy(results[0], values)
        nisa.dma_copy(results[1], scales)
        return results

    x = np.random.default_rng(0).standard_normal((32, 12, 1, 11 + gap)).astype(ml_dtypes.bfloat16)
    both(kernel, x)
