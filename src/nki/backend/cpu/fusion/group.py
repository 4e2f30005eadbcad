"""Instructions that stand for several, which native code runs as one.

A :class:`FusionGroup` is one loop over element-wise instructions and sums of what they compute; each reads what those
before it have written at the same place. The operands of all parts are *windows*: operands that are the same elements
of a tensor in the same order are one window. A window that nothing but the group reads has no memory: it is a register.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from nki.ir.declaration.fields import Field
from nki.ir.instruction import Inst
from nki.ir.types import FORMS, Access, Form, Role, coalesced, new_form

_Numbers = tuple[int, ...]


def operand_lists(*roles: tuple[str, Role]) -> tuple[Field, ...]:
    """Fields of an instruction whose operands are lists of these names and roles."""
    return tuple(Field(name, role, False, False, None, None, (), several=True) for name, role in roles)


class Composite(Inst):
    """An instruction that stands for its ``parts``; its immediates, ``numbers``, are those of all parts in turn."""

    public = False
    order_names = ()
    immediate_names = ("numbers",)
    engines = ()
    rules = ()
    parts: tuple[Inst, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """Facts that all groups of one form share.

    ``numbers``: for each part, the windows of its operands. ``written``, ``changed`` and ``read``: the windows that the
    group writes, those that it reads first, and those that it only reads. Windows in none of them have no memory.
    """

    form: Form
    numbers: tuple[_Numbers, ...]
    written: _Numbers
    changed: _Numbers
    read: _Numbers

    def operands(self) -> _Numbers:
        """The window of each operand of the group."""
        return (*self.written, *self.changed, *self.read)


class GroupState(Protocol):
    """The legality of a group, which its form decides; see :class:`nki.backend.cpu.fusion.legality.State`."""

    begun: _Numbers
    sums: frozenset[int]

    def plan(self, without_memory: _Numbers) -> GroupPlan:
        """The plan of the group, some of whose windows have no memory."""
        ...


class FusionGroup(Composite):
    """Parts that run element by element in one loop."""

    mnemonic = "fused"
    operand_fields = fields = operand_lists(("written", Role.OUT), ("changed", Role.INOUT), ("read", Role.IN))
    operand_names = ("written", "changed", "read")
    read_names = ("changed", "read")
    write_names = changed_names = ("written", "changed")

    def __init__(
        self, state: GroupState, parts: Sequence[Inst], windows: Sequence[Access], without_memory: _Numbers = ()
    ) -> None:
        self.state, self.windows = state, windows
        plan = self.plan = state.plan(without_memory)
        self.parts = tuple(parts)
        self.written = tuple([windows[number] for number in plan.written])
        self.changed = tuple([windows[number] for number in plan.changed])
        self.read = tuple([windows[number] for number in plan.read])
        self.numbers = tuple([number for part in parts if part.immediate_names for number in part.immediates()])
        self.where = parts[-1].where
        self.known_form = plan.form

    def signature(self) -> tuple[Any, ...]:
        return self.plan.form.signature

    def removable(self) -> list[int]:
        """The windows that need no memory if nothing else reads them: written first, of tensors of which it has one."""
        windows, state = self.windows, self.state
        of_tensor = Counter(window.tensor for window in windows)
        return [n for n in state.begun if n not in state.sums and of_tensor[windows[n].tensor] == 1]

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


def form_of(signature: tuple[Any, ...]) -> Form:
    """The form of instructions that stand for several and have no run-time index, by their signature."""
    return FORMS.get(signature) or new_form(signature, signature, False)
