"""Loads that are left out: bits stay, and all that says otherwise keeps the load."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuronxcc.nki.isa as b1isa
import neuronxcc.nki.language as b1
import nki.isa as nisa
import nki.language as nl
from neuronxcc import nki as beta1
from nki.analysis.liveness import live_ranges, peak_pressure
from nki.base.element_types import int32
from nki.ir.program import Program
from nki.ir.types import Buffer
from nki.passes import load_reuse
from nki.passes.load_reuse import SHARE, ReuseLoads
from nki.passes.renaming import renamed
from nki.target.model import Target
from tests.passes import random_kernels as drawn
from tests.passes.small_memory import (
    COLUMNS,
    ROW,
    TRN2,
    P,
    assert_same_bits,
    compiled,
    hbm,
    loaded,
    placed,
    private,
    scaled,
    small,
    stored,
    tile,
    with_body,
)

STAGE = ReuseLoads()


def ordered(kernel: Any, machine: Target = TRN2, **options: Any) -> Program:
    """The program of ``kernel`` before the stage."""
    return compiled(kernel, machine, stop="order", **options)


def reused(program: Program, machine: Target = TRN2) -> Program:
    after = STAGE.run(program, machine)
    STAGE.check(program, after, machine)
    return after


def loads(program: Program) -> Counter[str]:
    """The loads from HBM, by tensor."""
    copies = [inst.as_copy() for inst in program.instructions()]
    return Counter(c.src.name for c in copies if c is not None and c.src.buffer.is_hbm and not c.dst.buffer.is_hbm)


def assert_reuse_keeps_bits(before: Program, machine: Target = TRN2) -> Program:
    """Both executors agree on both programs; the one after the stage."""
    after = reused(before, machine)
    assert_same_bits(*(placed(program, machine) for program in (before, after)))
    return after


@beta1.jit
def states(delta, u, a, b, c):
    """A state-space model with the states as outer loop, so that all of ``delta`` and ``u`` comes again for each."""
    channels, length = delta.shape
    out = b1.ndarray((channels, length), dtype=delta.dtype, buffer=b1.shared_hbm)
    sums = b1.zeros((channels // P, b1.par_dim(P), length), dtype=delta.dtype)
    for s in b1.affine_range(a.shape[1]):
        for t in b1.affine_range(channels // P):
            rows = b1.ds(t * P, P)
            step, rate = b1.load(delta[rows, 0:length]), b1.load(a[rows, b1.ds(s, 1)])
            decay = b1isa.activation(op=b1.exp, data=step, scale=rate)
            scaled = b1isa.tensor_tensor(step, b1.load(u[rows, 0:length]), op=b1.multiply)
            entry = b1.load(b[b1.ds(s, 1), 0:length]).broadcast_to((P, length))
            driven = b1isa.tensor_tensor(scaled, entry, op=b1.multiply)
            state = b1isa.tensor_tensor_scan(decay, driven, initial=0, op0=np.multiply, op1=np.add)
            exit_ = b1.load(c[b1.ds(s, 1), 0:length]).broadcast_to((P, length))
            sums[t, 0:P, 0:length] += b1isa.tensor_tensor(state, exit_, op=b1.multiply)
    for t in b1.affine_range(channels // P):
        b1.store(out[b1.ds(t * P, P), 0:length], sums[t, 0:P, 0:length])
    return out


def shapes_of_states(channels: int, length: int, count: int) -> dict[str, tuple[int, ...]]:
    wide, thin = (channels, length), (count, length)
    return {"delta": wide, "u": wide, "a": (channels, count), "b": thin, "c": thin}


@beta1.jit
def product(a, b):
    """``a.T @ b``, with both tiles loaded for each product."""
    out = b1.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=b1.shared_hbm)
    for m in b1.affine_range(a.shape[1] // P):
        for n in b1.affine_range(b.shape[1] // 512):
            total = b1.zeros((P, 512), b1.float32, buffer=b1.psum)
            for k in b1.affine_range(a.shape[0] // P):
                left = b1.load(a[b1.ds(k * P, P), b1.ds(m * P, P)])
                right = b1.load(b[b1.ds(k * P, P), b1.ds(n * 512, 512)])
                total += b1.matmul(left, right, transpose_x=True)
            b1.store(out[b1.ds(m * P, P), b1.ds(n * 512, 512)], b1.copy(total, dtype=a.dtype))
    return out


@beta1.jit
def masked(x):
    """The last rows are fewer than a tile has; the third pass reads fewer still."""
    out = b1.ndarray((3, *x.shape), dtype=x.dtype, buffer=b1.shared_hbm)
    p, f = b1.mgrid[0:P, 0:COLUMNS]
    for turn in b1.affine_range(3):
        for t in b1.affine_range(2):
            inside = t * P + p < (200 if turn < 2 else 180)
            tile = b1.load(x[t * P + p, f], mask=inside)
            b1.store(out[turn, t * P + p, f], tile * 2.0, mask=inside)
    return out


@beta1.jit
def cast(x):
    """Rows as float32, as bfloat16, and transposed; each of them twice."""
    out = b1.ndarray((2, 3, P, P), dtype=x.dtype, buffer=b1.shared_hbm)
    for turn in b1.sequential_range(2):
        wide, narrow = b1.load(x[0:P, 0:P]), b1.load(x[0:P, 0:P], dtype=b1.bfloat16)
        turned = b1.load_transpose2d(x[0:P, 0:P])
        b1.store(out[turn, 0], wide + turn)
        b1.store(out[turn, 1], narrow)
        b1.store(out[turn, 2], turned)
    return out


KERNELS = [
    (states, shapes_of_states(2 * P, 32, 3), {"delta": 2, "u": 2, "a": 6, "b": 3, "c": 3}),
    (product, {"a": (2 * P, 2 * P), "b": (2 * P, 1024)}, {"a": 4, "b": 4}),
    (masked, {"x": (200, COLUMNS)}, {"x": 3}),
    (cast, {"x": (P, P)}, None),
]


@pytest.mark.filterwarnings("ignore:output 'out'")
@pytest.mark.parametrize(("kernel", "shapes", "remaining"), KERNELS, ids=[row[0].func.__name__ for row in KERNELS])
def test_bits_stay(kernel: Any, shapes: dict[str, Any], remaining: dict[str, int] | None) -> None:
    before = ordered(kernel, **shapes)
    after = assert_reuse_keeps_bits(before)
    assert after.size < before.size
    if remaining is not None:
        assert loads(after) == remaining


def twice(x):
    return stored(loaded(x), loaded(x))


def test_one_load_of_two_remains() -> None:
    program = ordered(twice, x=(P, COLUMNS))
    assert loads(program) == {"x": 2} and loads(reused(program)) == {"x": 1}


def store_between(x):
    scratch = private(P, COLUMNS)
    nisa.dma_copy(dst=scratch, src=loaded(x))
    one = loaded(scratch)
    nisa.dma_copy(dst=scratch, src=scaled(one))
    return stored(one, loaded(scratch))


def store_between_in_a_loop(x):
    scratch = private(P, COLUMNS)
    nisa.dma_copy(dst=scratch, src=loaded(x))
    one = loaded(scratch)
    doubled = scaled(one)
    nl.fori_loop(0, 2, lambda _: nisa.dma_copy(dst=scratch, src=doubled))
    return stored(one, loaded(scratch))


def overwritten_tile(x):
    one, copy = loaded(x), tile()
    nisa.tensor_copy(copy, one)
    nisa.tensor_scalar(one, one, nl.multiply, 2.0)
    return stored(copy, one, loaded(x))


def overwritten_second_tile(x):
    one, two = loaded(x), loaded(x)
    nisa.tensor_scalar(two[:, 0:8], two[:, 0:8], nl.multiply, 2.0)
    return stored(one, two)


def other_window(x):
    one, two = tile(), tile()
    nisa.dma_copy(dst=one[0:64], src=x[0:64])
    nisa.memset(one[64:P], value=0.0)
    nisa.dma_copy(dst=two[0:64], src=x[64:P])
    nisa.memset(two[64:P], value=0.0)
    reversed_rows = tile()
    nisa.dma_copy(dst=reversed_rows, src=x.ap([[COLUMNS, P // 2], [1, 2 * COLUMNS]]).reshape((P, COLUMNS)))
    return stored(one, two, reversed_rows, loaded(x))


def other_rows(x):
    """Windows of one form at other places."""
    return stored(*[loaded(x[:, start : start + 32]) for start in (0, 16, 0)])


def other_dtype(x):
    narrow, wide = tile(dtype=nl.bfloat16), tile()
    nisa.dma_copy(dst=narrow, src=x)
    nisa.tensor_copy(wide, narrow)
    return stored(wide, loaded(x))


def other_part(x):
    """The same rows in other partitions of two tiles."""
    one, two = tile(), tile()
    nisa.dma_copy(dst=one[0:64], src=x[0:64])
    nisa.dma_copy(dst=two[64:P], src=x[0:64])
    return stored(one[0:64], two[64:P])


def other_columns(x):
    """The same rows in other columns of two tiles."""
    one, two = tile(), tile()
    nisa.dma_copy(dst=one[:, 0:32], src=x[:, 0:32])
    nisa.dma_copy(dst=two[:, 32:COLUMNS], src=x[:, 0:32])
    return stored(one[:, 0:32], two[:, 32:COLUMNS])


def added(x):
    one, two = tile(), tile()
    for each in (one, two):
        nisa.memset(each, value=1.0)
        nisa.dma_compute(each, [x, each], nl.add)
    return stored(one, two)


def gathered(x, rows):
    index = tile(1, nl.int32)
    nisa.dma_copy(dst=index, src=rows)
    one, two = tile(), tile()
    for each in (one, two):
        nisa.dma_copy(dst=each, src=x.ap([[COLUMNS, P], [1, COLUMNS]], vector_offset=index, indirect_dim=0))
    return stored(one, two)


def in_a_loop(x):
    one, total = tile(), tile()
    nisa.memset(total, value=0.0)

    def body(_):
        nisa.dma_copy(dst=one, src=x)
        nisa.tensor_tensor(total, total, one, nl.add)

    nl.fori_loop(0, 3, body)
    nl.fori_loop(0, 2, lambda _: nisa.tensor_tensor(total, total, loaded(x), nl.add))
    return stored(total)


def at_addresses(x):
    tiles = [tile(address=(0, ROW * n)) for n in range(2)]
    for each in tiles:
        nisa.dma_copy(dst=each, src=x)
    return stored(*tiles)


def within_hbm(x):
    copies = [private(P, COLUMNS) for _ in range(2)]
    for copy in copies:
        nisa.dma_copy(dst=copy, src=x)
    return stored(*map(loaded, copies))


KEPT = [
    store_between, store_between_in_a_loop, overwritten_tile, overwritten_second_tile, other_dtype, other_part,
    other_columns, added, in_a_loop, at_addresses, within_hbm,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KEPT, ids=lambda kernel: kernel.__name__)
def test_loads_that_differ_or_whose_rows_change_stay(kernel: Any) -> None:
    program = ordered(kernel, x=(P, COLUMNS))
    assert STAGE.run(program, TRN2) is program
    assert loads(program) or kernel is added


def test_gathered_rows_stay() -> None:
    program = ordered(gathered, x=(P, COLUMNS), rows=((P, 1), int32))
    assert STAGE.run(program, TRN2) is program


def test_only_the_same_window_is_left_out() -> None:
    before = ordered(other_rows, x=(P, COLUMNS))
    assert loads(before) == {"x": 3} and loads(assert_reuse_keeps_bits(before)) == {"x": 2}


def test_an_edge_of_the_user_keeps_a_load() -> None:
    def kernel(x):
        one, two = loaded(x), tile()
        nisa.dma_copy(dst=two, src=x, name="again")
        out = hbm(2, P, COLUMNS)
        nisa.dma_copy(dst=out[0], src=one, name="first")
        nisa.dma_copy(dst=out[1], src=two)
        return out

    program = ordered(kernel, edges=(("first", ("again",)),), x=(P, COLUMNS))
    assert STAGE.run(program, TRN2) is program
    assert loads(reused(ordered(kernel, x=(P, COLUMNS)))) == {"x": 1}


def test_readers_in_loops_and_indices_read_the_first_tile() -> None:
    def kernel(x, rows):
        total = tile()
        nisa.memset(total, value=0.0)
        out = hbm(2, P, COLUMNS)
        for turn in range(2):
            one = loaded(x)
            nl.fori_loop(0, 2, lambda _, one=one: nisa.tensor_tensor(total, total, one, nl.add))
            index, chosen = tile(1, nl.int32), tile()
            nisa.dma_copy(dst=index, src=rows)
            nisa.dma_copy(dst=chosen, src=x.ap([[COLUMNS, P], [1, COLUMNS]], vector_offset=index, indirect_dim=0))
            nisa.tensor_tensor(chosen, chosen, total, nl.add)
            nisa.dma_copy(dst=out[turn], src=chosen)
        return out

    before = ordered(kernel, x=(P, COLUMNS), rows=((P, 1), int32))
    assert loads(before) == {"x": 4, "rows": 2} and loads(assert_reuse_keeps_bits(before)) == {"x": 3, "rows": 1}


def shared_rows(x):
    """Each core loads ``x`` twice, and twice what core 1 writes before a barrier."""
    core = nl.program_id(0)
    shared = hbm(P, COLUMNS, name="shared")
    one, two = loaded(x), loaded(x)
    if core == 1:
        nisa.dma_copy(dst=shared, src=one)
    nisa.core_barrier(shared, (0, 1))
    three, four = loaded(shared), loaded(shared)
    out = hbm(2, 4, P, COLUMNS, name="out")
    for number, each in enumerate((one, two, three, four)):
        nisa.dma_copy(dst=out[core, number], src=each)
    return out


def test_what_cores_write_for_each_other_is_loaded_again() -> None:
    before = ordered(shared_rows, grid=(2,), x=(P, COLUMNS))
    after = assert_reuse_keeps_bits(before)
    assert [loads(after.with_cores([core])) for core in after.cores] == [{"x": 1, "shared": 2}] * 2


def test_a_kernel_without_room_keeps_its_loads() -> None:
    def kernel(x):
        tiles = [loaded(x[n % 4]) for n in range(2)]
        for n in range(2, 8):
            total = tile()
            nisa.tensor_tensor(total, tiles[-1], tiles[-2], nl.add)
            tiles.append(loaded(x[n % 4]))
        return stored(tiles[-1], tiles[-2], total)

    shape = (4, P, COLUMNS)
    program = ordered(kernel, x=shape)
    assert loads(reused(program)) == {"x": 4}
    peak = peak_pressure(live_ranges(program.core, TRN2)[Buffer.sbuf])[0]
    tight = small(peak)
    program = ordered(kernel, tight, x=shape)
    assert STAGE.run(program, tight) is program


def test_a_tile_that_is_in_use_anyway_takes_no_room() -> None:
    def kernel(x):
        first, total = loaded(x), tile()
        nisa.memset(total, value=0.0)
        for _ in range(3):
            nisa.tensor_tensor(total, total, loaded(x), nl.add)
            nisa.tensor_scalar(total, total, nl.multiply, 0.5)
        nisa.tensor_tensor(total, total, first, nl.add)
        return stored(total)

    before = ordered(kernel, x=(P, COLUMNS))
    tight = small(peak_pressure(live_ranges(before.core, TRN2)[Buffer.sbuf])[0])
    assert loads(before) == {"x": 4} and loads(assert_reuse_keeps_bits(before, tight)) == {"x": 1}


def test_a_kernel_whose_tiles_find_no_arrangement_keeps_its_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ordered(twice, x=(P, COLUMNS))
    monkeypatch.setattr(load_reuse, "plan_of", lambda *_: None)
    assert STAGE.run(program, TRN2) is program


LOADS = (drawn.load_anew, drawn.load_anew, drawn.reload)
STEPS = drawn.steps(*LOADS, drawn.store_part, drawn.scale_anew, drawn.scale_part)


@settings(max_examples=30)
@given(STEPS, st.integers(0, 6))
def test_random_kernels_keep_their_bits(steps: Any, room: int) -> None:
    before = ordered(drawn.drawn_kernel(steps), x=drawn.SHAPE)
    peak = peak_pressure(live_ranges(before.core, TRN2)[Buffer.sbuf])[0]
    machine = small(peak + room * drawn.BYTES)
    after = assert_reuse_keeps_bits(before, machine)
    most = peak + int(SHARE * room * drawn.BYTES)
    assert peak_pressure(live_ranges(after.core, machine)[Buffer.sbuf])[0] <= most


def test_the_check_refuses_what_is_no_reuse() -> None:
    program = ordered(store_between, x=(P, COLUMNS))
    body = program.core.body
    _, first, again = [n for n, inst in enumerate(body) if loads(with_body(program, [inst]))]
    old, stale = (copy.dst.tensor for n in (first, again) if (copy := body[n].as_copy()))
    shorter = [renamed(inst, {stale: old}) for inst in (*body[:again], *body[again + 1 :])]
    for wrong, message in ((shorter, "finds other rows"), (body[:-1], "is lost"), ([*body, body[-1]], "is new")):
        with pytest.raises(AssertionError, match=message):
            STAGE.check(program, with_body(program, wrong), TRN2)
