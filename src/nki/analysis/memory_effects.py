"""Memory effects of instructions: the alias classes that each instruction reads and writes.

Two instructions touch a common byte if, and only if, they have a common class (:mod:`nki.analysis.alias_classes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, AxisPattern, Box, conservative_pattern
from nki.analysis.alias_classes import alias_classes, boxes_of
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Tensor, TileAddress

LARGE_CLASS_COUNT = 12
"""Alias classes of an access, on the average of a memory's accesses, from which arrays are faster than Python ints."""
ClassIndex = NDArray[np.int64] | slice
LargeAccesses = tuple[tuple[int, ClassIndex], ...]
"""Number of the large memory, and the classes in it, of each access."""
_Pattern = tuple[tuple[int, ...], tuple[int, ...]]
"""The numbers of the accesses that an instruction reads, and of those that it writes."""


@dataclass(eq=False, slots=True, repr=False)
class AliasClasses:
    """Numbering of a program's alias classes: ``count`` numbered from 0, and those of each large memory apart.

    ``addresses`` are the tile addresses that the numbering holds for.
    """

    addresses: Mapping[Tensor, TileAddress]
    count: int = 1
    """Class 0 is the world outside: printing, and other cores."""
    large: list[int] = field(default_factory=list[int])
    """Classes of each large memory, in which an access has many classes."""


@dataclass(eq=False, slots=True, repr=False)
class MemoryEffects:
    """The alias classes that an instruction reads and writes, in the numbering ``classes``."""

    classes: AliasClasses
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    large_reads: LargeAccesses = ()
    large_writes: LargeAccesses = ()


def annotate_effects(core: CoreProgram, addresses: Mapping[Tensor, TileAddress]) -> AliasClasses:
    """Set the memory effects of every instruction of ``core``, unless all have those of one numbering already.

    ``addresses`` are those of tiles in SBUF and PSUM. A tile without an address, the user's included, is a memory of
    its own. An access that a run-time index moves counts as its whole tensor.
    """
    instructions = core.numbered
    first = instructions[0].memory_effects if instructions else None
    if first is not None and first.classes.addresses is addresses:
        classes: AliasClasses = first.classes
        current = [(effects := inst.memory_effects) is not None and effects.classes is classes for inst in instructions]
        if all(current):
            return classes
    numbering = _Numbering(addresses)
    by_object, number = numbering.by_object, numbering.number
    fixed = _never_written(core)
    patterns: list[_Pattern] = []
    indices: dict[tuple[int, ...], int] = {}
    """Index of each pattern: the numbers that are read, -1, and those that are written."""
    of_instructions: list[int] = []
    for inst in instructions:
        numbers: list[int] = []
        for access in inst.read_operands():
            known = by_object.get(access)
            if known is not None:
                numbers.append(known)
            elif access.tensor not in fixed or access.dynamic is not None:
                numbers.append(number(access))
        reads = len(numbers)
        numbers.append(-1)
        for access in inst.changes():
            known = by_object.get(access)
            numbers.append(number(access) if known is None else known)
        if numbering.has_dynamic and (sources := inst.indexed_by()):
            numbers[reads:reads] = map(number, sources)
        key = tuple(numbers)
        index = indices.setdefault(key, len(patterns))
        if index == len(patterns):
            reads = key.index(-1)
            patterns.append((key[:reads], key[reads + 1 :]))
        of_instructions.append(index)
    classes = numbering.finish(patterns, of_instructions)
    effects_of_pattern = numbering.effects(patterns, classes)
    for inst, index in zip(instructions, of_instructions, strict=True):
        effects = effects_of_pattern[index]
        if inst.effects.external:
            writes_outside = (0, *effects.writes)
            effects = MemoryEffects(classes, effects.reads, writes_outside, effects.large_reads, effects.large_writes)
        inst.memory_effects = effects
    return classes


def _never_written(core: CoreProgram) -> set[Tensor]:
    """The tensors in HBM that no instruction writes or orders: who reads them depends on nobody for that."""
    written: set[Tensor] = set()
    for inst in core.numbered:
        for access in inst.changes():
            written.add(access.tensor)
    return {tensor for tensor in core.tensors if tensor.buffer.is_hbm and tensor not in written}


