"""Values of tiles: the instructions that use each web of a tile (:mod:`nki.analysis.webs`).

What happens to a tile in one web could happen to a tile of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nki.analysis.webs import Webs, webs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Tensor

_TILES = (Buffer.sbuf, Buffer.psum)
TileValue = tuple[Tensor, int]
"""A tile, and the number of the value that it holds."""


def filled_again(core: CoreProgram) -> dict[Tensor, list[list[Inst]]]:
    """The tiles of ``core`` that hold several values in turn: the instructions that use each value, in order.

    Only tiles without an address of the user that the instructions of one body use: the body of the kernel, or of one
    loop with iterations that each fill the tile before they read it.
    """
    parts = list(bodies(core.body))
    candidates: set[Tensor] = set()
    for body in parts:
        candidates |= _written_twice(body)
    if not candidates:
        return {}
    place: dict[Tensor, int] = {}
    for number, body in enumerate(parts):
        for inst in body:
            for tensor in _tensors(inst):
                if tensor in candidates and place.setdefault(tensor, number) != number:
                    candidates.discard(tensor)
    values: dict[Tensor, list[list[Inst]]] = {tensor: [] for tensor in place if tensor in candidates}
    _collect(core.body, webs(core.body, values.keys()), values)
    return {tensor: of_tensor for tensor, of_tensor in values.items() if len(of_tensor) > 1}


def _collect(body: Sequence[Statement], found: Webs, values: dict[Tensor, list[list[Inst]]]) -> None:
    """Add the uses in ``body`` to ``values``, each web by itself."""
    for number, statement in enumerate(body):
        if not isinstance(statement, Inst):
            if number in found.loops:
                _collect(statement.body, found.loops[number], values)
            continue
        for tensor in _tensors(statement):
            of_tensor = values.get(tensor)
            if of_tensor is None:
                continue
            if tensor in found.begins.get(number, ()) or not of_tensor:
                of_tensor.append([])
            of_tensor[-1].append(statement)


def _tensors(inst: Inst) -> dict[Tensor, None]:
    return dict.fromkeys(access.tensor for access in (*inst.accesses(), *inst.indexed_by()))


def bodies(body: Iterable[Statement]) -> Iterator[list[Inst]]:
    """The instructions of the kernel outside of loops, and those directly in each loop."""
    statements = list(body)
    yield [statement for statement in statements if isinstance(statement, Inst)]
    for statement in statements:
        if not isinstance(statement, Inst):
            yield from bodies(statement.body)


def _written_twice(body: Sequence[Inst]) -> set[Tensor]:
    """Tiles with a place that instructions write more than once without adding to it."""
    first: dict[Tensor, int] = {}
    others: set[tuple[Tensor, int]] = set()
    """Places of tiles: the first that is written, and, for few tiles, the others."""
    found: set[Tensor] = set()
    filled: dict[object, tuple[int, ...]] = {}
    """By the form of an instruction, the numbers of the operands that it fills: most kernels have few forms."""
    for inst in body:
        form = inst.form
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


class TileValues:
    """The values that each tile of a core holds in turn; ``parts`` has the instructions that use each."""

    def __init__(self, core: CoreProgram) -> None:
        self.parts = filled_again(core)
        self._number = {
            (id(inst), tensor): number
            for tensor, parts in self.parts.items()
            for number, part in enumerate(parts)
            for inst in part
        }

    def of(self, inst: Inst, tensor: Tensor) -> TileValue:
        """The value of ``tensor`` that ``inst`` uses."""
        return tensor, self._number.get((id(inst), tensor), 0)
