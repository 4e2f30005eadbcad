"""Streams: the access patterns that one loop nest walks together, and the cursors that say how far each is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from nki.backend.cpu.loop_ir.nodes import Dims, Expr, MemRef, subexpressions


@dataclass(frozen=True, slots=True)
class Stream:
    """An access pattern: that of a load, of an iota (no memory) or of the target (no expression)."""

    expr: Expr | None
    memref: MemRef | None


Cursors = dict[int, Any]
"""The address of each stream inside a loop nest, by the stream's number; for an iota, its value so far."""


def streams_of(expr: Expr) -> list[Stream]:
    """The loads, gathers and iotas of an expression, each once."""
    unique = {id(part): part for part in subexpressions(expr) if part.kind in ("load", "iota", "gather")}
    return [Stream(part, part.memref) for part in unique.values()]


def pattern_of(stream: Stream, columns: int) -> Dims:
    """A stream's pattern over the elements of a partition; one element stands for all of them."""
    dims: Dims = stream.memref.dims if stream.memref is not None else cast(Expr, stream.expr).value[0]
    count = math.prod(n for _, n in dims)
    return dims if count == columns else ((0, columns),)


def partition_step(stream: Stream, rows: int) -> int | None:
    """A stream's step from partition to partition, in elements; None if it is known at run time only."""
    if stream.memref is None:
        return None
    return stream.memref.row_step if stream.memref.rows == rows and rows > 1 else 0
