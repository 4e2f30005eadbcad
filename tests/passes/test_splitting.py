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
from nki.base.element_types import float32
from nki.base.errors import MemoryFullError
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.types import TensorSpec
from nki.target.model import Target
from tests.passes import rings
from tests.passes.test_spilling import COLUMNS, TRN2, fits, outputs, small

ROWS = COLUMNS * 4
"""Bytes per partition of a tile in SBUF of these tests."""
BANK = TRN2.psum_bank_bytes


def compiled(kernel: Any, machine: Target, *shapes: tuple[int, ...]) -> Program:
    """The program of ``kernel``, which may not spill, for float32 arguments ``x``, ``y``."""
    specs = {name: TensorSpec(name, shape, float32) for name, shape in zip("xy", shapes, strict=False)}
    return pipeline.compile(kernel, specs, machine, stop="allocate")


def agree(kernel: Any, machine: Target, *shapes: tuple[int, ...]) -> Program:
    """``kernel`` fits ``machine``, with the bits of a larger one; the program."""
    program = compiled(kernel, machine, *shapes)
    fits(program, machine)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    for one, other in zip(outputs(compiled(kernel, TRN2, *shapes), *arrays), outputs(program, *arrays), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    return program


def ring_of_sums(x):
    """Sums in tiles that are made before the loop, and used in turn."""
    count = 24
    out = nl.ndarray((count, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.load(x)
    ring = [nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum) for _ in range(12)]
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
    program = agree(ring_of_sums, small(psum=BANK), (128, 128))
    assert not [tensor.name for tensor in program.core.tensors if "bank" in tensor.name]


def test_a_kernel_that_fits_keeps_its_tiles() -> None:
    names = [tensor.name for tensor in compiled(ring_of_sums, small(psum=12 * BANK), (128, 128)).core.tensors]
    assert not [name for name in names if "web" in name]


def test_a_ring_in_sbuf_that_is_written_in_halves() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        ring = [nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf) for _ in range(6)]
        for i in range(x.shape[0]):
            tile = ring[i % 6]
            nisa.dma_copy(dst=tile[:, 0:COLUMNS:2], src=x[i][:, 0:COLUMNS:2])
            nisa.memset(tile[:, 1:COLUMNS:2], value=float(i))
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            nisa.dma_copy(dst=out[i], src=tile)
        return out

    agree(kernel, small(2 * ROWS), (18, 128, COLUMNS))


def rewritten(write: Callable[[Any, Any], None]) -> Any:
    """A kernel that fills two tiles, needs two others in between, and then applies ``write`` to the first two."""

    def kernel(x):
        out = nl.ndarray((3, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=tile, src=x[i])
            nisa.dma_copy(dst=out[i], src=tile)
        first, second, third = (nl.load(x[i]) for i in range(3))
        nisa.tensor_tensor(first, first, third, nl.subtract)
        nisa.tensor_tensor(first, first, second, nl.maximum)
        for tile in tiles:
            write(tile, first)
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
    program = agree(rewritten(write), small(3 * ROWS + COLUMNS), (3, 128, COLUMNS))
    assert len([tensor.name for tensor in program.core.tensors if "web" in tensor.name]) == 2


@pytest.mark.parametrize("write", [shuffle, predicated, in_part, added])
def test_a_write_that_leaves_bytes_begins_none(write: Any) -> None:
    agree(rewritten(write), small(4 * ROWS + COLUMNS), (3, 128, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(rewritten(write), small(3 * ROWS + COLUMNS), (3, 128, COLUMNS))


def test_placed_tiles_keep_what_a_write_leaves() -> None:
    """Others have the bytes of a tile with an address between two writes, unless the second one leaves some."""

    def kernel(x):
        out = nl.ndarray((2, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
        source = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf, address=(0, ROWS))
        for placed in (tile, source):
            nisa.dma_copy(dst=placed, src=x[0])
        nisa.dma_copy(dst=out[0], src=tile)
        nisa.dma_copy(dst=out[1], src=nl.load(x[1]))
        mask = [255 if leaves and i == 3 else i for i in range(32)]
        nisa.nc_stream_shuffle(dst=tile, src=source, shuffle_mask=mask)
        nisa.dma_copy(dst=out[0], src=tile)
        return out

    leaves = False
    assert agree(kernel, small(2 * ROWS), (2, 128, COLUMNS)).core.placement
    leaves = True
    agree(kernel, small(3 * ROWS), (2, 128, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(kernel, small(2 * ROWS), (2, 128, COLUMNS))


def ring_in_a_loop(x, y):
    """A ring of sums from before a loop on the device; the last one is read behind it."""
    out = nl.ndarray((2, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    left, total = nl.load(x), nl.load(y)
    ring = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(3)]

    def body(_):
        for tile in (*ring, *ring):
            nisa.nc_matmul(tile[:, 0:128], left, total, accumulate=False)
            nisa.tensor_copy(total, tile[:, 0:128])

    nl.fori_loop(0, 2, body)
    nisa.dma_copy(dst=out[0], src=total)
    nisa.tensor_copy(total, ring[2][:, 0:128])
    nisa.dma_copy(dst=out[1], src=total)
    return out


def test_a_ring_in_a_loop_on_the_device() -> None:
    program = agree(ring_in_a_loop, small(psum=2 * BANK), (128, 128), (128, 128))
    (loop,) = (statement for statement in program.core.body if not hasattr(statement, "mnemonic"))
    assert len(loop.tensors) == 5  # of six values only the last one leaves the loop
    with pytest.raises(MemoryFullError):
        compiled(ring_in_a_loop, small(psum=BANK), (128, 128), (128, 128))


@pytest.mark.filterwarnings("ignore::nki.NkiWarning")  # of sums that nothing reads
@settings(max_examples=25, deadline=None)
@given(rings.STEPS, st.integers(3, 8), st.integers(1, 5), st.sampled_from([8, 32, 512]))
def test_the_bits_of_a_larger_memory(steps: Any, room: int, banks: int, columns: int) -> None:
    kernel = rings.drawn_kernel(steps, columns)
    try:
        compiled(kernel, small(room * rings.BYTES + rings.SIDE, banks * BANK), (rings.PARTS, rings.SIDE, rings.SIDE))
    except MemoryFullError:
        return
    agree(kernel, small(room * rings.BYTES + rings.SIDE, banks * BANK), (rings.PARTS, rings.SIDE, rings.SIDE))
