"""Native gather and scatter: dispatch entries before and after an instruction on indirect views.

Meaning: :mod:`nki.ir.indirection.gather_offsets`. All operands' offsets are looked up and checked first, and kept as
bytes from the start of a partition. The instruction itself runs on dense tiles in scratch memory, so its code knows
nothing of offsets. A predicated copy scatters only the elements that its predicate selects, so the predicate is dense,
too.
"""

from __future__ import annotations

from typing import Final

from nki.backend.cpu.native import library
from nki.backend.cpu.native.frame import SCRATCH, aligned
from nki.backend.cpu.runtime.storage import Storage
from nki.ir.indirection.gather_compute_scatter import GatherComputeScatter, IndirectOperand
from nki.ir.indirection.gather_offsets import group_of
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.types import Tensor

_WORD: Final = 8
Entry = tuple[int, list[int]]
"""A routine and its arguments."""


class StepEntries:
    """The dispatch entries of one instruction on indirect views: gather before its computation, and scatter after it.

    Its dense tiles and offsets take scratch memory from ``scratch`` on, behind what its routines need themselves.
    """

    def __init__(self, steps: GatherComputeScatter, scratch: int, storage: Storage) -> None:
        self.steps = steps
        self.scratch = scratch
        self._storage = storage
        self._group = group_of(steps.inst)
        """Partitions that share a list of offsets."""
        self._offsets: list[int] = []
        for operand in steps.operands:
            lists = operand.dense.shape[0] // self._group
            self._offsets.append(self._allocate(lists * operand.dense.shape[1] * _WORD))
            self._place(operand.dense.tensor)
        for copy in steps.copies:
            self._place(copy.writes()[0].tensor)

    def _allocate(self, nbytes: int) -> int:
        start = aligned(self.scratch)
        self.scratch = start + nbytes
        return start

    def _place(self, tensor: Tensor) -> None:
        self._storage.bases[tensor] = SCRATCH, self._allocate(tensor.nbytes)

    def gather(self, trap: int) -> list[Entry]:
        """Entries that look up offsets and gather; ``trap`` is the id of the trap of a wrong offset."""
        operands = list(zip(self.steps.operands, self._offsets, strict=True))
        entries = [self._look_up(operand, offsets, trap) for operand, offsets in operands]
        for operand, offsets in operands:
            if operand.reads:
                entries.append((library.address("gather", "gather"), [*self._move(operand, offsets), 0]))
        return entries

    def scatter(self) -> list[Entry]:
        """Entries that scatter."""
        operands = zip(self.steps.operands, self._offsets, strict=True)
        return [self._scatter(operand, offsets) for operand, offsets in operands if operand.writes]

    def _look_up(self, operand: IndirectOperand, offsets: int, trap: int) -> Entry:
        access, dynamic = operand.operand, operand.operand.dynamic
        assert dynamic is not None
        source, storage = dynamic.source, self._storage
        counts = [source.shape[0] // self._group, self._group, operand.dense.shape[1]]
        bounds = [dynamic.step * access.dtype.itemsize, largest_index(access), trap, operand.order]
        slot, offset, strides = storage.strided(source)
        args = [slot, offset, SCRATCH, offsets, *strides, *counts, *bounds, source.dtype.itemsize]
        return library.address("offsets", "gather"), args

    def _move(self, operand: IndirectOperand, offsets: int) -> list[int]:
        slot, offset, strides = self._storage.strided(operand.operand)
        base, start, steps = self._storage.strided(operand.dense)
        shape = [operand.dense.shape[0], self._group, operand.dense.shape[1], operand.dense.dtype.itemsize]
        return [slot, offset, SCRATCH, offsets, base, start, strides[0], steps[0], *shape]

    def _scatter(self, operand: IndirectOperand, offsets: int) -> Entry:
        routine, args = library.address("scatter", "gather"), self._move(operand, offsets)
        if not operand.predicated:
            return routine, [*args, 0]
        assert self.steps.mask is not None
        slot, offset, strides = self._storage.strided(self.steps.mask)
        selection = [self.steps.mask.dtype.itemsize, slot, offset, strides[0], int(self.steps.zeros_select)]
        return routine, [*args, *selection]
