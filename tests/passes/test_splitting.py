"""Live-range splitting: a tile that is overwritten begins a new live range, and only where nothing of it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import MemoryFullError
from tests.passes import random_kernels as drawn
from tests.passes.small_memory import BANK, COLUMNS, ROW, P, agree, compiled, hbm, names, psum, small, tile


def ring_of_sums(x):
    """Sums in tiles that are made before the loop, and used in turn."""
    count = 24
    out = hbm(count, P, P)
    left = nl.load(x)
    ring = [psum(128) for _ in range(12)]
    for i in range(count):
        nisa.nc_matmul(ring[i % 12], left, left, accumulate=False)
        nisa.nc_matmul(ring[i % 12], left, left, accumulate=True)
        done = nl.copy(ring[i % 12])
        nisa.dma_copy(dst=out[i], src=done)
    return out


def test_a_ring_of_more_sums_than_banks() -> None:
    x = np.random.default_rng(0).integers(-3, 4, (128, 128)).astype(np.float32)
    kernel = nki.jit(ring_of_sums)
    wanted = np.broadcast_to(2 * (x.T @ x), (24, 128, 128))
    np.testing.assert_array_equal(kernel(x), wanted)
    np.testing.assert_array_equal(nki.simulate(kernel)(x), wanted)
    assert not names(agree(ring_of_sums, small(psum=BANK), x=(P, P)), "bank")


def test_a_kernel_that_fits_keeps_its_tiles() -> None:
    assert not names(compiled(ring_of_sums, small(psum=12 * BANK), x=(P, P)), "web")


def test_a_ring_in_sbuf_that_is_written_in_halves() -> None:
    def kernel(x):
        out, ring = hbm(*x.shape), [tile() for _ in range(6)]
        for i in range(x.shape[0]):
            one = ring[i % 6]
            nisa.dma_copy(dst=one[:, 0:COLUMNS:2], src=x[i][:, 0:COLUMNS:2])
            nisa.memset(one[:, 1:COLUMNS:2], value=float(i))
            nisa.tensor_scalar(one, one, nl.multiply, 2.0)
            nisa.dma_copy(dst=out[i], src=one)
        return out

    agree(kernel, small(2 * ROW), x=(18, P, COLUMNS))


def rewritten(write: Callable[[Any, Any], None]) -> Any:
    """A kernel that fills two tiles, needs two others in between, and then applies ``write`` to the first two."""

    def kernel(x):
        out, tiles = hbm(3, P, COLUMNS), [tile(), tile()]
        for i, each in enumerate(tiles):
            nisa.dma_copy(dst=each, src=x[i])
            nisa.dma_copy(dst=out[i], src=each)
        first, second, third = (nl.load(x[i]) for i in range(3))
        nisa.tensor_tensor(first, first, third, nl.subtract)
        nisa.tensor_tensor(first, first, second, nl.maximum)
        for each in tiles:
            write(each, first)
        nisa.tensor_tensor(tiles[0], tiles[0], tiles[1], nl.add)
        nisa.dma_copy(dst=out[2], src=tiles[0])
        return out

    return kernel


def shuffle(tile: Any, source: Any) -> None:
    nisa.nc_stream_shuffle(dst=tile[0:32], src=source[0:32], shuffle_mask=[255 if i % 3 else i for i in range(32)])


def predicated(tile: Any, source: Any) -> None:
    nisa.tensor_copy_predicated(dst=tile, src=source, predicate=nl.copy(source, dtype=nl.uint8))


def in_part(tile: Any, source: Any) -> None:
    nisa.tensor_copy(tile[:, 1:COLUMNS], source[:, 1:COLUMNS])


def whole(tile: Any, source: Any) -> None:
    nisa.tensor_copy(tile, source)


def in_halves(tile: Any, source: Any) -> None:
    nisa.tensor_copy(tile[0:64], source[0:64])
    nisa.tensor_copy(tile[64:128], source[64:128])


def added(tile: Any, source: Any) -> None:
    nisa.tensor_tensor(tile, source, tile, nl.add)


@pytest.mark.parametrize("write", [whole, in_halves])
def test_a_write_of_all_bytes_begins_a_live_range(write: Any) -> None:
    assert len(names(agree(rewritten(write), small(3 * ROW + COLUMNS), x=(3, P, COLUMNS)), "web")) == 2


@pytest.mark.parametrize("write", [shuffle, predicated, in_part, added])
def test_a_write_that_leaves_bytes_begins_none(write: Any) -> None:
    agree(rewritten(write), small(4 * ROW + COLUMNS), x=(3, P, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(rewritten(write), small(3 * ROW + COLUMNS), x=(3, P, COLUMNS))


def test_placed_tiles_keep_what_a_write_leaves() -> None:
    """Others have the bytes of a tile with an address between two writes, unless the second one leaves some."""

    def kernel(x):
        out, target, source = hbm(2, P, COLUMNS), tile(address=(0, 0)), tile(address=(0, ROW))
        for placed in (target, source):
            nisa.dma_copy(dst=placed, src=x[0])
        nisa.dma_copy(dst=out[0], src=target)
        nisa.dma_copy(dst=out[1], src=nl.load(x[1]))
        mask = [255 if leaves and i == 3 else i for i in range(32)]
        nisa.nc_stream_shuffle(dst=target, src=source, shuffle_mask=mask)
        nisa.dma_copy(dst=out[0], src=target)
        return out

    leaves = False
    assert agree(kernel, small(2 * ROW), x=(2, P, COLUMNS)).core.placement
    leaves = True
    agree(kernel, small(3 * ROW), x=(2, P, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(kernel, small(2 * ROW), x=(2, P, COLUMNS))


def ring_in_a_loop(x, y):
    """A ring of sums from before a loop on the device; the last one is read behind it."""
    out = hbm(2, P, P)
    left, total = nl.load(x), nl.load(y)
    ring = [psum(512) for _ in range(3)]

    def body(_):
        for one in (*ring, *ring):
            nisa.nc_matmul(one[:, 0:128], left, total, accumulate=False)
            nisa.tensor_copy(total, one[:, 0:128])

    nl.fori_loop(0, 2, body)
    nisa.dma_copy(dst=out[0], src=total)
    nisa.tensor_copy(total, ring[2][:, 0:128])
    nisa.dma_copy(dst=out[1], src=total)
    return out


def test_a_ring_in_a_loop_on_the_device() -> None:
    program = agree(ring_in_a_loop, small(psum=2 * BANK), x=(P, P), y=(P, P))
    (loop,) = (statement for statement in program.core.body if not hasattr(statement, "mnemonic"))
    assert len(loop.tensors) == 5  # of six values only the last one leaves the loop
    with pytest.raises(MemoryFullError):
        compiled(ring_in_a_loop, small(psum=BANK), x=(P, P), y=(P, P))


OPERATIONS = (drawn.load, drawn.fill_part, drawn.add, *drawn.IN_SBUF[3:], *drawn.IN_PSUM[:4])
STEPS = drawn.steps(*OPERATIONS, loops=True, most=30)


@pytest.mark.filterwarnings("ignore::nki.NkiWarning")  # of sums that nothing reads
@settings(max_examples=25, deadline=None)
@given(
    drawn.steps(*OPERATIONS, loops=True, most=30), st.integers(3, 9), st.integers(1, 5), st.sampled_from([8, 32, 512])
)
def test_the_bits_of_a_larger_memory(steps: Any, room: int, banks: int, columns: int) -> None:
    kernel, machine = drawn.drawn_kernel(steps, columns), small(room * drawn.BYTES + drawn.SIDE, banks * BANK)
    try:
        compiled(kernel, machine, x=drawn.SHAPE)
    except MemoryFullError:
        return
    agree(kernel, machine, x=drawn.SHAPE)
