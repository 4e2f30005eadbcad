"""Finds chains in a program, and puts each as one instruction in place of its parts.

Neighbours join that compute the same number of elements of the same partitions, one from the results of another one.
Their windows are the same or share no memory, so that one loop may run them element by element. Sums by row of what
they compute may be the last ones: they ride along.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from nki.backend.cpu.fusion.chain import Chain, is_same_window
from nki.backend.cpu.fusion.components import Sizes, components
from nki.backend.cpu.fusion.dead_windows import DeadWindows, Path
from nki.backend.cpu.fusion.gathered_sums import gather_sums
from nki.backend.cpu.fusion.repeated import Repetition
from nki.backend.cpu.fusion.states import Edge, State, root
from nki.base import knobs
from nki.ir.access_overlap import may_overlap
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.ir.types import Access, Tensor
from nki.target.model import Target


@dataclass(frozen=True)
class Fuse(Stage):
    """Put chains in place of their parts."""

    name: ClassVar[str] = "fuse"

    def run(self, program: Program, target: Target) -> Program:  # noqa: ARG002  # as all stages
        """``program`` with chains in place of their parts."""
        shared = program.shared() if len(program.cores) > 1 else ()
        seen = {*program.inputs, *program.outputs, *shared}
        fixed = {*program.inputs}.difference(program.outputs, shared)
        cores = [fuse_core(core, seen, fixed) for core in program.cores]
        return program.with_cores(cores) if any(map(operator.is_not, cores, program.cores)) else program

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """All that others read is written as before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        seen = {*after.outputs, *after.shared()}
        for old, core in zip(before.cores, after.cores, strict=True):
            written, kept = (
                {access.tensor for inst in each.instructions() for access in inst.writes()} & seen
                for each in (old, core)
            )
            assert written == kept, f"fuse left unwritten {[t.name for t in written - kept]}"


def fuse_core(core: CoreProgram, seen: Collection[Tensor], fixed: Collection[Tensor]) -> CoreProgram:
    """``core`` with chains; others than the core read the tensors in ``seen``, those in ``fixed`` never change."""
    sizes = Sizes()
    refused: set[int] | None = set()
    gathered = gather_sums(core.body, sizes)
    core = core if gathered is core.body else core.with_body(gathered)
    while True:
        repetition = Repetition(sizes, seen, {*fixed, *core.constants()}, refused)
        repeated = repetition.of(core.body)
        body = _Fusion(repeated, seen, sizes, repetition).fused(repeated, ())
        apart = repetition.apart(body)
        if not apart:
            return core if body is core.body else core.with_body(body)
        # Other chains may then be cut elsewhere, but only so often.
        refused = {*refused, *apart} if refused is not None and len(refused) == 0 else None


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
            if number is None or not is_same_window(accesses[number], access):
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

    def __init__(
        self, body: Sequence[Statement], seen: Collection[Tensor], sizes: Sizes, repetition: Repetition
    ) -> None:
        self._sizes = sizes
        self._repetition = repetition
        self._dead = DeadWindows(body, seen)

    def fused(self, body: tuple[Statement, ...], around: Path) -> tuple[Statement, ...]:
        """``body`` with chains; the same object if there are none. ``around``: its path of positions of loops."""
        result: list[Statement] = []
        copied = 0
        for start, stop, chain in self._edits(body, around):
            result += body[copied:start]
            if chain is not None:
                result.append(chain)
            copied = stop
        whole = (*result, *body[copied:]) if copied else body
        return self._with_loops(body, whole, around)

    def _edits(self, body: Sequence[Statement], around: Path) -> list[tuple[int, int, Chain | None]]:
        """The ranges of ``body`` that chains replace, in order; no chain stands for one whose results nobody reads."""
        edits: list[tuple[int, int, Chain | None]] = []
        known = self._repetition.components.get(id(body))
        for first, end in components(body, self._sizes) if known is None else known:
            for start, stop, state, windows in _chains(body, first, end, self._sizes):
                chain = self._chain(body, (start, stop), state, windows, around)
                edits.append((start, stop, chain if chain.written or chain.changed else None))
        if sources := self._repetition.sources:
            inside = {position for start, stop, _ in edits for position in range(start, stop)}
            for position, inst in enumerate(body):
                if isinstance(inst, Inst) and id(inst) in sources and position not in inside:
                    (target,) = inst.writes()
                    if self._dead.is_dead(target.tensor, (*around, position), (*around, position + 1)):
                        edits.append((position, position + 1, None))
            edits.sort(key=lambda edit: edit[0])
        return edits

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


def _chains(body: Sequence[Statement], first: int, end: int, sizes: Sizes) -> list[tuple[int, int, State, Windows]]:
    """The chains in a range of ``body``, each with its state and its windows."""
    chains: list[tuple[int, int, State, Windows]] = []
    start, state, windows = first, root(), Windows()
    position = first
    while position < end:
        inst = body[position]
        assert isinstance(inst, Inst)
        edge = None if state.is_full else windows.edge(inst)
        following = None
        if edge is not None and sizes(inst) is not None:
            following = state.following(edge, inst)
        elif edge is not None and all(map(windows.is_alone, inst.writes())):
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
