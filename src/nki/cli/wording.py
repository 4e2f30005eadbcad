"""Wording of what the command prints."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """``count`` and ``noun``, with an s unless it is one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
