"""Parameters of a kernel that are plain numbers, as its source shows them: counts, sizes, bounds and flags."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from nki.frontend.capture import Captured

_COUNTED: Final = frozenset({"range", "affine_range", "sequential_range", "static_range", "dynamic_range", "ds"})
_SHAPED: Final = frozenset({"ndarray", "zeros", "ones", "full", "rand", "reshape", "broadcast_to"})
_TRANSFERS: Final = frozenset({"load", "load_transpose2d", "store", "dma_copy", "dma_transpose", "tensor_copy"})
_COUNT, _NUMBER, _FLAG = "4", "1.0", "True"


def numbers(captured: Captured, names: list[str]) -> dict[str, str]:
    """A literal for each of the parameters ``names`` that is certainly no tensor, such as ``4`` for a count.

    A count stands in ``range``, in the size of a tensor or the bounds of a slice, is divided with ``//`` or ``%``, or
    is compared with a whole number where a branch asks; a number is passed to a function of ``math``; a flag is a
    condition by itself. A parameter with a shape or an index, or in a transfer, is a tensor.
    """
    literals: dict[str, str] = {}
    tensors: set[str] = set()
    for node in ast.walk(captured.node):
        for literal, part in _uses(node):
            for name in _bare(part):
                literals.setdefault(name, literal)
        tensors |= _tensors(node)
    return {name: literals[name] for name in names if name in literals and name not in tensors}


def _uses(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Expressions in ``node`` of whole numbers, of other numbers and of truth values, each with a literal."""
    match node:
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=args) if called in _COUNTED:
            yield from ((_COUNT, arg) for arg in args)
        case ast.Call(func=ast.Attribute(attr=called), args=args, keywords=keywords) if called in _SHAPED:
            shapes = [*args, *(k.value for k in keywords if k.arg == "shape")]
            sizes = (part for shape in shapes if isinstance(shape, ast.Tuple | ast.List) for part in shape.elts)
            yield from ((_COUNT, part) for part in sizes)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math")), args=args):
            yield from ((_NUMBER, arg) for arg in args)
        case ast.Slice():
            yield from ((_COUNT, part) for part in (node.lower, node.upper, node.step) if part is not None)
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod()) if not isinstance(node.left, ast.Constant | ast.JoinedStr):
            yield _COUNT, node.left
            yield _COUNT, node.right
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test) | ast.IfExp(test=test):
            yield from _asked(test)
        case _:
            pass


def _asked(test: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """The numbers and flags on which a branch depends."""
    match test:
        case ast.Compare(left=left, comparators=[ast.Constant(value=bool() | None | str())]):
            pass
        case ast.Compare(left=left, comparators=[ast.Constant(value=int())]):
            yield _COUNT, left
        case ast.Compare(left=left, comparators=[ast.Constant(value=float())]):
            yield _NUMBER, left
        case ast.BoolOp(values=values):
            for value in values:
                yield from _asked(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _asked(operand)
        case ast.Name():
            yield _FLAG, test
        case _:
            pass


def _bare(node: ast.AST) -> Iterator[str]:
    """Names in an expression that are operands by themselves: ``n`` of ``n * 2``, not ``x`` of ``x.shape[0]``."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.BinOp(left=left, right=right):
            yield from _bare(left)
            yield from _bare(right)
        case ast.UnaryOp(operand=operand):
            yield from _bare(operand)
        case ast.Call(func=ast.Name(id="min" | "max" | "int" | "abs"), args=args):
            for arg in args:
                yield from _bare(arg)
        case _:
            pass


def _tensors(node: ast.AST) -> set[str]:
    """The names that ``node`` uses as tensors."""
    match node:
        case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
            return {name}
        case ast.Call(func=ast.Attribute(attr=called), args=args, keywords=keywords) if called in _TRANSFERS:
            return {each.id for each in (*args, *(k.value for k in keywords)) if isinstance(each, ast.Name)}
        case _:
            return set()


__all__ = ["numbers"]
