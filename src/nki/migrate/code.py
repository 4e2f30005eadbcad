"""Source text of syntax nodes, and nodes of source text."""

from __future__ import annotations

import ast

import libcst as cst

_EMPTY = cst.Module([])


def code_of(node: cst.CSTNode) -> str:
    """The source code of a node, with its own layout."""
    return _EMPTY.code_for_node(node)


def expression(text: str) -> cst.BaseExpression:
    """The node of an expression."""
    return cst.parse_expression(text)


def statement(text: str) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
    """The node of one statement."""
    return cst.parse_statement(text)


def one_line(node: cst.CSTNode) -> str:
    """The source code of an expression on one line, without comments."""
    text = code_of(node)
    if "\n" not in text:
        return text.strip()
    return ast.unparse(ast.parse(f"({text})", mode="eval").body)


class WholeNumbers(cst.CSTTransformer):
    """Divisions of sizes, which Beta 1 let be floats, as divisions of whole numbers."""

    def leave_BinaryOperation(  # noqa: N802
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BinaryOperation:
        divides = isinstance(original_node.operator, cst.Divide)
        return updated_node.with_changes(operator=cst.FloorDivide()) if divides else updated_node


__all__ = ["WholeNumbers", "code_of", "expression", "one_line", "statement"]
