"""Parts of a fusion group: the statements that an instruction adds to a loop, and the test that they may share one.

:class:`Facts` remembers by form of an instruction what decides if it may be a part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from nki.backend.cpu.kernel_ir.accesses import aliases as aliases_of
from nki.backend.cpu.kernel_ir.accesses import partition_split, repeats
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
from nki.backend.cpu.kernel_ir.rules import is_row_sum, may_be_summed
from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.types import Access, Form, Tensor
from nki.numerics.functions import operations

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
_MOST_FORMS: Final = 1 << 12
"""Forms of instructions whose facts a process remembers."""
_MOST_OPERATORS: Final = 2
"""Operators on an element that take no longer than to write and to read it."""
_MOST_OPERATIONS: Final = 1
"""Operations of each."""
_T = TypeVar("_T")
Place = tuple[int, int]
"""A base, and an offset in bytes."""
Window = tuple[Tensor, int]
"""A tensor, and the offset of a window in it."""
Size = tuple[int, int]
"""Partitions, and elements of each."""


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
    if any(part.kind not in _KINDS for part in subexpressions(value)):
        return False
    if not (_is_vector(target) and not repeats(target)):
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


def may_share_loop(parts: Sequence[Part]) -> bool:
    """True if ``parts``, on windows that are the same or share no memory, may run element by element.

    That is so if all that touch a written window touch its elements in the same order, and if all sums are sums of what
    the loop computes.
    """
    assigns = [assign for part in parts for assign in part.assigns]
    first = assigns[0].target
    if any((s.target.rows, s.target.columns) != (first.rows, first.columns) for s in assigns):
        return False
    memrefs = {memref for assign in assigns for memref in (assign.target, *_sources(assign))}
    written = {assign.target.base for assign in assigns} - {REGISTER}
    if sum(memref.base in written for memref in memrefs) > len(written) or not _is_small(assigns, len(memrefs)):
        return False
    if not _nest(assigns):
        return False
    sums: list[Reduce] = []
    for part in parts:
        for total in part.sums:
            if not may_be_summed(assigns, total, sums):
                return False
            sums.append(total)
    results = [result for part in parts for result in part.results]
    return first.rows <= GRANULE or partition_split([*assigns, *sums, *results], ()).count == first.rows


def are_linked(parts: Sequence[Part]) -> bool:
    """True if one of ``parts`` reads, or writes, what one before it has written."""
    written: set[int] = set()
    for part in parts:
        if any(memref.base in written for each in part.assigns for memref in (each.target, *_sources(each))):
            return True
        written.update(assign.target.base for assign in part.assigns)
    return False


def _sources(statement: Assign) -> list[MemRef]:
    return [load.memref for load in loads(statement.value) if load.memref is not None]


def _is_small(statements: Sequence[Assign], streams: int) -> bool:
    """True if the loop leaves registers for its values, and is short enough to compile."""
    parts = [part for statement in statements for part in subexpressions(statement.value)]
    functions = sum(part.kind == "act" for part in parts)
    return len(parts) <= _MOST_EXPRESSIONS and functions <= _MOST_FUNCTIONS and streams <= _MOST_STREAMS


def _nest(statements: Sequence[Assign]) -> bool:
    """True if one loop nest follows all windows."""
    columns = statements[0].target.columns
    patterns = [statement.target.dims for statement in statements]
    patterns += [pattern_of(stream, columns) for s in statements for stream in streams_of(s.value)]
    return boundaries(patterns) is not None


class Facts:
    """Facts about instructions, found once for each form."""

    def __init__(self) -> None:
        self.size_of: dict[Form, Size | None] = {}
        self._parts: dict[Form, Part | None] = {}
        self._sums: dict[Form, bool] = {}
        self._cheap: dict[Form, bool] = {}

    def size(self, statement: Statement) -> Size | None:
        """Partitions and elements that ``statement`` computes; None if it is certainly no element-wise part."""
        return self._of(self.size_of, statement, _size_of) if isinstance(statement, Inst) else None

    def sizes(self, body: Iterable[Statement]) -> list[Size | None]:
        """:meth:`size` of each statement."""
        known, size = self.size_of, self.size
        return [known[s.known_form] if isinstance(s, Inst) and s.known_form in known else size(s) for s in body]

    def is_sum(self, inst: Inst) -> bool:
        """True if ``inst`` is a sum by row, or by groups, which may share the loop that computes what it reads."""
        return self._of(self._sums, inst, self._is_sum)

    def is_cheap(self, inst: Inst) -> bool:
        """True if ``inst`` takes less than to write its result and to read it again."""
        return self._of(self._cheap, inst, self._is_cheap)

    def sums_what_it_writes(self, inst: Inst) -> bool:
        """True if ``inst`` computes results and their sums, so that it need not write results that nothing reads."""
        if inst.effects.external or inst.form().has_runtime_index:
            return False
        part = self._part(inst)
        return part is not None and bool(part.assigns and part.sums)

    def _part(self, inst: Inst) -> Part | None:
        return self._of(self._parts, inst, part_of)

    def _of(self, known: dict[Form, _T], inst: Inst, find: Callable[[Inst], _T]) -> _T:
        form = inst.form()
        if form not in known:
            known[form] = find(inst)
        return known[form]

    def _is_sum(self, inst: Inst) -> bool:
        if self.size(inst) is not None or reduced(inst) is None:
            return False
        part = self._part(inst)
        return part is not None and bool(part.sums) and not part.assigns and all(map(is_row_sum, part.sums))

    def _is_cheap(self, inst: Inst) -> bool:
        part = self._part(inst)
        return part is not None and not part.sums and _is_cheap(*part.assigns)


_facts = [Facts()]


def facts() -> Facts:
    """The facts about the forms that this process has asked for: not too many."""
    if len(_facts[0].size_of) > _MOST_FORMS:
        _facts[0] = Facts()
    return _facts[0]


def reduced(inst: Inst) -> Access | None:
    """The only operand that ``inst`` reads, if its only result has fewer elements in each partition."""
    if not is_plain(inst):
        return None
    reads, writes = inst.reads(), inst.writes()
    is_smaller = len(reads) == 1 and len(writes) == 1 and writes[0].free_elements < reads[0].free_elements
    return reads[0] if is_smaller else None


def may_sum(statement: Statement, writers: Collection[Window], size: Size | None) -> bool:
    """True if ``statement`` may reduce all of a window that is written, to fewer elements of each partition."""
    source = reduced(statement) if isinstance(statement, Inst) else None
    if source is None:
        return False
    return (source.tensor, source.offset) in writers and (source.partitions, source.free_elements) == size


def is_plain(inst: Inst) -> bool:
    """True if an instruction reads its operands and writes all of its result, wherever these are, and does no more.

    One with a predicate reads its result, too, and writes again what it leaves as it is.
    """
    effects, form = inst.effects, inst.form()
    if effects.external or effects.accumulation is not None or form.has_runtime_index:
        return False
    return not inst.may_leave_unwritten()


def _size_of(inst: Inst) -> Size | None:
    if not is_plain(inst):
        return None
    writes = inst.writes()
    if len(writes) != 1 or writes[0].free_elements == 1:
        return None
    if any(access.size > writes[0].size for access in inst.reads()):  # a reduction, or a choice
        return None
    return writes[0].partitions, writes[0].free_elements


def _is_cheap(statement: Assign) -> bool:
    """True if ``statement`` moves the elements of one tile at most, or has few operators on them, in float32.

    A row that all partitions share stays in the first-level cache, so it counts as no tile.
    """
    parts = subexpressions(statement.value)
    sources = {load.memref for load in loads(statement.value) if load.memref is not None}
    if len([source for source in sources if source.dims[-1][0] and source.dims[-1][1] > 1 and source.row_step]) > 1:
        return False
    if statement.value.kind in ("load", "value") and not statement.value.args:
        return True
    if any(part.kind not in ("load", "value", "cast", "alu", "act") for part in parts):
        return False
    if any(part.dtype is not dt.float32 for part in parts if part.kind != "load" or part.dtype is not dt.bfloat16):
        return False
    costs = [operations(part.kind, part.op) for part in parts if part.kind in ("alu", "act")]
    return len(costs) <= _MOST_OPERATORS and all(cost <= _MOST_OPERATIONS for cost in costs)
