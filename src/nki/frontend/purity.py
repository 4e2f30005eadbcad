"""Purity: a kernel changes nothing that globals and closure variables refer to, nor reads what others change there; it
has no effects on the host, and computes with the types of NKI.

A kernel is compiled once for its arguments and kept, so what it changed outside would change that one time only.
"""

from __future__ import annotations

import ast
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from nki.base.source import is_toolchain
from nki.base.warning import NkiPortabilityWarning
from nki.frontend.frontend_errors import HostBuiltinError, LiteralError, OutsideChangedError
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


HOST_BUILTINS: Final = frozenset({eval, exec, compile, __import__, globals, locals, open, input})
"""Built-ins that reach out of the kernel: into the interpreter or to the machine."""

KEPT: Final = (
    "is evaluated once, when the kernel is compiled, and its value is kept: other runs may have another one; pass it "
    "as an argument"
)

_TYPES: Final[dict[Any, tuple[str, str]]] = {
    set: ("sets", "use a list, a tuple, or a dictionary with string keys"),
    frozenset: ("sets", "use a list, a tuple, or a dictionary with string keys"),
    bytes: ("byte strings", "use a string, or a list of integers"),
    bytearray: ("byte strings", "use a string, or a list of integers"),
    memoryview: ("byte strings", "use a string, or a list of integers"),
    complex: ("complex numbers", "keep real and imaginary part apart"),
}

_EFFECTS: Final = frozenset({"os", "posix", "nt", "subprocess", "shutil", "socket", "_socket", "_posixsubprocess"})
"""Modules with functions that act on the host."""

_READS: Final = frozenset({"cpu_count", "fspath", "getcwd", "getenv", "getlogin", "getpid", "getppid", "times", "uname",
                           "urandom"})  # fmt: skip
"""The functions among them that only read."""

_VARYING: Final = frozenset({"time", "random", "_random", "secrets", "uuid"})
"""Modules with functions that give another value each time."""

_CLOCKS: Final = frozenset({"now", "today", "utcnow"})


def check_host_call(report: Report, node: ast.Call, callee: object) -> None:
    """Judge a call of a built-in or of Python's library that the kernel would keep the result of."""
    written = ast.unparse(node.func)
    if isinstance(callee, types.BuiltinFunctionType) and callee in HOST_BUILTINS:
        message = f"`{callee.__name__}` reaches out of the kernel, which is a pure function of its arguments"
        report.error(HostBuiltinError, node, message, "do it outside and pass the result as an argument")
    elif isinstance(callee, type):
        if callee in _TYPES:
            what, fix = _TYPES[callee]
            report.error(LiteralError, node, f"NKI has no {what}: `{written}(…)`", fix)
        elif callee is type and not report.captured.dialect.python.silent:
            message = (
                f"NKI has no `type(…)`: write `isinstance({ast.unparse(node.args[0]) if node.args else 'x'}, kind)`"
            )
            report.warn(node, message, NkiPortabilityWarning)
    else:
        _check_library(report, node, callee, written)


def _check_library(report: Report, node: ast.Call, callee: Any, written: str) -> None:
    module, name = _module(callee), getattr(callee, "__name__", "")
    if module in _EFFECTS and name not in _READS:
        message = f"`{written}` reaches out of the kernel, which is a pure function of its arguments"
        report.error(HostBuiltinError, node, message, "do it outside and pass the result as an argument")
    elif (
        (module in _EFFECTS and name != "fspath")
        or module in _VARYING
        or module.startswith("numpy.random")
        or _is_clock(report, node.func)
        or callee is id
        or callee is hash
    ):
        report.warn(node, f"`{written}` {KEPT}")


def _is_clock(report: Report, function: ast.expr) -> bool:
    """True for ``datetime.now`` and its like."""
    if not isinstance(function, ast.Attribute) or function.attr not in _CLOCKS:
        return False
    owner = report.resolve(function.value, frozenset())
    return isinstance(owner, type) and owner.__module__ == "datetime"


def _module(callee: Any) -> str:
    """The module of a function; of a bound method, the module of its object's class."""
    if not callable(callee):
        return ""
    owner = getattr(callee, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        callee = owner if isinstance(owner, type) else type(owner)
    name = getattr(callee, "__module__", None)
    return name if isinstance(name, str) else ""
