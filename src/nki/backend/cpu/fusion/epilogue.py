"""A matmul and the element-wise instruction that reads its result, as one instruction.

Matmuls of narrow operands are made a panel of 32 columns after the other. Its consumer takes each panel where it lies
in the first-level cache, so that the result never goes to PSUM, which is in the second level, and back. That is done
where the result is not read later. A matmul that adds to PSUM, the last one of a sum, leaves PSUM as it was: the
consumer adds the panel to what it reads there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Any, ClassVar, Final

from nki.analysis.uses import StatementUses
from nki.backend.cpu.fusion.fusion_check import FusionStage
from nki.backend.cpu.fusion.parts import part_of
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.lower import Composite, form_of, lower, operand_lists
from nki.backend.cpu.kernel_ir.lowering_algebra import KernelIRBuilder
from nki.backend.cpu.kernel_ir.nodes import (
    NARROW,
    PANEL_BASE,
    Assign,
    Expr,
    Matmul,
    mapped,
    subexpressions,
)
from nki.backend.cpu.kernel_ir.shared_loop import sources_of
from nki.base import element_types as dt
from nki.ir.effects import Accumulation, Effects
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Buffer, Role, Tensor
from nki.numerics.functions import operations
from nki.numerics.matmul.host import bf16_unit
from nki.transforms.rewriter import Body, Edit

_KINDS: Final = frozenset({"load", "value", "cast", "alu", "act"})
"""The kinds of expressions that a consumer may consist of."""
_MOST_OPERATIONS: Final = 20
"""Operations of a function on a number; others take longer on rows of a panel, by more than the way through PSUM."""


class MatmulWithEpilogue(Composite):
    """``consumer`` of what ``matmul`` computes, which is nowhere in memory.

    ``written`` is the consumer's result; ``read`` are the operands of the matmul, then the other ones of the consumer,
    among them the tile in PSUM if the matmul adds to it.
    """

    mnemonic = "matmul_with_epilogue"
    effects = Effects(accumulation=Accumulation("adds"))
    operand_fields = fields = operand_lists(("written", Role.OUT), ("read", Role.IN))
    operand_names = ("written", "read")
    read_names = ("read",)
    write_names = changed_names = ("written",)

    def __init__(self, matmul: Inst, consumer: Inst, result: Tensor) -> None:
        self.adds = False
        self.parts = matmul, consumer
        self.result = result
        self.written = tuple(consumer.writes())
        others = [a for a in consumer.read_operands() if matmul.accumulates or a.tensor is not result]
        self.read = (*matmul.read_operands(), *others)
        self.numbers = tuple(consumer.immediates())
        self.where = consumer.where
        self._form = form_of(self.signature())

    def signature(self) -> tuple[Any, ...]:
        matmul, consumer = self.parts
        place = [access.tensor is self.result for access in consumer.accesses()]
        return ("matmul_with_epilogue", matmul.key(), consumer.key(), tuple(place))

    def kernel_ir(self) -> KernelIRBuilder:
        matmul, consumer = self.parts
        statement, assign = _matmul_of(matmul), _consumer_of(consumer, self.result)
        assert statement is not None
        assert assign is not None
        numbers, accesses, adds = count(len(self.written)), consumer.accesses(), statement.accumulate
        bases = {n: next(numbers) for n, (_, reads, _) in enumerate(matmul.uses()) if reads}
        memory = [reads and (adds or access.tensor is not self.result) for access, reads, _ in consumer.uses()]
        own = {n: next(numbers) for n, in_memory in enumerate(memory) if in_memory}

        def placed(expr: Expr) -> Expr:
            memref = expr.memref
            if memref is None:
                return expr
            in_memory = replace(expr, memref=replace(memref, base=own.get(memref.base, PANEL_BASE)))
            if not adds or accesses[memref.base].tensor is not self.result:
                return in_memory
            panel = replace(expr, memref=replace(memref, base=PANEL_BASE))
            return Expr("alu", dt.float32, expr.rows, expr.columns, (in_memory, panel), "add")

        left, right = (replace(memref, base=bases[memref.base]) for memref in (statement.left, statement.right))
        builder = KernelIRBuilder()
        target = replace(assign.target, base=0)
        builder.statements = [Matmul(target, left, right, False, statement.by_groups, mapped(assign.value, placed))]
        return builder

    def __repr__(self) -> str:
        return (
            f"<{self.parts[0].mnemonic} + {self.parts[1].mnemonic} {self.written[0].name}{list(self.written[0].shape)}>"
        )


def _matmul_of(inst: Inst) -> Matmul | None:
    """The only statement of a matmul that is made in panels; None of others."""
    lowered = lower(inst, aliases(inst))
    if len(lowered.statements) != 1 or lowered.scratch_bytes:
        return None
    (statement,) = lowered.statements
    if not isinstance(statement, Matmul) or not statement.by_groups or statement.has_few_rows or statement.is_column:
        return None
    return None if NARROW.isdisjoint((statement.left.dtype, statement.right.dtype)) else statement


def _consumer_of(inst: Inst, result: Tensor) -> Assign | None:
    """The only statement of ``inst``, if it computes dense rows from the rows of ``result``; else None."""
    part = None if aliases(inst) else part_of(inst)
    if part is None or part.sums or len(part.assigns) != 1:
        return None
    (assign,) = part.assigns
    target, accesses = assign.target, inst.accesses()
    if not target.dense_rows or target.dtype.is_packed:
        return None
    if any(each.kind not in _KINDS for each in subexpressions(assign.value)):
        return None
    for memref in sources_of(assign):
        is_like = (memref.rows, memref.columns, memref.dtype) == (target.rows, target.columns, dt.float32)
        if not memref.dense_rows or (accesses[memref.base].tensor is result and not is_like):
            return None
    return assign


@dataclass(frozen=True)
class FuseEpilogues(FusionStage):
    """Make matmuls and their consumers one instruction, on a processor that multiplies words."""

    name: ClassVar[str] = "epilogue"
    about: ClassVar[tuple[str, ...]] = ("moving",)

    def edits(self, body: Body, core: CoreProgram, program: Program) -> Sequence[Edit]:  # noqa: ARG002
        return _edits(body) if body is core.body else ()  # outside of loops


def _edits(body: Body) -> list[Edit]:
    """The matmuls and their consumers, with one instruction in place of each pair."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.moving}
    if not kinds:
        return []
    accumulating = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.accumulation}
    fits: dict[object, bool] = {}
    pairs: dict[Tensor, tuple[int, Inst, Inst]] = {}
    """The last matmul in each tile that may be consumed, with its position and its consumer."""
    for position, (matmul, consumer) in enumerate(pairwise(body)):
        if matmul.__class__ not in kinds or consumer.__class__ in accumulating:  # as most are
            continue
        if not isinstance(matmul, Inst) or not isinstance(consumer, Inst):
            continue
        result = _result(matmul, consumer)
        if result is None:
            continue
        key = matmul.form, consumer.form, tuple([a.tensor is result for a in consumer.accesses()])
        if key not in fits:
            fits[key] = _fit(matmul, consumer, result) and bf16_unit() is not None  # asked last: it compiles
        if fits[key] and _are_apart(matmul, consumer):
            pairs[result] = position, matmul, consumer
    uses = StatementUses(body if pairs else ())
    return [
        (n, n + 2, [MatmulWithEpilogue(matmul, consumer, result)])
        for result, (n, matmul, consumer) in sorted(pairs.items(), key=lambda pair: pair[1][0])
        if uses.last(result) == n + 1
    ]


