"""Ranges of a body in which fusion groups may lie: neighbours of one size that compute from each other's results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from nki.backend.cpu.fusion.facts import Facts, Size, reduced
from nki.backend.cpu.kernel_ir.loops import MOST_SUMS
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.types import Access, Tensor

Place = tuple[Tensor, int]
"""A tensor, and the offset of a window in it."""
Range = tuple[int, int]


class Past:
    """The windows that neighbours of another size have written: of each the position of the last write.

    ``note`` is called when one of them is read: with the window, the position of the reader, and its size.
    """

    def __init__(self, note: Callable[[Access, int, Size], None]) -> None:
        self.writers: dict[Place, int] = {}
        self.starts: list[int] = []
        """The position at which each row of neighbours of one size begins, so far."""
        self.note = note


def components(body: Sequence[Statement], facts: Facts, past: Past | None = None) -> list[Range]:
    """The ranges of neighbours that compute from each other's results, element by element as it seems."""
    found: list[Range] = []
    starts: list[int] = []
    size: Size | None = None
    writers: dict[Place, int] = {}
    before: dict[Place, int] = {} if past is None else past.writers
    known = facts.sizes
    for position, inst in enumerate(body):
        own = None
        if isinstance(inst, Inst):
            form = inst.form()
            own = known[form] if form in known else facts.size(inst)
        if own is None or own != size:
            if starts:
                sums = _sums(body, position, writers, size)
                while len(sums) > 1 and starts[-1] > min(sums):
                    starts.pop()
                _close(starts, position, found, len(sums))
                if past is not None:
                    before.update(writers)
                starts, writers = [], {}
            size = own
            if own is None:
                continue
            if past is not None:
                past.starts.append(position)
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
                elif past is not None and place in before:
                    assert own is not None
                    past.note(access, position, own)
            if writes:
                target = place
        if target is not None:
            writers[target] = position
    _close(starts, len(body), found, 0)
    return found


def _close(starts: Sequence[int], end: int, found: list[Range], sums: int) -> None:
    """Add the ranges that begin at ``starts`` and have at least two instructions.

    So many instructions from ``end`` on may be ``sums`` of what the last range computes, which then has them, too.
    """
    for start, stop in zip(starts, (*starts[1:], end + sums), strict=False):
        if stop - start > 1:
            found.append((start, stop))


def _sums(body: Sequence[Statement], position: int, writers: Mapping[Place, int], size: Size | None) -> list[int]:
    """The positions of the writers of windows of which neighbours from ``position`` on may be sums."""
    found: list[int] = []
    for statement in body[position : position + MOST_SUMS]:
        if not may_sum(statement, writers, size):
            break
        assert isinstance(statement, Inst)
        (source,) = statement.reads()
        found.append(writers[source.tensor, source.offset])
    return found


def may_sum(statement: Statement, writers: Collection[Place], size: Size | None) -> bool:
    """True if ``statement`` may reduce all of a window that is written, to fewer elements of each partition."""
    source = reduced(statement) if isinstance(statement, Inst) else None
    if source is None:
        return False
    return (source.tensor, source.offset) in writers and (source.partitions, source.free_elements) == size
