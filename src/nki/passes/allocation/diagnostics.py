"""What users read when their tensors do not fit, or when two of their addresses meet."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from nki.analysis.liveness import LiveRange, peak_pressure
from nki.base.errors import AddressOverlapError, MemoryFullError, NkiError, PlaceError
from nki.base.source import Span
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Tensor, TileAddress
from nki.passes.allocation.overwrites import Loss
from nki.target.memory_spaces import MemorySpace
from nki.target.model import Target

_SHOWN = 8
"""Tensors that an error lists; the others are counted."""


def full(name: str, kernel: CoreProgram, space: MemorySpace, living: Sequence[LiveRange], target: Target) -> NkiError:
    """The error for a memory that is too small: what is in use at the moment when most is, and what would help."""
    need, moment = peak_pressure(living)
    inst = instruction(kernel, moment)
    span = inst.where.span
    using = sorted((life for life in living if life.first <= moment <= life.last), key=lambda life: -life.size)
    lines = [_line(life, kernel, space, span) for life in using[:_SHOWN]]
    if len(using) > _SHOWN:
        rest = sum(life.size for life in using[_SHOWN:])
        lines.append(f"and {len(using) - _SHOWN} more, {_amount(rest, space)}")
    memory = f"{space.name} of {target.name}, which has {_amount(space.usable, space)} per partition"
    those = "1 tensor" if len(using) == 1 else f"{len(using)} tensors"
    what = f"{those} in use at one moment, at {inst.mnemonic}{_at(span)}, take {_amount(need, space)}"
    if need <= space.usable:
        what += ", but no arrangement of all tensors was found that lets each keep its place while it is in use"
    message = f"{name} does not fit into {memory}: {what}\n" + "\n".join("    " + line for line in lines)
    fix = _remedy(kernel, space, using, need, moment)
    return MemoryFullError(message, fix=fix).at(span, inst.where.stack)


def overlap(kernel: CoreProgram, one: LiveRange, two: LiveRange) -> NkiError:
    """The error for two tensors that a text places on the same bytes while both are in use; ``two`` begins later."""
    inst = instruction(kernel, two.first)
    return PlaceError(
        f"'{one.tensor.name}' and '{two.tensor.name}' have places in {one.tensor.buffer.value} that overlap while both "
        "are in use",
        fix="take the places out of the text; stage allocate finds them",
    ).at(inst.where.span, inst.where.stack)


def lost(kernel: CoreProgram, space: MemorySpace, living: Sequence[LiveRange], found: Loss) -> NkiError:
    """The error for a tile that loses what is still read of it, because another one was placed on the same bytes."""
    victim, over, writer, reader = found.victim, found.over, found.writer, found.reader
    near = writer.where.span
    (top, left), (bottom, right) = _shared(victim, over)
    line = f" in {_place(reader.where.span, near)}" if reader.where.span is not None else ""
    needs = "it reads at the same time" if reader is writer else f"{reader.mnemonic}{line} still reads"
    lines = [_placed(next(one for one in living if one.tensor is t), kernel, space, near) for t in (victim, over)]
    return AddressOverlapError(
        f"{writer.mnemonic} writes '{over.name}' over bytes of '{victim.name}' that {needs}: both were placed on bytes "
        f"{left} to {right} of partitions {top} to {bottom} of {space.name}\n"
        + "\n".join("    " + line for line in lines),
        fix=f"place them apart, use '{victim.name}' up before, or leave address out of both",
    ).at(near, writer.where.stack)


def _shared(one: Tensor, two: Tensor) -> tuple[TileAddress, TileAddress]:
    """The first and the last partition and byte on which both lie."""
    assert one.address is not None and two.address is not None, "both were placed"
    ends = [(t.shape[0], t.bytes_per_partition) for t in (one, two)]
    (p, b), (q, c) = one.address, two.address
    last = (min(p + ends[0][0], q + ends[1][0]) - 1, min(b + ends[0][1], c + ends[1][1]) - 1)
    return (max(p, q), max(b, c)), last


def instruction(kernel: CoreProgram, moment: int) -> Inst:
    """The instruction of that number, in the order of :meth:`CoreProgram.instructions`."""
    return next(itertools.islice(kernel.instructions(), moment, None))


def _at(span: Span | None) -> str:
    return "" if span is None else f" (line {span.line})"


def _amount(size: int, space: MemorySpace) -> str:
    if space.name == "psum":
        return _banks(size // space.align)
    return f"{size} bytes"


def _banks(count: int) -> str:
    return f"{count} bank" + "s" * (count != 1)


def _line(life: LiveRange, kernel: CoreProgram, space: MemorySpace, near: Span | None) -> str:
    tensor = life.tensor
    return f"'{tensor.name}' {tensor.shape} {tensor.dtype}: {_amount(life.size, space)}{_history(life, kernel, near)}"


def _placed(life: LiveRange, kernel: CoreProgram, space: MemorySpace, near: Span | None) -> str:
    return f"{_line(life, kernel, space, near)}, address={life.tensor.address}"


def _history(life: LiveRange, kernel: CoreProgram, near: Span | None) -> str:
    """Where the tensor was made and is in use, as far as that is known."""
    first, last = (instruction(kernel, moment).where.span for moment in (life.first, life.last))
    made = f", made at {_place(life.tensor.span, near)}" if life.tensor.span is not None else ""
    if first is None or last is None:
        return made
    return f"{made}, in use from {_place(first, near)} to {_place(last, near)}"


def _place(span: Span, near: Span | None) -> str:
    """The line of ``span``, with the name of its file unless that is the one where the error is."""
    if near is not None and span.file == near.file:
        return f"line {span.line}"
    return f"{Path(span.file).name}:{span.line}"


def _remedy(kernel: CoreProgram, space: MemorySpace, using: Sequence[LiveRange], need: int, moment: int) -> str:
    """What would make it fit, with names and numbers."""
    addressed = [life.tensor.name for life in using if life.tensor.address is not None]
    if need <= space.usable:
        first = f"leave address out of '{addressed[0]}'; or " if addressed else ""
        return f"{first}make '{using[0].tensor.name}' smaller, or use it up earlier (docs/memory.md)"
    excess = need - space.usable
    parts = [_idle(kernel, space, using, moment, excess), _smaller(space, using, excess)]
    return "; or ".join(part for part in parts if part) + " (docs/memory.md)"


def _smaller(space: MemorySpace, using: Sequence[LiveRange], excess: int) -> str:
    """How far the largest tile would have to shrink, or how many of the largest would have to be halved."""
    largest = using[0]
    if largest.size > excess:
        room = largest.size - excess
        elements = room // largest.tensor.dtype.itemsize
        return f"make '{largest.tensor.name}' at most {elements} elements of {largest.tensor.dtype} per partition"
    if space.name == "psum":
        return f"use tiles one after the other, with {_banks(excess // space.align)} fewer at once"
    halves = itertools.accumulate(life.size // 2 for life in using)
    count = next((n for n, saved in enumerate(halves, 1) if saved >= excess), 0)
    if count:
        return f"work in smaller tiles: with the {count} largest half as long it fits"
    return f"work in smaller tiles: together they must take {excess} bytes less"


def _idle(kernel: CoreProgram, space: MemorySpace, using: Sequence[LiveRange], moment: int, excess: int) -> str:
    """The smallest tensor that is large enough and that nothing touches at this moment, between two others."""
    waiting = {life.tensor: life for life in using if life.size >= excess and life.first < moment < life.last}
    before: dict[Tensor, Inst] = {}
    after: dict[Tensor, Inst] = {}
    for number, inst in enumerate(kernel.instructions()):
        for access in (*inst.accesses(), *inst.indexed_by()):
            tensor = access.tensor
            if tensor not in waiting:
                continue
            if number == moment:
                del waiting[tensor]
            elif number < moment:
                before[tensor] = inst
            else:
                after.setdefault(tensor, inst)
    for life in reversed(using):
        tensor = life.tensor
        if tensor not in waiting or tensor not in before or tensor not in after:
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
