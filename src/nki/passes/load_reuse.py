"""Stage ``load_reuse``: leave out loads of rows that a tile in SBUF still holds.

The compiler of Neuron does so at times; when it does is not published. In the tutorial on fused Mamba tiles are
"likely" loaded again in later iterations because all of them together are large, and its profile in the NKI Performance
Guide ("Exploit temporal locality") counts 227 loads of a tensor for which the kernel asks 512 times. The counters of a
product of 4096 (neuron-agentic-development) show each tile of one operand loaded 3 times of 8, and of the other one 32
times of 32. The tutorial on matrix multiplication says that its simplest kernel loads both operands for every product,
and its counters on trn2 have all these bytes. So the prediction has all loads, and only the fast end of its interval
comes from a program after this stage. Results are the same either way, and executors on a CPU gain nothing from it.

A load is left out where an earlier load has filled the same part of a tile of the same shape and dtype with the same
window of a tensor in HBM, that tensor was not written since, and the tile stays in SBUF; the readers of the
second tile then read the first. Only loads outside of loops on the device take part, and only tiles that nothing but
the load writes. A load with an edge of the user stays, and so do loads of a tensor that another core writes, and all
loads of a kernel that has addresses for its tiles.

Which tiles stay is Belady's rule: where they do not fit, the tile with the farthest next load goes. They take
:data:`SHARE` of the bytes per partition that the kernel leaves free at its peak. No document gives the rule or the
share. With 80 KiB for tiles that stay, a kernel of that shape has the count of the figure on trn1; the share gives it
76 KiB, and 242 loads. The tutorial says that SBUF was about half full, which this rule does not explain.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from nki.analysis.liveness import live_ranges, peak_pressure
from nki.analysis.uses import StatementUses
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.ir.types import Buffer, Tensor
from nki.passes.allocation.packing import plan_of
from nki.passes.renaming import in_other_tiles
from nki.target.memory_spaces import memory_spaces
from nki.target.model import Target

SHARE: Final = 0.75
"""Part of the free bytes that tiles which stay may take: a guess. The rest is room for tiles between which bytes stay
free."""


@dataclass(frozen=True)
class ReuseLoads(Stage):
    """Stage ``load_reuse``. It runs between stages ``order`` and ``allocate``."""

    name: ClassVar[str] = "load_reuse"

    def run(self, program: Program, target: Target) -> Program:
        """``program`` without loads of rows that SBUF still holds; itself if there are none."""
        written = [_written(core.body) for core in program.cores]
        cores: list[CoreProgram] = []
        for number, core in enumerate(program.cores):
            elsewhere = set[Tensor]().union(*written[:number], *written[number + 1 :])
            cores.append(_with_reuse(core, elsewhere, target))
        same = all(new is old for new, old in zip(cores, program.cores, strict=True))
        return program if same else program.with_cores(cores)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Instructions keep their order, only loads are left out, and who reads another tile reads the same rows."""
        for old, new in zip(before.cores, after.cores, strict=True):
            if new is not old:
                _check(old, new)


def _written(body: Iterable[Statement]) -> set[Tensor]:
    return {access.tensor for inst in instructions(body) for access in inst.changes()}


class Gap(NamedTuple):
    """The statements between the last use ``first`` of a tile of ``size`` bytes and the statement ``last``, a load that
    is left out if the tile stays so long.
    """

    first: int
    last: int
    size: int


def kept(gaps: Iterable[Gap], capacity: int) -> list[Gap]:
    """The gaps in which a tile stays, by Belady's rule: at no statement do they take more than ``capacity`` bytes.

    No other choice has more gaps if all tiles have one size.
    """
    staying: dict[int, Gap] = {}
    farthest: list[tuple[int, Gap]] = []
    nearest: list[tuple[int, Gap]] = []
    used = 0
    for gap in sorted(gaps):
        staying[gap.last] = gap
        if gap.last <= gap.first + 1:
            continue  # the tile is in use until then
        while nearest and nearest[0][0] <= gap.first + 1:
            ended = heapq.heappop(nearest)[1]
            used -= ended.size if ended.last in staying else 0
        heapq.heappush(nearest, (gap.last, gap))
        heapq.heappush(farthest, (-gap.last, gap))
        used += gap.size
        while used > capacity:
            gone = heapq.heappop(farthest)[1]
            del staying[gone.last]
            used -= gone.size
    return list(staying.values())


class _Load(NamedTuple):
    """The statement ``number`` fills ``tile`` and does nothing else; two loads with one ``window`` load the same rows
    if ``source`` was not written between them.
    """

    number: int
    tile: Tensor
    source: Tensor
    window: Hashable


class _Pair(NamedTuple):
    """Two loads of the same rows, and the gap in which the tile of the first has to stay."""

    first: _Load
    second: _Load
    gap: Gap


