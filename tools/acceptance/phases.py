"""The phases of a test, their seconds, and a limit of time for each."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

RECORD: Final = "record"
"""The kernel's Python runs once: source to instructions."""
COMPILE: Final = "compile"
"""All between the recorded program and its native code."""
RUN: Final = "run"
SIMULATE: Final = "simulate"
"""The same launch in the simulator, hazards watched."""
PREDICT: Final = "predict"
AGAIN: Final = "again"
"""A kernel that was refused for undefined results once more, with hazards off."""
INPUTS: Final = "inputs"
REFERENCE: Final = "reference"
COMPARE: Final = "compare"


class TimeLimitError(BaseException):
    """A phase took longer than its limit. Not an Exception: tests that expect a refusal catch those."""


class Phases:
    """The clock of one test. ``seconds`` by phase; the running one is ``name``. ``changed`` hears of each change."""

    def __init__(self, limit: float, changed: Callable[[str], None]) -> None:
        self.limit, self.changed = limit, changed
        self.seconds: dict[str, float] = {}
        self.name = ""
        self._since = 0.0

    def enter(self, name: str, limit: float | None = None) -> None:
        """``name`` begins, and has ``limit`` seconds, or as many as each phase."""
        self._stop()
        self.name, self._since = name, time.perf_counter()
        signal.signal(signal.SIGALRM, self._alarm)
        signal.setitimer(signal.ITIMER_REAL, limit or self.limit)
        self.changed(name)

    def end(self) -> None:
        """No phase runs any more."""
        self._stop()
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _stop(self) -> None:
        if self.name:
            self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self._since
        self.name = ""

    def _alarm(self, *_: object) -> None:
        raise TimeLimitError(f"'{self.name}' took over {self.limit:g} seconds")
