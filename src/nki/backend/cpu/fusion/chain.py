"""A chain: element-wise instructions in turn, which native code runs as one instruction with one loop.

The operands of all parts are *windows*: operands that are the same elements of a tensor in the same order are one
window. A window without memory is one whose contents nobody reads but the chain itself: it stays in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nki.ir.declaration.fields import Field
from nki.ir.instruction import Inst
from nki.ir.types import FORMS, Access, Form, Role, coalesced, new_form

_Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlan:
    """Facts that all chains of one form share.

    ``numbers``: for each part, the windows of its operands. ``written``, ``changed`` and ``read``: the windows that the
    chain writes, those that it reads first, and those that it only reads. Windows in none of them have no memory.
    """

    form: Form
    numbers: tuple[_Numbers, ...]
    written: _Numbers
    changed: _Numbers
    read: _Numbers

    def operands(self) -> _Numbers:
        """The window of each operand of the chain."""
        return (*self.written, *self.changed, *self.read)


class Chain(Inst):
    """Parts that run element by element: each reads what the parts before it have written at the same place."""

    mnemonic = "chain"
    public = False
    operand_fields = tuple(
        Field(name, role, False, False, None, None, (), several=True)
        for name, role in (("written", Role.OUT), ("changed", Role.INOUT), ("read", Role.IN))
    )
    fields = operand_fields
    operand_names = ("written", "changed", "read")
    read_names = ("changed", "read")
    write_names = ("written", "changed")
    order_names = ()
    changed_names = write_names
    immediate_names = ("numbers",)
    engines = ()
    rules = ()

    def __init__(self, plan: ChainPlan, parts: Sequence[Inst], windows: Sequence[Access]) -> None:
        self.plan = plan
        self.parts = tuple(parts)
        self.written = tuple([windows[number] for number in plan.written])
        self.changed = tuple([windows[number] for number in plan.changed])
        self.read = tuple([windows[number] for number in plan.read])
        self.numbers = tuple([number for part in parts if part.immediate_names for number in part.immediates()])
        self.where = parts[-1].where
        self.known_form = plan.form

    def signature(self) -> tuple[Any, ...]:
        return self.plan.form.signature

    def __repr__(self) -> str:
        names = " + ".join(part.mnemonic for part in self.parts)
        operands = ", ".join(f"{a.name}{list(a.shape)}" for a in (*self.written, *self.changed))
        return f"<{names} {operands}>"


def is_same_window(one: Access, two: Access) -> bool:
    """True if two accesses that begin at one place have the same elements in the same order, in each partition.

    Their shapes may differ: a tile of [p, g, c] is one of [p, g * c].
    """
    if one.signature is two.signature:
        return True
    return one.dtype is two.dtype and _elements(one.shape, one.strides) == _elements(two.shape, two.strides)


@lru_cache(maxsize=1 << 12)
def _elements(shape: _Numbers, strides: _Numbers) -> tuple[Any, ...]:
    """Partitions and their step, then steps and counts of the elements of each."""
    return shape[0], strides[0], coalesced(zip(strides[1:], shape[1:], strict=True))


def form_of(keys: Sequence[tuple[Any, ...]], numbers: tuple[_Numbers, ...], windows: tuple[_Numbers, ...]) -> Form:
    """The form of chains of parts with the signatures ``keys`` and those windows, of operands and by role."""
    return form_of_signature(("chain", tuple(keys), numbers, windows))


def form_of_signature(signature: tuple[Any, ...]) -> Form:
    """The form of instructions that stand for several and have no run-time index, by their signature."""
    return FORMS.get(signature) or new_form(signature, signature, False)
