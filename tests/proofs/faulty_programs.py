"""Faults that a stage may have: its program with one mistake in what the stage has made or moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from nki.backend.cpu.fusion.epilogue import MatmulWithEpilogue
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.kernel_ir.lower import Composite
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from tests.support.interleaved_run import waits, without

Fault = Callable[[Program, Program], Iterator[Program]]
"""From the programs before and behind a stage, programs with one fault each."""


def with_body(program: Program, rank: int, body: list[object]) -> Program:
    """``program`` with another body of one core."""
    cores = [replace(core, body=tuple(body)) if core.rank == rank else core for core in program.cores]
    return program.with_cores(cores)


def made(before: Program, after: Program) -> Iterator[tuple[CoreProgram, int, Inst]]:
    """The instructions outside of loops that the stage has made, with their cores and positions."""
    known = {inst.identity() for inst in before.instructions()}
    for core in after.cores:
        for number, inst in enumerate(core.body):
            if isinstance(inst, Inst) and inst.identity() not in known:
                yield core, number, inst


def needs(one: object, two: object) -> bool:
    """True if ``two`` reads all that ``one`` writes."""
    if not (isinstance(one, Inst) and isinstance(two, Inst)):
        return False
    return any(access.same_place(read) for access in one.writes() for read in two.reads())


def dropped(before: Program, after: Program) -> Iterator[Program]:
    """Something that the stage has made is missing."""
    for core, number, _ in made(before, after):
        yield with_body(after, core.rank, [*core.body[:number], *core.body[number + 1 :]])


def elsewhere(before: Program, after: Program) -> Iterator[Program]:
    """Something that the stage has made reads or writes next to where it should."""
    for core, number, inst in made(before, after):
        for changed in _moved(inst, core) if inst.as_barrier() is None else ():
            yield with_body(after, core.rank, [*core.body[:number], changed, *core.body[number + 1 :]])


def _moved(inst: Inst, core: CoreProgram) -> Iterator[Inst]:
    """``inst`` with one operand elsewhere."""
    if isinstance(inst, FusionGroup):
        for number, window in enumerate(inst.windows):
            if number not in in_registers(inst) and (other := _beside(window, core)) is not None:
                windows = [*inst.windows[:number], other, *inst.windows[number + 1 :]]
                yield FusionGroup(inst.state, inst.parts, windows, in_registers(inst))
    elif isinstance(inst, MatmulWithEpilogue):
        matmul, consumer = inst.parts
        yield from (MatmulWithEpilogue(other, consumer, inst.result) for other in _moved(matmul, core))
    else:
        for operand, access in enumerate(inst.accesses()):
            if (other := _beside(access, core)) is not None:
                yield inst.with_operands({operand: other})


def in_registers(group: FusionGroup) -> tuple[int, ...]:
    """The windows of ``group`` that have no memory."""
    stored = {id(access) for access in group.accesses()}
    return tuple(number for number, window in enumerate(group.windows) if id(window) not in stored)


def unstored(before: Program, after: Program) -> Iterator[Program]:
    """What is read later stays in a register."""
    for core, number, inst in made(before, after):
        if isinstance(inst, FusionGroup):
            dead = in_registers(inst)
            for window in inst.removable():
                if window not in dead:
                    less = FusionGroup(inst.state, inst.parts, inst.windows, (*dead, window))
                    yield with_body(after, core.rank, [*core.body[:number], less, *core.body[number + 1 :]])


def miscounted(before: Program, after: Program) -> Iterator[Program]:
    """Something that the stage has made has another number in it."""
    for core, number, inst in made(before, after):
        for name in inst.immediate_names if not isinstance(inst, Composite) else ():
            value = inst.__dict__[name]
            if isinstance(value, float):
                other = inst.replace(**{name: value + 1})
                yield with_body(after, core.rank, [*core.body[:number], other, *core.body[number + 1 :]])


def _beside(access: Access, core: CoreProgram) -> Access | None:
    """Other elements of the tensor, or the same ones of another tensor of this kind; None if there are none."""
    tensor = access.tensor
    last = access.offset + sum(step * (count - 1) for step, count in access.pattern())
    for step in (1, tensor.free_size, -1, -tensor.free_size):
        low, high = sorted((access.offset + step, last + step))
        if low >= 0 and high < tensor.elements and _is_in_rows(access, step) and access.dynamic is None:
            return Access(tensor, access.offset + step, access.shape, access.strides, access.dtype)
    for other in core.tensors:
        is_apart = core.placement.get(other) != core.placement.get(tensor) or not core.placement
        if _is_like(other, tensor) and is_apart and access.dynamic is None:
            return Access(other, access.offset, access.shape, access.strides, access.dtype)
    return None


def _is_in_rows(access: Access, step: int) -> bool:
    """True if the elements stay in their partitions, and a layout has steps for them there."""
    tensor, first = access.tensor, access.offset + step
    if tensor.layout.steps(tensor.shape[0], tensor.free_size, first, access.pattern()) is None:
        return False
    return abs(step) > 1 or first // tensor.free_size == access.offset // tensor.free_size


def _is_like(one: Tensor, other: Tensor) -> bool:
    alike = (one.shape, one.dtype, one.buffer, one.layout) == (other.shape, other.dtype, other.buffer, other.layout)
    return alike and one is not other and one.role == other.role


def too_early(before: Program, after: Program) -> Iterator[Program]:
    """Something that the stage has made or moved runs before what it needs."""
    old = [inst.identity() for inst in before.instructions()]
    for core in after.cores:
        body = core.body
        for number in range(1, len(body)):
            inst = body[number]
            if needs(body[number - 1], inst) and isinstance(inst, Inst):
                moved = number >= len(old) or old[number] != inst.identity()
                if moved:
                    yield with_body(
                        after, core.rank, [*body[: number - 1], inst, body[number - 1], *body[number + 1 :]]
                    )


def overlapping(before: Program, after: Program) -> Iterator[Program]:
    """A tile lies where another one lies that is written before it and read behind it."""
    del before
    for core in after.cores:
        for number, inst in enumerate(core.body):
            if not isinstance(inst, Inst):
                continue
            written = {a.tensor for each in core.body[:number] if isinstance(each, Inst) for a in each.writes()}
            read = {a.tensor for each in core.body[number + 1 :] if isinstance(each, Inst) for a in each.reads()}
            for tile in {access.tensor: None for access in inst.writes()}:
                alive = [t for t in core.placement if t in written & read and t.buffer is tile.buffer and t is not tile]
                if tile in core.placement and tile in read and tile not in written and alive:
                    places = {**core.placement, tile: core.placement[alive[0]]}
                    yield after.with_cores(c.with_placement(places) if c is core else c for c in after.cores)


def added_or_not(before: Program, after: Program) -> Iterator[Program]:
    """A product overwrites instead of adding, or adds instead of overwriting."""
    for core, number, inst in made(before, after):
        if inst.effects.accumulation is not None and not isinstance(inst, Composite):
            other = inst.with_accumulation(not inst.accumulates)
            yield with_body(after, core.rank, [*core.body[:number], other, *core.body[number + 1 :]])


def unawaited(before: Program, after: Program) -> Iterator[Program]:
    """A wait is missing."""
    del before
    for inst, wait in waits(after):
        yield without(after, inst, wait)


def not_met(before: Program, after: Program) -> Iterator[Program]:
    """Cores do not wait for each other."""
    first = after.cores[0]
    for number, inst in enumerate(first.body):
        if isinstance(inst, Inst) and inst.as_barrier() is not None and inst.identity() not in {
            each.identity() for each in before.instructions()
        }:  # fmt: skip
            yield after.with_cores(
                core.with_body([*core.body[:number], *core.body[number + 1 :]]) for core in after.cores
            )
