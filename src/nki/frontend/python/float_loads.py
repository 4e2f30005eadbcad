"""Places at which the code of a kernel reads a parameter that may hold a run-time float.

No run-time float may get to code that reads its value unnoticed, and only code of the toolchain is known not to. So
each read of such a variable takes the value (:func:`settled`), except where the float goes on to an instruction, to a
function that is looked at when it is called, into ``+ - * /``, or into another variable of the function.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from nki.base.python_operators import BINARY
from nki.frontend.capture import Captured, is_host
from nki.frontend.objects import is_object
from nki.frontend.scopes import COMPREHENSIONS, FUNCTIONS, UNKNOWN, bound_names, resolve
from nki.ir.floats.runtime_float import OPERATORS, RuntimeFloat, is_receiver, settled
from nki.isa.tables.operators import Op

CALL_WITH_FLOATS: Final = "__nki_call_with_floats__"
SETTLE: Final = "__nki_settle__"
OPERATE: Final = "__nki_operate__"

_FRAMES: Final = frozenset(
    {"__closure__", "_getframe", "cell_contents", "currentframe", "dir", "eval", "exec", "f_back", "f_locals", "locals",
     "stack", "vars"}
)  # fmt: skip
"""Names of ways to variables that do not name them."""
SIGNS: Final = {row.node: row.sign for row in BINARY if row.sign in OPERATORS}
"""The operators of run-time floats."""


@dataclass(slots=True)
class FloatLoads:
    """``settled``: the reads that take the value. ``operated``: the operators that may have a float on the right
    side.
    """

    settled: set[ast.AST] = field(default_factory=set[ast.AST])
    operated: set[ast.AST] = field(default_factory=set[ast.AST])


def is_open(code: types.CodeType) -> bool:
    """True if the code may read its variables in other ways than by name."""
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return not _FRAMES.isdisjoint(code.co_names) or any(map(is_open, inner))


def float_loads(captured: Captured, parameters: frozenset[str], hooked: bool) -> FloatLoads:
    """The reads of ``parameters``, and of the variables that take them over, in ``captured``.

    ``hooked``: calls of functions that are not settled before the kernel runs go through a hook.
    """
    search = _Search(captured, *_variables(captured, parameters), hooked)
    node = captured.node
    outer = bound_names(node)
    for part in node.body if isinstance(node.body, list) else [node.body]:
        search.visit(part, False, outer)
    return search.loads


def takes_runtime_floats(callee: object) -> bool:
    """True if ``callee``, a function of the toolchain, passes run-time floats on to instructions."""
    return is_receiver(callee.function if isinstance(callee, Op) else callee)


def operate(op: str, left: Any, right: Any) -> Any:
    """``left op right``: only Python numbers leave the operator to a run-time float on the right."""
    if type(left) not in (float, int, bool, RuntimeFloat):
        right = settled(right)
    return OPERATORS[op](left, right)


def _variables(captured: Captured, parameters: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that may hold a float: ``parameters``, and those to which one is assigned; and the latter alone."""
    nodes = list(ast.walk(captured.node))
    if any(isinstance(node, ast.ClassDef) for node in nodes):
        return parameters, frozenset()  # an assignment may make an attribute
    elsewhere = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    elsewhere.update(captured.cells)
    assignments = [pair for node in nodes if isinstance(node, ast.Assign) for pair in _pairs(node)]
    names, assigned = set(parameters), set[str]()
    while True:
        before = len(assigned)
        for target, value in assignments:
            if isinstance(target, ast.Name) and target.id not in elsewhere and _may_be_float(value, names):
                names.add(target.id)
                assigned.add(target.id)
        if len(assigned) == before:
            return frozenset(names), frozenset(assigned)


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with its value; in ``a, b = x, y`` one by one."""
    for target in node.targets:
        if len(node.targets) == 1 and isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names, values = target.elts, node.value.elts
            starred = any(isinstance(part, ast.Starred) for part in (*names, *values))
            if len(names) == len(values) and not starred:
                yield from zip(names, values, strict=True)
                return
        yield target, node.value


def _may_be_float(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in SIGNS and (_may_be_float(left, names) or _may_be_float(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _may_be_float(operand, names)
        case ast.IfExp(body=body, orelse=orelse):
            return _may_be_float(body, names) or _may_be_float(orelse, names)
        case _:
            return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of ``node`` that are rewritten: all but annotations."""
    unread = {id(getattr(node, name, None)) for name in ("annotation", "returns")}
    return (child for child in ast.iter_child_nodes(node) if id(child) not in unread)


class _Search:
    """Walk over a function. ``goes_on``: the value of the node gets to a place where it may be a run-time float."""

    def __init__(self, captured: Captured, names: frozenset[str], assigned: frozenset[str], hooked: bool) -> None:
        self.captured = captured
        self.names = names
        self.assigned = assigned
        self.hooked = hooked
        self.loads = FloatLoads()

    def visit(self, node: ast.AST, goes_on: bool, outer: frozenset[str]) -> None:
        if isinstance(node, (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)):
            outer = outer | bound_names(node)
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                if name in self.names and not goes_on:
                    self.loads.settled.add(node)
            case ast.Call():
                self._call(node, outer)
            case ast.BinOp(op=op, left=left, right=right) if goes_on and type(op) in SIGNS:
                self.visit(left, True, outer)
                self.visit(right, True, outer)
                if _may_be_float(right, set(self.names)):
                    self.loads.operated.add(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                self.visit(operand, goes_on, outer)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.visit(test, False, outer)
                self.visit(body, goes_on, outer)
                self.visit(orelse, goes_on, outer)
            case ast.Assign(targets=targets):
                pairs = list(_pairs(node))
                for value in dict.fromkeys(value for _, value in pairs):
                    own = [isinstance(t, ast.Name) and t.id in self.assigned for t, v in pairs if v is value]
                    self.visit(value, all(own), outer)
                for target in targets:
                    self.visit(target, False, outer)
            case _:
                for child in _children(node):
                    self.visit(child, False, outer)

    def _call(self, node: ast.Call, outer: frozenset[str]) -> None:
        callee = resolve(node.func, self.captured, outer, closures=False)
        is_settled = callee is not UNKNOWN and is_host(callee) and not is_object(callee)
        goes_on = takes_runtime_floats(callee) if is_settled else self.hooked
        self.visit(node.func, False, outer)
        for argument in node.args:
            self.visit(argument, goes_on, outer)  # of a starred one, the value is looked at as any other expression
        for keyword in node.keywords:
            self.visit(keyword.value, goes_on and keyword.arg is not None, outer)


__all__ = [
    "CALL_WITH_FLOATS",
    "OPERATE",
    "SETTLE",
    "SIGNS",
    "FloatLoads",
    "float_loads",
    "is_open",
    "operate",
    "takes_runtime_floats",
]
