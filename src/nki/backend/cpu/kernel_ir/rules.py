"""The rules that rewrite the statements of an instruction, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from nki.backend.cpu.kernel_ir.accesses import reads_of, touches
from nki.backend.cpu.kernel_ir.loops import ANY_ORDER, GROUP, IDENTITIES, MOST_SUMS, boundaries, nest_of, row_sums
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
    Reduce,
    loads,
    mapped,
    subexpressions,
)
from nki.base import dtype as dt
from nki.base.dtype import DType
from nki.isa.tables.alu import TRUTHS
from nki.numerics.functions import FUNCTIONS

_KINDS: Final = frozenset({"load", "value", "alu", "act", "cast"})
"""The kinds of expressions whose results are summed as they are computed."""
_FEWEST: Final = 32
"""Elements from which on a sum is worth its place in a loop."""
_MOST_PARTS: Final = 24
"""Parts of an expression that a sum computes for itself."""
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
            _substitute(plain[start:], copy.value.memref, copy.target)
            return store_directly([*statements[:number], *statements[number + 1 :]], aliases)
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


def _substitute(statements: Iterable[Assign | Reduce], old: MemRef, new: MemRef) -> None:
    """Let ``statements`` read and write ``new`` instead of ``old``."""
    for statement in statements:
        if statement.target == old:
            statement.target = new
        init = statement.init if isinstance(statement, Reduce) else None
        for load in (load for expr in (statement.value, init) if expr is not None for load in loads(expr)):
            if load.memref == old:
                load.memref = new


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
    """The statements from number ``at`` on as one loop; None if they make none."""
    assigns: list[Assign] = []
    sums: list[Reduce] = []
    for statement in statements[at:]:
        if isinstance(statement, Assign) and (not assigns or _converts(statement, assigns)):
            assigns.append(statement)
        elif isinstance(statement, Reduce) and may_be_summed(assigns, statement, sums):
            sums.append(statement)
        else:
            break
    if not sums or not all(map(_computes_rows, assigns)) or not share_order(assigns):
        return None
    others = [*statements[:at], *statements[at + len(assigns) + len(sums) :]]
    loop = Fused(tuple(assigns), tuple(sums))
    for number, assign in enumerate(assigns):
        target = assign.target
        if target.base == SCRATCH and not any(touches(other, target) for other in others):
            _substitute(loop.parts, target, replace(target, base=REGISTER, offset=number))
    return loop


def _converts(statement: Assign, before: Sequence[Assign]) -> bool:
    """True if ``statement`` only converts what one ``before`` it has computed."""
    value, first = statement.value, before[0].target
    is_conversion = value.kind == "cast" and value.args[0].memref in {assign.target for assign in before}
    return is_conversion and (statement.target.rows, statement.target.columns) == (first.rows, first.columns)


def _computes_rows(s: Assign) -> bool:
    """True of dense rows that are computed element by element with a function."""
    return s.target.dense_rows and all(part.kind in _KINDS for part in subexpressions(s.value))


def share_order(assigns: Sequence[Assign]) -> bool:
    """True if all that touch memory that is written touch its elements in the same order."""
    targets = {assign.target.base: assign.target for assign in assigns if assign.target.base != REGISTER}
    touched = [memref for assign in assigns for memref in (assign.target, *(read for read, _ in reads_of(assign)))]
    return all(memref == targets.get(memref.base, memref) for memref in touched)


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


def may_be_summed(assigns: Sequence[Assign], total: Reduce, others: Sequence[Reduce]) -> bool:
    """True if the sum of what one of ``assigns`` computes may share their loop with ``others``, of as many groups."""
    targets = [assign.target for assign in assigns]
    if not is_row_sum(total) or _summed(total).memref not in targets:
        return False
    if len(others) == MOST_SUMS or any(other.groups != total.groups for other in others):
        return False
    if any(part.kind == "iota" for assign in assigns for part in subexpressions(assign.value)):
        return False
    length = total.value.columns // total.groups
    memrefs = [*targets, *(load.memref for assign in assigns for load in loads(assign.value) if load.memref)]
    if not all(map(_is_even, memrefs)):
        return False
    return boundaries([memref.dims for memref in memrefs], length) == sorted({1, length, total.value.columns})


def _is_even(memref: MemRef) -> bool:
    """True if elements are neighbours or one that is repeated, as far as the pattern goes without a jump."""
    step, count = memref.dims[-1]
    return not memref.dtype.is_packed and (step in (0, 1) or count == 1)


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
    """The only sum of ``loop`` as that of an expression, if nothing else is wanted of it."""
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
    """The only memory of which ``value`` reads several elements of a partition."""
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
