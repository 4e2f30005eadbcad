"""Loop nests over several access patterns at once: streams of memory, and the counted loops that drive them.

Operands of one instruction agree on how many elements a partition has, not on how they are arranged: (8, 64) and (512,)
may meet. :func:`loop_nest` splits all patterns at common boundaries, so that one counter per loop drives all of them.
:func:`nest_of` has the loops of a reduction, and tells what its order leaves free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, cast

from nki.backend.cpu.kernel_ir.nodes import Dims, Expr, MemRef, Reduce, subexpressions
from nki.isa.tables.alu_operators import BITS, TABLE

IDENTITIES: Final = {row.name: row.identity for row in TABLE.values() if row.identity is not None}
"""Identity elements: a reduction that starts from one has the same result; ``subtract`` has none."""
ANY_ORDER: Final = frozenset(IDENTITIES) - {"add", "multiply"}
"""Reductions that give the same result in any order of the elements."""
GROUP: Final = 16
"""Rows of a group: their sequential reductions run side by side, in the lanes of the widest vector."""
MOST_SUMS: Final = 4
"""Reductions of one loop: with more their chunks would be too narrow."""
_FEWEST: Final = 8
"""Elements of a row from which on the way through vectors is worth its start."""
_KINDS: Final = frozenset({"load", "cast", "value", "alu", "act"})
"""The kinds of expressions that vectors of rows compute."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An access pattern: of a load, of an iota (no memory) or of the target (no expression)."""

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
    """The loops of more than one round; neighbours become one loop where every pattern runs straight on."""
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
    """True if a step of ``outer`` is as long as all rounds of ``inner``, for every stream."""
    return all(
        o is not None and i is not None and o == i * inner.count for o, i in zip(outer.steps, inner.steps, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Nest:
    """A reduction and its loops: ``outer`` ones over results, ``inner`` ones over the elements of one result.

    Stream 0 is the target; the last one is the initial value, if there is one. Vectors can follow stream ``main``, one
    row in each lane; 0 if they can follow none.
    """

    statement: Reduce
    streams: list[Stream]
    outer: list[CountedLoop]
    inner: list[CountedLoop]
    main: int


def nest_of(s: Reduce, per_partition: Callable[[int], int] | None = None) -> Nest | None:
    """The loops of ``s``; None if the patterns of its operands do not nest.

    ``per_partition`` tells if the routine's range of partitions limits a loop over rows; by default nothing does.
    """
    length = s.value.columns // s.groups
    streams = [*streams_of(s.value), *([] if s.init is None else [Stream(s.init, s.init.memref)])]
    patterns = [pattern_of(stream, s.value.columns) for stream in streams]
    cuts = boundaries(patterns, length)
    if cuts is None:
        return None
    steps = (s.target.row_step, *(partition_step(stream, s.value.rows) for stream in streams))
    rows = CountedLoop(s.value.rows, steps, 0 if per_partition is None else per_partition(s.value.rows))
    at = cuts.index(length)
    groups = loop_nest([((1, s.groups),)], [c // length for c in cuts[at:]]) if s.groups > 1 else []
    elements = loop_nest(patterns, cuts)
    over_groups, in_group = elements[: len(cuts) - 1 - at], elements[len(cuts) - 1 - at :]
    groups = [CountedLoop(g.count, (*g.steps, *loop.steps)) for g, loop in zip(groups, over_groups, strict=True)]
    every = [Stream(None, s.target), *streams]
    inner = coalesced([CountedLoop(loop.count, (0, *loop.steps)) for loop in in_group])
    inner = inner or [CountedLoop(1, tuple(0 for _ in every))]
    return Nest(s, every, coalesced([rows, *groups]), inner, _main_stream(s, every, inner))


def _main_stream(s: Reduce, streams: list[Stream], inner: list[CountedLoop]) -> int:
    """The number of the stream that vectors of rows can follow through the ``inner`` loops; 0 if they cannot.

    They can follow one load, of neighbours or of every second element, through casts and operators. The other operands
    of these are the same for all elements of a row.
    """
    parts, last = subexpressions(s.value), inner[-1]
    if last.count < _FEWEST or s.op in BITS or (s.init is None and s.op not in IDENTITIES):
        return 0
    if any(part.kind not in _KINDS or part.op in BITS for part in parts):
        return 0
    wanted = {id(part) for part in parts}
    moving = [
        number
        for number, stream in enumerate(streams)
        if id(stream.expr) in wanted and any(loop.steps[number] for loop in inner)
    ]
    return moving[0] if len(moving) == 1 and last.steps[moving[0]] in (1, 2) else 0


def row_sums(s: Reduce, per_partition: Callable[[int], int] | None = None) -> Nest | None:
    """The loops of ``s``, if it sums rows, or groups of columns, whole and in vectors of rows."""
    nest = nest_of(s, per_partition)
    return nest if nest is not None and len(nest.inner) == 1 and nest.main else None
