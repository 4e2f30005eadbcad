"""The rules that rewrite the statements of an instruction, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from nki.backend.cpu.kernel_ir.accesses import reads_of, touches
from nki.backend.cpu.kernel_ir.loop_nests import nest_of, row_sums
from nki.backend.cpu.kernel_ir.nodes import (
    REGISTER,
    SCRATCH,
    Aliases,
    Assign,
    Expr,
    Fused,
    LoopStatement,
    MemRef,
    PairedSums,
    Plain,
    Reduce,
    loads,
    mapped,
    moved,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.shared_loop import may_share_loop
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.isa.tables.alu_operators import TRUTHS
from nki.numerics.functions import FUNCTIONS

_MOST_PARTS: Final = 24
"""Parts of an expression that a sum computes for itself."""
_S = TypeVar("_S", bound=Plain)
Rule = Callable[[list[LoopStatement], Aliases], list[LoopStatement]]


# Choices by two truths are two choices.


def split_choices(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``select(multiply(p, q), x, y)`` becomes ``select(p, select(q, x, y), y)``, where ``p`` and ``q`` are 1.0 or 0.0.

    Code has truths as masks of lanes, which combine in one operation; a product would make them numbers first.
    """
    del aliases  # each reads and writes what it did
    return [_split(statement) if isinstance(statement, Assign) else statement for statement in statements]


def _split(statement: Assign) -> Assign:
    if all(_one_by_one(part) is part for part in subexpressions(statement.value)):
        return statement
    return Assign(statement.target, mapped(statement.value, _one_by_one))


def _one_by_one(expr: Expr) -> Expr:
    if expr.kind != "select" or expr.args[0].op != "multiply":
        return expr
    product, yes, no = expr.args
    if any(factor.kind != "alu" or factor.op not in TRUTHS for factor in product.args):
        return expr
    first, second = product.args
    return replace(expr, args=(first, replace(expr, args=(second, yes, no)), no))


# Results are computed where they are wanted: no tile in scratch memory that is only copied to an operand afterwards.


