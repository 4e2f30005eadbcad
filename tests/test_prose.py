"""Prose of docstrings: a docstring names its subject or its action first."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "nki"
QUESTION = re.compile(r"(What|Who|Whom|Whose|Whether|How|Where|Wherever|When|Which|Why)\b")
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring: of modules, classes, functions, and of the values that a string follows."""
    for node in ast.walk(tree):
        if not isinstance(node, DEFINITIONS):
            continue
        if text := ast.get_docstring(node):
            yield getattr(node, "lineno", 1), text
        for statement, below in zip(node.body, node.body[1:], strict=False):
            match statement, below:
                case (ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                    yield below.lineno, text


def test_no_docstring_begins_with_a_question_word() -> None:
    questions = [
        f"{file.relative_to(SOURCE)}:{line}: {text.splitlines()[0]}"
        for file in sorted(SOURCE.rglob("*.py"))
        for line, text in docstrings(ast.parse(file.read_text(encoding="utf-8")))
        if QUESTION.match(text)
    ]
    assert not questions, "\n" + "\n".join(questions)


def test_the_checker_finds_every_kind() -> None:
    text = '''"""What."""
X = 1
"""Where."""
class C:
    """Who."""
    y: int
    """Why."""
def f():
    """How."""
'''
    assert [word for _, word in docstrings(ast.parse(text)) if QUESTION.match(word)] == [
        "What.",
        "Where.",
        "Who.",
        "Why.",
        "How.",
    ]
