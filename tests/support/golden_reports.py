"""The programs with mistakes, and the report on each: what users read, word for word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent.parent
MARK = "-----\n"


@dataclass(frozen=True)
class Golden:
    """A program and the report on it. ``codes``: the errors that the report shows, in its order."""

    name: str
    program: str
    report: str
    codes: tuple[str, ...]


def golden() -> list[Golden]:
    """All of them: whole programs of ``tests/errors``, single functions of ``tests/frontend``."""
    found: list[Golden] = []
    for file in sorted([*TESTS.glob("errors/cases/*.txt"), *TESTS.glob("frontend/cases/*.txt")]):
        program, _, report = file.read_text(encoding="utf-8").partition(MARK)
        codes = tuple(re.findall(r"^\[(NKI-\w+)", report, re.MULTILINE))
        found.append(Golden(f"{file.parent.parent.name}/{file.stem}", program, report, codes))
    return found
