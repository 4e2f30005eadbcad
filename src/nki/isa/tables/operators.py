"""Operators as kernels name them: ``nl.add``, ``nl.exp``. One name may be an ALU operator, an activation, or both."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

from nki.base.errors import OperatorError
from nki.ir.algebra import Algebra
from nki.isa.tables import activations, alu_operators

_PORTABILITY: Final = {
    "divide": "no engine of NKI divides (known issues of NKI 0.3): multiply with the result of nisa.reciprocal, or in "
    "the language nl.multiply(x, nl.reciprocal(y))",
    "fmod": "NKI has no remainder as an instruction: nl.fmod works only in its simulator (known issues of NKI 0.3)",
    "mod": "NKI has no remainder as an instruction: nl.mod works only in its simulator (known issues of NKI 0.3)",
}


class Op:
    """A named operator; ``alu`` and ``act`` are its rows in the two tables, where it has one.

    Instructions take it as ``op=``. The language gives most of them a function, too, which a call of the name runs:
    ``nl.add(x, y)``. ``portability_note``: the reason why NKI's own instructions do not take it, or None; a warning
    says so to callers that pass it. ``table`` names the table that the Scalar engine needs for it.
    """

    def __init__(self, name: str, alu_row: alu_operators.AluRow | None, act_row: activations.Activation | None) -> None:
        self.name = name
        self.alu = alu_row
        self.act = act_row
        self.function: Callable[..., Any] | None = None
        self.portability_note = _PORTABILITY.get(name)
        self.table = act_row.table if act_row is not None else ""

    def bind(self, function: Callable[..., Any]) -> None:
        """Let calls of the operator run ``function``, and give it that function's signature and documentation."""
        self.function = function
        self.__name__ = self.name
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise OperatorError(
                f"nl.{self.name} is a name for op= arguments, not a function", fix="pass it to an instruction of nisa"
            )
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return named, (self.name,)

    @classmethod
    def named(cls, name: str) -> Op | None:
        """The operator called ``name``, or None."""
        return OPS.get(name)


OPS: Final = {
    name: Op(name, alu_operators.TABLE.get(name), activations.ACTIVATIONS.get(name))
    for name in dict.fromkeys([*alu_operators.TABLE, *activations.ACTIVATIONS, "average"])
}
"""All operators by name. ``average`` is in neither table: only ``nisa.tensor_partition_reduce`` takes it."""


def named(name: str) -> Op:
    """The operator called ``name``; raises :class:`OperatorError` with the nearest names."""
    if name not in OPS:
        near = difflib.get_close_matches(name, OPS, 3)
        raise OperatorError(f"there is no operator {name!r}", fix=f"did you mean {', '.join(near)}?" if near else "")
    return OPS[name]


def staged(m: Algebra[Any], op: Op, data: Any, operand: Any, reverse: bool) -> Any:
    """One stage: ``data <op> operand``, or the other way round; unary operators ignore the operand."""
    if op.alu is not None and op.alu.arity == 1:
        return m.alu(op.name, data)
    return m.alu(op.name, operand, data) if reverse else m.alu(op.name, data, operand)


def operand_fits(op: Op | None, operand: object) -> bool:
    """True if an operator of two operands has its second one, and no operator has none."""
    if op is None:
        return operand is None
    return operand is not None or (op.alu is not None and op.alu.arity == 1)


def is_unary(op: Op | None) -> bool:
    """True for an ALU operator of one operand."""
    return op is not None and op.alu is not None and op.alu.arity == 1


def operand_matters(op: Op | None, operand: object) -> bool:
    """True if an operator of one operand gets a second one other than 0."""
    return is_unary(op) and operand is not None and not (isinstance(operand, int | float) and operand == 0)


AluOp = Annotated[Op, "alu"]
"""A field that takes a row of the ALU table."""
Act = Annotated[Op, "act"]
"""A field that takes a row of the activation table."""
