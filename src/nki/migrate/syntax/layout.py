"""Layout of new statements: on one line where it fits, else arguments below the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import libcst as cst

from nki.migrate.syntax.code import code_of, flat, statement

WIDTH: Final = 110
"""Columns of a line that a rewritten statement may take."""


def laid_out(new: cst.Module, old: cst.Module) -> cst.Module:
    """``new`` with the layout of its statements mended; those that ``old`` has too stay as they are."""
    known = _Statements()
    old.visit(known)
    return new.visit(_Layout(known.texts, len(new.default_indent)))


def comments_in(nodes: Sequence[cst.CSTNode]) -> list[str]:
    """All comments inside of nodes."""
    found = _Comments()
    for node in nodes:
        node.visit(found)
    return found.texts


class _Comments(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def visit_Comment(self, node: cst.Comment) -> None:
        self.texts.append(node.value)


class _Statements(cst.CSTVisitor):
    """Collects the code of all simple statements."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: set[str] = set()

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self.texts.update(code_of(small) for small in node.body)


class _Layout(cst.CSTTransformer):
    def __init__(self, known: set[str], indent: int) -> None:
        super().__init__()
        self.known = known
        self.indent = indent
        self.columns = 0
        """Columns that the present block is indented by."""

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self.columns += len(node.indent) if node.indent is not None else self.indent

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        self.columns -= len(original_node.indent) if original_node.indent is not None else self.indent
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        if len(original_node.body) != 1 or code_of(original_node.body[0]) in self.known:
            return updated_node
        [small] = original_node.body
        if not isinstance(small, cst.Expr | cst.Assign) or comments_in([small]):
            return updated_node
        one = flat(small)
        if one is None:
            return updated_node
        text = code_of(one)
        call = one.value
        if self.columns + len(text) > WIDTH and isinstance(call, cst.Call) and call.args:
            text = self._broken(text.removesuffix(code_of(call)), call)
        body: Any = cast("cst.SimpleStatementLine", statement(text)).body
        return updated_node.with_changes(body=body)

    def _broken(self, head: str, call: cst.Call) -> str:
        """A call with its arguments on lines of their own, as many on a line as fit."""
        pad = " " * self.indent
        lines = [""]
        for arg in call.args:
            text = code_of(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) + ","
            joined = f"{lines[-1]} {text}" if lines[-1] else text
            if lines[-1] and self.columns + self.indent + len(joined) > WIDTH:
                lines.append(text)
            else:
                lines[-1] = joined
        if len(lines) == 1:  # a trailing comma would ask formatters for one argument on each line
            lines[0] = lines[0].removesuffix(",")
        return f"{head}{code_of(call.func)}(\n{pad}" + f"\n{pad}".join(lines) + "\n)"


__all__ = ["comments_in", "laid_out"]
