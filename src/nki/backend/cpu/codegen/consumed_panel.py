"""The consumer of a product, which computes from each panel of columns where it lies in the first-level cache."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from llvmlite import ir

from nki.backend.cpu.codegen.function import FunctionBuilder, Value
from nki.backend.cpu.codegen.inner_loop import InnerLoop
from nki.backend.cpu.kernel_ir.loops import CountedLoop, Stream, partition_step, streams_of
from nki.backend.cpu.kernel_ir.nodes import PANEL_BASE, Gemm, MemRef, loads, subexpressions
from nki.base import dtype as dt
from nki.numerics.llvm import I64
from nki.numerics.matmul import CHAIN, PANEL


class ConsumedPanel:
    """The panel of a product with a consumer, in scratch memory, and the loops of the consumer."""

    def __init__(self, r: FunctionBuilder, s: Gemm) -> None:
        assert s.consumer is not None
        self.r, self.target, self.value = r, s.target, s.consumer
        whole_tiles = -(-s.target.rows // CHAIN) * CHAIN
        self.panel = replace(r.kernel_ir.new_scratch(whole_tiles, PANEL, dt.float32), rows=s.target.rows)
        r.need_scratch()
        for load in loads(self.value):
            if cast(MemRef, load.memref).base == PANEL_BASE:
                load.memref = self.panel
        self.streams = [Stream(None, s.target), *streams_of(self.value)]
        rows = s.target.rows
        steps = tuple(partition_step(stream, rows) for stream in self.streams)
        self.rows = CountedLoop(rows, steps, r.per_partition(rows))
        columns = tuple(cast(MemRef, stream.memref).columns for stream in self.streams)
        self.elements = CountedLoop(s.target.columns, tuple(int(count > 1) for count in columns))
        self.starts = r.start(self.streams)
        first = InnerLoop(r, self.streams, self.elements, self.starts)
        for part in subexpressions(self.value):
            if part.kind == "value":
                first.hoist(part)
        self.constants = first.invariants

    @property
    def takes_any_nan(self) -> bool:
        """True if the bits of a NaN in the panel change no result: it is not only moved.

        (Bit operators do not take float32.)
        """
        return self.value.kind != "load"

    def emit(self, column: Value, columns: int) -> None:
        """Compute ``columns`` columns of the target from ``column`` on, in the routine's range of partitions."""
        r = self.r
        moved = {
            number: cursor
            if self.streams[number].memref == self.panel
            else r.advance(self.streams[number], cursor, self.elements.steps[number], column)
            for number, cursor in self.starts.items()
        }

        def row(index: Value) -> None:
            loop = InnerLoop(r, self.streams, self.elements, r.advanced(self.streams, moved, self.rows, index))
            loop.invariants.update(self.constants)
            loop.hoist(self.value)
            done, width = 0, r.lanes
            while done < columns:
                while done + width <= columns:
                    at = ir.Constant(I64, done)
                    loop.store(self.target, loop.written(self.value, at, width), at, width)
                    done += width
                width //= 2

        r.counted_loop(self.rows.count, 1, row, 0, self.rows.per_partition)
