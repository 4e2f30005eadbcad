"""Commutative updates in place, such as sums, products and extremes: the order of their terms is free."""

from __future__ import annotations

from typing import Final

from nki.ir.instruction import Inst
from nki.ir.types import Access

_COMMUTATIVE: Final = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
                       "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip
_INVERSE: Final = {"subtract": "add", "divide": "multiply"}
"""Operators that commute with their like if the updated operand is on the left: a - b - c is a - c - b."""


def is_commutative_update(inst: Inst, access: Access) -> bool:
    """True if ``inst`` updates ``access`` in place by operators that may take their terms in any order."""
    if not any(access.same_place(written) for written in inst.writes()):
        return False
    update = next((update for update in inst.update_chains() if update.operand.same_place(access)), None)
    if update is None:
        return False
    groups = {_group(op, right) for op, right in update.steps if op is not None}
    return len(groups) == 1 and "" not in groups


def _group(op: str, right: bool) -> str:
    """The commutative operator that ``op`` is a form of; "" if there is none. ``right``: updates its right operand."""
    if op in _COMMUTATIVE:
        return op
    return "" if right else _INVERSE.get(op, "")
