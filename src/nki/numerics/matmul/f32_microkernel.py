"""The micro-kernel of float32 numbers, which any processor has, as LLVM IR.

A tile of the output stays in registers while a loop over k broadcasts stationary elements against vectors of the
moving matrix. Both operands are stored with k as the slow axis, as the tensor engine has them, so that both are read in
rows. The moving one may instead lie in panels of :data:`PANEL` columns, each dense, one behind the other: then a panel
is read where it is; of plain rows a copy is made, by the first tile of a panel if there are some. The stationary one
may lie in blocks of :data:`BLOCK` columns; no tile takes columns of two blocks. Rows of the operand itself may be far
apart: then each is in another page, and if the distance is a power of two, all fight for few sets of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Cursor,
    Matrix,
    Value,
    Variable,
    Vectors,
    at_least,
    canonical_nan,
    element,
    i64,
    internal,
    mask,
    prefetch,
    scratch,
    smaller,
    steps,
    switch,
    while_,
    write_sums,
)
from nki.numerics.matmul.contract import BLOCK, BLOCKS, CHAIN, PANEL
from nki.numerics.matmul.conversions import ROWS_TO_BLOCKS, ROWS_TO_ROWS, add_conversion

# Arguments of the public functions and of a tile: pointers with strides, then sizes and flags.
_MATMUL: Final = [POINTER, I64, POINTER, I64, I64, POINTER, I64, I64, I64, I64, I64, I64]
_TILE: Final = [POINTER, I64, POINTER, I64, I64, POINTER, I64, I64, I64, I64, POINTER, I64]

_UNROLLED: Final = 4
"""Steps over k in a round of the loop of a large tile: what counts the rounds takes the place of multiplications."""
# The deepest product with copied panels of the moving matrix. A copy is contiguous, so its rows do not fight for
# the few cache sets that a stride of a power of two leaves them; 256 rows of two AVX-512 vectors are 32 KiB, one L1.
_COPIED_DEPTH: Final = 256
# Columns of the product that is transposed at a time, when the product has few columns.
_NARROW_BLOCK: Final = 128
_MOST: Final = 128
"""The most rows and columns of a stationary operand that is copied, in blocks."""
_PAYS_COPY: Final = 128
"""The fewest columns of a product for which the copy pays: each column costs as much as the copy."""


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Register tiles of vectors of ``lanes``: ``rows`` x 2 in general, ``rows`` x ``wide[rows]`` for so few rows.

    An addition takes about four cycles and one or two start in each, so a tile wants eight or more accumulators; they
    and the operands must fit the registers (32 with AVX-512 and on ARM, 16 with AVX2).
    """

    lanes: int
    rows: int
    wide: dict[int, int]
    chain: int = 0
    """Products in a chain; 0: all are one chain."""

    @property
    def block(self) -> int:
        """Rows beside each other in a stationary operand that is laid out in blocks: :data:`BLOCK`, or whole tiles."""
        return self.rows if self.rows % BLOCK else BLOCK

    @property
    def has_dense_tile(self) -> bool:
        """True if the largest tile has a version for rows of one block and of one panel, without gaps.

        Its steps are constants, so that no address of its loop waits in memory. A panel must be as wide as the tile.
        """
        return self.chain == 0 and 2 * self.lanes == PANEL


_TILING: Final = {
    4: _Tiling(4, 8, {1: 8, 2: 6, 3: 4, 4: 4}),
    8: _Tiling(8, 6, {1: 8, 2: 5, 3: 3}),
    16: _Tiling(16, 12, {1: 8, 2: 6, 3: 4, 4: 4}),
}
_HIGHEST_NARROW: Final = 8
"""Rows of register tiles of one vector."""


def columns_of_block(lanes: int) -> int:
    """Columns of a block of the stationary operand for vectors of ``lanes`` floats; see :func:`add_matmul`."""
    return _TILING[lanes].block


