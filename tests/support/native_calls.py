"""Calls of native functions by their address."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir

from nki.numerics.llvm_jit import engine


def compiled(module: ir.Module, name: str) -> int:
    """The address of a function of ``module``."""
    return engine().compile(module)[name]


def call(address: int, *arguments: Any, result: Any = None) -> Any:
    """Call with arrays, by their addresses, with floats of 32 and integers of 64 bits."""
    kinds = [
        ctypes.c_void_p if isinstance(each, np.ndarray)
        else ctypes.c_float if isinstance(each, float | np.floating)
        else ctypes.c_int64
        for each in arguments
    ]  # fmt: skip
    values = [each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments]
    return ctypes.CFUNCTYPE(result, *kinds)(address)(*values)
