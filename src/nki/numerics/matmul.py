"""float32 matrix multiplication, as LLVM IR.

The arithmetic is a contract: every output element starts at +0.0 and takes ``fma(stationary[k, m], moving[k, n], acc)``
for k = 0, 1, ..., K-1 in that order; accumulation into the output is one more addition at the end; a NaN is written as
the canonical one. So the bits depend on neither the tiling nor the vector width, and one implementation serves every
executor.

A tile of the output stays in registers while a loop over k broadcasts stationary elements against vectors of the
moving matrix. Both operands are stored with k as the slow axis, as the tensor engine has them, so that both are read in
rows. The moving one may instead lie in panels of :data:`PANEL` columns, each dense, one behind the other: then a panel
is read where it is; of plain rows a copy is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from nki.numerics.llvm import (
    F32,
    I32,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    at_least,
    canonical_nan,
    i64,
    internal,
    prefetch,
    scratch,
    smaller,
    steps,
    switch,
    while_,
)

# Arguments of the public functions and of a tile: pointers with strides, then sizes and flags.
_MATMUL: Final = [POINTER, I64, POINTER, I64, POINTER, I64, I64, I64, I64, I64, I64]
_PAIRS: Final = _MATMUL[:-1]
_TILE: Final = [POINTER, I64, POINTER, I64, POINTER, I64, I64, I64, I64]

PANEL: Final = 32
"""Columns of a panel of the moving operand: two of the widest vectors."""
# The deepest product whose panels of the moving matrix are copied. A copy is contiguous, so its rows do not fight for
# the few cache sets that a stride of a power of two leaves them; 256 rows of two AVX-512 vectors are 32 KiB, one L1.
_PACKED_DEPTH: Final = 256
# Columns of the product that is transposed at a time, when the product has few columns.
_NARROW_BLOCK: Final = 128


@dataclass(frozen=True, slots=True)
class Tiling:
    """Register tiles: ``rows`` x 2 vectors in general, and ``wide[r]`` vectors for a product of only r rows.

    An addition takes about four cycles and one or two start in each, so a tile wants eight or more accumulators; they
    and the operands must fit the registers (32 with AVX-512 and on ARM, 16 with AVX2).
    """

    rows: int
    wide: dict[int, int]


_TILING: Final = {
    4: Tiling(8, {1: 8, 2: 6, 3: 4, 4: 4}),
    8: Tiling(6, {1: 8, 2: 5, 3: 3}),
    16: Tiling(8, {1: 8, 2: 6, 3: 4, 4: 4}),
}


def _intrinsic(module: ir.Module, name: str, result: ir.Type, operands: list[Any]) -> ir.Function:
    found: Any = module.globals.get(name)
    return found or ir.Function(module, ir.FunctionType(result, operands), name)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Loads, stores and arithmetic of vectors of ``lanes`` floats; with a mask, on the masked lanes of memory only."""

    b: Builder
    lanes: int
    mask: Value | None = None
    pairs: bool = False
    """Each element holds two bfloat16 numbers, the one of the smaller k in the upper half."""

    @property
    def type(self) -> ir.VectorType:
        return ir.VectorType(F32, self.lanes)

    @property
    def zero(self) -> ir.Constant:
        return ir.Constant(self.type, [0.0] * self.lanes)

    def load(self, pointer: Value) -> Value:
        if self.mask is None:
            return self.b.load(pointer, typ=self.type, align=4)
        name = f"llvm.masked.load.v{self.lanes}f32.p0"
        operands = [pointer, ir.Constant(I32, 4), self.mask, self.zero]
        return self.b.call(_intrinsic(self.b.module, name, self.type, [o.type for o in operands]), operands)

    def store(self, value: Value, pointer: Value) -> None:
        if self.mask is None:
            self.b.store(value, pointer, align=4)
            return
        name = f"llvm.masked.store.v{self.lanes}f32.p0"
        operands = [value, pointer, ir.Constant(I32, 4), self.mask]
        self.b.call(_intrinsic(self.b.module, name, VOID, [o.type for o in operands]), operands)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        if self.pairs:
            halves = ir.VectorType(_BFloat(), 2 * self.lanes)
            name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}"
            function = _intrinsic(self.b.module, name, self.type, [self.type, halves, halves])
            return self.b.call(function, [z, self.b.bitcast(x, halves), self.b.bitcast(y, halves)])
        name = f"llvm.fma.v{self.lanes}f32"
        return self.b.call(_intrinsic(self.b.module, name, self.type, [self.type] * 3), [x, y, z])

    def splat(self, scalar: Value) -> Value:
        one = self.b.insert_element(ir.Constant(self.type, ir.Undefined), scalar, ir.Constant(I32, 0))
        lanes = ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        return self.b.shuffle_vector(one, ir.Constant(self.type, ir.Undefined), lanes)