@dataclass(frozen=True, slots=True)
class _Tile:
    """A register tile of ``rows`` x ``vectors``.

    ``block``: the columns of a block of the stationary operand, and the elements from block to block.
    """

    b: Builder
    v: Vectors
    rows: int
    vectors: int
    block: tuple[int, Value]

    def zeros(self) -> list[Variable]:
        """A variable for each vector."""
        return [Variable(self.b, self.v.type, self.v.zero) for _ in range(self.rows * self.vectors)]

    def chain(
        self, left: Matrix, right: Matrix, depth: Value, copied: Value | None, fetched: Matrix | None = None
    ) -> list[Value]:
        """Sums of ``depth`` products, each from +0.0 on, of rows of both operands.

        ``copied``: where the columns of ``right`` are copied to, dense. ``fetched``: rows; one is fetched in each
        round of :data:`_UNROLLED` steps; without it, a round is one step.
        """
        b, v, sums, k = self.b, self.v, self.zeros(), Variable(self.b, I64, i64(0))
        weights, row = Cursor(b, left), Cursor(b, right)
        copy = copied and Cursor(b, Matrix(copied, i64(self.vectors * v.lanes)))
        ahead = fetched and Cursor(b, fetched)

        def step() -> None:
            columns = [v.load(row.at(j * v.lanes)) for j in range(self.vectors)]
            if copy:
                for j, column in enumerate(columns):
                    v.store(column, copy.at(j * v.lanes))
            for i in range(self.rows):
                place = b.add(b.mul(self.block[1], i64(i // self.block[0])), i64(i % self.block[0]))
                scalar = v.splat(b.load(weights.at(place), typ=F32))
                for total, column in zip(sums[i * self.vectors : (i + 1) * self.vectors], columns, strict=True):
                    total.set(v.fma(scalar, column, total.get()))
            for cursor in (weights, row, *([copy] if copy else [])):
                cursor.move()

        for rounds in (_UNROLLED, 1) if ahead else (1,):
            with steps(b, depth, rounds, k):
                if ahead and rounds > 1:
                    for column in (*range(0, PANEL, LINE // 4), PANEL - 1):  # a row may begin within a line
                        prefetch(b, ahead.at(column))
                    ahead.move()
                for _ in range(rounds):
                    step()
        return [total.get() for total in sums]

    def groups(self, left: Matrix, right: Matrix, depth: Value, copied: Value | None, chain: int) -> list[Value]:
        """As :meth:`chain`, but in groups of two chains of ``chain`` products."""
        b, totals, firsts = self.b, self.zeros(), self.zeros()
        k, is_second = Variable(b, I64, i64(0)), Variable(b, I64, i64(0))

        def add(sums: list[Value]) -> None:
            for total, first, second in zip(totals, firsts, sums, strict=True):
                total.set(b.fadd(total.get(), b.fadd(first.get(), second)))

        with while_(b, lambda: b.icmp_signed("<", k.get(), depth)):
            here = k.get()
            copy = copied and Matrix(copied, i64(self.vectors * self.v.lanes)).row(b, here).pointer
            sums = self.chain(left.row(b, here), right.row(b, here), smaller(b, b.sub(depth, here), chain), copy)
            with b.if_else(b.icmp_signed("!=", is_second.get(), i64(0))) as (then, otherwise):
                with then:
                    add(sums)
                    for first in firsts:
                        first.set(self.v.zero)
                with otherwise:
                    for first, value in zip(firsts, sums, strict=True):
                        first.set(value)
            is_second.set(b.xor(is_second.get(), i64(1)))
            k.set(b.add(here, i64(chain)))
        add([self.v.zero] * len(firsts))  # a group without a second chain; no sum is -0, so others stay as they are
        return [total.get() for total in totals]


def _tile(
    module: ir.Module,
    tiling: _Tiling,
    rows: int,
    vectors: int,
    masked: bool,
    copies: bool = False,
    is_dense: bool = False,
) -> ir.Function:
    """``void tile(out, ldo, stationary, lds, blocks, moving, ldm, depth, accumulate, count, ahead, lda)``.

    It computes ``rows`` x ``vectors`` vectors. If ``masked``, only the first ``count`` columns exist, in memory as
    well. The largest tile fetches a row of ``ahead`` for each :data:`_UNROLLED` rows that it multiplies; if it has a
    version that ``is_dense``, which takes :data:`BLOCK` for ``lds`` and :data:`PANEL` for ``ldm``, few products need
    another one, and only that and the one that ``copies`` do so. A tile that ``copies`` has one argument more: where it
    writes the rows of ``moving``, one behind the other.
    """
    name = f"nki_matmul_tile_{rows}x{vectors}{'_copying' if copies else '_dense' if is_dense else ''}"
    function, b = internal(module, name, [*_TILE, *([POINTER] if copies else [])])
    out_pointer, ldo, left, lds, blocks, right, ldm, depth, accumulate, count, ahead, lda = function.args[:12]
    v = Vectors(b, tiling.lanes, mask(b, tiling.lanes, count) if masked else None)
    tile, out = _Tile(b, v, rows, vectors, (tiling.block, blocks)), Matrix(out_pointer, ldo)
    stationary = Matrix(left, i64(tiling.block) if is_dense else lds)
    moving = Matrix(right, i64(PANEL) if is_dense else ldm)
    copied = function.args[12] if copies else None
    if tiling.chain:
        totals = tile.groups(stationary, moving, depth, copied, tiling.chain)
    else:
        fetches = (rows, vectors) == (tiling.rows, 2) and (copies or is_dense or not tiling.has_dense_tile)
        totals = tile.chain(stationary, moving, depth, copied, Matrix(ahead, lda) if fetches else None)
    places = [out.at(b, i64(i), i64(j * tiling.lanes)) for i in range(rows) for j in range(vectors)]
    write_sums(b, b.icmp_signed("!=", accumulate, i64(0)), [(v, *each) for each in zip(totals, places, strict=True)])
    b.ret_void()
    return function


def _panel(module: ir.Module, tiling: _Tiling, vectors: int, masked: bool, copies: bool = False) -> ir.Function:
    """All rows of a panel of ``vectors`` vectors of columns.

    Arguments as a tile's, then the number of rows. ``ahead`` is the next panel, which tiles fetch a part of each. If it
    ``copies``, it has one argument more: where the panel is copied to, or null. The first tile does that if there are
    enough to fetch all of a panel; else a loop does, since a tile waits for each line that is not in the cache.
    """
    highest = _HIGHEST_NARROW if vectors == 1 and _HIGHEST_NARROW % tiling.block == 0 else tiling.rows
    heights = [highest, *(height for height in (8, 4, 2, 1) if height < highest)]
    name = f"nki_matmul_panel_{vectors}{'_copying' if copies else ''}"
    function, b = internal(module, name, [*_TILE, I64, *([POINTER] if copies else [])])
    out_pointer, ldo, left, lds, blocks, source, step, depth, accumulate, count, ahead, lda, rows = function.args[:13]
    out, following = Matrix(out_pointer, ldo), Matrix(ahead, lda)
    row, fetched = (Variable(b, I64, i64(0)) for _ in range(2))
    panel, stride = Variable(b, POINTER, source), Variable(b, I64, step)

    def call(tile: ir.Function, *copy: Value) -> None:
        here, so_far, right, ldm = row.get(), fetched.get(), panel.get(), stride.get()
        place, weights = out.at(b, here, i64(0)), _column(b, left, here, blocks, tiling.block)
        missing = b.icmp_signed("<", so_far, depth)
        fetch = [b.select(missing, following.at(b, so_far, i64(0)), right), b.select(missing, lda, ldm)]
        b.call(tile, [place, ldo, weights, lds, blocks, right, ldm, depth, accumulate, count, *fetch, *copy])
        fetched.set(b.add(so_far, b.sdiv(depth, i64(_UNROLLED))))

    if copies:
        target, width = function.args[13], i64(vectors * tiling.lanes)
        with b.if_then(b.icmp_signed("!=", b.ptrtoint(target, I64), i64(0))):
            with b.if_else(at_least(b, rows, _UNROLLED * highest)) as (then, otherwise):
                with then:
                    call(_tile(module, tiling, highest, vectors, masked, copies=True), target)
                    row.set(i64(highest))
                with otherwise:
                    _copy(b, Vectors(b, tiling.lanes), vectors, Matrix(target, width), Matrix(source, step), depth)
            panel.set(target)
            stride.set(width)
    if vectors == 2 and tiling.has_dense_tile:
        is_dense = b.and_(b.icmp_signed("==", lds, i64(tiling.block)), b.icmp_signed("==", stride.get(), i64(PANEL)))
        with b.if_then(is_dense), steps(b, rows, highest, row):
            call(_tile(module, tiling, highest, vectors, masked, is_dense=True))
    for height in heights:
        with steps(b, rows, height, row):
            call(_tile(module, tiling, height, vectors, masked))
    b.ret_void()
    return function


def _column(b: Builder, pointer: Value, number: Value, size: Value, block: int) -> Value:
    """Pointer to the first element of a column: ``size`` elements from block to block, or ``block`` in plain rows."""
    whole, rest = b.udiv(number, i64(block)), b.urem(number, i64(block))
    return element(b, pointer, b.add(b.mul(whole, size), rest))


def _pays_copy(b: Builder, tile: int, depth: Value, rows: Value, columns: Value) -> Value:
    """True if a product of this size, in tiles of ``tile`` rows, should read a copy of its stationary operand."""
    pays = b.and_(at_least(b, rows, tile + 1), at_least(b, columns, _PAYS_COPY))
    return b.and_(pays, b.and_(at_least(b, i64(_MOST), rows), at_least(b, i64(_MOST), depth)))


class _Stationary:
    """The stationary operand of a product as its tiles read it: in place, or a copy in blocks."""

    def __init__(self, b: Builder, pointer: Value, stride: Value, blocks: Value) -> None:
        self._source = Matrix(pointer, stride)
        self._pointer, self._stride, self._size = Variable(b, POINTER), Variable(b), Variable(b)
        self._set(pointer, stride, blocks)

    def _set(self, *values: Value) -> None:
        for variable, value in zip((self._pointer, self._stride, self._size), values, strict=True):
            variable.set(value)

    def get(self) -> list[Value]:
        """Pointer, and steps from row to row and from block to block."""
        return [self._pointer.get(), self._stride.get(), self._size.get()]

    def copy(self, b: Builder, module: ir.Module, block: int, depth: Value, rows: Value) -> None:
        """Read a copy from now on, for a product of so many rows: in blocks, if register tiles have whole ones."""
        in_blocks = block == BLOCK
        target, pitch = scratch(b, BLOCKS.elements(_MOST, _MOST)), i64(_MOST)
        size = b.add(b.mul(depth, i64(BLOCK)), i64(BLOCKS.gap)) if in_blocks else pitch
        conversion = add_conversion(module, ROWS_TO_BLOCKS if in_blocks else ROWS_TO_ROWS)
        source = self._source.pointer, self._source.stride
        b.call(conversion, [target, size, *source, i64(0), depth, rows, depth, i64(0)])
        self._set(target, *((i64(BLOCK), size) if in_blocks else (pitch, i64(block))))


def _copy(b: Builder, v: Vectors, vectors: int, target: Matrix, source: Matrix, depth: Value) -> None:
    """Copy ``depth`` rows of ``vectors`` vectors."""
    with steps(b, depth, 1) as row:
        for j in range(0, vectors * v.lanes, v.lanes):
            v.store(v.load(source.at(b, row, i64(j))), target.at(b, row, i64(j)))


def _product(module: ir.Module, tiling: _Tiling) -> ir.Function:
    """The product as ``nki_matmul_float32`` has it, panel by panel, whatever the number of columns."""
    lanes = tiling.lanes
    wide = {rows: _tile(module, tiling, rows, vectors, False) for rows, vectors in tiling.wide.items()}
    double, single = _panel(module, tiling, 2, False, copies=True), _panel(module, tiling, 1, True)
    function, b = internal(module, "nki_matmul_product", _MATMUL)
    out_pointer, ldo, left, lds, blocks, right, ldm, panels, rows, columns, depth, accumulate = function.args
    out, moving = Matrix(out_pointer, ldo), _Panels(right, panels)
    plain = b.icmp_signed("==", panels, i64(PANEL))
    worth_copying = b.and_(at_least(b, rows, tiling.rows + 1), at_least(b, i64(_COPIED_DEPTH), depth))
    worth_copying = b.and_(worth_copying, at_least(b, ldm, PANEL + 1))
    copy = b.select(worth_copying, scratch(b, _COPIED_DEPTH * 2 * lanes), ir.Constant(POINTER, None))
    weights = _Stationary(b, left, lds, blocks)
    column = Variable(b, I64, i64(0))
    with switch(b, b.select(plain, rows, i64(0)), wide) as cases:
        for few in cases:
            with steps(b, columns, tiling.wide[few] * lanes, column) as here:
                place, source = out.at(b, i64(0), here), moving.at(b, here)
                b.call(wide[few], [place, ldo, left, lds, blocks, source, ldm, depth, accumulate, i64(0), source, ldm])

    is_plain = b.icmp_signed("==", blocks, i64(tiling.block))
    with b.if_then(b.and_(is_plain, _pays_copy(b, tiling.rows, depth, rows, columns))):
        weights.copy(b, module, tiling.block, depth, rows)
    with steps(b, columns, 2 * lanes, column) as here:
        place, source = out.at(b, i64(0), here), moving.at(b, here)
        ahead = moving.at(b, b.add(here, i64(2 * lanes)))
        operands = [place, ldo, *weights.get(), source, ldm, depth, accumulate, i64(0)]
        b.call(double, [*operands, ahead, ldm, rows, copy])

    with while_(b, lambda: b.icmp_signed("<", column.get(), columns)):
        here = column.get()
        place, source = out.at(b, i64(0), here), moving.at(b, here)
        count = smaller(b, b.sub(columns, here), lanes)
        operands = [place, ldo, left, lds, blocks, source, ldm, depth, accumulate, count]
        b.call(single, [*operands, source, ldm, rows])
        column.set(b.add(here, count))
    b.ret_void()
    return function


@dataclass(frozen=True, slots=True)
class _Panels:
    """The first row of a matrix with columns in panels, ``step`` elements from one to the next."""

    pointer: Value
    step: Value

    def at(self, b: Builder, column: Value) -> Value:
        """Pointer to the first element of a column."""
        shift = i64(PANEL.bit_length() - 1)
        return element(b, self.pointer, b.add(b.mul(b.ashr(column, shift), self.step), b.and_(column, i64(PANEL - 1))))


def _narrow(module: ir.Module, lanes: int, product: ir.Function) -> ir.Function:
    """The product of less than ``lanes`` columns: computed transposed, so that vectors run along the rows."""
    function, b = internal(module, "nki_matmul_narrow", _MATMUL)
    plain = i64(_TILING[lanes].block)
    out_pointer, ldo, left, lds, _, right, ldm, _, rows, columns, depth, accumulate = function.args
    out, stationary = Matrix(out_pointer, ldo), Matrix(left, lds)
    turned = Matrix(scratch(b, _NARROW_BLOCK * lanes), i64(_NARROW_BLOCK))
    start = Variable(b, I64, i64(0))
    with while_(b, lambda: b.icmp_signed("<", start.get(), rows)):
        first = start.get()
        block = smaller(b, b.sub(rows, first), _NARROW_BLOCK)
        swapped = [right, ldm, plain, stationary.at(b, i64(0), first), lds, i64(PANEL), columns, block, depth, i64(0)]
        b.call(product, [turned.pointer, turned.stride, *swapped])
        with steps(b, block, 1) as row, steps(b, columns, 1) as column:
            place = out.at(b, b.add(first, row), column)
            total = b.load(turned.at(b, column, row), typ=F32)
            with b.if_else(b.icmp_signed("!=", accumulate, i64(0))) as (then, otherwise):
                with then:
                    b.store(canonical_nan(b, b.fadd(b.load(place, typ=F32), total)), place)
                with otherwise:
                    b.store(total, place)
        start.set(b.add(first, block))
    b.ret_void()
    return function


def add_matmul(module: ir.Module, lanes: int, by_groups: bool = False) -> ir.Function:
    """Add to ``module``, for vectors of ``lanes`` (4, 8 or 16) floats, and return this function.

    ::

        void nki_matmul_float32(float *out, i64 ldo, const float *stationary, i64 lds, i64 blocks,
                                const float *moving, i64 ldm, i64 panels, i64 rows, i64 columns, i64 depth,
                                i64 accumulate)

    ``out[m, n] = sum over k of stationary[k, m] * moving[k, n]`` in the order of the contract, ``by_groups``
    (``nki_matmul_float32_by_groups``) or in one chain, plus the old ``out[m, n]`` if ``accumulate`` is not 0. Matrices
    are row-major; ``ldo``, ``lds`` and ``ldm`` count elements from row to row. ``panels`` counts elements from one
    panel of :data:`PANEL` columns of ``moving`` to the next; it is :data:`PANEL` if rows are plain. ``blocks`` counts
    elements from one block of columns of ``stationary`` to the next; it is :func:`columns_of_block` if rows are plain.
    ``out`` must not overlap the operands. Sizes may be 0. The function uses up to 110 KiB of stack.
    """
    product = _product(module, replace(_TILING[lanes], chain=CHAIN if by_groups else 0))
    narrow = _narrow(module, lanes, product)
    function = ir.Function(
        module, ir.FunctionType(VOID, _MATMUL), f"nki_matmul_float32{'_by_groups' if by_groups else ''}"
    )
    out, ldo, left, lds, blocks, right, ldm, _, rows, columns, depth, accumulate = function.args
    b = ir.IRBuilder(function.append_basic_block())
    # Worth it where vectors along the columns would be emptier than vectors along the rows.
    along_rows = b.mul(columns, b.sdiv(b.add(rows, i64(lanes - 1)), i64(lanes)))
    plain = i64(_TILING[lanes].block)
    few = b.icmp_signed("<", columns, i64(lanes))  # so they all lie in the first panel
    few = b.and_(few, b.icmp_signed("==", blocks, plain))
    with b.if_then(b.and_(few, at_least(b, rows, b.mul(along_rows, i64(2))))):
        # A single dense column is its own transpose.
        dense = b.and_(b.icmp_signed("==", columns, i64(1)), b.icmp_signed("==", ldo, i64(1)))
        with b.if_then(dense):
            b.call(product, [out, rows, right, ldm, plain, left, lds, i64(PANEL), columns, rows, depth, accumulate])
            b.ret_void()
        b.call(narrow, list(function.args))
        b.ret_void()
    b.call(product, list(function.args))
    b.ret_void()
    return function
