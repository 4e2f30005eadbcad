"""Out-of-memory and address-overlap diagnostics."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from nki.analysis.liveness import LiveRange, live_ranges, peak_pressure
from nki.analysis.tile_areas import TileArea
from nki.base.errors import AddressOverlapError, MemoryFullError, NkiError, PlaceError
from nki.base.source import Span
from nki.base.warning import NkiSpillWarning, warn_at
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Tensor
from nki.passes.allocation.overwrites import Overwrite
from nki.passes.allocation.spilling import Spill
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

_MAX_NAMED = 3
"""Tiles that the warning of spills names; the others are counted."""
_MAX_LISTED = 8
"""Tensors that an error lists; the others are counted."""


def out_of_memory(
    name: str, core: CoreProgram, space: MemorySpace, ranges: Sequence[LiveRange], target: Target
) -> NkiError:
    """The error for a memory that is too small: the tensors that are live at peak pressure, and remedies.

    ``name`` is the kernel's.
    """
    need, point = peak_pressure(ranges)
    inst = instruction_at(core, point)
    span = inst.where.span
    live = sorted((one for one in ranges if one.first <= point <= one.last), key=lambda one: -one.size)
    lines = [_line(one, core, space, span) for one in live[:_MAX_LISTED]]
    if len(live) > _MAX_LISTED:
        rest = sum(one.size for one in live[_MAX_LISTED:])
        lines.append(f"and {len(live) - _MAX_LISTED} more, {_amount(rest, space)}")
    memory = f"{space.name} of {target.name}, which has {_amount(space.usable, space)} per partition"
    tensors = "1 tensor" if len(live) == 1 else f"{len(live)} tensors"
    what = f"{tensors} in use at one moment, at {inst.mnemonic}{_at(span)}, take {_amount(need, space)}"
    if need <= space.usable:
        what += ", but no arrangement of all tensors was found that lets each keep its place while it is in use"
    message = f"{name} does not fit into {memory}: {what}\n" + "\n".join("    " + line for line in lines)
    fix = _remedies(core, space, live, need, point)
    return MemoryFullError(message, fix=fix).at(span, inst.where.stack)


def warn_of_spills(name: str, core: CoreProgram, spills: Mapping[str, Spill], target: Target) -> None:
    """Warn, for each memory, that tiles of ``core`` wait elsewhere: which, why, and the bytes that this moves."""
    ranges = live_ranges(core, target)
    for space in memory_spaces(target):
        spill = spills.get(space.name)
        if spill is None:
            continue
        live = ranges[Buffer[space.name]]
        need, point = peak_pressure(live)
        inst = instruction_at(core, point)
        names = [f"'{tile.name}'" for tile in spill.tiles[:_MAX_NAMED]]
        if len(spill.tiles) > _MAX_NAMED:
            names.append(f"{len(spill.tiles) - _MAX_NAMED} more")
        away = "HBM" if space.name == "sbuf" else "SBUF"
        what = f"{', '.join(names)} in {away} meanwhile" if names else "no tile elsewhere but loads what it needs later"
        at_peak = sorted((one for one in live if one.first <= point <= one.last), key=lambda one: -one.size)
        warn_at(
            inst.where.span or Span(f"<{name}>", 1),
            f"{space.name} of {target.name} has {_amount(space.usable, space)} per partition, and the tiles in use at "
            f"{inst.mnemonic} take {_amount(need, space)}: the compiler keeps {what} ({spill.stored} bytes stored, "
            f"{spill.reloaded} loaded again). To avoid that: {_remedies(core, space, at_peak, need, point)}",
            NkiSpillWarning,
        )


def overlap(core: CoreProgram, one: LiveRange, two: LiveRange) -> NkiError:
    """The error for two tensors that a text places on the same bytes while both are live; ``two`` begins later."""
    inst = instruction_at(core, two.first)
    return PlaceError(
        f"'{one.tensor.name}' and '{two.tensor.name}' have places in {one.tensor.buffer.value} that overlap while both "
        "are in use",
        fix="take the places out of the text; stage allocate finds them",
    ).at(inst.where.span, inst.where.stack)


def overwritten(core: CoreProgram, space: MemorySpace, ranges: Sequence[LiveRange], overwrite: Overwrite) -> NkiError:
    """The error for a write to a placed tile that overwrites bytes of another one which are still read."""
    victim, over, writer, reader = overwrite.victim, overwrite.over, overwrite.writer, overwrite.reader
    near = writer.where.span
    one, two = TileArea.of(victim), TileArea.of(over)
    top, left = max(one.partitions.start, two.partitions.start), max(one.byte_range.start, two.byte_range.start)
    bottom, right = min(one.partitions.stop, two.partitions.stop), min(one.byte_range.stop, two.byte_range.stop)
    line = f" in {_location(reader.where.span, near)}" if reader.where.span is not None else ""
    needs = "it reads at the same time" if reader is writer else f"{reader.mnemonic}{line} still reads"
    lines = [
        _line_with_address(next(live for live in ranges if live.tensor is t), core, space, near) for t in (victim, over)
    ]
    return AddressOverlapError(
        f"{writer.mnemonic} writes '{over.name}' over bytes of '{victim.name}' that {needs}: both were placed on bytes "
        f"{left} to {right - 1} of partitions {top} to {bottom - 1} of {space.name}\n"
        + "\n".join("    " + line for line in lines),
        fix=f"place them apart, use '{victim.name}' up before, or leave address out of both",
    ).at(near, writer.where.stack)


def instruction_at(core: CoreProgram, point: int) -> Inst:
    """The instruction at a program point, its number in the order of :meth:`CoreProgram.instructions`."""
    return core.numbered[point]


def _at(span: Span | None) -> str:
    return "" if span is None else f" (line {span.line})"


def _amount(size: int, space: MemorySpace) -> str:
    if space.name == "psum":
        return _banks(size // space.align)
    return f"{size} bytes"


def _banks(count: int) -> str:
    return f"{count} bank" + "s" * (count != 1)


def _line(live: LiveRange, core: CoreProgram, space: MemorySpace, near: Span | None) -> str:
    """One tensor of a list: its type, its size, and where it is live."""
    tensor = live.tensor
    return f"'{tensor.name}' {tensor.shape} {tensor.dtype}: {_amount(live.size, space)}{_history(live, core, near)}"


def _line_with_address(live: LiveRange, core: CoreProgram, space: MemorySpace, near: Span | None) -> str:
    return f"{_line(live, core, space, near)}, address={live.tensor.address}"


def _history(live: LiveRange, core: CoreProgram, near: Span | None) -> str:
    """The lines that make the tensor and between which it is live, where they are known."""
    first, last = (instruction_at(core, point).where.span for point in (live.first, live.last))
    made = f", made at {_location(live.tensor.span, near)}" if live.tensor.span is not None else ""
    if first is None or last is None:
        return made
    return f"{made}, in use from {_location(first, near)} to {_location(last, near)}"


def _location(span: Span, near: Span | None) -> str:
    """The line of ``span``, with the name of its file unless that is the file of the error."""
    if near is not None and span.file == near.file:
        return f"line {span.line}"
    return f"{Path(span.file).name}:{span.line}"


def _remedies(core: CoreProgram, space: MemorySpace, live: Sequence[LiveRange], need: int, point: int) -> str:
    """Changes that would make the ``live`` tensors fit, with names and numbers."""
    addressed = [one.tensor.name for one in live if one.tensor.address is not None]
    if need <= space.usable:
        first = f"leave address out of '{addressed[0]}'; or " if addressed else ""
        return f"{first}make '{live[0].tensor.name}' smaller, or use it up earlier (docs/memory.md)"
    excess = need - space.usable
    parts = [_spill_remedy(core, space, live, point, excess), _shrink_remedy(space, live, excess)]
    return "; or ".join(part for part in parts if part) + " (docs/memory.md)"


def _shrink_remedy(space: MemorySpace, live: Sequence[LiveRange], excess: int) -> str:
    """The size to which the largest tile would have to shrink, or the number of largest tiles to halve."""
    largest = live[0]
    if largest.size > excess:
        room = largest.size - excess
        elements = room // largest.tensor.dtype.itemsize
        return f"make '{largest.tensor.name}' at most {elements} elements of {largest.tensor.dtype} per partition"
    if space.name == "psum":
        return f"use tiles one after the other, with {_banks(excess // space.align)} fewer at once"
    halves = itertools.accumulate(one.size // 2 for one in live)
    count = next((n for n, saved in enumerate(halves, 1) if saved >= excess), 0)
    if count:
        return f"work in smaller tiles: with the {count} largest half as long it fits"
    return f"work in smaller tiles: together they must take {excess} bytes less"


def _spill_remedy(core: CoreProgram, space: MemorySpace, live: Sequence[LiveRange], point: int, excess: int) -> str:
    """The smallest tensor that is large enough and idle at ``point``, between two uses; "" if there is none."""
    idle = {one.tensor: one for one in live if one.size >= excess and one.first < point < one.last}
    before: dict[Tensor, Inst] = {}
    after: dict[Tensor, Inst] = {}
    for number, inst in enumerate(core.instructions()):
        for access in (*inst.accesses(), *inst.indexed_by()):
            tensor = access.tensor
            if tensor not in idle:
                continue
            if number == point:
                del idle[tensor]
            elif number < point:
                before[tensor] = inst
            else:
                after.setdefault(tensor, inst)
    for one in reversed(live):
        tensor = one.tensor
        if tensor not in idle or tensor not in before or tensor not in after:
            continue
        last, again = before[tensor].where.span, after[tensor].where.span
        if last is None or again is None:
            continue
        if space.name == "psum":
            return f"copy '{tensor.name}' to SBUF with nisa.tensor_copy after line {last.line} and go on with the copy"
        return (
            f"'{tensor.name}' waits from line {last.line} to line {again.line}: load or compute it after this "
            "instruction, or keep it in HBM meanwhile"
        )
    return ""
