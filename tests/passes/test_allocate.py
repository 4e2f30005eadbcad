"""Stage ``allocate``: places that nothing else uses meanwhile, in a memory as small as what is in use."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.analysis.liveness import LiveRange, interference, live_ranges, peak_pressure
from nki.base.element_types import bfloat16, float32, int32
from nki.base.errors import AddressOverlapError, MemoryFullError, PartitionError, PlaceError
from nki.compilation.vendor_options import CompileConfig
from nki.ir.instruction import Inst
from nki.ir.loop import For, instructions
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.text import artifact, parser, printer
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.tensor_copy import Memset, TensorCopy
from nki.passes.allocate import Allocate
from nki.passes.allocation.packing import pack
from nki.passes.allocation.skyline import skyline
from nki.target.model import Target

from .small_memory import TRN2, small
from .tiles import Lost, alike, check, programs

ALLOCATE = Allocate()


def placed(kernel: Program, machine: Target = TRN2) -> Program:
    """``kernel`` with its places, or the test is of no use: there is no room."""
    try:
        return ALLOCATE.run(kernel, machine)
    except (MemoryFullError, AddressOverlapError):
        assume(False)
        raise


@pytest.mark.parametrize("options", [{}, {"parts": True}, {"addresses": True}], ids=str)
@given(data=st.data())
def test_nobody_overwrites_what_is_in_use(options: dict[str, bool], data: st.DataObject) -> None:
    """Addresses are kept, places are aligned, and a bank of PSUM belongs to one tile."""
    made = placed(data.draw(programs(**options)))
    check(made.core, made.core.placement)
    ALLOCATE.check(made, made, TRN2)
    for tensor, (partition, offset) in made.core.placement.items():
        assert tensor.address in (None, (partition, offset))
        assert partition + tensor.shape[0] <= 128 and offset % tensor.dtype.itemsize == 0
        size = tensor.free_size * tensor.dtype.itemsize
        if tensor.buffer is Buffer.psum:
            assert offset % 2048 == 0 and offset + size <= 16 * 1024
        else:
            assert offset + size <= TRN2.sbuf_usable_partition_bytes or tensor.address is not None


@given(programs(addresses=True, parts=True, largest=4000))
def test_addresses_are_refused_just_where_a_byte_is_lost(kernel: Program) -> None:
    """Tiles that lie over each other for a while, or in part, are what users place them for."""
    given_ = {t: t.address for t in kernel.core.tensors if t.address is not None}
    try:
        made = ALLOCATE.run(kernel, TRN2)
    except MemoryFullError:
        assume(False)
    except AddressOverlapError:
        with pytest.raises(Lost):
            check(kernel.core, given_)
    else:
        check(made.core, made.core.placement)
        ALLOCATE.check(made, made, TRN2)


@given(programs(addresses=True))
def test_the_same_again_and_kept_where_it_is(kernel: Program) -> None:
    made = placed(kernel)
    assert placed(kernel).core.placement == made.core.placement == ALLOCATE.run(made, TRN2).core.placement
    again = parser.parse(printer.show(made))
    assert again == made == artifact.loads(artifact.dumps(made))
    assert (again == made.with_cores([dataclasses.replace(made.core, placement={})])) is (not made.core.placement)
    assert ALLOCATE.run(again, TRN2) == made
    assert made.core.with_body(made.core.body).placement == made.core.placement


@given(programs(largest=2000))
def test_it_fits_into_what_is_in_use_and_a_twentieth(kernel: Program) -> None:
    need, _ = peak_pressure(live_ranges(kernel.core, TRN2)[Buffer.sbuf])
    machine = small(need + need // 20 + 4)
    assume(peak_pressure(live_ranges(kernel.core, machine)[Buffer.psum])[0] <= machine.psum_partition_bytes)
    made = ALLOCATE.run(kernel, machine)
    check(made.core, made.core.placement)


LIVES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 500)), min_size=1, max_size=80)


@given(LIVES)
def test_random_lives_in_a_tight_memory(drawn: list[tuple[int, int, int]]) -> None:
    found = [life(i, first, first + more, 4 * size) for i, (first, more, size) in enumerate(drawn)]
    found.sort(key=lambda one: one.first)
    need, _ = peak_pressure(found)
    capacity = need + need // 20
    made = pack(found, capacity)
    assert made is not None
    for i, one in enumerate(found):
        assert made[i][1] + one.size <= capacity
        for j, two in enumerate(found[:i]):
            apart = made[i][1] >= made[j][1] + two.size or made[j][1] >= made[i][1] + one.size
            assert apart or one.first > two.last or two.first > one.last
    assert pack(found, need - 1) is None


def test_scraps_between_tiles_do_not_lead_to_memory_that_was_just_freed() -> None:
    """Large tiles and small ones alternate, and fill the memory a hundred times."""
    large, capacity = 4096, 12 * 4096 + 500
    found: list[LiveRange] = []
    for i in range(1200):
        found += [life(2 * i, 4 * i, 4 * i + 2, large), life(2 * i + 1, 4 * i + 1, 4 * i + 3, 4)]
    made = pack(found, capacity)
    assert made is not None
    offsets = [offset for (_, offset), live in zip(made, found, strict=True) if live.size == large]
    for i, offset in enumerate(offsets):
        assert all(abs(offset - other) >= large for other in offsets[max(0, i - 6) : i])


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_thousands_of_short_lives_of_few_sizes_among_long_ones(seed: int) -> None:
    """As an unrolled kernel makes them: batches that share nothing, each of sections with tiles of their own."""
    drawn = random.Random(seed)
    batch: list[tuple[int, int, int]] = []
    for start in range(0, 4000, 1000):
        batch += [(start + 2 * i, start + 900 + drawn.randrange(100), 128) for i in range(60)]
        batch += [(start + 3 * i, start + 700 + drawn.randrange(300), 1024) for i in range(30)]
        for i in range(180):
            first = start + 4 * i
            batch.append((first, first + drawn.choice((40, 60, 120)), drawn.choice((1024, 4096, 8192))))
            batch.append((first + 1, first + 3, drawn.choice((4, 256))))
    batch += [(0, 3990, 160), (5, 3995, 4), (9, 3990, 160)]
    batch.sort()
    length = 4200
    shifted = [(first + at * length, last + at * length, size) for at in range(3) for first, last, size in batch]
    found = [life(i, *one) for i, one in enumerate(shifted)]
    need, _ = peak_pressure(found)
    capacity = need + need // 40  # less than the first plan takes, which is 1.03 to 1.08 of the need
    offsets = skyline(found, capacity)
    assert len(found) > 5000 and offsets is not None and offsets == skyline(found, capacity)
    places = {one.tensor: (0, offset) for one, offset in zip(found, offsets, strict=True)}
    assert interference(found, places) is None
    assert all(at >= 0 and at % 4 == 0 and at + one.size <= capacity for at, one in zip(offsets, found, strict=True))
    assert offsets[: len(batch)] == offsets[len(batch) : 2 * len(batch)] == offsets[2 * len(batch) :]


def life(number: int, first: int, last: int, size: int, partitions: int = 128) -> LiveRange:
    return LiveRange(Tensor(f"t{number}", (partitions, size // 4), float32, Buffer.sbuf), first, last, size, 4)


def tile(name: str, columns: int = 512, partitions: int = 128, **more: Any) -> Tensor:
    return Tensor(name, (partitions, columns), more.pop("dtype", float32), more.pop("buffer", Buffer.sbuf), **more)


def program(*body: Any, loops: tuple[Tensor, ...] = ()) -> Program:
    """A kernel of these statements, which declares what they touch and must not spill."""
    touched = dict.fromkeys(a.tensor for inst in instructions(body) for a in inst.accesses())
    core = CoreProgram(0, tuple(body), (*(t for t in touched if t not in loops), *loops))
    return Program("k", "trn2", (), Signature((), (), True), (core,), spills=False)


def fill(tensor: Tensor, columns: int | None = None) -> Inst:
    whole = Access.whole(tensor)
    shape = whole.shape if columns is None else (whole.shape[0], columns)
    return Memset(Access(tensor, 0, shape, whole.strides, whole.dtype), 0.0)


def use(tensor: Tensor) -> Inst:
    return copy(tensor, tensor)


def copy(dst: Tensor, src: Tensor) -> Inst:
    return TensorCopy(Access.whole(dst), Access.whole(src))


def held(*tiles: Tensor) -> list[Inst]:
    """Uses of all ``tiles`` that cannot be done before the last of them is filled."""
    last = window(tiles[-1], 0, 1)
    into_last = [TensorCopy(*alike(last, window(one, 0, 1))) for one in tiles[:-1]]
    return [*into_last, *(TensorCopy(*alike(window(one, 0, 1), last)) for one in tiles[:-1]), *map(use, tiles)]


def spans(kernel: Program) -> dict[str, tuple[int, int]]:
    found = live_ranges(kernel.core, TRN2)
    return {one.tensor.name: (one.first, one.last) for its in found.values() for one in its}


def loop(*body: Any, own: tuple[Tensor, ...] = ()) -> For:
    return For(Access.whole(Tensor("i", (1, 1), int32, Buffer.register)), 0, 3, 1, tuple(body), own)


def test_lives() -> None:
    a, b, c, d, e = (tile(name) for name in "abcde")
    body = (fill(a), fill(b), loop(fill(c), copy(d, c), copy(d, a), copy(e, d), own=(c, d, e)), fill(b))
    assert spans(program(*body)) == {"a": (0, 5), "b": (1, 6), "c": (2, 3), "d": (3, 5), "e": (5, 5)}


def test_a_write_of_narrower_elements_does_not_begin_another_live_range() -> None:
    """As many elements as the tile has, each half as wide: half of the bytes stay, and are read later."""
    fixed = tile("fixed", address=(0, 0))
    half = Access(fixed, 0, fixed.shape, (2 * fixed.free_size, 1), bfloat16)
    assert spans(program(fill(fixed), Memset(half, 0.0), use(fixed))) == {"fixed": (0, 2)}
    assert spans(program(fill(fixed), fill(fixed), use(fixed))) == {"fixed": (1, 2)}  # the second of two ranges


def test_what_a_round_reads_first_is_of_the_round_before() -> None:
    carried, fresh, out = tile("carried"), tile("fresh"), tile("out")
    body = loop(fill(fresh), copy(out, carried), copy(carried, fresh), own=(carried, fresh))
    assert spans(program(fill(out), body)) == {"out": (0, 3), "carried": (1, 3), "fresh": (1, 3)}


def test_what_a_round_leaves_in_a_part_is_of_the_round_before() -> None:
    """A round that has filled some columns may read others, and those are what an earlier round left."""
    kept, out, after = tile("kept"), tile("out"), tile("after")
    some, others = window(kept, 0, 8), window(kept, 8, 8)
    dst = window(out, 0, 8)
    body = loop(Memset(some, 0.0), TensorCopy(dst, others), Memset(others, 0.0), fill(after), own=(kept, after))
    assert spans(program(fill(out), body)) == {"out": (0, 4), "kept": (1, 4), "after": (4, 4)}
    whole = loop(Memset(some, 0.0), Memset(others, 0.0), TensorCopy(dst, others), fill(after), own=(kept, after))
    assert spans(program(fill(out), whole)) == {"out": (0, 4), "kept": (1, 3), "after": (4, 4)}


def window(tensor: Tensor, start: int, columns: int) -> Access:
    return Access(tensor, start, (tensor.shape[0], columns), (tensor.free_size, 1), tensor.dtype)


def test_loops_in_loops() -> None:
    a, b = tile("a"), tile("b")
    inner = loop(fill(b), copy(a, b), own=(b,))
    assert spans(program(fill(a), loop(fill(tile("c")), inner))) == {"a": (0, 3), "c": (1, 3), "b": (2, 3)}


def test_a_place_is_not_used_again_while_there_are_others() -> None:
    tiles = [tile(f"t{i}") for i in range(20)]
    made = ALLOCATE.run(program(*(fill(t) for t in tiles)), TRN2)
    assert len(set(made.core.placement.values())) == 20


def test_the_place_that_was_free_for_longest_is_used_again() -> None:
    """Eight banks go round, whatever order they are given back in."""
    first = [tile(f"a{i}", buffer=Buffer.psum) for i in range(8)]
    then = [tile(f"b{i}", buffer=Buffer.psum) for i in range(8)]
    order = [3, 1, 4, 0, 7, 2, 6, 5]
    made = ALLOCATE.run(program(*map(fill, first), *(fill(first[i]) for i in order), *map(fill, then)), TRN2)
    assert [made.core.placement[t][1] // 2048 for t in then] == order


def test_a_memory_that_is_full_once_is_not_tight_at_other_times() -> None:
    """Where one moment needs all of SBUF, tiles before and behind it go round through the free bytes all the same."""
    wide = [*(tile(f"wide{i}", 4096) for i in range(12)), tile("rest", 4094)]
    before, after = ([tile(f"{when}{i}", 512) for i in range(40)] for when in ("before", "after"))
    short = [inst for t in (*before, *after) for inst in (fill(t), fill(t))]
    body = (*short[:80], *map(fill, wide), *map(fill, reversed(wide)), *short[80:])
    made = ALLOCATE.run(program(*body), TRN2)
    ALLOCATE.check(made, made, TRN2)
    for tiles in (before, after):
        places = [made.core.placement[t][1] for t in tiles]
        assert all(len(set(places[i : i + 16])) == 16 for i in range(len(places) - 16))


def test_many_small_tiles_and_one_that_needs_most_of_the_memory() -> None:
    columns = [tile(f"c{i}", 1) for i in range(5000)]
    large = tile("large", 50_000)
    made = ALLOCATE.run(program(*map(fill, columns), fill(large), *map(fill, columns[:100])), TRN2)
    ALLOCATE.check(made, made, TRN2)


def test_a_bank_belongs_to_one_tile() -> None:
    tiles = [tile(f"t{i}", 1, buffer=Buffer.psum) for i in range(9)]
    assert ALLOCATE.run(program(*map(fill, tiles[:8]), *map(fill, tiles[:8])), TRN2).core.placement[tiles[7]] == (
        0,
        7 * 2048,
    )
    full = [tile(f"f{i}", 512, buffer=Buffer.psum) for i in range(9)]
    with pytest.raises(MemoryFullError, match="9 tensors in use at one moment, at memset, take 9 banks"):
        ALLOCATE.run(program(*map(fill, full), *held(*full)), TRN2)


def test_what_is_seen_as_wider_elements_is_aligned_to_them() -> None:
    odd, wide = tile("odd", 3, dtype=bfloat16), tile("wide", 30_000, dtype=bfloat16)
    view = Memset(Access(wide, 0, (128, 15_000), (15_000, 1), float32), 0.0)
    body = fill(odd), fill(wide), view, *held(odd, wide)
    made = ALLOCATE.run(program(*body), small(60_010))
    assert made.core.placement[odd][1] % 2 == 0 and made.core.placement[wide][1] % 4 == 0
    with pytest.raises(MemoryFullError):
        ALLOCATE.run(program(*body), small(60_005))


def test_tiles_of_few_partitions_lie_beside_one_another_only_where_it_must_be() -> None:
    quarter = [tile(f"q{i}", 40_000, 32) for i in range(4)]
    half = [tile(f"h{i}", 40_000, 64) for i in range(2)]
    few = ALLOCATE.run(program(fill(quarter[0]), fill(quarter[0])), TRN2)
    assert few.core.placement[quarter[0]] == (0, 0)
    for tiles, starts in ((quarter, {0, 32, 64, 96}), (half, {0, 64})):
        made = ALLOCATE.run(program(*map(fill, tiles), *held(*tiles)), TRN2)
        assert {p for p, _ in made.core.placement.values()} == starts
        ALLOCATE.check(made, made, TRN2)
        check(made.core, made.core.placement)
    with pytest.raises(MemoryFullError):
        ALLOCATE.run(program(*map(fill, [*quarter, *half]), *held(*quarter, *half)), TRN2)


def test_automatic_tiles_avoid_addresses_only_while_those_live() -> None:
    given_, before = tile("given", 10_000, address=(0, 80_000)), tile("before", 45_000)
    together = tile("together", 22_000)
    made = ALLOCATE.run(program(fill(before), fill(given_), fill(together), use(given_)), TRN2)
    assert made.core.placement[given_] == (0, 80_000) and made.core.placement[together][1] >= 120_000
    check(made.core, made.core.placement)


def test_an_address_may_use_all_that_is_there() -> None:
    last = tile("last", 1, address=(0, 224 * 1024 - 4))
    made = ALLOCATE.run(program(fill(last)), TRN2)
    ALLOCATE.check(made, made, TRN2)
    assert made.core.placement[last] == (0, 224 * 1024 - 4)


def test_addresses_meet_only_while_both_are_in_use() -> None:
    one, two = tile("one", 64, address=(0, 0)), tile("two", 64, address=(0, 252))
    ALLOCATE.run(program(fill(one), fill(two)), TRN2)
    with pytest.raises(AddressOverlapError, match=r"bytes 252 to 255 of partitions 0 to 127"):
        ALLOCATE.run(program(fill(one), fill(two), use(one)), TRN2)
    with pytest.raises(AddressOverlapError):  # a part of it is still what it was
        ALLOCATE.run(program(fill(one), fill(two), fill(one, 32), use(one)), TRN2)
    halves = [Memset(window(one, start, 32), 0.0) for start in (0, 32)]
    ALLOCATE.run(program(*halves, use(one), fill(two), use(two), *halves, use(one)), TRN2)
    ALLOCATE.run(program(loop(*halves, use(one), fill(two), use(two))), TRN2)
    with pytest.raises(AddressOverlapError, match=r"memset writes 'two' over bytes of 'one' that tensor_copy still"):
        ALLOCATE.run(program(fill(one), loop(use(one), fill(two))), TRN2)
    with pytest.raises(AddressOverlapError, match="of 'one' that it reads at the same time"):
        ALLOCATE.run(program(fill(one), copy(two, one)), TRN2)
    turns = ALLOCATE.run(program(fill(one), use(one), fill(two), use(two), fill(one), use(one)), TRN2)
    ALLOCATE.check(turns, turns, TRN2)
    beside = tile("beside", 64, 32, address=(64, 0))
    narrow = tile("narrow", 64, 64, address=(0, 0))
    ALLOCATE.run(program(fill(narrow), fill(beside), fill(narrow)), TRN2)


def test_an_engine_must_be_able_to_start_at_an_address() -> None:
    ALLOCATE.run(program(fill(tile("fine", 4, 32, address=(96, 0))), fill(tile("too", 4, 64, address=(64, 64)))), TRN2)
    with pytest.raises(PartitionError, match="starts at partition 32 and has 65"):
        ALLOCATE.run(
            program(fill(tile("fine", 4, 64, address=(64, 0))), fill(tile("not", 4, 65, address=(32, 0)))), TRN2
        )


KEPT = """
kernel "k" target=trn2 grid=() version="1" {
  input a : hbm float32[64,32]
  output c : shared_hbm float32[64,32]
  tensor t : sbuf float32[64,32] place=(0, 4096)
  tensor u : sbuf float32[64,32]
  dma_copy dst=t[0 | 32x64, 1x32] src=a[0 | 32x64, 1x32]
  tensor_copy dst=u[0 | 32x64, 1x32] src=t[0 | 32x64, 1x32]
  dma_copy dst=c[0 | 32x64, 1x32] src=u[0 | 32x64, 1x32]
  return c
}
"""


def test_places_of_a_text_are_kept_and_the_others_found() -> None:
    made = ALLOCATE.run(parser.parse(KEPT), TRN2)
    assert {t.name: p for t, p in made.core.placement.items()} == {"t": (0, 4096), "u": (0, 0)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("place=(0, 4096)", "place=(0, 4097)"),
        ("place=(0, 4096)", "place=(32, 4096)"),
        ("place=(0, 4096)", "place=(0, 212900)"),
        ("place=(0, 4096)", "at=(0, 0) place=(0, 4096)"),
        ("u : sbuf float32[64,32]", "u : sbuf float32[64,32] place=(0, 4220)"),
        ("a : hbm float32[64,32]", "a : hbm float32[64,32] place=(0, 0)"),
        ("t : sbuf float32[64,32] place=(0, 4096)", "t : psum float32[64,32] place=(0, 4)"),
    ],
)
def test_places_that_are_refused(old: str, new: str) -> None:
    assert old in KEPT
    with pytest.raises(PlaceError):
        ALLOCATE.run(parser.parse(KEPT.replace(old, new)), TRN2)


@pytest.mark.parametrize(("columns", "fits"), [(26_623, True), (26_624, False)])
def test_the_jit_and_the_simulator_refuse_what_does_not_fit(
    columns: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    kernel = nki.jit(twice.func, compile_config=CompileConfig(nki_alloc_fallback=False))
    a = np.ones((128, columns), np.float32)
    for run in (kernel, nki.simulate(kernel)):
        if fits:
            assert (run(a) == 2).all()
        else:
            with pytest.raises(MemoryFullError, match=f"take {2 * 4 * columns} bytes"):
                run(a)


@nki.jit
def twice(a: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    one, two = nl.ndarray(a.shape, dtype=a.dtype), nl.ndarray(a.shape, dtype=a.dtype)
    nisa.dma_copy(one, a)
    nisa.tensor_tensor(two, one, one, nl.add)
    nisa.dma_copy(out, two)
    return out


@nki.jit
def halves(a: Any) -> Any:
    """Each core doubles its half; the second one with another tile in front."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    if core == 1:
        first = nl.ndarray((128, 16), dtype=a.dtype)
        nisa.memset(first, 0.0)
    half = nl.ndarray((128, 64), dtype=a.dtype)
    nisa.dma_copy(half, a[:, nl.ds(core * 64, 64)])
    nisa.tensor_scalar(half, half, nl.multiply, 2.0)
    nisa.dma_copy(out[:, nl.ds(core * 64, 64)], half)
    return out


def test_each_core_has_a_memory_of_its_own() -> None:
    a = np.ones((128, 128), np.float32)
    made = halves[2].compile(a).kernel
    ALLOCATE.check(made, made, TRN2)
    found = [{t.name: p for t, p in core.placement.items()} for core in made.cores]
    assert found == [{"half": (0, 0)}, {"first": (0, 0), "half": (0, 64)}]
    assert parser.parse(printer.show(made)) == made == artifact.loads(artifact.dumps(made))
    assert (halves[2](a) == 2).all() and (nki.simulate(halves[2])(a) == 2).all()
