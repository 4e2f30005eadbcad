"""Keep Python's garbage collector from slowing down work that makes many objects and drops few."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_FEW: Final = 10_000
"""Young objects that the collector is through with at once."""
_MANY: Final = 2_000_000
"""Objects that may count as old, between two full collections, without that the collector has looked at them."""
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
            _age()
            gc.enable()


_aged = [0, 0]
"""The full collections so far, and the objects that :func:`_age` has made old since."""


def _age() -> None:
    """Let what was made in the pause count as old: most of it stays alive, and a collection would go over all of it.

    Python begins a full collection when many objects have come to the old ones through collections. These do not count
    there, so that there is a limit to them. What a program has frozen stays so.
    """
    young = gc.get_count()[0]
    if young < _FEW:
        return
    collections: int = gc.get_stats()[2]["collections"]
    if collections != _aged[0]:
        _aged[:] = [collections, 0]
    if _aged[1] + young <= _MANY and not gc.get_freeze_count():
        _aged[1] += young
        gc.freeze()
        gc.unfreeze()


def _resume() -> None:
    """Let the collector run in a child process, where the threads that have paused it do not exist."""
    if any(thread != threading.get_ident() for thread in _paused):
        _paused.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume)
