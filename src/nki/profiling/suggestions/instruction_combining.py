"""Changes that let one instruction do the work of two, or a cheaper one the same (performance guide, Opt #6).

Which instructions that are, their declarations say (:mod:`nki.ir.declaration.combining`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from nki.analysis.access_pattern import pattern_of
from nki.ir.declaration.combining import NONE, Combination, Scaling
from nki.ir.estimate import Compute, Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.passes.scheduling.engine_assignment import candidates
from nki.profiling.metrics import LEAST_WORTH
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.suggestion import Suggestion, on_engine, span
from nki.sim.timing import Block, EstimateOverride, Part, TimedCore
from nki.target.model import Target

_MOST_USES = 256
"""Uses of a tensor behind an instruction that are looked at; beyond, its result counts as used by others."""


class _Uses:
    """The uses of each of ``tensors`` on chip, in program order."""

    def __init__(self, instructions: Collection[Inst], tensors: AbstractSet[Tensor]) -> None:
        self.of: defaultdict[Tensor, list[tuple[int, Access, bool]]] = defaultdict(list)
        self.position: dict[tuple[int, Tensor], int] = {}
        """Of the first use of a tensor by an instruction, in the list."""
        for number, inst in enumerate(instructions):
            if tensors.isdisjoint([access.tensor for access in inst.accesses()]) and not inst.indexed_by():
                continue
            uses = ((access, False) for access in inst.reads()), ((access, True) for access in inst.writes())
            for access, writes in chain(*uses):
                if access.buffer.on_chip and access.tensor in tensors:
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


class Combined(Suggestion):
    """Pairs of instructions as one: only the second one reads what the first one writes."""

    title = "Two instructions that one could do"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.advice: dict[tuple[str, str], None] = {}

    def evidence(self) -> str:
        return f"{self.count('instruction')} only prepare or add up what another instruction could by itself"

    def advised(self, returns_results: bool) -> str:
        return "; ".join(older if older and returns_results else newer for newer, older in self.advice)

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates = override.before
        numbered = core.core.numbered
        firsts = [_First.of(inst) for inst in core.distinct]
        numbers = [number for number, kind in enumerate(core.kinds) if firsts[kind] is not None]
        found = {number: first for number in numbers if (first := _First.of(numbered[number])) is not None}
        uses = _Uses(numbered, {first.dst.tensor for first in found.values()}) if found else None
        combined: set[int] = set()
        for number in found:
            assert uses is not None
            if number in combined:
                continue  # one that does the work of two has no room for a third
            for pair in self._pairs(number, found[number], numbered, uses):
                if combined.isdisjoint((pair.kept, pair.gone)):
                    estimate = pair.combination.inst.cost(self.target)
                    if estimate.occupancy < estimates[pair.kept].occupancy + estimates[pair.gone].occupancy:
                        override.leave_out(pair.gone)
                        combined |= {pair.kept, pair.gone}
                        self.advice[pair.combination.advice, pair.combination.older_advice] = None
                        self.add(core, pair.gone, estimates[pair.gone])
                        override.estimates[pair.kept] = estimate
                    break  # else the one instruction streams both tiles in turn

    def _pairs(self, number: int, first: _First, numbered: Sequence[Inst], uses: _Uses) -> Iterator[_Pair]:
        """The legal combinations of instruction ``number``, as ``first``, with one that reads its result."""
        readers = uses.readers(number, first.dst) or []
        for other, access in readers:
            if pattern_of(access) != pattern_of(first.dst) or access.dtype is not first.dst.dtype:
                continue
            combining = numbered[other].effects.combining
            if (total := combining.row_sum(numbered[other])) is not None:
                if (added := numbered[number].effects.combining.with_row_sum(numbered[number], total)) is not None:
                    yield _Pair(number, other, added)
            elif first.scaling is not None and first.scaling.steps and len(readers) == 1:
                both = combining.after_scaling(numbered[other], first.scaling, access)
                if both is not None and _is_legal(both.inst, self.target):
                    yield _Pair(other, number, both)


class _First(NamedTuple):
    """An instruction with a result that another one could make: a scaling, or one that could add its results up."""

    dst: Access
    scaling: Scaling | None

    @classmethod
    def of(cls, inst: Inst) -> _First | None:
        combining = inst.effects.combining
        scaling, adds = combining.scaling(inst), combining.with_row_sum is not NONE.with_row_sum
        if scaling is not None:
            return cls(scaling.dst, scaling) if scaling.steps or adds else None
        return cls(inst.writes()[0], None) if adds else None


class _Pair(NamedTuple):
    """The combined instruction, the one that it replaces, and the one that it removes."""

    kept: int
    gone: int
    combination: Combination


def _is_legal(inst: Inst, target: Target) -> bool:
    return all(rule.ok(inst, target) for rule in inst.rules if rule.applies_to(target))


class RepeatedOperand(Suggestion):
    """Operands that are one number for each partition, as such."""

    title = "Tiles in which each partition repeats one number"
    remedy = "pass the (partitions, 1) tile itself as operand0 of nisa.tensor_scalar: it streams one tile and not two"

    def evidence(self) -> str:
        return f"{self.count('instruction')} of two tiles read one of them with a step of 0"

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        scalar = inst.effects.combining.by_column(inst)
        if scalar is None:
            return None
        offers = candidates(scalar, self.target)
        other = next((offer.estimate for offer in offers if offer.queue == estimate.resource), None)
        return other if other is not None and other.occupancy < estimate.occupancy else None


class FewElements(Suggestion):
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
        elements = f"{span(self.sizes)} element{'' if self.sizes == {1} else 's'} per partition"
        return f"{self.count('instruction')} have {elements}, and their fixed time is longer than that"

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates, result = override.before, override.estimates
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
                    assert isinstance(estimate, Compute)
                    self._merge(core, estimate, _independent(block, numbers), elements, result)

    def overrides(self, profile: PredictedRun) -> dict[TimedCore, EstimateOverride]:
        self.least = LEAST_WORTH * profile.latency * 1e9
        return super().overrides(profile)

    def _merge(
        self,
        core: TimedCore,
        estimate: Compute,
        groups: Iterable[list[int]],
        elements: int,
        estimates: list[Estimate],
    ) -> None:
        """Change the estimates of the members of each group, all of them ``estimate``, to their parts of a longer
        instruction.
        """
        for group in groups:
            merged = min(len(group), math.ceil(self.target.partitions / elements))
            if merged < 2:
                continue
            whole = self._widened(core.core.numbered[group[0]], estimate.resource, elements, merged).occupancy
            part = min(estimate.occupancy, whole / merged)
            changed = replace(estimate.releasing_after(part), ports_ns=min(estimate.ports_ns, part))
            self.sizes.add(elements)
            for number in group:
                self.add(core, number, estimate)
                estimates[number] = changed

    def _widened(self, inst: Inst, resource: str, elements: int, times: int) -> Estimate:
        """The estimate of ``inst`` on tiles of ``times`` as many elements."""
        wide: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            if access.free_elements == elements:
                shape = (*access.shape[:-1], access.shape[-1] * times)
                wide[number] = access.with_window(access.offset, shape, access.strides, access.dynamic)
        return on_engine(inst.with_operands(wide), resource).cost(self.target)


def _blocks(parts: Iterable[Part]) -> Iterator[Block]:
    for part in parts:
        if isinstance(part, Block):
            yield part
        else:
            yield from _blocks(part.parts)


def _independent(block: Block, numbers: list[int]) -> Iterator[list[int]]:
    """Groups of instructions of a block that follow each other; none needs another, or what comes of it."""
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
