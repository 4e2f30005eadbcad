"""Spills: a kernel that holds more than fits gives the bits that it gives in a larger memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import MemoryFullError
from nki.compilation.vendor_options import CompileConfig
from nki.ir.program import Program
from nki.ir.types import Buffer, Tensor
from nki.isa.instructions.dma_copy import DmaCopy
from nki.passes.allocate import Allocate
from nki.passes.allocation.spilling import ROLE
from tests.passes import random_kernels as drawn
from tests.passes.small_memory import (
    BANK,
    COLUMNS,
    ROW,
    P,
    agree,
    compiled,
    hbm,
    loaded,
    names,
    private,
    scaled,
    small,
    stored,
    tile,
)

ROWS = (P, COLUMNS)
"""The shape of one tile."""


def homes(program: Program) -> list[Tensor]:
    return [tensor for tensor in program.core.tensors if tensor.role == ROLE]


STEPS = drawn.steps(*drawn.TRANSFERS, drawn.add, drawn.scale_part, drawn.multiply, drawn.accumulate, drawn.add_sum)


@pytest.mark.filterwarnings("ignore:nc_matmul:", "ignore::nki.NkiSpillWarning")
@settings(max_examples=25)
@given(STEPS, st.integers(3, 6), st.integers(1, 3))
def test_the_bits_of_a_larger_memory(steps: Any, room: int, banks: int) -> None:
    kernel, machine = drawn.drawn_kernel(steps), small(room * drawn.BYTES, banks * BANK)
    try:
        compiled(kernel, machine, spills=True, x=drawn.SHAPE)
    except MemoryFullError:  # only sums that are not complete do not wait elsewhere
        assert banks == 1 and any(name == "accumulate" for name, *_ in steps)
        return
    agree(kernel, machine, spills=True, x=drawn.SHAPE)


def changed_kernel(x):
    """Loads all rows, and adds the last one to the others; tiles change before and after they wait."""
    tiles = [loaded(x[i]) for i in range(x.shape[0])]
    for each in tiles:
        nisa.tensor_scalar(each, each, nl.add, 1.0)
    for each in tiles[:-1]:
        nisa.tensor_tensor(each, each, tiles[-1], nl.add)
    return stored(*tiles)


def copies(program: Program, home: bool) -> int:
    """DMA copies to (``home``) or from HBM tensors in which tiles wait."""
    found = [inst for inst in program.core.instructions() if isinstance(inst, DmaCopy)]
    return sum((inst.dst if home else inst.src).tensor.role == ROLE for inst in found)


def loads(program: Program, columns: int = COLUMNS) -> int:
    """The loads of inputs into tiles of so many columns."""
    found = [
        inst for inst in program.core.instructions() if isinstance(inst, DmaCopy) and inst.dst.buffer is Buffer.sbuf
    ]
    return sum(load.dst.shape[1] == columns and load.src.tensor.role == "input" for load in found)


def loaded_kernel(x):
    """Loads all rows, reads each one at once, and again from the last to the first."""
    tiles, out = [], hbm(*x.shape)
    for i in range(x.shape[0]):
        tiles.append(loaded(x[i]))
        nisa.dma_copy(dst=out[x.shape[0] - 1 - i], src=tiles[i])
    for i in reversed(range(x.shape[0])):
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


def test_what_was_only_loaded_is_loaded_again_and_not_stored() -> None:
    with pytest.warns(nki.NkiSpillWarning, match=r"keeps no tile elsewhere but loads.*\(0 bytes stored, \d+ loaded"):
        program = agree(loaded_kernel, small(4 * ROW), spills=True, x=(10, *ROWS))
    assert not homes(program)
    assert 16 <= loads(program) <= 17  # three or four of the ten rows are still there


def changing_kernel(x):
    """Loads all rows of memory, adds them to a total, overwrites the memory, and adds them once more."""
    held, sofar = private(*x.shape), tile()
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=held[i], src=x[i])
    tiles = [loaded(held[i]) for i in range(x.shape[0])]
    nisa.memset(sofar, value=0.0)
    for each in tiles:
        nisa.tensor_tensor(sofar, sofar, each, nl.add)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=held[i], src=sofar)
    for each in tiles:
        nisa.tensor_tensor(sofar, sofar, each, nl.add)
    return stored(sofar)


def test_what_was_loaded_from_memory_that_changes_is_stored() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        program = agree(changing_kernel, small(4 * ROW), spills=True, x=(8, *ROWS))
    assert len(homes(program)) >= 4


def constants_kernel(x):
    """Fills tiles with numbers, loads as many, and uses the numbers last."""
    filled = [tile() for _ in range(x.shape[0])]
    for i, each in enumerate(filled):
        nisa.memset(dst=each, value=float(i))
    added = [loaded(x[i]) for i in range(x.shape[0])]
    for each in added:
        nisa.tensor_scalar(each, each, nl.add, 1.0)
    for one, other in zip(filled, added, strict=True):
        nisa.tensor_tensor(one, one, other, op=nl.add)
    return stored(*filled)


def test_constants_are_made_again_and_not_stored() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        program = agree(constants_kernel, small(6 * ROW), spills=True, x=(8, *ROWS))
    assert len(homes(program)) <= 8  # of the tiles that were loaded and changed
    assert sum(inst.mnemonic == "memset" for inst in program.core.instructions()) == 8


def rows_kernel(x, y):
    """Adds short rows ``x`` and long ones ``y`` to a total, in the same turn, again and again."""
    short, long = ([loaded(source[i]) for i in range(source.shape[0])] for source in (x, y))
    out, sofar = hbm(3, *x.shape), tile(x.shape[2])
    nisa.memset(sofar, value=0.0)
    for turn in range(3):
        for i in range(x.shape[0]):
            nisa.tensor_tensor(sofar, sofar, short[i], op=nl.add)
            nisa.tensor_tensor(sofar, sofar, long[i][:, 0 : x.shape[2]], op=nl.add)
            nisa.dma_copy(dst=out[turn, i], src=sofar)
    return out


def test_short_rows_stay_where_long_ones_cost_less_for_each_byte() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        program = agree(rows_kernel, small(17 * 16 * 4 + 10 * 1024 * 4), spills=True, x=(16, P, 16), y=(16, P, 1024))
    assert loads(program, 16) == 16


def test_what_was_changed_is_stored_once_for_each_change() -> None:
    with pytest.warns(nki.NkiSpillWarning) as warned:
        program = agree(changed_kernel, small(4 * ROW), spills=True, x=(10, *ROWS))
    away, back = copies(program, home=True), copies(program, home=False)
    assert 6 <= away <= 20 and 6 <= back <= 20 and len(homes(program)) <= 10
    (message,) = [str(w.message) for w in warned]
    assert f"({away * P * ROW} bytes stored, {back * P * ROW} loaded again)" in message
    assert "sbuf of trn2 has 1024 bytes per partition" in message and "docs/memory.md" in message


def test_the_whole_pipeline_runs_behind_spills() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        agree(changed_kernel, small(4 * ROW), spills=True, stop="sync", x=(10, *ROWS))


def loop_kernel(x):
    """A loop on the device uses one tile of many, and has tiles of its own; loads fill halves of the others."""
    tiles = [tile() for _ in range(6)]
    for i, each in enumerate(tiles):
        nisa.dma_copy(dst=each[:, 0:32], src=x[i][:, 0:32])
        nisa.dma_copy(dst=each[:, 32:COLUMNS], src=x[i][:, 32:COLUMNS])
    for each in tiles:
        nisa.tensor_scalar(each, each, nl.add, 1.0)

    def body(_):
        nisa.tensor_tensor(tiles[5], tiles[5], scaled(tiles[0], 0.5), nl.add)

    nl.fori_loop(0, 3, body)
    for each in tiles[:5]:
        nisa.tensor_tensor(each, each, tiles[5], nl.add)
    return stored(*tiles)


def test_a_loop_keeps_what_it_uses() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        agree(loop_kernel, small(3 * ROW), spills=True, x=(6, *ROWS))
    with pytest.raises(MemoryFullError):
        compiled(loop_kernel, small(2 * ROW), spills=True, x=(6, *ROWS))


def sums_kernel(x, y):
    """Three sums in PSUM, complete before they are read in turn, twice; ``y``: to which the kernel adds once more."""
    right = nl.load(x)
    left, columns = right[:, 0:64], x.shape[1]
    sums = [nl.ndarray((64, columns), dtype=nl.float32, buffer=nl.psum) for _ in range(3)]
    for psum in sums:
        nisa.nc_matmul(psum, left, right)
    for psum in sums[: y.shape[0] - 1]:
        nisa.nc_matmul(psum, left, right, accumulate=True)
    out = nl.ndarray((6, 64, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((64, columns), dtype=nl.float32)
    for i in range(6):
        nisa.tensor_tensor(total, total, sums[i % 3], nl.add)
        nl.store(out[i], total)
    return out


def test_a_complete_sum_waits_in_sbuf_and_an_open_one_stays() -> None:
    machine = small(psum=2 * BANK)
    with pytest.warns(nki.NkiSpillWarning, match="in SBUF meanwhile"):
        agree(sums_kernel, machine, spills=True, x=(P, 300), y=(1, 1))
    with pytest.raises(MemoryFullError):
        compiled(sums_kernel, machine, spills=True, x=(P, 300), y=(4, 1))


@pytest.mark.parametrize("open_sums", [1, 4])
def test_small_sums_share_banks_instead(open_sums: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(sums_kernel, small(psum=BANK), spills=True, x=(P, 64), y=(open_sums, 1))


def test_tiles_that_an_index_moves_share_no_bank() -> None:
    def kernel(x):
        tiles = [nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum) for _ in range(3)]
        for one in tiles:
            nisa.nc_matmul(one, nl.load(x), nl.load(x))
        register = nisa.register_alloc(3)
        out = nl.ndarray((64, 7), dtype=nl.float32, buffer=nl.shared_hbm)
        columns = nl.zeros((64, 7), dtype=nl.float32)
        for i in range(6):
            column = tiles[i % 3].ap([[64, 64], [1, 1]], scalar_offset=register, indirect_dim=1)
            nisa.tensor_tensor(columns[:, i + 1 : i + 2], columns[:, i : i + 1], column, nl.add)
        nisa.dma_copy(dst=out, src=columns)
        return out

    with pytest.warns(nki.NkiSpillWarning, match="in SBUF meanwhile"):
        program = compiled(kernel, small(psum=2 * BANK), spills=True, x=(P, 64))
    assert not names(program, "bank")


def big(x):
    tiles = [loaded(x[i]) for i in range(4)]
    for i, each in enumerate(tiles):
        nisa.tensor_scalar(each, each, nl.add, float(i))
    for each in tiles[:3]:
        nisa.tensor_tensor(each, each, tiles[3], nl.add)
    return stored(*tiles)


def test_a_kernel_spills_unless_its_configuration_forbids_it() -> None:
    x = np.random.default_rng(6).standard_normal((4, P, 16_384), np.float32)
    expected = x + np.arange(4, dtype=np.float32)[:, None, None]
    expected[:3] += expected[3]
    for spilling in (nki.jit(big), nki.jit(big, compile_config=CompileConfig())):
        with pytest.warns(nki.NkiSpillWarning):
            np.testing.assert_array_equal(spilling(x), expected)
        with pytest.warns(nki.NkiSpillWarning):
            np.testing.assert_array_equal(nki.simulate(spilling)(x), expected)
    kernel = nki.jit(big, compile_config=CompileConfig(nki_alloc_fallback=False))
    with pytest.raises(MemoryFullError):
        kernel(x)
    with pytest.raises(MemoryFullError):
        nki.simulate(kernel)(x)


def test_no_other_instructions_may_change_than_loads_and_copies() -> None:
    with pytest.warns(nki.NkiSpillWarning):
        program = compiled(changed_kernel, small(4 * ROW), spills=True, x=(10, *ROWS))
    core = program.core
    compute = next(inst for inst in core.instructions() if inst.mnemonic == "tensor_tensor")
    other = replace(program, cores=(core.with_body([each for each in core.body if each is not compute]),))
    with pytest.raises(AssertionError, match="is lost"):
        Allocate().check(program, other, small())
    with pytest.raises(AssertionError, match="is no copy"):
        Allocate().check(other, program, small())


def read_kernel(x, y):
    """Products that each are read twice, the first one in a loop on the device, too."""
    right = nl.load(x)
    sums = [nl.ndarray((64, 300), dtype=nl.float32, buffer=nl.psum) for _ in range(4)]
    for i, psum in enumerate(sums):
        nisa.nc_matmul(psum, right[:, i : i + 64], right)
    out = nl.ndarray((9, 64, 300), dtype=nl.float32, buffer=nl.shared_hbm)
    sofar = nl.zeros((64, 300), dtype=nl.float32)
    for i in range(8):
        nisa.tensor_tensor(sofar, sofar, sums[i % 4], nl.add)
        nl.store(out[i], sofar)
    total = nl.load(y)

    def body(_):
        nisa.tensor_tensor(total, total, sums[0], nl.add)

    nl.fori_loop(0, 3, body)
    nl.store(out[8], total)
    return out


def test_a_tile_of_psum_is_read_where_it_waits() -> None:
    with pytest.warns(nki.NkiSpillWarning, match="in SBUF meanwhile"):
        program = agree(read_kernel, small(psum=2 * BANK), spills=True, x=(P, 300), y=(64, 300))
    copies = [inst for inst in program.core.instructions() if inst.mnemonic == "tensor_copy"]
    assert 2 <= len(copies) <= 3
    assert all(access.buffer is Buffer.sbuf for inst in copies for access in inst.writes())


def rotated(x, cos, sin):
    """Pairs of rows turned by angles: three tiles are enough at any instruction."""
    half, width = cos.shape[0], cos.shape[1] // 2
    first, second, cosine, sine = (nl.load(source[:, 0:width]) for source in (x[0:half], x[half:], cos, sin))
    results = [nl.ndarray((half, width), dtype=nl.float32, buffer=nl.sbuf) for _ in range(4)]
    for result, one, factor in zip(results, (first, second, first, second), (cosine, cosine, sine, sine), strict=True):
        nisa.tensor_tensor(result, one, factor, nl.multiply)
    nisa.tensor_tensor(results[0], results[0], results[3], nl.subtract)
    nisa.tensor_tensor(results[1], results[1], results[2], nl.add)
    out = nl.ndarray((2, half, width), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(2):
        nisa.dma_copy(dst=out[i], src=results[i])
    return out


@pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")
@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize("room", [3, 3.5, 4, 5])
def test_rows_of_any_length_give_way(width: int, room: float) -> None:
    machine = small(int(room * width * 2))
    agree(rotated, machine, spills=True, x=(P, width), cos=(64, width), sin=(64, width))


def sized_kernel(sizes: tuple[int, ...], steps: tuple[tuple[int, int, int], ...]) -> Callable[..., Any]:
    """A kernel on tiles of several ``sizes`` in columns, which adds parts of them to one another."""

    def kernel(x):
        tiles, out = [loaded(x[:, 0:size]) for size in sizes], hbm(P, sum(sizes))
        for kind, one, two in steps:
            dst, src = tiles[one % len(sizes)], tiles[two % len(sizes)]
            columns = min(dst.shape[1], src.shape[1])
            if kind == 0:
                nisa.tensor_tensor(dst[:, 0:columns], dst[:, 0:columns], src[:, 0:columns], nl.add)
            elif kind == 1:
                nisa.tensor_copy(dst[:, 0:columns], src[:, 0:columns])
            else:
                nisa.memset(dst, value=float(two))
        start = 0
        for one, size in zip(tiles, sizes, strict=True):
            nisa.dma_copy(dst=out[:, start : start + size], src=one)
            start += size
        return out

    return kernel


SIZED = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=25).map(tuple)


@pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=3, max_size=8).map(tuple), SIZED)
def test_where_each_instruction_has_room_a_kernel_fits(sizes: Any, steps: Any) -> None:
    kernel = sized_kernel(sizes, steps)
    pairs = [sizes[one % len(sizes)] + sizes[two % len(sizes)] for _, one, two in steps if (one - two) % len(sizes)]
    agree(kernel, small(4 * max(*sizes, *pairs)), spills=True, x=(P, 60))
