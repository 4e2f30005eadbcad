"""Rewriting the body of a core by positions, and what every stage that does so promises."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nki.analysis.uses import Use, with_effect
from nki.base import knobs
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import LOOPS, Statement
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.stage import CoreStage
from nki.ir.types import Access, AccessForm, Tensor
from nki.ir.windows import Parts, in_parts, in_tensor
from nki.isa.tables.enums import engine
from nki.target.model import Target

_DMA: Final = (engine.dma,)
Body = tuple[Statement, ...]
Edit = tuple[int, int, Sequence[Statement]]
"""The positions of the first statement that is replaced and of the one behind the last, and what comes there."""


class RewritingStage(CoreStage):
    """A stage that lets instructions use other tensors, leaves instructions out, and adds copies."""

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Whatever is read or returned, something writes as before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        for old, core in zip(before.cores, after.cores, strict=True) if knobs.check_stages() else ():
            written = {access.tensor for inst in core.instructions() for access in inst.writes()}
            used = {access.tensor for inst in core.instructions() for access in inst.reads()}
            written_before = {access.tensor for inst in old.instructions() for access in inst.writes()}
            read_before = {access.tensor for inst in old.instructions() for access in inst.reads()}
            used |= written_before.intersection((*after.outputs, *after.shared()))
            lost = [tensor.name for tensor in used - written - (read_before - written_before)]
            assert not lost, f"stage {self.name} left {lost} unwritten"


class Rewriter:
    """The body of a core while it is rewritten: positions count the original statements."""

    def __init__(self, body: Sequence[Statement]) -> None:
        self.body: list[Statement | None] = list(body)
        """The statements so far; None stands for one that is left out."""
        self._before: dict[int, list[Inst]] = {}

    def inst(self, position: int) -> Inst:
        """The instruction at ``position``."""
        inst = self.body[position]
        assert isinstance(inst, Inst)
        return inst

    def replace(self, uses: Iterable[Use]) -> bool:
        """Let these ``uses`` take the place of others; False, and no change, if an instruction cannot address one."""
        operands: dict[int, dict[int, Access]] = {}
        for position, number, access in uses:
            operands.setdefault(position, {})[number] = access
        changed: dict[int, Inst] = {}
        for position, of_inst in operands.items():
            old = self.inst(position)
            inst = changed[position] = old.with_operands(of_inst)
            if inst.form is not old.form and not inst.has_supported_layout():
                return False
        for position, inst in changed.items():
            self.body[position] = inst
        return True

    def put(self, position: int, inst: Inst | None) -> None:
        """Replace a statement; None: leave it out."""
        self.body[position] = inst

    def insert(self, position: int, inst: Inst) -> None:
        """Let ``inst`` come before the statement at ``position``, behind what was inserted there."""
        self._before.setdefault(position, []).append(inst)

    def statements(self) -> list[Statement]:
        """The statements that are left, with those that were inserted."""
        if not self._before:
            return [statement for statement in self.body if statement is not None]
        before, nothing = self._before, list[Inst]()
        in_order = ((*before.get(position, nothing), statement) for position, statement in enumerate(self.body))
        return [statement for several in in_order for statement in several if statement is not None]


class EditingStage(CoreStage):
    """A stage that replaces neighbours, in the body of a core and in the bodies of its loops."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with the edits of all bodies."""
        body = _edited_with_loops(core.body, lambda body: self.edits(body, core, program))
        return core if body is core.body else core.with_body(body)

    @abstractmethod
    def edits(self, body: Body, core: CoreProgram, program: Program) -> Sequence[Edit]:
        """The edits of ``body``, which is of ``core`` or of a loop in it, in order."""


def _edited_with_loops(body: Body, edits: Callable[[Body], Sequence[Edit]]) -> Body:
    if not LOOPS.isdisjoint(map(type, body)):
        loops = [(n, s, _edited_with_loops(s.body, edits)) for n, s in enumerate(body) if not isinstance(s, Inst)]
        body = edited(body, [(n, n + 1, [replace(s, body=new)]) for n, s, new in loops if new is not s.body])
    return edited(body, edits(body))


def edited(body: Body, edits: Sequence[Edit]) -> Body:
    """``body`` after ``edits``, which are in order; the same object if there are none."""
    if not edits:
        return body
    result: list[Statement] = []
    copied = 0
    for start, stop, statements in edits:
        result += body[copied:start]
        result += statements
        copied = stop
    return (*result, *body[copied:])


def never_written(core: CoreProgram, signature: Signature) -> set[Tensor]:
    """The tensors of ``core`` that are never written: inputs that are no outputs, and constants."""
    return {*signature.inputs, *core.constants()}.difference(signature.outputs)


def seen_by_others(program: Program) -> set[Tensor]:
    """The tensors that others than one core read or write: inputs, outputs, and those that cores share."""
    return {*program.inputs, *program.outputs, *program.shared()}


def in_other(uses: Iterable[Use], tensor: Tensor) -> Iterator[Use]:
    """``uses`` of tensors of the same shape as uses of ``tensor``; equal windows are one object."""
    windows: dict[tuple[int, AccessForm], Access] = {}
    for position, number, access in uses:
        place = access.offset, access.form
        window = windows.get(place)
        if window is None:
            window = windows[place] = in_tensor(access, tensor)
        yield position, number, window


def in_place_of(uses: Sequence[Use], parts: Parts) -> list[Use]:
    """``uses`` of a tile as uses of its ``parts``; none if one of them is in no part."""
    moved = [(n, number, part) for n, number, access in uses if (part := in_parts(access, parts)) is not None]
    return moved if len(moved) == len(uses) else []


def is_plain(inst: Inst) -> bool:
    """True if ``inst`` has no run-time index, and the user asked for no order of it."""
    return not (inst.label or inst.ordered_after or (inst.form).has_runtime_index)


def plain_copy(inst: Inst) -> Copy | None:
    """The copy that ``inst`` is, if that is a plain one by DMA."""
    copy = inst.effects.copy
    return copy(inst) if copy is not None and inst.engines == _DMA and is_plain(inst) else None


def plain_copies(body: Sequence[Statement]) -> dict[int, Copy]:
    """The plain copies by DMA in ``body``, by position, without those in loops."""
    copying = with_effect(body, lambda effects: effects.copy is not None)
    return {position: copy for position, inst in copying if (copy := plain_copy(inst)) is not None}
