"""Rewriting of expressions and of blocks; what becomes of each is for subclasses to say."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from nki.source_text.lines import Line, above, as_it_is, branch, by_lines, head, is_same
from nki.source_text.source import Change, code_of, replaced


class ExpressionRewriter:
    """Rewrites expressions from the inside out; where nothing changes, the user's own code stays."""

    rules: ClassVar[dict[type[ast.AST], Callable[[Any, Any], str]]]
    """The rewriting of each kind of node that may change itself."""

    def code(self, node: ast.expr) -> str:
        """The code of an expression of today."""
        rule = self.rules.get(type(node))
        return rule(self, node) if rule is not None else self.inside(node)

    def inside(self, node: ast.AST) -> str:
        """The code of a node with the expressions inside of it rewritten."""
        changes = self.changes(node)
        return replaced(node, changes) if changes else code_of(node)

    def changes(self, *nodes: ast.AST) -> list[Change]:
        """The expressions right inside of nodes that change, with their new code."""
        return [(each, text) for node in nodes for each in _inner(node) if (text := self.code(each)) != code_of(each)]


def _inner(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions right inside of a node, decorators not counted.

    None of a string with values in it: Python tells no places there.
    """
    decorators = getattr(node, "decorator_list", ())
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr) or child in decorators:
            continue
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword | ast.comprehension | ast.arguments | ast.arg | ast.withitem):
            yield from _inner(child)


class BlockRewriter(ABC):
    """Rewrites the statements of blocks."""

    @abstractmethod
    def statement(self, group: Sequence[ast.stmt]) -> list[Line]:
        """The lines for a statement, or for several in one line."""

    @abstractmethod
    def compound(self, one: Any) -> list[Line]:
        """The lines for a statement with blocks in it."""

    def block(self, body: Sequence[ast.stmt], row: int) -> list[Line]:
        """The statements of a block behind line ``row``; comments of statements that go stay with the next one."""
        result: list[Line] = []
        kept: list[str] = []
        for group in by_lines(body):
            lines = above(group[0], row)
            row = group[-1].end_lineno or row
            new = self.statement(group)
            if new:
                new[0] = replace(new[0], above=[*kept, *lines, *new[0].above])
                kept = []
            else:
                kept += [line for line in lines if line.strip().startswith("#")]
            result += new
        return result

    def rewritten(self, one: Any, changes: Sequence[Change]) -> list[Line]:
        """A statement with its blocks rewritten, and ``changes`` in its head."""
        line, row = head(one, one.body, changes)
        line.body = self.block(one.body, row)
        return self.joined(one, line, changes, self.branches(one))

    def joined(
        self, one: Any, line: Line, changes: Sequence[Change], others: Sequence[tuple[list[Line], bool]]
    ) -> list[Line]:
        """The lines of a statement: its head with the first block, and its other blocks."""
        if not changes and is_same(one.body, line.body or []) and all(same for _, same in others):
            return [as_it_is(one)]
        return [line, *(each for lines, _ in others for each in lines)]

    def branches(self, one: Any) -> list[tuple[list[Line], bool]]:
        """The lines of each other block of a statement, ``else`` and the like, and whether they are as they were."""
        result: list[tuple[list[Line], bool]] = []
        last = one.body[-1]
        for handler in getattr(one, "handlers", ()):
            line, row = head(handler, handler.body, [])
            line.above, line.body = above(handler, last.end_lineno), self.block(handler.body, row)
            result.append(([line], is_same(handler.body, line.body)))
            last = handler.body[-1]
        for word, body in (("else", getattr(one, "orelse", [])), ("finally", getattr(one, "finalbody", []))):
            if isinstance(one, ast.If) and body and code_of(body[0]).startswith("elif"):
                lines = self.compound(body[0])
                lines[0].above = above(body[0], last.end_lineno)
                result.append((lines, is_same(body, lines)))
            elif body:
                line, row = branch(last, body, word)
                line.body = self.block(body, row)
                result.append(([line], is_same(body, line.body)))
            last = body[-1] if body else last
        return result


__all__ = ["BlockRewriter", "ExpressionRewriter"]
