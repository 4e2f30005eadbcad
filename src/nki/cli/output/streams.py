"""The output of a command: apart from what users' code prints, and on streams with an encoding that lacks ``µ`` or
``█``.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
import sys
from collections.abc import Generator
from typing import Final, TextIO

_PLAIN: Final = {"µ": "u", "█": "#", "▒": ":", "·": ".", "…": "...", "−": "-", "–": "-", "→": "->", "×": "x", "≤": "<="}
"""ASCII in place of a letter that the encoding lacks; other letters become escapes."""
_NAME: Final = "nki.plain"


def make_lenient(stream: TextIO) -> None:
    """Let ``stream`` write ASCII for the letters that its encoding lacks, where Python would raise an error."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not (stream.encoding or "").lower().startswith("utf"):
        reconfigure(errors=_NAME)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter) or ascii(letter)[1:-1] for letter in letters), error.end


codecs.register_error(_NAME, _plain)


@contextlib.contextmanager
def aside() -> Generator[None]:
    """Context manager: what users' code prints goes to stderr, also from threads, child processes and compiled code."""
    _flush()
    _apart.add(os.getpid())
    kept = os.dup(_OUT)
    _to_stderr()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        try:
            _flush()
        finally:
            os.dup2(kept, _OUT)
            os.close(kept)


def close() -> None:
    """End the output of this process: what threads and exit handlers of users' code still print goes to stderr.

    Commands that never set users' output apart leave it where it is.
    """
    _flush()
    if os.getpid() in _apart:
        _to_stderr()


def _to_stderr() -> None:
    try:
        os.dup2(_ERROR, _OUT)
    except OSError:  # with `2>&-`
        os.dup2(os.open(os.devnull, os.O_WRONLY), _OUT)


def _flush() -> None:
    """Write what Python and the C library hold back."""
    sys.stdout.flush()
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    ctypes.CDLL(None).fflush(None)


_OUT: Final = 1
_ERROR: Final = 2
"""File descriptors."""
_apart: Final[set[int]] = set()
"""The process, if a command of it has set users' output apart."""
__all__ = ["aside", "close", "make_lenient"]
