"""Launches on the OpenMP threads of PyTorch.

PyTorch's threads wait actively: after each of its operators they keep their cores busy for some milliseconds, and
another pool that wakes then gets no core. So a launch that PyTorch asks for runs in a parallel region of the very
runtime that PyTorch computes with: the threads that wait are the ones that work (``runtime.c``).

The runtime's functions are those of the libraries that the process has loaded already, for a second runtime would bring
threads of its own. They come in as arguments, since they lie elsewhere in each process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any, NamedTuple


class OpenMP(NamedTuple):
    """The addresses of two functions of a runtime: ``GOMP_parallel``, which the OpenMP runtimes of GCC, LLVM and Intel
    have, and ``omp_get_thread_num``.
    """

    parallel: int
    thread_number: int


@cache
def of_torch() -> OpenMP | None:
    """The runtime that PyTorch computes with; None if this build of it has another one or none."""
    torch: Any = sys.modules.get("torch")
    path = getattr(getattr(torch, "_C", None), "__file__", None)
    if path is None or not hasattr(os, "RTLD_NOLOAD"):
        return None
    # As the dynamic linker does for PyTorch: a runtime that all libraries see comes before those that PyTorch names.
    for name in (None, path):
        try:
            loaded = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            found = [getattr(loaded, function) for function in ("GOMP_parallel", "omp_get_thread_num")]
        except (OSError, AttributeError):
            continue
        return OpenMP(*(int(ctypes.cast(function, ctypes.c_void_p).value or 0) for function in found))
    return None
