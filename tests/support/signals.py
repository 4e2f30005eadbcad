"""Signals at chosen instants: exceptions that no ``except Exception`` catches, raised by a handler."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest


class Interrupt(BaseException):
    """What the handler raises, like Ctrl-C."""


def _raise(*_: object) -> None:
    raise Interrupt


def interrupted(call: Callable[[], Any], seconds: float, handler: Callable[..., None] = _raise) -> Interrupt:
    """The exception with which ``call`` ends when a signal comes after so many seconds."""

    def begin() -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Interrupt) as caught:
            begin()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return caught.value
