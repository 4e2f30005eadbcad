"""Commutative updates in place, such as sums, products and extremes: the order of their terms is free."""

from __future__ import annotations

from typing import Final

from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.isa.instructions.dma_compute import DmaCompute
from nki.isa.instructions.tensor_scalar import ScalarTensorTensor, TensorScalar
from nki.isa.instructions.tensor_tensor import TensorTensor
from nki.isa.tables.operators import Op

_COMMUTATIVE: Final = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
                       "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip
_INVERSE: Final = {"subtract": "add", "divide": "multiply"}
"""Operators that commute with their like if the updated operand is on the left: a - b - c is a - c - b."""
_Step = tuple[Op | None, bool]
"""An operator, and True if the updated operand is its right operand."""


def is_commutative_update(inst: Inst, access: Access) -> bool:
    """True if ``inst`` updates ``access`` in place by operators that may take their terms in any order."""
    if not any(access.same_place(written) for written in inst.writes()):
        return False
    groups = {_group(op, right) for op, right in _steps(inst, access) if op is not None}
    return len(groups) == 1 and "" not in groups


def _group(op: Op, right: bool) -> str:
    if op.name in _COMMUTATIVE:
        return op.name
    return "" if right else _INVERSE.get(op.name, "")


def _steps(inst: Inst, access: Access) -> list[_Step]:
    """The operators that ``access`` passes through on its way to the result; empty if they are not a known chain."""
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
