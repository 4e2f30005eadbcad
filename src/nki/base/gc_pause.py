"""Keep Python's garbage collector from slowing down work that makes many objects and drops few."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from nki.base.locks import Lock

_FEW: Final = 10_000
"""Young objects that the collector is through with at once."""
_MANY: Final = 2_000_000
"""Objects that may count as old, between two full collections, without that the collector has looked at them."""
_LONGEST: Final = 10.0
"""Seconds after which the end of a pause collects although other threads have paused the collector, too."""
_paused: dict[object, int] = {}
"""The pauses, with the thread of each."""
_lock: Final = Lock()
_since = [0.0]
"""The time since which the collector has been off."""


@contextmanager
def paused() -> Generator[None]:
    """No cyclic garbage collection inside, whatever pauses of other threads begin and end meanwhile.

    Compiling makes hundreds of thousands of objects that all stay alive; the collector would go over them again and
    again, which doubles the time of a large kernel.
    """
    pause, thread = object(), threading.get_ident()
    try:
        with _lock:
            if _paused or gc.isenabled():
                _since[0] = _since[0] if _paused else time.monotonic()
                _paused[pause] = thread
                gc.disable()
        yield
    finally:
        if pause in _paused:
            _end(pause, thread)


def _end(pause: object, thread: int) -> None:
    with _lock:
        del _paused[pause]
        if not _paused:
            _age()
            gc.enable()
            return
        is_long = thread not in _paused.values() and time.monotonic() - _since[0] > _LONGEST
        if is_long:
            _since[0] = time.monotonic()
    if is_long:
        gc.collect()


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
    if _paused:
        others = [pause for pause, thread in _paused.items() if thread != threading.get_ident()]
        for pause in others:
            del _paused[pause]
        if not _paused:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume)
