"""Dependences against a model that keeps the last writer and the readers of every single byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki.analysis import access_classes, address_reuse
from nki.analysis.access_classes import AccessClasses
from nki.analysis.dependence import DependenceGraph, GraphBuilder
from nki.analysis.reaching_accesses import ReachingAccesses
from nki.base.element_types import uint8
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor, TileAddress
from nki.isa.instructions.tensor_copy import TensorCopy
from tests.analysis.byte_model import accesses, bytes_of
from tests.passes import programs
from tests.support.interleaved_run import compiled

QUEUES = 3
Byte = tuple[str, int, int]


class Bytes:
    """The last writer of each byte, and its last reader on each queue since."""

    def __init__(self, place: Callable[[Access], Iterable[Byte]]) -> None:
        self.place = place
        self.writer: dict[Byte, int] = {}
        self.readers: dict[Byte, dict[int, int]] = {}

    def visit(self, number: int, queue: int, reads: list[Access], writes: list[Access]) -> tuple[set[int], set[int]]:
        read = {byte for access in reads for byte in self.place(access)}
        written = {byte for access in writes for byte in self.place(access)}
        results = {self.writer[byte] for byte in read & self.writer.keys()}
        others = {self.readers[byte][queue] for byte in read if queue in self.readers.get(byte, {})}
        for byte in read:
            self.readers.setdefault(byte, {})[queue] = number
        others |= {self.writer[byte] for byte in written & self.writer.keys()}
        others |= {reader for byte in written for reader in self.readers.pop(byte, {}).values()}
        self.writer.update(dict.fromkeys(written, number))
        return results, others - {number}


@st.composite
def successions(draw: st.DrawFn) -> tuple[CoreProgram, list[int]]:
    """Copies within tiles of a small memory, where most tiles take the place of others, and the queues of the copies.

    What a copy reads of a tile has been written, unless another tile has come between.
    """
    hbm = Tensor("hbm", (4, 8), uint8, Buffer.private_hbm)
    tiles: list[Tensor] = []
    placement: dict[Tensor, TileAddress] = {}
    for number in range(draw(st.integers(2, 6))):
        shape = (draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((4, 8, 8, 12))))
        tiles.append(Tensor(f"tile{number}", shape, uint8, Buffer.sbuf))
        placement[tiles[-1]] = (draw(st.sampled_from((0, 0, 0, 2))), draw(st.sampled_from((0, 4, 8))))
    turns = draw(st.lists(st.integers(0, len(tiles) - 1), min_size=2, max_size=24))
    if draw(st.booleans()) or draw(st.booleans()):
        turns.sort()
    body: list[Inst] = []
    written: dict[Tensor, list[Access]] = {}
    for turn in turns:
        tile = tiles[turn]
        earlier = written.setdefault(tile, [])
        source = draw(st.sampled_from(earlier)) if earlier and draw(st.booleans()) else draw(accesses(hbm))
        if any(access.size == tile.elements for access in earlier) and draw(st.booleans()):
            source = draw(accesses(tile))
        target = Access.whole(tile) if draw(st.booleans()) else draw(accesses(draw(st.sampled_from((tile, tile, hbm)))))
        if target.tensor is tile:
            earlier.append(target)
        body.append(TensorCopy(target, source))
    queues = draw(st.lists(st.integers(0, QUEUES - 1), min_size=len(body), max_size=len(body)))
    return CoreProgram(0, tuple(body), (hbm, *tiles), placement), queues


@pytest.mark.parametrize("limits", [{}, {"LARGE_CLASS_COUNT": 1, "LARGE_TILE_CLASS_COUNT": 1}, {"MAX_CLASSES": 20}])
@settings(max_examples=60)
@given(data=st.data())
def test_tiles_that_follow_one_another_depend_where_bytes_do(limits, data):
    core, queues = data.draw(successions())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(address_reuse if name == "MAX_CLASSES" else access_classes, name, value)
        compare(core, queues)


@settings(max_examples=15)
@given(programs.programs, st.sampled_from(("order", "allocate")), st.integers(1, QUEUES))
def test_instructions_depend_where_bytes_do(steps, stop, queues):
    core = compiled(programs.program, *programs.INPUTS, steps, stop=stop).core
    compare(core, [number % queues for number in range(len(core.numbered))])


def compare(core: CoreProgram, queues: list[int]) -> None:
    """Every instruction reads the results that it reads in the model of bytes, and comes after its other producers,
    directly or after others that do.

    Instructions that read bytes which nothing ever writes may depend on each other, or not.
    """

    def place(access: Access) -> set[Byte]:
        tensor = access.tensor
        address = core.placement.get(tensor)
        found = bytes_of(access)
        if address is None or tensor.address is not None:
            return found
        return {(tensor.buffer.word, row + address[0], byte + address[1]) for _, row, byte in found}

    written = {byte for inst in core.numbered for access in inst.writes() for byte in place(access)}
    reaching = ReachingAccesses(AccessClasses(core))
    least, most = Bytes(lambda access: place(access) & written), Bytes(place)
    before: list[set[int]] = []
    for number, (inst, queue) in enumerate(zip(core.numbered, queues, strict=True)):
        reads, writes = [*inst.read_operands(), *inst.indexed_by()], inst.writes()
        needed, possible = least.visit(number, queue, reads, writes), most.visit(number, queue, reads, writes)
        results, others = reaching.visit(number, queue, inst)
        assert results == needed[0] == possible[0]
        producers = results | others
        assert producers <= possible[0] | possible[1]
        before.append(producers.union(*(before[producer] for producer in producers)))
        assert needed[0] | needed[1] <= before[number]


VIEWS = 16
"""Strided columns of a tile, and rows of columns side by side: each meets all of the others."""


def viewed(tile: Tensor, number: int) -> Access:
    """A view of a tile of 4 x 256 bytes: strided columns, columns side by side, or all of it."""
    if number < VIEWS:
        return Access(tile, number, (4, VIEWS), (256, VIEWS), uint8)
    if number < 2 * VIEWS:
        return Access(tile, (number - VIEWS) * VIEWS, (4, VIEWS), (256, 1), uint8)
    return Access.whole(tile)


def graphs_of(core: CoreProgram, queues: list[int], first: int) -> list[DependenceGraph]:
    """The graphs of two blocks; one begins with instruction ``first``."""
    builder = GraphBuilder(core)
    cuts = slice(0, first), slice(first, None)
    return [builder.graph(core.numbered[cut], queues[cut]) for cut in cuts]


@settings(max_examples=60)
@given(
    copies=st.lists(st.tuples(*[st.integers(0, 3), st.integers(0, 2 * VIEWS)] * 2, st.integers(0, 2)), min_size=8),
    again=st.integers(1, 12),
    cut=st.integers(0, 100),
)
def test_dependences_found_at_once_are_those_found_one_by_one(copies, again, cut):
    """Copies between views of tiles, where two tiles take the places of the others; some do the same several times."""
    tiles = [Tensor(f"tile{number}", (4, 256), uint8, Buffer.sbuf) for number in range(4)]
    placement = {tile: (0, 256 * (number % 2)) for number, tile in enumerate(tiles)}
    ordered = sorted(copies, key=lambda copy: max(copy[0], copy[2]) // 2) if again % 2 else copies
    body: list[Inst] = []
    queues: list[int] = []
    for target, view, source, other, queue in ordered:
        for _ in range(again if view == other else 1):
            body.append(TensorCopy(viewed(tiles[target], view), viewed(tiles[source], other)))
            queues.append(queue)
    core = CoreProgram(0, tuple(body), tuple(tiles), placement)
    at_once = graphs_of(core, queues, cut * len(body) // 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access_classes, "LEAST_RANGE", 1 << 20)
        one_by_one = graphs_of(core, queues, cut * len(body) // 100)
    for graph, other in zip(at_once, one_by_one, strict=True):
        assert list(map(sorted, graph.predecessors)) == list(map(sorted, other.predecessors))
        assert list(map(sorted, graph.chained)) == list(map(sorted, other.chained))


def test_instructions_with_the_same_dependences_share_them():
    """Strided copies to a tile follow all readers of the columns that lie side by side in it."""
    hbm = Tensor("hbm", (4, 256), uint8, Buffer.private_hbm)
    tile, other = (Tensor(name, (4, 256), uint8, Buffer.sbuf) for name in ("tile", "other"))
    strided = [TensorCopy(viewed(tile, n), viewed(hbm, VIEWS + n)) for n in range(VIEWS)]
    columns = [TensorCopy(viewed(other, n), viewed(tile, VIEWS + n)) for n in range(VIEWS)]
    body = (*strided, *columns, *strided)
    core = CoreProgram(0, body, (hbm, tile, other), {tile: (0, 0), other: (0, 256)})
    graph = GraphBuilder(core).graph(body, [number // VIEWS % 2 for number in range(len(body))])
    again = graph.predecessors[2 * VIEWS :]
    assert set(again[0]) == set(range(VIEWS, 2 * VIEWS))
    assert len({id(numbers) for numbers in again}) == 1
    order = [*range(VIEWS), *reversed(range(VIEWS, 2 * VIEWS)), *range(2 * VIEWS, 3 * VIEWS)]
    moved = graph.permuted(order).predecessors[2 * VIEWS :]
    assert set(moved[0]) == set(again[0])
    assert len({id(numbers) for numbers in moved}) == 1


def test_classes_of_a_tile_do_not_depend_on_what_was_there_before():
    """Tiles in one place, half of them accessed by strided columns: each has the eight classes of its own columns."""
    body: list[Inst] = []
    placement: dict[Tensor, TileAddress] = {}
    for number in range(64):
        tile = Tensor(f"tile{number}", (4, 64), uint8, Buffer.sbuf)
        placement[tile] = (0, 0)
        step, count = (8, 1) if number % 2 else (1, 8)
        columns = [Access(tile, i * count, (4, 8), (64, step), uint8) for i in range(8)]
        body += [TensorCopy(Access.whole(tile), Access.whole(tile)), *(TensorCopy(c, c) for c in columns)]
    classes = AccessClasses(CoreProgram(0, tuple(body), tuple(placement), placement))
    assert classes.count == 1 + 64 * 8
    assert not classes.large_sizes


def test_near_and_permuted_graphs():
    graph = DependenceGraph()
    graph.predecessors = [(), (0,), (0, 1), (0, 2)]
    graph.chained = [(), (), (0,), (0,)]
    near = graph.within(2)
    assert near.predecessors == [(), (0,), (0, 1), (2,)]
    assert near.chained == [(), (), (0,), ()]
    moved = graph.permuted([0, 1, 2, 3])
    assert (moved.predecessors, moved.chained) == (graph.predecessors, graph.chained)
    independent = DependenceGraph()
    independent.predecessors, independent.chained = [(), (), (1,)], [(), (), (1,)]
    assert independent.permuted([1, 2, 0]).predecessors == [(), (0,), ()]
    assert np.array_equal(independent.permuted([1, 2, 0]).chained[1], (0,))
