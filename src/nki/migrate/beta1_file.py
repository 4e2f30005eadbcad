"""A file of NKI Beta 1, rewritten for the present NKI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from nki.migrate.calls import keyword
from nki.migrate.facts import Facts
from nki.migrate.functions import Functions, body_of
from nki.migrate.report import Report
from nki.migrate.statements import Statements
from nki.migrate.sub_kernels import Roles, decorated_at_calls
from nki.migrate.syntax.code import code_of, expression, one_line
from nki.migrate.syntax.imports import placed
from nki.migrate.syntax.names import Names
from nki.migrate.types import Types


def rewritten(module: cst.Module, facts: Facts, report: Report, kernels: Sequence[str] = ()) -> cst.Module:
    """The file for the present NKI; what no rule carries over has a comment above it and a line in ``report``.

    ``kernels``: functions that are launched, also without a decorator.
    """
    names = Names()
    module.visit(names)
    functions = Functions(names, facts, report)
    launches = _Launches(names)
    module.visit(launches)
    functions.launched = launches.made | set(kernels)
    functions.launches = launches.grids
    functions.roles = Roles(module, names, functions.launched)
    top = Statements(Types(names, facts), report, set())
    top.functions = functions.function
    imports = [line for line in body_of(module) if _is_import(line)]
    rest: list[cst.BaseStatement] = []
    for line in body_of(module):
        rest += [line] if any(line is one for one in imports) else top.block([line])
    body = placed(rest, [*functions.imports, *top.imports], names)
    new = module.with_changes(body=body)
    if functions.grids:
        new = new.visit(_WithGrid(functions.grids))
    return decorated_at_calls(new, functions.roles, names)


def _is_import(line: cst.BaseStatement) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and all(
        isinstance(s, cst.Import | cst.ImportFrom) for s in line.body
    )


class _Launches(cst.CSTVisitor):
    """The grids on which a file launches kernels, and the functions that calls make kernels."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.grids: dict[str, str] = {}
        self.made: set[str] = set()

    def visit_Call(self, node: cst.Call) -> None:
        full = self.names.full(node.func)
        made = full in ("nki.jit", "nki.simulate_kernel", "nki.baremetal", "nki.benchmark", "torch_neuronx.nki_jit")
        if (made or full == "jax_neuronx.nki_call") and node.args:
            inner = node.args[0].value
            self.made.add(one_line(inner.value if isinstance(inner, cst.Subscript) else inner))

    def visit_Subscript(self, node: cst.Subscript) -> None:
        if not isinstance(node.value, cst.Name) or node.value.value in self.grids:
            return
        text = grid_text(node.slice)
        if text is not None and all(c.isdigit() or c in "(), *" for c in text):
            self.grids[node.value.value] = text


def grid_text(elements: Sequence[cst.SubscriptElement]) -> str | None:
    """The grid ``[16, nl.nc(2)]`` as a tuple of sizes; None if it is a slice."""
    sizes: list[str] = []
    for element in elements:
        if not isinstance(element.slice, cst.Index):
            return None
        sizes.append(_size(element.slice.value))
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _size(node: cst.BaseExpression) -> str:
    """The number of programs along one axis."""
    match node:
        case cst.Call(func=function, args=args) if code_of(function).split(".")[-1] == "nc":
            return one_line(args[0].value)
        case cst.Call(func=function, args=args) if code_of(function).split(".")[-1] == "spmd_dim":
            return " * ".join(_size(arg.value) for arg in args)
        case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
            return f"{_size(left)} * {_size(right)}"
        case _:
            return one_line(node)


class _WithGrid(cst.CSTTransformer):
    """Replaces ``kernel[16, 8](x)`` by ``kernel(x, grid=(16, 8))``."""

    def __init__(self, grids: dict[str, int]) -> None:
        super().__init__()
        self.grids = grids

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: ARG002
        match updated_node.func:
            case cst.Subscript(value=cst.Name(value=name) as kernel, slice=elements) if name in self.grids:
                text = grid_text(elements)
                if text is None:
                    return updated_node
                comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
                args: list[Any] = [
                    arg if arg.comma is not cst.MaybeSentinel.DEFAULT else arg.with_changes(comma=comma)
                    for arg in updated_node.args
                ]
                return updated_node.with_changes(func=kernel, args=[*args, keyword("grid", expression(text))])
            case _:
                return updated_node


__all__ = ["grid_text", "rewritten"]
