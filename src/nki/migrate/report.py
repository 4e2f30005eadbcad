"""The report of a migration, and the marks that it leaves in the source."""

from __future__ import annotations

from typing import Any, Final, cast

import libcst as cst

MARK: Final = "# TODO(nki-migrate):"


class Report:
    """Notes on the rewriting of one file, and the constructs that were left."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.notes: list[str] = []
        self.kernels: set[str] = set()

    def todo(self, message: str) -> None:
        self.left.append(message)


def marked(one: cst.BaseStatement, message: str) -> cst.BaseStatement:
    """The statement with a comment above it that says what is left to do."""
    line = cst.EmptyLine(comment=cst.Comment(f"{MARK} {' '.join(message.split())}"))
    lines = [*getattr(one, "leading_lines", ()), line]
    return cast(Any, one).with_changes(leading_lines=lines)


__all__ = ["MARK", "Report", "marked"]
