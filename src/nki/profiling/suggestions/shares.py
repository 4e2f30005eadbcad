"""The change that gives each core a share of what all of them do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.analysis.tile_values import TileValue, TileValues
from nki.analysis.value_numbers import is_pure
from nki.ir.estimate import Dma
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Access
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.program_rewrites import ProgramRewrite, with_instructions
from nki.profiling.suggestions.suggestion import Suggestion
from nki.sim.timing import EstimateOverride, TimedCore, Timeline
from nki.target.model import Target


class Shares(ProgramRewrite):
    """Of stores that all cores do, each core keeps a share, with what these stores need.

    Where a core has fewer of them than there are cores, as in a loop on the device, each instruction takes a share of
    its time, at most.
    """

    title = "All cores do the same work"
    remedy = "let nl.program_id(0) choose the rows, columns or heads that a core computes and stores"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.is_bound = False
        self.cores = 0
        self.names: set[str] = set()

    def evidence(self) -> str:
        names = ", ".join(f"'{name}'" for name in sorted(self.names))
        return f"each of {self.cores} cores stores the same parts of {names}"

    def timed(self, profile: PredictedRun) -> Timeline | None:
        stores = [_outputs(core.instructions) for core in profile.cores]
        windows: list[set[tuple[str, AccessPattern]]] = [
            {(access.name, pattern_of(access)) for _, access in of_core} for of_core in stores
        ]
        if len(windows) < 2 or not windows[0] or any(each != windows[0] for each in windows):
            return None
        if any(access.dynamic is not None for of_core in stores for _, access in of_core):
            return None
        self.cores, self.names = len(stores), {access.name for _, access in stores[0]}
        if (timeline := super().timed(profile)) is not None:
            return timeline
        self.is_bound = True
        return Suggestion.timed(self, profile)

    def rewritten(self, core: CoreProgram) -> CoreProgram:
        assert self.profile is not None
        by_name: defaultdict[str, list[Inst]] = defaultdict(list)
        for inst, access in _outputs(core.numbered):
            by_name[access.name].append(inst)
        if min(map(len, by_name.values())) < self.cores:
            return core
        place = sorted(each.rank for each in self.profile.cores).index(core.rank)
        gone: dict[int, Inst] = {}
        for stores in by_name.values():
            first, end = (len(stores) * each // self.cores for each in (place, place + 1))
            gone |= {id(inst): inst for inst in (*stores[:first], *stores[end:])}
        self.note(core.rank, gone.values())
        gone |= {id(inst): inst for inst in _superfluous(core, gone)}
        return with_instructions(core, dict.fromkeys(gone, ()))

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        for number, inst in enumerate(core.core.numbered):
            if _outputs([inst]):
                self.add(core, number, override.before[number])
        share = 1 / self.cores
        override.estimates = [
            each.scaled(share) if isinstance(each, Dma) else each.releasing_after(each.occupancy * share)
            for each in override.before
        ]


def _outputs(instructions: Iterable[Inst]) -> list[tuple[Inst, Access]]:
    """The stores to outputs, and what they write."""
    written = [(inst, access) for inst in instructions for access in inst.writes()]
    return [(inst, access) for inst, access in written if access.tensor.role == "output"]


def _superfluous(core: CoreProgram, gone: Collection[int]) -> list[Inst]:
    """The instructions that nothing needs without the stores with the ``id`` of ``gone``."""
    value = TileValues(core).of
    writers: defaultdict[TileValue, list[Inst]] = defaultdict(list)
    for inst in core.numbered:
        for access in inst.changes():
            writers[value(inst, access.tensor)].append(inst)
    todo = [inst for inst in core.numbered if id(inst) not in gone and not is_pure(inst)]
    needed = {id(inst) for inst in todo}
    for inst in todo:
        for access in (*inst.reads(), *inst.indexed_by()):
            for writer in writers.pop(value(inst, access.tensor), ()):
                if id(writer) not in needed and id(writer) not in gone:
                    needed.add(id(writer))
                    todo.append(writer)
    return [inst for inst in core.numbered if id(inst) not in needed and id(inst) not in gone]
