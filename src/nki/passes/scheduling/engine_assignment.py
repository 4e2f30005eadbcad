"""Engine assignment: the queue of every instruction.

An instruction that names its engine runs there. Of an instruction that leaves the choice to the compiler, the
candidates are the engines that it lists, in that order, on which it breaks no rule and means the same. A DMA
instruction goes to one of the rings; all rings share the DMA engines.

The reference says that the compiler selects by the shape of the tile (``tensor_tensor``, ``tensor_scalar``,
``memset``, ``nc_transpose``), and by the workload of the engines for ``tensor_copy`` alone. Published profiles agree:
in the mamba tutorial (trn1) all ``tensor_tensor`` run on Vector; in the matrix products (trn2) Vector evicts all of
PSUM and clears all of SBUF as long as another engine has more work, though Scalar and GpSimd are idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from nki.base.errors import QueueError
from nki.cost.dma_costs import needs_descriptors
from nki.cost.engines import BUS
from nki.ir.estimate import Compute, Dma, Estimate
from nki.ir.instruction import Inst
from nki.ir.ordering import display_name
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer
from nki.isa.tables.enums import engine
from nki.target.model import Target

DMA = "dma"
"""Queue of a candidate that may go to any ring."""
_PORTS: Final = (*(buffer.value for buffer in Buffer if buffer.on_chip), BUS)
"""Resources of some instructions beside their engines."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Candidate:
    """A queue that can run an instruction, with the instruction's estimate there."""

    queue: str
    estimate: Estimate

    @property
    def ports(self) -> tuple[str, ...]:
        """The ways to memory that it keeps from other engines."""
        return self.estimate.ports if isinstance(self.estimate, Compute) else ()


def candidates(inst: Inst, target: Target) -> tuple[Candidate, ...]:
    """All candidates for ``inst``, the preferred one first."""
    if engine.dma in inst.engines:
        return (Candidate(DMA, inst.cost(target)),)
    requested = inst.engine_choice
    if requested is not engine.unknown:
        return (_candidate(inst, inst.engines[0] if requested is None else requested, target),)
    assigned = ((inst.replace(engine=one), one) for one in inst.choices())
    return tuple(_candidate(fixed, one, target) for fixed, one in assigned if _obeys(fixed, target))


def _candidate(inst: Inst, on: Any, target: Target) -> Candidate:
    return Candidate(on.name, inst.cost(target))


def _obeys(inst: Inst, target: Target) -> bool:
    applying = (r for r in inst.rules if r.since <= target.generation <= r.until)
    return all(r.ok(inst, target) or (r.unless is not None and r.unless(inst)) for r in applying)


