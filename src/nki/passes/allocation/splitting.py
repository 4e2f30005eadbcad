"""Live-range splitting: a tile for each web of a tile that is written anew.

Kernels make a ring of tiles before a loop and use them in turn. Each write to all of a tile begins a new value, a web
(:mod:`nki.analysis.webs`), so the bytes are free from the last use of one value to the write of the next. Where tiles
do not fit, each web gets a tile of its own. A web that begins and ends in an iteration of a loop on the device gets a
loop-local tile. Instructions, their order and their results stay; tiles with an address keep their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from nki.analysis.webs import Webs, webs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, declared, instructions, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Tensor
from nki.passes.allocation.packing import short_memories
from nki.passes.renaming import in_place_of, renamed_instruction
from nki.target.model import Target


def split(core: CoreProgram, target: Target) -> CoreProgram | None:
    """``core`` with a tile for each web of the tiles in memories that do not suffice; None if each tile has one web."""
    candidates = _candidates(core, [Buffer[space.name] for space in short_memories(core, target)])
    if not candidates:
        return None
    found = webs(core.body, candidates)
    splitter = _Splitter(core)
    made: list[Tensor] = []
    body = splitter.body(core.body, found, {}, made)
    if not splitter.webs:
        return None
    inner = set(declared(core.body))
    used = {tensor for statement in body for tensor in _accessed(statement)}
    outer = [t for t in core.tensors if t not in inner and (t in used or t not in candidates)]
    return replace(core.with_body(body), tensors=(*outer, *made, *declared(body)))


def _candidates(core: CoreProgram, memories: Collection[Buffer]) -> set[Tensor]:
    """The tiles without an address that may have several webs, or one in a loop.

    Several instructions write those and read nothing of them: others begin no web.
    """
    writes: Counter[Tensor] = Counter()
    for statement in core.body:
        often = 1 if isinstance(statement, Inst) else 2
        for inst in (statement,) if isinstance(statement, Inst) else instructions([statement]):
            read = [access.tensor for access in inst.reads()]
            for access in inst.writes():
                if access.tensor not in read:
                    writes[access.tensor] += often
    return {
        tensor
        for tensor, count in writes.items()
        if count > 1 and tensor.buffer in memories and tensor.address is None and tensor not in core.placement
    }


class _Splitter:
    """Renames the tiles of a core, body by body."""

    def __init__(self, core: CoreProgram) -> None:
        self.names = {tensor.name for tensor in core.tensors}
        self.webs: Counter[str] = Counter()
        """The number of new tiles by the name of the tile that they replace."""

    def body(
        self, body: Sequence[Statement], found: Webs, outer: Mapping[Tensor, Tensor], made: list[Tensor]
    ) -> tuple[Statement, ...]:
        """``body`` in tiles for its webs; the new ones are added to ``made``.

        ``outer`` has the tile for what enters and leaves the body; who is not in it is made by the body itself.
        """
        last = {tensor: number for number in sorted(found.begins) for tensor in _begun(number, found)}
        current = dict(outer)
        result: list[Statement] = []
        for number, statement in enumerate(body):
            for tensor in _begun(number, found) if number in found.begins else ():
                stays = tensor in found.leaving and last[tensor] == number
                if tensor not in outer and tensor not in current and tensor not in found.leaving | found.entering:
                    stays = True
                current[tensor] = outer.get(tensor, tensor) if stays else self._new(tensor, made)
            if isinstance(statement, Inst):
                renamed = renamed_instruction(statement, current)
                result.append(statement if renamed is statement else in_place_of(statement, renamed))
            elif number in found.loops:
                outside = {t: current.get(t, t) for t in _accessed(statement) if t not in statement.tensors}
                own: list[Tensor] = []
                inner = self.body(statement.body, found.loops[number], outside, own)
                result.append(replace(statement, body=inner, tensors=(*statement.tensors, *own)))
            else:
                result.append(statement)
        return tuple(result)

    def _new(self, tensor: Tensor, made: list[Tensor]) -> Tensor:
        while True:
            self.webs[tensor.name] += 1
            name = f"{tensor.name}.web{self.webs[tensor.name] + 1}"
            if name not in self.names:
                break
        self.names.add(name)
        new = Tensor(name, tensor.shape, tensor.dtype, tensor.buffer, span=tensor.span)
        new.site = tensor.site
        made.append(new)
        return new


def _begun(number: int, found: Webs) -> list[Tensor]:
    """The tensors with a web that begins at a statement, without the ones that a loop keeps to itself."""
    begins = found.begins[number]
    loop = found.loops.get(number)
    return sorted((t for t in begins if loop is None or t in loop.leaving), key=attrgetter("name"))


def _accessed(statement: Statement) -> dict[Tensor, None]:
    return dict.fromkeys(access.tensor for access in touched(statement))
