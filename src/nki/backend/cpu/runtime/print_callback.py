"""Native code that calls back to print: the one place where a running kernel enters Python."""

from __future__ import annotations

import ctypes
import math

import numpy as np

from nki.backend.cpu.runtime import poll
from nki.base import device_print
from nki.base.dtype import DType
from nki.base.locks import Lock

Shown = tuple[str, tuple[int, ...], DType]

_lock = Lock()
_shown: list[Shown] = []
"""The prefix, shape and element type of each print that was compiled in this process."""


def number(prefix: str, shape: tuple[int, ...], dtype: DType) -> int:
    """The number under which native code prints such a tensor."""
    what = (prefix, shape, dtype)
    with _lock:
        if what not in _shown:
            _shown.append(what)
        return _shown.index(what)


def _print(address: int, index: int) -> None:
    prefix, shape, dtype = _shown[index]
    memory = ctypes.string_at(address, math.prod(shape) * dtype.itemsize)
    device_print.device_print(prefix, np.frombuffer(memory, dtype.plain).reshape(shape), dtype)


def address() -> int:
    """A native function of (frame, address of the dense elements, number): prints; what that raises ends the launch."""
    return poll.print_address(id(_print))  # functions of modules live as long as the process
