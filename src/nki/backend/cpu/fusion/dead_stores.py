"""Dead-store elimination: what nothing reads later is not written.

A window needs no memory if only one fusion group touches its contents: it stays in registers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from nki.analysis.uses import StatementUses, fills
from nki.backend.cpu.fusion.group import FusionGroup, GroupBuilder
from nki.backend.cpu.fusion.parts import size_of, sums_what_it_writes
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Buffer, Tensor
from nki.target.model import Target
from nki.transforms.rewriter import Body, Edit, RewritingStage, edited, seen_by_others


@dataclass(frozen=True)
class EliminateDeadStores(RewritingStage):
    """Leave out what is written and never read."""

    name: ClassVar[str] = "dead_stores"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without stores that nothing reads."""
        body = _Elimination(core.body, seen_by_others(program)).run()
        return core if body is core.body else core.with_body(body)


class _Elimination:
    """The elimination in the body of a core, or of a loop. Others than this body use the tensors in ``seen``."""

    def __init__(self, body: Body, seen: Collection[Tensor], is_loop: bool = False) -> None:
        self._body, self._seen, self._is_loop = body, seen, is_loop
        self._has_groups = FusionGroup in set(map(type, body))

    def run(self) -> Body:
        """The body without dead stores; the same object if it has none."""
        edits: list[Edit] = []
        for position, statement in enumerate(self._body):
            new = self._live(statement, position)
            if new is not statement:
                edits.append((position, position + 1, [] if new is None else [new]))
        return edited(self._body, edits)

    def _live(self, statement: Statement, position: int) -> Statement | None:
        """The part of ``statement`` that is wanted; None if nothing is."""
        if not isinstance(statement, Inst):
            return self._of_loop(statement, position)
        if isinstance(statement, FusionGroup):
            return self._of_group(statement, position)
        if self._has_groups and size_of(statement) is not None:
            (target,) = statement.writes()
            return None if self._is_dead(target.tensor, position) else statement
        return self._alone(statement, position) if len(statement.write_names) > 1 else statement

    def _of_loop(self, loop: Loop, position: int) -> Loop:
        uses = self._uses
        own = {access.tensor for access in (loop.register, *loop.reads())}
        used = {*uses.readers, *uses.writers}
        around = {tensor for tensor in used if not uses.first(tensor) == uses.last(tensor) == position}
        body = _Elimination(loop.body, {*self._seen, *own, *around}, is_loop=True).run()
        return loop if body is loop.body else replace(loop, body=body)

    def _of_group(self, group: FusionGroup, position: int) -> FusionGroup | None:
        """``group`` with dead windows in registers; None if nothing of it is wanted."""
        dead = tuple([n for n in group.removable() if self._is_dead(group.windows[n].tensor, position)])
        if not dead:
            return group
        new = FusionGroup(group.state, group.parts, group.windows, dead)
        return new if new.written or new.changed else None

    def _alone(self, inst: Inst, position: int) -> Inst:
        """``inst``, which computes results and their sums, as a group of its own if nothing reads the results."""
        wide = [access.tensor for access in inst.writes() if access.free_elements > 1]
        if len(wide) != 1 or not self._is_dead(wide[0], position) or not sums_what_it_writes(inst):
            return inst
        builder = GroupBuilder()
        if not builder.add(inst):
            return inst
        whole = builder.group()
        group = self._of_group(whole, position)
        return inst if group is None or group is whole else group

    def _is_dead(self, tensor: Tensor, position: int) -> bool:
        """True if no statement reads what the one at ``position`` has written to ``tensor``."""
        if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or tensor in self._seen or tensor in self._uses.in_loops:
            return False
        later = self._uses.next_use(tensor, position)
        if later is None and self._is_loop:
            later = self._uses.first(tensor)  # in the next round
        return later is None or later == position or _begins_anew(self._body[later], tensor)

    @cached_property
    def _uses(self) -> StatementUses:
        """The uses of tensors, found when they are first asked for."""
        return StatementUses(self._body)


def _begins_anew(statement: Statement, tensor: Tensor) -> bool:
    """True if ``statement`` writes every byte of ``tensor`` and reads none."""
    if not isinstance(statement, Inst) or statement.accumulates is not False:
        return False
    return fills(statement, tensor) and not any(access.tensor is tensor for access in statement.reads())