def _mask(b: Builder, lanes: int, count: Value) -> Value:
    """True in the first ``count`` of ``lanes`` lanes."""
    wide = ir.VectorType(I32, lanes)
    one = b.insert_element(ir.Constant(wide, ir.Undefined), b.trunc(count, I32), ir.Constant(I32, 0))
    bound = b.shuffle_vector(one, ir.Constant(wide, ir.Undefined), ir.Constant(wide, [0] * lanes))
    return b.icmp_signed("<", ir.Constant(wide, list(range(lanes))), bound)


def _tile(module: ir.Module, lanes: int, rows: int, vectors: int, masked: bool, pairs: bool = False) -> ir.Function:
    """``void tile(out, ldo, stationary, lds, moving, ldm, depth, accumulate, count)``: ``rows`` x ``vectors`` vectors.

    If ``masked``, only the first ``count`` columns exist, in memory as well.
    """
    function, b = internal(module, f"nki_matmul_tile_{rows}x{vectors}", _TILE)
    out_pointer, ldo, stationary, lds, moving, ldm, depth, accumulate, count = function.args
    out = Matrix(out_pointer, ldo)
    v = _Vectors(b, lanes, _mask(b, lanes, count) if masked else None, pairs)
    entry, loop, done = b.block, b.append_basic_block("loop"), b.append_basic_block("done")
    b.cbranch(at_least(b, depth, 1), loop, done)

    b.position_at_end(loop)
    k, left, right = b.phi(I64), b.phi(POINTER), b.phi(POINTER)
    sums = [b.phi(v.type) for _ in range(rows * vectors)]
    columns = [v.load(b.gep(right, [i64(j * lanes)], source_etype=F32)) for j in range(vectors)]
    fused: list[Value] = []
    for i in range(rows):
        scalar = v.splat(b.load(b.gep(left, [i64(i)], source_etype=F32), typ=F32))
        fused += [v.fma(scalar, column, sums[i * vectors + j]) for j, column in enumerate(columns)]
    following = b.add(k, i64(1))
    below = [b.gep(pointer, [stride], source_etype=F32) for pointer, stride in ((left, lds), (right, ldm))]
    starts = [i64(0), stationary, moving, *[v.zero] * len(sums)]
    for phi, start, step in zip([k, left, right, *sums], starts, [following, *below, *fused], strict=True):
        phi.add_incoming(start, entry)
        phi.add_incoming(step, loop)
    b.cbranch(b.icmp_signed("<", following, depth), loop, done)

    b.position_at_end(done)
    totals: list[Value] = []
    for total in fused:
        phi = b.phi(v.type)
        phi.add_incoming(v.zero, entry)
        phi.add_incoming(total, loop)
        totals.append(phi)
    places = [out.at(b, i64(i), i64(j * lanes)) for i in range(rows) for j in range(vectors)]
    with b.if_else(b.icmp_signed("!=", accumulate, i64(0))) as (then, otherwise):
        with then:
            for total, place in zip(totals, places, strict=True):
                v.store(canonical_nan(b, b.fadd(v.load(place), total)), place)
        with otherwise:
            for total, place in zip(totals, places, strict=True):
                v.store(canonical_nan(b, total), place)
    b.ret_void()
    return function


def _panel(module: ir.Module, lanes: int, vectors: int, masked: bool, pairs: bool = False) -> ir.Function:
    """All rows of a panel of ``vectors`` vectors of columns.

    Arguments as a tile's, then the number of rows, and memory to fetch meanwhile: where it is, and its cache lines for
    each tile.
    """
    heights = [_TILING[lanes].rows, *(height for height in (4, 2, 1) if height < _TILING[lanes].rows)]
    function, b = internal(module, f"nki_matmul_panel_{vectors}", [*_TILE, I64, POINTER, I64])
    out_pointer, ldo, left, lds, right, ldm, depth, accumulate, count, rows, ahead, lines = function.args
    out, stationary = Matrix(out_pointer, ldo), Matrix(left, lds)
    row, fetched = Variable(b), Variable(b)
    row.set(i64(0))
    fetched.set(i64(0))

    def call(tile: ir.Function) -> None:
        here = row.get()
        place, weights = out.at(b, here, i64(0)), stationary.at(b, i64(0), here)
        b.call(tile, [place, ldo, weights, lds, right, ldm, depth, accumulate, count])

    for height in heights:
        with steps(b, rows, height, row):
            with steps(b, lines, 1):
                prefetch(b, b.gep(ahead, [b.mul(fetched.get(), i64(LINE))], source_etype=ir.IntType(8)))
                fetched.set(b.add(fetched.get(), i64(1)))
            call(_tile(module, lanes, height, vectors, masked, pairs))
    b.ret_void()
    return function


