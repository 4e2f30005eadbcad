"""Updates in place whose order is free: sums, products, extremes. It does not matter which term comes first."""

from __future__ import annotations

from typing import Final

from nki.ir.instruction import Inst
from nki.ir.types import Access

_GROUPS: Final = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
                  "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip
_INVERSE: Final = {"subtract": "add", "divide": "multiply"}
"""With what is updated on the left: as many terms less are no less free of order."""


def reduces(inst: Inst, access: Access) -> bool:
    """Whether ``inst`` updates ``access`` in place by operators that may take their terms in any order."""
    if not any(access.same_place(written) for written in inst.writes()):
        return False
    update = next((update for update in inst.update_chains() if update.operand.same_place(access)), None)
    if update is None:
        return False
    groups = {_group(op, right) for op, right in update.steps if op is not None}
    return len(groups) == 1 and "" not in groups


def _group(op: str, right: bool) -> str:
    if op in _GROUPS:
        return op
    return "" if right else _INVERSE.get(op, "")
