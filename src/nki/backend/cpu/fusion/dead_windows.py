"""Windows that only one chain touches, as far as their contents count: these need no memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from nki.ir.access_overlap import covers_tensor
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.types import Access, Buffer, Tensor

Path = tuple[int, ...]
"""The positions of a statement: in the program, then in each loop around it."""


class DeadWindows:
    """The uses of tensors in one core, listed when they are first asked for."""

    def __init__(self, body: Sequence[Statement], seen: Collection[Tensor]) -> None:
        self._body = body
        self._seen = seen
        """Tensors that others than the core read."""
        self._uses: dict[Tensor, list[tuple[Path, Statement]]] | None = None

    def is_dead(self, tensor: Tensor, start: Path, stop: Path) -> bool:
        """True if no statement reads what the statements from ``start`` to ``stop`` have written to ``tensor``."""
        if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or tensor in self._seen:
            return False
        if self._uses is None:
            self._uses = {}
            for path, statement in _paths(self._body, ()):
                for access in touched(statement) if isinstance(statement, Inst) else _own(statement):
                    self._uses.setdefault(access.tensor, []).append((path, statement))
        uses = self._uses[tensor]
        if any(path[:-1] != start[:-1] for path, _ in uses):
            return False
        later = next((use for path, use in uses if path >= stop), None)
        if later is None and len(start) > 1:
            later = uses[0][1] if uses[0][0] < start else None  # in the next round of the loop
        return later is None or _begins_anew(later, tensor)


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
    if not isinstance(statement, Inst) or statement.may_leave_unwritten() or statement.effects.predicate is not None:
        return False
    if statement.accumulates is not False or any(a.tensor is tensor for a in statement.reads()):
        return False
    return any(access.tensor is tensor and covers_tensor(access) for access in statement.writes())
