"""Threads that a launch cannot do without."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

from nki.base.errors import NkiError

_PATIENCE: Final = 30.0
"""Seconds after which a thread that the system has promised counts as lost."""


class ThreadStartError(NkiError):
    """The operating system starts no thread for a core of a launch."""

    code = "NKI-KN030"


def start(call: Callable[..., object], *arguments: Any) -> None:
    """Call ``call(*arguments)`` in a new thread. Raises :class:`ThreadStartError` if it does not begin to run.

    A thread may have no memory for its first Python frame: the standard library waits for it for ever.
    """
    begun: SimpleQueue[None] = SimpleQueue()
    try:
        _thread.start_new_thread(_begin, (begun, call, arguments))
        begun.get(timeout=_PATIENCE)
    except (RuntimeError, MemoryError, Empty) as error:
        raise ThreadStartError(
            "a launch on several cores needs a thread for each core, and the operating system starts no more"
            + (f": {error}" if str(error) else ""),
            fix="raise the limit of the process on threads (ulimit -u) or on memory (ulimit -v), or launch on one core",
        ) from None


def _begin(begun: SimpleQueue[None], call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    begun.put(None)
    call(*arguments)
