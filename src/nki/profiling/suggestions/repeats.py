"""The change that loads a row for all partitions at once, where it goes to HBM and comes back repeated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nki.analysis.access_pattern import pattern_of
from nki.analysis.tile_values import bodies
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Access, IndexKind, Tensor
from nki.profiling.suggestions.program_rewrites import ProgramRewrite, with_instructions
from nki.profiling.suggestions.suggestion import span
from nki.target.model import Target

_Uses = dict[Tensor, list[int]]


class _Trip(NamedTuple):
    """The way of a row, as numbers of instructions: the ``load`` that brings it, the ``store`` of the tile that has it,
    and the load that repeats it, ``back``; ``source`` is what the last one could load.
    """

    load: int
    store: int
    back: int
    source: Access


class RepeatedRows(ProgramRewrite):
    """Loads of rows that repeat them over partitions, in place of a load, a store and a load from there."""

    title = "Rows that go through HBM to be repeated"
    remedy = (
        "load the row into all partitions at once: nisa.dma_copy(tile, row.broadcast(0, partitions)), where row is the "
        "part of the tensor in HBM; nl.broadcast_to of a loaded row stores it in HBM and loads it again"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.partitions: set[int] = set()

    def evidence(self) -> str:
        loads = self.count("row", includes=lambda inst: any(not access.strides[0] for access in inst.reads()))
        return f"{loads} of tensors in HBM are loaded, stored and loaded again for {span(self.partitions)} partitions"

    def rewritten(self, core: CoreProgram) -> CoreProgram:
        body = core.numbered
        backs = [number for number, inst in enumerate(body) if inst.on_rings and _repeats_own_row(inst)]
        if not backs:
            return core
        uses: defaultdict[Tensor, list[int]] = defaultdict(list)
        for number, inst in enumerate(body):
            for tensor in {access.tensor for access in (*inst.accesses(), *inst.indexed_by())}:
                uses[tensor].append(number)
        gone: set[int] = set()
        instead: dict[int, tuple[Inst, ...]] = {}
        for trip in _trips(core, backs, uses):
            back = body[trip.back]
            copy = back.as_copy()
            assert copy is not None
            self.partitions.add(copy.dst.partitions)
            numbers = dict(enumerate(back.accesses()))
            changes = {n: trip.source for n, access in numbers.items() if access.tensor is copy.src.tensor}
            moved = _copied_on(body, uses[copy.dst.tensor], trip.back)
            if moved is not None and _is_first(uses, body[moved], moved):
                last = body[moved].as_copy()
                assert last is not None
                changes |= {n: last.dst for n, access in numbers.items() if access.tensor is copy.dst.tensor}
                gone.add(moved)
            instead[id(back)] = (back.with_operands(changes),)
            noted = [trip.store, trip.back, *([] if moved is None else [moved])]
            gone.add(trip.store)
            if _only_for(uses, body[trip.load], {trip.load, *gone}):
                gone.add(trip.load)
                noted.append(trip.load)
            self.note(core.rank, [body[number] for number in noted])
        instead.update((id(body[number]), ()) for number in gone)
        return with_instructions(core, instead) if instead else core


def _repeats_own_row(inst: Inst) -> bool:
    """Test if ``inst`` loads a tensor of the kernel in HBM into several partitions, and each gets the same."""
    copy = inst.as_copy()
    if copy is None or copy.src.tensor.role or not copy.src.buffer.is_hbm or not copy.dst.buffer.on_chip:
        return False
    return copy.src.dynamic is None and copy.src.strides[0] == 0 and copy.src.shape[0] > 1


def _trips(core: CoreProgram, backs: list[int], uses: _Uses) -> Iterator[_Trip]:
    body = core.numbered
    place = {id(inst): number for number, part in enumerate(bodies(core.body)) for inst in part}
    written = {access.tensor for inst in body for access in inst.writes() if access.buffer.is_hbm}
    for back in backs:
        copy = body[back].as_copy()
        assert copy is not None
        through = copy.src.tensor
        if len(uses[through]) != 2 or uses[through][1] != back:
            continue  # others use it, too
        store = uses[through][0]
        stored = body[store].as_copy()
        if stored is None or stored.dst.tensor is not through or stored.src.shape[0] != 1:
            continue
        writers = [n for n in uses[stored.src.tensor] if any(a.tensor is stored.src.tensor for a in body[n].writes())]
        before = [number for number in writers if number < store]
        loaded = body[before[-1]].as_copy() if before else None
        if len(writers) > 1 and len({place[id(body[number])] for number in (*writers, store, back)}) > 1:
            continue  # another iteration may have written the row
        if loaded is None or not loaded.src.buffer.is_hbm or pattern_of(loaded.dst) != pattern_of(stored.src):
            continue
        source, row = loaded.src, copy.src
        if (
            source.tensor in written
            or not _is_fixed(source, body)
            or len({a.dtype for a in (*stored, *loaded, row)}) > 1
        ):
            continue
        if stored.dst.shape != source.shape or row.shape[1:] != source.shape[1:] or row.offset != stored.dst.offset:
            continue
        shape, strides = (row.shape[0], *source.shape[1:]), (0, *source.strides[1:])
        yield _Trip(before[-1], store, back, source.with_window(source.offset, shape, strides, source.dynamic))


def _is_fixed(access: Access, body: Sequence[Inst]) -> bool:
    """Test if the place of ``access`` is the same throughout ``body``."""
    index = access.dynamic
    if index is None:
        return True
    return index.kind is IndexKind.whole and all(w.tensor is not index.source.tensor for i in body for w in i.writes())


def _copied_on(body: Sequence[Inst], uses: list[int], back: int) -> int | None:
    """The copy that is the only use of what instruction ``back`` loads, if it copies all of it as it is."""
    if len(uses) != 2 or uses[0] != back:
        return None
    loaded, copy = body[back].as_copy(), body[uses[1]].as_copy()
    if (
        loaded is None
        or copy is None
        or copy.src.tensor is not loaded.dst.tensor
        or copy.dst.dtype is not copy.src.dtype
    ):
        return None
    return uses[1] if pattern_of(copy.src) == pattern_of(loaded.dst) and copy.dst.buffer is loaded.dst.buffer else None


def _is_first(uses: _Uses, inst: Inst, number: int) -> bool:
    """Test if instruction ``number`` is the first one to use what it writes."""
    return all(uses[access.tensor][0] == number for access in inst.writes())


def _only_for(uses: _Uses, inst: Inst, users: set[int]) -> bool:
    """Test if no others than ``users`` use what ``inst`` writes."""
    return all(users.issuperset(uses[access.tensor]) for access in inst.writes())
