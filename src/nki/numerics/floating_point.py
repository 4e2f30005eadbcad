"""The floating-point environment of a thread: its rounding mode, and its treatment of subnormal numbers.

XLA and PyTorch may set a thread to flush subnormals to zero. NumPy, and the compiled functions that it calls here, then
give other bits. Native code sets the environment itself: see :mod:`nki.backend.cpu.native.library`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

_ENVIRONMENT_BYTES: Final = 512
"""More than any processor's environment takes."""
_DEFAULT: Final = ctypes.c_void_p(-1)
"""``FE_DFL_ENV`` of the C library."""


@contextmanager
def default_environment() -> Generator[None]:
    """Round to nearest and compute with subnormals inside, in this thread and in those that it starts."""
    functions = _functions()
    if functions is None:
        yield
        return
    save, restore = functions
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    save(before)
    restore(_DEFAULT)
    try:
        yield
    finally:
        restore(before)


@cache
def _functions() -> tuple[Any, Any] | None:
    library = ctypes.CDLL(None)
    try:
        return library.fegetenv, library.fesetenv
    except AttributeError:
        return None
