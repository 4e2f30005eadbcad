"""Instructions that a compiler could leave out: others have computed the same (:mod:`nki.analysis.value_numbers`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from nki.analysis.tile_values import TileValue, TileValues
from nki.analysis.value_numbers import repeated_instructions
from nki.ir.instruction import Inst
from nki.ir.loop import instructions
from nki.ir.program import CoreProgram
from nki.ir.types import Buffer, Tensor


def read_registers(core: CoreProgram) -> set[Tensor]:
    """The registers that instructions read."""
    return {a.tensor for inst in core.numbered for a in inst.reads() if a.buffer is Buffer.register}


class _Values(TileValues):
    """The values of the tiles of a core: which instructions outside of loops write each."""

    def __init__(self, core: CoreProgram) -> None:
        super().__init__(core)
        self.writers: dict[TileValue, list[Inst]] = {}
        """Of the tiles that no loop writes."""
        in_loops: set[Tensor] = set()
        for statement in core.body:
            if not isinstance(statement, Inst):
                in_loops.update(access.tensor for inst in instructions([statement]) for access in inst.changes())
                continue
            for access in statement.writes():
                self.writers.setdefault(self.of(statement, access.tensor), []).append(statement)
        self.writers = {value: writers for value, writers in self.writers.items() if value[0] not in in_loops}


class Spare(NamedTuple):
    """The ``instructions`` that compute again what others have computed, in program order; the tile values that are
    held ``instead`` of those that are not needed; and the ``values`` of the core.
    """

    instructions: list[Inst]
    instead: dict[TileValue, TileValue]
    values: TileValues


def spare_instructions(core: CoreProgram, elsewhere: Collection[Tensor]) -> Spare | None:
    """The instructions outside of loops with the same results as earlier ones; None if there are none. ``elsewhere``:
    what other cores write.
    """
    first = repeated_instructions(core, elsewhere)
    if not first:
        return None
    values = _Values(core)
    instead = {value: other for value in values.writers if (other := _original(value, values, first)) is not None}
    registers = read_registers(core)

    def is_spare(inst: Inst) -> bool:
        if id(inst) not in first:
            return False
        tensors = [access.tensor for access in inst.writes()]
        return all(
            tensor not in registers if tensor.buffer is Buffer.register else values.of(inst, tensor) in instead
            for tensor in tensors
        )

    while needed := [value for value in instead if not all(map(is_spare, values.writers[value]))]:
        for value in needed:
            del instead[value]
    spared = [inst for inst in core.body if isinstance(inst, Inst) and is_spare(inst)] if instead else []
    return Spare(spared, instead, values) if spared else None


def _original(value: TileValue, values: _Values, first: Mapping[int, Inst]) -> TileValue | None:
    """The earlier value of another tile, or of the same, that the same instructions have written as ``value``."""
    tensor, writers = value[0], values.writers[value]
    if tensor.buffer not in (Buffer.sbuf, Buffer.psum) or tensor.address is not None:
        return None
    if any(id(writer) not in first for writer in writers):
        return None
    position = next(n for n, access in enumerate(writers[0].writes()) if access.tensor is tensor)
    before = first[id(writers[0])]
    other = before.writes()[position].tensor
    found = values.of(before, other)
    originals = values.writers.get(found, [])
    same = list(map(id, originals)) == [id(first[id(writer)]) for writer in writers]
    return found if same and found != value and other.form is tensor.form and other.address is None else None
