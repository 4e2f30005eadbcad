"""Errors of a command line, and the nearest known names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(Exception):
    """A mistake on the command line: a missing file, an unknown name, a malformed argument. Exit code 2."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


def nearest(name: str, known: Iterable[str], what: str) -> str:
    """The way out of an unknown ``name``: the nearest known ones, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"{what}: {', '.join(names)}" if names else f"there are no {what}"
