"""Ranges of a body in which chains may lie: neighbours of one size that compute from each other's results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from nki.backend.cpu.fusion.chain import Chain
from nki.backend.cpu.loop_ir.reductions import MOST_SUMS
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.types import Access, Form, Tensor

Size = tuple[int, int]
"""Partitions, and elements of each."""
Place = tuple[Tensor, int]
"""A tensor, and the offset of a window in it."""
Range = tuple[int, int]


class Sizes:
    """The sizes of instructions, found once for each form."""

    def __init__(self) -> None:
        self.known: dict[Form, Size | None] = {}

    def __call__(self, statement: Statement) -> Size | None:
        """Partitions and elements that ``statement`` computes; None if it is certainly no part of a chain."""
        if not isinstance(statement, Inst):
            return None
        form = statement.form()
        if form not in self.known:
            self.known[form] = _size_of(statement)
        return self.known[form]


class Past:
    """The windows that neighbours of another size have written: of each the position of the last write.

    ``note`` is called when one of them is read: with the window, the position of the reader, and its size.
    """

    def __init__(self, note: Callable[[Access, int, Size], None]) -> None:
        self.writers: dict[Place, int] = {}
        self.starts: list[int] = []
        """The position at which each row of neighbours of one size begins, so far."""
        self.note = note


def components(body: Sequence[Statement], sizes: Sizes, past: Past | None = None) -> list[Range]:
    """The ranges of neighbours that compute from each other's results, element by element as it seems."""
    found: list[Range] = []
    starts: list[int] = []
    size: Size | None = None
    writers: dict[Place, int] = {}
    before: dict[Place, int] = {} if past is None else past.writers
    known = sizes.known
    for position, inst in enumerate(body):
        own = None
        if isinstance(inst, Inst):
            form = inst.form()
            own = known[form] if form in known else sizes(inst)
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
    if not isinstance(statement, Inst) or not is_plain(statement):
        return False
    reads, writes = statement.reads(), statement.writes()
    if len(reads) != 1 or len(writes) != 1 or writes[0].free_elements >= reads[0].free_elements:
        return False
    source = reads[0]
    return (source.tensor, source.offset) in writers and (source.partitions, source.free_elements) == size


def _size_of(inst: Inst) -> Size | None:
    if not is_plain(inst):
        return None
    writes = inst.writes()
    if len(writes) != 1 or writes[0].free_elements == 1:
        return None
    if any(access.size > writes[0].size for access in inst.reads()):  # a reduction, or a choice
        return None
    return writes[0].partitions, writes[0].free_elements


def is_plain(inst: Inst) -> bool:
    """True if an instruction reads its operands and writes all of its result, wherever these are, and does no more.

    One with a predicate reads its result, too, and writes again what it leaves as it is.
    """
    effects, form = inst.effects, inst.form()
    if effects.external or effects.accumulation is not None or form.has_runtime_index:
        return False
    return inst.expansion is None and not inst.may_leave_unwritten() and not isinstance(inst, Chain)


__all__ = ["Past", "Place", "Range", "Size", "Sizes", "components", "is_plain", "may_sum"]
