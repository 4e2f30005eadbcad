"""What depends on what: exactly the instructions whose bytes meet, judged by sets of bytes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nki.analysis.alias_classes import MOST_RUNS, Bytes, Pattern, atoms, classes, form_of, windows
from nki.analysis.memory_effects import footprint, footprints
from nki.base.dtype import float32
from nki.ir.instruction import Inst
from nki.ir.loop import instructions
from nki.ir.types import Access, Buffer, Tensor
from nki.passes import order

from . import programs
from .playing import compiled


def bytes_of(access: Access) -> set[tuple[str, int, int]]:
    """Every byte of a window: its memory, partition (in HBM: 0) and number."""
    tensor = access.tensor
    if access.dynamic is not None:
        access = Access.whole(tensor)
    size = access.dtype.itemsize
    numbers = np.array([access.offset])
    for count, step in zip(access.shape, access.strides, strict=True):
        numbers = (numbers[:, None] + np.arange(count) * step).reshape(-1)
    numbers = (numbers[:, None] * size + np.arange(size)).reshape(-1)
    if not tensor.buffer.on_chip:
        return {(tensor.name, 0, int(n)) for n in numbers}
    row = tensor.free_size * tensor.dtype.itemsize
    if tensor.address is None:
        return {(tensor.name, *divmod(int(n), row)) for n in numbers}
    first, start = tensor.address
    return {(tensor.buffer.word, first + int(n) // row, start + int(n) % row) for n in numbers}


Touched = tuple[set[tuple[str, int, int]], set[tuple[str, int, int]]]


def touched(insts: list[Inst]) -> Touched:
    """The bytes that the instructions read, and those that they write."""
    reads = set().union(*(bytes_of(access) for inst in insts for access in inst.reads()))
    return reads, set().union(*(bytes_of(access) for inst in insts for access in inst.writes()))


def meets(one: Touched, two: Touched) -> bool:
    """Whether one of them writes a byte that the other one touches."""
    return not (one[1].isdisjoint(two[0]) and one[1].isdisjoint(two[1]) and two[1].isdisjoint(one[0]))


@st.composite
def accesses(draw, tensor: Tensor) -> Access:
    """A window of up to three dimensions, backwards in HBM sometimes, that stays inside the tensor."""
    rows, free = tensor.shape[0], tensor.free_size
    if tensor.buffer.on_chip:
        first, count = draw(st.integers(0, rows - 1)), draw(st.integers(1, rows))
        dims = [(min(count, rows - first), free)]
        offset, room = first * free, free
    else:
        dims, offset, room = [], 0, rows * free
    start = draw(st.integers(0, room - 1))
    left = room - 1 - start
    for _ in range(draw(st.integers(1, 3))):
        step = draw(st.integers(0, max(1, min(left, 9))))
        count = draw(st.integers(1, min(6, 1 + (left // step if step else 5))))
        left -= (count - 1) * step
        if step and not tensor.buffer.on_chip and draw(st.booleans()):
            start, step = start + (count - 1) * step, -step
        dims.append((count, step))
    return Access(tensor, offset + start, tuple(c for c, _ in dims), tuple(s for _, s in dims), tensor.dtype)


@given(st.data())
def test_windows_share_an_atom_if_and_only_if_they_share_a_byte(data):
    shape = data.draw(st.sampled_from([(6, 20), (4, 3, 5), (31,)]))
    buffer = Buffer.hbm if len(shape) == 1 else data.draw(st.sampled_from([Buffer.sbuf, Buffer.hbm]))
    tensor = Tensor("t", shape, float32, buffer)
    seen = data.draw(st.lists(accesses(tensor), min_size=2, max_size=24))
    _, found = atoms(windows(tensor, [form_of(access) for access in seen]))
    sets = [set(its.tolist()) for its in found]
    truth = [bytes_of(access) for access in seen]
    for i, j in combinations(range(len(seen)), 2):
        assert bool(sets[i] & sets[j]) == bool(truth[i] & truth[j]), (i, j)


def test_interleaved_windows_do_not_meet():
    tensor = Tensor("t", (4, 64), float32, Buffer.sbuf)
    even, odd = (Access(tensor, start, (4, 32), (64, 2), float32) for start in (0, 1))
    whole, left = Access.whole(tensor), Access(tensor, 0, (4, 16), (64, 1), float32)
    _, found = atoms(windows(tensor, [form_of(a) for a in (even, odd, whole, left)]))
    sets = [set(its.tolist()) for its in found]
    assert not sets[0] & sets[1]
    assert sets[0] | sets[1] == sets[2]
    assert sets[3] < sets[2]
    assert sets[3] & sets[0] and sets[3] & sets[1]


def test_columns_of_a_matrix_in_hbm_do_not_meet():
    tensor = Tensor("t", (4096, 8192), float32, Buffer.hbm)
    blocks = [
        Access(tensor, 128 * i * 8192 + 512 * j, (128, 512), (8192, 1), float32) for i in range(32) for j in range(16)
    ]
    count, found = atoms(windows(tensor, [form_of(a) for a in blocks]))
    assert count == 512
    assert all(len(its) == 1 for its in found)
    assert len({int(its[0]) for its in found}) == 512


def test_a_pattern_of_too_many_pieces_counts_as_all_between_its_ends():
    comb = Pattern(0, 1, ((MOST_RUNS + 1, 2),))
    assert comb.bounded() == Pattern(0, 2 * MOST_RUNS + 1)
    _, found = classes([comb.bounded(), Pattern(1, 1)])
    assert set(found[0].tolist()) & set(found[1].tolist())


def test_overlapping_steps_are_one_piece():
    assert Bytes.of((3, (4, 5), (2, 1), 4)) == Bytes(12, 4 * 11, ())


@settings(max_examples=15)
@given(programs.programs)
def test_dependences_are_those_of_the_bytes(steps):
    kernel = compiled(programs.program, *programs.INPUTS, steps, stop="order")
    found = order.dependences(kernel.core, kernel.core.body)
    bytes_ = [touched(list(instructions([statement]))) for statement in kernel.core.body]
    reached: list[set[int]] = []
    for number, direct in enumerate(found):
        assert all(p < number for p in direct)
        for p in direct:
            assert meets(bytes_[p], bytes_[number]), (p, number)
        reached.append(direct.union(*(reached[p] for p in direct)))
    for p, number in combinations(range(len(bytes_)), 2):
        assert p in reached[number] or not meets(bytes_[p], bytes_[number]), (p, number)


@settings(max_examples=15)
@given(programs.programs)
def test_footprints_meet_where_bytes_do(steps):
    kernel = compiled(programs.program, *programs.INPUTS, steps, stop="order")
    footprints(kernel.core, kernel.core.placement)
    found = [(numbers(inst), touched([inst])) for inst in kernel.instructions()]
    for ((reads, writes), mine), ((others, written), its) in combinations(found, 2):
        assert bool(writes & (others | written) or written & reads) == meets(mine, its)


def numbers(inst: Inst) -> tuple[set[object], set[object]]:
    """The atoms that the instruction reads and writes, those of windows of very many too."""
    found = footprint(inst)
    many = [
        {(memory, int(atom)) for memory, which in its for atom in np.arange(1 << 16)[which]}
        for its in (found.many_reads, found.many_writes)
    ]
    return set(found.reads) | many[0], set(found.writes) | many[1]
