"""Loops that run on the device: their bodies are recorded once, and repeated when the kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from nki.base.source import Where
from nki.ir.instruction import NOWHERE, Inst
from nki.ir.types import Access, Tensor

BOUNDS = range(-(1 << 31), 1 << 31)
"""What a bound of a loop can be: a register counts the rounds."""


@dataclass(slots=True)
class For:
    """``for register in range(start, stop, step)``.

    Bounds are numbers or registers, read once before the first round; ``step`` is at least 1. Nothing else writes
    ``register``, which keeps the value of the last round that was begun. ``tensors`` are those made in the body: they
    exist once, for all rounds.
    """

    register: Access
    start: int | Access
    stop: int | Access
    step: int
    body: tuple[Statement, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    where: Where = NOWHERE

    def reads(self) -> list[Access]:
        """The registers that the loop itself reads."""
        return [bound for bound in (self.start, self.stop) if isinstance(bound, Access)]

    def runs(self) -> bool:
        """Whether the body is known to run at least once."""
        return isinstance(self.start, int) and isinstance(self.stop, int) and self.start < self.stop

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, For):
            return NotImplemented
        bounds = _same(self.start, other.start) and _same(self.stop, other.stop) and self.step == other.step
        return bounds and _same(self.register, other.register) and self.body == other.body

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class While:
    """``while register``: the body runs as long as the register is not 0, asked before each round."""

    register: Access
    body: tuple[Statement, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    where: Where = NOWHERE

    def reads(self) -> list[Access]:
        """The registers that the loop itself reads."""
        return [self.register]

    def runs(self) -> bool:
        """Whether the body is known to run at least once."""
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, While):
            return NotImplemented
        return _same(self.register, other.register) and self.body == other.body

    __hash__ = None  # type: ignore[assignment]


Loop = For | While
Statement = Inst | For | While


def _same(one: int | Access, two: int | Access) -> bool:
    if isinstance(one, Access):
        return isinstance(two, Access) and one.equals(two)
    return one == two


def instructions(body: Iterable[Statement]) -> Iterator[Inst]:
    """All instructions of ``body`` and of the loops in it, in the order in which they stand there."""
    for statement in body:
        if isinstance(statement, Inst):
            yield statement
        else:
            yield from instructions(statement.body)


def loops(body: Iterable[Statement]) -> Iterator[Loop]:
    """All loops of ``body`` and in them, outer ones first."""
    for statement in body:
        if not isinstance(statement, Inst):
            yield statement
            yield from loops(statement.body)


def changed(body: Iterable[Statement], change: Callable[[Inst], Iterable[Inst]]) -> tuple[Statement, ...]:
    """``body`` with what ``change`` makes of it in the place of every instruction, those of loops too."""
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Inst):
            result.extend(change(statement))
        else:
            result.append(replace(statement, body=changed(statement.body, change)))
    return tuple(result)


def declared(body: Iterable[Statement]) -> list[Tensor]:
    """The tensors made inside the loops of ``body``, in the order of the text form."""
    return [tensor for loop in loops(body) for tensor in loop.tensors]


def regions(body: Iterable[Statement]) -> Iterator[list[Inst] | Loop]:
    """Loops, and the longest runs of instructions between them."""
    for straight, statements in groupby(body, _is_instruction):
        if straight:
            yield [s for s in statements if isinstance(s, Inst)]
        else:
            yield from (s for s in statements if not isinstance(s, Inst))


def _is_instruction(statement: Statement) -> bool:
    return isinstance(statement, Inst)


def touched(statement: Statement) -> list[Access]:
    """Every window that a statement reads or writes, inside a loop too."""
    if isinstance(statement, Inst):
        return [*statement.accesses(), *statement.indexed_by()]
    own = [statement.register, *statement.reads()]
    return [*own, *(access for inner in statement.body for access in touched(inner))]
