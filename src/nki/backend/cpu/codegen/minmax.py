"""The largest or smallest of many numbers, as IEEE 754-2019 has it: NaN wins, -0 is less than +0.

A comparison and a choice for each vector, which processors do in one instruction, are right for all numbers but NaN
and zeros. So the loop only notes if any number was NaN. If one was, or if the result is a zero, the loop runs again
with the full rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.kernel_ir.reductions import IDENTITIES
from nki.numerics.llvm import F32, I32, I64, constant, lanes_of

RELATIONS: Final = {"maximum": ">", "minimum": "<"}
"""The operators, and the comparison that a number must pass to replace the extreme."""
_VECTORS: Final = 4
"""Vectors of extremes side by side, so that one comparison need not wait for the one before it."""


@dataclass(slots=True)
class QuickExtreme:
    """The extremes so far: some vectors, and the lanes that have seen a NaN."""

    r: FunctionBuilder
    op: str
    lanes: int
    totals: list[Value]
    nan: Value

    @classmethod
    def start(cls, r: FunctionBuilder, op: str, lanes: int, vectors: int) -> QuickExtreme:
        """Before the first number; ``vectors`` is the number of vectors of a row, of ``lanes`` numbers each."""
        wide, flags = ir.VectorType(F32, lanes), ir.VectorType(ir.IntType(1), lanes)
        totals = [r.local(wide, constant(wide, IDENTITIES[op])) for _ in range(min(_VECTORS, vectors))]
        return cls(r, op, lanes, totals, r.local(flags, constant(flags, 0)))

    def line(self, elements: int, vector: Callable[[Value], Value]) -> None:
        """Take the ``elements`` of a row in, at least a vector; ``vector`` gives the one from an element on.

        The last vector ends with the row: what it has in common with the one before counts twice, and changes nothing.
        """
        several, count = len(self.totals), elements // self.lanes
        whole = count // several * several

        def chunk(index: Value) -> None:
            values = [vector(self.r.b.add(index, ir.Constant(I64, n * self.lanes))) for n in range(several)]
            self._take(values)

        self.r.counted_loop(whole * self.lanes, several * self.lanes, chunk)
        for number in range(whole, count):
            self._take([vector(ir.Constant(I64, number * self.lanes))])
        if elements % self.lanes:
            self._take([vector(ir.Constant(I64, elements - self.lanes))])

    def _take(self, values: list[Value]) -> None:
        b, wide = self.r.b, ir.VectorType(F32, self.lanes)
        for value, slot in zip(values, self.totals, strict=False):
            total = b.load(slot, typ=wide)
            b.store(self._better(value, total), slot)
        for left, right in zip(values[::2], [*values[1::2], values[-1]], strict=False):
            unordered = b.fcmp_unordered("uno", left, right)
            b.store(b.or_(b.load(self.nan, typ=unordered.type), unordered), self.nan)

    def folded(self) -> Value:
        """The extreme of all vectors, if :meth:`is_uncertain` is false of it."""
        b, wide = self.r.b, ir.VectorType(F32, self.lanes)
        vectors: list[Value] = [b.load(slot, typ=wide) for slot in self.totals]
        while len(vectors) > 1:
            vectors = [*vectors[2:], self._better(*vectors[:2])]
        (lanes,) = vectors
        while (half := lanes.type.count // 2) > 1:
            lanes = self._better(*(lanes_of(b, lanes, lanes, first, half) for first in (0, half)))
        return self._better(*(b.extract_element(lanes, ir.Constant(I32, lane)) for lane in (0, 1)))

    def _better(self, one: Value, two: Value) -> Value:
        """The extreme of two numbers, or in each lane of two vectors; of zeros, and if there is a NaN, either."""
        return self.r.b.select(self.r.b.fcmp_ordered(RELATIONS[self.op], one, two), one, two)

    def is_uncertain(self, result: Value) -> Value:
        """True if ``result``, the extreme of :meth:`folded` and others, may not be that of all numbers."""
        b, word = self.r.b, ir.IntType(self.lanes)
        flags = b.load(self.nan, typ=ir.VectorType(ir.IntType(1), self.lanes))
        any_nan = b.icmp_unsigned("!=", b.bitcast(flags, word), ir.Constant(word, 0))
        return b.or_(any_nan, b.fcmp_ordered("==", result, ir.Constant(F32, 0.0)))
