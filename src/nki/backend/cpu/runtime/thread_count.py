"""The number of threads that a launch may use."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any, Final

from nki.backend.cpu.native import library
from nki.base import knobs

MOST_THREADS: Final = 32
"""More threads than a region has chunks have nothing to do."""


def number_of_threads() -> int:
    """``NKI_NUM_THREADS``; else ``OMP_NUM_THREADS`` and the setting of PyTorch, whichever is less; else all cores.

    PyTorch counts if the process has imported it: a worker process of its ``DataLoader`` has one thread. A number that
    cannot be read counts as unset, and so does 0.
    """
    if not library.has_threads():
        return 1
    wanted = _number(knobs.threads())
    if not wanted:
        limits = [number for number in (_number(knobs.openmp_threads()), torch_threads()) if number]
        wanted = min(limits, default=0) or _cores()
    return min(wanted, MOST_THREADS)


def torch_threads() -> int:
    """The threads of an operation of PyTorch; 0 if it is not imported."""
    torch: Any = sys.modules.get("torch")
    count = getattr(torch, "get_num_threads", None)  # an import that is under way has not defined it
    return 0 if count is None else int(count())


def _cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _number(text: bytes) -> int:
    """The number at the beginning of a variable; 0 if there is none."""
    first = text.split(b",")[0].strip()
    return int(first) if first.isdigit() else 0
