"""What each instruction of a kernel touches, as numbers that meet where its bytes do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nki.analysis.alias_classes import Form, Pattern, Window, atoms, form_of, windows
from nki.ir.instruction import Inst
from nki.ir.program import Program
from nki.ir.types import Access, Tensor

MANY = 12
"""Atoms that an access to a memory touches on average, from which arrays are quicker than numbers."""
Place = tuple[int, int]
"""First partition, first byte in it."""
Which = NDArray[np.int64] | slice
Many = tuple[tuple[int, Which], ...]


@dataclass(eq=False, slots=True)
class Atoms:
    """How many atoms a kernel has: ``single`` numbered from 0, and those of each memory whose windows have many."""

    places: Mapping[Tensor, Place]
    single: int = 1
    """Number 0 is the world outside: printing, and other cores."""
    many: list[int] = field(default_factory=list[int])


@dataclass(eq=False, slots=True)
class Footprint:
    """The atoms that an instruction reads and writes, as ``owner`` numbers them.

    ``many_reads`` and ``many_writes``: those of memories whose windows have very many, as (memory, atoms in it).
    """

    owner: Atoms
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    many_reads: Many = ()
    many_writes: Many = ()


def footprints(kernel: Program, places: Mapping[Tensor, Place]) -> Atoms:
    """Give every instruction of ``kernel`` its footprint, unless all have those of one numbering already.

    ``places`` says where tiles lie in SBUF and PSUM. A tile without a place, or an address that the user gave it, is a
    memory of its own. A window that a run-time index moves counts as its whole tensor.
    """
    instructions = list(kernel.instructions())
    owner = instructions[0].footprint.owner if instructions and instructions[0].footprint is not None else None
    if owner is not None and owner.places is places and all(_is_of(inst, owner) for inst in instructions):
        return owner
    finder = _Finder(places)
    touched: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for inst in instructions:
        values = inst.__dict__
        reads, writes = finder.numbers(values, inst.read_names), finder.numbers(values, inst.write_names)
        if inst.order_names:
            writes += finder.numbers(values, inst.order_names)
        if finder.moved and (sources := inst.indexed_by()):
            reads += tuple(map(finder.number, sources))
        touched.append((reads, writes))
    uses = Counter(chain.from_iterable(chain.from_iterable(touched)))
    owner = finder.finish(uses, {finder.tensors[n] for _, writes in touched for n in writes})
    single, many = finder.single, finder.many
    made: dict[tuple[tuple[int, ...], tuple[int, ...]], Footprint] = {}
    for inst, (reads, writes) in zip(instructions, touched, strict=True):
        key = (reads, writes)
        found = made.get(key)
        if found is None:
            found = made[key] = Footprint(
                owner,
                single[reads[0]] if len(reads) == 1 else _union(single[n] for n in reads),
                single[writes[0]] if len(writes) == 1 else _union(single[n] for n in writes),
            )
            if many:
                found.many_reads = tuple(many[n] for n in reads if n in many)
                found.many_writes = tuple(many[n] for n in writes if n in many)
        if inst.effects.external:
            found = Footprint(owner, found.reads, (0, *found.writes), found.many_reads, found.many_writes)
        inst.footprint = found
    return owner


def _is_of(inst: Inst, owner: Atoms) -> bool:
    return inst.footprint is not None and inst.footprint.owner is owner


def _union(parts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    found = [part for part in parts if part]
    return found[0] if len(found) == 1 else tuple(dict.fromkeys(atom for part in found for atom in part))


class _Finder:
    """Collects windows, then finds the atoms of each."""

    def __init__(self, places: Mapping[Tensor, Place]) -> None:
        self.places = places
        self.by_object: dict[int, int] = {}
        self.forms: dict[Tensor, dict[Form, int]] = {}
        """The windows of each tensor, by form. Tiles of one place with rows of one length have them together."""
        self.by_form: dict[Tensor, dict[Form, int]] = {}
        """The same, once for those that are together."""
        self.at_place: dict[object, Tensor] = {}
        self.tensors: list[Tensor] = []
        """By number of a window: the tensor in ``by_form``."""
        self.moved = False
        """Whether run-time indices were seen."""
        self.single: list[tuple[int, ...]] = []
        self.many: dict[int, tuple[int, Which]] = {}
        self.tiles: dict[object, list[Window]] = {}
        self.alike: dict[object, tuple[int, list[NDArray[np.int64]]]] = {}

    def numbers(self, values: Mapping[str, object], names: tuple[str, ...]) -> tuple[int, ...]:
        """The number of each window among the arguments of these names."""
        known = self.by_object  # the instructions keep all of them, so an id is one window's
        found: list[int] = []
        for name in names:
            value = values[name]
            number = known.get(id(value))
            if number is not None:
                found.append(number)
            elif isinstance(value, Access):
                found.append(self.number(value))
            elif isinstance(value, tuple):
                found.extend(map(self.number, cast("tuple[Access, ...]", value)))
        return tuple(found)

    def number(self, access: Access) -> int:
        """The number of a window; windows of one form have one number."""
        tensor = access.tensor
        forms = self.forms.get(tensor)
        if forms is None:
            forms = self.forms[tensor] = self.by_form.setdefault(self._same(tensor), {})
        if access.dynamic is not None:
            self.moved = True
        count = len(self.tensors)
        number = self.by_object[id(access)] = forms.setdefault(form_of(access), count)
        if number == count:
            self.tensors.append(self._same(tensor))
        return number

    def _same(self, tensor: Tensor) -> Tensor:
        """The first tile that lies where ``tensor`` does, if its rows have the same length."""
        place = self._place(tensor) if tensor.buffer.on_chip else None
        if place is None:
            return tensor
        return self.at_place.setdefault((tensor.buffer.word, place, tensor.free_size * tensor.dtype.itemsize), tensor)

    def finish(self, uses: Mapping[int, int], written: set[Tensor]) -> Atoms:
        """Find the atoms of every window; ``uses`` counts the accesses through each, and of the tensors
        only those in ``written`` have any.
        """
        owner = Atoms(self.places)
        self.single = [()] * len(self.tensors)
        for memory in self._memories(written):
            if len(memory) == 1:
                forms = self.by_form[memory[0]]
                self._enter(owner, uses, list(forms.values()), *self._alone(memory[0], tuple(forms)))
                continue
            numbers: list[int] = []
            seen: list[Window] = []
            for tensor in memory:
                forms = self.by_form[tensor]
                numbers += forms.values()
                seen += self._placed(tensor, tuple(forms))
            self._enter(owner, uses, numbers, *atoms(seen))
        return owner

    def _alone(self, tensor: Tensor, forms: tuple[Form, ...]) -> tuple[int, list[NDArray[np.int64]]]:
        """How many atoms a tensor needs and those of each window: the same for all tensors that are used alike."""
        if len(forms) == 1:
            return 1, [np.zeros(1, np.int64)]
        key = (tensor.shape, tensor.dtype.itemsize, tensor.buffer.on_chip, forms)
        found = self.alike.get(key)
        if found is None:
            found = self.alike[key] = atoms(windows(tensor, forms))
        return found

    def _enter(
        self, owner: Atoms, uses: Mapping[int, int], numbers: list[int], count: int, found: list[NDArray[np.int64]]
    ) -> None:
        """Give the windows their atoms, in numbers that no other memory has."""
        if count >= MANY and sum(uses[n] * (len(its) - MANY) for n, its in zip(numbers, found, strict=True)) > 0:
            memory = len(owner.many)
            owner.many.append(count)
            for number, its in zip(numbers, found, strict=True):
                self.many[number] = (memory, _compact(its))
            return
        first = owner.single
        for number, its in zip(numbers, found, strict=True):
            self.single[number] = (first + int(its[0]),) if len(its) == 1 else tuple((its + first).tolist())
        owner.single += count

    def _placed(self, tensor: Tensor, forms: tuple[Form, ...]) -> list[Window]:
        """The windows where the tile lies."""
        key = (tensor.free_size * tensor.dtype.itemsize, forms)
        seen = self.tiles.get(key)
        if seen is None:
            seen = self.tiles[key] = windows(tensor, forms)
        down, right = self._place(tensor) or (0, 0)
        return [(Pattern(r[0] + down, r[1], r[2]), Pattern(c[0] + right, c[1], c[2])) for r, c in seen]

    def _place(self, tensor: Tensor) -> Place | None:
        return self.places.get(tensor) or tensor.address

    def _memories(self, written: set[Tensor]) -> list[list[Tensor]]:
        """Groups of tensors that overlap, directly or through others. What nobody writes is in none."""
        alone: list[list[Tensor]] = []
        placed: dict[str, list[tuple[int, int, Tensor]]] = {}
        for tensor in self.by_form:
            place = self._place(tensor) if tensor.buffer.on_chip else None
            if place is None:
                alone.append([tensor])
            else:
                length = tensor.free_size * tensor.dtype.itemsize
                placed.setdefault(tensor.buffer.word, []).append((place[1], place[1] + length, tensor))
        for tiles in placed.values():
            end = -1
            for first, last, tensor in sorted(tiles, key=_start):
                if first >= end:
                    alone.append([])
                alone[-1].append(tensor)
                end = max(end, last)
        return [group for group in alone if not written.isdisjoint(group)]


def _compact(atoms: NDArray[np.int64]) -> Which:
    """A slice where the atoms are neighbours, which is quicker."""
    first, last = int(atoms[0]), int(atoms[-1])
    return slice(first, last + 1) if last - first + 1 == len(atoms) and bool((np.diff(atoms) == 1).all()) else atoms


def _start(tile: tuple[int, int, Tensor]) -> int:
    return tile[0]


def footprint(inst: Inst) -> Footprint:
    """The footprint that :func:`footprints` has found."""
    return cast(Footprint, inst.footprint)
