"""A bar on the terminal while native code is compiled."""

from __future__ import annotations

import sys

WIDTH = 24


def bar(done: int, total: int) -> None:
    """Draw ``done`` of ``total`` routines on stderr; nothing if stderr is no terminal. Removed when all are done."""
    if sys.stderr is None or not sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # with `2>&-`
        return
    filled = WIDTH * done // total
    text = f"compiling [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} routines" if done < total else ""
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
