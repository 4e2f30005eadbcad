"""Native gather and scatter: dispatch entries before and after an instruction on indirect views.

Meaning: :mod:`nki.ir.indirection.gather_offsets`. All operands' offsets are looked up and checked first, and kept as
bytes from the start of a partition. The instruction itself runs on dense tiles in scratch memory, so its code knows
nothing of offsets. A predicated copy scatters only the elements that its predicate selects, so the predicate is dense,
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nki.backend.cpu.native import library
from nki.backend.cpu.native.frame import SCRATCH, aligned
from nki.backend.cpu.runtime.storage import Storage
from nki.ir.indirection.gather_offsets import dense_temporaries, group_of, indirect_operands
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor
from nki.isa.build import copy_tile

_WORD: Final = 8
Entry = tuple[int, list[int]]
"""A routine and its arguments."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand with elements that run-time offsets choose, and the dense tile that the computation uses instead.

    ``order`` is its number among the operands with a run-time index. ``predicated``: only the elements that a predicate
    selects are scattered.
    """

    operand: Access
    dense: Access
    order: int
    reads: bool
    writes: bool
    predicated: bool


class GatherComputeScatter:
    """An instruction on indirect views as ``parts`` on dense tiles, between entries that gather and scatter.

    The first part computes. The others run after it and before anything is scattered.
    """

    def __init__(self, inst: Inst) -> None:
        compute, dense = dense_temporaries(inst)
        read, written, predicate = inst.reads(), inst.writes(), compute.write_predicate()
        indirect = indirect_operands(inst)
        self.inst, self.parts = inst, [compute]
        self._mask: Access | None = None
        """The dense predicate of a predicated copy."""
        self._zeros_select = False
        """True if its zeros select, not its other elements."""
        if predicate is not None and indirect[0][2] is written[0]:
            self._mask, self._zeros_select = predicate.operand, predicate.inverted
            if not any(tile is predicate.operand for tile in dense.values()):
                name, dtype, buffer = self._mask.name, self._mask.dtype, self._mask.buffer
                self._mask = Access.whole(Tensor(name, predicate.dst.shape, dtype, buffer))
                self.parts.append(copy_tile(self._mask, predicate.operand))
        indexed = [number for number, access in enumerate(inst.accesses()) if access.dynamic is not None]
        self._operands: list[_Operand] = []
        for number, _, access in indirect:
            reads, writes = any(access is r for r in read), any(access is w for w in written)
            is_predicated = self._mask is not None and not self._operands
            order = indexed.index(number)
            self._operands.append(_Operand(access, dense[number], order, reads, writes, is_predicated))
        self._group = group_of(inst)
        """Partitions that share a list of offsets."""

    def entries(self, scratch: int, storage: Storage, trap: int) -> tuple[list[Entry], list[Entry], int]:
        """Entries that look up offsets and gather, entries that scatter, and the bytes of scratch memory.

        Dense tiles and offsets take scratch memory from ``scratch`` on, behind what routines need themselves; ``trap``
        is the id of the trap of a wrong offset.
        """

        def allocate(nbytes: int) -> int:
            nonlocal scratch
            start = aligned(scratch)
            scratch = start + nbytes
            return start

        look_ups, gathers, scatters = list[Entry](), list[Entry](), list[Entry]()
        offsets: list[int] = []
        for operand in self._operands:
            lists = operand.dense.shape[0] // self._group
            offsets.append(allocate(lists * operand.dense.shape[1] * _WORD))
            storage.bases[operand.dense.tensor] = SCRATCH, allocate(operand.dense.tensor.nbytes)
        for copy in self.parts[1:]:
            target = copy.writes()[0].tensor
            storage.bases[target] = SCRATCH, allocate(target.nbytes)
        for operand, start in zip(self._operands, offsets, strict=True):
            look_ups.append(self._look_up(operand, start, storage, trap))
            moved = self._moved(operand, start, storage)
            if operand.reads:
                gathers.append((library.address("gather", "gather"), [*moved, 0]))
            if operand.writes:
                selection = self._selection(storage) if operand.predicated else [0]
                scatters.append((library.address("scatter", "gather"), [*moved, *selection]))
        return look_ups + gathers, scatters, scratch

    def _look_up(self, operand: _Operand, offsets: int, storage: Storage, trap: int) -> Entry:
        access, dynamic = operand.operand, operand.operand.dynamic
        assert dynamic is not None
        source = dynamic.source
        counts = [source.shape[0] // self._group, self._group, operand.dense.shape[1]]
        bounds = [dynamic.step * access.dtype.itemsize, largest_index(access), trap, operand.order]
        slot, offset, strides = storage.strided(source)
        args = [slot, offset, SCRATCH, offsets, *strides, *counts, *bounds, source.dtype.itemsize]
        return library.address("offsets", "gather"), args

    def _moved(self, operand: _Operand, offsets: int, storage: Storage) -> list[int]:
        slot, offset, strides = storage.strided(operand.operand)
        base, start, steps = storage.strided(operand.dense)
        shape = [operand.dense.shape[0], self._group, operand.dense.shape[1], operand.dense.dtype.itemsize]
        return [slot, offset, SCRATCH, offsets, base, start, strides[0], steps[0], *shape]

    def _selection(self, storage: Storage) -> list[int]:
        assert self._mask is not None
        slot, offset, strides = storage.strided(self._mask)
        return [self._mask.dtype.itemsize, slot, offset, strides[0], int(self._zeros_select)]