def _result(matmul: Inst, consumer: Inst) -> Tensor | None:
    """The tile in PSUM that ``matmul`` fills, or adds to, and ``consumer`` reads once; None if there is none.

    ``consumer`` adds to no result.
    """
    if matmul.accumulates is None:
        return None
    (written, *others) = matmul.writes()
    tensor = written.tensor
    if others or tensor.buffer is not Buffer.psum:
        return None
    if matmul.form.has_runtime_index or consumer.form.has_runtime_index or matmul.immediate_names:
        return None
    if consumer.effects.external or consumer.effects.predicate is not None:
        return None
    reads = [access for access in consumer.read_operands() if access.tensor is tensor]
    writes = consumer.writes()
    if len(reads) != 1 or len(writes) != 1 or not written.same_place(reads[0]) or writes[0].tensor is tensor:
        return None
    return tensor if len(consumer.accesses()) == len(consumer.read_operands()) + 1 else None


def _fit(matmul: Inst, consumer: Inst, result: Tensor) -> bool:
    statement, assign = _matmul_of(matmul), _consumer_of(consumer, result)
    if statement is None or assign is None or statement.target.rows != assign.target.rows:
        return False
    functions = [part.op for part in subexpressions(assign.value) if part.kind == "act"]
    return all(operations("act", name) <= _MOST_OPERATIONS for name in functions)


def _are_apart(matmul: Inst, consumer: Inst) -> bool:
    """True if the consumer writes no tensor that the matmul reads."""
    (target,) = consumer.writes()
    return all(access.tensor is not target.tensor for access in matmul.read_operands())
