"""Def-use index of the body of a core: which operands of which statements write a tensor, and which read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from nki.ir.access_overlap import covers_tensor
from nki.ir.effects import Effects
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.types import Access, Tensor

Use = tuple[int, int, Access]
"""The position of an instruction, the number of the operand, and that operand."""


class Uses:
    """The uses of one tensor, in program order; an operand that is read and written is among both."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.writes: list[Use] = []
        self.reads: list[Use] = []


def uses_of(body: Iterable[Statement], tensors: Iterable[Tensor]) -> dict[Tensor, Uses]:
    """The uses of those ``tensors`` that neither loops nor run-time indices touch, in the order of ``tensors``."""
    found = {tensor: Uses() for tensor in tensors}
    pinned: set[Tensor] = set()
    for position, inst in enumerate(body) if found else ():
        if not isinstance(inst, Inst):
            pinned.update(access.tensor for access in touched(inst))
            continue
        for number, (access, reads, writes) in enumerate(inst.uses()):
            uses = found.get(access.tensor)
            if uses is not None:
                use = position, number, access
                if writes:
                    uses.writes.append(use)
                if reads:
                    uses.reads.append(use)
            if access.dynamic is not None:
                pinned.update((access.tensor, access.dynamic.source.tensor))
    for tensor in pinned:
        found.pop(tensor, None)
    return found


def with_effect(body: Iterable[Statement], effect: Callable[[Effects], object]) -> Iterator[tuple[int, Inst]]:
    """The instructions of ``body`` outside of loops, of the kinds that have an ``effect``, each with its position."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and effect(kind.effects)}
    for position, inst in enumerate(body) if kinds else ():
        if inst.__class__ in kinds and isinstance(inst, Inst):
            yield position, inst


def is_product(inst: Statement | None) -> bool:
    """True of an instruction that multiplies; those of its kind may also just move data."""
    accumulation = inst.effects.accumulation if isinstance(inst, Inst) else None
    return accumulation is not None and not accumulation.moves(inst)


def fills(inst: Statement | None, tensor: Tensor) -> bool:
    """True if ``inst`` certainly writes every byte of ``tensor``."""
    if not isinstance(inst, Inst) or inst.may_leave_unwritten() or inst.effects.predicate is not None:
        return False
    return any(access.tensor is tensor and covers_tensor(access) for access in inst.writes())
