"""Finds chains in a program, and puts each as one instruction in place of its parts.

Neighbours join that compute the same number of elements of the same partitions, one from the results of another one.
Their windows are the same or share no memory, so that one loop may run them element by element. A sum by row of what
they compute may be the last one: it rides along.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

from nki.backend.cpu.fusion.chain import Chain
from nki.backend.cpu.fusion.dead_windows import DeadWindows, Path
from nki.backend.cpu.fusion.states import Edge, State, root
from nki.ir.access_overlap import may_overlap
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Form, Tensor

_Size = tuple[int, int]
"""Partitions, and elements of each."""


def fuse(program: Program) -> Program:
    """``program`` with chains in place of their parts."""
    seen = {*program.inputs, *program.outputs, *(program.shared() if len(program.cores) > 1 else ())}
    cores = [fuse_core(core, seen) for core in program.cores]
    return program.with_cores(cores) if any(map(operator.is_not, cores, program.cores)) else program


def fuse_core(core: CoreProgram, seen: Collection[Tensor]) -> CoreProgram:
    """``core`` with chains; others than the core read the tensors in ``seen``."""
    body = _Fusion(core.body, seen).fused(core.body, ())
    return core if body is core.body else core.with_body(body)


class Windows:
    """The windows of a chain."""

    __slots__ = ("_numbers", "_of_tensor", "_written", "accesses")

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        """The access of each window."""
        self._written: list[bool] = []
        self._numbers: dict[tuple[Tensor, int], int] = {}
        """Windows by tensor and offset."""
        self._of_tensor: dict[Tensor, list[int]] = {}

    def edge(self, inst: Inst) -> Edge | None:
        """The edge of ``inst``, whose windows are added; None if one overlaps another, and one of both is written."""
        edge: list[object] = [inst.form()]
        accesses, numbers = self.accesses, self._numbers
        for access, _, writes in inst.uses():
            number = numbers.get((access.tensor, access.offset))
            if number is None or accesses[number].signature is not access.signature:
                number = self._add(access)
                if not self._is_apart(number, writes):
                    return None
            elif writes and not self._written[number] and not self._is_apart(number, True):
                return None
            edge.append(number)
        return tuple(edge)

    def is_alone(self, access: Access) -> bool:
        """True if the chain touches the tensor of a window nowhere else."""
        return len(self._of_tensor[access.tensor]) == 1

    def _add(self, access: Access) -> int:
        number = len(self.accesses)
        self.accesses.append(access)
        self._written.append(False)
        self._numbers[access.tensor, access.offset] = number
        self._of_tensor.setdefault(access.tensor, []).append(number)
        return number

    def _is_apart(self, number: int, writes: bool) -> bool:
        """True if the window, now written if ``writes``, shares no byte with another one that makes it matter."""
        self._written[number] = writes
        access, accesses, written = self.accesses[number], self.accesses, self._written
        others = self._of_tensor[access.tensor]
        if len(others) == 1:
            return True
        return not any(n != number and (writes or written[n]) and may_overlap(access, accesses[n]) for n in others)


class _Fusion:
    """The fusion of one core."""

    def __init__(self, body: Sequence[Statement], seen: Collection[Tensor]) -> None:
        self._sizes: dict[Form, _Size | None] = {}
        self._dead = DeadWindows(body, seen)

    def fused(self, body: tuple[Statement, ...], around: Path) -> tuple[Statement, ...]:
        """``body`` with chains; the same object if there are none. ``around``: its path of positions of loops."""
        result: list[Statement] | None = None
        copied = 0
        for first, end in self._components(body):
            for start, stop, state, windows in _chains(body, first, end):
                chain = self._chain(body, (start, stop), state, windows, around)
                result = [] if result is None else result
                result += body[copied:start]
                result.append(chain)
                copied = stop
        if result is not None:
            result += body[copied:]
        whole = body if result is None else tuple(result)
        return self._with_loops(body, whole, around)

    def _with_loops(
        self, body: tuple[Statement, ...], whole: tuple[Statement, ...], around: Path
    ) -> tuple[Statement, ...]:
        """``whole``, which is ``body`` with chains, with chains in its loops, too."""
        loops = [n for n, statement in enumerate(body) if not isinstance(statement, Inst)]
        if not loops:
            return whole
        changed = list(whole)
        places = iter([n for n, statement in enumerate(whole) if not isinstance(statement, Inst)])
        is_changed = False
        for position in loops:
            loop, place = body[position], next(places)
            assert not isinstance(loop, Inst)
            inner = self.fused(loop.body, (*around, position))
            if inner is not loop.body:
                changed[place] = replace(loop, body=inner)
                is_changed = True
        return tuple(changed) if is_changed else whole

    def _components(self, body: Sequence[Statement]) -> list[tuple[int, int]]:
        """The ranges of neighbours that compute from each other's results, element by element as it seems."""
        found: list[tuple[int, int]] = []
        starts: list[int] = []
        size: _Size | None = None
        writers: dict[tuple[Tensor, int], int] = {}
        sizes = self._sizes
        for position, inst in enumerate(body):
            own = None
            if isinstance(inst, Inst):
                form = inst.form()
                own = sizes[form] if form in sizes else self._note_size(inst, form)
            if own is None or own != size:
                if starts:
                    _close(starts, position, found, _may_sum(inst, writers, size))
                    starts, writers = [], {}
                size = own
                if own is None:
                    continue
            assert isinstance(inst, Inst)
            starts.append(position)
            target = None
            for access, reads, writes in inst.uses():
                place = access.tensor, access.offset
                if reads:
                    writer = writers.get(place)
                    if writer is not None:
                        while starts[-1] > writer:
                            starts.pop()
                if writes:
                    target = place
            if target is not None:
                writers[target] = position
        _close(starts, len(body), found, False)
        return found

    def _note_size(self, inst: Inst, form: Form) -> _Size | None:
        size = self._sizes[form] = _size_of(inst)
        return size

    def _chain(
        self, body: Sequence[Statement], place: tuple[int, int], state: State, windows: Windows, around: Path
    ) -> Chain:
        start, stop = place
        accesses = windows.accesses
        unread = tuple(
            [
                number
                for number in state.begun
                if number not in state.sums
                and windows.is_alone(accesses[number])
                and self._dead.is_dead(accesses[number].tensor, (*around, start), (*around, stop))
            ]
        )
        return Chain(state.plan(unread), cast("Sequence[Inst]", body[start:stop]), accesses)


