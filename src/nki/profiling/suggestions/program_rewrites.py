"""Changes that are made: the stages of the compiler behind the change run again, and the result is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from nki.ir.instruction import Inst
from nki.ir.loop import Statement, changed
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.ir.types import Tensor
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.suggestion import Suggestion
from nki.sim.timing import Timeline
from nki.target.model import Target


@dataclass(frozen=True, eq=False)
class _Made(Stage):
    """The stage that makes a change."""

    name: ClassVar[str] = "change"
    change: ProgramRewrite

    def run(self, program: Program, target: Target) -> Program:  # noqa: ARG002  # as all stages
        cores = [self.change.rewritten(core) for core in program.cores]
        same = all(new is old for new, old in zip(cores, program.cores, strict=True))
        return program if same else program.with_cores(cores)

    def check(self, before: Program, after: Program, target: Target) -> None:
        """Nothing: a change of a kernel may be any other program."""


class ProgramRewrite(Suggestion):
    """A change of the program itself, as its author would make it.

    It is worth what the model says of the changed program: its tiles get new places, and its instructions a new
    order.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.profile: PredictedRun | None = None
        self._numbers: dict[int, dict[int, int]] = {}
        """By the rank of a core: the dense number of each instruction in the scheduled program, by identity."""

    def rewritten(self, core: CoreProgram) -> CoreProgram:
        """``core`` with the change, before its tiles have places; ``core`` itself where there is nothing to change."""
        raise NotImplementedError

    def timed(self, profile: PredictedRun) -> Timeline | None:
        self.profile = profile
        program = profile.recompiled(_Made(self))
        if program is None:
            return None
        timeline = program.run(profile.target)
        self.compare(timeline)
        return timeline if self.affected else None

    def compare(self, timeline: Timeline) -> None:
        """Look at the changed run, ``timeline``, for what the advice is to say."""

    def note(self, rank: int, instructions: Iterable[Inst]) -> None:
        """Note that the change is about ``instructions`` of the core ``rank``."""
        assert self.profile is not None
        core = next(each for each in self.profile.cores if each.rank == rank)
        if rank not in self._numbers:
            self._numbers[rank] = {inst.identity(): number for number, inst in enumerate(core.instructions)}
        for inst in instructions:
            if (number := self._numbers[rank].get(inst.identity())) is not None:
                self.add_runs(inst, int(core.runs[number]), core.estimates[number])


def with_instructions(core: CoreProgram, instead: Mapping[int, tuple[Inst, ...]]) -> CoreProgram:
    """``core`` with each instruction that has the ``id`` of a key replaced."""

    def change(inst: Inst) -> tuple[Inst, ...]:
        return instead.get(id(inst), (inst,))

    body: tuple[Statement, ...] = changed(core.body, change)
    return core.with_body(body)


def tile_like(tensor: Tensor, names: set[str]) -> Tensor:
    """A new tile of the form of ``tensor``, with a name that is not in ``names``, which gets it."""
    name = next(name for number in count(1) if (name := f"{tensor.name}.{number}") not in names)
    names.add(name)
    tile = Tensor(name, tensor.shape, tensor.dtype, tensor.buffer, span=tensor.span)
    tile.site = tensor.site
    return tile
