"""Advice on calls with arguments in another order than the parameters: the same call, each where it belongs."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from typing import Any, Final

from nki.base.element_types import DType
from nki.frontend.scopes import UNKNOWN
from nki.ir.instruction import REGISTRY, Field
from nki.ir.types import Buffer
from nki.isa.api import visible
from nki.isa.tables.operators import Op
from nki.language.advice.call import Call
from nki.language.nki_tensor import NkiTensor

_MOST: Final = 7
"""Positional arguments of a call that is looked at: their orders are tried one after the other."""
_ON_CHIP: Final = frozenset({Buffer.sbuf, Buffer.psum})
_SBUF: Final = frozenset({Buffer.sbuf})
_HBM: Final = frozenset(Buffer) - _ON_CHIP
_MEMORIES: Final = {
    "dma_transpose": (_SBUF, "src", _HBM | _SBUF),
    "nc_matmul": (frozenset({Buffer.psum}), "stationary", _SBUF),
    "nc_transpose": (frozenset({Buffer.psum}), "data", _SBUF),
    "store": (_HBM, "value", _ON_CHIP),
}
"""By function: the memories in which its ``dst`` may lie, the first operand, and the memories of that."""


def by_kind(call: ast.Call, full: str, value_of: Callable[[ast.expr], object]) -> ast.Call | None:
    """The call of the instruction ``full``, with its positional arguments in an order that fits the parameters.

    None if the present order fits, or no other does. ``value_of`` gives the value of an argument; ``UNKNOWN`` fits all
    parameters but operators.
    """
    declaration = REGISTRY.get(full.removeprefix("nki.isa."))
    if declaration is None or not 2 <= len(call.args) <= _MOST:
        return None
    fields = visible(declaration)[: len(call.args)]
    values = [() if isinstance(arg, ast.Tuple | ast.List) else value_of(arg) for arg in call.args]
    if len(fields) < len(values) or all(map(_fits, fields, values)):
        return None
    for order in itertools.permutations(range(len(values))):
        if all(_fits(field, values[place]) for field, place in zip(fields, order, strict=True)):
            return ast.Call(call.func, [call.args[place] for place in order], call.keywords)
    return None


def reordered(call: Call) -> str | None:
    """The fix for a call of an instruction with arguments of the right kinds in another order."""
    if call.module != "nki.isa":
        return None
    fitting = by_kind(call.node, call.name, call.site.value)
    if fitting is None:
        return None
    names = ", ".join(list(call.arguments)[: len(call.node.args)])
    return f"the order is {names}: write `{call.in_statement(fitting)}`"


def destination_first(call: Call) -> str | None:
    """The fix for a call that passes its destination behind its operands, as the memories of both tell."""
    if call.name not in _MEMORIES:
        return None
    to, operand, source = _MEMORIES[call.name]
    if any(k.arg in ("dst", operand) for k in call.node.keywords):
        return None
    args = call.node.args
    tensors = [call.site.value(arg) for arg in args]
    count = len(list(itertools.takewhile(lambda value: isinstance(value, NkiTensor), tensors)))
    if count < 2 or tensors[0].buffer in to or tensors[0].buffer not in source:
        return None
    last = next((k for k in range(count - 1, 0, -1) if tensors[k].buffer in to), None)
    if last is None:
        return None
    new = [args[last], *(arg for k, arg in enumerate(args) if k != last)]
    code = call.in_statement(ast.Call(call.node.func, new, call.node.keywords))
    return f"the destination comes first: write `{code}`"


def _fits(field: Field, value: Any) -> bool:
    """True if a parameter takes values of the kind of ``value``."""
    if value is UNKNOWN:
        return field.symbol is not Op
    if isinstance(value, NkiTensor):
        return field.role is not None and not field.several
    if isinstance(getattr(value, "operator", value), Op):  # of nl.max, which is a function of tiles, too
        return field.symbol is Op
    if value is None:
        return field.optional
    if isinstance(value, bool):
        return bool in field.types
    if isinstance(value, int | float):
        return field.symbol is None and any(kind in field.types for kind in (int, float))
    if isinstance(value, tuple | list):
        return field.several or tuple in field.types
    if isinstance(value, DType | str):
        return False
    return field.role is None and field.symbol is not None and isinstance(value, field.symbol)


__all__ = ["by_kind", "destination_first", "reordered"]
