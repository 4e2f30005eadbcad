"""Windows that only one chain touches, as far as their contents count: these need no memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from nki.analysis.uses import fills
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.types import Access, Buffer, Tensor

Path = tuple[int, ...]
"""The positions of a statement: in the program, then in each loop around it."""


@dataclass(slots=True)
class _Uses:
    """The uses of one tensor, in program order: their paths and their statements."""

    paths: list[Path] = field(default_factory=list[Path])
    statements: list[Statement] = field(default_factory=list[Statement])
    in_one_body: bool = True


class DeadWindows:
    """The uses of tensors in one core, listed when they are first asked for."""

    def __init__(self, body: Sequence[Statement], seen: Collection[Tensor]) -> None:
        self._body = body
        self._seen = seen
        """Tensors that others than the core read."""
        self._uses: dict[Tensor, _Uses] | None = None

    def is_dead(self, tensor: Tensor, start: Path, stop: Path) -> bool:
        """True if no statement reads what the statements from ``start`` to ``stop`` have written to ``tensor``."""
        if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or tensor in self._seen:
            return False
        uses = self._all_uses()[tensor]
        if not uses.in_one_body or uses.paths[0][:-1] != start[:-1]:
            return False
        number = bisect_left(uses.paths, stop)
        later = uses.statements[number] if number < len(uses.paths) else None
        if later is None and len(start) > 1:
            later = uses.statements[0] if uses.paths[0] < start else None  # in the next round of the loop
        return later is None or _begins_anew(later, tensor)

    def _all_uses(self) -> dict[Tensor, _Uses]:
        if self._uses is None:
            self._uses = {}
            for path, statement in _paths(self._body, ()):
                for access in touched(statement) if isinstance(statement, Inst) else _own(statement):
                    uses = self._uses.get(access.tensor)
                    if uses is None:
                        uses = self._uses[access.tensor] = _Uses()
                    elif uses.paths[-1][:-1] != path[:-1]:
                        uses.in_one_body = False
                    uses.paths.append(path)
                    uses.statements.append(statement)
        return self._uses


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
