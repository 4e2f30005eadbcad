"""A pytest plugin that repeats the native launches of a session on 1, 2 and 3 threads and in the simulator.

``python -m pytest -p tests.support.repeated_launches …``, or ``make threads``. With the root of this project in
``PYTHONPATH`` it serves tests of other projects. A test fails if any bit of a repetition differs
(:mod:`tests.support.repetition`), in its own process or in one that it starts or forks. The summary counts the launches
that were compared, and those that were not, each with its reason; nothing else is left out.

A process that a test starts takes part if it is Python and reads ``PYTHONPATH``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support import repetition

HOOK = str(Path(__file__).parent / "hook_of_children")
WHO_WORKS = ("test_small_kernels_ask_for_nobody", "test_processes_that_fork_or_have_fewer_threads_or_end[limit]")
"""Tests that measure which threads work. Repetitions would be measured, too, so there are none."""
_REASONS = ("not compared: ", "not simulated: ", "Python processes not watched: ")


class Children:
    """Processes that tests start: their environment, and what they have left."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="repeated-launches-"))
        self.pythons: dict[int, list[str]] = {}
        """Commands of Python processes that have not reported, by process."""

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """``before`` with what the hook needs."""
        paths = [HOOK, *filter(None, [before.get("PYTHONPATH", "").removeprefix(HOOK).removeprefix(os.pathsep)])]
        return {**before, repetition.FOLDER: str(self.folder), "PYTHONPATH": os.pathsep.join(paths)}

    def started(self, process: subprocess.Popen[Any]) -> None:
        command = process.args if isinstance(process.args, list | tuple) else []
        words = [os.fsdecode(word) for word in command]
        if words and Path(words[0]).name.startswith("python"):
            self.pythons[process.pid] = words

    def collect(self, session: repetition.Session) -> None:
        """Add what children have left since the last time to the counts of ``session``."""
        for file in sorted(self.folder.glob("*.counts")):
            counts, differences = json.loads(file.read_text(encoding="utf-8"))
            session.counts.update(counts)
            session.differences += differences
            file.unlink()
        for file in self.folder.glob("*.started"):
            self.pythons.pop(int(file.stem), None)
            session.add("Python processes watched")
            file.unlink()
        for words in self.pythons.values():
            isolated = any(word[:1] == "-" and word[1:2].isalpha() and set("IES") & set(word) for word in words[1:])
            session.add(_REASONS[-1] + ("without PYTHONPATH" if isolated else "nothing was heard of them"))
        self.pythons.clear()


_session = repetition.session  # tests of the watch have their own
_children: Children | None = None
_first_popen = subprocess.Popen.__init__


def _popen(self: Any, *args: Any, **kwargs: Any) -> None:
    if _children is not None and kwargs.get("env") is not None:
        kwargs["env"] = _children.environment(kwargs["env"])
    _first_popen(self, *args, **kwargs)
    if _children is not None:
        _children.started(self)


def pytest_configure(config: pytest.Config) -> None:
    global _children
    repetition.watch()
    is_controller = bool(getattr(config.option, "numprocesses", 0)) and not hasattr(config, "workerinput")
    if not is_controller:
        _children = Children()
        os.environ.update(_children.environment(os.environ))
        subprocess.Popen.__init__ = _popen  # pyright: ignore[reportAttributeAccessIssue]


def pytest_unconfigure() -> None:
    if _children is not None:
        shutil.rmtree(_children.folder, ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail the test if its launches differ; give its report the counts."""
    _session.take()
    _session.exception = "the test measures which threads work" if item.name in WHO_WORKS else ""
    with mock.patch.dict(os.environ, {repetition.EXCEPTION: _session.exception}):
        outcome: Any = yield
    if _children is not None:
        _children.collect(_session)
    counts, differences = _session.take()
    item.user_properties.append(("repeated launches", counts))
    if differences:
        outcome.force_exception(AssertionError("repeated launches: " + "\n".join(differences)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, counts in getattr(report, "user_properties", ()):
                if name == "repeated launches" and report.when == "call":
                    total.update(counts)
    terminalreporter.section("launches repeated on 1, 2 and 3 threads and in the simulator")
    for line in summary(total):
        terminalreporter.write_line(line)


def summary(total: Mapping[str, int]) -> list[str]:
    """The lines of the counts: first the comparisons, then the exceptions with their reasons."""
    exceptions = {name: count for name, count in total.items() if name.startswith(_REASONS)}
    lines = [f"{count:8d} {name}" for name, count in sorted(total.items()) if name not in exceptions]
    lines += [f"{count:8d} {name}" for name, count in sorted(exceptions.items())]
    reasons = sum(count for name, count in exceptions.items() if name.startswith(_REASONS[0]))
    silent = total.get("launches", 0) - total.get("launches compared", 0) - reasons
    lines += [f"{silent:8d} launches without an outcome: interrupted when it was noted"] if silent else []
    return lines
