"""Loop IR of a chain: one assignment for each part, which share a loop; and the test that they may.

The last parts may be sums of what others compute, which ride along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from nki.backend.cpu.fusion.chain import Chain
from nki.backend.cpu.fusion.consumed_product import ConsumedProduct, lower_consumed
from nki.backend.cpu.fusion.riding_sum import sum_of
from nki.backend.cpu.loop_ir.aliases import aliases as aliases_of
from nki.backend.cpu.loop_ir.builder import LoopIRBuilder
from nki.backend.cpu.loop_ir.inline_sums import inline_sums
from nki.backend.cpu.loop_ir.loop_nest import boundaries
from nki.backend.cpu.loop_ir.lower import lower
from nki.backend.cpu.loop_ir.nodes import (
    GRANULE,
    REGISTER,
    SCRATCH,
    Aliases,
    Assign,
    Dims,
    Expr,
    Fused,
    MemRef,
    Param,
    Reduce,
    loads,
    subexpressions,
)
from nki.backend.cpu.loop_ir.partitions import is_distinct, parallel_partitions
from nki.backend.cpu.loop_ir.streams import pattern_of, streams_of
from nki.backend.cpu.loop_ir.verifier import verify
from nki.base import knobs
from nki.ir.instruction import Inst

_KINDS: Final = frozenset({"load", "value", "iota", "cast", "narrow", "alu", "integer", "act", "select", "bits"})
"""The kinds of expressions that parts may consist of."""
_LARGEST_STEP: Final = 4
"""Elements between neighbours that are still loaded as vectors."""
_LEAST_GROUP: Final = 64
"""Bytes of a group in the result, all of which share one element of an operand: a vector."""
_MOST_STREAMS: Final = 16
"""Windows that one loop follows: each that is in memory takes a register for its address."""
_MOST_PARTS: Final = 96
"""Parts of all expressions of a chain: more take LLVM longer than they save."""
_MOST_FUNCTIONS: Final = 3
"""Activation functions in one loop: each takes dozens of instructions, and as many registers for its constants."""


def lower_any(inst: Inst, aliases: Aliases) -> LoopIRBuilder:
    """The loop IR of an instruction, or of several as one, whose operands overlap as ``aliases`` says."""
    if not isinstance(inst, ConsumedProduct | Chain):
        return lower(inst, aliases)
    lowered = lower_chain(inst) if isinstance(inst, Chain) else lower_consumed(inst)
    if knobs.check_stages():
        verify(lowered.statements, inst.mnemonic)
    return lowered


def part_of(inst: Inst) -> Assign | None:
    """The only statement of an instruction that may be a part of a chain; None if it may not.

    All its operands must be the same window or share no memory.
    """
    lowered = lower(inst, aliases_of(inst))
    if len(lowered.statements) != 1 or lowered.scratch_bytes:
        return None
    (statement,) = lowered.statements
    if not isinstance(statement, Assign) or statement.target.base == SCRATCH or statement.target.columns == 1:
        return None
    target, value = statement.target, statement.value
    if target.layout.pairs:  # elements move to other places than those that the target names
        return None
    if any(part.kind not in _KINDS for part in subexpressions(value)):
        return None
    if not (_is_vector(target) and _is_single(target)):
        return None
    if value.rows not in (1, target.rows) or value.columns not in (1, target.columns):
        return None
    sources = [load.memref for load in loads(value) if load.memref is not None]
    return statement if all(_is_repeated(source, target) or _is_vector(source) for source in sources) else None


def _is_repeated(memref: MemRef, target: MemRef) -> bool:
    """True if many neighbours are the same element, as of a column, or of one of each group, that a view repeats."""
    step, count = memref.dims[-1]
    return step == 0 and (len(memref.dims) == 1 or count * target.dtype.itemsize >= _LEAST_GROUP)


def _is_vector(memref: MemRef) -> bool:
    step, count = memref.dims[-1]
    return 1 <= step <= _LARGEST_STEP or count == 1


def _is_single(target: MemRef) -> bool:
    """True if no two elements of ``target`` share a byte."""
    size = target.dtype.itemsize
    return is_distinct([(step * size, count) for step, count in ((target.row_step, target.rows), *target.dims)], size)


def lower_chain(chain: Chain) -> LoopIRBuilder:
    """The loop IR of ``chain``: its statements run in one loop."""
    plan = chain.plan
    operands = {window: operand for operand, window in enumerate(plan.operands())}
    builder = LoopIRBuilder()
    statements: list[Assign] = []
    totals: list[Reduce] = []
    results: list[Assign] = []
    first_number = 0
    for part, windows in zip(chain.parts, plan.numbers, strict=True):
        places = [(operands[w], 0) if w in operands else (REGISTER, w) for w in windows]
        statement = part_of(part)
        if statement is None:  # it is one of the last ones
            riding = sum_of(part)
            assert riding is not None
            scratch = builder.scratch_bytes
            builder.scratch_bytes += riding.scratch_bytes
            totals.append(placed_sum(riding.total, places, first_number, scratch))
            results.append(placed(riding.result, places, first_number, scratch))
        else:
            statements.append(placed(statement, places, first_number))
        first_number += len(part.immediates()) if part.immediate_names else 0
    builder.statements = inline_sums([Fused(tuple(statements), tuple(totals)), *results])
    return builder


def placed(statement: Assign, places: Sequence[tuple[int, int]], first_number: int, scratch: int = 0) -> Assign:
    """``statement`` with its operands at ``places``, each a base and an offset in bytes, and later immediates.

    Scratch memory moves by ``scratch`` bytes.
    """
    return Assign(_moved(statement.target, places, scratch), _placed(statement.value, places, first_number, scratch))


def placed_sum(total: Reduce, places: Sequence[tuple[int, int]], first_number: int, scratch: int = 0) -> Reduce:
    """``total``, which is in scratch memory, moved by ``scratch`` bytes, with its operands at ``places``."""
    target = _moved(total.target, places, scratch)
    return replace(total, target=target, value=_placed(total.value, places, first_number, scratch))


def _moved(memref: MemRef, places: Sequence[tuple[int, int]], scratch: int) -> MemRef:
    """``memref`` of an operand at its place; scratch memory moves by ``scratch`` bytes."""
    base, offset = (SCRATCH, scratch) if memref.base == SCRATCH else places[memref.base]
    return replace(memref, base=base, offset=memref.offset + offset)


def _placed(value: Expr, places: Sequence[tuple[int, int]], first_number: int, scratch: int) -> Expr:
    """``value`` with its operands at ``places``, later immediates, and scratch memory moved by ``scratch`` bytes."""

    def number_of(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(number_of, cast("tuple[Any, ...]", value)))
        return replace(value, index=value.index + first_number) if isinstance(value, Param) else value

    known: dict[int, Expr] = {}

    def expression(expr: Expr) -> Expr:
        if id(expr) not in known:
            memref = None if expr.memref is None else _moved(expr.memref, places, scratch)
            args = tuple(map(expression, expr.args))
            known[id(expr)] = replace(expr, args=args, memref=memref, value=number_of(expr.value))
        return known[id(expr)]

    return expression(value)


def may_share_loop(statements: Sequence[Assign]) -> bool:
    """True if ``statements``, on windows that are the same or share no memory, may run element by element.

    That is so if all that touch a written window touch its elements in the same order.
    """
    first = statements[0].target
    if any((s.target.rows, s.target.columns) != (first.rows, first.columns) for s in statements):
        return False
    layouts: dict[int, set[MemRef]] = {}
    for statement in statements:
        for memref in (statement.target, *_sources(statement)):
            layouts.setdefault(memref.base, set()).add(memref)
    written = {statement.target.base for statement in statements}
    if any(len(layouts[base]) > 1 for base in written) or not _is_small(statements, layouts):
        return False
    if not _nest(statements):
        return False
    return first.rows <= GRANULE or parallel_partitions(list(statements), ()) == first.rows


def is_linked(statements: Sequence[Assign]) -> bool:
    """True if the last statement reads, or writes, what one before it has written."""
    before = {statement.target.base for statement in statements[:-1]}
    last = statements[-1]
    return last.target.base in before or any(memref.base in before for memref in _sources(last))


def _sources(statement: Assign) -> list[MemRef]:
    return [load.memref for load in loads(statement.value) if load.memref is not None]


def _is_small(statements: Sequence[Assign], layouts: dict[int, set[MemRef]]) -> bool:
    """True if the loop leaves registers for its values, and is short enough to compile."""
    parts = [part for statement in statements for part in subexpressions(statement.value)]
    functions = sum(part.kind == "act" for part in parts)
    streams = sum(map(len, layouts.values()))
    return len(parts) <= _MOST_PARTS and functions <= _MOST_FUNCTIONS and streams <= _MOST_STREAMS


def _nest(statements: Sequence[Assign]) -> bool:
    """True if one loop nest follows all windows."""
    columns = statements[0].target.columns
    patterns: list[Dims] = [statement.target.dims for statement in statements]
    patterns += [pattern_of(stream, columns) for s in statements for stream in streams_of(s.value)]
    return boundaries(patterns) is not None
