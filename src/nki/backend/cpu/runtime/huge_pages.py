"""Huge pages for large outputs: fresh memory is handed over page by page, which can take longer than the kernel.

A fault for 4 KiB takes about a microsecond on a virtual machine, so 64 MiB take as long as a softmax of them. The
kernel of Linux gives 2 MiB in one fault where it is told that this is welcome, as NumPy tells it for its arrays.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any, Final

LEAST: Final = 4 << 20
"""Bytes from which on an output asks, as an array of NumPy does."""
_PAGE: Final = mmap.PAGESIZE


def welcome(address: int, nbytes: int) -> None:
    """Tell the operating system that huge pages are welcome from ``address`` on; nothing where it cannot be told."""
    advise = _madvise()
    if advise is not None:
        start = -(-address // _PAGE) * _PAGE
        advise(start, (address + nbytes - start) // _PAGE * _PAGE, mmap.MADV_HUGEPAGE)


@cache
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise
