"""Keep Python's garbage collector from slowing down work that makes many objects and drops few."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_paused: list[int] = []
"""The threads that have paused the collector."""


@contextmanager
def paused() -> Generator[None]:
    """No cyclic garbage collection inside.

    Compiling makes hundreds of thousands of objects that all stay alive; the collector would go over them again and
    again, which doubles the time of a large kernel.
    """
    collects, thread = gc.isenabled(), threading.get_ident()
    if collects:
        _paused.append(thread)
    gc.disable()
    try:
        yield
    finally:
        if collects:
            _paused.remove(thread)
            gc.enable()


def _resume() -> None:
    """Let the collector run in a child process, where the threads that have paused it do not exist."""
    if any(thread != threading.get_ident() for thread in _paused):
        _paused.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume)
