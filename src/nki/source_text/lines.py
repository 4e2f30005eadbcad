"""Statements of a new file: lines that stay as they are, new ones with a layout, heads of blocks with their bodies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nki.source_text.source import Change, Source, code_of, comments_in, flat, parsed, spliced

WIDTH: Final = 110
"""Columns of a line that a rewritten statement may take."""
_AS_IT_IS: Final = "\0"
"""Begins lines that no indentation is put in front of: their place is a part of a string, or chosen by the user."""


@dataclass(slots=True)
class Line:
    """A statement as code from column 0 on; with a ``body`` the head of a block."""

    text: str
    body: list[Line] | None = None
    above: list[str] = field(default_factory=list[str])
    """Comments and empty lines above it."""
    mark: str = ""
    """A comment that says what is left to do."""
    comment: str = ""
    """The comment behind it, with the spaces in front of that."""
    kept: bool = False
    """It is in the old file like that."""
    fixed: bool = False
    """It is new, with a layout that stays."""
    pad: str = "    "
    """The indentation of the body."""

    @property
    def names(self) -> set[str]:
        """The names in it and in its body."""
        inner = {name for line in self.body or () for name in line.names}
        return inner | set(re.findall(r"(?<![\w.])[^\W\d]\w*", self.text))


def rendered(lines: Iterable[Line], width: int = WIDTH, pad: str = "") -> list[str]:
    """The lines of a file, indented by ``pad``; new ones of at most ``width`` columns, where that is possible."""
    result: list[str] = []
    for line in lines:
        stays = line.kept or line.fixed or line.body is not None
        text = line.text if stays else laid_out(line.text, width - len(pad), line.pad)
        for each in (*line.above, *([line.mark] if line.mark else []), *(text + line.comment).split("\n")):
            result += [each[1:] if each.startswith(_AS_IT_IS) else f"{pad}{each}" if each else ""]
        if line.body is not None:
            result += rendered(line.body or [Line("pass")], width, pad + line.pad)
    return result


# -- lines of the old file ---------------------------------------------------------------------------------------------


def first_row(node: Any) -> int:
    """The number of the first line of a statement."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def above(node: Any, last: int) -> list[str]:
    """The lines between line number ``last`` and a statement."""
    source: Source = node.source
    return [_dedented(line, node.col_offset) for line in source.lines[last : first_row(node) - 1]]


def as_it_is(*nodes: Any) -> Line:
    """One statement, or several in one line, as they are."""
    source: Source = nodes[0].source
    first, last = nodes[0], nodes[-1]
    start = source.offset(first_row(first), first.col_offset)
    row: int = last.end_lineno
    end = source.offset(row, 0) + len(source.lines[row - 1])
    return Line(aligned(source.text[start:end], first.col_offset, first), kept=True)


def comment_behind(node: Any) -> str:
    """The comment behind a statement."""
    source: Source = node.source
    return _comment(source.text[source.span(node)[1] :].split("\n", 1)[0].removeprefix(";"))


def _comment(rest: str) -> str:
    """The comment that stands behind code in its line."""
    return rest if rest.lstrip().startswith("#") else ""


def head(
    node: Any, body: Sequence[Any], changes: Sequence[Change], more: Sequence[tuple[int, int, str]] = ()
) -> tuple[Line, int]:
    """The head of a block, ``if test:`` and the like, without lines for its ``body``; the number of its last line.

    ``more``: changes between two places of the file.
    """
    source: Source = node.source
    start, first = source.offset(node.lineno, node.col_offset), body[0]
    below = first_row(first) > node.lineno
    colon = _colon(source, node, source.offset(first_row(first), 0 if below else first.col_offset))
    rest = source.text[colon + 1 :].split("\n", 1)[0]
    text = spliced(source, start, colon + 1, [*more, *((*source.span(child), text) for child, text in changes)])
    pad = source.lines[first_row(first) - 1][node.col_offset : first.col_offset] if below else "    "
    line = Line(aligned(text, node.col_offset, node), [], comment=_comment(rest), pad=pad)
    return line, node.lineno + source.text.count("\n", start, colon)


