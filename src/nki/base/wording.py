"""Wording of what the command prints."""

from __future__ import annotations

from pathlib import Path


def plural(count: int, noun: str) -> str:
    """``count`` and ``noun``, with an s unless it is one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shown_path(file: str) -> str:
    """The path as a command line names it: relative to the current folder if it lies there."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
