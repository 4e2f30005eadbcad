"""Legality of a reordering: the specification that stages ``order`` and ``schedule`` share.

A reordering is legal if it keeps every instruction, the loop around it, and the last writer of every byte that it reads
or writes. The last writers imply all dependences: an instruction that moves before a producer (RAW, WAW), or behind
an instruction that overwrites its operand (WAR), finds another last writer.

An instruction and its copies with another queue (:meth:`Inst.with_schedule`) share one :meth:`Inst.identity`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_classes import AccessClasses
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, While, loops
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor


def check_same_instructions(before: CoreProgram, after: CoreProgram) -> None:
    """Raise AssertionError unless each instruction of ``before`` occurs exactly once in ``after``, and no other one."""
    dropped, added = changed_instructions(before, after)
    assert not dropped, f"core {before.rank}: instructions dropped {dropped[:3]}"
    assert not added, f"core {before.rank}: instructions added or repeated {added[:3]}"


def changed_instructions(before: CoreProgram, after: CoreProgram) -> tuple[list[Inst], list[Inst]]:
    """The instructions of ``before`` that ``after`` lacks, and the ones of ``after`` that ``before`` has less often."""
    if after is before:
        return [], []
    expected, actual = (_identities(core) for core in (before, after))
    if expected == actual or sorted(expected) == sorted(actual):
        return [], []
    lost, extra = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    dropped = [inst for inst, key in zip(before.numbered, expected, strict=True) if key in lost]
    return dropped, [inst for inst, key in zip(after.numbered, actual, strict=True) if key in extra]


def _identities(core: CoreProgram) -> list[int]:
    """The identity of each instruction."""
    known: list[int | None] = list(map(attrgetter("_identity"), core.numbered))
    return [inst.identity() for inst in core.numbered] if None in known else cast("list[int]", known)


def check_edges(core: CoreProgram) -> None:
    """Raise AssertionError unless every instruction follows all those that its edges name."""
    if not core.has_edges:
        return
    seen: set[str] = set()
    for inst in core.numbered:
        if inst.ordered_after:
            assert seen.issuperset(inst.ordered_after), f"{inst!r} is before {set(inst.ordered_after) - seen}"
        if inst.label:
            seen.add(inst.label)


def check_dependences(before: CoreProgram, after: CoreProgram) -> None:
    """Raise AssertionError unless ``after``, a permutation of ``before``, keeps loops and last writers."""
    if after is before:
        return
    classes = AccessClasses(before)
    numbers = _Numbers(before)
    expected = _Visitor(classes, numbers)
    expected.visit(before.body)
    numbers.restart()
    actual = _Visitor(classes, numbers)
    actual.visit(after.body)
    assert len(expected.events) == len(actual.events), f"core {before.rank}: other loops than before"
    for key, event in expected.events.items():
        assert key in actual.events, f"core {before.rank}: a loop is lost"
        _compare(event, actual.events[key])


def check_flow(before: CoreProgram, after: CoreProgram) -> None:
    """Raise AssertionError unless each instruction of ``after`` finds, in tiles that may be others, what the same ones
    have written as in ``before``, and changes of HBM keep their order.
    """
    numbers = _Numbers(before)
    expected = _Flow(AccessClasses(before), numbers)
    expected.visit(before.body)
    numbers.restart()
    actual = _Flow(AccessClasses(replace(after, placement={})), numbers)
    actual.visit(after.body)
    for number, (inst, found) in expected.found.items():
        assert actual.found[number][1] == found, f"{inst!r} finds what another instruction has written"


@dataclass(slots=True, eq=False, repr=False)
class _Event:
    """One step: its statement, the loop around it (-1: none), and the last writers of all that it accesses."""

    statement: Statement
    loop: int
    writers: list[int]
    large_writers: list[NDArray[np.int64]]


def _compare(expected: _Event, actual: _Event) -> None:
    statement = expected.statement
    subject = repr(statement) if isinstance(statement, Inst) else f"the loop on register {statement.register.name}"
    assert expected.loop == actual.loop, f"{subject} is in the body of another loop"
    same = expected.writers == actual.writers
    same = same and all(map(np.array_equal, expected.large_writers, actual.large_writers))
    assert same, f"{subject} overtook an instruction that it depends on, or was overtaken"


class _Numbers:
    """Numbers of the instructions of a core in program order, then of its loops; found again in a permutation of it.

    Statements with one identity, such as the loops that test one register, depend on each other and keep their order.
    """

    def __init__(self, core: CoreProgram) -> None:
        statements: list[Statement] = [*core.instructions(), *loops(core.body)]
        self.by_identity: dict[int, list[int]] = defaultdict(list)
        for number, statement in enumerate(statements):
            self.by_identity[_identity(statement)].append(number)
        self.restart()

    def restart(self) -> None:
        self.remaining = {identity: deque(numbers) for identity, numbers in self.by_identity.items()}

    def take(self, statement: Statement) -> int:
        remaining = self.remaining.get(_identity(statement))
        assert remaining, "a loop on another register than before"
        return remaining.popleft()


def _identity(statement: Statement) -> int:
    return statement.identity() if isinstance(statement, Inst) else id(statement.register)


class _Visitor:
    """Visits the statements of a core in program order, and records the last writers that each one finds.

    Who comes to a class of a tile also finds the number of accesses to the classes of earlier tiles in the same bytes.
    """

    def __init__(self, classes: AccessClasses, numbers: _Numbers) -> None:
        self.numbers, self.classes = numbers, classes
        self.events: dict[tuple[int, str], _Event] = {}
        self.writer = [-1] * classes.count
        self.accesses = [0] * classes.count
        self.large_writer = [np.full(size, -1) for size in classes.large_sizes]
        self.register_writer: dict[Tensor, int] = {}
        """Registers apart: the memory effects of instructions do not show that a loop reads and writes them."""

    def visit(self, body: Iterable[Statement], loop: int = -1) -> None:
        for statement in body:
            number = self.numbers.take(statement)
            if isinstance(statement, Inst):
                self._instruction(number, statement, loop)
            else:
                self._loop(number, statement, loop)

    def _instruction(self, number: int, inst: Inst, loop: int) -> None:
        large_classes, writer = self.classes.large, self.writer
        small = self.classes.small
        changes = inst.changes()
        accesses = [*self.classes.reads(inst), *changes]
        found = [large_classes[access] for access in accesses if access in large_classes]
        large = [self.large_writer[memory][classes].copy() for memory, classes in found]
        outside = [0] if inst.effects.external else []
        accessed = [*outside, *(alias_class for access in accesses for alias_class in small.get(access, ()))]
        writers = [writer[alias_class] for alias_class in accessed]
        writers += [self.accesses[earlier] for each in accessed for earlier in self.classes.earlier(each)]
        written = _registers(inst.writes())
        writers += self._register_writers([*_registers(inst.reads()), *written])
        self.events[number, "run"] = _Event(inst, loop, writers, large)
        for alias_class in accessed:
            self.accesses[alias_class] += 1
        for alias_class in (*outside, *(each for access in changes for each in small.get(access, ()))):
            writer[alias_class] = number
        for access in changes:
            if access in large_classes:
                memory, classes = large_classes[access]
                self.large_writer[memory][classes] = number
        self.register_writer.update(dict.fromkeys(written, number))

    def _loop(self, number: int, loop: Loop, around: int) -> None:
        accessed = _registers([*loop.reads(), loop.register])
        self.events[number, "begin"] = _Event(loop, around, self._register_writers(accessed), [])
        if not isinstance(loop, While):
            self.register_writer[loop.register.tensor] = number
        self.visit(loop.body, number)
        self.events[number, "end"] = _Event(loop, around, self._register_writers(accessed), [])

    def _register_writers(self, registers: list[Tensor]) -> list[int]:
        return [self.register_writer.get(tensor, -1) for tensor in registers]


class _Flow(_Visitor):
    """Also records the instructions that have written last what each one reads, or changes in HBM."""

    def __init__(self, classes: AccessClasses, numbers: _Numbers) -> None:
        super().__init__(classes, numbers)
        self.found: dict[int, tuple[Inst, list[set[int]]]] = {}

    def _instruction(self, number: int, inst: Inst, loop: int) -> None:
        accesses = [*inst.reads(), *(access for access in inst.changes() if access.buffer.is_hbm)]
        self.found[number] = inst, [self._writers(access) for access in accesses]
        super()._instruction(number, inst, loop)

    def _writers(self, access: Access) -> set[int]:
        if access in self.classes.large:
            memory, classes = self.classes.large[access]
            return set(self.large_writer[memory][classes].reshape(-1).tolist())
        return {self.writer[alias_class] for alias_class in self.classes.small.get(access, ())}


def _registers(accesses: Iterable[Access]) -> list[Tensor]:
    return [access.tensor for access in accesses if access.buffer is Buffer.register]
