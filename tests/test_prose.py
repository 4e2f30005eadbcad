"""Prose: a docstring names its subject or its action first, and sentences are plain: subject, verb, object."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "nki"
QUESTION = re.compile(r"(What|Who|Whom|Whose|Whether|How|Where|Wherever|When|Which|Why)\b")
KNOTS = re.compile(
    r"\b(whose|those\s+of|that\s+of|of\s+which|nobody|somebody|in\s+the\s+place\s+of|as\s+far\s+as)\b", re.IGNORECASE
)
"""Words that tie two sentences into one: write two, or name the thing again."""
FOLDERS = ("tests", "tools", "benchmarks", "validation", "examples", "src")
GENERATED = "Generated from the source by `make docs`"
PAGES = [
    page
    for page in [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if GENERATED not in page.read_text(encoding="utf-8")
]
LEFT = {"src": 18}
"""Places with such words that are not rewritten yet. A number here only falls; all other files have none."""
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


def comments_and_docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment, and of every string that stands as a statement."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words))):
                yield node.lineno, words
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def knots(text: str) -> list[str]:
    return [" ".join(match[0].lower().split()) for match in KNOTS.finditer(text)]


def knots_of(folder: str) -> list[str]:
    """Each place in comments and docstrings of the Python files of a folder."""
    files = {file: file.read_text(encoding="utf-8") for file in sorted((ROOT / folder).rglob("*.py"))}
    return [
        f"{file.relative_to(ROOT)}:{line}: {word}"
        for file, text in files.items()
        if KNOTS.search(text)
        for line, words in comments_and_docstrings(text)
        for word in knots(words)
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_comments_and_docstrings_are_plain_sentences(folder: str) -> None:
    places = knots_of(folder)
    most = LEFT.get(folder, 0)
    advice = f"{len(places)} places have words that tie two sentences into one, {most} had; write two in yours"
    assert len(places) <= most, "\n".join([advice, *places])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_are_plain_sentences(page: Path) -> None:
    """Hand-written pages; generated ones have the words of the declarations. Code and output are no prose."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    paragraphs = [re.sub(r"`[^`]+`", "", paragraph) for paragraph in text.split("\n\n")]
    places = [f"{word}: {paragraph}" for paragraph in paragraphs for word in knots(paragraph)]
    assert len(places) <= LEFT.get(page.relative_to(ROOT).as_posix(), 0), "\n".join(places)


def test_the_search_for_words_finds_every_kind() -> None:
    text = '''"""A tile whose rows are dense."""
x = "whose"  # those  of y
def nobody():
    """The bits are that
    of z, of which Nobody reads one in the place of it, as far as somebody knows."""
'''
    assert [knots(words) for _, words in comments_and_docstrings(text)] == [
        ["whose"],
        ["that of", "of which", "nobody", "in the place of", "as far as", "somebody"],
        ["those of"],
    ]