class Assignment:
    """Assigns queues to the instructions of a program, block by block."""

    def __init__(self, target: Target) -> None:
        self.target = target
        semaphores = target.semaphores - len(engine)  # one counts for each queue, another core takes one
        self.rings = [f"{DMA}.{number}" for number in range(min(target.dma_queues_per_engine, semaphores))]
        self._by_form: dict[object, tuple[Candidate, ...]] = {}
        self._without_descriptors: dict[object, tuple[Candidate, ...]] = {}
        """Of the forms of DMA instructions on the kernel's own tensors: their cost differs."""

    def candidates(self, inst: Inst) -> tuple[Candidate, ...]:
        """All candidates for ``inst``, the preferred one first."""
        form, by_form = inst.form, self._by_form
        if inst.on_rings and not needs_descriptors(inst.accesses()):  # their cost depends on the roles of tensors too
            by_form = self._without_descriptors
        cached = by_form.get(form)
        if cached is None:
            cached = by_form[form] = candidates(inst, self.target)
        return cached

    def _offers(self, instructions: Iterable[Inst]) -> list[tuple[Candidate, ...]]:
        """The candidates for each instruction."""
        by_form, without_descriptors = self._by_form, self._without_descriptors
        offers: list[tuple[Candidate, ...]] = []
        for inst in instructions:  # as self.candidates has it
            is_plain = not inst.on_rings or needs_descriptors(inst.accesses())
            offer = (by_form if is_plain else without_descriptors).get(inst.form)
            offers.append(self.candidates(inst) if offer is None else offer)
        return offers

    def candidate(self, inst: Inst) -> Candidate:
        """The candidate of the queue that ``inst`` has; the others are not estimated."""
        queue = inst.queue.partition(".")[0]
        if queue == DMA or inst.engine_choice is not engine.unknown:
            return next(candidate for candidate in self.candidates(inst) if candidate.queue == queue)
        one = next(one for one in inst.choices() if one.name == queue)
        return _candidate(inst.replace(engine=one), one, self.target)

    def assign(self, instructions: list[Inst]) -> tuple[list[str], list[Candidate]]:
        """The queue of each instruction of a block, and its candidate there.

        An instruction goes to its preferred engine. Copies leave it where it has more work than any other resource of
        the block: each then goes to the engine that would be through with it soonest, after those instructions that
        have no choice. To leave the preferred engine counts as two semaphores, since data has to go there and back,
        and is no gain where the preferred engine stands still meanwhile. A ring is assigned by the time that it needs
        for its own transfers.
        """
        offers = self._offers(instructions)
        movable = [len(offer) > 1 and inst.by_workload for inst, offer in zip(instructions, offers, strict=True)]
        load, balanced = _loads(offers, movable)
        rings = [0.0] * len(self.rings)
        detour = 2 * self.target.semaphore_ns
        queues: list[str] = []
        assigned: list[Candidate] = []
        ring = 0
        for offer, moves in zip(offers, movable, strict=True):
            candidate = offer[0]
            queue = candidate.queue
            if queue == DMA:
                # From the ring after the last one on, so that equal loads go round.
                least = min(rings)
                if rings[ring] != least:
                    ring = rings.index(least, ring) if least in rings[ring:] else rings.index(least)
                queue = self.rings[ring]
                rings[ring] = least + candidate.estimate.busy
                ring = (ring + 1) % len(rings)
            elif moves and queue not in balanced:
                candidate = _soonest(offer, load, detour)
                queue = candidate.queue
                _add(load, candidate)
            queues.append(queue)
            assigned.append(candidate)
        return queues, assigned

    def is_candidate(self, inst: Inst) -> bool:
        """Test if a candidate has the queue of ``inst``."""
        queues = [candidate.queue for candidate in self.candidates(inst)]
        return inst.queue in (self.rings if queues == [DMA] else queues)

    def undeclared(self, core: CoreProgram) -> list[Inst]:
        """The instructions without a queue, or with one that is not of an engine that they declare and request.

        A necessary condition of :meth:`is_candidate`, without the rules and the estimates of the instructions.
        """
        # Attributes are looked up in place: the property engine_choice takes half as long again.
        rows = {(inst.__class__, inst.__dict__.get("engine"), inst.queue) for inst in core.numbered}
        illegal = {row for row in rows if not self._is_declared(*row)}
        if not illegal:
            return []
        return [i for i in core.numbered if (i.__class__, i.engine_choice, i.queue) in illegal]

    def _is_declared(self, kind: type[Inst], requested: Any, queue: str) -> bool:
        if engine.dma in kind.engines:
            return queue in self.rings
        if requested is None:
            return queue == kind.engines[0].name
        return queue in [one.name for one in (kind.engines if requested is engine.unknown else (requested,))]

    def check(self, inst: Inst) -> None:
        """Raise :class:`QueueError` unless the queue that ``inst`` has can run it."""
        if not self.is_candidate(inst):
            able = [candidate.queue for candidate in self.candidates(inst)]
            words = f"dma.0 to {self.rings[-1]}" if able == [DMA] else " or ".join(able)
            error = QueueError(
                f"{display_name(inst)} is on queue '{inst.queue}', which cannot run it",
                fix=f"put it on {words}, or take all instructions off their queues",
            )
            raise cast(QueueError, error.at(inst.where.span, inst.where.stack))


def _loads(offers: Sequence[Sequence[Candidate]], movable: Sequence[bool]) -> tuple[dict[str, float], set[str]]:
    """The work of each engine without what may move; the engines that with it all have no more than another resource.

    The other resources are the engines, the DMA engines, and the generators of their descriptors.
    """
    load: dict[str, float] = {}
    extra: dict[str, float] = {}
    transfers: dict[str, float] = {}
    generated: dict[str, float] = {}
    for offer, moves in zip(offers, movable, strict=True):
        candidate = offer[0]
        estimate = candidate.estimate
        if isinstance(estimate, Dma):
            transfers[DMA] = transfers.get(DMA, 0.0) + estimate.occupancy
            generated[estimate.dge] = generated.get(estimate.dge, 0.0) + estimate.issue
        elif moves:
            extra[candidate.queue] = extra.get(candidate.queue, 0.0) + estimate.occupancy
        else:
            _add(load, candidate)
    balanced: set[str] = set()
    transfers |= {f"{DMA} {name}": busy for name, busy in generated.items()}
    for queue, busy in extra.items():
        others = [work for name, work in (load | transfers).items() if name not in (queue, *_PORTS)]
        if load.get(queue, 0.0) + busy <= max(others, default=0.0):
            balanced.add(queue)
    return load, balanced


def _soonest(offer: Sequence[Candidate], load: Mapping[str, float], detour: float) -> Candidate:
    """The candidate with the engine that is through with it first, if it gains anything.

    None gains where it keeps a memory from the preferred engine, and both together have as much to do there as that
    engine at all.
    """
    preferred = chosen = offer[0]
    before = load.get(preferred.queue, 0.0)
    contested = {port for port in preferred.ports if load.get(port, 0.0) >= before}
    soonest = before + preferred.estimate.occupancy
    for other in offer[1:]:
        if not contested.isdisjoint(other.ports):
            continue
        end = load.get(other.queue, 0.0) + other.estimate.occupancy + detour
        if end < soonest:
            chosen, soonest = other, end
    return chosen


def _add(load: dict[str, float], candidate: Candidate) -> None:
    """Count the occupancy of ``candidate`` for its engine, and the time for which it keeps memories from others."""
    estimate = candidate.estimate
    load[candidate.queue] = load.get(candidate.queue, 0.0) + estimate.occupancy
    if isinstance(estimate, Compute):
        for port in estimate.ports:
            load[port] = load.get(port, 0.0) + estimate.ports_ns
