"""Meetings of cores: barriers, and exchanges of data through pipes.

Exchanges through one pipe "must complete before any can proceed", and those "with different pipe_id values can progress
independently" (reference, ``nisa.sendrecv``). The dependences of a program keep all of them one behind the other, for a
CPU that runs the instructions of a core one by one; on the device only exchanges of one pipe are.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass

from nki.analysis.dependence import DependenceGraph
from nki.cost.queue_replay import Arrival
from nki.ir.effects import Barrier
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram

Walk = Generator[tuple[int, float, int], Arrival, None]
"""Yields what meets other cores: dense number, time of arrival and record; is sent the last arrival of all."""


def meeting(inst: Inst) -> bool:
    """Test if ``inst`` waits for another core."""
    return inst.as_barrier() is not None or inst.as_exchange() is not None


def by_pipe(instructions: Sequence[Inst], graph: DependenceGraph, meetings: Collection[int]) -> DependenceGraph:
    """``graph`` of a block in which an exchange follows, of those before it, the last one of its pipe and those with
    which it shares data. Barriers and what prints follow all of them, and keep those behind them.
    """
    pipes = {number: exchange.pipe for number in meetings if (exchange := instructions[number].as_exchange())}
    if len(set(pipes.values())) < 2:
        return graph
    result = DependenceGraph()
    result.predecessors, result.chained = list(graph.predecessors), graph.chained
    before: set[int] = set()
    last: dict[int, int] = {}
    for number, inst in enumerate(instructions):
        if not inst.effects.external:
            continue
        pipe = pipes.get(number)
        if pipe is None:
            others, before, last = before | set(last.values()), {number}, {}
        else:
            others = {last[pipe]} if pipe in last else before
            last[pipe] = number
        needed = graph.predecessors[number]
        if pipe is not None:
            needed = [p for p in needed if p not in pipes or _share(instructions[p], inst)]
        result.predecessors[number] = tuple(sorted(others.union(needed)))
    return result


def _share(first: Inst, second: Inst) -> bool:
    """Test if one of both writes a tensor that the other one uses."""
    for one, other in ((first, second), (second, first)):
        written = {access.tensor for access in one.writes()}
        if any(access.tensor in written for access in other.accesses()):
            return True
    return False


@dataclass(slots=True, eq=False)
class _Waiting:
    """A core at a meeting: its instruction, its arrival, and how often it has come before."""

    inst: Inst
    arrival: Arrival
    order: int


def meet(walks: Sequence[Walk], cores: Sequence[CoreProgram]) -> None:
    """Run all cores to their end, and let those at a meeting go on when everyone has arrived."""
    arrivals: dict[tuple[object, ...], list[Arrival]] = {}
    waiting: dict[int, _Waiting] = {}

    def advance(rank: int, last: Arrival | None) -> None:
        try:
            number, time, record = next(walks[rank]) if last is None else walks[rank].send(last)
        except StopIteration:
            waiting.pop(rank, None)
            return
        inst = cores[rank].numbered[number]
        arrival = Arrival(time, cores[rank].rank, record)
        sent = arrivals.setdefault(_sender_key(inst, rank), [])
        waiting[rank] = _Waiting(inst, arrival, len(sent))
        sent.append(arrival)

    for rank in range(len(walks)):
        advance(rank, None)
    while waiting:
        ready = [(rank, last) for rank, one in waiting.items() if (last := _last(one, rank, arrivals)) is not None]
        # Cores with queues that meet in other orders wait for each other here, and on the device do not.
        for rank, last in ready or [(rank, one.arrival) for rank, one in waiting.items()]:
            advance(rank, last)


def _sender_key(inst: Inst, rank: int) -> tuple[object, ...]:
    exchange = inst.as_exchange()
    if exchange is not None:
        return ("exchange", rank, exchange.to, exchange.pipe)
    barrier = inst.as_barrier()
    assert isinstance(barrier, Barrier)
    return ("barrier", rank, barrier.data.name)


def _last(one: _Waiting, rank: int, arrivals: Mapping[tuple[object, ...], list[Arrival]]) -> Arrival | None:
    """The last arrival at the meeting of ``one``, its own if several come at once; None if a core is missing."""
    exchange = one.inst.as_exchange()
    if exchange is not None:
        keys: list[tuple[object, ...]] = [("exchange", exchange.source, rank, exchange.pipe)]
    else:
        barrier = one.inst.as_barrier()
        assert isinstance(barrier, Barrier)
        keys = [("barrier", other, barrier.data.name) for other in barrier.cores]
    came = [arrivals.get(key, []) for key in keys]
    if any(len(each) <= one.order for each in came):
        return None
    return max([one.arrival, *(each[one.order] for each in came)], key=lambda arrival: arrival.time)
