"""Operands, operators and dtypes of a statement of NKI Beta 1 as those of today."""

from __future__ import annotations

import ast
import copy
import inspect
from typing import Final, cast

import numpy as np

import nki.isa as nisa_module
from nki.isa.tables.operators import OPS
from nki.language.advice.beta1.dense import Group
from nki.language.advice.beta1.formulas import Bounds, Index, UnknownFormError, bounds_of, sliced
from nki.language.advice.beta1.parsed import keys_of, subscript
from nki.language.advice.beta1.results import NUMPY_OPERATORS
from nki.language.advice.beta1.scope import NISA, Scope
from nki.language.advice.expressions import dtype_name
from nki.language.advice.older_order import TENSORS, is_number

_COLUMNS: Final = frozenset({"bias", "scale", "operand0", "operand1", "bound0", "bound1", "reduce_res"})
"""Parameters that take one number per partition."""


class OperandRewriter(ast.NodeTransformer):
    """Rewrites the operands of one statement; ``lines`` are the statements that go before it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.nl = scope.alias("nki.language", "nl")
        self.nisa = scope.alias("nki.isa", "nisa")
        self.lines: list[str] = []
        self.bounds = Bounds()
        self.conditions: list[str] = []
        self.groups: tuple[Group, ...] = ()
        """Axes of the statement that are one axis of the new one."""

    def text(self, node: ast.expr) -> str:
        """The code of an expression of today."""
        return ast.unparse(self.visit(copy.deepcopy(node)))

    def fresh(self, name: str) -> str:
        """A name that the function does not have."""
        found = next(n for n in (name, *(f"{name}_{k}" for k in range(2, 99))) if n not in self.scope.taken)
        self.scope.taken.add(found)
        return found

    def instruction(self, call: ast.Call) -> str:
        """The name of the instruction that a call is of."""
        return self.scope.full(call.func).removeprefix(NISA)

    def returns_result(self, call: ast.Call) -> bool:
        """True for a call of an instruction in the form of Beta 1, without destination."""
        full = self.scope.full(call.func)
        function = getattr(nisa_module, full.removeprefix(NISA), None) if full.startswith(NISA) else None
        if not callable(function) or any(k.arg == "dst" for k in call.keywords):
            return False
        try:
            signature = inspect.signature(function)
            if next(iter(signature.parameters), "") != "dst":
                return False
            named = [k.arg for k in call.keywords if k.arg in signature.parameters]
            given = signature.bind(*call.args, **dict.fromkeys(cast("list[str]", named))).arguments
        except TypeError:
            return True
        return any(isinstance(node := given.get(each), ast.expr) and self.is_no_tensor(each, node) for each in TENSORS)

    def is_no_tensor(self, parameter: str, node: ast.expr) -> bool:
        """True for a shape, a number, an index and an operator."""
        package, _, name = self.scope.full(node).rpartition(".")
        number = isinstance(node, ast.Constant) and is_number(parameter, node.value)
        plain = isinstance(node, ast.Tuple | ast.List) or number or self.scope.is_index(node)
        return plain or (package in ("numpy", "nki.language") and name != "")

    def bounded(self, call: ast.Call) -> Bounds:
        """The limits of the mask of a call; conditions without a variable go to an ``if`` around the statement."""
        node = next((k.value for k in call.keywords if k.arg == "mask"), None)
        mask = self.scope.mask(node)
        if mask is None:
            raise UnknownFormError
        bounds = bounds_of(mask)
        if bounds.several:
            raise UnknownFormError
        self.conditions += bounds.conditions
        return bounds

    def masked_by_several(self, call: ast.Call) -> bool:
        """True if the mask of a call compares index tiles with each other, so that no slice expresses it."""
        node = next((k.value for k in call.keywords if k.arg == "mask"), None)
        mask = self.scope.mask(node)
        return mask is not None and bool(bounds_of(mask).several)

    def destination(self, target: ast.expr, bounds: Bounds | None = None) -> str:
        """The code of an assigned subscript, cut to the mask of what is assigned; ``t`` for ``t[...]``."""
        if not isinstance(target, ast.Subscript):
            return self.text(target)
        keys = keys_of(target)
        whole = all(
            (isinstance(key, ast.Constant) and key.value is ...)
            or (isinstance(key, ast.Slice) and key.lower is key.upper is key.step is None)
            for key in keys
        )
        return self.operand(target.value if whole else target, bounds or Bounds())

    def operand(self, node: ast.expr, bounds: Bounds) -> str:
        """The code of a tensor within the limits of a mask."""
        before, self.bounds = self.bounds, bounds
        code = ast.unparse(self._limited(self.visit(copy.deepcopy(node)), node, columns=True))
        self.bounds = before
        return code

    def argument(self, parameter: str, node: ast.expr, bounds: Bounds) -> ast.expr:
        before, self.bounds = self.bounds, bounds
        if parameter == "dtype":
            new = self.dtype(node)
        elif parameter.startswith(("op", "reduce_op", "comp")) and not parameter.startswith("operand"):
            new = self.operator(node)
        else:
            new = self._limited(self.visit(copy.deepcopy(node)), node, columns=parameter not in _COLUMNS)
        self.bounds = before
        return new

    def positional(self, node: ast.expr, bounds: Bounds) -> ast.expr:
        """A positional argument: an operator or dtype of NumPy, or a tensor."""
        new = self.operator(node)
        new = self.dtype(node) if new is node else new
        return self.argument("", node, bounds) if new is node else new

    def _limited(self, new: ast.expr, old: ast.expr, *, columns: bool) -> ast.expr:
        """A whole tile, cut to the mask; other operands as they are."""
        memory = self.scope.memory(old)
        whole = isinstance(old, ast.Name) or (isinstance(old, ast.Subscript) and "..." in ast.unparse(old.slice))
        if memory is None or not whole or memory.blocks or not (self.bounds.lower or self.bounds.upper):
            return new
        return _cut(new.value if isinstance(new, ast.Subscript) else new, self.bounds, columns=columns)

    def operator(self, node: ast.expr) -> ast.expr:
        """An operator of NumPy, which Beta 1 took, as that of ``nl``."""
        package, _, name = self.scope.full(node).rpartition(".")
        name = NUMPY_OPERATORS.get(name, name)
        return ast.Attribute(ast.Name(self.nl), name) if package == "numpy" and name in OPS else node

    def dtype(self, node: ast.expr) -> ast.expr:
        """A dtype of NumPy, or text, as that of ``nl``."""
        package, _, name = self.scope.full(node).rpartition(".")
        if package == "numpy":
            name = dtype_name(getattr(np, name, name))
            return ast.Attribute(ast.Name(self.nl), name) if name else node
        match node:
            case ast.Constant(value=str(text)) if dtype_name(text):
                return ast.Attribute(ast.Name(self.nl), dtype_name(text))
            case ast.Call(args=[inner]) if self.scope.full(node.func) == "numpy.dtype":
                return self.dtype(inner)
            case _:
                return node


def _cut(owner: ast.expr, bounds: Bounds, *, columns: bool) -> ast.expr:
    """A whole tile, cut to the limits of a mask: of its rows, and with ``columns`` of its columns."""
    texts = [":", ":"]
    for variable in {**bounds.lower, **bounds.upper}:
        text = sliced(Index(steps={variable: "1"}), bounds)
        if variable.axis in (-2, -1) and text is not None and (columns or variable.axis == -2):
            texts[variable.axis + 2] = text
    return subscript(owner, texts[:1] if texts[1] == ":" else texts) if texts != [":", ":"] else owner


__all__ = ["OperandRewriter"]
