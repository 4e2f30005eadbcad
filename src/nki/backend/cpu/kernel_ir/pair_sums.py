"""Two sequential reductions in one loop: of the even and of the odd elements of rows, which are then read once.

Each half keeps its own order and its own expression, so the bits are the same as of one reduction after the other. The
two chains of additions also wait for their own results at the same time.
"""

from __future__ import annotations

from nki.backend.cpu.kernel_ir.nodes import (
    SCRATCH,
    Aliases,
    Expr,
    LoopStatement,
    MemRef,
    PairedSums,
    Reduce,
    loads,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.reductions import nest_of, vector_stream


def pair_sums(statements: list[LoopStatement], aliases: Aliases) -> list[LoopStatement]:
    """``statements``, of which neighbours that reduce halves of the same rows are one loop."""
    del aliases  # both write scratch memory, which no operand shares
    result: list[LoopStatement] = []
    for statement in statements:
        before = result[-1] if result else None
        if isinstance(before, Reduce) and isinstance(statement, Reduce) and are_halves(before, statement):
            result[-1] = PairedSums(before, statement)
        else:
            result.append(statement)
    return result


def are_halves(even: Reduce, odd: Reduce) -> bool:
    """True if ``odd`` reduces the neighbours of the elements of ``even`` and does not read its result."""
    if even.op != odd.op or any(s.cross_partition or s.groups != 1 or s.init is not None for s in (even, odd)):
        return False
    one, two = _moving(even.value), _moving(odd.value)
    if one is None or two is None or any(_is_at(even.target, load.memref) for load in loads(odd.value)):
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


def _is_at(target: MemRef, memref: MemRef | None) -> bool:
    return memref is not None and memref.base == target.base == SCRATCH and memref.offset == target.offset


def _is_simple(s: Reduce) -> bool:
    """True of one loop over rows around one over elements, which vectors of rows follow."""
    nest = nest_of(s) if not s.cross_partition else None
    return nest is not None and len(nest.outer) == len(nest.inner) == 1 and vector_stream(s, nest) != 0
