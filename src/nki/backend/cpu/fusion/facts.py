"""Facts about instructions that decide if they may be parts of a fusion group, found once for each form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from nki.backend.cpu.fusion.group import Composite
from nki.backend.cpu.fusion.parts import Part, part_of
from nki.backend.cpu.kernel_ir.fuse_rows import is_row_sum
from nki.backend.cpu.kernel_ir.nodes import Assign, loads, subexpressions
from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.types import Access, Form
from nki.numerics.functions.cost import operations

_T = TypeVar("_T")
Size = tuple[int, int]
"""Partitions, and elements of each."""
_MOST_FORMS: Final = 1 << 12
_MOST_OPERATORS: Final = 2
"""Operators on an element that take no longer than to write and to read it."""
_MOST_OPERATIONS: Final = 1
"""Operations of each."""


class Facts:
    """Facts by form."""

    def __init__(self) -> None:
        self.sizes: dict[Form, Size | None] = {}
        self._parts: dict[Form, Part | None] = {}
        self._sums: dict[Form, bool] = {}
        self._cheap: dict[Form, bool] = {}

    def size(self, statement: Statement) -> Size | None:
        """Partitions and elements that ``statement`` computes; None if it is certainly no element-wise part."""
        return self._of(self.sizes, statement, _size_of) if isinstance(statement, Inst) else None

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
    if len(_facts[0].sizes) > _MOST_FORMS:
        _facts[0] = Facts()
    return _facts[0]


def reduced(inst: Inst) -> Access | None:
    """The only operand that ``inst`` reads, if its only result has fewer elements in each partition."""
    if not is_plain(inst):
        return None
    reads, writes = inst.reads(), inst.writes()
    is_smaller = len(reads) == 1 and len(writes) == 1 and writes[0].free_elements < reads[0].free_elements
    return reads[0] if is_smaller else None


def is_plain(inst: Inst) -> bool:
    """True if an instruction reads its operands and writes all of its result, wherever these are, and does no more.

    One with a predicate reads its result, too, and writes again what it leaves as it is.
    """
    effects, form = inst.effects, inst.form()
    if effects.external or effects.accumulation is not None or form.has_runtime_index:
        return False
    return not inst.may_leave_unwritten() and not isinstance(inst, Composite)


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
