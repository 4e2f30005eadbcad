"""Signals at chosen instants: exceptions that no ``except Exception`` catches, raised by a handler."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


class Interrupt(BaseException):
    """What the handler raises, like Ctrl-C."""


def _raise(*_: object) -> None:
    raise Interrupt


@contextmanager
def handled() -> Generator[None]:
    """SIGALRM raises :class:`Interrupt` inside."""
    before = signal.signal(signal.SIGALRM, _raise)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def alarm(seconds: float) -> None:
    """Send the signal after so many seconds."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
