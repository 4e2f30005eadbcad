"""Loops that run on the device: their bodies are recorded once, and repeated when the kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, NoReturn, cast

from nki.base.element_types import int32, int64
from nki.base.errors import RegisterUseError
from nki.base.python_operators import refuse_operators
from nki.base.source import Where, caret
from nki.ir.instruction import NOWHERE, Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.value_printer import values

BOUNDS = range(-(1 << 31), 1 << 31)
"""Range of a bound: a 32-bit register counts the iterations."""


@dataclass(slots=True)
class For:
    """``for register in range(start, stop, step)``.

    Bounds are numbers or registers, read once before the first iteration; ``step`` is at least 1. Nothing else
    writes ``register``, which keeps the value of the last iteration that was begun. ``tensors`` are those declared in
    the body: they exist once, for all iterations.
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
        """True if the body is known to run at least once."""
        return isinstance(self.start, int) and isinstance(self.stop, int) and self.start < self.stop

    def repeats(self) -> bool:
        """True if the body is known to run at least twice."""
        return isinstance(self.start, int) and isinstance(self.stop, int) and self.start + self.step < self.stop

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, For):
            return NotImplemented
        bounds = _same_bound(self.start, other.start) and _same_bound(self.stop, other.stop) and self.step == other.step
        return bounds and _same_bound(self.register, other.register) and self.body == other.body

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class While:
    """``while register``: the body runs as long as the register is not 0, tested before each iteration."""

    register: Access
    body: tuple[Statement, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    where: Where = NOWHERE

    def reads(self) -> list[Access]:
        """The registers that the loop itself reads."""
        return [self.register]

    def runs(self) -> bool:
        """True if the body is known to run at least once."""
        return False

    def repeats(self) -> bool:
        """True if the body is known to run at least twice."""
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, While):
            return NotImplemented
        return _same_bound(self.register, other.register) and self.body == other.body

    __hash__ = None  # type: ignore[assignment]


Loop = For | While
Statement = Inst | For | While
LOOPS: Final = frozenset((For, While))
_NOTE: Final = "this interrupted the"


def note_loop(error: BaseException, loop: Loop) -> None:
    """Tell in ``error``, for example Ctrl-C, that it has interrupted ``loop`` of a running kernel; once, for the
    innermost one.
    """
    span = loop.where.span
    if span is None or isinstance(error, Exception) or any(_NOTE in note for note in getattr(error, "__notes__", ())):
        return
    kind = "for" if isinstance(loop, For) else "while"
    error.add_note(f"{_NOTE} {kind} loop in {span.function or 'a kernel'}, {span}\n{caret(span)}".rstrip())


def _same_bound(one: int | Access, two: int | Access) -> bool:
    if isinstance(one, Access):
        return isinstance(two, Access) and one.equals(two)
    return one == two


def instructions(body: Iterable[Statement]) -> Iterator[Inst]:
    """All instructions of ``body`` and of the loops in it, in program order."""
    for statement in body:
        if isinstance(statement, Inst):
            yield statement
        else:
            yield from instructions(statement.body)


def with_numbers(body: Iterable[Statement], first: int = 0) -> Iterator[tuple[int, Statement]]:
    """The statements of ``body``, each with the dense number of its first instruction; ``first`` is the body's.

    A loop has the numbers of its body's instructions, all one behind the other. An empty loop has none: it comes with
    the number of the next instruction.
    """
    number = first
    for statement in body:
        yield number, statement
        number += 1 if isinstance(statement, Inst) else sum(1 for _ in instructions(statement.body))


def loops(body: Iterable[Statement]) -> Iterator[Loop]:
    """All loops of ``body`` and in them, outer ones first."""
    for statement in body:
        if not isinstance(statement, Inst):
            yield statement
            yield from loops(statement.body)


def changed(body: Iterable[Statement], change: Callable[[Inst], Iterable[Inst]]) -> tuple[Statement, ...]:
    """``body`` with every instruction, in loops too, replaced by the instructions that ``change`` returns."""
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Inst):
            result.extend(change(statement))
        else:
            result.append(replace(statement, body=changed(statement.body, change)))
    return tuple(result)


def declared(body: Iterable[Statement]) -> list[Tensor]:
    """The tensors that the loops of ``body`` declare, in the order of the text form."""
    return [tensor for loop in loops(body) for tensor in loop.tensors]