def _product(module: ir.Module, lanes: int) -> ir.Function:
    """The product as ``nki_matmul`` has it, panel by panel, whatever the number of columns."""
    tiling = _TILING[lanes]
    wide = {rows: _tile(module, lanes, rows, vectors, False) for rows, vectors in tiling.wide.items()}
    double, single = _panel(module, lanes, 2, False), _panel(module, lanes, 1, True)
    function, b = internal(module, "nki_matmul_product", _MATMUL)
    out_pointer, ldo, left, lds, right, ldm, panels, rows, columns, depth, accumulate = function.args
    out, moving = Matrix(out_pointer, ldo), _Panels(right, panels)
    packed = Matrix(scratch(b, _PACKED_DEPTH * 2 * lanes), i64(2 * lanes))
    plain = b.icmp_signed("==", panels, i64(PANEL))
    worth_packing = b.and_(at_least(b, rows, tiling.rows + 1), at_least(b, i64(_PACKED_DEPTH), depth))
    worth_packing = b.and_(worth_packing, at_least(b, ldm, PANEL + 1))
    column, panel, stride = Variable(b), Variable(b, POINTER), Variable(b)
    column.set(i64(0))
    # The next panel comes while this one is multiplied, in equal parts for each tile.
    tiles = b.add(b.sdiv(b.sub(rows, i64(1)), i64(tiling.rows)), i64(1))
    size = b.mul(depth, i64(4 * 2 * lanes // LINE))
    lines = b.select(plain, i64(0), b.sdiv(b.add(size, b.sub(tiles, i64(1))), tiles))

    with switch(b, b.select(plain, rows, i64(0)), wide) as cases:
        for few in cases:
            with steps(b, columns, tiling.wide[few] * lanes, column) as here:
                place, source = out.at(b, i64(0), here), moving.at(b, here)
                b.call(wide[few], [place, ldo, left, lds, source, ldm, depth, accumulate, i64(0)])

    with steps(b, columns, 2 * lanes, column) as here:
        place, source = out.at(b, i64(0), here), moving.at(b, here)
        panel.set(source)
        stride.set(ldm)
        with b.if_then(worth_packing):
            _pack(b, lanes, packed, Matrix(source, ldm), depth)
            panel.set(packed.pointer)
            stride.set(packed.stride)
        ahead = moving.at(b, b.add(here, i64(2 * lanes)))
        operands = [place, ldo, left, lds, panel.get(), stride.get(), depth, accumulate, i64(0), rows]
        b.call(double, [*operands, ahead, lines])

    with while_(b, lambda: b.icmp_signed("<", column.get(), columns)):
        here = column.get()
        place, source = out.at(b, i64(0), here), moving.at(b, here)
        count = smaller(b, b.sub(columns, here), lanes)
        b.call(single, [place, ldo, left, lds, source, ldm, depth, accumulate, count, rows, source, i64(0)])
        column.set(b.add(here, count))
    b.ret_void()
    return function


def add_pair_matmul(module: ir.Module, lanes: int) -> ir.Function:
    """Add to ``module``, for vectors of 16 floats and a processor with AVX512-BF16, and return this function.

    ::

        void nki_matmul_pairs(float *out, i64 ldo, const i32 *stationary, i64 lds, const i32 *moving, i64 ldm,
                              i64 rows, i64 columns, i64 depth, i64 accumulate)

    The product as ``nki_matmul`` has it, of bfloat16 numbers: each word of an operand holds two rows, the upper half
    the row of the smaller k; ``depth`` counts words. The processor's instruction makes two fused additions in that
    order, as the contract has it, but takes subnormal numbers for 0: callers rule them out.
    """
    double, single = _panel(module, lanes, 2, False, True), _panel(module, lanes, 1, True, True)
    function = ir.Function(module, ir.FunctionType(VOID, _PAIRS), "nki_matmul_pairs")
    out_pointer, ldo, left, lds, right, ldm, rows, columns, depth, accumulate = function.args
    b = ir.IRBuilder(function.append_basic_block())
    out, moving, column = Matrix(out_pointer, ldo), Matrix(right, ldm), Variable(b)
    column.set(i64(0))
    with steps(b, columns, 2 * lanes, column) as here:
        place, source = out.at(b, i64(0), here), moving.at(b, i64(0), here)
        b.call(double, [place, ldo, left, lds, source, ldm, depth, accumulate, i64(0), rows, source, i64(0)])
    with while_(b, lambda: b.icmp_signed("<", column.get(), columns)):
        here = column.get()
        place, source = out.at(b, i64(0), here), moving.at(b, i64(0), here)
        count = smaller(b, b.sub(columns, here), lanes)
        b.call(single, [place, ldo, left, lds, source, ldm, depth, accumulate, count, rows, source, i64(0)])
        column.set(b.add(here, count))
    b.ret_void()
    return function


def _pack(b: Builder, lanes: int, target: Matrix, source: Matrix, depth: Value) -> None:
    """Copy ``depth`` rows of two vectors."""
    v = _Vectors(b, lanes)
    with steps(b, depth, 1) as row:
        for j in (0, lanes):
            v.store(v.load(source.at(b, row, i64(j))), target.at(b, row, i64(j)))


@dataclass(frozen=True, slots=True)
class _Panels:
    """The first row of a matrix whose columns lie in panels, ``step`` elements from one to the next."""

    pointer: Value
    step: Value

    def at(self, b: Builder, column: Value) -> Value:
        """Pointer to the first element of a column."""
        shift = i64(PANEL.bit_length() - 1)
        offset = b.add(b.mul(b.ashr(column, shift), self.step), b.and_(column, i64(PANEL - 1)))
        return b.gep(self.pointer, [offset], source_etype=F32)


def _narrow(module: ir.Module, lanes: int, product: ir.Function) -> ir.Function:
    """The product of less than ``lanes`` columns: computed transposed, so that vectors run along the rows."""
    function, b = internal(module, "nki_matmul_narrow", _MATMUL)
    out_pointer, ldo, left, lds, right, ldm, _, rows, columns, depth, accumulate = function.args
    out, stationary = Matrix(out_pointer, ldo), Matrix(left, lds)
    turned = Matrix(scratch(b, _NARROW_BLOCK * lanes), i64(_NARROW_BLOCK))
    start = Variable(b)
    start.set(i64(0))
    with while_(b, lambda: b.icmp_signed("<", start.get(), rows)):
        first = start.get()
        block = smaller(b, b.sub(rows, first), _NARROW_BLOCK)
        swapped = [right, ldm, stationary.at(b, i64(0), first), lds, i64(PANEL), columns, block, depth, i64(0)]
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


def add_matmul(module: ir.Module, lanes: int) -> ir.Function:
    """Add to ``module``, for vectors of ``lanes`` (4, 8 or 16) floats, and return this function.

    ::

        void nki_matmul(float *out, i64 ldo, const float *stationary, i64 lds, const float *moving, i64 ldm,
                        i64 panels, i64 rows, i64 columns, i64 depth, i64 accumulate)

    ``out[m, n] = sum over k of stationary[k, m] * moving[k, n]`` in the order of this module's contract, plus the old
    ``out[m, n]`` if ``accumulate`` is not 0. Matrices are row-major; ``ldo``, ``lds`` and ``ldm`` count elements from
    row to row. ``panels`` counts elements from one panel of :data:`PANEL` columns of ``moving`` to the next; it is
    :data:`PANEL` if rows are plain. ``out`` must not overlap the operands. Sizes may be 0. The function uses up to
    40 KiB of stack.
    """
    product = _product(module, lanes)
    narrow = _narrow(module, lanes, product)
    function = ir.Function(module, ir.FunctionType(VOID, _MATMUL), "nki_matmul")
    out, ldo, left, lds, right, ldm, _, rows, columns, depth, accumulate = function.args
    b = ir.IRBuilder(function.append_basic_block())
    # Worth it where vectors along the columns would be emptier than vectors along the rows.
    along_rows = b.mul(columns, b.sdiv(b.add(rows, i64(lanes - 1)), i64(lanes)))
    few = b.icmp_signed("<", columns, i64(lanes))  # so they all lie in the first panel
    with b.if_then(b.and_(few, at_least(b, rows, b.mul(along_rows, i64(2))))):
        # A single dense column is its own transpose.
        dense = b.and_(b.icmp_signed("==", columns, i64(1)), b.icmp_signed("==", ldo, i64(1)))
        with b.if_then(dense):
            b.call(product, [out, rows, right, ldm, left, lds, i64(PANEL), columns, rows, depth, accumulate])
            b.ret_void()
        b.call(narrow, list(function.args))
        b.ret_void()
    b.call(product, list(function.args))
    b.ret_void()
    return function
