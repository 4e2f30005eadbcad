"""The costs of functions and operators count the code that is emitted for them."""

from __future__ import annotations

from typing import Any

import pytest
from llvmlite import ir

from nki.isa.tables.alu_operators import TABLE
from nki.numerics import simd
from nki.numerics.functions import FUNCTIONS, emit, emit_alu, emit_bits, operations

CONVERSIONS = {"fpext", "fptrunc", "sitofp", "uitofp", "fptosi"}
SLOW = {"fdiv": 8, "frem": 1000, "sqrt": 8, "maximum": 6, "minimum": 6}
"""Instructions that stand for several; others cost 1."""
WIDE = (ir.DoubleType(), ir.IntType(64))


def cost(instruction: Any) -> int:
    """The operations of an LLVM instruction on 16 numbers."""
    if isinstance(instruction, (ir.Terminator, ir.PhiInstr)):
        return 0
    if isinstance(instruction, ir.CastInstr) and instruction.opname not in CONVERSIONS:
        return 0  # other views of the same bits
    name = instruction.callee.name.split(".")[1] if instruction.opname == "call" else instruction.opname
    types = [instruction.type, *(operand.type for operand in instruction.operands)]
    is_wide = any(isinstance(kind, ir.VectorType) and kind.element in WIDE for kind in types)
    return SLOW.get(name, 1) * (2 if is_wide else 1)


def counted(emitted: Any, element: ir.Type, operands: int) -> int:
    """The operations of ``emitted(builder, operands)`` on vectors, without what runs for few of them only."""
    kind = ir.VectorType(element, 16)
    function = ir.Function(ir.Module(), ir.FunctionType(kind, [kind] * operands), "f")
    emitted(ir.IRBuilder(function.append_basic_block("entry")), function.args)
    blocks = [block for block in function.blocks if not block.name.endswith(".if")]
    return sum(cost(instruction) for block in blocks for instruction in block.instructions)


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(simd, "has_avx512", lambda: True)
    operands = 2 if name == "prelu" else 1
    assert operations("act", name) == counted(lambda b, args: emit(b, name, *args), ir.FloatType(), operands)


@pytest.mark.parametrize("name", list(TABLE))
def test_operators(name: str) -> None:
    row = TABLE[name]
    element, emitted = (ir.IntType(32), emit_bits) if row.bits else (ir.FloatType(), emit_alu)
    both = lambda b, args: emitted(b, name, args[0], args[1] if row.arity == 2 else None)  # noqa: E731
    assert operations("alu", name) == counted(both, element, row.arity)