def store_directly(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``s = f(x); t = reduce(s); dst = s`` becomes ``dst = f(x); t = reduce(dst)``.

    So if nothing in between reads or writes what ``dst`` shares memory with, except ``f`` itself, element by element.
    """
    plain = [statement for statement in statements if isinstance(statement, Assign | Reduce)]
    if len(plain) < len(statements):
        return statements
    for number, copy in enumerate(plain):
        if isinstance(copy, Assign) and (start := _definition(plain, number, copy, aliases)) is not None:
            assert copy.value.memref is not None
            after = _substituted([*plain[start:number], *plain[number + 1 :]], {copy.value.memref: copy.target})
            return store_directly([*plain[:start], *after], aliases)
    return statements


def _definition(statements: Sequence[Assign | Reduce], number: int, copy: Assign, aliases: Aliases) -> int | None:
    """The number of the statement that computes what ``copy``, the ``number``-th, reads, if it can do so in place."""
    source, target = copy.value.memref, copy.target
    if copy.value.kind != "load" or source is None or source.base != SCRATCH or target.base == SCRATCH:
        return None
    same_shape = (source.rows, source.dims) == (target.rows, target.dims) and source.dtype is target.dtype
    if not same_shape or not target.dense_rows or source.rows == 1:
        return None
    writers = [n for n, s in enumerate(statements) if s.target.overlaps(source)]
    if len(writers) != 1 or writers[0] >= number:
        return None
    definition = statements[writers[0]]
    if not isinstance(definition, Assign) or definition.target != source:
        return None
    reads = [[memref for memref, _ in reads_of(statement)] for statement in statements]
    if any(memref.overlaps(source) and memref != source for memrefs in reads for memref in memrefs):
        return None
    shared = {target.base} | {read for written, read, _ in aliases if written == target.base}
    shared |= {written for written, read, _ in aliases if read == target.base}

    def is_in_place(memref: MemRef) -> bool:
        same_memory = memref.base == target.base or (target.base, memref.base, True) in aliases
        return same_memory and in_lockstep(target, memref)

    others = [memref for memref in reads[writers[0]] if not is_in_place(memref)]
    others += [memref for n in range(writers[0] + 1, number) for memref in (statements[n].target, *reads[n])]
    return None if any(memref.base in shared for memref in others) else writers[0]


def in_lockstep(target: MemRef, source: MemRef) -> bool:
    """True if both address the same bytes, relative to their bases, in the same order."""
    layout = (target.offset, target.rows, target.row_step, target.dims, target.dtype.itemsize)
    return layout == (source.offset, source.rows, source.row_step, source.dims, source.dtype.itemsize)


def _substituted(statements: Iterable[_S], memory: Mapping[MemRef, MemRef]) -> list[_S]:
    """``statements`` that read and write other ``memory``."""
    return [moved(statement, lambda memref: memory.get(memref, memref)) for statement in statements]


# Results and their sums by row share a loop.


def fuse_rows(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``s = f(x); t = reduce(s); d = cast(s)`` becomes one :class:`Fused`.

    The statements one after the other would pass the results through the second-level cache, once for each. What
    nothing else reads stays in registers. Sums keep their order, and so all bits.
    """
    del aliases  # what overlaps another operand was copied before
    result: list[LoopStatement] = []
    at = 0
    while at < len(statements):
        loop = _loop(statements, at)
        result.append(statements[at] if loop is None else loop)
        at += 1 if loop is None else len(loop.parts)
    return result


def _loop(statements: Sequence[LoopStatement], at: int) -> Fused | None:
    """The statements from number ``at`` on as one loop; None if they make none with a sum."""
    loop = Fused(())
    if not any(isinstance(statement, Reduce) for statement in statements[at:]):
        return None
    for statement in statements[at:]:
        longer = _longer(loop, statement)
        if longer is None:
            break
        loop = longer
    if not loop.sums:
        return None
    others = [*statements[:at], *statements[at + len(loop.parts) :]]
    registers = {
        assign.target: replace(assign.target, base=REGISTER, offset=number)
        for number, assign in enumerate(loop.assigns)
        if assign.target.base == SCRATCH and not any(touches(other, assign.target) for other in others)
    }
    return Fused(tuple(_substituted(loop.assigns, registers)), tuple(_substituted(loop.sums, registers)))


def _longer(loop: Fused, statement: LoopStatement) -> Fused | None:
    """``loop`` with one more statement, an assignment before its sums; None if that must not share it."""
    if isinstance(statement, Assign):
        if any(touches(statement, total.target) or touches(total, statement.target) for total in loop.sums):
            return None
        loop = Fused((*loop.assigns, statement), loop.sums)
    elif isinstance(statement, Reduce) and loop.assigns:
        loop = Fused(loop.assigns, (*loop.sums, statement))
    else:
        return None
    return loop if may_share_loop(loop) else None


# Sums compute what they alone read.


def inline_sums(statements: list[LoopStatement], aliases: Aliases = ()) -> list[LoopStatement]:
    """``s = f(x); t = reduce(s)`` becomes ``t = reduce(f(x))``, where nothing else reads ``s``.

    The lanes of a vector then follow a row each, and compute what they add. Exponentials stay in a loop of their own:
    two vectors at a time they take less than the way through the cache.
    """
    del aliases  # it moves no access to an operand: what overlaps another one was copied before
    result: list[LoopStatement] = []
    for number, statement in enumerate(statements):
        before = result[-1] if result else None
        if isinstance(statement, Fused) and (alone := _alone(statement)) is not None:
            result.append(alone)
        elif isinstance(statement, Reduce) and isinstance(before, Assign) and before.target.base == SCRATCH:
            others = [*result[:-1], *statements[number + 1 :]]
            is_read = any(touches(other, before.target) for other in others)
            alone = None if is_read else _inlined((before,), statement)
            result[-1:] = [before, statement] if alone is None else [alone]
        else:
            result.append(statement)
    return result


def _alone(loop: Fused) -> Reduce | None:
    """The only sum of ``loop`` as the sum of an expression, if nothing else is wanted of it."""
    if len(loop.sums) != 1 or any(map(loop.is_stored, range(len(loop.assigns)))):
        return None
    return _inlined(loop.assigns, loop.sums[0])


def _inlined(assigns: Sequence[Assign], total: Reduce) -> Reduce | None:
    """``total`` of an expression of what ``assigns`` read; None if that is long, or if no lanes of rows can compute it.

    Each memory has one load in it, and that one cast to each dtype.
    """
    if not any(part.memref == assigns[-1].target for part in subexpressions(total.value)):
        return None
    values: dict[MemRef, Expr] = {}
    casts: dict[tuple[int, DType], Expr] = {}

    def part(expr: Expr) -> Expr:
        if expr.kind == "load" and expr.memref is not None:
            return values.setdefault(expr.memref, expr)
        return casts.setdefault((id(expr.args[0]), expr.dtype), expr) if expr.kind == "cast" else expr

    for assign in assigns:
        value = mapped(assign.value, part)
        if len(subexpressions(value)) > _MOST_PARTS or short_formula(assign.value) is not None:
            return None
        values[assign.target] = value
    alone = replace(total, value=mapped(total.value, part))
    return None if row_sums(alone) is None else alone


def short_formula(value: Expr) -> Expr | None:
    """The function that ``value`` is, or rounds to bfloat16, if it has a short formula for normal results; else None.

    Two vectors share the test for it. (Such functions are exponentials.)
    """
    if value.kind == "cast" and value.dtype is dt.bfloat16 and value.args[0].dtype is dt.float32:
        value = value.args[0]
    return value if value.kind == "act" and FUNCTIONS[value.op].normal is not None else None


# Sums of the even and of the odd elements of rows share a loop.


def pair_sums(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """Neighbours that reduce halves of the same rows become one loop, which reads these once.

    Each half keeps its own order and its own expression, so the bits are the same as of one reduction after the other.
    The two chains of additions also wait for their own results at the same time.
    """
    del aliases  # both write scratch memory, which no operand shares
    result: list[LoopStatement] = []
    for statement in statements:
        before = result[-1] if result else None
        if isinstance(before, Reduce) and isinstance(statement, Reduce) and _are_halves(before, statement):
            result[-1] = PairedSums(before, statement)
        else:
            result.append(statement)
    return result


def _are_halves(even: Reduce, odd: Reduce) -> bool:
    """True if ``odd`` reduces the neighbours of the elements of ``even`` and does not read its result."""
    if even.op != odd.op or any(s.cross_partition or s.groups != 1 or s.init is not None for s in (even, odd)):
        return False
    one, two = _moving(even.value), _moving(odd.value)
    if one is None or two is None or any(memref.overlaps(even.target) for memref, _ in reads_of(odd)):
        return False
    count = one.columns
    expected = MemRef(one.base, one.offset + one.dtype.itemsize, one.rows, one.row_step, two.dims, one.dtype)
    casts = [[part.dtype for part in subexpressions(s.value) if part.kind == "cast"] for s in (even, odd)]
    return (
        two == expected
        and one.dims == ((2, count),)
        and two.dims in (((2, count),), ((2, count - 1),))
        and casts[0] == casts[1]
        and _is_simple(even)
        and _is_simple(odd)
    )


def _moving(value: Expr) -> MemRef | None:
    """The only memory from which ``value`` reads several elements of a partition."""
    wide = [load.memref for load in loads(value) if load.columns > 1]
    return wide[0] if len(wide) == 1 else None


def _is_simple(s: Reduce) -> bool:
    """True of one loop over rows around one over elements, which vectors of rows follow."""
    nest = nest_of(s)
    return nest is not None and len(nest.outer) == len(nest.inner) == 1 and nest.main != 0


RULES: Final[tuple[Rule, ...]] = (split_choices, store_directly, fuse_rows, inline_sums, pair_sums)
"""The rules that rewrite the statements of an instruction, in the order in which they run.

================  ======================================================================
split_choices     a choice by two comparisons as two choices
store_directly    no tile in scratch memory that is only copied to an operand afterwards
fuse_rows         results and their sums by row in one loop
inline_sums       no loop of results that one sum alone reads: it computes them itself
pair_sums         sums of the even and of the odd elements of rows in one loop
================  ======================================================================
"""
