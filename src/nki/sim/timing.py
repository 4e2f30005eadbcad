"""Timing simulation of a scheduled program: when every instruction of every core begins and ends on the device.

A :class:`TimedProgram` holds what does not depend on the target's numbers: queues, dependences and the loops of each
core. :meth:`TimedProgram.run` replays them (:mod:`nki.cost.queue_replay`) with the estimates of a target, so that a
what-if is another run with other facts. Cores run side by side and meet where their instructions do.

The iterations of a run-time loop are replayed until two that follow each other take the same time; the others count as
repetitions of the last one. So times of long loops follow from their steady state.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nki.analysis.dependence import DependenceGraph, dependence_graphs, queue_numbers
from nki.base import gc_pause
from nki.base.profile_errors import TripCountError
from nki.cost.dma_costs import needs_descriptors, where_cores_share
from nki.cost.queue_replay import Arrival, Arrivals, Dependences, Replay, run
from nki.ir.estimate import Compute, Dma, Estimate, Matmul
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement, basic_blocks, loops
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from nki.passes.scheduling.engine_assignment import DMA, Assignment
from nki.passes.scheduling.list_scheduler import list_schedule
from nki.sim.meetings import Walk, by_pipe, meet, meeting
from nki.target.model import Target

Trips = Mapping[int, Sequence[int]]
"""By ``id`` of a loop: its number of iterations, each time that it was entered; the last one holds from there on."""
_STEADY = 1e-4
"""Relative difference of two iterations that count as equal."""
NO_QUEUE = -1
"""The queue of an instruction that no queue waits for, and that waits for no queue."""
LEFT_OUT: Final = Compute(0.0, 0.0, "docs", "left out", "")
"""The estimate of an instruction that another one makes superfluous."""
_SAMPLES = 64
"""Most iterations of a loop that are replayed one by one; the average of the last half stands for the others."""


class Skip(NamedTuple):
    """Iterations of a loop that were not replayed, as many as ``iterations``: for ``ns`` from ``begin`` on they repeat
    the last one that was, which began at ``start`` and has the records from ``first`` to the one before ``last``.
    """

    first: int
    last: int
    start: float
    begin: float
    ns: float
    iterations: int

    @property
    def end(self) -> float:
        return self.begin + self.ns


@dataclass(slots=True)
class CoreTimeline:
    """Record of one core. Lists are over records: instructions in the order of their replay, iterations one by one.

    ``numbers`` are the dense numbers of the instructions in the core's program; ``weights`` say how many times a record
    stands for. The other lists come from :class:`nki.cost.queue_replay.Replay`.
    """

    core: CoreProgram
    queues: list[str]
    """The queues that have instructions, in the order in which ``queue_of`` counts them."""
    queue_of: list[int]
    """Queue of every instruction, by its dense number."""
    estimates: list[Estimate]
    """Estimate of every instruction, by its dense number."""
    replay: Replay
    numbers: list[int] = field(default_factory=list[int])
    weights: list[int] = field(default_factory=list[int])
    skips: list[Skip] = field(default_factory=list[Skip])
    """In the order of time; an inner loop comes before the loop around it."""

    @property
    def end(self) -> float:
        """Time at which all is complete, in ns from the first instruction."""
        return self.replay.now


@dataclass(slots=True)
class Timeline:
    """The timing of one launch. ``ns`` is the time of its slowest core, without the launch itself."""

    target: Target
    cores: list[CoreTimeline]

    @property
    def ns(self) -> float:
        return max(core.end for core in self.cores)


@dataclass(slots=True, eq=False)
class Block:
    """A basic block: the dense number of its first instruction, the queues and dependences of all, and the numbers in
    it of those that meet other cores.
    """

    first: int
    queues: list[int]
    graph: DependenceGraph
    meetings: frozenset[int]


@dataclass(slots=True, eq=False)
class Repeated:
    """A loop: the parts of its body, and if they meet other cores."""

    loop: Loop
    parts: list[Block | Repeated]
    meets: bool


Part = Block | Repeated


class TimedCore:
    """Blocks and loops of a core, ready to be replayed any number of times."""

    def __init__(self, core: CoreProgram, running: int) -> None:
        self.core = core
        self.running = running
        """The cores that run, this one among them."""
        self.meets = running > 1
        self.queues, self.queue_of = queue_numbers(core)
        self.distinct: list[Inst]
        self.kinds: list[int]
        """Of every instruction: the number in ``distinct`` of the first with its signature, queue and descriptors."""
        self.distinct, self.kinds = self._kinds()
        self.held = self._held()
        self._known: tuple[Target, list[Estimate]] | None = None
        """The first target that was asked about, which most runs have, and the estimates."""
        self._graphs = iter(dependence_graphs(core))
        self._count = 0
        self._spans: list[tuple[int, int]] = []
        """The dense numbers of each block: the first, and one behind the last."""
        self.parts = self._parts(core.body)

    def _parts(self, body: Iterable[Statement]) -> list[Part]:
        parts: list[Part] = []
        for block in basic_blocks(body):
            if isinstance(block, list):
                parts.append(self._block(block))
            else:
                inner = self._parts(block.body)
                parts.append(Repeated(block, inner, any(_meets(part) for part in inner)))
        return parts

    def _block(self, instructions: list[Inst]) -> Block:
        first = self._count
        self._count += len(instructions)
        self._spans.append((first, self._count))
        queues = self.queue_of[first : self._count]
        meetings: frozenset[int] = frozenset()
        if self.meets:
            meetings = frozenset([n for n, i in enumerate(instructions) if i.effects.external and meeting(i)])
        return Block(first, queues, by_pipe(instructions, next(self._graphs), meetings), meetings)

    def graphs(self) -> Iterator[tuple[int, DependenceGraph]]:
        """The dense number of the first instruction of each block, and its graph, in the order of the program."""
        return zip((first for first, _ in self._spans), dependence_graphs(self.core), strict=True)

    def _kinds(self) -> tuple[list[Inst], list[int]]:
        """The first instruction of each signature, queue and need of descriptors, and the number of every instruction's
        own in that list. Rings count as one queue.
        """
        numbered, queue_of = self.core.numbered, self.queue_of
        engines = [queue.partition(".")[0] for queue in self.queues]
        forms = [inst.form for inst in numbered]
        keys: list[tuple[object, object]] = list(zip(forms, [engines[queue] for queue in queue_of], strict=True))
        rings = {number for number, engine in enumerate(engines) if engine == DMA}
        for number in [number for number, queue in enumerate(queue_of) if queue in rings]:
            if needs_descriptors(numbered[number].accesses()):
                keys[number] = forms[number], True
        number_of = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        kinds = [number_of[key] for key in keys]
        first = dict(zip(reversed(kinds), reversed(numbered), strict=True))
        return [first[kind] for kind in range(len(first))], kinds

    def estimates(self, target: Target) -> list[Estimate]:
        """The estimate of every instruction on its queue. The list is never changed."""
        if self._known is not None and self._known[0] is target:
            return self._known[1]
        assignment = Assignment(target)
        alone = [assignment.candidate(inst).estimate for inst in self.distinct]
        of_kind = [where_cores_share(estimate, self.running, target) for estimate in alone]
        result = [of_kind[kind] for kind in self.kinds]
        shorter = [
            each.releasing_after(each.occupancy - each.weight_load_saving)
            if isinstance(each, Matmul) and each.weight_load_saving
            else each
            for each in of_kind
        ]
        for number in self.held:
            result[number] = shorter[self.kinds[number]]
        if target.tensor_background_transpose:
            self._transpose_in_background(result, target.tensor_background_transpose)
        if self._known is None:
            self._known = target, result
        return result

    def _transpose_in_background(self, estimates: list[Estimate], part: float) -> None:
        """Let each transpose on the Tensor engine take ``part`` of the shorter time less, of its own and of a neighbour
        in the order of the engine: each instruction runs beside one other at most. Results come no sooner.
        """
        shared: dict[tuple[int, float], Matmul] = {}
        for first, end in self._spans:
            alone: tuple[int, Matmul] | None = None
            for number in range(first, end):
                estimate = estimates[number]
                if not isinstance(estimate, Matmul):
                    continue
                if alone is None or not (estimate.is_data_movement or alone[1].is_data_movement):
                    alone = number, estimate
                    continue
                place, hidden = (number, estimate) if estimate.is_data_movement else alone
                less = part * min(estimate.occupancy, alone[1].occupancy)
                key = id(hidden), less
                if key not in shared:
                    shared[key] = hidden.releasing_after(hidden.occupancy - less)
                estimates[place] = shared[key]
                alone = None

    def _held(self) -> list[int]:
        """The instructions with a stationary operand that the Tensor engine still holds.

        Their operand is the same as in the Tensor instruction before, and nothing has written to its tensor since.
        """
        held: list[int] = []
        numbered = self.core.numbered
        on_tensor_engine = [inst.on_tensor_engine for inst in self.distinct]
        if not any(on_tensor_engine):
            return held
        last, since = None, 0
        for number in [number for number, kind in enumerate(self.kinds) if on_tensor_engine[kind]]:
            inst = numbered[number]
            name = inst.effects.stationary
            operand: Access | None = inst.__dict__[name] if name else None
            if operand is not None and last is not None and operand.equals(last):
                between = (access.tensor for other in numbered[since:number] for access in other.writes())
                if operand.tensor not in between:
                    held.append(number)
            last, since = operand, number
        return held


@dataclass(slots=True)
class EstimateOverride:
    """A core of a changed kernel, told by what the change does to the estimates of the instructions.

    ``before`` are the estimates by dense number, ``estimates`` the ones after the change. Instructions in ``unbound``
    no longer wait until engines have used the memory that they write; they still wait for what they read, and for the
    meetings of cores. ``queues`` has the instructions that are on another queue: its number in ``core.queues``, or
    behind them, or :data:`NO_QUEUE`.
    """

    before: list[Estimate]
    estimates: list[Estimate] = field(init=False)
    unbound: set[int] = field(default_factory=set[int])
    queues: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        self.estimates = list(self.before)

    def leave_out(self, number: int) -> None:
        """An instruction takes no time, and nothing waits for it in a queue."""
        self.estimates[number] = LEFT_OUT
        self.queues[number] = NO_QUEUE


class TimedProgram:
    """A scheduled program, analysed for timing.

    ``trips`` gives the iterations of loops with bounds that only the run knows.
    """

    def __init__(self, program: Program, trips: Trips | None = None) -> None:
        self.program = program
        self.trips = trips or {}
        with gc_pause.paused():
            self.cores = [TimedCore(core, len(program.cores)) for core in program.cores]

    def with_trips(self, trips: Trips) -> TimedProgram:
        """The same program with other iterations."""
        other = copy(self)
        other.trips = trips
        return other

    def run(
        self, target: Target, overrides: Mapping[TimedCore, EstimateOverride] | None = None, *, reorder: bool = False
    ) -> Timeline:
        """Replay all cores with the numbers of ``target``, and with other estimates where a core has ``overrides``;
        ``reorder``: the instructions of each block get an order for these.

        Raises :class:`TripCountError` for a loop with an unknown number of iterations.
        """
        cores: list[CoreTimeline] = []
        walks: list[Walk] = []
        for core in self.cores:
            override = (overrides or {}).get(core) or EstimateOverride(core.estimates(target))
            timeline = CoreTimeline(core.core, core.queues, core.queue_of, override.estimates, Replay(target))
            cores.append(timeline)
            walks.append(_CoreRun(timeline, self.trips, override.unbound, override.queues, reorder).walk(core.parts))
        with gc_pause.paused():
            meet(walks, [core.core for core in cores])
        return Timeline(target, cores)


def loop_count(loop: Loop) -> int | None:
    """The iterations of a loop with known bounds."""
    if isinstance(loop, For) and isinstance(loop.start, int) and isinstance(loop.stop, int):
        return len(range(loop.start, loop.stop, loop.step))
    return None


class _CoreRun:
    """One replay of one core."""

    def __init__(
        self,
        timeline: CoreTimeline,
        trips: Trips,
        unbound: Collection[int],
        moved: Mapping[int, int],
        reorder: bool,
    ) -> None:
        self.timeline = timeline
        self.orders: dict[Block, list[int] | None] | None = {} if reorder else None
        self.unbound = unbound
        self.moved = moved
        self.replay = timeline.replay
        self.trips = trips
        self.entered: dict[int, int] = {}

    def walk(self, parts: Sequence[Part]) -> Walk:
        """Replay ``parts`` one after the other."""
        for part in parts:
            if isinstance(part, Block):
                yield from self._block(part)
            else:
                yield from self._loop(part)

    def _block(self, block: Block) -> Walk:
        timeline, first, count = self.timeline, block.first, len(block.queues)
        record = len(timeline.numbers)
        timeline.numbers.extend(range(first, first + count))
        timeline.weights.extend([1] * count)
        estimates = timeline.estimates[first : first + count]
        predecessors: Dependences = block.graph.predecessors
        if self.unbound:
            predecessors = [
                self._needed(block, number, waits) if first + number in self.unbound else waits
                for number, waits in enumerate(predecessors)
            ]
        queues = block.queues
        if self.moved:
            own = itertools.count(len(timeline.queues) + 1)
            queues = [self.moved.get(first + n, queue) for n, queue in enumerate(queues)]
            queues = [next(own) if queue == NO_QUEUE else queue for queue in queues]
        chained = block.graph.chained
        order = self._order(block, queues, estimates, predecessors)
        arrivals: Arrivals = self.replay.block(queues, estimates, predecessors, chained, block.meetings, order)
        if not block.meetings:
            run(arrivals)
            return
        last: Arrival | None = None
        while True:
            try:
                number, time = next(arrivals) if last is None else arrivals.send(last)
            except StopIteration:
                return
            last = yield first + number, time, record + number

    def _order(
        self, block: Block, queues: Sequence[int], estimates: Sequence[Estimate], predecessors: Dependences
    ) -> list[int] | None:
        """The order of a block; None for the program's, where blocks stay that meet other cores."""
        if self.orders is None or block.meetings:
            return None
        if block not in self.orders:
            graph = DependenceGraph.of(predecessors, block.graph.chained)
            self.orders[block] = list_schedule(queues, estimates, graph, self.timeline.replay.target)
        return self.orders[block]

    def _needed(self, block: Block, number: int, waits: Iterable[int]) -> tuple[int, ...]:
        """Predecessors of an instruction with free memory: transfers, meetings, writers of what it reads."""
        numbered, first = self.timeline.core.numbered, block.first
        inst = numbered[first + number]
        read = {access.tensor for access in (*inst.reads(), *inst.indexed_by())}
        return tuple(
            p
            for p in waits
            if isinstance(self.timeline.estimates[first + p], Dma)
            or p in block.meetings
            or not read.isdisjoint(access.tensor for access in numbered[first + p].writes())
        )

    def _loop(self, repeated: Repeated) -> Walk:
        replay, weights = self.replay, self.timeline.weights
        count = self._count(repeated.loop)
        times: list[float] = []
        while len(times) < count:
            begin, record = replay.now, len(weights)
            replay.now += replay.target.sequencer_ns  # the branch
            yield from self.walk(repeated.parts)
            times.append(replay.now - begin)
            rest = count - len(times)
            if not rest or repeated.meets:
                continue
            steady = len(times) > 2 and abs(times[-1] - times[-2]) <= _STEADY * times[-1]
            if steady or len(times) == _SAMPLES:
                each = times[-1] if steady else sum(times[_SAMPLES // 2 :]) / (_SAMPLES - _SAMPLES // 2)
                if each > 0.0:
                    self.timeline.skips.append(Skip(record, len(weights), begin, replay.now, rest * each, rest))
                    replay.skip(rest * each)
                weights[record:] = [weight * (1 + rest) for weight in weights[record:]]
                return

    def _count(self, loop: Loop) -> int:
        """The iterations of ``loop``, which is about to be entered."""
        recorded = self.trips.get(id(loop))
        if recorded:
            entry = self.entered.get(id(loop), 0)
            self.entered[id(loop)] = entry + 1
            return recorded[min(entry, len(recorded) - 1)]
        known = loop_count(loop)
        if known is not None:
            return known
        raise unknown_trips(loop, self.timeline.core)


def once(program: Program) -> Trips:
    """One iteration for each loop of ``program`` with a number of iterations that only the run knows."""
    return {id(loop): (1,) for core in program.cores for loop in loops(core.body) if loop_count(loop) is None}


def unknown_trips(loop: Loop, core: CoreProgram) -> TripCountError:
    """The error for a loop with an unknown number of iterations; it names the inputs that decide."""
    named = " and ".join(f"'{name}'" for name in deciding_inputs(loop, core)) or "data"
    error = TripCountError(
        f"the number of iterations of this loop depends on the contents of {named}",
        fix=f"pass {named} as an array with its data, so that a run on the CPU counts the iterations; or state them: "
        "nki.profile(kernel, trips=64)",
    )
    error.at(loop.where.span, loop.where.stack)
    return error


def deciding_inputs(loop: Loop, core: CoreProgram) -> list[str]:
    """The names of the inputs that decide by their contents how often ``loop`` runs: by the data of what it reads, and
    by the iterations of the loops around instructions that write these.
    """
    wanted: set[Tensor] = {access.tensor for access in loop.reads()}
    writers = list(_writers(core.body, ()))
    known = 0
    while known < len(wanted):  # a value may come from the iteration before
        known = len(wanted)
        for written, read in reversed(writers):
            if not wanted.isdisjoint(written):
                wanted.update(read)
    return [tensor.name for tensor in core.tensors if tensor.role == "input" and tensor in wanted]


def _writers(
    body: Iterable[Statement], around: tuple[Tensor, ...]
) -> Generator[tuple[list[Tensor], tuple[Tensor, ...]]]:
    """Tensors that each instruction of ``body`` writes, and those on which that depends; ``around``: what the loops
    around it read.
    """
    for statement in body:
        if isinstance(statement, Inst):
            reads = (access.tensor for access in (*statement.reads(), *statement.indexed_by()))
            yield [access.tensor for access in statement.writes()], (*reads, *around)
        else:
            inside = (*around, *(access.tensor for access in statement.reads()))
            if isinstance(statement, For):
                yield [statement.register.tensor], inside
            yield from _writers(statement.body, inside)


def _meets(part: Part) -> bool:
    return part.meets if isinstance(part, Repeated) else bool(part.meetings)
