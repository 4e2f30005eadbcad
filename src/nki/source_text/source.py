"""Source text of syntax nodes, syntax nodes of source text, and source text with parts of it replaced."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, cast


class Source:
    """A text and its syntax tree: each node knows its source."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._is_ascii = text.isascii()
        for node in ast.walk(self.tree):
            if hasattr(node, "lineno"):  # others, such as contexts, may be parts of several trees
                cast("Any", node).source = self

    @cached_property
    def lines(self) -> list[str]:
        """The lines, without their ends."""
        return self.text.split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        return starts

    def offset(self, line: int, column: int) -> int:
        """The place in the text of a column, which Python counts in bytes, of a line, which it counts from 1."""
        if not self._is_ascii:
            column = len(self.lines[line - 1].encode()[:column].decode())
        return self._starts[line - 1] + column

    def span(self, node: Any) -> tuple[int, int]:
        """Start and end of a node in the text."""
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)


def code_of(node: ast.AST) -> str:
    """The source code of a node, with its own layout."""
    source: Source | None = getattr(node, "source", None)
    if source is None:
        return ast.unparse(node)
    start, end = source.span(node)
    return source.text[start:end]


def one_line(node: ast.AST) -> str:
    """The source code of an expression on one line, without comments."""
    return in_one_line(code_of(node))


def in_one_line(text: str) -> str:
    """The code of an expression on one line, without comments."""
    text = flat(text)
    return text if "\n" not in text else ast.unparse(ast.parse(f"({text})", mode="eval").body)


def parsed(text: str) -> list[ast.stmt]:
    """The nodes of statements."""
    return Source(text).tree.body


def expression(text: str) -> Any:
    """The node of an expression."""
    return cast("ast.Expr", parsed(text)[0]).value


def names_in(*nodes: ast.AST | None) -> set[str]:
    """All names inside of nodes."""
    found: set[str] = set()
    for node in nodes:
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Name):
                found.add(part.id)
            elif isinstance(part, ast.arg):
                found.add(part.arg)
            elif isinstance(part, ast.FunctionDef | ast.ClassDef):
                found.add(part.name)
    return found


def assigned(*nodes: ast.AST) -> set[str]:
    """The names that nodes assign, at any depth."""
    return {part.id for node in nodes for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip


def own_nodes(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Nodes and the nodes inside of them, without functions and what is inside of those."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            yield node
            yield from own_nodes(*ast.iter_child_nodes(node))


def owner_of(node: ast.expr) -> ast.expr:
    """The expression that a subscript indexes, at any depth; other expressions as they are."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def comments_in(text: str) -> list[str]:
    """All comments inside of code."""
    if "#" not in text:
        return []
    return [token.string for token in _tokens(text) if token.type == tokenize.COMMENT]


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """The tokens of code, which may be a part of a statement; line 1 is in front of it."""
    return list(tokenize.generate_tokens(io.StringIO(f"(\n{text}\n)").readline))[2:-3]


def flat(text: str) -> str:
    """Code on one line, without comments; strings of several lines stay."""
    if "\n" not in text:
        return text.strip()
    lines = ["(", *text.split("\n")]
    result = ""
    brackets: list[tuple[bool, int]] = []
    """Of each open bracket: whether it follows a value, as in a call or subscript, and its commas."""
    before, after_value, comma = (0, 0), False, False
    for token in _tokens(text):
        kind, string, (row, _), (last_row, last_column) = token[:4]
        if kind in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            continue
        broken = row != before[0]
        opens, closes = string in ("(", "[", "{"), string in (")", "]", "}")
        if closes and broken and comma:
            value, commas = brackets[-1]
            keeps = commas == 1 and (string == "]" if value else string == ")")
            result = result if keeps else result[:-1]
        if result and broken and not closes and result[-1] not in "([{":
            result += " "
        part = lines[row - 1][0 if broken else before[1] : last_column] if row == last_row else string
        result += part.lstrip() if broken or result[-1:] in ("(", "[", "{") else part
        if opens:
            brackets.append((after_value, 0))
        elif closes and brackets:
            brackets.pop()
        comma = string == ","
        if comma and brackets:
            brackets[-1] = (brackets[-1][0], brackets[-1][1] + 1)
        after_value = closes or kind == tokenize.STRING or (kind == tokenize.NAME and not keyword.iskeyword(string))
        before = (last_row, last_column)
    return result


Change = tuple[ast.AST, str]
"""A node, and the code in place of it."""


def replaced(node: ast.AST, changes: Iterable[Change]) -> str:
    """The code of a node, with other code for some of the nodes inside of it."""
    source: Source = cast("Any", node).source
    start, end = source.span(node)
    return spliced(source, start, end, [(*source.span(child), text) for child, text in changes])


def spliced(source: Source, start: int, end: int, changes: Sequence[tuple[int, int, str]]) -> str:
    """The text from ``start`` to ``end``, with other code for some parts of it, without parentheses around calls."""
    parts: list[str] = []
    place = start
    for first, last, text in sorted(changes):
        if first < last and _needs_no_parentheses(text):
            first, last = _with_parentheses(source.text, first, last, place, end)
        parts += [source.text[place:first], text]
        place = last
    return "".join([*parts, source.text[place:end]])


def _needs_no_parentheses(text: str) -> bool:
    """True for a name, and for a call."""
    try:
        return text.isidentifier() or (text.endswith(")") and isinstance(expression(text), ast.Call))
    except (SyntaxError, AttributeError):  # a keyword with its value
        return False


def _with_parentheses(text: str, first: int, last: int, start: int, end: int) -> tuple[int, int]:
    """Start and end of an expression with the parentheses that stand around it alone."""
    while True:
        before, after = text[start:first].rstrip(), text[last:end]
        space = len(after) - len(after.lstrip())
        if not before.endswith("(") or not after[space:].startswith(")"):
            return first, last
        left = before[:-1].rstrip()
        word = left[len(left.rstrip("_abcdefghijklmnopqrstuvwxyz")) :]
        if left and (left[-1].isalnum() or left[-1] in "_)]}") and not keyword.iskeyword(word):
            return first, last
        first, last = start + len(before) - 1, last + space + 1


__all__ = [
    "Change", "Source", "assigned", "code_of", "comments_in", "expression", "flat", "in_one_line", "names_in",
    "one_line", "own_nodes", "owner_of", "parsed", "replaced", "spliced",
]  # fmt: skip