def _union(parts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    union: tuple[int, ...] = ()
    for part in parts:
        union = union + part if union else part
    return union if len(set(union)) == len(union) else tuple(dict.fromkeys(union))


class _Uses:
    """The uses of each number, counted when somebody asks: few programs have memories of many classes."""

    def __init__(self, patterns: Sequence[_Pattern], of_instructions: Iterable[int], numbers: int) -> None:
        self.patterns, self.of_instructions, self.numbers = patterns, of_instructions, numbers

    @cached_property
    def counts(self) -> list[int]:
        """How often an instruction reads or writes each number."""
        uses = [0] * self.numbers
        counts = np.bincount(np.fromiter(self.of_instructions, np.int64), minlength=len(self.patterns)).tolist()
        for (reads, writes), count in zip(self.patterns, counts, strict=True):
            for number in (*reads, *writes):
                uses[number] += count
        return uses


class _Numbering:
    """Numbers the distinct (tensor, access pattern) pairs of a program, then finds the alias classes of each pair."""

    def __init__(self, addresses: Mapping[Tensor, TileAddress]) -> None:
        self.addresses = addresses
        self.by_object: dict[Access, int] = {}
        """Number of each access: a short cut past its pattern."""
        self.patterns: dict[Tensor, tuple[Tensor, dict[AccessPattern, int]]] = {}
        """The tensor that stands for each tensor in ``by_pattern``, and the numbers of its access patterns."""
        self.by_pattern: dict[Tensor, dict[AccessPattern, int]] = {}
        """Numbers of the access patterns, once for tiles with one address and row length."""
        self.at_address: dict[object, tuple[Tensor, dict[AccessPattern, int]]] = {}
        self.tensors: list[Tensor] = []
        """By number: the tensor in ``by_pattern``."""
        self.has_dynamic = False
        """True once an access with a run-time index has been numbered."""
        self.small: list[tuple[int, ...]] = []
        self.large: dict[int, tuple[int, ClassIndex]] = {}
        self.boxes: dict[object, list[Box]] = {}
        self.classes_of: dict[object, tuple[int, list[NDArray[np.int64]]]] = {}

    def number(self, access: Access) -> int:
        """The number of an access; accesses to one tensor with one pattern have one number."""
        tensor = access.tensor
        entry = self.patterns.get(tensor)
        if entry is None:
            entry = self.patterns[tensor] = self._entry(tensor)
        representative, patterns = entry
        if access.dynamic is not None:
            self.has_dynamic = True
            pattern = conservative_pattern(access)
        else:
            pattern = (access.offset, access.shape, access.strides, access.dtype.itemsize)
        tensors = self.tensors
        count = len(tensors)
        number = self.by_object[access] = patterns.setdefault(pattern, count)
        if number == count:
            tensors.append(representative)
        return number

    def _entry(self, tensor: Tensor) -> tuple[Tensor, dict[AccessPattern, int]]:
        """The first tile with the address and the row length of ``tensor``, and the numbers of its patterns."""
        buffer = tensor.buffer
        address = (self.addresses.get(tensor) or tensor.address) if buffer.on_chip else None
        place = None if address is None else (buffer.word, address, tensor.bytes_per_partition)
        entry = None if place is None else self.at_address.get(place)
        if entry is None:
            entry = tensor, self.by_pattern.setdefault(tensor, {})
            if place is not None:
                self.at_address[place] = entry
        return entry

    def effects(self, patterns: Iterable[_Pattern], classes: AliasClasses) -> list[MemoryEffects]:
        """The memory effects of each pattern, in the numbering ``classes``."""
        small, large = self.small, self.large
        result: list[MemoryEffects] = []
        for reads, writes in patterns:
            effects = MemoryEffects(
                classes,
                small[reads[0]] if len(reads) == 1 else _union([small[n] for n in reads]),
                small[writes[0]] if len(writes) == 1 else _union([small[n] for n in writes]),
            )
            if large:
                effects.large_reads = tuple(large[n] for n in reads if n in large)
                effects.large_writes = tuple(large[n] for n in writes if n in large)
            result.append(effects)
        return result

    def finish(self, patterns: Sequence[_Pattern], of_instructions: Iterable[int]) -> AliasClasses:
        """Find the classes of every number. ``of_instructions``: the index of each instruction's pattern.

        Only tensors that are written, and tensors that share memory with one, have classes.
        """
        classes = AliasClasses(self.addresses)
        tensors = self.tensors
        written = {tensors[number] for _, writes in patterns for number in writes}
        uses = _Uses(patterns, of_instructions, len(tensors))
        self.small = [()] * len(self.tensors)
        for memory in self._memories(written):
            if len(memory) == 1:
                own = self.by_pattern[memory[0]]
                self._assign(classes, uses, list(own.values()), *self._single(memory[0], tuple(own)))
                continue
            numbers: list[int] = []
            boxes: list[Box] = []
            for tensor in memory:
                own = self.by_pattern[tensor]
                numbers += own.values()
                boxes += self._boxes_at_address(tensor, tuple(own))
            self._assign(classes, uses, numbers, *alias_classes(boxes))
        return classes

    def _single(self, tensor: Tensor, patterns: tuple[AccessPattern, ...]) -> tuple[int, list[NDArray[np.int64]]]:
        """Class count and classes of each pattern of a tensor that shares no memory; one result for equal tensors."""
        if len(patterns) == 1:
            return 1, [np.zeros(1, np.int64)]
        key = (tensor.shape, tensor.dtype.itemsize, tensor.buffer.on_chip, patterns)
        classes = self.classes_of.get(key)
        if classes is None:
            classes = self.classes_of[key] = alias_classes(boxes_of(tensor, patterns))
        return classes

    def _assign(
        self,
        classes: AliasClasses,
        uses: _Uses,
        numbers: list[int],
        count: int,
        members: list[NDArray[np.int64]],
    ) -> None:
        """Give each number its classes, ``members``, out of the ``count`` new classes of one memory."""
        if count >= LARGE_CLASS_COUNT and self._prefers_arrays(uses, numbers, members):
            memory = len(classes.large)
            classes.large.append(count)
            for number, own in zip(numbers, members, strict=True):
                self.large[number] = (memory, _compact(own))
            return
        first = classes.count
        for number, own in zip(numbers, members, strict=True):
            self.small[number] = (first + int(own[0]),) if len(own) == 1 else tuple((own + first).tolist())
        classes.count += count

    @staticmethod
    def _prefers_arrays(uses: _Uses, numbers: list[int], members: list[NDArray[np.int64]]) -> bool:
        counts = uses.counts
        return sum(counts[n] * (len(own) - LARGE_CLASS_COUNT) for n, own in zip(numbers, members, strict=True)) > 0

    def _boxes_at_address(self, tensor: Tensor, patterns: tuple[AccessPattern, ...]) -> list[Box]:
        """The boxes of the patterns, moved to the address of the tile."""
        key = (tensor.bytes_per_partition, patterns)
        boxes = self.boxes.get(key)
        if boxes is None:
            boxes = self.boxes[key] = boxes_of(tensor, patterns)
        down, right = self._address(tensor) or (0, 0)
        return [(AxisPattern(r[0] + down, r[1], r[2]), AxisPattern(c[0] + right, c[1], c[2])) for r, c in boxes]

    def _address(self, tensor: Tensor) -> TileAddress | None:
        return self.addresses.get(tensor) or tensor.address

    def _memories(self, written: set[Tensor]) -> list[list[Tensor]]:
        """Groups of tensors that overlap, directly or through others, with a tensor in ``written`` among them."""
        groups: list[list[Tensor]] = []
        tiles: dict[str, list[tuple[int, int, Tensor]]] = {}
        for tensor in self.by_pattern:
            address = self._address(tensor) if tensor.buffer.on_chip else None
            if address is None:
                groups.append([tensor])
            else:
                length = tensor.bytes_per_partition
                tiles.setdefault(tensor.buffer.word, []).append((address[1], address[1] + length, tensor))
        for in_buffer in tiles.values():
            end = -1
            for first, last, tensor in sorted(in_buffer, key=_start):
                if first >= end:
                    groups.append([])
                groups[-1].append(tensor)
                end = max(end, last)
        return [group for group in groups if not written.isdisjoint(group)]


def _compact(classes: NDArray[np.int64]) -> ClassIndex:
    """The classes as a slice, which is faster, where the classes are neighbours."""
    first, last = int(classes[0]), int(classes[-1])
    if last - first + 1 == len(classes) and bool((np.diff(classes) == 1).all()):
        return slice(first, last + 1)
    return classes


def _start(tile: tuple[int, int, Tensor]) -> int:
    return tile[0]


def effects_of(inst: Inst) -> MemoryEffects:
    """The memory effects that :func:`annotate_effects` has set."""
    return cast(MemoryEffects, inst.memory_effects)
