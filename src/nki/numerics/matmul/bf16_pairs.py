"""bfloat16 matrix multiplication in pairs, with AVX512-BF16, as LLVM IR.

``VDPBF16PS`` adds two products of each word of a vector to a float, one after the other, first that of the upper
halves: two links of a chain of :mod:`nki.numerics.matmul.contract`. A register tile has few rows, so that both chains
of a group and the sum of the groups before stay in registers; a tile of three times as many rows, with sums that wait
in memory, takes longer. The instruction takes subnormal numbers for 0: callers rule them out. Source: Intel 64 and
IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I64,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    Vectors,
    at_least,
    element,
    i64,
    internal,
    mask,
    smaller,
    steps,
    while_,
    write_sums,
)
from nki.numerics.matmul.contract import CHAIN, PANEL

_LANES: Final = 16
_CHAIN_WORDS: Final = CHAIN // 2
_ACROSS: Final = PANEL // _LANES
_HEIGHTS: Final = {_ACROSS: (4, 2, 1), 1: (8, 2, 1)}
"""Rows of register tiles of so many vectors: two chains, and what they are added to, in 32 registers with operands."""
_TILE: Final = [POINTER, I64, POINTER, I64, POINTER, I64, I64, I64]


def add_pair_matmul(module: ir.Module) -> ir.Function:
    """Add to ``module``, for a processor with AVX512-BF16, and return this function.

    ::

        void nki_matmul_pairs(float *out, i64 ldo, const i32 *stationary, i64 lds, const i32 *moving, i64 ldm,
                              i64 rows, i64 columns, i64 chains, i64 accumulate)

    ``out`` (``rows`` x ``columns``) is the product by groups, plus its old contents if ``accumulate`` is more than 0.

    A word holds two bfloat16 numbers, rows 2 w and 2 w + 1 of an operand, the first one in the upper half; a chain
    has 8 words. ``stationary`` has the words of a column in a row; ``lds`` counts words from row to row. ``moving`` has
    panels of :data:`PANEL` columns of words, ``ldm`` words from panel to panel; columns beyond ``out`` do not
    matter.
    """
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64] * 3 + [I64] * 4), "nki_matmul_pairs")
    out_pointer, ldo, left, lds, right, ldm, rows, columns, chains, accumulate = function.args
    b = ir.IRBuilder(function.append_basic_block())
    out, stationary, panels = Matrix(out_pointer, ldo), Matrix(left, lds), Matrix(right, ldm)
    column, row = Variable(b, I64, i64(0)), Variable(b)

    def tiles(width: Value, vectors: int) -> None:
        """All rows of the panel at :attr:`column`."""
        here = column.get()
        panel = panels.at(b, b.sdiv(here, i64(PANEL)), i64(0))

        def call(tile: ir.Function, first: Value) -> None:
            operands = [stationary.at(b, first, i64(0)), lds, panel, chains, accumulate, width]
            b.call(tile, [out.at(b, first, here), ldo, *operands])

        row.set(i64(0))
        if vectors == _ACROSS:
            with b.if_then(at_least(b, width, PANEL)), steps(b, rows, _HEIGHTS[vectors][0], row) as first:
                call(_tile(module, _HEIGHTS[vectors][0], vectors), first)
        for height in _HEIGHTS[vectors]:
            with steps(b, rows, height, row) as first:
                call(_tile(module, height, vectors, masked=True), first)

    with while_(b, lambda: b.icmp_signed("<", column.get(), columns)):
        width = smaller(b, b.sub(columns, column.get()), PANEL)
        with b.if_else(at_least(b, width, _LANES + 1)) as (wide, narrow):
            with wide:
                tiles(width, _ACROSS)
            with narrow:
                tiles(width, 1)
        column.set(b.add(column.get(), i64(PANEL)))
    b.ret_void()
    return function


def _tile(module: ir.Module, rows: int, vectors: int, masked: bool = False) -> ir.Function:
    """``void tile(out, ldo, stationary, lds, panel, chains, accumulate, count)``: ``rows`` x ``vectors`` vectors.

    If ``masked``, only the first ``count`` columns exist; such tiles are few, and a loop goes through their words.
    """
    name = f"nki_pair_tile_{rows}x{vectors}{'_masked' if masked else ''}"
    function, b = internal(module, name, _TILE)
    out_pointer, ldo, left, lds, panel, chains, accumulate, count = function.args
    out, words, moving = Matrix(out_pointer, ldo), Matrix(left, lds), Matrix(panel, i64(PANEL))
    zero = Vectors(b, _LANES).zero
    totals = [Variable(b, zero.type, zero) for _ in range(rows * vectors)]

    def operands(chain: Value) -> tuple[list[Value], Value]:
        """The words of a chain and those behind it: of each row, and of the panel."""
        word = b.mul(chain, i64(_CHAIN_WORDS))
        return [words.at(b, i64(i), word) for i in range(rows)], moving.at(b, word, i64(0))

    with steps(b, chains, 2) as chain:
        for total, *sums in zip(totals, *_chains(b, 2, *operands(chain), vectors, not masked), strict=True):
            total.set(b.fadd(total.get(), b.fadd(*sums)))
    with b.if_then(b.icmp_signed("!=", b.and_(chains, i64(1)), i64(0))):  # a group without a second chain
        (sums,) = _chains(b, 1, *operands(b.sub(chains, i64(1))), vectors, False)
        for total, last in zip(totals, sums, strict=True):
            total.set(b.fadd(total.get(), last))
    lanes = [mask(b, _LANES, b.sub(count, i64(_LANES * j))) if masked else None for j in range(vectors)]
    memory = [Vectors(b, _LANES, each) for each in lanes]
    places = [(memory[j], out.at(b, i64(i), i64(_LANES * j))) for i in range(rows) for j in range(vectors)]
    sums = [(v, total.get(), place) for total, (v, place) in zip(totals, places, strict=True)]
    write_sums(b, b.icmp_signed(">", accumulate, i64(0)), sums)
    b.ret_void()
    return function


def _chains(
    b: Builder, count: int, rows: list[Value], moving: Value, vectors: int, unrolled: bool
) -> list[list[Value]]:
    """The sums of one chain, or of two side by side, for words of ``rows`` and of a panel."""
    v = Vectors(b, _LANES, pairs=True)
    chains = [[Variable(b, v.type, v.zero) for _ in range(len(rows) * vectors)] for _ in range(count)]

    def step(word: Value) -> None:
        for chain, sums in enumerate(chains):
            number = b.add(word, i64(_CHAIN_WORDS * chain))
            place = b.mul(number, i64(PANEL))
            columns = [v.load(element(b, moving, b.add(place, i64(_LANES * j)))) for j in range(vectors)]
            for i, row in enumerate(rows):
                scalar = v.splat(b.load(element(b, row, number), typ=F32))
                for total, column in zip(sums[vectors * i : vectors * (i + 1)], columns, strict=True):
                    total.set(v.fma(scalar, column, total.get()))

    if unrolled:
        for word in range(_CHAIN_WORDS):
            step(i64(word))
    else:
        with steps(b, i64(_CHAIN_WORDS), 1) as word:
            step(word)
    return [[total.get() for total in sums] for sums in chains]