def basic_blocks(body: Iterable[Statement]) -> Iterator[list[Inst] | Loop]:
    """The statements in order: basic blocks, which are the longest runs of instructions between loops, and loops."""
    statements = list(body)
    if LOOPS.isdisjoint(map(type, statements)):  # as of most kernels, which may have many
        if statements:
            yield cast("list[Inst]", statements)
        return
    for straight, members in groupby(statements, _is_instruction):
        if straight:
            yield [s for s in members if isinstance(s, Inst)]
        else:
            yield from (s for s in members if not isinstance(s, Inst))


def all_blocks(body: Iterable[Statement]) -> Iterator[list[Inst]]:
    """The basic blocks in program order, those in the bodies of loops included."""
    for block in basic_blocks(body):
        if isinstance(block, list):
            yield block
        else:
            yield from all_blocks(block.body)


def _is_instruction(statement: Statement) -> bool:
    return isinstance(statement, Inst)


def touched(statement: Statement) -> list[Access]:
    """Every access of a statement, including those in the body of a loop."""
    if isinstance(statement, Inst):
        accesses, indices = statement.accesses(), statement.indexed_by()
        return accesses + indices if indices else accesses
    own = [statement.register, *statement.reads()]
    return [*own, *(access for inner in statement.body for access in touched(inner))]


class VirtualRegister(Access):
    """One 32-bit register; made by ``nisa.register_alloc``, or by a loop for its iteration value.

    Loops take it as a bound or as their condition, and views as a run-time index (``t[register]``,
    ``t.ap(..., scalar_offset=register)``). While the kernel is compiled it has no value, so Python can neither compute
    with it nor branch on it. ``frozen`` registers count a loop's iterations and cannot be written.
    """

    __slots__ = ("frozen",)

    def __init__(self, tensor: Tensor, frozen: bool = False) -> None:
        super().__init__(tensor, 0, (1, 1), (1, 1), tensor.dtype)
        self.frozen = frozen

    def __repr__(self) -> str:
        shown = values(self).strip("[]")
        return f"VirtualRegister {self.name}" + (f" = {shown}" if shown else "")

    def __eq__(self, other: object) -> bool:
        """Kernels ask ``register == None``; any other comparison would need its value."""
        return False if other is None else self._refuse("==")

    def __ne__(self, other: object) -> bool:
        return True if other is None else self._refuse("!=")

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise RegisterUseError(
            f"register '{self.name}' used as a condition of `if`, `assert`, `not`, `and` or `or`, which are decided "
            "when the kernel is compiled, before the register has a value",
            fix="loop on it with nl.while_loop(register, body); to choose between values, compute both and take one "
            "with nisa.tensor_copy_predicated",
        )

    def __index__(self) -> NoReturn:
        raise RegisterUseError(
            f"register '{self.name}' used as a number that is needed when the kernel is compiled",
            fix="count with nl.fori_loop(0, register, body); index with t[register] or t.ap(…, scalar_offset=register)",
        )

    def __int__(self) -> NoReturn:
        self._refuse("int")

    def __float__(self) -> NoReturn:
        self._refuse("float")

    def _refuse(self, sign: str) -> NoReturn:
        if sign in ("+", "-", "*"):
            fix = "compute with a scalar: nisa.scalar_load(tile) makes one, nl.fori_loop(0, 8, body) counts in one"
        else:
            fix = "let the loop count in the steps that you need, or compute in a (1, 1) tile: nisa.register_store, "
            fix += "nisa.tensor_scalar, nisa.register_load"
        raise RegisterUseError(
            f"Python's {sign} on register '{self.name}', which has a value only when the kernel runs", fix=fix
        )


def is_register(value: Any) -> bool:
    """True if an operand is a scalar register of 32 bits (an engine's reduction registers are floats and are none)."""
    if not isinstance(value, Access) or value.buffer is not Buffer.register:
        return False
    return value.dtype is int32 and value.tensor.shape == (1, 1)


def is_scalar_register(value: Any) -> bool:
    """True if an operand is a scalar register of 32 or 64 bits."""
    wide = isinstance(value, Access) and value.buffer is Buffer.register and value.dtype is int64
    return is_register(value) or (wide and value.tensor.shape == (1, 1))


refuse_operators(VirtualRegister)
