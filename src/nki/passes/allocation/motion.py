"""Code motion: instructions move to where live ranges are shorter, if memory would not suffice otherwise.

A kernel often loads, or clears, more tiles ahead than fit, and reads them one after the other: these *fills* move down
to their first use. Or it uses tiles up later than it could, such as products that are all copied out of PSUM behind
the last one: where nothing can move down, the remaining *uses* of a tile move up, with what they need. Both cost no
transfer, and no instruction is added (:mod:`nki.passes.allocation.spilling` does that).

A walk in program order keeps account of the live tiles of both memories. Where the next statement would need too much,
the fills with the farthest first use wait; if there are none, the tile with the fewest uses gives way, counted in
instructions. The dependences decide what may move: by data, by registers, and around meetings of cores, which no access
to HBM passes. A loop on the device is one statement; it stays, and if its own tiles do not fit, the same walk orders
its body. Instructions with an edge of the user (``name=``, ``after``) stay, and so do tiles with an address.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from nki.analysis.definite_initialization import upward_exposed_reads
from nki.analysis.liveness import LiveRange, live_ranges, pressure_in_loops
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, instructions, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Form, Tensor
from nki.passes.allocation.packing import has_address, plan_of
from nki.passes.order import dependences
from nki.target.memory_spaces import memory_spaces
from nki.target.model import Target

_SHARES: Final = (1.0, 0.95, 0.9, 0.8)
"""Parts of the memory that live tiles may take, tried in turn: with less than all an arrangement is easier to find."""
_MOST_TILES: Final = 32
"""Tiles with uses that may move up; of all live ones, the tiles that the program uses up first."""
_MOST_USES: Final = 512
"""Instructions that move up at once: the uses of a tile, and what these need."""

_Bytes = list[int]
"""Bytes per partition of each memory."""
_Ranges = Sequence[Sequence[LiveRange]]
"""The live ranges in each memory."""


def moved(core: CoreProgram, target: Target) -> CoreProgram | None:
    """``core`` in an order in which tiles fit into SBUF and PSUM; None if motion is not enough."""
    spaces = memory_spaces(target)
    found = live_ranges(core, target)
    ranges = [found[Buffer[space.name]] for space in spaces]
    ranges = [[] if has_address(core, of_space) else of_space for of_space in ranges]
    packed = [space for of_space, space in zip(ranges, spaces, strict=True) if of_space]
    short = [space in packed and plan_of(core, space, target) is None for space in spaces]
    if not any(short):
        return None
    block = _Block.of_core(core, ranges)
    for share in _SHARES:
        capacity = [int(s.usable * share) if is_short else s.usable for s, is_short in zip(spaces, short, strict=True)]
        body = _Walk(block, capacity).run()
        if body is None:
            return None
        result = core.with_body(body)
        if all(plan_of(result, space, target) is not None for space in packed):
            return result
    return None


@dataclass(slots=True, eq=False, repr=False)
class _Tile:
    """A tile in the memory ``space``. ``uses``: the statements that access it. ``fills``: statements that write it
    before all ``consumers`` and may move down to ``sink``, the first of these; none of a tile that stays.
    """

    size: int
    space: int
    uses: list[int] = field(default_factory=list[int])
    fills: list[int] = field(default_factory=list[int])
    consumers: set[int] = field(default_factory=set[int])
    sink: int = -1


class _Block:
    """A body that is to be ordered: statements, their dependences, and the tiles that they access."""

    def __init__(
        self, core: CoreProgram, body: Sequence[Statement], ranges: _Ranges, tiles: Collection[Tensor]
    ) -> None:
        """``ranges``: the live ranges in each memory; ``tiles``: the tensors that are live in a part of the body."""
        self.core, self.body, self.ranges = core, body, ranges
        self.producers = _producers(core, body)
        self.local = [pressure_in_loops(body, of_space) for of_space in ranges]
        """By memory and number of a loop: the most bytes that tiles of that loop take at once."""
        known = {
            live.tensor: _Tile(live.size, space)
            for space, of_space in enumerate(ranges)
            for live in of_space
            if live.tensor in tiles
        }
        self.tiles_of: list[list[_Tile]] = []
        """The tiles that each statement accesses."""
        filled: list[_Tile | None] = []
        facts = dict[Form, _Facts]()
        for number, statement in enumerate(body):
            tensors = [access.tensor for access in touched(statement)]
            accessed = [known[tensor] for tensor in dict.fromkeys(tensors) if tensor in known]
            self.tiles_of.append(accessed)
            fill = _fill(statement, facts)
            tile = None if fill is None else known.get(fill)
            if tile is not None and len(tile.uses) == len(tile.fills):
                tile.fills.append(number)
            filled.append(tile)
            for tile in accessed:
                tile.uses.append(number)
        self._find_sinks(filled)

    @classmethod
    def of_core(cls, core: CoreProgram, ranges: _Ranges) -> _Block:
        return cls(core, core.body, ranges, {live.tensor for each in ranges for live in each if not live.loop_local})

    def of_loop(self, loop: Loop) -> tuple[_Block, _Bytes]:
        """The body of ``loop``, and the bytes of the tiles that hold contents from one iteration to the next."""
        carried = upward_exposed_reads(loop)
        kept = [sum(live.size for live in of_space if live.tensor in carried) for of_space in self.ranges]
        return _Block(self.core, loop.body, self.ranges, {*loop.tensors} - carried), kept

    def stays(self, number: int) -> bool:
        """True of loops, of meetings of cores, and where the user has drawn an edge."""
        statement = self.body[number]
        return not isinstance(statement, Inst) or _is_bound(statement)

    def _find_sinks(self, filled: Sequence[_Tile | None]) -> None:
        """Set consumers and sinks of the tiles that are ``filled`` by the statements of these numbers."""
        for number, producers in enumerate(self.producers):
            for producer in producers:
                tile = filled[producer]
                if tile is not None and producer in tile.fills and number not in tile.fills:
                    tile.consumers.add(number)
        for tile in filter(None, filled):
            tile.sink = min(tile.consumers, default=0)
            if tile.fills and tile.sink <= tile.fills[-1] + 1:
                tile.fills.clear()


class _Facts(NamedTuple):
    """Facts that all instructions of a form have in common."""

    meets: bool
    in_hbm: bool
    """They access HBM."""
    reads_tiles: bool
    """They read operands on chip."""


def _facts(inst: Inst, known: dict[Form, _Facts]) -> _Facts:
    form = inst.form
    facts = known.get(form)
    if facts is None:
        in_hbm = any(access.buffer.is_hbm for access in touched(inst))
        reads_tiles = any(not access.buffer.is_hbm for access in inst.read_operands())
        facts = known[form] = _Facts(inst.effects.external, in_hbm, reads_tiles)
    return facts


def _fill(statement: Statement, known: dict[Form, _Facts]) -> Tensor | None:
    """The tensor that ``statement`` writes without data from any tile; None if it does something else as well."""
    if not isinstance(statement, Inst) or _facts(statement, known).reads_tiles or _is_bound(statement):
        return None
    written = {access.tensor for access in statement.changes()}
    if len(written) != 1:
        return None
    tensor = written.pop()
    indices = statement.indexed_by()
    return None if any(access.tensor is tensor for access in (*statement.orders(), *indices)) else tensor


def _is_bound(inst: Inst) -> bool:
    return inst.effects.external or bool(inst.label or inst.ordered_after)


def _producers(core: CoreProgram, body: Sequence[Statement]) -> list[set[int]]:
    """The earlier statements that each statement of ``body`` has to follow.

    Beyond a meeting of cores, another core may write what is read here, or read what is written.
    """
    result = dependences(core, body)
    if not any(inst.effects.external for inst in core.numbered):
        return result
    meeting: int | None = None
    since: list[int] = []
    """The statements with an access to HBM since the last meeting."""
    known = dict[Form, _Facts]()
    for number, statement in enumerate(body):
        if isinstance(statement, Inst):
            is_meeting, in_hbm, _ = _facts(statement, known)
        else:
            is_meeting = any(inst.effects.external for inst in instructions([statement]))
            in_hbm = any(access.buffer.is_hbm for access in touched(statement))
        if not is_meeting and not in_hbm:
            continue
        if meeting is not None:
            result[number].add(meeting)
        if is_meeting:
            result[number].update(since)
            meeting, since = number, []
        else:
            since.append(number)
    return result


class _Walk:
    """One pass over a block that keeps the live tiles within ``capacity``."""

    def __init__(self, block: _Block, capacity: _Bytes) -> None:
        self.block, self.capacity = block, capacity
        self.body = list(block.body)
        self.local = [dict(local) for local in block.local]
        self.order: dict[int, None] = {}
        """The statements that are done, in their order."""
        self.postponed: set[int] = set()
        self.used = [0] * len(capacity)
        self.peak = [0] * len(capacity)
        self.left: dict[_Tile, int] = {}
        """The uses that the live tiles still have."""
        self.waiting: list[list[tuple[int, int, _Tile]]] = [[] for _ in capacity]
        """By memory, heaps of the tiles that are filled and not used yet, the farthest first use first."""

    def run(self) -> list[Statement] | None:
        """The statements in an order that fits; None if none was found."""
        for number in range(len(self.body)):
            if number in self.order:
                continue
            for tile in self.block.tiles_of[number]:
                if tile.fills and tile.fills[0] == number:
                    heapq.heappush(self.waiting[tile.space], (-tile.sink, -number, tile))
            while number not in self.postponed:
                is_ready = self.order.keys() >= self.block.producers[number]  # as most statements
                needed = [number] if is_ready else self._with_producers([number])
                peak, used = self._account(needed)
                space = self._short_of(peak)
                if space is None:
                    self._do(needed, peak, used)
                    break
                if not (self._postpone(space, number) or self._hoist(space, number) or self._order_loop(space, number)):
                    return None
        return [self.body[number] for number in self.order]

    def _with_producers(self, numbers: list[int]) -> list[int]:
        """``numbers`` and all that they need and that is not done, in program order."""
        found: set[int] = set()
        pending = list(numbers)
        while pending:
            number = pending.pop()
            if number not in found and number not in self.order:
                found.add(number)
                pending += self.block.producers[number]
        return sorted(found)

    def _account(self, numbers: Iterable[int]) -> tuple[_Bytes, _Bytes]:
        """The most bytes that are in use while ``numbers`` are done next, and those in use afterwards."""
        used, left, known = list(self.used), dict[_Tile, int](), self.left
        peak = list(used)
        for number in numbers:
            tiles = self.block.tiles_of[number]
            for tile in tiles:
                if tile not in left:
                    uses = left[tile] = known.get(tile, 0)
                    if not uses:
                        left[tile] = len(tile.uses)
                        used[tile.space] += tile.size
            for space, local in enumerate(self.local):
                most = used[space] + local.get(number, 0)
                if most > peak[space]:
                    peak[space] = most
            for tile in tiles:
                left[tile] -= 1
                if not left[tile]:
                    used[tile.space] -= tile.size
        return peak, used

    def _short_of(self, peak: _Bytes) -> int | None:
        """The memory that does not suffice for ``peak``."""
        for space, most in enumerate(self.capacity):
            if peak[space] > most:
                return space
        return None

    def _do(self, numbers: Iterable[int], peak: _Bytes, used: _Bytes) -> None:
        """Do ``numbers``, for which this is the account."""
        self.used = used
        self.peak = list(map(max, self.peak, peak))
        known = self.left
        for number in numbers:
            self.order[number] = None
            for tile in self.block.tiles_of[number]:
                left = (known.get(tile) or len(tile.uses)) - 1
                if left:
                    known[tile] = left
                else:
                    known.pop(tile, None)

    def _postpone(self, space: int, number: int, needed: Collection[int] = ()) -> bool:
        """Let the tile with the farthest first use wait, behind ``number`` and not ``needed``; False: none."""
        waiting, passed = self.waiting[space], list[tuple[int, int, _Tile]]()
        found: _Tile | None = None
        while found is None and waiting and -waiting[0][0] > number:
            entry = heapq.heappop(waiting)
            if not entry[2].consumers.isdisjoint(needed):
                passed.append(entry)
            elif entry[2].consumers.isdisjoint(self.order.keys()):
                found = entry[2]
        for entry in passed:
            heapq.heappush(waiting, entry)
        if found is None:
            return False
        self.postponed.update(found.fills)
        for fill in found.fills:
            if fill in self.order:
                self._undo(fill)
        return True

    def _undo(self, number: int) -> None:
        del self.order[number]
        for tile in self.block.tiles_of[number]:
            if tile not in self.left:
                self.used[tile.space] += tile.size
            left = self.left.get(tile, 0) + 1
            if left < len(tile.uses):
                self.left[tile] = left
            else:
                del self.left[tile]
                self.used[tile.space] -= tile.size

    def _hoist(self, space: int, number: int) -> bool:
        """Do the remaining uses of a live tile before ``number``, so that its bytes are free; False: of none."""
        live = [tile for tile in self.left if tile.space == space]
        best: list[int] | None = None
        least = (True, _MOST_USES + 1)
        for tile in heapq.nsmallest(_MOST_TILES, live, key=lambda tile: tile.uses[-1]):
            uses = self._rest(tile, number)
            if uses is None:
                continue
            peak, used = self._account(uses)
            if used[space] < self.used[space] and peak[space] <= self.capacity[space]:
                cost = self._short_of(peak) is not None, len(uses)
                if cost < least:
                    best, least = uses, cost
        if best is None:
            return False
        while (other := self._short_of(self._account(best)[0])) is not None:
            if not self._postpone(other, number, best):
                return False
            best = self._with_producers(best)
        self._do(best, *self._account(best))
        return True

    def _rest(self, tile: _Tile, number: int) -> list[int] | None:
        """The remaining uses of ``tile`` and what they need, in order; None if they cannot precede ``number``."""
        found: set[int] = set()
        pending = list(tile.uses)
        while pending:
            use = pending.pop()
            if use in found or use in self.order:
                continue
            found.add(use)
            if use == number or len(found) > _MOST_USES or self.block.stays(use):
                return None
            pending += self.block.producers[use]
        return sorted(found)

    def _order_loop(self, space: int, number: int) -> bool:
        """Order the body of the loop ``number``, so that its own tiles take less; False if that is not enough."""
        loop = self.body[number]
        if isinstance(loop, Inst):
            return False
        peak, _ = self._account(self._with_producers([number]))
        block, kept = self.block.of_loop(loop)
        own = [local.get(number, 0) for local in self.local]
        free = [most - (peak[n] - own[n]) - kept[n] for n, most in enumerate(self.capacity)]
        walk = _Walk(block, free)
        body = walk.run()
        if body is None or walk.peak[space] + kept[space] >= own[space]:
            return False
        self.body[number] = replace(loop, body=tuple(body))
        for local, most, fixed in zip(self.local, walk.peak, kept, strict=True):
            local[number] = most + fixed
        return True
