"""Files are rewritten statement by statement: what does not change keeps its text, byte for byte."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import nki
from nki.language.beta1_rewriting.calls import Argument, call_of, code_in_place
from nki.language.beta1_rewriting.facts import Facts
from nki.language.beta1_rewriting.report import Report
from nki.migrate.beta1_file import rewritten
from nki.migrate.release_forms import renewed
from nki.source_text.lines import Line, as_it_is, laid_out, rendered
from nki.source_text.rewriting import BlockRewriter
from nki.source_text.source import Source, code_of, flat, parsed, replaced

FOLDERS = ("base", "cli", "frontend", "language/beta1_rewriting", "migrate", "source_text")
FILES = [file for folder in FOLDERS for file in sorted((Path(nki.__file__).parent / folder).rglob("*.py"))]
ODD = '''\
"""A file
  with odd layout."""
# é

import sys ; import os

if sys.argv: print("a"); print("b")  # both
elif os.name: # no space
  x = 1   # two

    # deeper than its block
else :
    try:
        y = """text
  that stays
"""
    except (ValueError,
            KeyError) as error:  # two kinds
        raise
    # before the last
    finally:
        z = [
  1,
    ]
\tfor_ = 3 if False else 4
@property
# between
def f(a, *,
      b: "#:" = {"#": 1}) -> "x:":
    class C:  # inner
        pass
    while a: a = a[1:]
    else: b = 2
    with open(a) as c, open("#"):
        return c \\
            + 1
# at the end
'''.replace("\tfor_", "    for_")


class Everything(BlockRewriter):
    """Takes all statements apart and puts them together again."""

    def statement(self, group: Sequence[ast.stmt]) -> list[Line]:
        decorated = getattr(group[0], "decorator_list", ())
        stub = isinstance(group[0], ast.FunctionDef) and group[0].body[0].lineno == group[0].lineno
        whole = isinstance(group[0], ast.Match) or decorated or stub or not hasattr(group[0], "body")
        return [as_it_is(*group)] if whole else self.compound(group[0])

    def compound(self, one: Any) -> list[Line]:
        return self.rewritten(one, [])

    def joined(self, one: Any, line: Line, changes: Any, others: Any) -> list[Line]:
        return [line, *(each for lines, _ in others for each in lines)]


def again(text: str) -> str:
    source = Source(text)
    lines = rendered(Everything().block(source.tree.body, 0))
    return "\n".join([*lines, *source.lines[source.tree.body[-1].end_lineno or 0 :]])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_that_is_taken_apart_is_the_same_again(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert again(text) == text


def test_odd_layout_stays() -> None:
    without_blocks_in_one_line = ODD.replace('if sys.argv: print("a"); print("b")  # both', "if sys.argv:\n    pass")
    without_blocks_in_one_line = without_blocks_in_one_line.replace("while a: a = a[1:]\n    else: b = 2", "pass")
    again(ODD)
    assert again(without_blocks_in_one_line).replace("else:", "else :") == without_blocks_in_one_line


def test_a_file_without_older_forms_is_returned_as_it_is() -> None:
    assert renewed(ODD, Report()) == ODD
    assert rewritten(Source(ODD), Facts(), Report()) == ODD


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("f(\n    a,  # one\n    b,\n)", "f(a, b)"),
        ("x = (\n    a,\n)", "x = (a,)"),
        ("x[\n    a,\n]", "x[a,]"),
        ("[\n    a,\n    'b#'\n    'c',\n]", "[a, 'b#' 'c']"),
        ("a = b + \\\n    c", "a = b + c"),
        ("x = (a\n     + (b, ))", "x = (a + (b, ))"),
    ],
)
def test_code_on_one_line(text: str, line: str) -> None:
    assert flat(text) == line
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(line))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a, b)", "f(NEW, b)"),
        ("f(b, a)", "f(b, NEW)"),
        ("f( a )", "f( NEW )"),
        ("f(\n    x = a,  # why\n    y=1,\n)", "f(\n    x=NEW,  # why\n    y=1,\n)"),
        ("f(a, gone=1)", "f(NEW)"),
        ("f(gone=1, b=2)", "f(b=2)"),
        ("f(a, gone=1, b=2)", "f(NEW, b=2)"),
        ("f(gone=1)", "f()"),
        ("f((a), 1)", "f(NEW, 1)"),
        ("f(x for x in y)", "f(x for x in y)"),
    ],
)
def test_a_call_changes_in_place(before: str, after: str) -> None:
    [statement] = parsed(before)
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    call = call_of(statement.value, "f", code_of)
    args = [
        Argument(arg.name, "NEW" if arg.text == "a" else arg.text, arg.node) for arg in call.args if arg.name != "gone"
    ]
    assert code_in_place(statement.value, call.with_args(args)) == after


def test_parentheses_go_where_nothing_needs_them() -> None:
    [statement] = parsed("x = (\n    a + b  # c\n) * (a + b) + f(a + b)")
    sums = [node for node in ast.walk(statement) if isinstance(node, ast.BinOp) and code_of(node) == "a + b"]
    assert replaced(statement, [(node, "add(a, b)") for node in sums]) == (
        "x = (\n    add(a, b)  # c\n) * add(a, b) + f(add(a, b))"
    )
    assert replaced(statement, [(node, "c - d") for node in sums[1:2]]).endswith("(c - d) + f(a + b)")


def test_a_long_call_is_broken_between_its_arguments() -> None:
    text = f"t = f({', '.join(f'argument_{k}={k}' for k in range(9))})"
    lines = laid_out(text, 60, "    ").split("\n")
    assert lines[0] == "t = f(" and lines[-1] == ")" and all(len(line) <= 60 for line in lines)
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(text))
