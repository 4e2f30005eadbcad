"""Stage ``allocate``: every tensor on chip that an instruction touches gets its place in SBUF or PSUM.

A place is (first partition, byte offset in the partition). One that the user gave with ``address=`` is kept, and so is
one that a kernel in text form brings along. The others start at partition 0, in bytes that nobody else uses while they
live (``nki.analysis.liveness``, ``nki.passes.allocation.packing``). If there is no room for that, tiles of at most 64
partitions are laid beside one another, where each instruction that touches them may start at that partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from nki.analysis.liveness import LiveRange, interference, live_ranges
from nki.base.errors import NkiError, PlaceError
from nki.ir.instruction import Inst
from nki.ir.loop import touched
from nki.ir.program import CoreProgram, Program
from nki.ir.register import is_register
from nki.ir.types import Access, Buffer, Dynamic, Tensor, TileAddress
from nki.ir.verifier import verify
from nki.isa.rules.operands import starts
from nki.isa.tables.enums import engine
from nki.passes.allocation import diagnostics, overwrites
from nki.passes.allocation.packing import Fixed, pack, stack
from nki.passes.stage import CoreStage
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

_FIX = "take the places out of the text; this stage finds them"


@dataclass(frozen=True)
class Allocate(CoreStage):
    """Stage ``allocate``. ``check_overlap``: refuse tiles placed by the user that overlap while both are in use; an
    executor that looks at every byte (the simulator) knows better than live ranges tell.
    """

    name: ClassVar[str] = "allocate"
    check_overlap: bool = True

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        """``core`` with a place for every tensor on chip. Raises :class:`MemoryFullError` where there is no room."""
        _check_known(core)
        places: dict[Tensor, TileAddress] = {}
        living = live_ranges(core, target)
        for space in memory_spaces(target):
            places.update(_placed(program.name, core, space, living[Buffer[space.name]], target, self.check_overlap))
        wrong = _wrong_starts(core, places, target)
        if wrong is not None:
            raise wrong
        return replace(core, placement=places)

    def check(self, program: Program, target: Target) -> None:
        """Every tensor on chip that is touched has a place inside its memory, and no two in use overlap."""
        for core in program.cores:
            _check_places(core, target)


def _placed(
    name: str, kernel: CoreProgram, space: MemorySpace, living: list[LiveRange], target: Target, apart: bool
) -> dict[Tensor, TileAddress]:
    """The places of what lives in one memory, in the order in which it begins to live."""
    given: dict[Tensor, TileAddress] = {}
    for life in living:
        place = life.tensor.address or kernel.placement.get(life.tensor)
        if place is not None:
            given[life.tensor] = place
    fixed = [Fixed(life, *given[life.tensor]) for life in living if life.tensor in given]
    _check_given(kernel, space, fixed, apart)
    free = [life for life in living if life.tensor not in given] if given else living
    found = pack(free, space.usable, fixed) if free else []
    if found is None:
        found = _stacked(kernel, space, free, fixed, target)
    if found is None:
        raise diagnostics.full(name, kernel, space, living, target)
    places = {life.tensor: place for life, place in zip(free, found, strict=True)}
    return {life.tensor: given.get(life.tensor) or places[life.tensor] for life in living} if given else places


def _check_known(kernel: CoreProgram) -> None:
    """Raise unless the places that the kernel brings along are those of tiles."""
    for tensor, place in kernel.placement.items():
        if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or (tensor.address or place) != place:
            raise PlaceError(
                f"'{tensor.name}' in {tensor.buffer.value} has place={place}; only tiles in sbuf and psum have one, "
                "which is their address if they have that",
                fix=_FIX,
            )


def _check_given(kernel: CoreProgram, space: MemorySpace, fixed: Sequence[Fixed], apart: bool) -> None:
    """Raise unless given places lie inside the memory and, ``apart``, no two overlap while both are in use."""
    for f in fixed:
        tensor = f.life.tensor
        if tensor.address is None and not _inside(space, f.life, (f.partition, f.offset)):
            raise PlaceError(
                f"'{tensor.name}' has place={(f.partition, f.offset)}, which is none in {space.name} for "
                f"{tensor.shape[0]} partitions of {space.partitions} and {f.life.size} bytes of {space.usable} at a "
                f"multiple of {f.life.align}",
                fix=_FIX,
            )
    known = [f.life for f in fixed if apart or f.life.tensor.address is None]
    met = _met(kernel, known, {f.life.tensor: (f.partition, f.offset) for f in fixed})
    if isinstance(met, overwrites.Loss):
        raise diagnostics.lost(kernel, space, known, met)
    if met is not None:
        raise diagnostics.overlap(kernel, *met)


def _met(
    kernel: CoreProgram, living: Sequence[LiveRange], places: Mapping[Tensor, TileAddress]
) -> overwrites.Loss | tuple[LiveRange, LiveRange] | None:
    """What lies on the bytes of another while both are in use; of tiles that the user has placed, what that spoils."""
    met = interference(living, places)
    if met is None:
        return None
    lost = overwrites.loss(kernel, [life.tensor for life in living if life.tensor.address is not None])
    return lost or next(_pairs(living, places), None)


def _pairs(living: Sequence[LiveRange], places: Mapping[Tensor, TileAddress]) -> Iterator[tuple[LiveRange, LiveRange]]:
    """Two lives, the later one second, that meet in time and in bytes, but for pairs that the user has placed."""
    rows = [(*places[one.tensor], one.tensor.shape[0], one.size, one.first, one.last) for one in living]
    partition, offset, count, size, first, last = np.array(rows, np.int64).T
    for i, one in enumerate(living):
        near = (partition < partition[i] + count[i]) & (partition[i] < partition + count)
        near &= (offset < offset[i] + size[i]) & (offset[i] < offset + size)
        near &= (first <= last[i]) & (first[i] <= last)
        for j in np.flatnonzero(near[:i]).tolist():
            if one.tensor.address is None or living[j].tensor.address is None:
                yield living[j], one


def _inside(space: MemorySpace, life: LiveRange, place: TileAddress) -> bool:
    """Whether the place is one that this stage could have chosen."""
    partition, offset = place
    count = life.tensor.shape[0]
    aligned = offset % life.align == 0 and partition in starts(count)
    return aligned and partition + count <= space.partitions and offset + life.size <= space.usable


def _stacked(
    kernel: CoreProgram, space: MemorySpace, free: Sequence[LiveRange], fixed: Sequence[Fixed], target: Target
) -> list[TileAddress] | None:
    """Places of which some start at other partitions than 0; None where that does not help."""
    seats = _seats(kernel, free, target)
    given = {f.life.tensor: (f.partition, f.offset) for f in fixed}
    while any(len(its) > 1 for its in seats.values()):
        found = stack(free, space.usable, fixed, [seats[life.tensor] for life in free])
        if found is None:
            return None
        places = {life.tensor: place for life, place in zip(free, found, strict=True)}
        together = _illegal(kernel, {**given, **places}, target)
        if together is None:
            return found
        for access in together[0].accesses():  # each alone could start there
            if access.tensor in seats:
                seats[access.tensor] = (0,)
    return None


def _seats(kernel: CoreProgram, free: Sequence[LiveRange], target: Target) -> dict[Tensor, tuple[int, ...]]:
    """The partitions at which each tensor can start, given every instruction that touches it.

    What the Tensor engine touches stays at 0, since rows and columns of the array follow from its partitions; so does
    what a run-time index moves or gives, and what a random generator fills, of which each partition has its own.
    """
    seats = {life.tensor: starts(life.tensor.shape[0]) for life in free}
    known: dict[tuple[Any, ...], bool] = {}
    for inst in kernel.instructions():
        movable = [a.tensor for a in inst.accesses() if len(seats.get(a.tensor, ())) > 1]
        movable += [a.tensor for a in inst.indexed_by() if a.tensor in seats]
        if not movable:
            continue
        fast = engine.tensor not in inst.engines and not inst.indexed_by() and not _has_state(inst)
        for tensor in movable:
            its = seats[tensor]
            seats[tensor] = tuple(
                p for p in its if p == 0 or (fast and _legal_at(inst, {tensor: (p, 0)}, target, known))
            )
    return seats


def _has_state(inst: Inst) -> bool:
    return any(a.buffer is Buffer.register and not is_register(a) for a in inst.accesses())


def _legal_at(
    inst: Inst, places: Mapping[Tensor, TileAddress], target: Target, known: dict[tuple[Any, ...], bool]
) -> bool:
    try:
        verify(_moved(inst, places), target, known)
    except NkiError:
        return False
    return True


def _moved(inst: Inst, places: Mapping[Tensor, TileAddress]) -> Inst:
    """``inst`` as if its tiles began at partition 0 and it saw them from their own first partition on."""
    changes: dict[int, Access] = {}
    for number, access in enumerate(inst.accesses()):
        made, dynamic = _shifted(access, places), access.dynamic
        if dynamic is not None:
            source = _shifted(dynamic.source, places)
            if source is not dynamic.source:
                moved = Dynamic(source, dynamic.step, dynamic.kind)
                made = Access(made.tensor, made.offset, made.shape, made.strides, made.dtype, moved)
        if made is not access:
            changes[number] = made
    return inst.with_operands(changes) if changes else inst


def _shifted(access: Access, places: Mapping[Tensor, TileAddress]) -> Access:
    partition = places.get(access.tensor, (0, 0))[0]
    if not partition:
        return access
    offset = access.offset + partition * access.partition_step
    return Access(access.tensor, offset, access.shape, access.strides, access.dtype, access.dynamic)


def _illegal(kernel: CoreProgram, places: Mapping[Tensor, TileAddress], target: Target) -> tuple[Inst, NkiError] | None:
    """The first instruction whose rules forbid the partitions at which its tiles start, and its error."""
    moved = {tensor: place for tensor, place in places.items() if place[0]}
    known: dict[tuple[Any, ...], bool] = {}
    for inst in kernel.instructions() if moved else ():
        if any(a.tensor in moved for a in touched(inst)) and not _has_state(inst):
            try:
                verify(_moved(inst, moved), target, known)
            except NkiError as error:
                return inst, error
    return None


def _wrong_starts(kernel: CoreProgram, places: Mapping[Tensor, TileAddress], target: Target) -> NkiError | None:
    found = _illegal(kernel, places, target)
    return None if found is None else found[1].at(found[0].where.span, found[0].where.stack)


def _check_places(core: CoreProgram, target: Target) -> None:
    living = live_ranges(core, target)
    for space in memory_spaces(target):
        for life in living[Buffer[space.name]]:
            place = core.placement.get(life.tensor)
            name, given = life.tensor.name, life.tensor.address
            assert place is not None, f"allocate left '{name}' without a place"
            assert place == given or (given is None and _inside(space, life, place)), f"'{name}' at {place}"
        assert _met(core, living[Buffer[space.name]], core.placement) is None, "allocate put two tiles in one place"
