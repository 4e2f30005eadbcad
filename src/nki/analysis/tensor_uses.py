"""Uses of tensors by the statements of a core, in program order: a loop on the device is one statement."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from nki.ir.instruction import Inst
from nki.ir.loop import instructions, touched
from nki.ir.program import CoreProgram
from nki.ir.types import Tensor

_Numbers = defaultdict[Tensor, list[int]]


def _numbers() -> _Numbers:
    return defaultdict(list)


@dataclass(slots=True)
class TensorUses:
    """The numbers of the statements that access each tensor: the first, the last, those that read and that change it,
    in order; and the tensors that loops access.
    """

    first: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    last: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    readers: _Numbers = field(default_factory=_numbers)
    writers: _Numbers = field(default_factory=_numbers)
    in_loops: set[Tensor] = field(default_factory=set[Tensor])

    @classmethod
    def of(cls, core: CoreProgram) -> TensorUses:
        """The uses of all tensors that ``core`` accesses."""
        uses = cls()
        for number, statement in enumerate(core.body):
            accesses = touched(statement)
            for access in accesses:
                uses.first.setdefault(access.tensor, number)
                uses.last[access.tensor] = number
            if not isinstance(statement, Inst):
                uses.in_loops.update(access.tensor for access in accesses)
            for inst in instructions([statement]):
                for access in inst.reads():
                    uses.readers[access.tensor].append(number)
                for access in inst.changes():
                    uses.writers[access.tensor].append(number)
        return uses

    def is_changed(self, tensor: Tensor, first: int, last: int) -> bool:
        """True if a statement from ``first`` to ``last`` changes ``tensor``."""
        numbers = self.writers.get(tensor, ())
        return bisect_left(numbers, first) < bisect_right(numbers, last)
