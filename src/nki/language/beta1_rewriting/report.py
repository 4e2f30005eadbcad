"""The report of a rewriting, and the marks that it leaves in the source."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from nki.source_text.lines import Line

MARK: Final = "# TODO(nki-migrate):"


class Report:
    """Notes on the rewriting of one file, and the constructs that were left."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.notes: list[str] = []
        self.kernels: set[str] = set()
        self.lines: dict[int, list[Line]] = {}
        """The new lines of each statement, by its identity."""

    def todo(self, message: str) -> None:
        self.left.append(message)


def marked(line: Line, message: str) -> Line:
    """The statement with a comment above it that says what is left to do."""
    return replace(line, mark=f"{MARK} {' '.join(message.split())}")


__all__ = ["MARK", "Report", "marked"]
