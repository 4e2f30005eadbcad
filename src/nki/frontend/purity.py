"""Purity: a kernel changes nothing that globals and closure variables refer to, nor reads what others change there.

A kernel is compiled once for its arguments and kept, so what it changed outside would change that one time only.
"""

from __future__ import annotations

import ast
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from nki.base.toolchain import is_toolchain
from nki.frontend.errors import OutsideChangedError
from nki.frontend.report import Report
from nki.frontend.scopes import UNKNOWN

CHANGING: Final = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort",
    "symmetric_difference_update", "update",
})  # fmt: skip
"""The methods by which Python's containers change."""

_FIX = "take it as an argument, of which the kernel has its own copy, or return the new value"


Assigning = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For | ast.comprehension


def check_targets(report: Report, node: Assigning, bound: frozenset[str]) -> bool:
    """Items and attributes of what lies outside cannot be assigned to."""
    for part in targets(node):
        if isinstance(part, ast.Subscript | ast.Attribute):
            _report_change(report, part, part.value, f"assigns to `{ast.unparse(part):.60}`", bound)
    return True


def targets(node: Assigning) -> Iterator[ast.expr]:
    """The single names, items and attributes that ``node`` assigns to."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from _parts(target)


def check_change(report: Report, node: ast.Call, callee: object, bound: frozenset[str]) -> None:
    """Containers that lie outside cannot be changed by their methods, nor anything there by ``setattr``."""
    if isinstance(callee, types.BuiltinFunctionType) and callee in (setattr, delattr) and node.args:
        _report_change(report, node, node.args[0], f"changes `{ast.unparse(node.args[0]):.60}`", bound)
    elif isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        owner = _value(report, node.func.value, bound)
        if isinstance(owner, list | dict | set | deque | bytearray):
            _report_change(report, node, node.func.value, f"calls `{ast.unparse(node.func):.60}`", bound)


def check_read(report: Report, node: ast.Name | ast.Attribute, value: object) -> None:
    """Keep a value from outside. One that can change deserves a warning: functions, classes, modules, TABLES do not."""
    report.referenced[id(value)] = value
    if value is UNKNOWN or callable(value) or is_toolchain(value) or is_toolchain(type(value)):
        return
    path = ast.unparse(node)
    name, kind = path.rpartition(".")[2], type(value).__name__
    if isinstance(value, types.ModuleType) or path in report.warned_reads:
        return
    if isinstance(node, ast.Name) and name not in report.captured.cells and name in report.rebound:
        what, instead = "a variable that functions of its file assign to", "pass it as an argument"
    elif isinstance(value, _MUTABLE) and name != name.upper():
        what = f"a value of type {kind}, which can change"
        instead = "pass it as an argument, make it a tuple, or write its name in capitals"
    else:
        return
    report.warned_reads.add(path)
    message = f"`{report.captured.name}` reads `{path}`, {what}; it is compiled with the present value: {instead}"
    report.warn(node, message)


_MUTABLE: Final = (list, dict, set, bytearray, np.ndarray)


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _parts(part)
    elif isinstance(target, ast.Starred):
        yield from _parts(target.value)
    else:
        yield target


def _report_change(report: Report, node: ast.AST, changed: ast.expr, what: str, bound: frozenset[str]) -> None:
    root = changed
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in bound:
        return
    kind = "the closure variable" if root.id in report.captured.cells else "the global"
    if kind == "the global" and root.id not in report.captured.globals:
        return  # a name that nothing defines, which is reported as such
    message = f"the kernel {what}, but {kind} `{root.id}` is outside of it, and kernels change nothing outside"
    report.warned_reads.add(root.id)  # that it is read as well need not be said
    report.error(OutsideChangedError, node, message, _FIX)


def _value(report: Report, node: ast.expr, bound: frozenset[str]) -> Any:
    """The object that ``node`` refers to, read through attributes and constant items without running user code."""
    match node:
        case ast.Name():
            return report.resolve(node, bound)
        case ast.Attribute(value=inner, attr=name):
            owner = _value(report, inner, bound)
            return UNKNOWN if owner is UNKNOWN else getattr(owner, "__dict__", {}).get(name, UNKNOWN)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            owner = _value(report, inner, bound)
            try:
                return owner[key] if type(owner) in (dict, list, tuple) else UNKNOWN
            except (KeyError, IndexError, TypeError):
                return UNKNOWN
        case _:
            return UNKNOWN
