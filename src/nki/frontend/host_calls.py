"""Host functions, which are called as they are, and user functions, which are NKI code to be captured."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any

from nki.base.toolchain import is_toolchain, is_toolchain_module
from nki.frontend.capture import unwrap

# Packages of Python functions that are tools for compile time (shapes, constants), never parts of a kernel.
HOST_PACKAGES = frozenset({"jax", "jaxlib", "ml_dtypes", "numpy", "scipy", "torch"})

_STDLIB = os.path.dirname(os.__file__)


def home(value: Any) -> str:
    """The name of the module that defines ``value``."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, types.FunctionType):
        return str(value.__globals__.get("__name__", ""))  # decorators copy ``__module__``
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else type(value).__module__


def is_users(value: Any) -> bool:
    """True if ``value`` is of a file that users edit: no part of Python, NumPy and the like."""
    name = home(value)
    package = name.partition(".")[0]
    if package in HOST_PACKAGES or is_toolchain_module(name):
        return False
    if package not in sys.stdlib_module_names:
        return True
    # By file as well: a user's module may be called `select` or `types`.
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return file is not None and (not file.startswith(_STDLIB) or "site-packages" in file)


def calls_back(fn: object) -> bool:
    """True if ``fn`` is a built-in that calls a function which it is given."""
    return type(fn) in (type, types.BuiltinFunctionType) and fn in _CALLS_BACK


# Declared Any: a type checker does not come to an end with the union of so many overloads.
_CALLS_BACK: tuple[Any, ...] = (map, filter, sorted, min, max, functools.reduce)


def is_host(fn: object) -> bool:
    """True if ``fn`` is called as it is: a class, a built-in, or a function of NKI, NumPy and the like."""
    if isinstance(fn, types.FunctionType):
        return _is_host_function(fn)
    if isinstance(fn, types.MethodType | functools.partial) or calls_back(fn):
        return False
    if not callable(fn) or unwrap(fn) is not fn or wraps_users(fn):
        return False
    return isinstance(fn, type) or not isinstance(type(fn).__call__, types.FunctionType) or is_toolchain(type(fn))


def wraps_users(fn: Any) -> bool:
    """True for what the standard library has put around a function of the user's: ``contextmanager``, ``lru_cache``."""
    inner = getattr(fn, "__wrapped__", None)
    return (
        isinstance(inner, types.FunctionType)
        and not isinstance(fn, type)
        and not is_host_code(inner.__code__, inner.__globals__)
    )


def _is_host_function(fn: types.FunctionType) -> bool:
    if not is_host_code(fn.__code__, fn.__globals__):
        return False
    return "__wrapped__" not in fn.__dict__ or is_toolchain(fn) or not wraps_users(fn)


def is_host_code(code: types.CodeType, around: dict[str, Any]) -> bool:
    """True for code of NKI, NumPy, Python and the like; ``around``: the globals that it runs with."""
    module = around.get("__name__")
    if not isinstance(module, str):
        module = ""
    package = module.partition(".")[0]
    if package in HOST_PACKAGES or is_toolchain_module(module):
        return True
    file = code.co_filename
    if package in sys.stdlib_module_names:  # by file as well: a user's module may be called `select` or `types`
        return file.startswith(("<frozen ", _STDLIB)) and "site-packages" not in file
    dunder = code.co_name.startswith("__") and code.co_name.endswith("__")
    return file == "<string>" and dunder  # written by dataclasses or namedtuple, which keep no source
