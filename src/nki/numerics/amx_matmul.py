"""bfloat16 matrix multiplication with the tile registers of AMX, as LLVM IR.

``TDPBF16PS`` multiplies 16 x 32 by 32 x 16 numbers and adds the result to 16 x 16 floats. For each element it makes two
chains of 16 fused multiply-adds from +0 on, adds both, and adds that to the element: which is the contract of
:mod:`nki.numerics.matmul` for products by groups. It takes subnormal numbers for 0: callers rule them out.
Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    canonical_nan,
    i64,
    scratch,
    smaller,
    steps,
    while_,
)
from nki.numerics.matmul import CHAIN, PANEL

I8: Final = ir.IntType(8)
_SIDE: Final = CHAIN
"""Rows of a tile register, and floats or words in each."""
_ACROSS: Final = PANEL // _SIDE
_TILES: Final = 8
_LEFT, _RIGHT = 2 * _ACROSS, 2 * _ACROSS + 2
"""The first registers of the operands; those below are sums, two tiles high and two wide."""
AS_SUMMED: Final = -1
"""For ``accumulate``: the product as the tile registers have it."""


def add_amx_matmul(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_matmul_amx(float *out, i64 ldo, const i32 *stationary, i64 lds, const i32 *moving, i64 ldm,
                            i64 rows, i64 columns, i64 groups, i64 accumulate)

    ``out`` (``rows`` x ``columns``, at most :data:`PANEL` columns) is the product, plus its old contents if
    ``accumulate`` is not 0. If that is :data:`AS_SUMMED`, old contents do not count, a NaN is any NaN, and ``out`` must
    have :data:`PANEL` columns and a multiple of 16 rows, of which all are written.

    A word holds two bfloat16 numbers: word w of group g has rows 32 g + w and 32 g + 16 + w of an operand, in either
    half, but in the same one for both operands. ``stationary`` has the 16 words of all groups of a column in a row, and
    rows up to a multiple of 16; ``moving`` has :data:`PANEL` columns of words. What is in rows and columns beyond those
    of ``out`` does not matter. ``lds`` and ``ldm`` count words from row to row. The tile registers must be configured:
    see :func:`add_begin_and_end`.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64] * 3 + [I64] * 4), "nki_matmul_amx")
    out_pointer, ldo, left, lds, right, ldm, rows, columns, groups, accumulate = function.args
    b = ir.IRBuilder(function.append_basic_block())
    out, stationary, moving = Matrix(out_pointer, ldo), Matrix(left, lds), Matrix(right, ldm)
    sums = Matrix(scratch(b, 2 * _SIDE * PANEL), i64(PANEL))
    row = Variable(b)
    row.set(i64(0))
    adds = b.icmp_signed("!=", accumulate, i64(0))
    is_done = b.icmp_signed("==", accumulate, i64(AS_SUMMED))
    step = b.select(is_done, ldo, sums.stride)
    with while_(b, lambda: b.icmp_signed("<", row.get(), rows)):
        here = row.get()
        rest = b.sub(rows, here)
        count = smaller(b, rest, 2 * _SIDE)
        place = out.at(b, here, i64(0))
        target = Matrix(b.select(is_done, place, sums.pointer), step)
        with b.if_else(b.icmp_signed(">", rest, i64(_SIDE))) as (then, otherwise):
            for case, high in ((then, 2), (otherwise, 1)):
                with case:
                    _block(b, high, Matrix(stationary.at(b, here, i64(0)), lds), moving, groups, target)
        with b.if_then(b.not_(is_done)):
            _finish(b, Matrix(place, ldo), sums, count, columns, adds)
        row.set(b.add(here, count))
    b.ret_void()
    return function


def add_begin_and_end(module: ir.Module) -> None:
    """Add to ``module`` ``void nki_amx_begin()``, to be called before products, and ``void nki_amx_end()``."""
    for name, instruction in (("begin", "ldtilecfg"), ("end", "tilerelease")):
        function = ir.Function(module, ir.FunctionType(VOID, []), f"nki_amx_{name}")
        b = ir.IRBuilder(function.append_basic_block())
        _call(b, instruction, [_configuration(module)] if name == "begin" else [])
        b.ret_void()


def _block(b: Builder, high: int, stationary: Matrix, moving: Matrix, groups: Value, sums: Matrix) -> None:
    """``high`` x 2 tiles of the product, to ``sums``."""
    places = [(i, j) for i in range(high) for j in range(_ACROSS)]
    left_step, right_step, step = (b.mul(matrix.stride, i64(4)) for matrix in (stationary, moving, sums))
    for i, j in places:
        _call(b, "tilezero", [_tile(_ACROSS * i + j)])
    with steps(b, groups, 1) as group:
        word = b.mul(group, i64(_SIDE))
        for j in range(_ACROSS):
            _call(b, "tileloadd64", [_tile(_RIGHT + j), moving.at(b, word, i64(_SIDE * j)), right_step])
        for i in range(high):
            _call(b, "tileloadd64", [_tile(_LEFT + i), stationary.at(b, i64(_SIDE * i), word), left_step])
        for i, j in places:
            _call(b, "tdpbf16ps", [_tile(_ACROSS * i + j), _tile(_LEFT + i), _tile(_RIGHT + j)])
    for i, j in places:
        _call(b, "tilestored64", [_tile(_ACROSS * i + j), sums.at(b, i64(_SIDE * i), i64(_SIDE * j)), step])


def _finish(b: Builder, out: Matrix, sums: Matrix, rows: Value, columns: Value, adds: Value) -> None:
    """Write ``sums`` to ``out``, or add them to it; a NaN becomes the canonical one."""

    def copy(row: Value, column: Value, lanes: int, add: bool) -> None:
        kind = ir.VectorType(F32, lanes) if lanes > 1 else F32
        place = out.at(b, row, column)
        value = b.load(sums.at(b, row, column), typ=kind, align=4)
        if add:
            value = b.fadd(b.load(place, typ=kind, align=4), value)
        b.store(canonical_nan(b, value), place, align=4)

    def whole(row: Value, add: bool) -> None:
        for column in range(0, PANEL, _SIDE):
            copy(row, i64(column), _SIDE, add)

    def part(row: Value, add: bool) -> None:
        column = Variable(b)
        column.set(i64(0))
        for lanes in (_SIDE, 1):
            with steps(b, columns, lanes, column) as here:
                copy(row, here, lanes, add)

    with b.if_else(adds) as branches:
        for branch, add in zip(branches, (True, False), strict=True):
            with branch, b.if_else(b.icmp_signed("==", columns, i64(PANEL))) as cases:
                for case, line in zip(cases, (whole, part), strict=True):
                    with case, steps(b, rows, 1) as row:
                        line(row, add)


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


def _call(b: Builder, name: str, arguments: list[Any]) -> None:
    full = f"llvm.x86.{name}"
    function = b.module.globals.get(full)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(VOID, [a.type for a in arguments]), full)
    b.call(function, arguments)
