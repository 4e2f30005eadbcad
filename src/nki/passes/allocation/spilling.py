"""Spills: tiles that wait in another memory while others need their bytes.

The compiler of Neuron saves tiles to device memory where a kernel holds more than SBUF ("NKI Performance Guide", data
spilling); kernels of Beta 1 rely on it. Where memory is full, the tile with the farthest next use gives way (Belady's
rule). Short rows cost more time for each byte: of two tiles, the one gives way that costs less for the time until its
next use. A tile of SBUF waits in HBM. A tile of PSUM waits in SBUF, where instructions that may read it do so: it comes
back for the others alone. A tile that holds nothing but loads of unwritten tensors, or constants, is not
stored: the loads are done again, and a load that was not used until then is left out. A tile that is stored already and
has not changed is not stored again. A tile that has to be stored stays for a moment after its last use, if others can
give way: whoever takes its bytes waits for the store.

No document gives the three numbers below; they are guesses. On three spilling kernels, half and double of the first
two change the predicted latency by 0.2 % at most. All of the memory first, instead of 0.9, made one 24 % slower
and one 1 % faster.

A tile that was loaded and not read yet gives way at no cost: its load is postponed here, by price among all others, and
not by :mod:`nki.passes.allocation.motion` before. That motion alone, instead of the postponement
changes the predicted latency of three kernels, each in three sizes, by -2 to +16 %: it knows first reads alone.

A sum in PSUM to which the Tensor engine still adds stays: on trn2 it adds to nothing that another engine has written.

Only the statements of the core itself are borders: what a loop on the device accesses stays in place while it runs.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nki.analysis.byte_sets import ByteSet
from nki.analysis.liveness import LiveRange, live_ranges, pressure_in_loops
from nki.base.errors import NkiError
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, Rule
from nki.ir.loop import Statement, declared, instructions, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.verifier import verify
from nki.isa.build import copy_by_dma, copy_tile
from nki.passes.allocation.packing import plan_of
from nki.passes.allocation.splitting import split
from nki.passes.renaming import renamed, renamed_instruction
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

ROLE: Final = "spill"
"""The role of a tensor in HBM in which a tile waits."""
_STORES: Final = 4
"""So many times as long as a store takes alone, no other tile should wait for the bytes of a tile that is stored: the
store has to pass other transfers."""
_PATIENCE: Final = 2
"""A tile is never evicted if its cost per byte is more than this multiple of the cheapest candidate's."""


class _Attempt(NamedTuple):
    """Live tiles take no more than ``share`` of the memory where they can, and ``most`` of it where they cannot.
    ``alone``: no tile stays from one statement to the next.
    """

    share: float
    most: float
    alone: bool = False


_ATTEMPTS: Final = (
    *(_Attempt(share, share) for share in (0.9, 0.95, 1.0, 0.97, 0.8, 0.7, 0.6, 0.5)),
    *(_Attempt(share, 1.0) for share in (0.75, 0.5, 0.25, 0.0)),
    _Attempt(0.0, 1.0, alone=True),
)
"""Tried in turn. Some of the memory stays free at first, so that a tile can come back while another is in use; less
than all is also taken where no arrangement of the tiles is found. The last attempt makes slow kernels, and always finds
one if there is room for the operands of each statement: no other tile is there meanwhile."""


@dataclass(slots=True)
class Spill:
    """A core that fits, and what waits elsewhere in it: tiles, bytes stored, bytes loaded (again)."""

    core: CoreProgram
    tiles: list[Tensor] = field(default_factory=list[Tensor])
    stored: int = 0
    reloaded: int = 0


def spilled(core: CoreProgram, target: Target) -> dict[str, Spill] | None:
    """``core`` with spills by memory, PSUM first: the last one fits into both. None where spilling does not help."""
    done: dict[str, Spill] = {}
    for space in reversed(memory_spaces(target)):
        if not _is_short(core, space, target):
            continue
        if done:  # tiles of PSUM wait here, where no value had a tile of its own before
            core = split(core, target) or core
        ranges = live_ranges(core, target)[Buffer[space.name]]
        if any(live.tensor.address is not None or live.tensor in core.placement for live in ranges):
            return None
        spill = _fitting(core, space, ranges, target)
        if spill is None:
            return None
        core, done[space.name] = spill.core, spill
    return done or None


