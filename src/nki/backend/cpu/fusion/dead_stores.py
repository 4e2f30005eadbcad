"""Dead-store elimination: what nothing reads later is not written.

A window that one fusion group alone touches, as far as its contents count, needs no memory: it stays in registers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from nki.analysis.uses import fills
from nki.backend.cpu.fusion.facts import facts
from nki.backend.cpu.fusion.fuse import Windows
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.fusion.legality import root
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target

Path = tuple[int, ...]
"""The positions of a statement: in the program, then in each loop around it."""


@dataclass(frozen=True)
class EliminateDeadStores(CoreStage):
    """Leave out what is written and never read."""

    name: ClassVar[str] = "dead_stores"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without stores that nothing reads."""
        shared = program.shared() if len(program.cores) > 1 else ()
        body = _Elimination(core.body, {*program.inputs, *program.outputs, *shared}).of(core.body, ())
        return core if body is core.body else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Whatever is read, or seen from outside, is written as before; under ``OPEN_NKI_CHECK_STAGES=1``."""
        seen = {*after.outputs, *after.shared()} if knobs.check_stages() else set[Tensor]()
        for old, core in zip(before.cores, after.cores, strict=True) if knobs.check_stages() else ():
            written, kept = (
                {access.tensor for inst in each.instructions() for access in inst.writes()} for each in (old, core)
            )
            read = {access.tensor for inst in core.instructions() for access in inst.reads()}
            lost = [tensor.name for tensor in written - kept if tensor in read or tensor in seen]
            assert not lost, f"dead_stores left unwritten {lost}"


class _Elimination:
    """The elimination in one core."""

    def __init__(self, body: Sequence[Statement], seen: Collection[Tensor]) -> None:
        self._uses = _Uses(body, seen)
        self._facts = facts()

    def of(self, body: tuple[Statement, ...], around: Path) -> tuple[Statement, ...]:
        """``body`` without dead stores; the same object if it has none. ``around``: its path of positions of loops."""
        has_groups = FusionGroup in set(map(type, body))
        result: list[Statement] = []
        is_changed = False
        for position, statement in enumerate(body):
            new: Statement | None = statement
            place = *around, position
            if not isinstance(statement, Inst):
                inner = self.of(statement.body, place)
                new = statement if inner is statement.body else replace(statement, body=inner)
            elif isinstance(statement, FusionGroup):
                new = self._of_group(statement, place)
            elif has_groups and self._facts.size(statement) is not None:
                (target,) = statement.writes()
                new = None if self._uses.is_dead(target.tensor, place) else statement
            elif len(statement.write_names) > 1:
                new = self._alone(statement, place)
            is_changed = is_changed or new is not statement
            if new is not None:
                result.append(new)
        return tuple(result) if is_changed else body

    def _of_group(self, group: FusionGroup, place: Path) -> FusionGroup | None:
        """``group`` with dead windows in registers; None if nothing of it is wanted."""
        dead = tuple([n for n in group.removable() if self._uses.is_dead(group.windows[n].tensor, place)])
        if not dead:
            return group
        new = FusionGroup(group.state, group.parts, group.windows, dead)
        return new if new.written or new.changed else None

    def _alone(self, inst: Inst, place: Path) -> Inst:
        """``inst``, which computes results and their sums, as a group of its own if nothing reads the results."""
        wide = [access.tensor for access in inst.writes() if access.free_elements > 1]
        if len(wide) != 1 or not self._uses.is_dead(wide[0], place) or not self._facts.sums_what_it_writes(inst):
            return inst
        windows = Windows()
        edge = windows.edge(inst)
        state = None if edge is None else root().following(edge, inst)
        if state is None:
            return inst
        group = self._of_group(FusionGroup(state, (inst,), windows.accesses), place)
        return inst if group is None or group.plan is state.plan(()) else group


@dataclass(slots=True)
class _Use:
    """The uses of one tensor, in program order: their paths and their statements."""

    paths: list[Path] = field(default_factory=list[Path])
    statements: list[Statement] = field(default_factory=list[Statement])
    in_one_body: bool = True


class _Uses:
    """The uses of tensors in one core, listed when they are first asked for; others read the tensors in ``seen``."""

    def __init__(self, body: Sequence[Statement], seen: Collection[Tensor]) -> None:
        self._body = body
        self._seen = seen
        self._found: dict[Tensor, _Use] | None = None

    def is_dead(self, tensor: Tensor, place: Path) -> bool:
        """True if no statement reads what the one at ``place`` has written to ``tensor``."""
        if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or tensor in self._seen:
            return False
        uses = self._all()[tensor]
        if not uses.in_one_body or uses.paths[0][:-1] != place[:-1]:
            return False
        number = bisect_left(uses.paths, (*place[:-1], place[-1] + 1))
        later = uses.statements[number] if number < len(uses.paths) else None
        if later is None and len(place) > 1:
            later = uses.statements[0] if uses.paths[0] < place else None  # in the next round of the loop
        return later is None or _begins_anew(later, tensor)

    def _all(self) -> dict[Tensor, _Use]:
        if self._found is None:
            self._found = {}
            for path, statement in _paths(self._body, ()):
                for access in touched(statement) if isinstance(statement, Inst) else _own(statement):
                    uses = self._found.get(access.tensor)
                    if uses is None:
                        uses = self._found[access.tensor] = _Use()
                    elif uses.paths[-1][:-1] != path[:-1]:
                        uses.in_one_body = False
                    uses.paths.append(path)
                    uses.statements.append(statement)
        return self._found


def _paths(body: Sequence[Statement], around: Path) -> Iterator[tuple[Path, Statement]]:
    """All statements in program order, loops before what they contain."""
    for position, statement in enumerate(body):
        yield (*around, position), statement
        if not isinstance(statement, Inst):
            yield from _paths(statement.body, (*around, position))


def _own(statement: Statement) -> list[Access]:
    """The accesses of a loop itself."""
    assert not isinstance(statement, Inst)
    return [statement.register, *statement.reads()]


def _begins_anew(statement: Statement, tensor: Tensor) -> bool:
    """True if ``statement`` writes every byte of ``tensor`` and reads none."""
    if not isinstance(statement, Inst) or statement.accumulates is not False:
        return False
    return fills(statement, tensor) and not any(access.tensor is tensor for access in statement.reads())
