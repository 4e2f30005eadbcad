"""Kernels that are wrong for any arguments, recognised by their syntax before they are compiled."""

from __future__ import annotations

import ast
import types

from nki.base.source import is_toolchain
from nki.frontend.capture import Captured
from nki.frontend.scopes import resolve


def is_suspicious(captured: Captured) -> bool:
    """True if the kernel computes with a tile as with a number, assigns one to elements, or returns one.

    The compiler decides if that is an error.
    """
    tiles: set[str] = set()
    nodes = list(ast.walk(captured.node))
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, keywords=keywords)):
                function = resolve(func, captured, frozenset())
                placed = any(keyword.arg == "buffer" for keyword in keywords)
                if isinstance(function, types.FunctionType) and is_toolchain(function) and not placed:
                    tiles.add(name)
            case _:
                pass
    return bool(tiles) and any(_misuses(node, tiles) for node in nodes)


def _misuses(node: ast.AST, tiles: set[str]) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return _is_tile(left, tiles) or _is_tile(right, tiles)
        case ast.Return(value=value) | ast.AugAssign(target=value) | ast.UnaryOp(operand=value):
            return _is_tile(value, tiles)
        case ast.Compare(left=left, comparators=others, ops=ops):
            identity = all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
            return not identity and any(_is_tile(each, tiles) for each in (left, *others))
        case ast.Assign(targets=[ast.Subscript(value=ast.Name())], value=value):
            return _is_tile(value, tiles)
        case _:
            return False


def _is_tile(node: ast.AST | None, tiles: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in tiles


__all__ = ["is_suspicious"]
