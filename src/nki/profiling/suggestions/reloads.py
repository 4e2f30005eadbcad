"""The change that keeps what a kernel loads more than once (performance guide, Opt #1: exploit temporal locality)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nki.analysis.access_pattern import AccessPattern, ByteRanges, pattern_of
from nki.analysis.byte_sets import ByteSet
from nki.ir.estimate import Dma
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement
from nki.ir.types import Access, Tensor
from nki.profiling.amounts import size
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.suggestion import Kept, hbm_side
from nki.sim.timing import LEFT_OUT, EstimateOverride, TimedCore, loop_count
from nki.target.model import Target


@dataclass
class _Loaded:
    """Bytes of a tensor that were loaded in one way: as they lie, or transposed, with one distance between rows."""

    bytes: ByteSet
    first: dict[AccessPattern, int] = field(default_factory=dict[AccessPattern, int])
    """The number of the instruction that loaded each window first."""
    shapes: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    """The shapes of the windows."""

    def contains(self, access: Access) -> bool:
        """Test if all bytes of a window are on chip. Windows of one shape count as tiles, which do not overlap: for
        these, to compare sets of bytes would take most of the time.
        """
        if pattern_of(access) in self.first:
            return True
        return self.shapes != {access.shape} and self.bytes.contains(access)

    def add(self, access: Access, number: int) -> None:
        """Note that instruction ``number`` loads a window."""
        self.bytes.add(access)
        self.first[pattern_of(access)] = number
        self.shapes.add(access.shape)

    def since(self, pattern: AccessPattern) -> int:
        """The number of the instruction from which on the bytes of a window that the set contains are on chip."""
        if pattern in self.first:
            return self.first[pattern]
        begin, end = _ends(pattern)
        spans = ((*_ends(other), number) for other, number in self.first.items())
        return min((number for start, stop, number in spans if start < end and begin < stop), default=0)


def _ends(pattern: AccessPattern) -> tuple[int, int]:
    """The first byte of a window, and the one behind its last."""
    ranges = ByteRanges.of(pattern)
    return ranges.start, ranges.start + ranges.size + sum((count - 1) * step for count, step in ranges.dims)


class Reloads(Kept):
    """Loads of bytes that an earlier instruction, or an earlier iteration, has loaded in the same way."""

    title = "Inputs loaded again"
    remedy = (
        "keep the tile in SBUF: load it before the loop that uses it again, or block the loops so that each tile is "
        "used as often as possible while it is there"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.profile: PredictedRun | None = None

    def evidence(self) -> str:
        blocks = "; blocked loops reach a part of this" if self.is_bound else ""
        return (
            f"{self.count('transfer')} load parts of {self.tensors()} that were loaded before, {size(self.bytes)}: "
            f"{self.room()}{blocks}"
        )

    def overrides(self, profile: PredictedRun) -> dict[TimedCore, EstimateOverride]:
        self.profile = profile
        return super().overrides(profile)

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates, result = override.before, override.estimates
        loaded: dict[tuple[object, ...], _Loaded] = {}
        kept: dict[tuple[object, ...], tuple[int, int, int]] = {}  # windows: first and last use, bytes per partition
        for number, (inst, loops) in enumerate(_with_loops(core.core.body, ())):
            for access in inst.writes():
                for key in [key for key in loaded if key[0] is access.tensor]:
                    del loaded[key]
            estimate = estimates[number]
            if not isinstance(estimate, Dma) or (pair := hbm_side(inst)) is None:
                continue
            source, tile = pair
            if source.tensor.role != "input" or not any(each is source for each in inst.reads()):
                continue
            way = (source.tensor, inst.as_copy() is None, source.strides[0], source.shape[0] == 1)
            begin, repeats = number, self._repeats(inst, source, loops)
            if source.dynamic is None:
                known = loaded.setdefault(way, _Loaded(ByteSet(source.tensor)))
                if known.contains(source):
                    begin, repeats = known.since(pattern_of(source)), math.inf
                else:
                    known.add(source, number)
            if repeats <= 1:
                continue
            share = 1 / repeats
            result[number] = estimate.scaled(share) if share else LEFT_OUT
            self.add(core, number, estimate, 1 - share)
            self.bytes += round(estimate.bytes * self.affected[-1].runs)
            override.unbound.add(number)
            window = (*way, pattern_of(source))
            kept[window] = min(begin, kept.get(window, (begin,))[0]), number, tile.free_elements * tile.dtype.itemsize
        self.keep(kept.values())

    def _repeats(self, inst: Inst, source: Access, loops: tuple[Loop, ...]) -> float:
        """The number of times that loops run a load with one index, while nothing changes its tensor."""
        repeats = 1.0
        needed: set[Tensor] = {source.tensor, *(access.tensor for access in inst.indexed_by())}
        for loop in reversed(loops):
            if not needed.isdisjoint(_written(loop)):
                break
            repeats *= self._iterations(loop)
        return repeats

    def _iterations(self, loop: Loop) -> float:
        recorded = self.profile.timed.trips.get(id(loop)) if self.profile else None
        if recorded:
            return max(1.0, sum(recorded) / len(recorded))
        return loop_count(loop) or 1


def _with_loops(body: Iterable[Statement], around: tuple[Loop, ...]) -> Iterator[tuple[Inst, tuple[Loop, ...]]]:
    """The instructions in program order, each with the loops around it, the innermost last."""
    for statement in body:
        if isinstance(statement, Inst):
            yield statement, around
        else:
            yield from _with_loops(statement.body, (*around, statement))


def _written(loop: Loop) -> Iterator[Tensor]:
    """The tensors that an iteration of ``loop`` changes, its counter included."""
    if isinstance(loop, For):
        yield loop.register.tensor
    for inst, around in _with_loops(loop.body, ()):
        yield from (access.tensor for access in inst.writes())
        yield from (inner.register.tensor for inner in around if isinstance(inner, For))
