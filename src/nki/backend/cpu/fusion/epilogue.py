"""A product and the element-wise instruction that reads its result, as one instruction.

Products of narrow operands are made a panel of 32 columns after the other. Its consumer takes each panel where it lies
in the first-level cache, so that the result never goes to PSUM, which is in the second level, and back. That is done
where nobody reads the result later. A product that adds to PSUM, the last one of a sum, leaves PSUM as it was: the
consumer adds the panel to what it reads there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final

from nki.backend.cpu.fusion.group import Composite, form_of, operand_lists
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.builder import KernelIRBuilder
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import (
    NARROW,
    PANEL_BASE,
    SCRATCH,
    Assign,
    Expr,
    Matmul,
    MemRef,
    mapped,
    subexpressions,
)
from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.effects import Accumulation, Effects
from nki.ir.instruction import Inst
from nki.ir.loop import touched
from nki.ir.program import CoreProgram, CoreStage, Program
from nki.ir.types import Access, Buffer, Role, Tensor
from nki.numerics.functions import operations
from nki.numerics.matmul.host import bf16_unit
from nki.target.model import Target
from nki.transforms.rewriter import Body, Edit, edited

_KINDS: Final = frozenset({"load", "value", "cast", "alu", "act"})
"""The kinds of expressions that a consumer may consist of."""
_MOST_OPERATIONS: Final = 20
"""Operations of a function on a number; others take longer on rows of a panel, by more than the way through PSUM."""


class MatmulWithEpilogue(Composite):
    """``consumer`` of what ``product`` computes, which is nowhere in memory.

    ``written`` is the consumer's result; ``read`` are the operands of the product, then the other ones of the consumer,
    among them the tile in PSUM if the product adds to it.
    """

    mnemonic = "matmul_with_epilogue"
    effects = Effects(accumulation=Accumulation("adds"))
    operand_fields = fields = operand_lists(("written", Role.OUT), ("read", Role.IN))
    operand_names = ("written", "read")
    read_names = ("read",)
    write_names = changed_names = ("written",)

    def __init__(self, product: Inst, consumer: Inst, result: Tensor) -> None:
        self.adds = False
        self.parts = product, consumer
        self.result = result
        self.written = tuple(consumer.writes())
        self.read = (*product.read_operands(), *self.others())
        self.numbers = tuple(consumer.immediates())
        self.where = consumer.where
        self.known_form = form_of(self.signature())

    def signature(self) -> tuple[Any, ...]:
        product, consumer = self.parts
        place = [access.tensor is self.result for access in consumer.accesses()]
        return ("matmul_with_epilogue", product.key(), consumer.key(), tuple(place))

    def others(self) -> list[Access]:
        """The operands of the consumer that it reads from memory."""
        product, consumer = self.parts
        keeps = product.accumulates
        return [access for access in consumer.read_operands() if keeps or access.tensor is not self.result]

    def kernel_ir(self) -> KernelIRBuilder:
        product, consumer = self.parts
        matmul, assign = _product_of(product), _consumer_of(consumer, self.result)
        assert matmul is not None
        assert assign is not None
        first = len(self.written)
        bases = _numbers(product.accesses(), [*product.read_operands()], first)
        own = _numbers(consumer.accesses(), self.others(), first + len(bases))
        own |= {n: 0 for n, access in enumerate(consumer.accesses()) if access is self.written[0]}
        results = {n for n, access in enumerate(consumer.accesses()) if access.tensor is self.result}

        def placed(expr: Expr) -> Expr:
            memref = expr.memref
            if memref is None:
                return expr
            in_memory = replace(expr, memref=replace(memref, base=own.get(memref.base, PANEL_BASE)))
            if memref.base not in results or not matmul.accumulate:
                return in_memory
            panel = replace(expr, memref=replace(memref, base=PANEL_BASE))
            return Expr("alu", dt.float32, expr.rows, expr.columns, (in_memory, panel), "add")

        left, right = (replace(memref, base=bases[memref.base]) for memref in (matmul.left, matmul.right))
        builder = KernelIRBuilder()
        target = replace(assign.target, base=0)
        builder.statements = [Matmul(target, left, right, False, matmul.by_groups, mapped(assign.value, placed))]
        return builder

    def __repr__(self) -> str:
        return (
            f"<{self.parts[0].mnemonic} + {self.parts[1].mnemonic} {self.written[0].name}{list(self.written[0].shape)}>"
        )


def _numbers(accesses: Sequence[Access], wanted: Sequence[Access], first: int) -> dict[int, int]:
    """The numbers from ``first`` on that the ``wanted`` ones among ``accesses`` get, by their own."""
    numbers: dict[int, int] = {}
    for position, access in enumerate(wanted):
        number = next(n for n, other in enumerate(accesses) if other is access and n not in numbers)
        numbers[number] = first + position
    return numbers


def _product_of(inst: Inst) -> Matmul | None:
    """The only statement of a product that is made in panels; None of others."""
    lowered = lower(inst, aliases(inst))
    if len(lowered.statements) != 1 or lowered.scratch_bytes:
        return None
    (matmul,) = lowered.statements
    if not isinstance(matmul, Matmul) or not matmul.by_groups or matmul.has_few_rows or matmul.is_column:
        return None
    return None if NARROW.isdisjoint((matmul.left.dtype, matmul.right.dtype)) else matmul


def _consumer_of(inst: Inst, result: Tensor) -> Assign | None:
    """The only statement of ``inst``, if it computes dense rows from those of ``result``; None of others."""
    if aliases(inst):
        return None
    lowered = lower(inst, ())
    if len(lowered.statements) != 1 or lowered.scratch_bytes:
        return None
    (assign,) = lowered.statements
    if not isinstance(assign, Assign) or assign.target.base == SCRATCH or not assign.target.dense_rows:
        return None
    if assign.target.layout.pairs or assign.target.dtype.is_packed:
        return None
    numbers = {n for n, access in enumerate(inst.accesses()) if access.tensor is result}
    parts = subexpressions(assign.value)
    if any(part.kind not in _KINDS for part in parts):
        return None
    for part in parts:
        memref = part.memref
        if memref is None:
            continue
        is_result = memref.base in numbers
        if not memref.dense_rows or memref.rows not in (1, assign.target.rows):
            return None
        if is_result and not _is_like(memref, assign.target):
            return None
        if not is_result and memref.columns not in (1, assign.target.columns):
            return None
    return assign


def _is_like(memref: MemRef, target: MemRef) -> bool:
    return (memref.rows, memref.columns) == (target.rows, target.columns) and memref.dtype is dt.float32


@dataclass(frozen=True)
class FuseEpilogues(CoreStage):
    """Make products and their consumers one instruction, on a processor that multiplies words."""

    name: ClassVar[str] = "epilogue"
    about: ClassVar[tuple[str, ...]] = ("moving",)

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with such instructions, outside of loops."""
        body = edited(core.body, _edits(core.body))
        return core if body is core.body else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Nothing reads a result that is nowhere in memory; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        for core in after.cores if knobs.check_stages() else ():
            results = {inst.result for inst in core.instructions() if isinstance(inst, MatmulWithEpilogue)}
            adding = {a.tensor for inst in core.instructions() for a in inst.writes()}
            lost = [a.name for inst in core.instructions() for a in inst.reads() if a.tensor in results - adding]
            assert not lost, f"epilogue left unwritten {lost}"


