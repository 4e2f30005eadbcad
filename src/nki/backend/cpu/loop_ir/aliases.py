"""Operands of one instruction that share memory."""

from __future__ import annotations

from nki.backend.cpu.loop_ir.nodes import Aliases
from nki.ir.access_overlap import may_overlap
from nki.ir.instruction import Inst
from nki.ir.types import Role


def aliases(inst: Inst) -> Aliases:
    """The pairs of operands, one of them written, that may share memory."""
    operands = inst.operands()  # by field: one access may stand in several of them, here written and there read
    pairs: list[tuple[int, int, bool]] = []
    for w, (f, target) in enumerate(operands):
        if f.role not in (Role.OUT, Role.INOUT):
            continue
        for r, (_, source) in enumerate(operands):
            if r != w and source.tensor is target.tensor:
                same = target.same_place(source)
                if same or may_overlap(target, source):
                    pairs.append((w, r, same))
    return tuple(pairs)
