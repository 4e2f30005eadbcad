"""Two sequential reductions in one loop; see :mod:`nki.backend.cpu.kernel_ir.pair_sums`."""

from __future__ import annotations

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.reduce import VectorTotals, chains_of, in_all_lanes
from nki.backend.cpu.codegen.row_vectors import Block, RowVectors
from nki.backend.cpu.kernel_ir.loops import Cursors
from nki.backend.cpu.kernel_ir.nodes import PairedSums, Reduce
from nki.backend.cpu.kernel_ir.reductions import Nest, nest_of, vector_stream
from nki.numerics.llvm import I64


def emit_paired_sums(r: FunctionBuilder, s: PairedSums) -> None:
    """Emit ``s``."""
    nests = nest_of(s.even, r.per_partition), nest_of(s.odd, r.per_partition)
    assert nests[0] is not None and nests[1] is not None, "the rule that makes such a loop asks for them"
    _Halves(r, s.parts, (nests[0], nests[1])).emit()


class _Halves:
    """The two statements with their loops; index 0 is that of the even elements."""

    def __init__(self, r: FunctionBuilder, statements: tuple[Reduce, Reduce], nests: tuple[Nest, Nest]) -> None:
        self.r, self.statements, self.nests = r, statements, nests
        self.mains = [vector_stream(s, nest) for s, nest in zip(statements, nests, strict=True)]

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
