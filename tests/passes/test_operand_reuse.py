"""Results that take the place of operands: bits stay, and all that says otherwise keeps the tiles apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki.isa as nisa
import nki.language as nl
from nki.base.errors import MemoryFullError
from nki.ir.program import Program
from nki.passes.operand_reuse import FEW_TILES, ReuseOperands
from nki.passes.renaming import renamed
from tests.passes.small_memory import (
    COLUMNS,
    ROW,
    P,
    assert_same_bits,
    compiled,
    loaded,
    placed,
    scaled,
    small,
    stored,
    tile,
    total,
    with_body,
)
from tests.passes.test_load_reuse import ordered

STAGE = ReuseOperands()
TIGHT = small((FEW_TILES - 1) * ROW)


def reused(program: Program, machine: Any = TIGHT) -> Program:
    after = STAGE.run(program, machine)
    STAGE.check(program, after, machine)
    return after


def tiles_of(program: Program) -> int:
    """The tiles of the usual size."""
    return sum(t.buffer.on_chip and t.shape == (P, COLUMNS) for t in program.core.tensors)


def in_place(kernel: Callable[..., Any]) -> int:
    """How many results of ``kernel`` take the place of operands; its bits stay."""
    before = ordered(kernel, x=(P, COLUMNS))
    after = reused(before)
    if after is not before:
        assert_same_bits(placed(before, TIGHT), placed(after, TIGHT))
    return tiles_of(before) - tiles_of(after)


def normalised(x):
    t = loaded(x)
    return stored(scaled(scaled(t, total(t)), 0.5))


def in_two_steps(x):
    t, e, y = loaded(x), tile(), tile()
    nisa.activation(dst=e, op=nl.exp, data=t)
    nisa.tensor_tensor(y, scaled(e), e, nl.add)
    return stored(y)


def copied(x):
    t, y = loaded(x), tile()
    nisa.tensor_copy(y, t)
    return stored(y)


def twice_an_operand(x):
    t, y = loaded(x), tile()
    nisa.tensor_tensor(y, t, t, nl.multiply)
    return stored(y)


def read_later(x):
    t = loaded(x)
    return stored(scaled(t), t)


def of_another_dtype(x):
    t = loaded(x)
    return stored(scaled(scaled(t, dtype=nl.bfloat16)))


def of_another_shape(x):
    t, y = loaded(x), nl.ndarray((P, 2, COLUMNS // 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(y, t.reshape((P, 2, COLUMNS // 2)), nl.add, 1.0)
    return stored(y.reshape((P, COLUMNS)))


def of_a_part(x):
    t, y = loaded(x), tile()
    for first in (0, COLUMNS // 2):
        nisa.tensor_scalar(y[:, first : first + COLUMNS // 2], t[:, first : first + COLUMNS // 2], nl.add, 1.0)
    return stored(y)


def of_other_columns(x):
    t, y = loaded(x), tile()
    nisa.tensor_tensor(y, t, t.ap([[COLUMNS, P], [0, COLUMNS]]), nl.add)
    return stored(y)


def beside_another_reader(x):
    """The sum may come late: a result in place of its operand would wait for it."""
    t, out = loaded(x), nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total(t))
    y = scaled(t)
    return stored(y), out


def filled_before(x):
    t, y = loaded(x), tile()
    nisa.memset(y, value=0.0)
    nisa.tensor_tensor(y, t, y, nl.add)
    return stored(y)


def in_a_loop(x):
    t, y = loaded(x), tile()
    nisa.memset(y, value=0.0)
    result = tile()

    def body(_: Any) -> None:
        nisa.tensor_scalar(result, t, nl.add, 1.0)

    nl.fori_loop(0, 3, body)
    return stored(result, y)


def at_addresses(x):
    t, y = loaded(x), tile(address=(0, 8 * ROW))
    nisa.tensor_scalar(y, t, nl.add, 1.0)
    return stored(y)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (normalised, 2),
        (in_two_steps, 2),
        (copied, 1),
        (twice_an_operand, 1),
        (read_later, 0),
        (of_another_dtype, 0),
        (of_another_shape, 0),
        (of_a_part, 0),
        (of_other_columns, 0),
        (beside_another_reader, 0),
        (filled_before, 0),
        (in_a_loop, 0),
        (at_addresses, 0),
    ],
)
def test_results_in_the_place_of_operands(kernel: Callable[..., Any], count: int) -> None:
    assert in_place(kernel) == count


def test_where_many_tiles_fit_all_stay() -> None:
    program = ordered(normalised, x=(P, COLUMNS))
    assert STAGE.run(program, small(FEW_TILES * ROW)) is program
    assert tiles_of(reused(program)) < tiles_of(program)


def gated(x):
    """A product of a tile with a function of it: three tiles, where two are enough."""
    t, gate, y = loaded(x), tile(), tile()
    nisa.activation(dst=gate, op=nl.sigmoid, data=t)
    nisa.tensor_tensor(y, t, gate, nl.multiply)
    return stored(y)


def test_a_kernel_that_may_spill_fits_in_place() -> None:
    def program(room: int, spills: bool) -> Program:
        return compiled(gated, small(room * ROW), stop="sync", spills=spills, x=(P, COLUMNS))

    roomy, tight = program(3, False), program(2, True)  # without a warning of spills
    assert (tiles_of(roomy), tiles_of(tight)) == (3, 2)
    assert_same_bits(roomy, tight)
    for room, spills in ((2, False), (1, True)):
        with pytest.raises(MemoryFullError, match="3 tensors in use at one moment"):
            program(room, spills)


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 7), st.integers(0, 7)), min_size=2, max_size=16)


def drawn(steps: tuple[tuple[int, int, int], ...]) -> Callable[..., Any]:
    """A kernel of element-wise instructions, sums, and writes to what others have written."""

    def kernel(x):
        tiles = [loaded(x)]
        for kind, one, two in steps:
            a, b = tiles[-1 - one % len(tiles)], tiles[-1 - two % len(tiles)]
            if kind == 0:
                tiles.append(scaled(a))
            elif kind == 1:
                tiles.append(scaled(a, total(b)))
            elif kind == 2:
                tiles.append(tile())
                nisa.tensor_tensor(tiles[-1], a, b, nl.subtract)
            elif kind == 3:
                nisa.tensor_scalar(a[:, 0:8], a[:, 0:8], nl.multiply, 0.5)
            else:
                tiles.append(tile())
                nisa.activation(dst=tiles[-1], op=nl.tanh, data=a)
        return stored(*tiles[-2:])

    return kernel


@settings(max_examples=30)
@given(STEPS)
def test_random_kernels_keep_their_bits(steps: list[tuple[int, int, int]]) -> None:
    before = ordered(drawn(tuple(steps)), x=(P, COLUMNS))
    machine = small((FEW_TILES - 1) * ROW + 32 * COLUMNS)  # sums have room
    after = reused(before, machine)
    assert tiles_of(after) <= tiles_of(before)
    if after is not before and tiles_of(before) < FEW_TILES:
        assert_same_bits(placed(before, machine), placed(after, machine))


def test_the_check_refuses_what_is_no_reuse() -> None:
    program = ordered(read_later, x=(P, COLUMNS))
    body = program.core.body
    tensors = [t for t in program.core.tensors if t.buffer.on_chip]
    stale = [renamed(inst, {tensors[1]: tensors[0]}) for inst in body]
    for wrong, message in ((stale, "finds another"), ([*body[:-1], body[-2]], "is new|finds another")):
        with pytest.raises(AssertionError, match=message):
            STAGE.check(program, with_body(program, wrong), TIGHT)
