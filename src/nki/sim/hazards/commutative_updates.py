"""Updates in place whose order is free: sums, products, extremes. It does not matter which term comes first."""

from __future__ import annotations

from typing import Final

from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.isa.instructions.dma_compute import DmaCompute
from nki.isa.instructions.tensor_scalar import ScalarTensorTensor, TensorScalar
from nki.isa.instructions.tensor_tensor import TensorTensor
from nki.isa.tables.operators import Op

_GROUPS: Final = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
                  "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip
_INVERSE: Final = {"subtract": "add", "divide": "multiply"}
"""With what is updated on the left: as many terms less are no less free of order."""
_Step = tuple[Op | None, bool]
"""An operator that what is updated goes through, and whether it is on the right side of it."""


def reduces(inst: Inst, access: Access) -> bool:
    """Whether ``inst`` updates ``access`` in place by operators that may take their terms in any order."""
    if not any(access.same_place(written) for written in inst.writes()):
        return False
    groups = {_group(op, right) for op, right in _steps(inst, access) if op is not None}
    return len(groups) == 1 and "" not in groups


def _group(op: Op, right: bool) -> str:
    if op.name in _GROUPS:
        return op.name
    return "" if right else _INVERSE.get(op.name, "")


def _steps(inst: Inst, access: Access) -> list[_Step]:
    """What ``access`` goes through on its way to the result; nothing where that is not known to be a chain."""
    if isinstance(inst, TensorTensor):
        return [(inst.op, not inst.data1.same_place(access))]
    if isinstance(inst, DmaCompute):
        return [(inst.reduce_op, True)]
    if isinstance(inst, TensorScalar) and inst.data.same_place(access):
        return [(inst.op0, inst.reverse0), (inst.op1, inst.reverse1)]
    if isinstance(inst, ScalarTensorTensor):
        if inst.operand1.same_place(access):
            return [(inst.op1, not inst.reverse1)]
        return [(inst.op0, inst.reverse0), (inst.op1, inst.reverse1)]
    return []
