"""Loop fusion: puts a :class:`FusionGroup` in place of its parts.

Neighbours join that compute the same number of elements of the same partitions, one from the results of another one.
Their windows are the same or share no memory, so that one loop may run them element by element. Sums by row of what
they compute may be the last ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from nki.backend.cpu.fusion.fusion_check import FusionStage, copies_in
from nki.backend.cpu.fusion.group import GroupBuilder
from nki.backend.cpu.fusion.parts import Size, Window, may_sum, sizes_of
from nki.backend.cpu.kernel_ir.loop_nests import MOST_SUMS
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.transforms.rewriter import Body, Edit


@dataclass(frozen=True)
class Fuse(FusionStage):
    """Put fusion groups in place of their parts, and leave out copies that are in no group."""

    name: ClassVar[str] = "fuse"

    def edits(self, body: Body, core: CoreProgram, program: Program) -> Sequence[Edit]:  # noqa: ARG002
        groups = [edit for first, end in _components(body) for edit in _groups(body, first, end)]
        repeated = copies_in(body)
        if not repeated:
            return groups
        in_groups = {position for start, stop, _ in groups for position in range(start, stop)}
        alone = [n for n, statement in enumerate(body) if id(statement) in repeated and n not in in_groups]
        return sorted([*groups, *((n, n + 1, ()) for n in alone)])


def _components(body: Sequence[Statement]) -> Iterator[tuple[int, int]]:
    """The ranges of neighbours of one size that compute from each other's results, element by element as it seems.

    Sums of what the last one of such neighbours computes are part of it.
    """
    sizes = sizes_of(body)
    for size, positions in groupby(range(len(body)), sizes.__getitem__):
        if size is None:
            continue
        starts: list[int] = []
        writers: dict[Window, int] = {}
        position = 0
        for position in positions:
            starts.append(position)
            inst = body[position]
            assert isinstance(inst, Inst)
            target = None
            for access, reads, writes in inst.uses():
                window = access.tensor, access.offset
                if reads and (writer := writers.get(window)) is not None:
                    while starts[-1] > writer:
                        starts.pop()
                if writes:
                    target = window
            if target is not None:
                writers[target] = position
        summed = _summed(body, position + 1, writers, size)
        while len(summed) > 1 and starts[-1] > min(summed):
            starts.pop()
        ends = (*starts[1:], position + 1 + len(summed))
        yield from [(start, end) for start, end in zip(starts, ends, strict=True) if end - start > 1]


def _summed(body: Sequence[Statement], position: int, writers: Mapping[Window, int], size: Size) -> list[int]:
    """The positions of the writers of windows that neighbours from ``position`` on may sum."""
    found: list[int] = []
    for statement in body[position : position + MOST_SUMS]:
        if not may_sum(statement, writers, size):
            break
        assert isinstance(statement, Inst)
        (source,) = statement.reads()
        found.append(writers[source.tensor, source.offset])
    return found


def _groups(body: Sequence[Statement], first: int, end: int) -> Iterator[Edit]:
    """The groups in a range of ``body``."""
    builder = GroupBuilder()
    for position in range(first, end + 1):
        inst = body[position] if position < end else None
        if isinstance(inst, Inst) and builder.add(inst):
            continue
        if builder.state.is_group:
            yield position - len(builder.parts), position, [builder.group()]
        builder = GroupBuilder()
        if isinstance(inst, Inst) and not builder.add(inst):
            builder = GroupBuilder()
