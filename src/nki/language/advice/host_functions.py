"""Advice on functions of other libraries, and of Python's text, that were called with tensors of a kernel."""

from __future__ import annotations

import ast
from typing import Any, Final

from nki.base.errors import NkiError, TensorOperatorError
from nki.base.source import is_toolchain
from nki.frontend.capture import HOST_PACKAGES, home
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.language.advice.other_libraries import OTHERS
from nki.language.nki_tensor import NkiTensor

_LATE: Final = "which has values only when the kernel runs"


def refuses_tensors(exc: Exception, site: Site) -> bool:
    """True if a function that is not of this package raised ``exc`` because an argument is a tensor of the kernel."""
    if not isinstance(site.node, ast.Call) or NkiTensor.__name__ not in str(exc):
        return False
    function = site.value(site.node.func)
    return function is not UNKNOWN and not is_toolchain(function)


def instead_of_host_function(exc: Exception, site: Site) -> str:
    """The code in place of a function of NumPy, PyTorch or JAX that NKI does not have by its name; "" if unknown."""
    match site.node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name) as function):
            package = home(site.value(function)).partition(".")[0]
        case _:
            return ""
    if package not in HOST_PACKAGES:
        return ""
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(exc, NkiError):  # which says what it knows
        return ""
    return f"use functions of nki.language and nki.isa: {package} computes on values known at compile time only"


def advise_text(_: Exception, site: Site) -> NkiError | None:
    """``f"{t:.3f}"``, ``"%.3f" % t`` and ``"{:.3f}".format(t)``, which ask for values."""
    match _formatted(site):
        case ast.JoinedStr(values=parts):
            shown = [part.value for part in parts if isinstance(part, ast.FormattedValue)]
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=right):
            shown = right.elts if isinstance(right, ast.Tuple) else [right]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format"), args=args):
            shown = args
        case _:
            return None
    values: dict[str, Any] = {ast.unparse(part): site.value(part) for part in shown}
    for text, value in values.items():
        if isinstance(value, NkiTensor):
            nl = site.module("nki.language", "nl")
            return TensorOperatorError(
                f"the values of tensor '{value.name}' {value.shape} as text, {_LATE}",
                fix=f"print them then: write `{nl}.device_print({text!r}, {text})`",
            )
    return None


def _formatted(site: Site) -> ast.AST:
    """The node of the site; for a part of an f-string, which Python 3.11 places at the whole, the f-string."""
    if isinstance(site.node, ast.BinOp | ast.Call):
        return site.node
    place = [getattr(site.node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")]
    for node in ast.walk(site.statement):
        if isinstance(node, ast.JoinedStr):
            start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
            if start <= (place[0], place[1]) and (place[2], place[3]) <= end:
                return node
    return site.node


__all__ = ["advise_text", "instead_of_host_function", "refuses_tensors"]