def _colon(source: Source, node: Any, end: int) -> int:
    """The place of the colon that ends the head of a statement, in front of ``end``."""
    start = source.offset(node.lineno, node.col_offset)
    if isinstance(node, ast.FunctionDef):
        start = source.text.index("(", start)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.ExceptHandler) and child not in getattr(node, "decorator_list", ()):
            inner = [part for part in ast.walk(child) if isinstance(part, ast.expr | ast.arg | ast.keyword)]
            start = max([start, *(source.span(part)[1] for part in inner)])
    text = re.sub(r"#[^\n]*", lambda match: " " * len(match[0]), source.text[start:end])
    return start + text.index(":")


def branch(before: Any, body: Sequence[Any], word: str) -> tuple[Line, int]:
    """The line ``else:`` or ``finally:`` between a statement and a ``body``, without lines for that; its number."""
    source: Source = before.source
    for row in range(before.end_lineno, first_row(body[0])):
        match = re.match(rf"(\s*){word}\s*:(\s*#.*)?", source.lines[row])
        if match:
            pad = source.lines[first_row(body[0]) - 1][len(match[1]) : body[0].col_offset]
            gap = [_dedented(each, len(match[1])) for each in source.lines[before.end_lineno : row]]
            return Line(f"{word}:", [], gap, comment=match[2] or "", pad=pad if pad.isspace() else "    "), row + 1
    raise LookupError(word)


def _dedented(line: str, column: int) -> str:
    if not line:
        return ""
    return line[column:] if line[:column].isspace() or not column else _AS_IT_IS + line


def aligned(text: str, column: int, node: ast.AST | None = None) -> str:
    """Code that began at ``column`` as code that begins at 0; what strings of several lines hold stays as it is."""
    if "\n" not in text:
        return text
    inside: set[int] = set()
    if '"""' in text or "'''" in text or "\\\n" in text:
        first = first_row(node) if node is not None else 1
        for part in ast.walk(node) if node is not None else _walk(text):
            if isinstance(part, ast.Constant | ast.JoinedStr) and isinstance(getattr(part, "value", ""), str):
                inside |= set(range(part.lineno + 1 - first, (part.end_lineno or part.lineno) + 1 - first))
    lines = text.split("\n")
    return "\n".join(
        [
            lines[0],
            *(_AS_IT_IS + each if k in inside else _dedented(each, column) for k, each in enumerate(lines[1:], 1)),
        ]
    )


def _walk(text: str) -> Iterable[Any]:
    return (node for statement in parsed(text) for node in ast.walk(statement))


def by_lines(body: Sequence[ast.stmt]) -> list[list[ast.stmt]]:
    """The statements of a block, in groups of one line."""
    groups: list[list[ast.stmt]] = []
    for one in body:
        if groups and groups[-1][-1].end_lineno == one.lineno:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def is_same(body: Sequence[ast.stmt], lines: Sequence[Line]) -> bool:
    """True if ``lines`` are the statements of a block as they are."""
    return len(by_lines(body)) == len(lines) and all(line.kept and not line.mark for line in lines)


def align(lines: Iterable[Line], column: int) -> None:
    """Let lines that were taken from ``column`` of the old file begin at 0."""
    for line in lines:
        line.text = aligned(line.text, column)
        align(line.body or (), column)


# -- layout of new lines -----------------------------------------------------------------------------------------------


def laid_out(text: str, width: int, pad: str) -> str:
    """A new statement on one line where it fits, else with arguments below the call; with comments inside as it is."""
    if comments_in(text):
        return text
    one = flat(text) if "\n" in text else text
    if "\n" in one or len(one) <= width:
        return one if "\n" not in one else text
    statement: Any = parsed(one)[0]
    call = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr | ast.Assign) or not isinstance(call, ast.Call):
        return one
    args = sorted([*call.args, *call.keywords], key=lambda arg: arg.col_offset)
    if not args:
        return one
    lines = [""]
    for arg in args:
        part = code_of(arg) + ","
        joined = f"{lines[-1]} {part}" if lines[-1] else part
        if lines[-1] and len(pad) + len(joined) > width:
            lines.append(part)
        else:
            lines[-1] = joined
    if len(lines) == 1:  # a trailing comma would ask formatters for one argument on each line
        lines[0] = lines[0].removesuffix(",")
    start = one.removesuffix(code_of(call))
    return f"{start}{code_of(call.func)}(\n{pad}" + f"\n{pad}".join(lines) + "\n)"


__all__ = [
    "Line", "above", "align", "aligned", "as_it_is", "branch", "by_lines", "comment_behind", "first_row", "head",
    "is_same", "laid_out", "rendered",
]  # fmt: skip
