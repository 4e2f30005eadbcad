"""Advice on operators that an instruction does not take: the instruction that does, or two in its place."""

from __future__ import annotations

import ast
from typing import Any

from nki.isa.tables.operators import Op
from nki.language.advice.call import Call


def activation_as_alu(call: Call) -> str | None:
    """``nisa.tensor_scalar(dst, data, nl.exp, …)``: an activation function in place of an operator of the ALU."""
    op = call.value("op0")
    if not isinstance(op, Op) or op.act is None or call.arguments.keys() - {"dst", "data", "op0", "operand0"}:
        return None
    arguments = f"dst={call.text('dst')}, op={call.text('op0')}, data={call.text('data')}"
    return f"it is an activation function: write `{call.nisa}.activation({arguments})`"


def alu_as_activation(call: Call) -> str | None:
    """``nisa.activation(dst, nl.add, data, bias=b)``: an operator of the ALU in place of an activation function."""
    op = call.value("op")
    if not isinstance(op, Op) or op.alu is None or "reduce_op" in call.arguments:
        return None
    operands = [name for name in ("bias", "scale") if name in call.arguments]
    if len(operands) != 1 or call.arguments.keys() - {"dst", "op", "data", *operands}:
        return f"{op} is an operator of two numbers: use nisa.tensor_scalar, or nisa.tensor_tensor for two tiles"
    parts = {"dst": "dst", "data": "data", "op0": "op", "operand0": operands[0]}
    arguments = ", ".join(f"{new}={call.text(old)}" for new, old in parts.items())
    return f"{op} is an operator of two numbers: write `{call.nisa}.tensor_scalar({arguments})`"


def fold_of_magnitudes(call: Call) -> str | None:
    """``nisa.tensor_reduce(dst, nl.abs_max, data, …)``: the maximum of absolute values."""
    op: Any = call.value("op")
    name = {"abs_max": "maximum", "abs_min": "minimum"}.get(getattr(op, "name", ""))
    if name is None or "axis" not in call.arguments:
        return None
    code = call.with_arguments(op=f"{call.nl}.{name}", data=f"{call.nl}.abs({call.text('data')})")
    return f"take absolute values first: write `{code}`"


def two_instructions(call: Call) -> str | None:
    """``tensor_scalar`` with an arithmetic and a bit operator: one instruction for each."""
    parts = {name: call.text(name) for name in call.arguments}
    needed = {"dst", "data", "op0", "operand0", "op1", "operand1"}
    if not needed <= parts.keys() or not isinstance(call.site.statement, ast.Expr):
        return None
    first = ["dst", "data", "op0", "operand0", "reverse0"]
    second = {"data": parts["dst"], "op0": parts["op1"], "operand0": parts["operand1"]}
    if "reverse1" in parts:
        second["reverse0"] = parts["reverse1"]
    lines = [
        ", ".join(f"{name}={parts[name]}" for name in first if name in parts),
        ", ".join(f"{name}={code}" for name, code in {"dst": parts["dst"], **second}.items()),
    ]
    calls = [f"        {call.nisa}.tensor_scalar({line})" for line in lines]
    return "use two instructions: write `\n" + "\n".join(calls) + "`"
