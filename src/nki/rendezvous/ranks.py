"""The rank that runs here: its place in the rendezvous of all ranks of a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from nki.base import knobs
from nki.base.errors import RankArgumentError

if TYPE_CHECKING:
    from nki.rendezvous.protocol import Participant

_current: Final[ContextVar[Participant | None]] = ContextVar("rank", default=None)
processes: Callable[[], Participant | None] | None = None
"""Finds the rank of this process among others; a bridge to them takes its place."""


def current() -> Participant | None:
    """The rank that runs here; None: a launch of one rank."""
    participant = _current.get()
    if participant is None and processes is not None:
        return processes()
    return participant


def in_process() -> Participant | None:
    """The rank that runs here among others of this process."""
    return _current.get()


def patience(usual: float) -> float:
    """Seconds for which ranks wait for each other: ``NKI_RANK_TIMEOUT``, else the ``usual`` ones.

    Raises :class:`RankArgumentError` for a value that is no number of seconds.
    """
    text = knobs.rank_timeout()
    if not text:
        return usual
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise RankArgumentError(f"NKI_RANK_TIMEOUT={text} is no number of seconds", fix="set it to 60, say")
    return seconds


@contextmanager
def running_as(participant: Participant | None) -> Generator[None]:
    """Let this thread, and those that it starts with a copy of its context, run as this rank."""
    token = _current.set(participant)
    try:
        yield
    finally:
        _current.reset(token)