def _with_reuse(core: CoreProgram, elsewhere: Collection[Tensor], target: Target) -> CoreProgram:
    """``core`` without loads of rows that SBUF holds; ``elsewhere``: the tensors that other cores write."""
    space, _ = memory_spaces(target)
    ranges = live_ranges(core, target)[Buffer[space.name]]
    if any(live.tensor.address is not None or live.tensor in core.placement for live in ranges):
        return core
    pairs = _pairs(core, elsewhere)
    free = max(0, space.usable - peak_pressure(ranges)[0])
    staying = set(kept((pair.gap for pair in pairs), int(SHARE * free)))
    tiles: dict[Tensor, Tensor] = {}
    for pair in pairs:
        if pair.gap in staying:
            tiles[pair.second.tile] = tiles.get(pair.first.tile, pair.first.tile)
    if not tiles:
        return core
    shorter = in_other_tiles(core, tiles, {gap.last for gap in staying})
    return core if plan_of(shorter, space, target) is None else shorter


def _pairs(core: CoreProgram, elsewhere: Collection[Tensor]) -> list[_Pair]:
    """Each load with the one before of the same rows, in the order of the second."""
    uses = StatementUses(core.body)
    pairs: list[_Pair] = []
    latest: dict[Hashable, tuple[_Load, int]] = {}
    """The last load of each window, and the last use of the tiles that have its rows."""
    for load in _loads(core, uses, elsewhere):
        before, last = latest.get(load.window, (None, -1))
        if before is not None and not uses.is_changed(load.source, before.number, load.number):
            gap = Gap(last, load.number, load.tile.bytes_per_partition)
            pairs.append(_Pair(before, load, gap))
        else:
            last = -1
        latest[load.window] = load, max(last, uses.last(load.tile))
    return pairs


def _loads(core: CoreProgram, uses: StatementUses, elsewhere: Collection[Tensor]) -> Iterator[_Load]:
    """The loads of ``core`` that may be left out, or be the reason for it."""
    for number, inst in enumerate(core.body):
        copy = inst.as_copy() if isinstance(inst, Inst) else None
        if copy is None or not isinstance(inst, Inst):
            continue
        dst, src = copy
        tile, source = dst.tensor, src.tensor
        if not (source.buffer.is_hbm and tile.buffer is Buffer.sbuf) or source in elsewhere:
            continue
        if inst.label or inst.ordered_after or inst.indexed_by() or inst.may_leave_unwritten():
            continue
        if uses.writers[tile] != [number] or uses.first(tile) != number:
            continue
        yield _Load(number, tile, source, (inst.key(), source, src.offset, dst.offset, tile.shape, tile.dtype.name))


def _check(before: CoreProgram, after: CoreProgram) -> None:
    """Raise AssertionError unless ``after`` is ``before`` without loads, and each read finds the same rows."""
    remaining = deque(after.body)
    expected, actual = _Contents(), _Contents()
    for statement in before.body:
        if remaining and _is_same(statement, remaining[0]):
            other = remaining.popleft()
            for old, new in zip(touched(statement), touched(other), strict=True):
                same = old.tensor is new.tensor or expected.of(old.tensor) == actual.of(new.tensor) is not None
                assert same, f"core {before.rank}: {statement!r} finds other rows in '{new.name}'"
            actual.change(other)
        else:
            copy = statement.as_copy() if isinstance(statement, Inst) else None
            assert copy is not None and copy.src.buffer.is_hbm, f"core {before.rank}: {statement!r} is lost"
        expected.change(statement)
    assert not remaining, f"core {before.rank}: {remaining[0]!r} is new"


def _is_same(one: Statement, other: Statement) -> bool:
    """True if both statements are one and the same but for tensors that they read."""
    if one is other:
        return True
    first, second = list(instructions([one])), list(instructions([other]))
    return len(first) == len(second) and all(map(_writes_same, first, second))


def _writes_same(one: Inst, other: Inst) -> bool:
    windows = [[(a.tensor, a.offset) for a in inst.changes()] for inst in (one, other)]
    return type(one) is type(other) and one.key() == other.key() and windows[0] == windows[1]


class _Contents:
    """The rows that each tile holds, by the load that filled it; while statements are visited in program order."""

    def __init__(self) -> None:
        self.rows: dict[Tensor, Hashable] = {}
        self.versions: Counter[Tensor] = Counter()

    def of(self, tile: Tensor) -> Hashable:
        """The rows of ``tile``; None if no load alone has filled it."""
        return self.rows.get(tile)

    def change(self, statement: Statement) -> None:
        """Let ``statement`` write."""
        for inst in instructions([statement]):
            for access in inst.changes():
                self.versions[access.tensor] += 1
                self.rows.pop(access.tensor, None)
        copy = statement.as_copy() if isinstance(statement, Inst) else None
        if copy is not None and isinstance(statement, Inst) and self.versions[copy.dst.tensor] == 1:
            dst, source = copy.dst, copy.src.tensor
            self.rows[dst.tensor] = statement.key(), dst.offset, source, copy.src.offset, self.versions[source]
