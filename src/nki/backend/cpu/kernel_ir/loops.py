"""Loop nests over several access patterns at once: streams of memory, and the counted loops that drive them.

Operands of one instruction agree on how many elements a partition has, not on how they are arranged: (8, 64) and (512,)
may meet. :func:`loop_nest` splits all patterns at common boundaries, so that one counter per loop drives all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from nki.backend.cpu.kernel_ir.nodes import Dims, Expr, MemRef, subexpressions


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


@dataclass(frozen=True, slots=True)
class CountedLoop:
    """A loop of ``count`` rounds; each moves stream ``i`` by ``steps[i]`` elements (None: known at run time only)."""

    count: int
    steps: tuple[int | None, ...]
    per_partition: int = 0
    """Rounds for each partition, if the routine's range of partitions limits this loop; 0 if all rounds run always."""


def boundaries(patterns: Sequence[Dims], extra: int = 1) -> list[int] | None:
    """Sizes of the innermost blocks at which some pattern changes its step, ascending; None if they do not nest.

    ``extra`` is one more boundary to respect.
    """
    sizes = {1, extra}
    for dims in patterns:
        size = 1
        for _, count in reversed(dims):
            size *= count
            sizes.add(size)
    ordered = sorted(sizes)
    return ordered if all(b % a == 0 for a, b in pairwise(ordered)) else None


def split(dims: Dims, cuts: Sequence[int]) -> list[int]:
    """The step of ``dims`` in each block between neighbouring ``cuts``, outermost first; 0 beyond its size."""
    steps: list[int] = []
    for low in reversed(cuts[:-1]):
        size, step = 1, 0
        for stride, count in reversed(dims):
            if size <= low < size * count:
                step = stride * (low // size)
                break
            size *= count
        steps.append(step)
    return steps


def loop_nest(patterns: Sequence[Dims], cuts: Sequence[int]) -> list[CountedLoop]:
    """The loops over the elements of a partition, outermost first."""
    columns = [split(dims, cuts) for dims in patterns]
    counts = [high // low for low, high in pairwise(cuts)][::-1]
    return [CountedLoop(count, tuple(c[i] for c in columns)) for i, count in enumerate(counts)]


def coalesced(loops: Sequence[CountedLoop]) -> list[CountedLoop]:
    """The loops without those of one round; neighbours become one loop where every pattern runs straight on."""
    result: list[CountedLoop] = []
    for loop in loops:
        if loop.count == 1:
            continue
        if result and _continues(result[-1], loop):
            result[-1] = CountedLoop(result[-1].count * loop.count, loop.steps, result[-1].per_partition * loop.count)
        else:
            result.append(loop)
    return result


def _continues(outer: CountedLoop, inner: CountedLoop) -> bool:
    """True if a step of ``outer`` is as far as all rounds of ``inner``, for every stream."""
    return all(
        o is not None and i is not None and o == i * inner.count for o, i in zip(outer.steps, inner.steps, strict=True)
    )
