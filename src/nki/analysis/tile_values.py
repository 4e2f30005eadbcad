"""Values of tiles: a tile that is filled again, when nothing is left that somebody reads, holds another value.

What happens to a tile from one such write to the next could happen to a tile of its own. The analysis goes through the
uses of a tile from the last to the first, with the bytes that are still read; a write at a run-time index, or one that
may leave bytes as they were, fills nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.analysis.byte_sets import ByteSet
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor

_TILES = (Buffer.sbuf, Buffer.psum)


def filled_again(core: CoreProgram) -> dict[Tensor, list[list[Inst]]]:
    """The tiles of ``core`` that hold several values in turn: the instructions that use each value, in order.

    Only tiles to which the user has given no address, and which the instructions of one body use: that of the kernel,
    or that of one loop, each iteration of which fills the tile before it reads it.
    """
    parts = list(bodies(core.body))
    candidates: set[Tensor] = set()
    for body in parts:
        candidates |= _written_twice(body)
    if not candidates:
        return {}
    uses: dict[Tensor, list[Inst]] = {}
    place: dict[Tensor, int] = {}
    for number, body in enumerate(parts):
        for inst in body:
            tensors = dict.fromkeys(access.tensor for access in (*inst.accesses(), *inst.indexed_by()))
            for tensor in tensors:
                if tensor not in candidates:
                    continue
                if place.setdefault(tensor, number) != number:
                    candidates.discard(tensor)
                uses.setdefault(tensor, []).append(inst)
    found: dict[Tensor, list[list[Inst]]] = {}
    for tensor in [tensor for tensor in uses if tensor in candidates]:
        values = _values(tensor, uses[tensor])
        if len(values) > 1:
            found[tensor] = values
    return found


def bodies(body: Iterable[Statement]) -> Iterator[list[Inst]]:
    """The instructions of the kernel outside of loops, and those directly in each loop."""
    statements = list(body)
    yield [statement for statement in statements if isinstance(statement, Inst)]
    for statement in statements:
        if not isinstance(statement, Inst):
            yield from bodies(statement.body)


def _written_twice(body: Sequence[Inst]) -> set[Tensor]:
    """Tiles of which some place is written more than once by instructions that do not add to it."""
    first: dict[Tensor, int] = {}
    others: set[tuple[Tensor, int]] = set()
    """Places of tiles: the first that is written, and, for few tiles, the others."""
    found: set[Tensor] = set()
    filled: dict[object, tuple[int, ...]] = {}
    """By the form of an instruction, the numbers of the operands that it fills: most kernels have few forms."""
    for inst in body:
        form = inst.known_form or inst.form()
        numbers = filled.get(form)
        if numbers is None:
            numbers = filled[form] = _filled(inst)
        if not numbers:
            continue
        accesses = inst.accesses()
        for number in numbers:
            access = accesses[number]
            tensor, offset = access.tensor, access.offset
            known = first.setdefault(tensor, -1)
            if known < 0:
                first[tensor] = offset
            elif tensor.address is None:
                place = tensor, offset
                if known == offset or place in others:
                    found.add(tensor)
                others.add(place)
    return found


def _filled(inst: Inst) -> tuple[int, ...]:
    """The numbers of the operands, in SBUF and PSUM, that ``inst`` writes and does not add to."""
    if inst.accumulates:
        return ()
    return tuple([n for n, (access, _, writes) in enumerate(inst.uses()) if writes and access.buffer in _TILES])


def _values(tensor: Tensor, uses: list[Inst]) -> list[list[Inst]]:
    """``uses`` of ``tensor`` cut where it is filled anew; one part if the first one is not filled by the uses."""
    read = _StillRead(tensor)
    values: list[list[Inst]] = [[]]
    for inst in reversed(uses):
        values[-1].append(inst)
        writes = [access for access in inst.writes() if access.tensor is tensor]
        if writes and not inst.may_leave_unwritten() and inst.write_predicate() is None:
            for access in writes:
                if access.dynamic is None:
                    read.fill(access)
        for access in inst.reads():
            if access.tensor is tensor:
                read.add(access)
        if writes and read.is_empty():
            values.append([])
    if values[-1]:
        return [uses]
    return [value[::-1] for value in values[-2::-1]]


class _StillRead:
    """The bytes of a tile that are read further on, before anything else fills them."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.windows: dict[AccessPattern, Access | ByteSet] = {}
        """By the pattern of a window that is read: the window, or what of it nothing fills before."""

    def add(self, access: Access) -> None:
        """Let ``access`` be read."""
        window = Access.whole(self.tensor) if access.dynamic is not None else access
        self.windows[pattern_of(window)] = window

    def fill(self, access: Access) -> None:
        """Let ``access`` be written."""
        self.windows.pop(pattern_of(access), None)
        for pattern, window in list(self.windows.items()):
            if isinstance(window, ByteSet):
                left = window
            else:
                left = ByteSet(self.tensor)
                left.add(window)
            if left.intersects(access):
                left.subtract(access)
                if left.is_empty():
                    del self.windows[pattern]
                    continue
            self.windows[pattern] = left

    def is_empty(self) -> bool:
        return not self.windows
