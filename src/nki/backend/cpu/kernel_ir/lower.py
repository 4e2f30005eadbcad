"""Lowers one instruction to kernel IR: ordered, with temporaries where needed, so that it reads before it writes.

A :class:`Composite` stands for several instructions and has kernel IR of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

from nki.backend.cpu.kernel_ir.accesses import reads_of, targets_of
from nki.backend.cpu.kernel_ir.kernel_verifier import verify
from nki.backend.cpu.kernel_ir.lowering_algebra import KernelIRBuilder
from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Aliases, Assign, Expr, LoopStatement, Param, flat
from nki.backend.cpu.kernel_ir.rewrite_rules import RULES, in_lockstep
from nki.base import knobs
from nki.ir.algebra import Algebra
from nki.ir.declaration.fields import Field
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.instruction import Inst
from nki.ir.types import FORMS, Access, Form, Role, Tensor, new_form


def operand_lists(*roles: tuple[str, Role]) -> tuple[Field, ...]:
    """Fields of an instruction with operands that are lists of these names and roles."""
    return tuple(Field(name, role, False, False, None, None, (), several=True) for name, role in roles)


class Composite(Inst):
    """An instruction that stands for its ``parts``; its immediates, ``numbers``, are the immediates of all parts in
    turn.
    """

    public = False
    order_names = ()
    immediate_names = ("numbers",)
    engines = ()
    rules = ()
    parts: tuple[Inst, ...]

    @abstractmethod
    def kernel_ir(self) -> KernelIRBuilder:
        """The kernel IR of all parts."""


def form_of(signature: tuple[Any, ...]) -> Form:
    """The form of instructions that stand for several and have no run-time index, by their signature."""
    return FORMS.get(signature) or new_form(signature, signature, False)


def template(inst: Inst) -> Inst:
    """``inst`` with operands numbered and based at their first byte, and run-time numbers replaced by parameters."""
    numbered = {
        i: Access(_numbered(i, a.tensor), 0, a.shape, a.strides, a.dtype) for i, a in enumerate(inst.accesses())
    }
    generic = inst.with_operands(numbered)
    values = generic.__dict__
    names = [f.name for f in inst.fields if f.immediate and isinstance(values[f.name], int | float)]
    values.update({name: Param(i, type(values[name]) is RuntimeFloat) for i, name in enumerate(names)})
    return generic


def _numbered(number: int, tensor: Tensor) -> Tensor:
    return Tensor(str(number), tensor.shape, tensor.dtype, tensor.buffer, layout=tensor.layout)


def lower(inst: Inst, aliases: Aliases) -> KernelIRBuilder:
    """The kernel IR of ``inst``, with operands that overlap as ``aliases`` says.

    Operands that would be read after they were written are copied to scratch memory first.
    """
    if isinstance(inst, Composite):
        lowered = inst.kernel_ir()
        if knobs.check_stages():
            verify(lowered.statements, inst.mnemonic)
        return lowered
    copied = frozenset(read for _, read, same in aliases if not same)
    while True:
        builder = KernelIRBuilder(copied)
        # It has no primitives of ranks: native code calls Python for a collective.
        template(inst).semantics(cast("Algebra[Expr]", builder))
        clobbered = _read_after_write(builder.statements, aliases)
        if clobbered <= copied:
            builder.statements = [s for s in builder.statements if not _is_self_copy(s, aliases)]
            for rule in RULES:
                builder.statements = rule(builder.statements, aliases)
                if knobs.check_stages():
                    verify(builder.statements, rule.__name__)
            return builder
        copied |= clobbered


def _is_self_copy(statement: LoopStatement, aliases: Aliases) -> bool:
    """True if a tile is copied onto itself."""
    if not isinstance(statement, Assign) or statement.value.kind != "load" or statement.value.memref is None:
        return False
    target, source = statement.target, statement.value.memref
    return in_lockstep(target, source) and (target.base, source.base, True) in aliases


def _read_after_write(statements: list[LoopStatement], aliases: Aliases) -> frozenset[int]:
    """Operands that a statement reads although an earlier one, or itself in another order, has written them."""
    clobbered: set[int] = set()
    written: set[int] = set()
    for statement in flat(statements):
        targets = targets_of(statement)
        for memref, in_order in reads_of(statement):
            if memref.base == SCRATCH:
                continue
            shared = {w for w, r, _ in aliases if r == memref.base} | {memref.base}
            transposed = [target for target in targets if not (in_order and in_lockstep(target, memref))]
            if shared & written or any(target.base in shared for target in transposed):
                clobbered.add(memref.base)
        written.update(target.base for target in targets)
    return frozenset(clobbered)
