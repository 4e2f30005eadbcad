"""Indirect views in native code: rows of a plan that gather before an instruction and scatter behind it.

Meaning: :mod:`nki.ir.gather_offsets`. All operands' offsets are looked up and checked first, and kept as bytes from a
partition's start. The instruction itself runs on dense tiles in scratch memory, so its code knows nothing of offsets. A
predicated copy scatters only what its predicate chooses, which therefore lies in such a tile, too.
"""

# llvmlite ships no type information.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime.dispatch import I8, I64, POINTER, ROUTINE, SCRATCH, STATUS, count, element, place
from nki.ir.gather_offsets import chosen, group_of, stand_ins
from nki.ir.instruction import Inst
from nki.ir.runtime_index import largest_index
from nki.ir.types import Access, Tensor
from nki.isa.instructions.tensor_copy import TensorCopy
from nki.isa.instructions.tensor_copy_predicated import TensorCopyPredicated
from nki.numerics.jit import engine

_ALIGN: Final = 64
_WORD: Final = 8
Row = tuple[int, list[int]]
"""A routine and its arguments."""
Locate = Callable[[Access], list[int]]
"""Gives the place of a window: a base and an offset in bytes."""


@dataclass(slots=True)
class View:
    """An operand whose elements are chosen, and the dense tile that stands in for it."""

    operand: Access
    stand: Access
    order: int
    """Its number among the operands with a run-time index."""
    reads: bool
    writes: bool
    masked: bool = False
    """Only what a predicate chooses is written."""
    offsets: int = 0
    """Where in scratch memory its offsets are."""