def _close(starts: Sequence[int], end: int, found: list[tuple[int, int]], has_sum: bool) -> None:
    """Add the ranges that begin at ``starts`` and have at least two instructions.

    ``has_sum``: the instruction at ``end`` may be a sum of what the last range computes, which then has it, too.
    """
    for start, stop in zip(starts, (*starts[1:], end + has_sum), strict=False):
        if stop - start > 1:
            found.append((start, stop))


def _may_sum(statement: Statement, writers: Collection[tuple[Tensor, int]], size: _Size | None) -> bool:
    """True if ``statement`` may reduce all of a window that is written, to one element of each partition."""
    if not isinstance(statement, Inst) or not _is_plain(statement):
        return False
    reads, writes = statement.reads(), statement.writes()
    if len(reads) != 1 or len(writes) != 1 or writes[0].free_elements != 1:
        return False
    source = reads[0]
    return (source.tensor, source.offset) in writers and (source.partitions, source.free_elements) == size


def _size_of(inst: Inst) -> _Size | None:
    """The partitions and elements that an instruction computes; None if it is certainly no part of a chain."""
    if not _is_plain(inst):
        return None
    writes = inst.writes()
    if len(writes) != 1 or writes[0].free_elements == 1:
        return None
    return writes[0].partitions, writes[0].free_elements


def _is_plain(inst: Inst) -> bool:
    """True if an instruction reads its operands and writes all of its result, wherever these are, and does no more."""
    effects, form = inst.effects, inst.form()
    if effects.external or effects.accumulation is not None or effects.predicate is not None or form.has_runtime_index:
        return False
    return inst.expansion is None and not inst.may_leave_unwritten() and not isinstance(inst, Chain)


def _chains(body: Sequence[Statement], first: int, end: int) -> list[tuple[int, int, State, Windows]]:
    """The chains in a range of ``body``, each with its state and its windows."""
    chains: list[tuple[int, int, State, Windows]] = []
    start, state, windows = first, root(), Windows()
    position = first
    while position < end:
        inst = body[position]
        assert isinstance(inst, Inst)
        edge = None if state.is_full else windows.edge(inst)
        following = None if edge is None else state.following(edge, inst)
        if following is None and edge is not None and position == end - 1 and all(map(windows.is_alone, inst.writes())):
            following = state.with_sum(edge, inst)
        if following is not None:
            state = following
            position += 1
            continue
        if state.is_chain:
            chains.append((start, position, state, windows))
        if position == start:
            position += 1
        start, state, windows = position, root(), Windows()
    if state.is_chain:
        chains.append((start, end, state, windows))
    return chains
