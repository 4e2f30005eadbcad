"""Operands with contents that the reference asks for, as a transposition on the Tensor engine does: an identity."""

from __future__ import annotations

import numpy as np

from nki.base.dtype_conversion import to_float32
from nki.base.warning import warn_at
from nki.ir.effects import Contents
from nki.ir.instruction import Inst
from nki.sim.hazards.undefined_values import Memory


def required_contents(inst: Inst) -> tuple[Contents, ...]:
    """The contents that the reference asks of operands of ``inst``."""
    return () if inst.effects.contents is None else inst.effects.contents(inst)


def check_contents(inst: Inst, required: Contents, memory: Memory) -> bool:
    """True if an operand, all of it defined, holds what is ``required``; else raise the error of the rule, or warn."""
    access = required.operand
    window = memory.window(access)
    numbers = window if access.dtype.is_integer else to_float32(window, access.dtype)
    numbers = numbers.reshape(access.shape[0], -1)
    wrong = required.wrong(np.asarray(numbers))
    if not wrong:
        return True
    message, where = f"{inst.mnemonic}: {required.text}: {wrong}", inst.where
    if required.rule:
        rule = next(rule for rule in inst.rules if rule.code == required.rule)
        raise rule.error(message, fix=required.fix, rule=rule.code).at(where.span, where.stack)
    if where.span is not None:
        warn_at(where.span, f"{message}; {required.fix}")
    return False