@dataclass(slots=True)
class Staged:
    """What runs for an instruction on indirect views: ``direct`` and then ``copies`` are ordinary instructions."""

    inst: Inst
    direct: Inst
    views: list[View]
    copies: list[Inst]
    places: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    """Where in scratch memory the dense tiles are."""
    size: int = 0

    @property
    def group(self) -> int:
        """Partitions that share a list of offsets."""
        return group_of(self.inst)

    def parts(self) -> list[Inst]:
        """The instructions that need routines."""
        return [self.direct, *self.copies]

    def lay_out(self, start: int) -> None:
        """Find places in scratch memory from ``start`` on, where the routines' own ends."""
        self.size = start
        for view in self.views:
            view.offsets = self._take(view.stand.shape[0] // self.group * view.stand.shape[1] * _WORD)
            self.places[view.stand.tensor] = self._take(view.stand.tensor.nbytes)
        for copy in self.copies:
            self.places[copy.writes()[0].tensor] = self._take(copy.writes()[0].tensor.nbytes)

    def _take(self, nbytes: int) -> int:
        start = -(-self.size // _ALIGN) * _ALIGN
        self.size = start + nbytes
        return start

    def before(self, site: int, locate: Locate) -> list[Row]:
        """The rows that look up offsets and gather; instruction number ``site`` is named where that fails."""
        rows = [self._look_up(view, site, locate) for view in self.views]
        return rows + [self._move(view, locate, _gather(_size(view))) for view in self.views if view.reads]

    def behind(self, locate: Locate) -> list[Row]:
        """The rows that scatter."""
        return [self._scatter(view, locate) for view in self.views if view.writes]

    def _look_up(self, view: View, site: int, locate: Locate) -> Row:
        dynamic = view.operand.dynamic
        assert dynamic is not None
        source = dynamic.source
        width = source.dtype.itemsize
        steps = [step * width for step in source.strides]
        counts = [source.shape[0] // self.group, self.group, view.stand.shape[1]]
        bounds = [dynamic.step * _size(view), largest_index(view.operand), site, view.order]
        return _lists(width), [*locate(source), SCRATCH, view.offsets, *steps, *counts, *bounds]

    def _move(self, view: View, locate: Locate, routine: int) -> Row:
        step = view.operand.strides[0] * _size(view)
        shape = [view.stand.shape[0], self.group, view.stand.shape[1]]
        stand = self.places[view.stand.tensor]
        return routine, [*locate(view.operand), SCRATCH, view.offsets, SCRATCH, stand, step, *shape]

    def _scatter(self, view: View, locate: Locate) -> Row:
        if not view.masked:
            return self._move(view, locate, _scattering(_size(view), 0))
        assert isinstance(self.direct, TensorCopyPredicated)
        predicate = self.copies[0].writes()[0] if self.copies else self.direct.predicate
        routine, args = self._move(view, locate, _scattering(_size(view), predicate.dtype.itemsize))
        return routine, [*args, SCRATCH, self.places[predicate.tensor], int(self.direct.reverse_pred)]


def _size(view: View) -> int:
    return view.stand.dtype.itemsize


def staged(inst: Inst) -> Staged | None:
    """How ``inst`` runs; None for one without indirect views."""
    found = chosen(inst) if inst.by_elements and inst.indexed_by() else []
    if not found:
        return None
    direct, stands = stand_ins(inst)
    read, written = inst.reads(), inst.writes()
    indexed = [n for n, a in enumerate(inst.accesses()) if a.dynamic is not None]
    views = [
        View(a, stands[n], indexed.index(n), any(a is r for r in read), any(a is w for w in written))
        for n, _, a in found
    ]
    copies: list[Inst] = []
    if isinstance(direct, TensorCopyPredicated) and views[0].operand is inst.writes()[0]:
        views[0].masked = True
        plain = direct.predicate
        if not any(view.stand is plain for view in views):
            tile = Access.whole(Tensor(plain.name, direct.dst.shape, plain.dtype, plain.buffer))
            copies.append(TensorCopy(tile, plain))
    return Staged(inst, direct, views, copies)


@cache
def _lists(width: int) -> int:
    """The routine that looks offsets up, of ``width`` bytes each.

    Its arguments are the places of the index and of the result; the index's steps from partition to partition and from
    column to column, in bytes; the numbers of groups, of partitions in each and of offsets; what an offset of 1 is in
    bytes, and the largest that is legal; the number of the instruction and of its operand, for the error.
    """
    module = ir.Module("nki_lists")
    b, bases, args = _routine(module)
    index, result = place(b, bases, args, 0), place(b, bases, args, 2)
    down, right, groups, group, length, step, largest, site, order = (_word(b, args, i) for i in range(4, 13))

    def one(number: Any, i: Any) -> None:
        row = b.add(b.mul(number, group), b.urem(i, group))
        at = b.add(b.mul(row, down), b.mul(b.udiv(i, group), right))
        offset = b.zext(b.load(_at(b, index, at), typ=ir.IntType(8 * width), align=1), I64)
        fits = b.icmp_signed("<=", offset, largest)
        with b.if_then(b.not_(fits), likely=False):
            _note(b, bases, (site, order, offset))
        to = b.mul(b.add(b.mul(number, length), i), _i64(_WORD))
        b.store(b.select(fits, b.mul(offset, step), _i64(0)), _at(b, result, to))

    count(b, groups, lambda number: count(b, length, lambda i: one(number, i)))
    b.ret_void()
    return engine().compile(module)["nki_rows"]


def _note(b: Any, bases: Any, words: tuple[Any, Any, Any]) -> None:
    """Keep ``words`` as the launch's error, unless it has one."""
    status = element(b, bases, _i64(STATUS), POINTER)
    with b.if_then(b.icmp_signed("==", b.load(status, typ=I64), _i64(0))):
        for number, word in enumerate(words):
            b.store(word, _at(b, status, _i64(_WORD * number)))


@cache
def _gather(size: int) -> int:
    """The routine that gathers elements of ``size`` bytes into a dense tile; see :func:`_moving`."""
    return _moving(size, 0, False)


@cache
def _scattering(size: int, mask: int) -> int:
    """The routine that scatters elements of ``size`` bytes from a dense tile: with ``mask``, those that a dense tile of
    elements of so many bytes chooses; see :func:`_moving`.
    """
    return _moving(size, mask, True)


def _moving(size: int, mask: int, scatters: bool) -> int:
    """A routine whose arguments are the places of the tile, of its offsets in bytes and of the dense tile; the step in
    bytes from partition to partition of the tile; the numbers of partitions, of those in a group, and of offsets; with
    ``mask`` the place of that and whether its zeros choose.
    """
    module = ir.Module("nki_moving")
    kind = ir.IntType(8 * size)
    b, bases, args = _routine(module)
    tile, offsets, dense = (place(b, bases, args, i) for i in (0, 2, 4))
    step, partitions, group, length = (_word(b, args, i) for i in range(6, 10))
    choices = place(b, bases, args, 10) if mask else None
    zeros = b.icmp_signed("!=", _word(b, args, 12), _i64(0)) if mask else None

    def partition(number: Any) -> None:
        row = _at(b, tile, b.mul(number, step))
        mine = _at(b, offsets, b.mul(b.mul(b.udiv(number, group), length), _i64(_WORD)))
        first = b.mul(number, length)

        def one(i: Any) -> None:
            there = _at(b, row, b.load(_at(b, mine, b.mul(i, _i64(_WORD))), typ=I64))
            here = _at(b, dense, b.mul(b.add(first, i), _i64(size)))
            source, target = (here, there) if scatters else (there, here)
            value = b.load(source, typ=kind, align=1)
            if mask:
                chosen = b.load(_at(b, choices, b.mul(b.add(first, i), _i64(mask))), typ=ir.IntType(8 * mask), align=1)
                takes = b.xor(b.icmp_signed("!=", chosen, ir.Constant(chosen.type, 0)), zeros)
                value = b.select(takes, value, b.load(target, typ=kind, align=1))
            b.store(value, target, align=1)

        count(b, length, one)

    count(b, partitions, partition)
    b.ret_void()
    return engine().compile(module)["nki_rows"]


def _routine(module: ir.Module) -> tuple[Any, Any, Any]:
    """A builder in a new routine, its bases and its arguments."""
    function = ir.Function(module, ROUTINE, "nki_rows")
    bases, args, *_ = function.args
    return ir.IRBuilder(function.append_basic_block("entry")), bases, args


def _i64(number: int) -> Any:
    return ir.Constant(I64, number)


def _word(b: Any, args: Any, number: int) -> Any:
    return element(b, args, _i64(number), I64)


def _at(b: Any, base: Any, offset: Any) -> Any:
    return b.gep(base, [offset], source_etype=I8)
