"""A clock that is ahead: what depends on the time does something else."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any, Final

AHEAD: Final = 400 * 86400
"""Seconds; more than a year."""
_SECONDS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_OF_NOW: Final = ("localtime", "gmtime", "ctime")


def set_ahead() -> None:
    """Set the clocks of this process ahead, as its Python sees them, for good."""
    for name in _SECONDS:
        setattr(time, name, _added(getattr(time, name), AHEAD))
        setattr(time, f"{name}_ns", _added(getattr(time, f"{name}_ns"), AHEAD * 10**9))
    for name in _OF_NOW:
        setattr(time, name, _from(getattr(time, name)))
    time.strftime = _formatted(time.strftime)
    setattr(dt, "datetime", _Datetime)  # noqa: B010  # its type is a constant
    setattr(dt, "date", _Date)  # noqa: B010


def _added(clock: Callable[[], Any], more: int) -> Callable[[], Any]:
    return lambda: clock() + more


def _from(function: Callable[..., Any]) -> Callable[..., Any]:
    def ahead(seconds: float | None = None) -> Any:
        return function(time.time() if seconds is None else seconds)

    return ahead


def _formatted(function: Callable[..., str]) -> Callable[..., str]:
    def ahead(text: str, moment: Any = None) -> str:
        return function(text, time.localtime() if moment is None else moment)

    return ahead


class _Datetime(dt.datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> _Datetime:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls) -> _Datetime:
        return cls.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> _Datetime:
        return cls.now()


class _Date(dt.date):
    @classmethod
    def today(cls) -> _Date:
        return cls.fromtimestamp(time.time())
