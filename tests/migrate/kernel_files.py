"""Files of kernels of Beta 1: one kernel alone, and the check of a migrated file."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from nki.cli.check import Subject, check


def names(file: Path) -> list[str]:
    """The functions of a file."""
    return [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]


def alone(file: Path, name: str) -> str:
    """The source of a file with one of its functions, which have decorators."""
    lines = file.read_text().split("\n")
    functions = [node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.FunctionDef)]
    [one] = [node for node in functions if node.name == name]
    return "\n".join([*lines[: functions[0].lineno - 2], *lines[one.lineno - 2 : one.end_lineno], ""])


def findings(source: str, folder: Path) -> list[Any]:
    """The findings of ``nki check`` in a file with this source."""
    file = folder / "migrated.py"
    file.write_text(source, encoding="utf-8")
    return list(check([Subject(file)]).findings)
