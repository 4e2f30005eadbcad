"""bfloat16 matrix multiplication with the tile registers of AMX, as LLVM IR.

``TDPBF16PS`` multiplies 16 x 32 by 32 x 16 numbers and adds the result to 16 x 16 floats. For each element it makes two
chains of 16 fused multiply-adds from +0 on, adds both, and adds that to the element: which is the contract of
:mod:`nki.numerics.matmul.contract` for products by groups. It takes subnormal numbers for 0: callers rule them out.
Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I8,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    at_least,
    call,
    canonical_nan,
    element,
    i64,
    internal,
    prefetch,
    scratch,
    smaller,
    steps,
    while_,
)
from nki.numerics.matmul.contract import CHAIN, PANEL

_SIDE: Final = CHAIN
"""Rows of a tile register, and floats or words in each."""
_ACROSS: Final = PANEL // _SIDE
_TILES: Final = 8
_LEFT, _RIGHT = 2 * _ACROSS, 2 * _ACROSS + 2
"""The first registers of the operands; those below are sums, two tiles high and two wide."""
_FETCHED: Final = 8
"""Lines that are fetched at a time, of the :data:`PANEL` lines of each group: all, if there are four blocks of rows."""
AS_SUMMED: Final = -1
"""For ``accumulate``: the product as the tile registers have it."""


def add_amx_matmul(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_matmul_amx(float *out, i64 ldo, const i32 *stationary, i64 lds, const i32 *moving, i64 ldm,
                            i64 rows, i64 columns, i64 groups, i64 accumulate)

    ``out`` (``rows`` x ``columns``) is the product, plus its old contents if ``accumulate`` is not 0. If that is
    :data:`AS_SUMMED`, old contents do not count, a NaN is any NaN, and ``out`` must have :data:`PANEL` columns and a
    multiple of 16 rows; all are written.

    A word holds two bfloat16 numbers: word w of group g has rows 32 g + w and 32 g + 16 + w of an operand, in either
    half, but in the same one for both operands. ``stationary`` has the 16 words of all groups of a column in a row, and
    rows up to a multiple of 16; ``lds`` counts words from row to row. ``moving`` has panels of :data:`PANEL` columns of
    words, ``ldm`` words from panel to panel. What is in rows and columns beyond ``out`` does not matter. The
    tile registers must be configured: ``void nki_amx_begin()`` is called before products, ``void nki_amx_end()`` after.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64] * 3 + [I64] * 4), "nki_matmul_amx")
    out_pointer, ldo, left, lds, right, ldm, rows, columns, groups, accumulate = function.args
    b = ir.IRBuilder(function.append_basic_block())
    stationary, panels = Matrix(left, lds), Matrix(right, ldm)

    with b.if_then(b.icmp_signed("==", accumulate, i64(AS_SUMMED))):
        for high, row, _ in _blocks(b, rows):
            _block(b, high, (stationary.row(b, row), right, groups), Matrix(out_pointer, ldo).row(b, row))
        b.ret_void()
    sums = _Sums(b, ldo, b.icmp_signed("!=", accumulate, i64(0)))
    column = Variable(b, I64, i64(0))
    with while_(b, lambda: b.icmp_signed("<", column.get(), columns)):
        number = b.sdiv(column.get(), i64(PANEL))
        panel, out = panels.at(b, number, i64(0)), Matrix(element(b, out_pointer, column.get()), ldo)
        columns_left = b.sub(columns, column.get())
        width = smaller(b, columns_left, PANEL)
        exists = b.icmp_signed(">", columns_left, i64(PANEL))
        ahead = _Ahead(b, panels.at(b, b.add(number, i64(1)), i64(0)), rows, exists)
        for high, row, count in _blocks(b, rows):
            _block(b, high, (stationary.row(b, row), panel, groups), Matrix(sums.pointer, i64(PANEL)), sums, ahead)
            sums.stored(out.at(b, row, i64(0)), count, width)
        column.set(b.add(column.get(), i64(PANEL)))
    sums.write()
    b.ret_void()
    _add_begin_and_end(module)
    return function


def _add_begin_and_end(module: ir.Module) -> None:
    for name, instruction in (("begin", "ldtilecfg"), ("end", "tilerelease")):
        function = ir.Function(module, ir.FunctionType(VOID, []), f"nki_amx_{name}")
        b = ir.IRBuilder(function.append_basic_block())
        call(b, f"llvm.x86.{instruction}", VOID, [_configuration(module)] if name == "begin" else [])
        b.ret_void()


def _blocks(b: Builder, rows: Value) -> Iterator[tuple[int, Value, Value]]:
    """Emit a loop over blocks of two tiles of ``rows`` and, behind it, one tile if no more is left.

    Each gives the tiles that are one above the other, the first row, and the number of rows.
    """
    row = Variable(b, I64, i64(0))
    with while_(b, lambda: b.icmp_signed(">", b.sub(rows, row.get()), i64(_SIDE))):
        here = row.get()
        yield 2, here, smaller(b, b.sub(rows, here), 2 * _SIDE)
        row.set(b.add(here, i64(2 * _SIDE)))
    with b.if_then(b.icmp_signed("<", row.get(), rows)):
        yield 1, row.get(), b.sub(rows, row.get())


class _Sums:
    """The sums of the last block of tiles, at :attr:`pointer`, which are written while the next block is multiplied.

    All go to the result at once, behind the first group: a few with each group cost no less time, but a lower clock.
    ``ldo``: elements from row to row of the result; ``adds``: true if they are added to it.
    """

    def __init__(self, b: Builder, ldo: Value, adds: Value) -> None:
        self._b, self._ldo, self._adds = b, ldo, adds
        self._write = _add_write(b.module)
        self.pointer = scratch(b, 2 * _SIDE * PANEL)
        self._out, self._rows, self._columns = Variable(b, POINTER), Variable(b), Variable(b)
        self._rows.set(i64(0))

    def stored(self, out: Value, rows: Value, columns: Value) -> None:
        """Note that the next block has been stored, at ``out`` in the result."""
        self._out.set(out)
        self._rows.set(rows)
        self._columns.set(columns)

    def write(self) -> None:
        """Write them, if they have not been written."""
        b, rows = self._b, self._rows.get()
        with b.if_then(b.icmp_signed(">", rows, i64(0))):
            b.call(self._write, [self._out.get(), self._ldo, self.pointer, rows, self._columns.get(), self._adds])
            self._rows.set(i64(0))


def _add_write(module: ir.Module) -> ir.Function:
    """Add to ``module`` the function that writes ``rows`` x ``columns`` sums, or adds them; NaN becomes canonical.

    A whole block is written without a loop, which two threads with a half of each product pay for.
    """
    flag = ir.IntType(1)
    function, b = internal(module, "nki_amx_write", [POINTER, I64, POINTER, I64, I64, flag])
    out_pointer, ldo, sums_pointer, rows, columns, adds = function.args
    out, sums = Matrix(out_pointer, ldo), Matrix(sums_pointer, i64(PANEL))

    def copy(row: Value, column: Value, lanes: int, adds: bool) -> None:
        kind = ir.VectorType(F32, lanes) if lanes > 1 else F32
        place = out.at(b, row, column)
        value = b.load(sums.at(b, row, column), typ=kind, align=4)
        if adds:
            value = b.fadd(b.load(place, typ=kind, align=4), value)
        b.store(canonical_nan(b, value), place, align=4)

    def block(adds: bool) -> None:
        for row in range(2 * _SIDE):
            for column in range(0, PANEL, _SIDE):
                copy(i64(row), i64(column), _SIDE, adds)

    def part(adds: bool) -> None:
        column = Variable(b)
        with steps(b, rows, 1) as row:
            column.set(i64(0))
            for lanes in (_SIDE, 1):
                with steps(b, columns, lanes, column) as here:
                    copy(row, here, lanes, adds)

    is_whole = b.and_(at_least(b, rows, 2 * _SIDE), at_least(b, columns, PANEL))
    with b.if_else(adds) as branches:
        for branch, adds_here in zip(branches, (True, False), strict=True):
            with branch, b.if_else(is_whole) as (then, otherwise):
                with then:
                    block(adds_here)
                with otherwise:
                    part(adds_here)
    b.ret_void()
    return function


class _Ahead:
    """The panel behind one, if it ``exists``, which is fetched to the second-level cache."""

    def __init__(self, b: Builder, panel: Value, rows: Value, exists: Value) -> None:
        self._b, self._next = b, Variable(b, POINTER, panel)
        self._lines: Value = i64(_FETCHED)
        for blocks in (2, 1):
            are_few = b.icmp_signed("<=", rows, i64(blocks * 2 * _SIDE))
            self._lines = b.select(are_few, i64(PANEL // blocks), self._lines)
        self._lines = b.select(exists, self._lines, i64(0))

    def fetch(self) -> None:
        """Fetch as many of its lines as are due with each group of each block of rows."""
        b = self._b
        with steps(b, self._lines, _FETCHED):
            for line in range(_FETCHED):
                prefetch(b, element(b, self._next.get(), line * LINE // 4), level=2)
            self._next.set(element(b, self._next.get(), _FETCHED * LINE // 4))


def _block(
    b: Builder,
    high: int,
    operands: tuple[Matrix, Value, Value],
    target: Matrix,
    sums: _Sums | None = None,
    ahead: _Ahead | None = None,
) -> None:
    """``high`` x 2 tiles of the product, to ``target``; ``operands``: the stationary one, a panel, and its groups.

    The ``sums`` before are written meanwhile, and lines of the panel ``ahead`` are fetched. There are groups.
    """
    stationary, panel, groups = operands
    moving = Matrix(panel, i64(PANEL))
    places = [(i, j) for i in range(high) for j in range(_ACROSS)]
    left_step, right_step, step = (b.mul(matrix.stride, i64(4)) for matrix in (stationary, moving, target))
    for i, j in places:
        call(b, "llvm.x86.tilezero", VOID, [_tile(_ACROSS * i + j)])
    with steps(b, groups, 1) as group:
        word = b.mul(group, i64(_SIDE))
        if ahead is not None:
            ahead.fetch()
        for j in range(_ACROSS):
            call(b, "llvm.x86.tileloadd64", VOID, [_tile(_RIGHT + j), moving.at(b, word, i64(_SIDE * j)), right_step])
        for i in range(high):
            call(b, "llvm.x86.tileloadd64", VOID, [_tile(_LEFT + i), stationary.at(b, i64(_SIDE * i), word), left_step])
        for i, j in places:
            call(b, "llvm.x86.tdpbf16ps", VOID, [_tile(_ACROSS * i + j), _tile(_LEFT + i), _tile(_RIGHT + j)])
        if sums is not None:
            sums.write()
    for i, j in places:
        place = target.at(b, i64(_SIDE * i), i64(_SIDE * j))
        call(b, "llvm.x86.tilestored64", VOID, [_tile(_ACROSS * i + j), place, step])


def _configuration(module: ir.Module) -> ir.GlobalVariable:
    """All registers have 16 rows of 64 bytes: palette 1, 14 bytes of zeros, 16 row sizes, 16 numbers of rows."""
    sizes = [byte for number in range(16) for byte in (LINE if number < _TILES else 0, 0)]
    numbers = [1, *[0] * 15, *sizes, *[_SIDE if number < _TILES else 0 for number in range(16)]]
    kind = ir.ArrayType(I8, len(numbers))
    constant = ir.GlobalVariable(module, kind, "nki_amx_configuration")
    constant.linkage, constant.global_constant, constant.align = "internal", True, LINE
    constant.initializer = ir.Constant(kind, [ir.Constant(I8, number) for number in numbers])
    constant.type = POINTER  # llvmlite gives it a typed pointer, which would not match others
    return constant


def _tile(number: int) -> ir.Constant:
    return ir.Constant(I8, number)
