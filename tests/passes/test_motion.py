"""Code motion: a kernel that fills tiles long before their first use, or uses them up long behind it, fits.

The bits are the same as with a larger memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.element_types import float32, int32
from nki.base.errors import MemoryFullError
from nki.compilation import pipeline
from nki.ir.ordering import Pairs
from nki.ir.program import Program
from nki.ir.types import Buffer, TensorSpec
from nki.isa.instructions.dma_copy import DmaCopy
from nki.target.model import Target
from tests.passes.test_spilling import COLUMNS, TRN2, fits, outputs, small

ROWS = COLUMNS * 4
"""Bytes per partition of a tile of these tests."""


def compiled(kernel: Any, machine: Target, *, grid: tuple[int, ...] = (), edges: Pairs = (), **shapes: Any) -> Program:
    """The program of ``kernel``, which may not spill; a shape is of float32, else of the dtype that follows it."""
    specs = {
        name: TensorSpec(name, *shape) if isinstance(shape[0], tuple) else TensorSpec(name, shape, float32)
        for name, shape in shapes.items()
    }
    return pipeline.compile(kernel, specs, machine, stop="allocate", grid=grid, edges=edges)


def new_tile() -> Any:
    return nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)


def ahead(x):
    """Loads or clears all tiles, then uses them one after the other."""
    tiles = []
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        if i % 3 == 1:
            nisa.memset(tile, value=i + 0.5)
        else:
            nisa.memset(tile[:, 0:16], value=1.0)
            nisa.dma_copy(dst=tile[:, 16:COLUMNS], src=x[i][:, 16:COLUMNS])
        tiles.append(tile)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in reversed(range(x.shape[0])):
        nisa.tensor_scalar(tiles[i], tiles[i], nl.add, 1.0)
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


@pytest.mark.parametrize("room", [1, 2, 5, 9])
def test_tiles_that_are_filled_ahead_fit(room: int) -> None:
    shape = (10, 128, COLUMNS)
    program = compiled(ahead, small(room * ROWS), x=shape)
    fits(program, small(room * ROWS))
    large = compiled(ahead, TRN2, x=shape)
    assert len(program.core.numbered) == len(large.core.numbered)
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    for one, other in zip(outputs(large, x), outputs(program, x), strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_only_as_much_moves_as_has_to() -> None:
    program = compiled(ahead, small(8 * ROWS), x=(10, 128, COLUMNS))
    order = [i.dst.tensor.name for i in program.core.numbered if isinstance(i, DmaCopy) and i.dst.buffer is Buffer.sbuf]
    whole = compiled(ahead, TRN2, x=(10, 128, COLUMNS))
    before = [i.dst.tensor.name for i in whole.core.numbered if isinstance(i, DmaCopy) and i.dst.buffer is Buffer.sbuf]
    # Uses begin with the last tile: the first one waits until the end, as does the next, a constant. Others stay.
    assert order == [*before[1:], before[0]]


def test_a_kernel_that_fits_is_not_changed() -> None:
    shape = (10, 128, COLUMNS)
    one, other = compiled(ahead, small(10 * ROWS), x=shape), compiled(ahead, TRN2, x=shape)
    assert [i.mnemonic for i in one.core.numbered] == [i.mnemonic for i in other.core.numbered]


def overwritten(x):
    """Loads what it then overwrites."""
    held = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.private_hbm)
    first, second, third = new_tile(), new_tile(), new_tile()
    nisa.dma_copy(dst=first, src=x)
    nisa.dma_copy(dst=held, src=first)
    nisa.dma_copy(dst=second, src=held)
    nisa.tensor_scalar(first, first, nl.add, 1.0)
    nisa.dma_copy(dst=held, src=first)
    nisa.memset(third, value=3.0)
    nisa.tensor_tensor(third, third, first, nl.add)
    nisa.tensor_tensor(second, second, third, nl.subtract)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=second)
    return out


def test_a_load_does_not_pass_a_write_of_what_it_loads() -> None:
    with pytest.raises(MemoryFullError):
        compiled(overwritten, small(2 * ROWS), x=(128, COLUMNS))
    x = np.ones((128, COLUMNS), np.float32)
    np.testing.assert_array_equal(outputs(compiled(overwritten, small(3 * ROWS), x=x.shape), x)[0], -4.0)


def filled_in_turns(x):
    """Fills the halves of a tile before and after a write of what both hold."""
    held = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.private_hbm)
    halves, whole, between = new_tile(), new_tile(), new_tile()
    nisa.dma_copy(dst=whole, src=x)
    nisa.dma_copy(dst=held, src=whole)
    nisa.dma_copy(dst=halves[:, 0:32], src=held[:, 0:32])
    nisa.memset(between, value=3.0)
    nisa.tensor_tensor(whole, whole, between, nl.add)
    nisa.dma_copy(dst=held, src=whole)
    nisa.dma_copy(dst=halves[:, 32:COLUMNS], src=held[:, 32:COLUMNS])
    nisa.tensor_tensor(halves, halves, whole, nl.subtract)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=halves)
    return out


def test_the_fills_of_a_tile_move_together_or_not_at_all() -> None:
    with pytest.raises(MemoryFullError):
        compiled(filled_in_turns, small(2 * ROWS), x=(128, COLUMNS))


def filled_again(x):
    """As ``ahead``, of tiles that are filled once more after their use."""
    tiles = []
    out = nl.ndarray((2, *x.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        tiles.append(tile)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=out[0, i], src=tiles[i])
        nisa.memset(tiles[i], value=float(i))
        nisa.dma_copy(dst=out[1, i], src=tiles[i])
    return out


def test_a_tile_may_be_filled_again_after_its_use() -> None:
    program = compiled(filled_again, small(ROWS), x=(4, 128, COLUMNS))
    x = np.random.default_rng(4).standard_normal((4, 128, COLUMNS), np.float32)
    result = outputs(program, x)[0].reshape(2, *x.shape)
    np.testing.assert_array_equal(result[0], x)
    np.testing.assert_array_equal(result[1], np.broadcast_to(np.arange(4)[:, None, None], x.shape))


def indexed(x, rows):
    """Loads the rows that a tile names, which it then changes."""
    names = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=names, src=rows)
    first, second = new_tile(), new_tile()
    nisa.dma_copy(dst=first, src=x.ap([[COLUMNS, 128], [1, COLUMNS]], vector_offset=names, indirect_dim=0))
    nisa.tensor_scalar(names, names, nl.multiply, 0)
    nisa.dma_copy(dst=second, src=x.ap([[COLUMNS, 128], [1, COLUMNS]], vector_offset=names, indirect_dim=0))
    nisa.tensor_tensor(second, second, first, nl.subtract)
    out = nl.ndarray((2, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[1], src=second)
    nisa.dma_copy(dst=out[0], src=first)
    return out


def test_a_load_does_not_pass_a_change_of_its_rows() -> None:
    with pytest.raises(MemoryFullError):
        compiled(indexed, small(ROWS + 64), x=(128, COLUMNS), rows=((128, 1), int32))
    program = compiled(indexed, small(2 * ROWS + 64), x=(128, COLUMNS), rows=((128, 1), int32))
    x = np.random.default_rng(2).standard_normal((128, COLUMNS), np.float32)
    result = outputs(program, x, np.arange(128, dtype=np.int32)[::-1].copy())[0].reshape(2, 128, COLUMNS)
    np.testing.assert_array_equal(result[0], x[::-1])
    np.testing.assert_array_equal(result[1], x[0] - x[::-1])


def named(x):
    """As ``ahead``, with two tiles, where the second is stored first; an edge may name both loads."""
    first, second = new_tile(), new_tile()
    nisa.dma_copy(dst=first, src=x[0], name="first")
    nisa.dma_copy(dst=second, src=x[1], name="second")
    out = nl.ndarray(x.shape[1:], dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=second)
    nisa.dma_copy(dst=out, src=first)
    return out


def test_instructions_of_an_edge_stay() -> None:
    compiled(named, small(ROWS), x=(2, 128, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(named, small(ROWS), edges=(("second", ("first",)),), x=(2, 128, COLUMNS))


def meeting(meets: bool) -> Any:
    """A kernel that loads on core 1 what core 0 overwrites behind a barrier; or does not, without that barrier."""

    def kernel(x):
        first, second, third = new_tile(), new_tile(), new_tile()
        shared = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm, name="shared")
        out = nl.ndarray((2, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        nisa.dma_copy(dst=second, src=x)
        if core == 0:
            nisa.dma_copy(dst=shared, src=second)
        nisa.core_barrier(shared, (0, 1))
        if core == 0:
            nisa.memset(first, value=0.0)
        else:
            nisa.dma_copy(dst=first, src=shared)
        if meets:
            nisa.core_barrier(shared, (0, 1))
            if core == 0:
                nisa.dma_copy(dst=shared, src=second)
        nisa.tensor_scalar(third, second, nl.multiply, 2.0)
        nisa.tensor_tensor(third, third, first, nl.add)
        nisa.dma_copy(dst=out[core], src=third)
        return out

    return kernel


def test_a_load_does_not_pass_a_meeting_of_cores() -> None:
    compiled(meeting(False), small(2 * ROWS), grid=(2,), x=(128, COLUMNS))
    compiled(meeting(True), small(3 * ROWS), grid=(2,), x=(128, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(meeting(True), small(2 * ROWS), grid=(2,), x=(128, COLUMNS))


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), max_size=30)


def drawn_kernel(steps: tuple[tuple[int, int, int, int], ...]) -> Any:
    """A kernel that fills six tiles from an input and from HBM that it writes, and uses them, as ``steps`` say."""

    def kernel(x):
        held = nl.ndarray((4, 128, COLUMNS), dtype=nl.float32, buffer=nl.private_hbm)
        out = nl.ndarray((6, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = []
        for i in range(6):
            tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(tile, value=float(i))
            tiles.append(tile)
        for i in range(4):
            nisa.dma_copy(dst=held[i], src=x[i])
        for kind, one, two, part in steps:
            columns = slice(part * 16, part * 16 + 16)
            if kind == 0:
                tile = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=held[part])
                tiles[one] = tile
            elif kind == 1:
                nisa.dma_copy(dst=tiles[one][:, columns], src=held[part][:, columns])
            elif kind == 2:
                nisa.dma_copy(dst=held[part][:, columns], src=tiles[one][:, columns])
            elif kind == 3:
                nisa.tensor_tensor(tiles[one], tiles[one], tiles[two], nl.add)
            else:
                nisa.memset(tiles[one][:, columns], value=float(two))
        for i in range(6):
            nisa.dma_copy(dst=out[i], src=tiles[i])
        return out

    return kernel


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(2, 6))
def test_the_bits_of_a_larger_memory(steps: list[tuple[int, int, int, int]], room: int) -> None:
    kernel, shape = drawn_kernel(tuple(steps)), (4, 128, COLUMNS)
    try:
        less = compiled(kernel, small(room * ROWS), x=shape)
    except MemoryFullError:
        return
    fits(less, small(room * ROWS))
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    large = compiled(kernel, TRN2, x=shape)
    np.testing.assert_array_equal(outputs(large, x)[0].view(np.uint32), outputs(less, x)[0].view(np.uint32))


def test_the_jit_and_the_simulator_take_it() -> None:
    kernel = nki.jit(wide)
    x = np.random.default_rng(3).standard_normal((4, 128, 16_384), np.float32)
    expected = ((x[3] + x[2]) + x[1]) + x[0]
    np.testing.assert_array_equal(kernel(x), expected)
    np.testing.assert_array_equal(nki.simulate(kernel)(x), expected)


def wide(x):
    """Loads more than SBUF holds, and adds it up from the last row to the first."""
    tiles = []
    for i in range(x.shape[0]):
        tile = nl.ndarray((128, 16_384), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        tiles.append(tile)
    for i in reversed(range(x.shape[0] - 1)):
        nisa.tensor_tensor(tiles[3], tiles[3], tiles[i], nl.add)
    out = nl.ndarray((128, 16_384), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tiles[3])
    return out


def late(a, b):
    """Products that are all copied out of PSUM behind the last one."""
    out = nl.ndarray((a.shape[0], 128, b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    right = nl.load(b)
    sums = [nl.ndarray((128, b.shape[1]), dtype=nl.float32, buffer=nl.psum) for _ in range(a.shape[0])]
    for i, one in enumerate(sums):
        nisa.nc_matmul(one, nl.load(a[i]), right)
    for i, one in enumerate(sums):
        nl.store(out[i], nl.copy(one))
    return out


@pytest.mark.parametrize("banks", [1, 3, 8])
def test_copies_that_come_late_move_up(banks: int) -> None:
    shapes = {"a": (12, 128, 128), "b": (128, 512)}
    program = compiled(late, small(psum=banks * TRN2.psum_bank_bytes), **shapes)
    fits(program, small(psum=banks * TRN2.psum_bank_bytes))
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes.values())
    np.testing.assert_array_equal(outputs(program, a, b)[0], (a.transpose(0, 2, 1) @ b).reshape(-1))


def test_no_more_copies_move_than_have_to() -> None:
    machine = small(psum=8 * TRN2.psum_bank_bytes)
    names = [inst.mnemonic for inst in compiled(late, machine, a=(9, 128, 128), b=(128, 512)).core.numbered]
    kinds = [name for name in names if name in ("nc_matmul", "tensor_copy")]
    assert kinds == ["nc_matmul"] * 8 + ["tensor_copy", "nc_matmul"] + ["tensor_copy"] * 8


def interleaved(a, b):
    """Sums of several products each, which grow in turn."""
    out = nl.ndarray((a.shape[1], 128, b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    right = nl.load(b)
    sums = [nl.ndarray((128, b.shape[1]), dtype=nl.float32, buffer=nl.psum) for _ in range(a.shape[1])]
    for k in range(a.shape[0]):
        for i, one in enumerate(sums):
            nisa.nc_matmul(one, nl.load(a[k, i]), right)
    for i, one in enumerate(sums):
        nl.store(out[i], nl.copy(one))
    return out


def test_a_sum_is_complete_before_the_next_one_needs_its_bank() -> None:
    shapes = {"a": (3, 5, 128, 128), "b": (128, 512)}
    machine = small(psum=2 * TRN2.psum_bank_bytes)
    program = compiled(interleaved, machine, **shapes)
    fits(program, machine)
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape, np.float32) for shape in shapes.values())
    expected = outputs(compiled(interleaved, TRN2, **shapes), a, b)[0]
    np.testing.assert_array_equal(outputs(program, a, b)[0], expected)


def late_in_a_loop(a, b):
    """As ``late``, in each round of a loop on the device, beside a sum from before the loop."""
    out = nl.ndarray((4, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    right, total = nl.load(b), nl.zeros((128, 512), dtype=nl.float32)
    held = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(held, nl.load(a[0]), right)

    def body(_):
        sums = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(4)]
        for i, one in enumerate(sums):
            nisa.nc_matmul(one, nl.load(a[i]), right)
        for i, one in enumerate(sums):
            done = nl.copy(one)
            nisa.tensor_tensor(done, done, total, nl.add)
            nisa.tensor_tensor(done, done, held, nl.add)
            nl.store(out[i], done)
        nisa.tensor_scalar(total, total, nl.add, 1.0)

    nl.fori_loop(0, 2, body)
    return out


def test_copies_in_a_loop_on_the_device_move_up() -> None:
    shapes = {"a": (4, 128, 128), "b": (128, 512)}
    machine = small(psum=2 * TRN2.psum_bank_bytes)
    program = compiled(late_in_a_loop, machine, **shapes)
    fits(program, machine)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape, np.float32) for shape in shapes.values())
    expected = outputs(compiled(late_in_a_loop, TRN2, **shapes), a, b)[0]
    np.testing.assert_array_equal(outputs(program, a, b)[0], expected)
    with pytest.raises(MemoryFullError):
        compiled(late_in_a_loop, small(psum=TRN2.psum_bank_bytes), **shapes)


def late_stores(x):
    """Computes all tiles and stores them behind the last one, with more loads ahead than fit beside."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    loaded = [nl.load(x[i]) for i in range(x.shape[0])]
    sums = [nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.sbuf) for _ in loaded]
    for one, tile in zip(sums, loaded, strict=True):
        nisa.tensor_scalar(one, tile, nl.multiply, 2.0)
    for i, one in enumerate(sums):
        nl.store(out[i], one)
    return out


@pytest.mark.parametrize("room", [2, 3, 7])
def test_loads_move_down_and_stores_move_up(room: int) -> None:
    program = compiled(late_stores, small(room * ROWS), x=(10, 128, COLUMNS))
    fits(program, small(room * ROWS))
    x = np.random.default_rng(5).standard_normal((10, 128, COLUMNS), np.float32)
    np.testing.assert_array_equal(outputs(program, x)[0], 2 * x.reshape(-1))


def test_a_store_does_not_pass_a_meeting_of_cores() -> None:
    def kernel(x):
        shared = nl.ndarray((128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((2, 2, 128, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        first, second = new_tile(), new_tile()
        nisa.dma_copy(dst=first, src=x)
        nisa.tensor_scalar(first, first, nl.add, 1.0)
        nisa.dma_copy(dst=second, src=x)
        nisa.tensor_scalar(second, second, nl.multiply, 2.0)
        nisa.dma_copy(dst=out[core, 1], src=second)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(dst=out[core, 0], src=first)
        return out

    compiled(kernel, small(2 * ROWS), grid=(2,), x=(128, COLUMNS))
    with pytest.raises(MemoryFullError):
        compiled(kernel, small(ROWS), grid=(2,), x=(128, COLUMNS))
