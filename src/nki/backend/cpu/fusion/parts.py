"""Parts of a fusion group: the statements that an instruction adds to a loop, and the test that they may share one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.kernel_ir.accesses import aliases as aliases_of
from nki.backend.cpu.kernel_ir.accesses import partition_split, repeats
from nki.backend.cpu.kernel_ir.builder import KernelIRBuilder
from nki.backend.cpu.kernel_ir.fuse_rows import may_be_summed
from nki.backend.cpu.kernel_ir.inline_sums import inline_sums
from nki.backend.cpu.kernel_ir.loops import boundaries, pattern_of, streams_of
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import (
    GRANULE,
    REGISTER,
    SCRATCH,
    Assign,
    Expr,
    Fused,
    MemRef,
    Param,
    Reduce,
    loads,
    mapped,
    subexpressions,
)
from nki.ir.instruction import Inst

_KINDS: Final = frozenset({"load", "value", "iota", "cast", "narrow", "alu", "integer", "act", "select", "bits"})
"""The kinds of expressions that parts may consist of."""
_LARGEST_STEP: Final = 4
"""Elements between neighbours that are still loaded as vectors."""
_LEAST_GROUP: Final = 64
"""Bytes of a group in the result, all of which share one element of an operand: a vector."""
_MOST_STREAMS: Final = 16
"""Windows that one loop follows: each that is in memory takes a register for its address."""
_MOST_EXPRESSIONS: Final = 96
"""Expressions of a group: more take LLVM longer than they save."""
_MOST_FUNCTIONS: Final = 3
"""Activation functions in one loop: each takes dozens of instructions, and as many registers for its constants."""
Place = tuple[int, int]
"""A base, and an offset in bytes."""


@dataclass(frozen=True, slots=True)
class Part:
    """An instruction in a group: what it computes element by element, the sums of that, and what becomes of these.

    ``starts`` are constants in scratch memory from which sums begin.
    """

    assigns: tuple[Assign, ...]
    sums: tuple[Reduce, ...] = ()
    starts: tuple[Assign, ...] = ()
    results: tuple[Assign, ...] = ()
    scratch_bytes: int = 0

    def placed(self, places: Sequence[Place], first_number: int = 0, scratch: int = 0) -> Part:
        """The part with its operands at ``places``, later immediates, and scratch memory moved by ``scratch`` bytes."""

        def memory(memref: MemRef) -> MemRef:
            if memref.base == REGISTER:  # of this part alone
                return replace(memref, offset=memref.offset - 1 - scratch)
            base, offset = (SCRATCH, scratch) if memref.base == SCRATCH else places[memref.base]
            return replace(memref, base=base, offset=memref.offset + offset)

        def number(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(number, cast("tuple[Any, ...]", value)))
            return replace(value, index=value.index + first_number) if isinstance(value, Param) else value

        def expression(expr: Expr) -> Expr:
            memref = None if expr.memref is None else memory(expr.memref)
            return replace(expr, memref=memref, value=number(expr.value))

        def assigned(each: Assign) -> Assign:
            return Assign(memory(each.target), mapped(each.value, expression))

        def summed(each: Reduce) -> Reduce:
            init = None if each.init is None else mapped(each.init, expression)
            return replace(each, target=memory(each.target), value=mapped(each.value, expression), init=init)

        assigns, starts, results = (tuple(map(assigned, some)) for some in (self.assigns, self.starts, self.results))
        return Part(assigns, tuple(map(summed, self.sums)), starts, results, self.scratch_bytes)


def part_of(inst: Inst) -> Part | None:
    """The statements that an instruction adds to a group; None if it must not be part of one.

    All its operands must be the same window or share no memory.
    """
    lowered = lower(inst, aliases_of(inst))
    starts: list[Assign] = []
    results: list[Assign] = []
    loop: Assign | Reduce | Fused | None = None
    for statement in lowered.statements:
        if loop is None and isinstance(statement, Assign) and statement.value.kind == "value":
            starts.append(statement)
        elif loop is None and isinstance(statement, Assign | Reduce | Fused):
            loop = statement
        elif isinstance(statement, Assign) and all(_is_scratch(load) for load in loads(statement.value)):
            results.append(statement)
        else:
            return None
    match loop:
        case None if len(starts) == 1:
            part = Part((starts.pop(),))  # a constant is the result
        case Assign() if not (starts or results or lowered.scratch_bytes):
            part = Part((loop,))
        case Reduce() if loop.value.kind in ("load", "cast"):
            part = Part((), (loop,), tuple(starts), tuple(results), lowered.scratch_bytes)
        case Fused():
            part = Part(loop.assigns, loop.sums, tuple(starts), tuple(results), lowered.scratch_bytes)
        case _:
            return None
    if any(start.target.base != SCRATCH for start in part.starts):
        return None
    if any(result.target.base == SCRATCH for result in part.results) or bool(part.sums) != bool(part.results):
        return None
    return part if all(map(_is_element_wise, part.assigns)) else None


def _is_scratch(load: Expr) -> bool:
    return load.memref is not None and load.memref.base == SCRATCH


def _is_element_wise(statement: Assign) -> bool:
    """True of a statement on vectors, on numbers and on what many neighbours share, all in one order."""
    target, value = statement.target, statement.value
    if target.base == SCRATCH or target.columns == 1:
        return False
    if target.layout.pairs:  # elements move to other places than those that the target names
        return False
    if any(part.kind not in _KINDS for part in subexpressions(value)) or not (
        _is_vector(target) and not repeats(target)
    ):
        return False
    if value.rows not in (1, target.rows) or value.columns not in (1, target.columns):
        return False
    return all(_is_repeated(source, target) or _is_vector(source) for source in _sources(statement))


def _is_repeated(memref: MemRef, target: MemRef) -> bool:
    """True if many neighbours are the same element, as of a column, or of one of each group, that a view repeats."""
    step, count = memref.dims[-1]
    return step == 0 and (len(memref.dims) == 1 or count * target.dtype.itemsize >= _LEAST_GROUP)


def _is_vector(memref: MemRef) -> bool:
    step, count = memref.dims[-1]
    return 1 <= step <= _LARGEST_STEP or count == 1


def lower_group(group: FusionGroup) -> KernelIRBuilder:
    """The kernel IR of ``group``: the statements of all parts in one loop."""
    plan, builder = group.plan, KernelIRBuilder()
    operands = {window: operand for operand, window in enumerate(plan.operands())}
    parts: list[Part] = []
    first_number = 0
    for inst, windows in zip(group.parts, plan.numbers, strict=True):
        part = part_of(inst)
        assert part is not None, "a part has been one before"
        places = [(operands[w], 0) if w in operands else (REGISTER, w) for w in windows]
        parts.append(part.placed(places, first_number, builder.scratch_bytes))
        builder.scratch_bytes += part.scratch_bytes
        first_number += len(inst.immediates()) if inst.immediate_names else 0
    starts = [start for part in parts for start in part.starts]
    results = [result for part in parts for result in part.results]
    loop = Fused(tuple([a for part in parts for a in part.assigns]), tuple([t for part in parts for t in part.sums]))
    builder.statements = inline_sums([*starts, loop, *results])
    return builder


def may_share_loop(parts: Sequence[Part]) -> bool:
    """True if ``parts``, on windows that are the same or share no memory, may run element by element.

    That is so if all that touch a written window touch its elements in the same order, and if all sums are sums of what
    the loop computes.
    """
    assigns = [assign for part in parts for assign in part.assigns]
    first = assigns[0].target
    if any((s.target.rows, s.target.columns) != (first.rows, first.columns) for s in assigns):
        return False
    layouts: dict[int, set[MemRef]] = {}
    for assign in assigns:
        for memref in (assign.target, *_sources(assign)):
            layouts.setdefault(memref.base, set()).add(memref)
    written = {assign.target.base for assign in assigns} - {REGISTER}
    if any(len(layouts[base]) > 1 for base in written) or not _is_small(assigns, layouts) or not _nest(assigns):
        return False
    sums: list[Reduce] = []
    for part in parts:
        for total in part.sums:
            if not may_be_summed(assigns, total, sums):
                return False
            sums.append(total)
    results = [result for part in parts for result in part.results]
    return first.rows <= GRANULE or partition_split([*assigns, *sums, *results], ()).count == first.rows


def is_linked(parts: Sequence[Part]) -> bool:
    """True if the last part reads, or writes, what one before it has written."""
    before = {assign.target.base for part in parts[:-1] for assign in part.assigns}
    return any(
        assign.target.base in before or any(memref.base in before for memref in _sources(assign))
        for assign in parts[-1].assigns
    )


def _sources(statement: Assign) -> list[MemRef]:
    return [load.memref for load in loads(statement.value) if load.memref is not None]


def _is_small(statements: Sequence[Assign], layouts: dict[int, set[MemRef]]) -> bool:
    """True if the loop leaves registers for its values, and is short enough to compile."""
    parts = [part for statement in statements for part in subexpressions(statement.value)]
    functions = sum(part.kind == "act" for part in parts)
    streams = sum(map(len, layouts.values()))
    return len(parts) <= _MOST_EXPRESSIONS and functions <= _MOST_FUNCTIONS and streams <= _MOST_STREAMS


def _nest(statements: Sequence[Assign]) -> bool:
    """True if one loop nest follows all windows."""
    columns = statements[0].target.columns
    patterns = [statement.target.dims for statement in statements]
    patterns += [pattern_of(stream, columns) for s in statements for stream in streams_of(s.value)]
    return boundaries(patterns) is not None
