"""Advice on a name of the function around, which a function inside makes its own by assigning it."""

from __future__ import annotations

import ast

from nki.base.errors import NkiError
from nki.base.python_operators import FUNCTION_OF
from nki.frontend.frontend_errors import KernelPythonError
from nki.frontend.site import Site


def advise_local(_: Exception, site: Site) -> NkiError | None:
    """``acc = nl.add(acc, 1.0)`` in the body of a loop on the device, with ``acc`` a tensor made before the loop."""
    functions = site.functions()
    if len(functions) < 2 or not isinstance(site.node, ast.Name):
        return None
    name, inner = site.node.id, functions[-1]
    made = next((found for outer in functions[-2::-1] if (found := _made(outer, inner, name)) is not None), None)
    if made is None:
        return None
    text = (
        f"`{name}` has no value yet in `{inner.name}`, which assigns it: there it is another name than the `{name}` "
        f"of line {made.lineno}"
    )
    value = _value(site, name) if isinstance(made.value, ast.Call) else ""
    if value:
        nisa = site.module("nki.isa", "nisa")
        fix = f"write into the tensor of line {made.lineno}: `{nisa}.tensor_copy(dst={name}, src={value})`"
    else:
        fix = (
            f"begin `{inner.name}` with `nonlocal {name}`, or take another name; Python runs the body of a loop on the "
            "device once: what each round changes is a tensor of one element"
        )
    return KernelPythonError(text, fix=fix)


def _made(outer: ast.FunctionDef, inner: ast.FunctionDef, name: str) -> ast.Assign | None:
    """The first assignment to ``name`` in ``outer`` that is not part of ``inner``."""
    within = {id(node) for node in ast.walk(inner)}
    found = [
        node
        for node in ast.walk(outer)
        if isinstance(node, ast.Assign)
        and id(node) not in within
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]
    return min(found, key=lambda node: node.lineno, default=None)


def _value(site: Site, name: str) -> str:
    """The value that the statement of the site assigns to ``name``, as an expression of tensors; "" if it is none."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as value) if target == name:
            return ast.unparse(value)
        case ast.AugAssign(target=ast.Name(id=target), op=op, value=value) if (
            target == name and type(op) in FUNCTION_OF
        ):
            return f"{site.module('nki.language', 'nl')}.{FUNCTION_OF[type(op)]}({name}, {ast.unparse(value)})"
        case _:
            return ""


__all__ = ["advise_local"]
