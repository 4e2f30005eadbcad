"""Two sequential reductions in one loop: of the even and of the odd elements of rows, which are then read once.

Each half keeps its own order and its own expression, so the bits are those of one reduction after the other. The two
chains of additions also wait for their own results at the same time.
"""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.reduce import Nest, VectorTotals, chains_of, in_all_lanes, nest_of, vector_stream
from nki.backend.cpu.codegen.row_vectors import Block, RowVectors
from nki.backend.cpu.codegen.streams import Cursors
from nki.backend.cpu.loop_ir.nodes import SCRATCH, Expr, LoopStatement, MemRef, Reduce, loads, subexpressions
from nki.numerics.llvm import I64


def emit_halves(r: FunctionBuilder, even: LoopStatement, odd: LoopStatement) -> bool:
    """Emit both statements, if they are two such reductions; else False, and nothing is emitted."""
    if not isinstance(even, Reduce) or not isinstance(odd, Reduce) or not are_halves(even, odd):
        return False
    nests = nest_of(r, even), nest_of(r, odd)
    if nests[0] is None or nests[1] is None:
        return False
    pair = _Halves(r, (even, odd), (nests[0], nests[1]))
    if not pair.fits():
        return False
    pair.emit()
    return True


def are_halves(even: Reduce, odd: Reduce) -> bool:
    """True if ``odd`` reduces the neighbours of the elements of ``even`` and does not read its result."""
    if even.op != odd.op or any(s.cross_partition or s.groups != 1 or s.init is not None for s in (even, odd)):
        return False
    one, two = _moving(even.value), _moving(odd.value)
    if one is None or two is None or any(_is_at(even.target, load.memref) for load in loads(odd.value)):
        return False
    count = one.columns
    expected = MemRef(one.base, one.offset + one.dtype.itemsize, one.rows, one.row_step, two.dims, one.dtype)
    casts = [[part.dtype for part in subexpressions(s.value) if part.kind == "cast"] for s in (even, odd)]
    return (
        two == expected
        and one.dims == ((2, count),)
        and two.dims in (((2, count),), ((2, count - 1),))
        and (casts[0] == casts[1])
    )


def _moving(value: Expr) -> MemRef | None:
    """The only memory of which ``value`` reads several elements of a partition."""
    wide = [load.memref for load in loads(value) if load.columns > 1]
    return wide[0] if len(wide) == 1 else None


def _is_at(target: MemRef, memref: MemRef | None) -> bool:
    return memref is not None and memref.base == target.base == SCRATCH and memref.offset == target.offset


class _Halves:
    """The two statements with their loops; index 0 is that of the even elements."""

    def __init__(self, r: FunctionBuilder, statements: tuple[Reduce, Reduce], nests: tuple[Nest, Nest]) -> None:
        self.r, self.statements, self.nests = r, statements, nests
        self.mains = [vector_stream(s, nest) for s, nest in zip(statements, nests, strict=True)]
        self.sides = [nest.outer[-1] if nest.outer else None for nest in nests]

    def fits(self) -> bool:
        """True if both have one loop over rows around one over elements."""
        one, two = self.sides
        if one is None or two is None or not all(self.mains):
            return False
        same = (one.count, one.per_partition) == (two.count, two.per_partition)
        return same and all(len(nest.outer) == len(nest.inner) == 1 for nest in self.nests)

    def emit(self) -> None:
        r = self.r
        cursors = [r.start(nest.streams) for nest in self.nests]
        done, side = 0, self.nests[0].outer[0]
        for chains in chains_of(side.count, True):
            whole = (side.count - done) // chains * chains

            def group(index: Value, chains: int = chains) -> None:
                starts = [
                    [r.advanced(nest.streams, own, nest.outer[0], at) for at in r.following(index, chains)]
                    for nest, own in zip(self.nests, cursors, strict=True)
                ]
                for first in range(0, chains, r.lanes):
                    self._vectors([own[first : first + r.lanes] for own in starts])

            r.counted_loop(done + whole, chains, group, done, side.per_partition)
            done += whole

    def _vectors(self, starts: list[list[Cursors]]) -> None:
        """Reductions that begin at ``starts``, one in each lane."""
        r = self.r
        count, starts = len(starts[0]), [in_all_lanes(r, own) for own in starts]
        parts = list(zip(self.statements, self.nests, starts, self.mains, strict=True))
        rows = [RowVectors(r, nest.streams, s.value, own, main, 2) for s, nest, own, main in parts]
        totals = [VectorTotals(r, s, nest, row, count) for (s, nest, _, _), row in zip(parts, rows, strict=True)]
        elements = sum(nest.inner[0].count for nest in self.nests)
        done = 0
        for block in rows[0].blocks(1):
            whole = done + (elements - done) // block.columns * block.columns

            def columns(index: Value, block: Block = block) -> None:
                for number, vector in enumerate(rows[0].neighbours(starts[0], index, block)):
                    totals[number % 2].add(rows[number % 2].applied(vector))

            r.counted_loop(whole, block.columns, columns, done)
            done = whole
        for index in range(done, elements):
            at = ir.Constant(I64, index // 2)
            totals[index % 2].add(rows[index % 2].column(starts[index % 2], at))
        for total in totals:
            total.store()


__all__ = ["are_halves", "emit_halves"]
