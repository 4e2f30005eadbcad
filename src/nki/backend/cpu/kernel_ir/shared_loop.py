"""The statements that one loop may hold, whether of one instruction or of several: the only definition.

The rule :func:`~nki.backend.cpu.kernel_ir.rewrite_rules.fuse_rows` asks for statements of an instruction,
:mod:`nki.backend.cpu.fusion` for neighbours, the verifier for every loop that there is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from nki.backend.cpu.kernel_ir.accesses import repeats
from nki.backend.cpu.kernel_ir.loop_nests import (
    ANY_ORDER,
    GROUP,
    IDENTITIES,
    MOST_SUMS,
    boundaries,
    pattern_of,
    streams_of,
)
from nki.backend.cpu.kernel_ir.nodes import (
    REGISTER,
    SCRATCH,
    Assign,
    Expr,
    Fused,
    MemRef,
    Reduce,
    loads,
    subexpressions,
)

_KINDS: Final = frozenset({"load", "value", "iota", "cast", "narrow", "alu", "integer", "act", "select", "bits"})
"""The kinds of expressions that vectors compute element by element."""
_LARGEST_STEP: Final = 4
"""Elements between neighbours that are still loaded as vectors."""
_LEAST_GROUP: Final = 64
"""Bytes of a group in the result that share one element of an operand: a vector."""
_FEWEST: Final = 32
"""Elements from which on a sum is worth its place in a loop."""
_MOST_STREAMS: Final = 16
"""Windows that one loop follows: each that is in memory takes a register for its address."""
_MOST_EXPRESSIONS: Final = 96
"""Expressions of a loop: more take LLVM longer than they save."""
_MOST_FUNCTIONS: Final = 3
"""Activation functions in one loop: each takes dozens of instructions, and as many registers for its constants."""


def may_share_loop(loop: Fused) -> bool:
    """True if the statements of ``loop``, on memory that is the same or apart, may run element by element.

    All compute tiles of one size and touch memory that is written in one order, patterns nest, and each sum adds what
    the loop computes.
    """
    first, assigns = loop.assigns[0].target, loop.assigns
    if any((assign.target.rows, assign.target.columns) != (first.rows, first.columns) for assign in assigns):
        return False
    memrefs = {memref for assign in assigns for memref in (assign.target, *sources_of(assign))}
    written = {assign.target.base for assign in assigns} - {REGISTER}
    if sum(memref.base in written for memref in memrefs) > len(written) or not _is_small(assigns, len(memrefs)):
        return False
    return all(map(is_element_wise, assigns)) and _nest(assigns) and (not loop.sums or _may_sum(loop, memrefs))


def sources_of(statement: Assign) -> list[MemRef]:
    """The memory that ``statement`` reads."""
    return [load.memref for load in loads(statement.value) if load.memref is not None]


def is_element_wise(statement: Assign) -> bool:
    """True of a statement on vectors, on numbers and on what many neighbours share, all in one order."""
    target, value = statement.target, statement.value
    if target.layout.pairs:  # elements move to other places than those that the target names
        return False
    if any(part.kind not in _KINDS for part in subexpressions(value)):
        return False
    if not _is_vector(target) or repeats(target):
        return False
    if value.rows not in (1, target.rows) or value.columns not in (1, target.columns):
        return False
    return all(_is_repeated(source, target) or _is_vector(source) for source in sources_of(statement))


def _is_repeated(memref: MemRef, target: MemRef) -> bool:
    """True if many neighbours are the same element, as of a column, or of one of each group, that a view repeats."""
    step, count = memref.dims[-1]
    return step == 0 and (len(memref.dims) == 1 or count * target.dtype.itemsize >= _LEAST_GROUP)


def _is_vector(memref: MemRef) -> bool:
    step, count = memref.dims[-1]
    return 1 <= step <= _LARGEST_STEP or count == 1


def _is_small(assigns: Sequence[Assign], streams: int) -> bool:
    """True if the loop leaves registers for its values, and is short enough to compile."""
    parts = [part for assign in assigns for part in subexpressions(assign.value)]
    functions = sum(part.kind == "act" for part in parts)
    return len(parts) <= _MOST_EXPRESSIONS and functions <= _MOST_FUNCTIONS and streams <= _MOST_STREAMS


def _nest(assigns: Sequence[Assign]) -> bool:
    """True if one loop nest follows all windows."""
    columns = assigns[0].target.columns
    patterns = [assign.target.dims for assign in assigns]
    patterns += [pattern_of(stream, columns) for assign in assigns for stream in streams_of(assign.value)]
    return boundaries(patterns) is not None


def _may_sum(loop: Fused, memrefs: Collection[MemRef]) -> bool:
    """True if the sums of ``loop``, which touches ``memrefs``, add what it computes, all in as many groups."""
    targets, groups = {assign.target for assign in loop.assigns}, loop.sums[0].groups
    if len(loop.sums) > MOST_SUMS or any(total.groups != groups for total in loop.sums):
        return False
    if not all(is_row_sum(total) and _summed(total).memref in targets for total in loop.sums):
        return False
    if any(part.kind == "iota" for assign in loop.assigns for part in subexpressions(assign.value)):
        return False
    columns = loop.assigns[0].target.columns
    cuts = sorted({1, columns // groups, columns})
    return all(map(_is_even, memrefs)) and boundaries([memref.dims for memref in memrefs], columns // groups) == cuts


def is_row_sum(total: Reduce) -> bool:
    """True of a sequential sum of all elements of a partition, or of each of several equal groups of them.

    One of elements in the first-level cache is nearly free. Its target must be memory that nothing else shares.
    """
    if total.cross_partition or total.op in ANY_ORDER or total.op not in IDENTITIES or total.target.base != SCRATCH:
        return False
    is_load, length = _summed(total).kind == "load", total.value.columns // total.groups
    return is_load and total.value.rows % GROUP == 0 and length >= _FEWEST


def _summed(total: Reduce) -> Expr:
    """The summand of ``total``, without a cast."""
    return total.value.args[0] if total.value.kind == "cast" else total.value


def _is_even(memref: MemRef) -> bool:
    """True if elements are neighbours, or one that is repeated, up to where the pattern jumps."""
    step, count = memref.dims[-1]
    return not memref.dtype.is_packed and (step in (0, 1) or count == 1)
