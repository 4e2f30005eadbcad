"""Def-use index of the body of a core: the operands that write a tensor or read it, with their statements.

:func:`uses_of` has the operands of tensors that stages rewrite, :class:`StatementUses` the positions of statements.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from nki.analysis.access_pattern import pattern_of
from nki.ir.effects import Effects
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions, touched
from nki.ir.types import Access, Role, Tensor, is_element_indexed
from nki.ir.windows import covers_tensor

Use = tuple[int, int, Access]
"""The position of an instruction, the number of the operand, and that operand."""


class Uses:
    """The uses of one tensor, in program order; an operand that is read and written is among both."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.writes: list[Use] = []
        self.reads: list[Use] = []


def uses_of(body: Iterable[Statement], tensors: Iterable[Tensor]) -> dict[Tensor, Uses]:
    """The uses of those ``tensors`` that neither loops nor run-time indices touch, in the order of ``tensors``."""
    found = {tensor: Uses() for tensor in tensors}
    pinned: set[Tensor] = set()
    for position, inst in enumerate(body) if found else ():
        if not isinstance(inst, Inst):
            pinned.update(access.tensor for access in touched(inst))
            continue
        for number, (access, reads, writes) in enumerate(inst.uses()):
            uses = found.get(access.tensor)
            if uses is not None:
                use = position, number, access
                if writes:
                    uses.writes.append(use)
                if reads:
                    uses.reads.append(use)
            if access.dynamic is not None:
                pinned.update((access.tensor, access.dynamic.source.tensor))
    for tensor in pinned:
        found.pop(tensor, None)
    return found


class StatementUses:
    """The positions of the statements of a body that access each tensor; a loop on the device is one statement."""

    def __init__(self, body: Iterable[Statement]) -> None:
        self.readers: defaultdict[Tensor, list[int]] = defaultdict(list)
        """The positions of statements that read a tensor, in order."""
        self.writers: defaultdict[Tensor, list[int]] = defaultdict(list)
        """The positions of statements that change it, in order."""
        self.in_loops: set[Tensor] = set()
        for position, statement in enumerate(body):
            if isinstance(statement, Inst):
                self._add(statement, position)
                continue
            self.in_loops.update(access.tensor for access in touched(statement))
            for access in (statement.register, *statement.reads()):
                self.readers[access.tensor].append(position)
            for inst in instructions([statement]):
                self._add(inst, position)

    def _add(self, inst: Inst, position: int) -> None:
        for access in inst.reads():
            self.readers[access.tensor].append(position)
        for access in inst.changes():
            self.writers[access.tensor].append(position)

    def first(self, tensor: Tensor) -> int:
        """The position of the first statement that uses ``tensor``."""
        return min(numbers[0] for numbers in self._of(tensor))

    def last(self, tensor: Tensor) -> int:
        """The position of the last statement that uses ``tensor``."""
        return max(numbers[-1] for numbers in self._of(tensor))

    def next_use(self, tensor: Tensor, position: int) -> int | None:
        """The position of the statement behind ``position`` that uses ``tensor`` first; None if there is none."""
        behind = [(numbers, bisect_right(numbers, position)) for numbers in self._of(tensor)]
        return min([numbers[at] for numbers, at in behind if at < len(numbers)], default=None)

    def is_changed(self, tensor: Tensor, first: int, last: int) -> bool:
        """True if a statement from ``first`` to ``last`` changes ``tensor``."""
        numbers = self.writers.get(tensor, ())
        return bisect_left(numbers, first) < bisect_right(numbers, last)

    def _of(self, tensor: Tensor) -> list[list[int]]:
        return [numbers for each in (self.readers, self.writers) if (numbers := each.get(tensor))]


def with_effect(body: Iterable[Statement], effect: Callable[[Effects], object]) -> Iterator[tuple[int, Inst]]:
    """The instructions of ``body`` outside of loops, of the kinds that have an ``effect``, each with its position."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and effect(kind.effects)}
    for position, inst in enumerate(body) if kinds else ():
        if inst.__class__ in kinds and isinstance(inst, Inst):
            yield position, inst


def is_matmul(inst: Statement | None) -> bool:
    """True of an instruction that multiplies; others of its kind may also just move data."""
    accumulation = inst.effects.accumulation if isinstance(inst, Inst) else None
    return accumulation is not None and not accumulation.moves(inst)


def fills(inst: Statement | None, tensor: Tensor) -> bool:
    """True if ``inst`` certainly writes every byte of ``tensor``."""
    if not isinstance(inst, Inst) or inst.may_leave_unwritten() or inst.effects.predicate is not None:
        return False
    return any(access.tensor is tensor and covers_tensor(access) for access in inst.writes())


def may_keep(inst: Inst, access: Access) -> bool:
    """True if ``inst`` reads ``access``, an operand, only to keep what it holds, and so may find it undefined."""
    predicate = inst.write_predicate()
    if predicate is None:
        partial = inst.effects.partial
        kept = [operand for f, operand in inst.operands() if f.role is Role.INOUT] if partial and partial(inst) else []
        return any(_same_bytes(access, operand) for operand in kept)
    dst = predicate.dst
    kept = access.tensor is dst.tensor if is_element_indexed(dst) else _same_bytes(access, dst)
    return kept and not any(_same_bytes(access, read) for f, read in inst.operands() if f.role is Role.IN)


def _same_bytes(one: Access, other: Access) -> bool:
    return one.tensor is other.tensor and pattern_of(one) == pattern_of(other)
