"""The loops of a reduction, and what its order leaves free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nki.backend.cpu.kernel_ir.loops import (
    CountedLoop,
    Stream,
    boundaries,
    coalesced,
    loop_nest,
    partition_step,
    pattern_of,
    streams_of,
)
from nki.backend.cpu.kernel_ir.nodes import Expr, Reduce, subexpressions
from nki.isa.tables.alu import BITS, TABLE

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


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a reduction: ``outer`` ones over results, ``inner`` ones over the elements of one result.

    Stream 0 is the target; the last one is the initial value, if there is one.
    """

    streams: list[Stream]
    outer: list[CountedLoop]
    inner: list[CountedLoop]


def _all_rows(rows: int) -> int:
    """Nothing limits a loop over ``rows``."""
    del rows
    return 0


def nest_of(s: Reduce, per_partition: Callable[[int], int] = _all_rows) -> Nest | None:
    """The loops of ``s``; None if the patterns of its operands do not nest.

    ``per_partition`` tells if the routine's range of partitions limits a loop over rows.
    """
    length = s.value.columns // s.groups
    streams = [*streams_of(s.value), *([] if s.init is None else [Stream(s.init, s.init.memref)])]
    patterns = [pattern_of(stream, s.value.columns) for stream in streams]
    cuts = boundaries(patterns, length)
    if cuts is None:
        return None
    steps = (s.target.row_step, *(partition_step(stream, s.value.rows) for stream in streams))
    rows = CountedLoop(s.value.rows, steps, per_partition(s.value.rows))
    at = cuts.index(length)
    groups = loop_nest([((1, s.groups),)], [c // length for c in cuts[at:]]) if s.groups > 1 else []
    elements = loop_nest(patterns, cuts)
    over_groups, in_group = elements[: len(cuts) - 1 - at], elements[len(cuts) - 1 - at :]
    groups = [CountedLoop(g.count, (*g.steps, *loop.steps)) for g, loop in zip(groups, over_groups, strict=True)]
    every = [Stream(None, s.target), *streams]
    inner = coalesced([CountedLoop(loop.count, (0, *loop.steps)) for loop in in_group])
    return Nest(every, coalesced([rows, *groups]), inner or [CountedLoop(1, tuple(0 for _ in every))])


def vector_stream(s: Reduce, nest: Nest) -> int:
    """The number of the stream that a vector can follow, one row in each lane; 0 if there is none."""
    has_start = s.init is not None or s.op in IDENTITIES
    return _main_stream(s.value, nest.streams, nest.inner) if has_start and s.op not in BITS else 0


def _main_stream(value: Expr, streams: list[Stream], inner: list[CountedLoop]) -> int:
    """The number of the stream that vectors of rows can follow through the ``inner`` loops; 0 if they cannot.

    They can follow one load, of neighbours or of every second element, through casts and operators. The other operands
    of these are the same for all elements of a row.
    """
    parts, last = subexpressions(value), inner[-1]
    if last.count < _FEWEST or any(part.kind not in _KINDS or part.op in BITS for part in parts):
        return 0
    wanted = {id(part) for part in parts}
    moving = [
        number
        for number, stream in enumerate(streams)
        if id(stream.expr) in wanted and any(loop.steps[number] for loop in inner)
    ]
    return moving[0] if len(moving) == 1 and last.steps[moving[0]] in (1, 2) else 0


def row_sums(s: Reduce, per_partition: Callable[[int], int] = _all_rows) -> Nest | None:
    """The loops of ``s``, if it sums rows, or groups of columns, whole and in vectors of rows."""
    nest = nest_of(s, per_partition)
    return nest if nest is not None and len(nest.inner) == 1 and vector_stream(s, nest) else None
