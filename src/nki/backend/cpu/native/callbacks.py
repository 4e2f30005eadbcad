"""Python functions that native code calls: a kernel to print, other libraries through :func:`foreign_function`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np
from llvmlite import ir

from nki.backend.cpu.native import library
from nki.base import tensor_text
from nki.base.element_types import DType
from nki.numerics.llvm import POINTER, i64
from nki.numerics.llvm_jit import engine

INTERRUPTED: Final = 1
"""A bit that addresses do not have."""
MOST_BYTES: Final = 128
"""The largest argument of a function that makes an error."""
_tables: Final[list[Any]] = []
"""Words that native code reads as long as the process lives."""


def _print(prefix: str, shape: tuple[int, ...], dtype: DType, address: int) -> None:
    memory = ctypes.string_at(address, math.prod(shape) * dtype.itemsize)
    tensor_text.device_print(prefix, np.frombuffer(memory, dtype.plain).reshape(shape), dtype)


@cache
def printer(prefix: str, shape: tuple[int, ...], dtype: DType) -> Callable[[int], None]:
    """The function that prints the dense elements of such a tensor, given their address.

    It lives as long as the process. Native code calls it through ``nki_print``, the one place where a running kernel
    enters Python; what it raises ends the launch.
    """
    return partial(_print, prefix, shape, dtype)


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """The place of the library's function that makes an error, and the form of its argument, by byte offsets.

    ``api``: the pointer to the library's table in the argument of the call; ``create``: the function in that table. It
    takes a structure of ``size`` bytes, which begins with its size, and has a text at ``message`` and the 32-bit number
    ``internal`` at ``code``.
    """

    api: int
    create: int
    size: int
    message: int
    code: int
    internal: int


def foreign_function(target: Callable[[int], int], errors: ErrorTable) -> int:
    """The address of ``void* f(void* argument)``: ``target(argument)``, an address or 0; keep ``target`` alive.

    An exception that leaves ``target``, a signal's at its very first instruction included, becomes an error of the
    library that calls, with the name of the exception's class. A KeyboardInterrupt comes up again in the main thread,
    and so it does if ``target`` adds :data:`INTERRUPTED` to the address.
    """
    if errors.size > MOST_BYTES:
        raise ValueError(f"an error of {errors.size} bytes; native code has {MOST_BYTES} for it")
    numbers = id(KeyboardInterrupt), *astuple(errors)
    words = (ctypes.c_int64 * len(numbers))(*numbers)
    _tables.append(words)
    module = ir.Module("nki_foreign")
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER]), "nki_foreign_function")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    kind = ir.FunctionType(POINTER, [POINTER] * 3)
    objects = [i64(number).inttoptr(POINTER) for number in (id(target), ctypes.addressof(words))]
    b.ret(b.call(engine().declared(module, library.address("foreign"), kind), [function.args[0], *objects]))
    return engine().compile(module)["nki_foreign_function"]
