"""Value numbers: instructions that certainly compute what an earlier one has computed, from the same data.

Instructions outside of loops are visited in program order. Each tensor has the number of its contents; a number stands
for an instruction and the numbers of what it reads, so that equal numbers are equal contents. Tiles begin as equals of
all tiles of their form, since what is never written is never read. Contents that a loop leaves, or that other cores
may write, have a number that nothing else has.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable

from nki.analysis.access_pattern import pattern_of
from nki.analysis.byte_sets import ByteSet
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.instruction import Inst
from nki.ir.loop import instructions
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor


def repeated_instructions(core: CoreProgram, elsewhere: Collection[Tensor]) -> dict[int, Inst]:
    """By the ``id`` of an instruction: the first one that computes the same. ``elsewhere``: what other cores write."""
    numbers = _Numbers(elsewhere)
    found: dict[int, Inst] = {}
    for statement in core.body:
        if not isinstance(statement, Inst):
            for inst in instructions([statement]):
                for access in inst.changes():
                    numbers.forget(access.tensor)
        elif (first := numbers.visit(statement)) is not None:
            found[id(statement)] = first
    return found


def is_pure(inst: Inst) -> bool:
    """Test if all that an instruction does is to write, to tiles and registers, what follows from its operands."""
    effects = inst.effects
    if effects.external or inst.label or inst.ordered_after:
        return False
    return not any(access.buffer.is_hbm for access in inst.changes())


class _Numbers:
    def __init__(self, elsewhere: Collection[Tensor]) -> None:
        self.elsewhere = elsewhere
        self.fresh = itertools.count(1)
        self.of_tensor: dict[Tensor, Hashable] = {}
        self.known: dict[Hashable, tuple[int, Inst]] = {}
        """By what an instruction computes from: its number, and the first instruction that does."""
        self.whole: dict[tuple[object, object], bool] = {}

    def forget(self, tensor: Tensor) -> None:
        self.of_tensor[tensor] = next(self.fresh)

    def visit(self, inst: Inst) -> Inst | None:
        """Enter what ``inst`` writes; the first instruction that computes the same, if there is one before."""
        writes = inst.writes()
        if not is_pure(inst):
            for access in inst.changes():
                self.forget(access.tensor)
            return None
        reads = tuple([(self._number(access.tensor), pattern_of(access)) for access in inst.reads()])
        kept = () if self._fills(inst, writes) else tuple([self._number(access.tensor) for access in writes])
        key = inst.form, reads, tuple([access.offset for access in writes]), kept
        values = tuple([id(v) if isinstance(v, RuntimeFloat) else v or repr(v) for v in inst.immediates()])
        found = self.known.get((key, values))
        if found is None:
            number, first = next(self.fresh), inst
            self.known[key, values] = number, first
        else:
            number, first = found
        for position, access in enumerate(writes):
            self.of_tensor[access.tensor] = number, position
        return None if found is None else first

    def _number(self, tensor: Tensor) -> Hashable:
        number = self.of_tensor.get(tensor)
        if number is None:
            is_tile = not tensor.buffer.is_hbm and tensor.buffer is not Buffer.register
            number = self.of_tensor[tensor] = (tensor.form, 0) if is_tile and tensor.data is None else next(self.fresh)
        elif tensor in self.elsewhere:
            self.forget(tensor)
        return number

    def _fills(self, inst: Inst, writes: list[Access]) -> bool:
        """Test if nothing is left of what the outputs of ``inst`` held before."""
        if inst.may_leave_unwritten() or inst.write_predicate() is not None:
            return False
        return all(access.dynamic is None and self._is_whole(access) for access in writes)

    def _is_whole(self, access: Access) -> bool:
        key = access.tensor.form, (access.form, access.offset)
        if key not in self.whole:
            written = ByteSet(access.tensor)
            written.add(access)
            self.whole[key] = written.is_full()
        return self.whole[key]
