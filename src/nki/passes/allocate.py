"""Stage ``allocate``: assign an address in SBUF or PSUM to every tensor on chip that an instruction accesses.

An address is (first partition, byte offset in the partition). An address that the user gave with ``address=`` is kept,
and so is one that a program in text form brings along. The other tensors start at partition 0, in bytes that no other
tensor uses in their live range (:mod:`nki.analysis.liveness`, :mod:`nki.passes.allocation.packing`). If there is no
room for that, tiles of at most 64 partitions are placed side by side, at start partitions that every instruction which
accesses them allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nki.analysis.liveness import LiveRange, interference, live_ranges
from nki.base import knobs
from nki.base.errors import MemoryFullError, NkiError, PlaceError
from nki.ir.instruction import Inst, Rule
from nki.ir.loop import is_scalar_register, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Dynamic, Tensor, TileAddress
from nki.ir.verifier import verify
from nki.isa.tables.enums import engine
from nki.passes import reordering
from nki.passes.allocation import memory_errors
from nki.passes.allocation.bank_rotation import rotated
from nki.passes.allocation.bank_sharing import with_shared_banks
from nki.passes.allocation.motion import moved
from nki.passes.allocation.overwrites import Overwrite, find_overwrite
from nki.passes.allocation.packing import Pinned, first_fit, pack, plan_of
from nki.passes.allocation.spilling import check_copies, spilled
from nki.passes.allocation.splitting import split
from nki.passes.operand_reuse import in_place
from nki.target.memory_spaces import MemorySpace, memory_spaces, start_partitions
from nki.target.model import Target

_FIX = "take the places out of the text; this stage finds them"


def _in_shared_banks(core: CoreProgram, target: Target) -> CoreProgram | None:
    """``core`` with shared banks of PSUM, and in an order in which those fit; None if there are none."""
    shared = with_shared_banks(core, target)
    return None if shared is None else moved(shared, target) or shared


_Change = Callable[[CoreProgram, Target], CoreProgram | None]
_CHANGES: Sequence[_Change] = (split, moved, _in_shared_banks)
"""Changes that need less memory, and cost less than spills: a tile for each value, a shorter way from a value to its
uses, and several small tiles in one bank of PSUM. None: it is no use."""


@dataclass(frozen=True)
class Allocate(CoreStage):
    """Stage ``allocate``. ``check_overlap``: refuse tiles placed by the user that overlap while both are live; an
    executor that looks at every byte (the simulator) is more exact than live ranges.
    """

    name: ClassVar[str] = "allocate"
    check_overlap: bool = True

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        """``core`` with an address for every tensor on chip.

        Where there is no room, the core changes step by step, until there is: :data:`_CHANGES`, then, where the program
        allows spills, results in the bytes of operands (:mod:`nki.passes.operand_reuse`), and spills
        (:mod:`nki.passes.allocation.spilling`). Raises :class:`MemoryFullError` if nothing is enough.
        """
        _check_placement(core)
        core, addresses = self._fitted(core, program, target)
        illegal = _first_illegal(core, addresses, target, program.release)
        if illegal is not None:
            inst, error = illegal
            raise error.at(inst.where.span, inst.where.stack)
        return core.with_placement(addresses)

    def _fitted(
        self, core: CoreProgram, program: Program, target: Target
    ) -> tuple[CoreProgram, dict[Tensor, TileAddress]]:
        """``core`` with as few of the changes as it takes to fit, and its addresses."""
        try:
            return core, self._addresses(core, program, target)
        except MemoryFullError as error:
            full = error
        for change in _CHANGES:
            changed = change(core, target)
            if changed is None:
                continue
            core = changed
            try:
                return core, self._addresses(core, program, target)
            except MemoryFullError as error:
                full = full if change is _in_shared_banks else error  # which lists tiles of the user
        if program.spills:
            return self._with_spills(core, program, target)
        raise full

    def _with_spills(
        self, core: CoreProgram, program: Program, target: Target
    ) -> tuple[CoreProgram, dict[Tensor, TileAddress]]:
        """``core`` with results in the bytes of operands, or with spills if that is not enough; and its addresses."""
        if (narrower := in_place(core)) is not core:
            try:
                return narrower, self._addresses(narrower, program, target)
            except MemoryFullError:
                pass  # spills keep the names of all tiles
        spills = spilled(core, target)
        if spills is not None:
            memory_errors.warn_of_spills(program.name, core, spills, target)
            core = next(reversed(spills.values())).core
        return core, self._addresses(core, program, target)

    def _addresses(self, core: CoreProgram, program: Program, target: Target) -> dict[Tensor, TileAddress]:
        addresses: dict[Tensor, TileAddress] = {}
        ranges = live_ranges(core, target)
        for space in memory_spaces(target):
            in_space = ranges[Buffer[space.name]]
            addresses.update(_allocate(program, core, space, in_space, target, self.check_overlap))
        return addresses

    def check(self, before: Program, after: Program, target: Target) -> None:
        """Every accessed tensor on chip has an address inside its memory, and no two live tensors overlap.

        Instructions that moved are the same; if tiles spill, there are other loads and copies.
        ``OPEN_NKI_CHECK_STAGES=1`` also checks that moved instructions keep the dependences of ``before``, and find the
        same values if they are in other tiles.
        """
        for old, new in zip(before.cores, after.cores, strict=True):
            _check_addresses(new, target, self.check_overlap)
            if new.body is not old.body:
                if after.spills and any(reordering.changed_instructions(old, new)):
                    check_copies(old, new)
                    continue
                reordering.check_same_instructions(old, new)
                reordering.check_edges(new)
                if not knobs.check_stages():
                    continue
                if new.tensors is old.tensors:
                    reordering.check_dependences(old, new)
                else:
                    reordering.check_flow(old, new)


def _allocate(
    program: Program,
    core: CoreProgram,
    space: MemorySpace,
    ranges: list[LiveRange],
    target: Target,
    check_overlap: bool,
) -> dict[Tensor, TileAddress]:
    """The addresses of the tensors of one memory, in the order in which their live ranges begin."""
    placement = core.placement
    tensors = [live.tensor for live in ranges]
    fixed = {t: address for t in tensors if (address := t.address or placement.get(t)) is not None}
    pinned = [Pinned(live, *fixed[live.tensor]) for live in ranges if live.tensor in fixed] if fixed else []
    _check_pinned(core, space, pinned, target, check_overlap)
    free = [live for live in ranges if live.tensor not in fixed] if fixed else ranges
    if not fixed:
        plan = plan_of(core, space, target)
    else:
        plan = pack(free, space.usable, pinned) if free else []
    if plan and space.name == "psum" and not pinned:
        offsets = rotated(free, space.align, space.usable // space.align)
        plan = plan if offsets is None else [(0, offset) for offset in offsets]
    if plan is None:
        plan = _allocate_side_by_side(core, space, free, pinned, target, program.release)
    if plan is None:
        raise memory_errors.out_of_memory(program.name, core, space, ranges, target)
    if not fixed:
        return dict(zip(tensors, plan, strict=True))
    addresses = {live.tensor: address for live, address in zip(free, plan, strict=True)}
    return {tensor: fixed.get(tensor) or addresses[tensor] for tensor in tensors}


def _check_placement(core: CoreProgram) -> None:
    """Raise unless the placement that the program brings along is one of tiles."""
    for tensor, address in core.placement.items():
        if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or (tensor.address or address) != address:
            raise PlaceError(
                f"'{tensor.name}' in {tensor.buffer.value} has place={address}; only tiles in sbuf and psum have one, "
                "which is their address if they have that",
                fix=_FIX,
            )


def _check_pinned(
    core: CoreProgram, space: MemorySpace, pinned: Sequence[Pinned], target: Target, check_overlap: bool
) -> None:
    """Raise unless pinned tensors lie inside the memory and no two live ones overlap.

    Without ``check_overlap``, tiles with an address of the user may overlap.
    """
    for pin in pinned:
        tensor = pin.live.tensor
        if tensor.address is None and not _is_inside(space, pin.live, (pin.partition, pin.offset), target):
            raise PlaceError(
                f"'{tensor.name}' has place={(pin.partition, pin.offset)}, which is none in {space.name} for "
                f"{tensor.shape[0]} partitions of {space.partitions} and {pin.live.size} bytes of {space.usable} at "
                f"a multiple of {pin.live.align}",
                fix=_FIX,
            )
    checked = [pin.live for pin in pinned if check_overlap or pin.live.tensor.address is None]
    conflict = _conflict(core, checked, {pin.live.tensor: (pin.partition, pin.offset) for pin in pinned})
    if isinstance(conflict, Overwrite):
        raise memory_errors.overwritten(core, space, checked, conflict)
    if conflict is not None:
        raise memory_errors.overlap(core, *conflict)


def _conflict(
    core: CoreProgram, ranges: Sequence[LiveRange], addresses: Mapping[Tensor, TileAddress]
) -> Overwrite | tuple[LiveRange, LiveRange] | None:
    """Two live tensors that overlap; of two that the user has placed, an overwrite of a live value."""
    if interference(ranges, addresses) is None:
        return None
    overwrite = find_overwrite(core, [live.tensor for live in ranges if live.tensor.address is not None])
    return overwrite or next(_interfering_pairs(ranges, addresses), None)


def _interfering_pairs(
    ranges: Sequence[LiveRange], addresses: Mapping[Tensor, TileAddress]
) -> Iterator[tuple[LiveRange, LiveRange]]:
    """Pairs that overlap in time and in bytes, the later second; without pairs that the user has placed."""
    rows = [(*addresses[live.tensor], live.tensor.shape[0], live.size, live.first, live.last) for live in ranges]
    partition, offset, count, size, first, last = np.array(rows, np.int64).T
    for i, live in enumerate(ranges):
        overlaps = (partition < partition[i] + count[i]) & (partition[i] < partition + count)
        overlaps &= (offset < offset[i] + size[i]) & (offset[i] < offset + size)
        overlaps &= (first <= last[i]) & (first[i] <= last)
        for j in np.flatnonzero(overlaps[:i]).tolist():
            if live.tensor.address is None or ranges[j].tensor.address is None:
                yield ranges[j], live


def _is_inside(space: MemorySpace, live: LiveRange, address: TileAddress, target: Target) -> bool:
    """True if this stage could assign ``address``: aligned, at a start partition, inside the memory."""
    partition, offset = address
    count = live.tensor.shape[0]
    aligned = offset % live.align == 0 and partition in start_partitions(target, count)
    return aligned and partition + count <= space.partitions and offset + live.size <= space.usable


def _allocate_side_by_side(
    core: CoreProgram,
    space: MemorySpace,
    free: Sequence[LiveRange],
    pinned: Sequence[Pinned],
    target: Target,
    release: str,
) -> list[TileAddress] | None:
    """Addresses at several start partitions; None where that does not help."""
    options = _start_partitions(core, free, target, release)
    fixed = {pin.live.tensor: (pin.partition, pin.offset) for pin in pinned}
    while any(len(partitions) > 1 for partitions in options.values()):
        plan = first_fit(free, space.usable, pinned, [options[live.tensor] for live in free])
        if plan is None:
            return None
        addresses = {live.tensor: address for live, address in zip(free, plan, strict=True)}
        illegal = _first_illegal(core, {**fixed, **addresses}, target, release)
        if illegal is None:
            return plan
        for access in illegal[0].accesses():  # each tile alone could start there, but not all of them together
            if access.tensor in options:
                options[access.tensor] = (0,)
    return None


def _start_partitions(
    core: CoreProgram, free: Sequence[LiveRange], target: Target, release: str
) -> dict[Tensor, tuple[int, ...]]:
    """The partitions at which each tensor can start under the rules of every instruction that accesses it.

    Three kinds of tensors stay at partition 0: operands of the Tensor engine, since rows and columns of the array
    follow from their partitions; tensors that a run-time index moves or that hold one; and those that a random
    generator fills, which has a state per partition.
    """
    options = {live.tensor: start_partitions(target, live.tensor.shape[0]) for live in free}
    verified: dict[object, Sequence[Rule]] = {}
    for inst in core.instructions():
        movable = [a.tensor for a in inst.accesses() if len(options.get(a.tensor, ())) > 1]
        movable += [a.tensor for a in inst.indexed_by() if a.tensor in options]
        if not movable:
            continue
        may_move = engine.tensor not in inst.engines and not inst.indexed_by() and not _has_state(inst)
        for tensor in movable:
            options[tensor] = tuple(
                p
                for p in options[tensor]
                if p == 0 or (may_move and _is_legal_at(inst, {tensor: (p, 0)}, target, verified, release))
            )
    return options


def _has_state(inst: Inst) -> bool:
    return any(a.buffer is Buffer.register and not is_scalar_register(a) for a in inst.accesses())


def _is_legal_at(
    inst: Inst,
    addresses: Mapping[Tensor, TileAddress],
    target: Target,
    verified: dict[object, Sequence[Rule]],
    release: str,
) -> bool:
    try:
        verify(_moved(inst, addresses), target, verified, release)
    except NkiError:
        return False
    return True


def _moved(inst: Inst, addresses: Mapping[Tensor, TileAddress]) -> Inst:
    """``inst`` with each access shifted by the first partition of its tile, as if all tiles began at partition 0."""
    changes: dict[int, Access] = {}
    for number, access in enumerate(inst.accesses()):
        shifted, dynamic = _shifted(access, addresses), access.dynamic
        if dynamic is not None:
            source = _shifted(dynamic.source, addresses)
            if source is not dynamic.source:
                moved = Dynamic(source, dynamic.step, dynamic.kind)
                shifted = Access(shifted.tensor, shifted.offset, shifted.shape, shifted.strides, shifted.dtype, moved)
        if shifted is not access:
            changes[number] = shifted
    return inst.with_operands(changes) if changes else inst


def _shifted(access: Access, addresses: Mapping[Tensor, TileAddress]) -> Access:
    partition = addresses.get(access.tensor, (0, 0))[0]
    if not partition:
        return access
    offset = access.offset + partition * access.partition_step
    return Access(access.tensor, offset, access.shape, access.strides, access.dtype, access.dynamic)


def _first_illegal(
    core: CoreProgram, addresses: Mapping[Tensor, TileAddress], target: Target, release: str
) -> tuple[Inst, NkiError] | None:
    """The first instruction with rules that forbid the start partitions of its tiles, and its error."""
    moved = {tensor: address for tensor, address in addresses.items() if address[0]}
    verified: dict[object, Sequence[Rule]] = {}
    for inst in core.instructions() if moved else ():
        if any(a.tensor in moved for a in touched(inst)) and not _has_state(inst):
            try:
                verify(_moved(inst, moved), target, verified, release)
            except NkiError as error:
                return inst, error
    return None


def _check_addresses(core: CoreProgram, target: Target, apart: bool) -> None:
    ranges = live_ranges(core, target)
    placement = core.placement
    for space in memory_spaces(target):
        in_space = ranges[Buffer[space.name]]
        legal: set[object] = set()
        for live in in_space:
            tensor = live.tensor
            address, fixed = placement.get(tensor), tensor.address
            if address is None:
                raise AssertionError(f"allocate left '{tensor.name}' without a place")
            key = (address, fixed, live.size, live.align, tensor.shape[0])
            if key not in legal:
                if address != fixed and (fixed is not None or not _is_inside(space, live, address, target)):
                    raise AssertionError(f"'{tensor.name}' at {address}")
                legal.add(key)
        if apart and _conflict(core, in_space, core.placement) is not None:
            raise AssertionError("allocate put two tiles in one place")
