"""A pytest plugin that records the bits of every native launch of a session, so that two commits can be compared.

``python -m pytest -p recorded_launches …`` with this folder in ``PYTHONPATH`` and a folder in ``NKI_RECORD_LAUNCHES``:
each process of the session leaves there one file, a JSON array ``[test, key, outcome]`` a line. ``key`` is a digest of
the kernel's name and of all bytes and numbers that a launch reads, ``outcome`` one of the bytes that it wrote, or the
class of its error. ``tools.compare_commits`` runs the suites of two commits with this very file. So it needs nothing of
the project but the class that launches. Launches of processes that tests start are not recorded.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

FOLDER = "NKI_RECORD_LAUNCHES"
_state: dict[str, Any] = {"test": "", "file": None}


def _digest(first: bytes, pointers: Sequence[int], sizes: Sequence[int]) -> str:
    digest = hashlib.blake2b(first, digest_size=12)
    for pointer, size in zip(pointers, sizes, strict=True):
        digest.update((ctypes.c_uint8 * size).from_address(pointer))
    return digest.hexdigest()


def _file() -> TextIO:
    """The file of this process; one that was forked has its own."""
    name = Path(os.environ[FOLDER], f"{os.getpid()}.jsonl")
    if _state["file"] is None or _state["file"].name != str(name):
        _state["file"] = name.open("a", encoding="utf-8")
    return _state["file"]


def _note(key: str, outcome: str) -> None:
    file = _file()
    file.write(json.dumps([_state["test"], key, outcome]) + "\n")
    file.flush()


def _watch() -> None:
    from nki.backend.cpu.runtime.launch import Executable  # here: a worker of pytest-xdist imports it when it is ready

    launch = Executable.launch

    @functools.wraps(launch)
    def recorded(self: Any, pointers: Sequence[int], floats: Sequence[float] = (), *more: Any, **named: Any) -> Any:
        inputs = len(self.inputs)
        sizes = [spec.nbytes for spec in (*self.kernel.inputs, *self.kernel.outputs)]
        key = _digest(repr((self.kernel.name, tuple(floats))).encode(), pointers[:inputs], sizes[:inputs])
        try:
            result = launch(self, pointers, floats, *more, **named)
        except BaseException as error:
            _note(key, type(error).__name__)
            raise
        _note(key, _digest(b"", pointers[inputs:], sizes[inputs:]))
        return result

    Executable.launch = recorded


def pytest_sessionstart(session: pytest.Session) -> None:
    if not getattr(session.config.option, "numprocesses", 0) or hasattr(session.config, "workerinput"):
        _watch()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Record launches under the name of this test."""
    _state["test"] = item.nodeid
    yield
    _state["test"] = ""
