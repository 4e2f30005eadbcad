"""Replay: the accesses of a compiled program in the order of a run, without data, watched for certain hazards."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from nki.analysis.footprint import Footprint
from nki.analysis.register_values import RegisterValues
from nki.base.errors import DeadlockError
from nki.base.warning import collecting
from nki.ir.indirection.gather_offsets import index_reads
from nki.ir.indirection.runtime_index import split_rows
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement, instructions
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin
from nki.sim.hazards import Launch
from nki.sim.hazards.must_hazards import MustHazards, WritesOfCores
from nki.sim.hazards.must_races import MustRaces
from nki.target.model import Target

MOST_INSTRUCTIONS: Final = 1 << 14
"""Instructions that a core runs in loops with all iterations replayed. Of other loops two iterations are."""


@dataclass
class _Order:
    """``is_known``: the replay knows the order in which all cores meet from now on."""

    is_known: bool = True


class _Reporter(Footprint):
    """Reports the accesses of instructions, and meets other cores."""

    def __init__(self, hazards: MustHazards, participant: Participant | None, order: _Order) -> None:
        self._hazards = hazards
        self._participant = participant
        self._order = order
        self._inst: Inst | None = None
        self._moved: dict[Tensor, Access] = {}
        """The operands with a run-time index, by the tensors that take their place."""
        self.registers = RegisterValues()

    def run(self, inst: Inst) -> None:
        """Report the accesses of ``inst``."""
        hazards = self._hazards
        if indices := inst.indexed_by():
            if not all(map(hazards.knows, indices)):
                for row in split_rows(inst):
                    for index in index_reads(row):
                        hazards.reads_index(row, index)
            inst = self.registers.resolved(inst)
        self._inst, self._moved = inst, {}
        hazards.begin(inst)
        static = self._static(inst)
        self.visit(static)
        hazards.end()
        if hazards.has_undefined:
            hazards.poison_results(static, self._moved)
        self.registers.execute(inst)

    def leave(self) -> None:
        """Meet no other core any more: it is not known how often the cores meet in what follows."""
        self._order.is_known = self._hazards.in_order = False
        self._participant = None

    def _static(self, inst: Inst) -> Inst:
        """``inst`` with other tensors instead of the operands that have a run-time index."""
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
        if participant is not None and to != participant.rank:
            self._meet(partial(participant.exchange, self._running, value, to, source, pipe))

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        if self._participant is not None:
            self._meet(partial(self._participant.barrier, self._running, cores, tag))

    @property
    def _running(self) -> Inst:
        assert self._inst is not None
        return self._inst

    def _meet(self, wait: partial[None]) -> None:
        try:
            wait()
        except DeadlockError:
            if self._order.is_known:
                raise
            self.leave()  # the other core may still come


class _Core:
    """The replay of one core: all iterations of a loop if they are known and few, else two.

    In the second one of two, of inner loops the first.
    """

    def __init__(self, hazards: MustHazards, reporter: _Reporter) -> None:
        self._hazards = hazards
        self._reporter = reporter
        self._registers = reporter.registers
        self._left = MOST_INSTRUCTIONS
        self._is_again = False
        """This is the second iteration of a loop."""

    def run(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Inst):
                if self._hazards.concerns(statement):
                    self._reporter.run(statement)
            else:
                self._run_loop(statement)

    def _run_loop(self, loop: Loop) -> None:
        hazards = self._hazards
        hazards.enters_loop(loop)
        for bound in loop.reads():
            hazards.reads_index(loop, bound)
        rounds = self._registers.rounds(loop) if hazards.is_certain else None
        size = None if rounds is None else len(rounds) * _length(loop.body)
        if rounds is None or size is None or size > self._left:
            self._run_some(loop, 0 if rounds is None else min(len(rounds), 2))
            return
        for value in rounds:
            self._left -= len(loop.body)
            assert isinstance(loop, For)
            self._registers.set_to(loop.register, value)
            hazards.counts_iteration(loop)
            self.run(loop.body)

    def _run_some(self, loop: Loop, certain: int) -> None:
        """Replay up to two iterations of ``loop``; ``certain`` of them are in every run."""
        hazards = self._hazards
        meets = any(inst.as_barrier() or inst.as_exchange() for inst in instructions(loop.body))
        if meets and not certain:
            self._reporter.leave()
        before, is_again = (hazards.is_certain, hazards.in_loop), self._is_again
        hazards.is_certain, hazards.in_loop = certain > 0, True
        for again in (is_again, True) if certain > 1 and not is_again else (is_again,):
            self._is_again = again
            self._registers.forget(loop)
            if isinstance(loop, For):
                hazards.counts_iteration(loop)
            self.run(loop.body)
        self._registers.forget(loop)
        self._is_again = is_again
        hazards.is_certain, hazards.in_loop = before
        if meets:
            self._reporter.leave()


def _length(body: Sequence[Statement]) -> int:
    """Instructions that run in ``body``, where that is known."""
    total = 0
    for statement in body:
        if isinstance(statement, Inst):
            total += 1
        elif isinstance(statement, For) and isinstance(statement.start, int) and isinstance(statement.stop, int):
            total += len(range(statement.start, statement.stop, statement.step)) * _length(statement.body)
        else:
            total += _length(statement.body)
    return total


def check(program: Program, target: Target) -> None:
    """Raise the error of the first hazard of ``program`` that every run has, and warn of probable mistakes.

    Hazards that only some data show are none of these: :mod:`nki.compilation.simulated_run` finds them. If reads race
    with writes that came later, a second replay tells what depends on these reads.
    """
    launch = _launch(program, target)
    multicore = len(program.cores) > 1
    _replay_all(program, [MustHazards(launch, multicore=multicore) for _ in program.cores])
    again = launch.again()
    if again is not None:
        launch = again
        with collecting(aside=True):  # the first replay has given the warnings
            _replay_all(program, [MustHazards(launch, multicore=multicore) for _ in program.cores])
    launch.finish(program.outputs)


def warn_of_writes(program: Program, target: Target, tensors: Container[Tensor]) -> None:
    """Give the warnings of :func:`check` about cores that write ``tensors``; of a program without certain hazards."""
    launch = _launch(program, target)
    _replay_all(program, [WritesOfCores(launch, tensors) for _ in program.cores])


def _launch(program: Program, target: Target) -> Launch:
    launch = Launch(target, propagates_undefined=program.propagates_undefined)
    launch.races = MustRaces(launch.log)
    return launch


def _replay_all(program: Program, hazards: Sequence[MustHazards]) -> None:
    order = _Order()
    replays = [partial(_replay, core, each, order) for core, each in zip(program.cores, hazards, strict=True)]
    if len(replays) > 1:
        RoundRobin[None](len(replays)).run(replays)
    else:
        replays[0](None)


def _replay(core: CoreProgram, hazards: MustHazards, order: _Order, participant: Participant | None) -> None:
    _Core(hazards, _Reporter(hazards, participant, order)).run(core.body)