def check_copies(before: CoreProgram, after: CoreProgram) -> None:
    """Raise AssertionError unless ``after`` differs from ``before`` by loads, constants, copies and places alone."""
    expected, actual = (Counter(map(_kind, core.numbered)) for core in (before, after))
    lost, extra = expected - actual, actual - expected
    for inst in before.numbered:
        assert _kind(inst) not in lost or _is_fill(inst), f"{inst!r} is lost"
    for inst in after.numbered:
        is_copy = len(inst.read_operands()) == len(inst.writes()) == 1
        assert _kind(inst) not in extra or is_copy or _is_fill(inst), f"{inst!r} is no copy of a tile that waits"


def _kind(inst: Inst) -> tuple[str, int]:
    """An instruction and its place in the source; one that finds its tiles elsewhere is the same."""
    return inst.mnemonic, id(inst.where)


def _is_fill(inst: Inst) -> bool:
    """True if ``inst`` reads no tile."""
    return all(access.buffer.is_hbm for access in inst.reads())


def _fitting(core: CoreProgram, space: MemorySpace, ranges: Sequence[LiveRange], target: Target) -> Spill | None:
    for attempt in _ATTEMPTS:
        spill = _Walk(core, space, ranges, attempt, target).run()
        if spill is None:
            continue
        if not _is_short(spill.core, space, target):
            return spill
    return None


def _is_short(core: CoreProgram, space: MemorySpace, target: Target) -> bool:
    ranges = live_ranges(core, target)[Buffer[space.name]]
    return bool(ranges) and plan_of(core, space, target) is None


@dataclass(slots=True, eq=False)
class _Tile:
    """One tile of the kernel: the tensor that holds it at present, and what is known of its contents.

    ``uses``: the statements that access it, the next one last. ``loads``: the copies that filled it, as long as there
    is no other write. ``home``: where it waits, ``saved`` if that has the present contents. ``fresh``: the statements
    that loaded ``current``, as long as it was not read; ``postponed``: they are left out, and done later.
    ``unknown``: a write may be anywhere. ``sums``: the statements that add to its contents.
    """

    tensor: Tensor
    size: int
    current: Tensor
    uses: list[int] = field(default_factory=list[int])
    last: int = -1
    loads: list[Inst] | None = field(default_factory=list[Inst])
    written: ByteSet | None = None
    unknown: bool = False
    home: Tensor | None = None
    saved: bool = False
    fresh: list[int] | None = field(default_factory=list[int])
    postponed: bool = False
    copies: int = 0
    sums: list[int] = field(default_factory=list[int])

    def next_use(self) -> int:
        return self.uses[-1]

    def stays(self) -> bool:
        """True if its contents cannot be moved at present."""
        return self.unknown or bisect_right(self.sums, self.last) < len(self.sums)

    def regions(self) -> list[Access]:
        """The accesses that hold all that was written."""
        written = self.written
        if written is None:
            return []
        return [Access.whole(self.tensor)] if written.is_full() else list(written.patterns.values())


_Entry = tuple[int, int, _Tile]
"""The next use of a tile, negative; a number that no other entry has; the tile."""


