"""Native gather and scatter: table rows before and after an instruction on indirect views.

Meaning: :mod:`nki.ir.indirection.gather_offsets`. All operands' offsets are looked up and checked first, and kept as
bytes from the start of a partition. The instruction itself runs on dense tiles in scratch memory, so its code knows
nothing of offsets. A predicated copy scatters only the elements that its predicate selects, so the predicate is dense,
too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime.dispatch import I8, I64, POINTER, ROUTINE, count, element, place
from nki.backend.cpu.runtime.frame import SCRATCH, STATUS, aligned
from nki.backend.cpu.runtime.storage import Storage
from nki.ir.indirection.gather_compute_scatter import GatherComputeScatter, IndirectOperand
from nki.ir.indirection.gather_offsets import group_of
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.types import Tensor
from nki.numerics.jit import engine

_WORD: Final = 8
Row = tuple[int, list[int]]
"""A routine and its arguments."""


class StepRows:
    """The rows of one instruction on indirect views: gather before its computation, and scatter after it.

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
        self._storage.place(tensor, SCRATCH, self._allocate(tensor.nbytes))

    def gather(self, site: int) -> list[Row]:
        """Rows that look up offsets and gather; ``site`` is the trap site of a wrong offset."""
        operands = list(zip(self.steps.operands, self._offsets, strict=True))
        rows = [self._look_up(operand, offsets, site) for operand, offsets in operands]
        for operand, offsets in operands:
            if operand.reads:
                rows.append((_gather(operand.dense.dtype.itemsize), self._move(operand, offsets)))
        return rows

    def scatter(self) -> list[Row]:
        """Rows that scatter."""
        operands = zip(self.steps.operands, self._offsets, strict=True)
        return [self._scatter(operand, offsets) for operand, offsets in operands if operand.writes]

    def _look_up(self, operand: IndirectOperand, offsets: int, site: int) -> Row:
        access, dynamic = operand.operand, operand.operand.dynamic
        assert dynamic is not None
        source, storage = dynamic.source, self._storage
        counts = [source.shape[0] // self._group, self._group, operand.dense.shape[1]]
        bounds = [dynamic.step * access.dtype.itemsize, largest_index(access), site, operand.order]
        slot, offset, strides = storage.address(source)
        return _lists(source.dtype.itemsize), [slot, offset, SCRATCH, offsets, *strides, *counts, *bounds]

    def _move(self, operand: IndirectOperand, offsets: int) -> list[int]:
        slot, offset, strides = self._storage.address(operand.operand)
        base, start, steps = self._storage.address(operand.dense)
        shape = [operand.dense.shape[0], self._group, operand.dense.shape[1]]
        return [slot, offset, SCRATCH, offsets, base, start, strides[0], steps[0], *shape]

    def _scatter(self, operand: IndirectOperand, offsets: int) -> Row:
        size, args = operand.dense.dtype.itemsize, self._move(operand, offsets)
        if not operand.predicated:
            return _scatter(size, 0), args
        assert self.steps.mask is not None
        slot, offset, strides = self._storage.address(self.steps.mask)
        selection = [slot, offset, strides[0], int(self.steps.zeros_select)]
        return _scatter(size, self.steps.mask.dtype.itemsize), [*args, *selection]


@cache
def _lists(width: int) -> int:
    """The routine that looks up offsets of ``width`` bytes each.

    Its arguments are the addresses of the index and of the result; the steps of the index from partition to partition
    and from column to column, in bytes; the numbers of groups, of partitions in each and of offsets; the bytes of an
    offset of 1, and the largest legal offset; the trap site and the number of the operand, for the error.
    """
    module = ir.Module("nki_lists")
    b, frame, args = _routine(module)
    index, result = place(b, frame, args, 0), place(b, frame, args, 2)
    down, right, groups, group, length, step, largest, site, order = (_word(b, args, i) for i in range(4, 13))

    def look_up(number: Any, i: Any) -> None:
        row = b.add(b.mul(number, group), b.urem(i, group))
        at = b.add(b.mul(row, down), b.mul(b.udiv(i, group), right))
        offset = b.zext(b.load(_at(b, index, at), typ=ir.IntType(8 * width), align=1), I64)
        legal = b.icmp_signed("<=", offset, largest)
        with b.if_then(b.not_(legal), likely=False):
            _trap(b, frame, (site, order, offset))
        entry = b.mul(b.add(b.mul(number, length), i), _i64(_WORD))
        b.store(b.select(legal, b.mul(offset, step), _i64(0)), _at(b, result, entry))

    count(b, groups, lambda number: count(b, length, lambda i: look_up(number, i)))
    b.ret_void()
    return engine().compile(module)["nki_rows"]


def _trap(b: Any, frame: Any, words: tuple[Any, Any, Any]) -> None:
    """Store ``words`` as the status of the launch, unless it has failed before."""
    status = element(b, frame, _i64(STATUS), POINTER)
    with b.if_then(b.icmp_signed("==", b.load(status, typ=I64), _i64(0))):
        for number, word in enumerate(words):
            b.store(word, _at(b, status, _i64(_WORD * number)))


@cache
def _gather(size: int) -> int:
    """The routine that gathers elements of ``size`` bytes into a dense tile; see :func:`_move_elements`."""
    return _move_elements(size, 0, False)


@cache
def _scatter(size: int, mask: int) -> int:
    """The routine that scatters elements of ``size`` bytes from a dense tile; see :func:`_move_elements`."""
    return _move_elements(size, mask, True)


def _move_elements(size: int, mask: int, scatters: bool) -> int:
    """A routine that moves elements of ``size`` bytes; with ``mask``, only those selected by elements of so many bytes.

    Its arguments are the addresses of the tile, of its offsets in bytes and of the dense tile; the step in bytes from
    partition to partition of the tile, and of the dense tile; the numbers of partitions, of those in a group, and of
    offsets; with ``mask`` the address and the step of the dense predicate, and whether its zeros select.
    """
    module = ir.Module("nki_moving")
    kind = ir.IntType(8 * size)
    b, frame, args = _routine(module)
    tile, offsets, dense = (place(b, frame, args, i) for i in (0, 2, 4))
    step, dense_step, partitions, group, length = (_word(b, args, i) for i in range(6, 11))
    predicate = place(b, frame, args, 11) if mask else None
    predicate_step = _word(b, args, 13) if mask else None
    zeros = b.icmp_signed("!=", _word(b, args, 14), _i64(0)) if mask else None

    def partition(number: Any) -> None:
        tile_row = _at(b, tile, b.mul(number, step))
        dense_row = _at(b, dense, b.mul(number, dense_step))
        offsets_row = _at(b, offsets, b.mul(b.mul(b.udiv(number, group), length), _i64(_WORD)))

        def move(i: Any) -> None:
            indirect = _at(b, tile_row, b.load(_at(b, offsets_row, b.mul(i, _i64(_WORD))), typ=I64))
            direct = _at(b, dense_row, b.mul(i, _i64(size)))
            source, target = (direct, indirect) if scatters else (indirect, direct)
            value = b.load(source, typ=kind, align=1)
            if mask:
                row = _at(b, predicate, b.mul(number, predicate_step))
                word = b.load(_at(b, row, b.mul(i, _i64(mask))), typ=ir.IntType(8 * mask), align=1)
                selected = b.xor(b.icmp_signed("!=", word, ir.Constant(word.type, 0)), zeros)
                value = b.select(selected, value, b.load(target, typ=kind, align=1))
            b.store(value, target, align=1)

        count(b, length, move)

    count(b, partitions, partition)
    b.ret_void()
    return engine().compile(module)["nki_rows"]


def _routine(module: ir.Module) -> tuple[Any, Any, Any]:
    """A builder in a new routine, its frame and its arguments."""
    function = ir.Function(module, ROUTINE, "nki_rows")
    frame, args, *_ = function.args
    return ir.IRBuilder(function.append_basic_block("entry")), frame, args


def _i64(number: int) -> Any:
    return ir.Constant(I64, number)


def _word(b: Any, args: Any, number: int) -> Any:
    return element(b, args, _i64(number), I64)


def _at(b: Any, base: Any, offset: Any) -> Any:
    return b.gep(base, [offset], source_etype=I8)
