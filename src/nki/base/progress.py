"""A line on the terminal while a long compilation runs: the stage, and about how much is left."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

PATIENCE: Final = 2.0
"""Seconds of a compilation before it shows anything."""
RECORDED_AT_ONCE: Final = 4096
"""Instructions after which the recorder shows how many there are."""
_DONE_BEFORE: Final = {"specialise": 0, "verify": 45, "accumulate": 49, "hazards": 50, "order": 56, "allocate": 56}
"""Percent of the time to native code that earlier stages take: medians of kernels of 10,000 to 200,000 instructions."""
_DONE_BEFORE_NATIVE: Final = 65


class _Running(threading.local):
    kernel = ""
    since = 0.0
    is_shown = False


_running = _Running()


@contextmanager
def compiling(kernel: str) -> Generator[None]:
    """Show the stages of the compilation of ``kernel`` in this block; one inside another is part of it."""
    if _running.kernel:
        yield
        return
    _running.kernel, _running.since = kernel, time.monotonic()
    try:
        yield
    finally:
        _running.kernel = ""
        if _running.is_shown:
            _running.is_shown = False
            _write("")


def stage(name: str) -> None:
    """The stage ``name`` begins; "native code" is the last one."""
    done = _DONE_BEFORE_NATIVE if name == "native code" else _DONE_BEFORE.get(name)
    _show(name if done is None else f"{name}, about {100 - done} % left")


def recorded(count: int) -> None:
    """The kernel's Python has recorded ``count`` instructions so far."""
    _show(f"specialise, {count:,} instructions so far")


def _show(text: str) -> None:
    if _running.kernel and time.monotonic() - _running.since >= PATIENCE:
        _running.is_shown = True
        _write(f"compiling {_running.kernel}: {text}")


def _write(text: str) -> None:
    stream = sys.stderr
    if stream is None or not stream.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # with `2>&-`
        return
    stream.write(f"\r\x1b[K{text}")
    stream.flush()
