"""A limit for programs that a test makes up, which may never end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class EndlessError(BaseException):
    """Python code runs too long. No ``except Exception`` catches it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`EndlessError` inside when the time is over: in the main thread, between two of its bytecodes."""

    def stop(*_: object) -> None:
        raise EndlessError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
