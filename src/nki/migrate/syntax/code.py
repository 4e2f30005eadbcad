"""Source text of syntax nodes, and nodes of source text."""

from __future__ import annotations

import ast
from typing import Any, cast

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
    text = code_of(cast("cst.CSTNode", node.visit(_Flat()))).strip()
    if "\n" not in text:
        return text
    return ast.unparse(ast.parse(f"({text})", mode="eval").body)


def flat(node: cst.Expr | cst.Assign) -> cst.Expr | cst.Assign | None:
    """A statement on one line, without comments; None if it has a string of several lines."""
    new = cast("cst.Expr | cst.Assign", node.visit(_Flat()))
    return new if "\n" not in code_of(new) else None


class _Flat(cst.CSTTransformer):
    """Puts what stands between parentheses on one line."""

    def leave_ParenthesizedWhitespace(
        self, original_node: cst.ParenthesizedWhitespace, updated_node: cst.ParenthesizedWhitespace
    ) -> Any:
        del original_node, updated_node
        return cst.SimpleWhitespace(" ")

    def leave_SimpleWhitespace(
        self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
    ) -> cst.SimpleWhitespace:
        return cst.SimpleWhitespace(" ") if "\n" in original_node.value else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if "\n" not in code_of(original_node):
            return updated_node
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        none = cst.SimpleWhitespace("")
        args = [arg.with_changes(comma=comma, whitespace_after_arg=none) for arg in updated_node.args]
        args[-1:] = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args[-1:]]
        return updated_node.with_changes(args=args, whitespace_before_args=none)

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.Subscript:
        if "\n" not in code_of(original_node):
            return updated_node
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        elements = [element.with_changes(comma=comma) for element in updated_node.slice]
        single = len(elements) == 1 and isinstance(original_node.slice[0].comma, cst.Comma)
        if not single:
            elements[-1:] = [element.with_changes(comma=cst.MaybeSentinel.DEFAULT) for element in elements[-1:]]
        return updated_node.with_changes(
            slice=elements, lbracket=cst.LeftSquareBracket(), rbracket=cst.RightSquareBracket()
        )

    def leave_LeftParen(self, original_node: cst.LeftParen, updated_node: cst.LeftParen) -> cst.LeftParen:
        return cst.LeftParen() if "\n" in code_of(original_node) else updated_node

    def leave_RightParen(self, original_node: cst.RightParen, updated_node: cst.RightParen) -> cst.RightParen:
        return cst.RightParen() if "\n" in code_of(original_node) else updated_node


class WholeNumbers(cst.CSTTransformer):
    """Divisions of sizes, which Beta 1 let be floats, as divisions of whole numbers."""

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BinaryOperation:
        divides = isinstance(original_node.operator, cst.Divide)
        return updated_node.with_changes(operator=cst.FloorDivide()) if divides else updated_node


__all__ = ["WholeNumbers", "code_of", "expression", "flat", "one_line", "statement"]
