"""A line on the terminal while native code is compiled, files are checked, or a kernel is profiled."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Generator

from nki.base import knobs

WIDTH = 24


def bar(done: int, total: int) -> None:
    """Draw ``done`` of ``total`` routines on stderr; nothing if stderr is no terminal. Removed when all are done."""
    filled = WIDTH * done // total
    _show(f"compiling [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} routines" if done < total else "")


def files_bar(done: int, total: int, name: str) -> None:
    """Show on stderr the file ``name``, checked after ``done`` of ``total`` files; nothing for a single one."""
    if total > 1:
        _show(f"checking {done + 1}/{total} {name}" if done < total else "")


@contextlib.contextmanager
def steps() -> Generator[None]:
    """Context manager: the line of :func:`step` is gone at its end."""
    try:
        yield
    finally:
        step("")


def step(text: str) -> None:
    """Show on stderr what is going on; nothing for an empty text."""
    _show(text)


def _show(text: str) -> None:
    if not knobs.draws_progress():
        return
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # with `2>&-`
        return
    columns = shutil.get_terminal_size().columns
    sys.stderr.write(f"\r\x1b[K{text[: columns - 1]}")  # a line that wraps could not be taken back
    sys.stderr.flush()
