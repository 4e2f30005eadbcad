"""Sums of what is computed in one loop with it: ``s = f(x); t = reduce(s); d = cast(s)``.

Rows go in groups, columns in chunks: what a chunk of sixteen rows gives lies in a few lines of the first-level cache,
where the sums, with a row in each lane, find it. The statements one after the other would pass all of it through
the second-level cache, once for each. A chunk is summed while the next one is computed, because an addition waits for
the one before it: sums keep their order, and so all bits.
"""

from __future__ import annotations

from typing import Final

from nki.backend.cpu.loop_ir.effects import reads_of
from nki.backend.cpu.loop_ir.loop_nest import boundaries, loop_nest
from nki.backend.cpu.loop_ir.nodes import (
    SCRATCH,
    Aliases,
    Assign,
    LoopStatement,
    MemRef,
    Plain,
    Print,
    Reduce,
    SummedRows,
    flat,
    loads,
    subexpressions,
)
from nki.backend.cpu.loop_ir.reductions import ANY_ORDER, GROUP, row_sums
from nki.backend.cpu.loop_ir.streams import Stream, pattern_of, streams_of
from nki.base import dtype as dt

_KINDS: Final = frozenset({"load", "value", "alu", "act", "cast"})


def sum_rows(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``statements``, of which those that compute element by element, sum by row, and convert are one loop."""
    del aliases  # what overlaps another operand was copied before
    result: list[LoopStatement] = []
    at = 0
    while at < len(statements):
        loop = _loop(statements, at)
        result.append(statements[at] if loop is None else loop)
        at += 1 if loop is None else len(loop.parts)
    return result


def _loop(statements: list[LoopStatement], at: int) -> SummedRows | None:
    """The statements from number ``at`` on as one loop; None if they make none."""
    values, total, copy = [*statements[at : at + 3], None, None, None][:3]
    if not isinstance(values, Assign) or not isinstance(total, Reduce):
        return None
    if not _computes_rows(values) or not _sums(total, values.target):
        return None
    loop = SummedRows(values, total, None)
    if values.target.base == SCRATCH:
        others = [*statements[:at], *statements[at + 3 :]]
        if not isinstance(copy, Assign) or not _converts(copy, values.target):
            return None
        if any(_touches(other, values.target) for other in flat(others)):
            return None
        loop.copy = copy
    return loop if _in_order(values, loop.written) and _is_dense(loop) else None


def _is_dense(loop: SummedRows) -> bool:
    """True if each row is neighbours, or one element, in all memory."""
    if row_sums(loop.total) is None:
        return False
    columns = loop.values.target.columns
    streams = [Stream(None, loop.written), *streams_of(loop.values.value)]
    patterns = [pattern_of(stream, columns) for stream in streams]
    if boundaries(patterns) != [1, columns]:
        return False
    (elements,) = loop_nest(patterns, [1, columns])
    return all(step in (0, 1) for step in elements.steps)


def _computes_rows(s: Assign) -> bool:
    """True of a float32 tile of whole groups of dense rows that is computed element by element."""
    target, parts = s.target, subexpressions(s.value)
    shape = target.dtype is dt.float32 and target.dense_rows and target.rows % GROUP == 0
    plain = s.value.kind in ("alu", "act") and all(part.kind in _KINDS for part in parts)
    return shape and plain and any(part.kind == "act" for part in parts) and target.columns >= GROUP


def _sums(s: Reduce, source: MemRef) -> bool:
    """True of a sequential reduction of the rows of ``source``, to memory that nothing else shares."""
    value = s.value
    whole = value.kind == "load" and value.memref == source and s.groups == 1 and not s.cross_partition
    return whole and s.op not in ANY_ORDER and s.target.base == SCRATCH


def _converts(s: Assign, source: MemRef) -> bool:
    """True of the conversion of all of ``source`` to dense rows."""
    value, target = s.value, s.target
    if value.kind != "cast" or value.args[0].kind != "load" or value.args[0].memref != source:
        return False
    return target.dense_rows and target.base != SCRATCH and target.rows == source.rows


def _touches(statement: Plain, memref: MemRef) -> bool:
    """True if ``statement`` may read or write scratch memory of ``memref``."""
    low, high = memref.offset, memref.offset + memref.rows * memref.columns * memref.dtype.itemsize
    touched = [read for read, _ in reads_of(statement)]
    if not isinstance(statement, Print):
        touched.append(statement.target)
    return any(other.base == SCRATCH and low <= other.offset < high for other in touched)


def _in_order(values: Assign, target: MemRef) -> bool:
    """True if what is read of the operand that ``target`` belongs to is read where it is written, as it is.

    Other operands that share memory with it in another way were copied before.
    """
    memrefs = [load.memref for load in loads(values.value) if load.memref is not None]
    return all(memref == target for memref in memrefs if memref.base == target.base)