def _edits(body: Body) -> list[Edit]:
    """The products and their consumers, with one instruction in place of each pair."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.moving}
    if not kinds:
        return []
    accumulating = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.accumulation}
    fits: dict[object, bool] = {}
    pairs: dict[Tensor, tuple[int, Inst, Inst]] = {}
    """The last product in each tile that may be consumed, with its position and its consumer."""
    for position, (product, consumer) in enumerate(pairwise(body)):
        if product.__class__ not in kinds or consumer.__class__ in accumulating:  # as most are
            continue
        if not isinstance(product, Inst) or not isinstance(consumer, Inst):
            continue
        result = _result(product, consumer)
        if result is None:
            continue
        key = product.form(), consumer.form(), tuple([a.tensor is result for a in consumer.accesses()])
        if key not in fits:
            fits[key] = _fit(product, consumer, result) and bf16_unit() is not None  # asked last: it compiles
        if fits[key] and _are_apart(product, consumer):
            pairs[result] = position, product, consumer
    last = dict.fromkeys(pairs, 0)
    for position, statement in enumerate(body) if pairs else ():
        for access in touched(statement):
            if access.tensor in last:
                last[access.tensor] = position
    return [
        (n, n + 2, [MatmulWithEpilogue(product, consumer, result)])
        for result, (n, product, consumer) in sorted(pairs.items(), key=lambda pair: pair[1][0])
        if last[result] == n + 1
    ]


def _result(product: Inst, consumer: Inst) -> Tensor | None:
    """The tile in PSUM that ``product`` fills, or adds to, and ``consumer`` reads once; None if there is none.

    ``consumer`` adds to no result.
    """
    if product.accumulates is None:
        return None
    (written, *others) = product.writes()
    tensor = written.tensor
    if others or tensor.buffer is not Buffer.psum:
        return None
    if product.form().has_runtime_index or consumer.form().has_runtime_index or product.immediate_names:
        return None
    if consumer.effects.external or consumer.effects.predicate is not None:
        return None
    reads = [access for access in consumer.read_operands() if access.tensor is tensor]
    writes = consumer.writes()
    if len(reads) != 1 or len(writes) != 1 or not written.same_place(reads[0]) or writes[0].tensor is tensor:
        return None
    return tensor if len(consumer.accesses()) == len(consumer.read_operands()) + 1 else None


def _fit(product: Inst, consumer: Inst, result: Tensor) -> bool:
    matmul, assign = _product_of(product), _consumer_of(consumer, result)
    if matmul is None or assign is None or matmul.target.rows != assign.target.rows:
        return False
    functions = [part.op for part in subexpressions(assign.value) if part.kind == "act"]
    return all(operations("act", name) <= _MOST_OPERATIONS for name in functions)


def _are_apart(product: Inst, consumer: Inst) -> bool:
    """True if the consumer writes no tensor that the product reads."""
    (target,) = consumer.writes()
    return all(access.tensor is not target.tensor for access in product.read_operands())
