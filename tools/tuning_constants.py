"""The constants that native code is tuned by: each with its value and its docstring, which has the unit.

A constant of a module is one if its value is a number, or numbers, and a docstring follows it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

FOLDERS: Final = ("backend/cpu", "numerics", "transforms")
_NUMBERS: Final = (ast.Constant, ast.BinOp, ast.Dict, ast.Tuple, ast.Name, ast.Attribute)


class Constant(NamedTuple):
    """A constant; ``value`` as the source writes it."""

    file: str
    name: str
    value: str
    text: str


def constants(source: Path) -> list[Constant]:
    """All of them, by file; ``source`` is the folder of the package."""
    files = sorted(file for folder in FOLDERS for file in (source / folder).rglob("*.py"))
    return [constant for file in files for constant in _of(file, file.relative_to(source).as_posix())]


def _of(file: Path, name: str) -> Iterator[Constant]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            docstring = after.value if isinstance(after, ast.Expr) else None
            if isinstance(docstring, ast.Constant) and isinstance(docstring.value, str) and _is_number(node.value):
                text = " ".join(docstring.value.split())
                yield Constant(name, node.target.id, ast.unparse(node.value), text)


def _is_number(value: ast.expr) -> bool:
    """True of numbers, sums and products of them, and of dictionaries and tuples of such."""
    parts = [part for part in ast.walk(value) if isinstance(part, ast.expr)]
    numbers = [part for part in parts if isinstance(part, ast.Constant)]
    is_plain = all(isinstance(part, _NUMBERS) for part in parts)
    return is_plain and bool(numbers) and all(isinstance(part.value, int | float) for part in numbers)
