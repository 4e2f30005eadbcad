"""Changes that a compiler of Beta 1 may make to a scheduled kernel, told by the estimates of its instructions.

Public traces and documents show each of them at times, and no document says when:

* ``invariants``: what an earlier instruction has computed from the same data is not computed again. In a published
  profile of the tutorial on fused Mamba (trn1) a product runs once that the inner loop asks for in each iteration.
* ``broadcasts``: a row that a product has repeated on all partitions is read in PSUM, where it is, without a copy to
  SBUF; and so is what a copy only repeats. Vector, with one tile in PSUM and one in SBUF, may be twice as fast.
* ``on_scalar``: Scalar takes products, sums and reciprocals of Vector as long as it has less to do. The reference of
  release 2.21 lets the compiler choose for ``tensor_scalar`` and ``reciprocal``.
* ``neighbours``: instructions of one engine that do the same to tiles of one form become one instruction ("loop
  vectorization", reference of ``affine_range``). Public traces of trn2 have four transposes that leave PSUM in one copy
  of 512 columns, and reductions and reciprocals of 4 to 8 rows in one instruction.

They are bounds: the room that kept results take, and banks of PSUM that stay longer in use, do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from nki.analysis.moved_data import moves_data
from nki.analysis.spare_instructions import spare_instructions
from nki.cost.queue_replay import Dependences
from nki.ir.estimate import Compute, Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.passes.scheduling.engine_assignment import Assignment
from nki.sim.timing import LEFT_OUT, EstimateOverride, TimedCore, TimedProgram
from nki.target.model import Target

MOST_JOINED: Final = 8
"""Instructions that become one: as many rows as one instruction of the traces has at most."""
_VECTOR: Final = "vector"
_SCALAR: Final = "scalar"
_REACH: Final = 16
"""Instructions of an engine among which neighbours are looked for."""
_MOST_ANCESTORS: Final = 64
"""Instructions that are looked at for a dependence between two neighbours."""


class EstimateChange(Protocol):
    """A change of a kernel, by cores."""

    @property
    def instructions(self) -> int:
        """The instructions that it is about."""
        ...

    def apply(self, core: TimedCore, override: EstimateOverride, target: Target) -> None:
        """Change the estimates of ``core`` in ``override``, which earlier changes may have changed."""
        ...


@dataclass(frozen=True)
class _Numbered:
    """Instructions, by core: their dense numbers."""

    numbers: Mapping[TimedCore, Collection[int]]

    @property
    def instructions(self) -> int:
        return sum(map(len, self.numbers.values()))


class LeftOut(_Numbered):
    """Instructions that take no time."""

    def apply(self, core: TimedCore, override: EstimateOverride, target: Target) -> None:  # noqa: ARG002  # as all
        for number in self.numbers[core]:
            override.leave_out(number)
            override.unbound.add(number)


def invariants(timed: TimedProgram) -> LeftOut:
    """The instructions that compute again what earlier ones have; loads are not among them."""
    cores = [core.core for core in timed.cores]
    numbers: dict[TimedCore, list[int]] = {}
    for each in timed.cores:
        elsewhere = {a.tensor for core in cores if core is not each.core for i in core.numbered for a in i.changes()}
        spare = spare_instructions(each.core, elsewhere)
        gone = {id(inst) for inst in spare.instructions if not inst.on_rings} if spare is not None else set[int]()
        numbers[each] = [number for number, inst in enumerate(each.core.numbered) if id(inst) in gone]
    return LeftOut(numbers)


@dataclass(frozen=True)
class ReadInPlace(LeftOut):
    """Copies that are left out, with ``readers`` of what they read: by core, the readers by number."""

    readers: Mapping[TimedCore, Mapping[int, Inst]] = field(default_factory=dict[TimedCore, Mapping[int, Inst]])

    def apply(self, core: TimedCore, override: EstimateOverride, target: Target) -> None:
        super().apply(core, override, target)
        assignment = Assignment(target)
        known: dict[tuple[object, int], Estimate] = {}
        for number, inst in self.readers[core].items():
            before = override.estimates[number]
            if before is not LEFT_OUT:
                key = inst.form, id(before)
                if key not in known:
                    there = assignment.candidate(inst).estimate
                    known[key] = there if there.occupancy < before.occupancy else before
                override.estimates[number] = known[key]


def broadcasts(timed: TimedProgram, target: Target) -> ReadInPlace:
    """The copies of what is the same on all partitions, or the same elements again, and their readers."""
    assignment = Assignment(target)
    copies: dict[TimedCore, list[int]] = {}
    readers: dict[TimedCore, dict[int, Inst]] = {}
    for core in timed.cores:
        copies[core], readers[core] = _Broadcasts(core, assignment).found()
    return ReadInPlace(copies, readers)


class _Broadcasts:
    """The broadcasts of one core."""

    def __init__(self, core: TimedCore, assignment: Assignment) -> None:
        self.numbered, self.assignment = core.core.numbered, assignment
        self.writers: dict[Tensor, list[int]] = {}
        self.users: dict[Tensor, list[int]] = {}
        for number, inst in enumerate(self.numbered):
            for access in inst.changes():
                self.writers.setdefault(access.tensor, []).append(number)
            for access in (*inst.reads(), *inst.indexed_by()):
                self.users.setdefault(access.tensor, []).append(number)

    def found(self) -> tuple[list[int], dict[int, Inst]]:
        """The copies by number, and the readers as they are without them."""
        copies: list[int] = []
        readers: dict[int, Inst] = {}
        for tile, writers in self.writers.items():
            source = self._source(tile, writers)
            if source is None:
                continue
            there = {number: _reading(self.numbered[number], tile, source) for number in self.users.get(tile, ())}
            if there and all(inst is not None and self.assignment.is_candidate(inst) for inst in there.values()):
                copies += writers
                readers |= {number: inst for number, inst in there.items() if inst is not None}
        return copies, readers

    def _source(self, tile: Tensor, writers: Iterable[int]) -> Tensor | None:
        """The tile that readers of ``tile`` read without its copies: one in PSUM of the same form, or ``tile``, for
        copies that only repeat elements; None if it is no broadcast.
        """
        if tile.buffer is not Buffer.sbuf:
            return None
        sources: list[Access] = []
        for number in writers:
            moved = moves_data(self.numbered[number])
            if moved is None or not moved[1].buffer.on_chip or moved[1].dynamic is not None:
                return None
            sources.append(moved[1])
        if all(_repeats(source) and source.dtype is tile.dtype for source in sources):
            return tile
        if all(source.buffer is Buffer.psum and self._is_repeated_row(source.tensor) for source in sources):
            return Tensor(tile.name, tile.shape, sources[0].dtype, Buffer.psum)
        return None

    def _is_repeated_row(self, tensor: Tensor) -> bool:
        """Test if products of one row of the array fill ``tensor``: each partition gets a multiple of that row."""
        writers = [self.numbered[number] for number in self.writers[tensor]]
        return all(inst.on_tensor_engine and all(a.shape[0] == 1 for a in inst.reads()) for inst in writers)


def _repeats(access: Access) -> bool:
    """Test if a dimension behind the partitions repeats its elements."""
    return any(not step and size > 1 for step, size in zip(access.strides[1:], access.shape[1:], strict=True))


def _reading(inst: Inst, tile: Tensor, source: Tensor) -> Inst | None:
    """``inst`` with ``source`` in place of ``tile``; None if it is no instruction of a compute engine."""
    if inst.on_rings or inst.on_tensor_engine or any(access.tensor is tile for access in inst.indexed_by()):
        return None
    changes: dict[int, Access] = {}
    for number, access in enumerate(inst.accesses()):
        if access.tensor is tile:
            changes[number] = Access(source, access.offset, access.shape, access.strides, source.dtype, access.dynamic)
    return inst if source is tile else inst.with_operands(changes)


class OnScalar(_Numbered):
    """Instructions of Vector that run on Scalar."""

    def apply(self, core: TimedCore, override: EstimateOverride, target: Target) -> None:
        queue = core.queues.index(_SCALAR) if _SCALAR in core.queues else len(core.queues)
        times = _times_on_scalar(core, target)
        for number in self.numbers[core]:
            estimate = times[core.kinds[number]]
            if estimate is not None and override.estimates[number] is not LEFT_OUT:
                override.estimates[number] = estimate
                override.queues[number] = queue


def on_scalar(timed: TimedProgram, target: Target) -> OnScalar:
    """The instructions that Scalar takes from Vector, in their order, until it would have more to do."""
    return OnScalar({core: _taken(core, target) for core in timed.cores})


def _times_on_scalar(core: TimedCore, target: Target) -> list[Estimate | None]:
    """The time on Scalar of each kind of instruction of ``core``; None if it stays where it is."""
    return [inst.cost_on_scalar(target) for inst in core.distinct]


def _taken(core: TimedCore, target: Target) -> list[int]:
    estimates, numbered = core.estimates(target), core.core.numbered
    load = dict.fromkeys((_VECTOR, _SCALAR), 0.0)
    for inst, estimate in zip(numbered, estimates, strict=True):
        if inst.queue in load:
            load[inst.queue] += estimate.busy
    taken: list[int] = []
    times = _times_on_scalar(core, target)
    for number, (inst, before) in enumerate(zip(numbered, estimates, strict=True)):
        if inst.queue != _VECTOR:
            continue
        there = times[core.kinds[number]]
        if there is not None and load[_SCALAR] + there.busy < load[_VECTOR]:
            taken.append(number)
            load[_SCALAR] += there.busy
            load[_VECTOR] -= before.busy
    return taken


class Joined(_Numbered):
    """Instructions that are a part of the one before."""

    def apply(self, core: TimedCore, override: EstimateOverride, target: Target) -> None:  # noqa: ARG002  # as all
        joined: dict[int, Estimate] = {}
        for number in self.numbers[core]:
            estimate = override.estimates[number]
            if isinstance(estimate, Compute):
                if id(estimate) not in joined:
                    joined[id(estimate)] = estimate.joined()
                override.estimates[number] = joined[id(estimate)]


def neighbours(timed: TimedProgram, target: Target) -> Joined:
    """The instructions that could be a part of one before them on their engine."""
    return Joined({core: _joined(core, target) for core in timed.cores})


@dataclass(slots=True)
class _Group:
    """Instructions that do as ``inst`` does and become one: numbers in the block, the operands of the last one with
    their steps, and the bytes per partition in PSUM.
    """

    inst: Inst
    numbers: list[int]
    operands: list[Access]
    steps: list[int | None]
    bytes: int


def _joined(core: TimedCore, target: Target) -> list[int]:
    """The dense numbers of the instructions that join an earlier one."""
    estimates = core.estimates(target)
    joined: list[int] = []
    for first, graph in core.graphs():
        joined += _joined_in_block(core, first, graph.predecessors, estimates, target.psum_bank_bytes)
    return joined


def _joined_in_block(
    core: TimedCore, first: int, needs: Dependences, estimates: Sequence[Estimate], bank: int
) -> Iterator[int]:
    """The same of the block that begins with instruction ``first``; ``needs``: its dependences."""
    numbered = core.core.numbered
    recent: dict[int, list[_Group]] = {}
    """By queue, the last groups."""
    for number in range(len(needs)):
        inst, estimate = numbered[first + number], estimates[first + number]
        if not isinstance(estimate, Compute) or not estimate.streaming or inst.effects.external:
            continue
        groups = recent.setdefault(core.queue_of[first + number], [])
        operands = inst.accesses()
        size = max((access.nbytes // access.shape[0] for access in operands if access.buffer is Buffer.psum), default=0)
        for group in reversed(groups):
            steps = _steps(group, inst)
            fits = len(group.numbers) < MOST_JOINED and group.bytes + size <= bank
            if steps is not None and fits and not _depends(number, group.numbers, needs):
                group.numbers.append(number)
                group.operands, group.steps, group.bytes = list(operands), steps, group.bytes + size
                yield first + number
                break
        else:
            groups.append(_Group(inst, [number], list(operands), [None] * len(operands), size))
            del groups[:-_REACH]


def _steps(group: _Group, inst: Inst) -> list[int | None] | None:
    """The distances from the operands of ``group`` to the ones of ``inst``, None for each that the compiler places; and
    no list if ``inst`` does not do the same.
    """
    if group.inst.form != inst.form or repr(group.inst.immediates()) != repr(inst.immediates()):
        return None
    steps: list[int | None] = []
    for one, other, step in zip(group.operands, inst.accesses(), group.steps, strict=True):
        if one.dynamic is not None or other.dynamic is not None:
            return None
        distance = other.offset - one.offset if one.tensor is other.tensor else None
        if step is not None and distance != step:
            return None
        steps.append(distance)
    return steps


def _depends(number: int, group: Collection[int], needs: Dependences) -> bool:
    """Test if an instruction needs one of ``group``, or needs too much to tell."""
    least = min(group)
    pending, known = [number], set[int]()
    while pending:
        for producer in needs[pending.pop()]:
            if producer in group:
                return True
            if producer > least and producer not in known:
                known.add(producer)
                pending.append(producer)
        if len(known) > _MOST_ANCESTORS:
            return True
    return False
