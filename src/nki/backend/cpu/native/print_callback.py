"""Native code that calls back to print: the one place where a running kernel enters Python."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from nki.base import device_print
from nki.base.dtype import DType


def _print(prefix: str, shape: tuple[int, ...], dtype: DType, address: int) -> None:
    memory = ctypes.string_at(address, math.prod(shape) * dtype.itemsize)
    device_print.device_print(prefix, np.frombuffer(memory, dtype.plain).reshape(shape), dtype)


@cache
def printer(prefix: str, shape: tuple[int, ...], dtype: DType) -> Callable[[int], None]:
    """The function that prints the dense elements of such a tensor, given their address.

    It lives as long as the process. Native code calls it through ``nki_print``; what it raises ends the launch.
    """
    return partial(_print, prefix, shape, dtype)
