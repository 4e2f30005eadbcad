"""Replay: the accesses of a compiled program in the order of a run, without data, watched for certain hazards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nki.analysis.footprint import Footprint
from nki.ir.indirection.gather_offsets import index_reads
from nki.ir.indirection.runtime_index import split_rows
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement, instructions, loops
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from nki.rendezvous.protocol import Participant
from nki.rendezvous.turns import Turns
from nki.sim.hazards.certain import CertainHazards, certain_launch
from nki.target.model import Target


class _Reporter(Footprint):
    """Reports the accesses of instructions, and meets other cores."""

    def __init__(self, hazards: CertainHazards, participant: Participant | None) -> None:
        self._hazards = hazards
        self._participant = participant
        self._inst: Inst | None = None
        self._moved: dict[Tensor, Access] = {}
        """The operands with a run-time index, by the tensors that take their place."""

    def run(self, inst: Inst) -> None:
        """Report the accesses of ``inst``."""
        self._inst, self._moved = inst, {}
        hazards = self._hazards
        if inst.indexed_by():
            for row in split_rows(inst):
                for index in index_reads(row):
                    hazards.reads_index(row, index)
        hazards.begin(inst)
        self.visit(self._static(inst))
        hazards.end()

    def _static(self, inst: Inst) -> Inst:
        """``inst`` with other tensors in the place of the operands that have a run-time index."""
        places: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            if access.dynamic is not None:
                place = Tensor(access.name, access.shape, access.dtype, access.buffer)
                self._moved[place] = access
                places[number] = Access.whole(place)
        return inst.with_operands(places) if places else inst

    def reads(self, access: Access) -> None:
        moved = self._moved.get(access.tensor)
        if moved is None:
            self._hazards.reads(access)
        else:
            self._hazards.reads_somewhere(moved)

    def writes(self, access: Access) -> None:
        moved = self._moved.get(access.tensor)
        if moved is None:
            self._hazards.writes(access)
        else:
            self._hazards.writes_somewhere(moved)

    def exchange(self, value: None, to: int, source: int, pipe: int) -> None:
        participant = self._participant
        if participant is not None and self._inst is not None and to != participant.rank:
            participant.exchange(self._inst, value, to, source, pipe)

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        if self._participant is not None and self._inst is not None:
            self._participant.barrier(self._inst, cores, tag)


class _Core:
    """The replay of one core: of a loop, the first two iterations, and in the second the first of inner loops."""

    def __init__(self, hazards: CertainHazards, reporter: _Reporter) -> None:
        self._hazards = hazards
        self._reporter = reporter
        self._is_again = False
        """This is the second iteration of a loop."""

    def run(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Inst):
                self._reporter.run(statement)
            else:
                self._run_loop(statement)

    def _run_loop(self, loop: Loop) -> None:
        hazards = self._hazards
        hazards.enters_loop(loop)
        for bound in loop.reads():
            hazards.reads_index(loop, bound)
        before = hazards.is_certain, hazards.in_loop
        hazards.is_certain, hazards.in_loop = hazards.is_certain and loop.runs(), True
        repeats, is_again = loop.repeats() and not self._is_again, self._is_again
        for self._is_again in (is_again, True) if repeats else (is_again,):
            if isinstance(loop, For):
                hazards.counts_iteration(loop)
            self.run(loop.body)
        self._is_again = is_again
        hazards.is_certain, hazards.in_loop = before


def _meet_in_loops(program: Program) -> bool:
    """True if cores meet in the body of a loop, so that the number of meetings is not that of the instructions."""
    inside = (inst for core in program.cores for loop in loops(core.body) for inst in instructions(loop.body))
    return any(inst.as_barrier() is not None or inst.as_exchange() is not None for inst in inside)


def check(program: Program, target: Target) -> None:
    """Raise the error of the first hazard of ``program`` that every run has, and warn of probable mistakes.

    Hazards that only some data show are none of these: :mod:`nki.compiler.simulated_run` finds them.
    """
    launch, races = certain_launch(target, carries=program.carries)
    multicore, in_order = len(program.cores) > 1, not _meet_in_loops(program)
    replays: list[partial[None]] = []
    for core in program.cores:
        hazards = CertainHazards(launch, races, multicore=multicore)
        hazards.in_order = in_order
        replays.append(partial(_replay, core, hazards, in_order))
    if multicore:
        Turns[None](len(replays)).run(replays)
    else:
        replays[0](None)
    launch.finish(program.outputs)


def _replay(core: CoreProgram, hazards: CertainHazards, in_order: bool, participant: Participant | None) -> None:
    _Core(hazards, _Reporter(hazards, participant if in_order else None)).run(core.body)
