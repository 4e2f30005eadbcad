"""Changes that let one instruction do the work of two, or a cheaper one the same (performance guide, Opt #6).

Advice names instructions, so this module knows a few of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from nki.analysis.access_pattern import pattern_of
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.isa.instructions.activation import Activation, ActivationReduce
from nki.isa.instructions.tensor_reduce import TensorReduce
from nki.isa.instructions.tensor_scalar import ScalarTensorTensor, TensorScalar
from nki.isa.instructions.tensor_tensor import TensorTensor
from nki.isa.tables.enums import engine
from nki.passes.scheduling.engine_assignment import candidates
from nki.profiling.changes.change import BETA_1, Change, without_time
from nki.profiling.measures import LEAST_WORTH
from nki.sim.timing import NO_QUEUE, Block, Part, Revision, TimedCore
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.profiling.profile import Profile

_MOST_USES = 256
"""Uses of a tensor behind an instruction that are looked at; beyond, its result counts as used by others."""
_ACTIVATION = "nisa.activation has scale= and bias="
_SCALAR = "nisa.tensor_scalar has op1= and operand1="
_TENSOR = "nisa.scalar_tensor_tensor does both"
_SUM = "nisa.activation adds up its results with reduce_op= and reduce_res="
_OLDER_SUM = "nisa.activation_reduce adds up its results"


class _Uses:
    """The uses of each tensor on chip, in program order."""

    def __init__(self, instructions: Collection[Inst]) -> None:
        self.of: defaultdict[Tensor, list[tuple[int, Access, bool]]] = defaultdict(list)
        self.position: dict[tuple[int, Tensor], int] = {}
        """Of the first use of a tensor by an instruction, in the list."""
        for number, inst in enumerate(instructions):
            uses = ((access, False) for access in inst.reads()), ((access, True) for access in inst.writes())
            for access, writes in chain(*uses):
                if access.buffer.on_chip:
                    of_tensor = self.of[access.tensor]
                    self.position.setdefault((number, access.tensor), len(of_tensor))
                    of_tensor.append((number, access, writes))

    def readers(self, number: int, result: Access) -> list[tuple[int, Access]] | None:
        """The reads of what instruction ``number`` wrote to ``result``, until the next write; None if there are too
        many uses, or if parts of it are written.
        """
        found: list[tuple[int, Access]] = []
        begin = self.position[number, result.tensor]
        later = self.of[result.tensor][begin : begin + _MOST_USES]
        for user, access, writes in later:
            if user == number or _apart(access, result):
                continue
            if writes:
                return found if pattern_of(access) == pattern_of(result) else None
            found.append((user, access))
        return found if len(later) < _MOST_USES else None


def _apart(one: Access, two: Access) -> bool:
    """Test if two accesses to one tensor, in elements of one size, touch other columns of it."""
    if one.dtype.itemsize != two.dtype.itemsize or one.dynamic is not None or two.dynamic is not None:
        return False
    (first, end), (start, stop) = _columns(one), _columns(two)
    return end <= start or stop <= first


def _columns(access: Access) -> tuple[int, int]:
    """The first element of a partition that an access touches, and the one behind its last."""
    first = access.offset % max(1, access.partition_step)
    reach = [(count - 1) * stride for count, stride in zip(access.shape[1:], access.strides[1:], strict=True)]
    return first + sum(min(0, step) for step in reach), first + sum(max(0, step) for step in reach) + 1


class Combined(Change):
    """Pairs of instructions, of which the second one reads what only it reads of the first, as one."""

    title = "Two instructions that one could do"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.ways: dict[str, None] = {}
        self._gone: dict[TimedCore, set[int]] = {}

    def evidence(self) -> str:
        return f"{self.count('instruction')} only prepare or add up what another instruction could by itself"

    def advised(self, release: str) -> str:
        ways = [_OLDER_SUM if way is _SUM and release == BETA_1 else way for way in self.ways]
        return "; ".join(ways)

    def queues(self, core: TimedCore) -> Mapping[int, int]:
        return dict.fromkeys(self._gone.get(core, ()), NO_QUEUE)

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result = list(estimates)
        numbered = core.core.numbered
        gone = self._gone[core] = set[int]()
        kinds = [isinstance(inst, TensorScalar | Activation) for inst in core.distinct]
        firsts = [number for number, kind in enumerate(core.kinds) if kinds[kind]]
        uses = _Uses(numbered) if firsts else None
        combined: set[int] = set()
        for number in firsts:
            assert uses is not None
            if number in combined:
                continue  # one that does the work of two has no room for a third
            first = numbered[number]
            readers = uses.readers(number, first.__dict__["dst"]) or []
            pairs = ((other, _way(first, numbered[other], access, len(readers))) for other, access in readers)
            other, way = next(((other, way) for other, way in pairs if way and other not in combined), (-1, ""))
            if not way:
                continue
            left_out, kept = (other, number) if way == _SUM else (number, other)
            merged = _merged(first, numbered[other], way)
            if merged is not None and not _is_legal(merged, self.target):
                continue
            estimate = self._sum(estimates[kept]) if merged is None else merged.cost(self.target)
            if estimate.occupancy >= estimates[number].occupancy + estimates[other].occupancy:
                continue  # the one instruction streams both tiles in turn
            gone.add(left_out)
            combined |= {number, other}
            self.ways[way] = None
            self.find(core, left_out, estimates[left_out])
            result[left_out], result[kept] = without_time(estimates[left_out]), estimate
        return result

    def _sum(self, estimate: Estimate) -> Estimate:
        """The estimate of an activation that adds up its results."""
        readout = self.target.scalar_read_accumulator_cycles / self.target.scalar_clock_ghz
        return replace(estimate, occupancy=estimate.occupancy + readout, latency=estimate.latency + readout)


def _is_legal(inst: Inst, target: Target) -> bool:
    return all(rule.ok(inst, target) for rule in inst.rules if rule.applies_to(target))


def _merged(first: Inst, second: Inst, way: str) -> Inst | None:
    """The instruction that does the work of ``second`` and of ``first`` before it; None for a sum behind it."""
    if way == _SUM:
        return None
    assert isinstance(first, TensorScalar)
    if isinstance(second, Activation | ActivationReduce):
        scales = first.op0.name == "multiply"
        shift = first.operand1 if first.op1 else None if scales else first.operand0
        return second.replace(data=first.data, scale=first.operand0 if scales else 1.0, bias=shift)
    if isinstance(second, TensorScalar):
        return second.replace(data=first.data, op1=second.op0, operand1=second.operand0, op0=first.op0)
    assert isinstance(second, TensorTensor) and first.operand0 is not None
    other = second.data2 if second.data1.tensor is first.dst.tensor else second.data1
    return ScalarTensorTensor(second.dst, first.data, first.op0, first.operand0, second.op, other)


def _way(first: Inst, second: Inst, access: Access, readers: int) -> str:
    """The instruction that does the work of both, the second of which reads ``access`` of the result of the first; ""
    if none does. ``readers``: the reads of that result.
    """
    dst: Access = first.__dict__["dst"]
    if pattern_of(access) != pattern_of(dst) or access.dtype is not dst.dtype:
        return ""
    if isinstance(first, Activation):
        return _SUM if _adds_up(first, second) else ""
    assert isinstance(first, TensorScalar)
    if readers > 1 or first.op0.alu is None or first.op0.alu.bits:
        return ""
    if isinstance(second, Activation | ActivationReduce):
        names = first.op0.name, first.op1.name if first.op1 else None
        fits = names in (("multiply", None), ("add", None), ("multiply", "add"))
        plain = access is second.data and second.bias is None and second.scale == 1.0
        return _ACTIVATION if fits and plain and second.op.name != "copy" else ""
    if first.op1 is not None:
        return ""
    if isinstance(second, TensorScalar):
        alu = second.op0.alu
        return _SCALAR if second.op1 is None and access is second.data and alu is not None and not alu.bits else ""
    if isinstance(second, TensorTensor) and second.queue == "vector":
        return _TENSOR if second.op.alu is not None and not second.op.alu.bits else ""
    return ""


def _adds_up(first: Activation, second: Inst) -> bool:
    """Test if ``second`` adds up the whole results of each partition of ``first``."""
    if not isinstance(second, TensorReduce) or second.op.name != "add" or second.negate or first.uses_registers:
        return False
    return second.dst.free_elements == 1 < second.data.free_elements


class RepeatedOperand(Change):
    """Operands that are one number for each partition, as such."""

    title = "Tiles in which each partition repeats one number"
    remedy = "pass the (partitions, 1) tile itself as operand0 of nisa.tensor_scalar: it streams one tile and not two"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.priced: dict[tuple[int, str], Estimate | None] = {}

    def evidence(self) -> str:
        return f"{self.count('instruction')} of two tiles read one of them with a step of 0"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if not isinstance(inst, TensorTensor) or inst.op.alu is None or inst.op.alu.bits:
            return None
        for column, data in ((inst.data2, inst.data1), (inst.data1, inst.data2)):
            if column.one_place():
                shape = (column.partitions, *(1 for _ in column.shape[1:]))
                operand = column.with_window(column.offset, shape, column.strides, column.dynamic)
                scalar = TensorScalar(
                    inst.dst, data, inst.op, operand, column is inst.data1, engine=engine.unknown
                ).with_schedule(queue=inst.queue)
                offers = candidates(scalar, self.target)
                other = next((offer.estimate for offer in offers if offer.queue == estimate.resource), None)
                return other if other is not None and other.occupancy < estimate.occupancy else None
        return None


class FewElements(Change):
    """Instructions of one kind on few elements per partition, as parts of longer ones (performance guide, Opt #5a)."""

    title = "Instructions on few elements"
    remedy = (
        "work on more elements per partition at once, 128 or more: let one instruction do what several do on "
        "neighbouring slices of a tile, or a scan (nisa.tensor_tensor_scan) what each does to the result of the last"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.sizes: set[int] = set()
        self.least = 0.0
        """Time in ns of all instructions of one kind, from which on they are looked at."""

    def evidence(self) -> str:
        least, most = min(self.sizes), max(self.sizes)
        sizes = f"{least}" if least == most else f"{least} to {most}"
        return (
            f"{self.count('instruction')} have {sizes} elements per partition, and their fixed time is longer than that"
        )

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result = list(estimates)
        for block in _blocks(core.parts):
            groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
            for number in range(block.first, block.first + len(block.queues)):
                if estimates[number].resource in ("vector", "scalar", "gpsimd"):
                    groups[core.kinds[number], id(estimates[number])].append(number)
            for numbers in groups.values():
                inst, estimate = core.core.numbered[numbers[0]], estimates[numbers[0]]
                elements = max((access.free_elements for access in inst.accesses() if access.buffer.on_chip), default=0)
                busy = estimate.occupancy * sum(self.runs(core, number) for number in numbers)
                if 0 < elements < self.target.partitions and len(numbers) > 1 and busy > self.least:
                    self._merge(core, _independent(block, numbers), elements, result)
        return result

    def revised(self, profile: Profile) -> Revision:
        self.least = LEAST_WORTH * profile.latency * 1e9
        return super().revised(profile)

    def _merge(self, core: TimedCore, groups: Iterable[list[int]], elements: int, estimates: list[Estimate]) -> None:
        """Change the estimates of the members of each group to their parts of a longer instruction."""
        for group in groups:
            merged = min(len(group), math.ceil(self.target.partitions / elements))
            if merged < 2:
                continue
            estimate = estimates[group[0]]
            whole = self._widened(core.core.numbered[group[0]], estimate.resource, elements, merged).occupancy
            part = min(estimate.occupancy, whole / merged)
            changed = replace(estimate, occupancy=part, ports_ns=min(estimate.ports_ns, part))
            self.sizes.add(elements)
            for number in group:
                self.find(core, number, estimate)
                estimates[number] = changed

    def _widened(self, inst: Inst, resource: str, elements: int, times: int) -> Estimate:
        """The estimate of ``inst`` on tiles of ``times`` as many elements."""
        wide: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            if access.free_elements == elements:
                shape = (*access.shape[:-1], access.shape[-1] * times)
                wide[number] = access.with_window(access.offset, shape, access.strides, access.dynamic)
        longer = inst.with_operands(wide)
        return (longer if inst.engine_choice is None else longer.replace(engine=engine[resource])).cost(self.target)


def _blocks(parts: Iterable[Part]) -> Iterator[Block]:
    for part in parts:
        if isinstance(part, Block):
            yield part
        else:
            yield from _blocks(part.parts)


def _independent(block: Block, numbers: list[int]) -> Iterator[list[int]]:
    """Groups of instructions of a block that follow each other, none of which needs another, or what comes of it."""
    group: list[int] = []
    members = frozenset(numbers)
    needs: set[int] = set()
    """The members of the group, and what comes of them."""
    for number in range(numbers[0], numbers[-1] + 1):
        waits = block.graph.predecessors[number - block.first]
        needs_member = not needs.isdisjoint(block.first + other for other in waits)
        if number in members:
            if needs_member:
                yield group
                group = []
                needs = set()
            group.append(number)
        if number in members or needs_member:
            needs.add(number)
    yield group