class _Walk:
    """One pass over the statements of a core that keeps the tiles of ``space`` within ``capacity`` bytes where it can,
    and within ``most`` bytes. ``alone``: no tile stays from one statement to the next.
    """

    def __init__(
        self, core: CoreProgram, space: MemorySpace, ranges: Sequence[LiveRange], attempt: _Attempt, target: Target
    ) -> None:
        self.core, self.space, self.alone = core, space, attempt.alone
        self.capacity, self.most = int(space.usable * attempt.share), int(space.usable * attempt.most)
        self.spill = Spill(core)
        self.names = {tensor.name for tensor in core.tensors}
        self.added: list[Tensor] = []
        self.before: dict[int, list[Inst]] = defaultdict(list)
        self.after: dict[int, list[Inst]] = defaultdict(list)
        self.dropped: set[int] = set()
        self.tiles = {r.tensor: _Tile(r.tensor, r.size, r.tensor) for r in ranges if not r.loop_local}
        self.changing = {access.tensor for inst in core.instructions() for access in inst.writes()}
        self.touched: list[list[_Tile]] = []
        for number, statement in enumerate(core.body):
            used = dict.fromkeys(access.tensor for access in touched(statement))
            self.touched.append([self.tiles[tensor] for tensor in used if tensor in self.tiles])
            for tile in self.touched[-1]:
                tile.uses.append(number)
                _note_sums(tile, statement, number)
        for tile in self.tiles.values():
            tile.uses.reverse()
        self.local = pressure_in_loops(core.body, ranges)
        self.resident: dict[_Tile, None] = {}
        self.farthest: dict[float, list[_Entry]] = {}
        """Resident tiles, the farthest next use first, by the ns that each of their bytes costs."""
        self.estimates: dict[object, Estimate] = {}
        self.verified: dict[object, Sequence[Rule]] = {}
        self.target = target
        self.times = self._times()
        self.used = self.turn = 0

    def run(self) -> Spill | None:
        body: list[Statement] = []
        for number, statement in enumerate(self.core.body):
            if self.alone:
                for tile in [tile for tile in self.resident if not tile.stays()]:
                    self._evict(tile)
            away = self._read_away(number, statement)
            needed = [tile for tile in self.touched[number] if tile.tensor not in away]
            for tile in needed:
                if tile not in self.resident:
                    self._enter(tile, number, statement)
            if not self._make_room(number, needed):
                return None
            body.append(self._renamed(statement, away))
            for tensor in away:
                self.tiles[tensor].uses.pop()
            for tile in needed:
                self._note(tile, statement, number)
                tile.uses.pop()
                tile.last = number
                if tile.uses:
                    self.turn += 1
                    entries = self.farthest.setdefault(self._price(tile), [])
                    heapq.heappush(entries, (-tile.next_use(), self.turn, tile))
                else:
                    del self.resident[tile]
                    self.used -= tile.size
        self.spill.core = self._assembled(body)
        return self.spill

    def _assembled(self, body: Sequence[Statement]) -> CoreProgram:
        result: list[Statement] = []
        for number, statement in enumerate(body):
            result += self.before[number]
            if number not in self.dropped:
                result.append(statement)
            result += self.after[number]
        inner = set(declared(self.core.body))
        outer = [tensor for tensor in self.core.tensors if tensor not in inner]
        loop_tensors = [tensor for tensor in self.core.tensors if tensor in inner]
        return replace(self.core.with_body(result), tensors=(*outer, *self.added, *loop_tensors))

    def _make_room(self, number: int, needed: Sequence[_Tile]) -> bool:
        """Evict tiles that this statement does not need; False if that is not enough."""
        needs = self.local.get(number, 0)
        kept: list[tuple[float, _Entry]] = []
        young: list[tuple[float, _Entry]] = []
        while self.used + needs > self.capacity:
            entry = self._cheapest(number)
            if entry is None:
                if not young:
                    break
                self._evict(young.pop(0)[1][2])
                continue
            price, (_, _, tile) = entry
            if tile in needed or tile.stays():
                kept.append(self._taken(entry))
            elif self._is_young(tile, number):
                young.append(self._taken(entry))
            elif young and price > _PATIENCE * young[0][0]:
                self._evict(young.pop(0)[1][2])
            else:
                self._evict(self._taken(entry)[1][2])
        for price, entry in (*kept, *young):
            heapq.heappush(self.farthest[price], entry)
        return self.used + needs <= self.most

    def _taken(self, entry: tuple[float, _Entry]) -> tuple[float, _Entry]:
        """``entry``, which is no longer among the tiles that may give way."""
        heapq.heappop(self.farthest[entry[0]])
        return entry

    def _is_young(self, tile: _Tile, number: int) -> bool:
        """True if ``tile`` has to be stored first, and was in use a moment before."""
        if tile.loads is not None or tile.saved:
            return False
        return self.times[number] - self.times[tile.last] < _STORES * self._estimate(self._store(tile)).latency

    def _cheapest(self, number: int) -> tuple[float, _Entry] | None:
        """Price and entry of the tile with the cheapest room: the least price for the time until its next use."""
        best, least = None, float("inf")
        for price, entries in self.farthest.items():
            while entries and not self._is_current(entries[0]):
                heapq.heappop(entries)
            if entries and price / (-entries[0][0] - number + 1) < least:
                best, least = (price, entries[0]), price / (-entries[0][0] - number + 1)
        return best

    def _is_current(self, entry: _Entry) -> bool:
        tile = entry[2]
        return tile in self.resident and bool(tile.uses) and -entry[0] == tile.next_use()

    def _price(self, tile: _Tile) -> float:
        """The time in ns that it costs to free one byte of each partition of ``tile`` and to bring its contents back.

        Transfers cost their queue or the DMA engines, whichever is longer. A tile that is stored costs one transfer,
        any other one two; loads cost what they cost before.
        """
        if tile.loads is not None:
            return sum(map(self._time, tile.loads)) / tile.size or 1.0
        return self._time(self._store(tile)) * (1 if tile.saved else 2) / tile.size

    def _store(self, tile: _Tile) -> Inst:
        home = Tensor("", tile.tensor.shape, tile.tensor.dtype, self._waits_in())
        return self._copy(Access.whole(home), Access.whole(tile.tensor))

    def _time(self, inst: Inst) -> float:
        """The time that ``inst`` takes of its queue, or of the DMA engines."""
        return self._estimate(inst).busy

    def _estimate(self, inst: Inst) -> Estimate:
        form = inst.form
        estimate = self.estimates.get(form)
        if estimate is None:
            estimate = self.estimates[form] = inst.cost(self.target)
        return estimate

    def _times(self) -> list[float]:
        """By the number of each statement: the time before which it cannot begin, from the work of each resource."""
        busy: dict[str, float] = {}
        result = [0.0]
        for statement in self.core.body:
            now = result[-1]
            for inst in instructions([statement]):
                resource = self._estimate(inst).resource
                busy[resource] = busy.get(resource, 0.0) + self._time(inst)
                now = max(now, busy[resource])
            result.append(now)
        return result

    def _evict(self, tile: _Tile) -> None:
        del self.resident[tile]
        self.used -= tile.size
        if tile.loads is not None:
            tile.postponed = tile.fresh is not None
            self.dropped.update(tile.fresh or ())
            return
        tile.postponed = False
        if not tile.saved:
            if tile.home is None:
                tile.home = self._home(tile.tensor)
                self.spill.tiles.append(tile.tensor)
            last = self.core.body[tile.last]
            for region in tile.regions():
                self._insert(self.after[tile.last], region.in_tensor(tile.home), region.in_tensor(tile.current), last)
                self.spill.stored += region.nbytes
            tile.saved = True

    def _enter(self, tile: _Tile, number: int, statement: Statement) -> None:
        """Make room for ``tile`` in the account, and bring its contents back if it had any."""
        self.resident[tile] = None
        self.used += tile.size
        if tile.last < 0:
            return
        tile.copies += 1
        tile.current = self._tensor(f"{tile.tensor.name}.again{tile.copies}", tile.tensor, tile.tensor.buffer)
        tile.fresh = None
        for load in tile.loads or ():
            again = renamed_instruction(load, {tile.tensor: tile.current})
            again.where = statement.where
            self.before[number].append(again)
            if not tile.postponed and load.as_copy() is not None:
                self.spill.reloaded += sum(access.nbytes for access in again.writes())
        if tile.loads is None and tile.home is not None:
            for region in tile.regions():
                self._insert(
                    self.before[number], region.in_tensor(tile.current), region.in_tensor(tile.home), statement
                )
                self.spill.reloaded += region.nbytes

    def _insert(self, place: list[Inst], dst: Access, src: Access, near: Statement) -> None:
        copy = self._copy(dst, src)
        copy.where = near.where
        place.append(copy)

    def _copy(self, dst: Access, src: Access) -> Inst:
        return copy_tile(dst, src) if self.space.name == "psum" else copy_by_dma(dst, src)

    def _note(self, tile: _Tile, statement: Statement, number: int) -> None:
        """Account for the writes and reads of ``tile`` by ``statement``."""
        tensor = tile.tensor
        parts = [statement] if isinstance(statement, Inst) else list(instructions(statement.body))
        for inst in parts:
            if any(access.tensor is tensor for access in (*inst.reads(), *inst.orders())):
                tile.fresh = None
            for access in inst.writes():
                if access.tensor is tensor:
                    self._write(tile, inst, access, statement, number)

    def _write(self, tile: _Tile, inst: Inst, access: Access, statement: Statement, number: int) -> None:
        tile.saved = False
        replayed = tile.loads is not None and statement is inst and self._is_repeatable(inst)
        if replayed and tile.loads is not None:
            tile.loads.append(inst)
            if tile.fresh is not None:
                tile.fresh.append(number)
        else:
            tile.loads = tile.fresh = None
        written = tile.written = tile.written or ByteSet(tile.tensor)
        sure = access.dynamic is None and not inst.may_leave_unwritten()
        if sure and (isinstance(statement, Inst) or statement.runs()):
            written.add(access)
        elif not written.contains(Access.whole(tile.tensor)):
            tile.unknown = True  # which bytes hold a value is not known before the kernel runs
        if written.is_full():
            tile.unknown = False

    def _is_repeatable(self, inst: Inst) -> bool:
        """True if ``inst`` can be done again later, with the same result: a load, or an instruction without inputs."""
        if inst.indexed_by() or inst.label or inst.ordered_after or inst.may_leave_unwritten():
            return False
        copy = inst.as_copy()
        if copy is None:
            return not (
                inst.effects.external or any(inst.reads()) or any(inst.orders()) or len(tuple(inst.writes())) > 1
            )
        return copy.src.buffer.is_hbm and copy.src.tensor not in self.changing

    def _home(self, tensor: Tensor) -> Tensor:
        return self._tensor(f"{tensor.name}.spill", tensor, self._waits_in())

    def _waits_in(self) -> Buffer:
        return Buffer.sbuf if self.space.name == "psum" else Buffer.hbm

    def _tensor(self, name: str, like: Tensor, buffer: Buffer) -> Tensor:
        count, unique = 1, name
        while unique in self.names:
            count += 1
            unique = f"{name}.{count}"
        self.names.add(unique)
        role = ROLE if buffer.is_hbm else ""
        tensor = Tensor(unique, like.shape, like.dtype, buffer, role=role, span=like.span)
        self.added.append(tensor)
        return tensor

    def _read_away(self, number: int, statement: Statement) -> dict[Tensor, Tensor]:
        """The tiles of PSUM that ``statement`` reads where they wait, in SBUF, and that place.

        All of them, where its instructions may read them there; none otherwise.
        """
        if self._waits_in() is not Buffer.sbuf:
            return {}
        waiting = {
            tile.tensor: tile.home
            for tile in self.touched[number]
            if tile not in self.resident and tile.loads is None and tile.home is not None
        }
        parts = [statement] if isinstance(statement, Inst) else list(instructions(statement.body))
        for inst in parts if waiting else ():
            if any(access.tensor in waiting for access in (*inst.writes(), *inst.orders())):
                return {}
            try:
                verify(renamed_instruction(inst, waiting), self.target, self.verified)
            except NkiError:
                return {}
        return waiting

    def _renamed(self, statement: Statement, away: Mapping[Tensor, Tensor]) -> Statement:
        names = {
            access.tensor: self.tiles[access.tensor].current
            for access in touched(statement)
            if access.tensor in self.tiles and self.tiles[access.tensor].copies
        } | dict(away)
        return renamed(statement, names) if names else statement


def _note_sums(tile: _Tile, statement: Statement, number: int) -> None:
    tensor = tile.tensor
    if tensor.buffer is not Buffer.psum:
        return
    for inst in instructions([statement]):
        if inst.accumulates and any(access.tensor is tensor for access in inst.writes()):
            tile.sums.append(number)
