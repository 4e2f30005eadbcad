"""Parts of a fusion group: the statements that an instruction adds to a loop, and what decides if it may be a part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from nki.backend.cpu.kernel_ir.accesses import aliases as aliases_of
from nki.backend.cpu.kernel_ir.lower import Composite, lower
from nki.backend.cpu.kernel_ir.nodes import (
    REGISTER,
    SCRATCH,
    Assign,
    Fused,
    MemRef,
    Param,
    Plain,
    Reduce,
    moved,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.shared_loop import is_element_wise, is_row_sum, sources_of
from nki.base import element_types as dt
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.types import Access, Form, Tensor
from nki.numerics.functions import operations

_MOST_FORMS: Final = 1 << 12
"""Forms of instructions for which a process remembers a fact."""
_MOST_OPERATORS: Final = 2
"""Operators on an element that take no longer than to write and to read it."""
_MOST_OPERATIONS: Final = 1
"""Operations of each."""
_T = TypeVar("_T")
_S = TypeVar("_S", bound=Plain)
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

    def placed(self, places: Sequence[Place], first_number: int = 0, scratch: int = 0, registers: int = 0) -> Part:
        """The part with its operands at ``places``, and later immediates, bytes of scratch memory and registers."""
        own = {SCRATCH: (SCRATCH, scratch), REGISTER: (REGISTER, registers)}

        def memory(memref: MemRef) -> MemRef:
            base, offset = own[memref.base] if memref.base < 0 else places[memref.base]
            return replace(memref, base=base, offset=memref.offset + offset)

        def number(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(number, cast("tuple[Any, ...]", value)))
            return replace(value, index=value.index + first_number) if isinstance(value, Param) else value

        def of(statements: Iterable[_S]) -> tuple[_S, ...]:
            return tuple([moved(statement, memory, number) for statement in statements])

        return Part(of(self.assigns), of(self.sums), of(self.starts), of(self.results), self.scratch_bytes)


def loop_of(parts: Sequence[Part]) -> Fused:
    """The loop of ``parts``."""
    assigns = tuple([assign for part in parts for assign in part.assigns])
    return Fused(assigns, tuple([total for part in parts for total in part.sums]))


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
        elif isinstance(statement, Assign) and all(source.base == SCRATCH for source in sources_of(statement)):
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
    if any(start.target.base != SCRATCH for start in part.starts) or bool(part.sums) != bool(part.results):
        return None
    if any(assign.target.base == SCRATCH for assign in (*part.assigns, *part.results)):
        return None
    return part if all(map(is_element_wise, part.assigns)) else None


_answers: defaultdict[object, dict[Form, Any]] = defaultdict(dict)
"""The answers of each function that is asked once for each form of instructions: not too many of them."""


def by_form(find: Callable[[Inst], _T]) -> Callable[[Inst], _T]:
    """``find``, which is asked once for each form of instructions."""

    def found(inst: Inst) -> _T:
        form, known = inst.form, _answers[find]
        if form not in known:
            if len(known) >= _MOST_FORMS:
                known.clear()
            known[form] = find(inst)
        return known[form]

    return found


@by_form
def size_of(inst: Inst) -> Size | None:
    """Partitions and elements that ``inst`` computes; None if it is certainly no element-wise part."""
    if not is_plain(inst):
        return None
    writes = inst.writes()
    if len(writes) != 1 or writes[0].free_elements == 1:
        return None
    if any(access.size > writes[0].size for access in inst.reads()):  # a reduction, or a choice
        return None
    return writes[0].partitions, writes[0].free_elements


def sizes_of(body: Iterable[Statement]) -> list[Size | None]:
    """:func:`size_of` each statement, None of loops."""
    return [size_of(statement) if isinstance(statement, Inst) else None for statement in body]


_part_of_form = by_form(part_of)
"""The part that an instruction is, if none of its operands share memory."""


@by_form
def is_sum(inst: Inst) -> bool:
    """True if ``inst`` is a sum by row, or by groups, which may share the loop that computes what it reads."""
    part = None if size_of(inst) is not None or reduced(inst) is None else _part_of_form(inst)
    return part is not None and bool(part.sums) and not part.assigns and all(map(is_row_sum, part.sums))


@by_form
def sums_what_it_writes(inst: Inst) -> bool:
    """True if ``inst`` computes results and their sums, so that it need not write results that nothing reads."""
    part = None if inst.effects.external or inst.form.has_runtime_index else _part_of_form(inst)
    return part is not None and bool(part.assigns and part.sums)


@by_form
def is_cheap(inst: Inst) -> bool:
    """True if ``inst`` takes less than to write its result and to read it again.

    It moves the elements of one tile at most, or has few operators on them, in float32. A row that all partitions share
    stays in the first-level cache, so it counts as no tile.
    """
    part = _part_of_form(inst)
    if part is None or part.sums:
        return False
    ((assign,), parts) = part.assigns, subexpressions(part.assigns[0].value)
    tiles = {source for source in sources_of(assign) if source.dims[-1][0] and source.dims[-1][1] > 1}
    if sum(tile.row_step != 0 for tile in tiles) > 1:
        return False
    if assign.value.kind in ("load", "value"):
        return True
    if any(part.kind not in ("load", "value", "cast", "alu", "act") for part in parts):
        return False
    if any(part.dtype is not dt.float32 for part in parts if part.kind != "load" or part.dtype is not dt.bfloat16):
        return False
    costs = [operations(part.kind, part.op) for part in parts if part.kind in ("alu", "act")]
    return len(costs) <= _MOST_OPERATORS and all(cost <= _MOST_OPERATIONS for cost in costs)


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
    effects, form = inst.effects, inst.form
    if effects.external or effects.accumulation is not None or form.has_runtime_index or isinstance(inst, Composite):
        return False
    return not inst.may_leave_unwritten()
