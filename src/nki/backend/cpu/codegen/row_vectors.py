"""Sequential reductions of many rows at once: each lane of a vector follows one row.

The elements of a row stay in order, but those of neighbouring rows are far apart in memory. So four columns of as many
rows as a vector has lanes are loaded in pieces of four elements and transposed in registers; that is a few cheap
instructions for each vector of one column, and one addition then serves all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.function import I32, I64, FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop, load_every
from nki.backend.cpu.codegen.loop_nest import CountedLoop
from nki.backend.cpu.codegen.streams import Cursors, Stream
from nki.backend.cpu.loop_ir.nodes import Expr, subexpressions
from nki.numerics.transpose import transposed

PIECE: Final = 4
"""Elements of a row that are loaded together."""
_FEWEST: Final = 8
"""Elements of a row from which on the way through vectors is worth its start."""


def suits(value: Expr, last: CountedLoop) -> bool:
    """True if :class:`RowVectors` can follow ``value`` along ``last``, the innermost loop.

    It can follow one load, of neighbours or of every second element.
    """
    parts = subexpressions(value)
    loads = [part for part in parts if part.kind == "load"]
    if len(loads) != 1 or any(part.kind not in ("load", "cast") for part in parts):
        return False
    return last.count >= _FEWEST and last.steps[1] in (1, 2)


class RowVectors:
    """Vectors of columns of ``lanes`` rows, which begin at ``starts``."""

    def __init__(
        self, r: FunctionBuilder, streams: list[Stream], value: Expr, starts: list[Cursors], step: int
    ) -> None:
        self.r, self.b, self.streams, self.value, self.starts, self.step = r, r.b, streams, value, starts, step
        self.lanes = len(starts)

    def columns(self, cursors: list[Cursors], index: Value) -> list[Value]:
        """Four vectors: the elements of all rows, which ``cursors`` follow, in the columns from ``index`` on."""
        height = self.lanes // PIECE
        vectors = [
            self._decoded([self._piece(cursors[first + PIECE * number], index) for number in range(height)])
            for first in range(PIECE)
        ]
        return transposed(self.b, vectors, PIECE)

    def column(self, cursors: list[Cursors], index: Value) -> Value:
        """One vector: the elements of all rows in column ``index``."""
        flat = CountedLoop(1, (0, self.step, *(0 for _ in self.streams[2:])))
        values = [InnerLoop(self.r, self.streams, flat, c).value(self.value, index, 1) for c in cursors]
        return self.gathered(values)

    def gathered(self, values: list[Value]) -> Value:
        """A vector of one number of each row."""
        vector: Any = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
        for lane, value in enumerate(values):
            vector = self.b.insert_element(vector, value, ir.Constant(I32, lane))
        return vector

    def _piece(self, cursors: Cursors, index: Value) -> Value:
        """The stored elements of one row from ``index`` on."""
        memref = self.streams[1].memref
        assert memref is not None
        size = memref.dtype.itemsize
        at = self.r.move(cursors[1], self.b.mul(index, ir.Constant(I64, size * self.step)))
        if self.step > 1:
            return load_every(self.b, at, memref.dtype, self.step, PIECE)
        return self.b.load(at, typ=storage_type(memref.dtype, PIECE), align=size)

    def _decoded(self, pieces: list[Value]) -> Value:
        """The pieces side by side, with the casts of the expression applied."""
        while len(pieces) > 1:
            lanes = list(range(2 * pieces[0].type.count))
            mask = ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            pieces = [self.b.shuffle_vector(left, right, mask) for left, right in pairs]
        flat = CountedLoop(1, tuple(1 for _ in self.streams))
        loop = InnerLoop(self.r, self.streams, flat, self.starts[0])
        return loop.converted(self.value, pieces[0])


def follow(
    r: FunctionBuilder,
    rows: RowVectors,
    last: CountedLoop,
    cursors: list[Cursors],
    step: Callable[[Value], None],
) -> None:
    """Call ``step`` with the vector of each column in turn, along the innermost loop."""
    whole = last.count // PIECE * PIECE

    def four(index: Value) -> None:
        for vector in rows.columns(cursors, index):
            step(vector)

    r.counted_loop(whole, PIECE, four)
    for index in range(whole, last.count):
        step(rows.column(cursors, ir.Constant(I64, index)))
