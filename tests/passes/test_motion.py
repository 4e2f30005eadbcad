"""Code motion: a kernel that fills tiles long before their first use, or uses them up long behind it, fits.

The bits are the same as with a larger memory.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki.isa as nisa
import nki.language as nl
from nki.base.element_types import int32
from nki.base.errors import MemoryFullError
from nki.ir.program import Program
from nki.ir.types import Buffer
from nki.isa.instructions.dma_copy import DmaCopy
from tests.passes import random_kernels as drawn
from tests.passes.small_memory import (
    BANK,
    COLUMNS,
    ROW,
    TRN2,
    P,
    agree,
    compiled,
    hbm,
    loaded,
    private,
    psum,
    scaled,
    small,
    stored,
    tile,
)

ROWS = (P, COLUMNS)
"""The shape of one tile."""


def ahead(x):
    """Loads or clears all tiles, then uses them one after the other."""
    tiles = []
    for i in range(x.shape[0]):
        tiles.append(tile())
        if i % 3 == 1:
            nisa.memset(tiles[i], value=i + 0.5)
        else:
            nisa.memset(tiles[i][:, 0:16], value=1.0)
            nisa.dma_copy(dst=tiles[i][:, 16:COLUMNS], src=x[i][:, 16:COLUMNS])
    out = hbm(*x.shape)
    for i in reversed(range(x.shape[0])):
        nisa.tensor_scalar(tiles[i], tiles[i], nl.add, 1.0)
        nisa.dma_copy(dst=out[i], src=tiles[i])
    return out


@pytest.mark.parametrize("room", [1, 2, 5, 9])
def test_tiles_that_are_filled_ahead_fit(room: int) -> None:
    program = agree(ahead, small(room * ROW), x=(10, *ROWS))
    assert len(program.core.numbered) == len(compiled(ahead, x=(10, *ROWS)).core.numbered)


def filled(program: Program) -> list[str]:
    """The tiles that loads fill, in order."""
    copies = [inst for inst in program.core.numbered if isinstance(inst, DmaCopy)]
    return [copy.dst.tensor.name for copy in copies if copy.dst.buffer is Buffer.sbuf]


def test_only_as_much_moves_as_has_to() -> None:
    """Uses begin with the last tile: the first one waits until the end, as does the next, a constant. Others stay."""
    before = filled(compiled(ahead, x=(10, *ROWS)))
    assert filled(compiled(ahead, small(8 * ROW), x=(10, *ROWS))) == [*before[1:], before[0]]


def test_a_kernel_that_fits_is_not_changed() -> None:
    one, other = (compiled(ahead, machine, x=(10, *ROWS)) for machine in (small(10 * ROW), TRN2))
    assert [i.mnemonic for i in one.core.numbered] == [i.mnemonic for i in other.core.numbered]


# What does not move


def overwritten(x):
    """Loads what it then overwrites."""
    held = private(*ROWS)
    first, second, third = tile(), tile(), tile()
    nisa.dma_copy(dst=first, src=x)
    nisa.dma_copy(dst=held, src=first)
    nisa.dma_copy(dst=second, src=held)
    nisa.tensor_scalar(first, first, nl.add, 1.0)
    nisa.dma_copy(dst=held, src=first)
    nisa.memset(third, value=3.0)
    nisa.tensor_tensor(third, third, first, nl.add)
    nisa.tensor_tensor(second, second, third, nl.subtract)
    return stored(second)


def filled_in_turns(x):
    """Fills the halves of a tile before and after a write of what both hold."""
    held = private(*ROWS)
    halves, whole, between = tile(), loaded(x), tile()
    nisa.dma_copy(dst=held, src=whole)
    nisa.dma_copy(dst=halves[:, 0:32], src=held[:, 0:32])
    nisa.memset(between, value=3.0)
    nisa.tensor_tensor(whole, whole, between, nl.add)
    nisa.dma_copy(dst=held, src=whole)
    nisa.dma_copy(dst=halves[:, 32:COLUMNS], src=held[:, 32:COLUMNS])
    nisa.tensor_tensor(halves, halves, whole, nl.subtract)
    return stored(halves)


def indexed(x, rows):
    """Loads the rows that a tile names, which it then changes."""
    names = nl.ndarray((P, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=names, src=rows)
    first, second = tile(), tile()
    nisa.dma_copy(dst=first, src=x.ap([[COLUMNS, P], [1, COLUMNS]], vector_offset=names, indirect_dim=0))
    nisa.tensor_scalar(names, names, nl.multiply, 0)
    nisa.dma_copy(dst=second, src=x.ap([[COLUMNS, P], [1, COLUMNS]], vector_offset=names, indirect_dim=0))
    nisa.tensor_tensor(second, second, first, nl.subtract)
    out = hbm(2, *ROWS)
    nisa.dma_copy(dst=out[1], src=second)
    nisa.dma_copy(dst=out[0], src=first)
    return out


def meeting(meets: bool) -> Any:
    """A kernel that loads on core 1 what core 0 overwrites behind a barrier; or does not, without that barrier."""

    def kernel(x):
        core, first = nl.program_id(0), tile()
        shared, out = hbm(*ROWS, name="shared"), hbm(2, *ROWS, name="out")
        second = loaded(x)
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
        third = scaled(second)
        nisa.tensor_tensor(third, third, first, nl.add)
        nisa.dma_copy(dst=out[core], src=third)
        return out

    return kernel


def stored_around(x):
    """Stores a tile behind a meeting of the cores, and the one that it fills later before."""
    core = nl.program_id(0)
    shared, out = hbm(*ROWS, name="shared"), hbm(2, 2, *ROWS, name="out")
    first = loaded(x)
    nisa.tensor_scalar(first, first, nl.add, 1.0)
    second = loaded(x)
    nisa.tensor_scalar(second, second, nl.multiply, 2.0)
    nisa.dma_copy(dst=out[core, 1], src=second)
    nisa.core_barrier(shared, (0, 1))
    nisa.dma_copy(dst=out[core, 0], src=first)
    return out


def in_order(x):
    """As ``ahead``, with two tiles, where the second is stored first; an edge may name both loads."""
    first, second = loaded(x[0], name="first"), loaded(x[1], name="second")
    out = hbm(*ROWS)
    nisa.dma_copy(dst=out, src=second)
    nisa.dma_copy(dst=out, src=first)
    return out


ONE, TWO = {"x": ROWS}, {"x": (2, *ROWS)}
STAYS: list[tuple[Any, int, int, dict[str, Any]]] = [
    (overwritten, 2, 3, ONE),
    (filled_in_turns, 2, 3, ONE),
    (indexed, 1, 2, {"x": ROWS, "rows": ((P, 1), int32)}),
    (meeting(False), 1, 2, ONE | {"grid": (2,)}),
    (meeting(True), 2, 3, ONE | {"grid": (2,)}),
    (stored_around, 1, 2, ONE | {"grid": (2,)}),
    (in_order, 0, 1, TWO),
    (in_order, 1, 2, TWO | {"edges": (("second", ("first",)),)}),
]
"""Kernels, the tiles that are too few for them, and the tiles that are enough."""


@pytest.mark.parametrize(
    ("kernel", "few", "enough", "options"), STAYS, ids=lambda each: getattr(each, "__name__", None)
)
def test_what_others_may_see_does_not_move(kernel: Any, few: int, enough: int, options: dict[str, Any]) -> None:
    """Loads stay behind writes of what they load and of its rows, at meetings, at edges, and with other fills."""
    with pytest.raises(MemoryFullError):
        compiled(kernel, small(few * ROW + 64), **options)
    agree(kernel, small(enough * ROW + 64), **options)


def filled_again(x):
    """As ``ahead``, of tiles that are filled once more after their use."""
    tiles, out = [loaded(x[i]) for i in range(x.shape[0])], hbm(2, *x.shape)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=out[0, i], src=tiles[i])
        nisa.memset(tiles[i], value=float(i))
        nisa.dma_copy(dst=out[1, i], src=tiles[i])
    return out


def late_stores(x):
    """Computes all tiles and stores them behind the last one, with more loads ahead than fit beside."""
    tiles = [loaded(x[i]) for i in range(x.shape[0])]
    return stored(*[scaled(each) for each in tiles])


@pytest.mark.parametrize(
    ("kernel", "room", "count"), [(filled_again, 1, 4), *((late_stores, room, 10) for room in (2, 3, 7))]
)
def test_loads_move_down_and_stores_move_up(kernel: Any, room: int, count: int) -> None:
    agree(kernel, small(room * ROW), x=(count, *ROWS))


STEPS = drawn.steps(drawn.reload, drawn.reload_part, drawn.store_part, drawn.add, drawn.fill_part, most=30)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(2, 6))
def test_the_bits_of_a_larger_memory(steps: Any, room: int) -> None:
    kernel, machine = drawn.drawn_kernel(steps), small(room * drawn.BYTES)
    try:
        compiled(kernel, machine, x=drawn.SHAPE)
    except MemoryFullError:
        return
    agree(kernel, machine, x=drawn.SHAPE)


# Copies out of PSUM


def late(a, b):
    """Products that are all copied out of PSUM behind the last one."""
    right, sums = nl.load(b), [psum(b.shape[1]) for _ in range(a.shape[0])]
    for i, one in enumerate(sums):
        nisa.nc_matmul(one, nl.load(a[i]), right)
    out = hbm(a.shape[0], P, b.shape[1])
    for i, one in enumerate(sums):
        nl.store(out[i], nl.copy(one))
    return out


def interleaved(a, b):
    """Sums of several products each, which grow in turn."""
    right, sums = nl.load(b), [psum(b.shape[1]) for _ in range(a.shape[1])]
    for k in range(a.shape[0]):
        for i, one in enumerate(sums):
            nisa.nc_matmul(one, nl.load(a[k, i]), right)
    out = hbm(a.shape[1], P, b.shape[1])
    for i, one in enumerate(sums):
        nl.store(out[i], nl.copy(one))
    return out


def late_in_a_loop(a, b):
    """As ``late``, in each round of a loop on the device, beside a sum from before the loop."""
    out, right, increasing, held = hbm(4, P, 512), nl.load(b), nl.zeros((P, 512), dtype=nl.float32), psum(512)
    nisa.nc_matmul(held, nl.load(a[0]), right)

    def body(_):
        sums = [psum(512) for _ in range(4)]
        for i, one in enumerate(sums):
            nisa.nc_matmul(one, nl.load(a[i]), right)
        for i, one in enumerate(sums):
            done = nl.copy(one)
            nisa.tensor_tensor(done, done, increasing, nl.add)
            nisa.tensor_tensor(done, done, held, nl.add)
            nl.store(out[i], done)
        nisa.tensor_scalar(increasing, increasing, nl.add, 1.0)

    nl.fori_loop(0, 2, body)
    return out


@pytest.mark.parametrize(
    ("kernel", "banks", "shape"),
    [*((late, banks, (12,)) for banks in (1, 3, 8)), (interleaved, 2, (3, 5)), (late_in_a_loop, 2, (4,))],
)
def test_copies_that_come_late_move_up(kernel: Any, banks: int, shape: tuple[int, ...]) -> None:
    """A sum is complete before the next one needs its bank."""
    agree(kernel, small(psum=banks * BANK), a=(*shape, P, P), b=(P, 512))


def test_a_loop_and_a_sum_from_before_it_need_two_banks() -> None:
    with pytest.raises(MemoryFullError):
        compiled(late_in_a_loop, small(psum=BANK), a=(4, P, P), b=(P, 512))


def test_no_more_copies_move_than_have_to() -> None:
    names = [inst.mnemonic for inst in compiled(late, small(psum=8 * BANK), a=(9, P, P), b=(P, 512)).core.numbered]
    kinds = [name for name in names if name in ("nc_matmul", "tensor_copy")]
    assert kinds == ["nc_matmul"] * 8 + ["tensor_copy", "nc_matmul"] + ["tensor_copy"] * 8
