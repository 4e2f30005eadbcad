"""Advice on a quotient where an integer is needed: ``range(512 / 128)``, ``t[:, 0:512 / 2]``."""

from __future__ import annotations

import ast
from typing import Any

from nki.base.errors import NkiError
from nki.frontend.frontend_errors import KernelPythonError
from nki.frontend.site import Site
from nki.language.advice.call import substituted

_NO_INTEGER = ("cannot be interpreted as an integer", "is no integer", "is not a tuple of integers")


def advise_quotient(exc: Exception, site: Site) -> NkiError | None:
    """The error for a float that a quotient of integers has made; None if that is not what is wrong."""
    message = exc.message if isinstance(exc, NkiError) else str(exc) if isinstance(exc, TypeError) else ""
    if not any(words in message for words in _NO_INTEGER):
        return None
    fix = _with_whole_quotients(site) or _of_variable(site)
    if not fix:
        return None
    error = exc if isinstance(exc, NkiError) else KernelPythonError(f"{type(exc).__name__}: {exc}")
    error.fix = fix
    return error


def _with_whole_quotients(site: Site) -> str:
    code: Any = site.node if hasattr(site.statement, "body") else site.statement
    quotients = [
        node
        for node in ast.walk(site.node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_whole_float(site.value(node))
    ]
    for node in reversed(quotients):  # inner ones first: their nodes are parts of the outer ones
        code = substituted(code, node, ast.BinOp(node.left, ast.FloorDiv(), node.right))
    return f"a quotient is a float: write `{ast.unparse(code)}`" if quotients else ""


def _of_variable(site: Site) -> str:
    for node in ast.walk(site.node):
        if isinstance(node, ast.Name) and _is_whole_float(value := site.value(node)):
            return f"`{node.id}` is {value}, a float: divide with `//` where it is computed, or write `int({node.id})`"
    return ""


def _is_whole_float(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


__all__ = ["advise_quotient"]
