"""The clock of the core that runs this thread, to tell a slower program from a slower clock.

A chain of dependent multiplications takes the same number of cycles at any time, and needs no memory.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.numerics.llvm import I64, Variable, i64, steps
from nki.numerics.llvm_jit import engine

_ROUNDS: Final = 5000
_TOGETHER: Final = 4
"""Multiplications of a round."""


def speed() -> float:
    """Multiplications per second of a dependent chain, the most of three times: proportional to the clock."""
    chain, best = _chain(), float("inf")
    for _ in range(3):
        start = time.perf_counter()
        chain(_ROUNDS)
        best = min(best, time.perf_counter() - start)
    return _ROUNDS * _TOGETHER / best


@cache
def _chain() -> Callable[[int], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine().compile(_module())["clock_chain"])


def _module() -> ir.Module:
    module = ir.Module("clock_chain")
    function = ir.Function(module, ir.FunctionType(I64, [I64]), "clock_chain")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    number = Variable(b)
    number.set(i64(3))
    with steps(b, function.args[0], 1):
        for _ in range(_TOGETHER):
            number.set(b.mul(number.get(), number.get()))
    b.ret(number.get())
    return module
