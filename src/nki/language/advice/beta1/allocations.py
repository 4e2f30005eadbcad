"""Allocations of NKI Beta 1 as those of today: block dimensions, ``par_dim``, the allocators of ``nki.compiler``."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import TYPE_CHECKING, Final

from nki.language.advice.beta1.formulas import Bounds

if TYPE_CHECKING:
    from nki.language.advice.beta1.rewriting import Rewriter

_ALLOCATORS: Final = ("nki.compiler.", "nki.language.sbuf.", "nki.language.psum.")
"""Their module; the migration guide of the vendor also writes them as attributes of the buffers."""
_BANK: Final = 2048
"""Bytes of a PSUM bank per partition."""


def allocation(rewriter: Rewriter, node: ast.Call) -> ast.expr:
    """``nl.ndarray`` and the like: block dimensions are lists of tensors, ``par_dim`` a number."""
    keywords: list[ast.keyword] = []
    shape = next((k.value for k in node.keywords if k.arg == "shape"), next(iter(node.args[:1]), None))
    blocks = rewriter.scope.blocks(shape)
    sizes: list[str] = []
    if blocks and isinstance(shape, ast.Tuple | ast.List):
        sizes = [rewriter.text(part) for part in shape.elts[:blocks]]
        shape.elts = shape.elts[blocks:]
    args = [rewriter.positional(arg, Bounds()) for arg in node.args]
    parameters = parameters_of("nki.language", node.func.attr if isinstance(node.func, ast.Attribute) else "")
    for k in node.keywords:
        if k.arg == "buffer":
            keywords += _buffer(rewriter, k.value, addressed=not blocks and "address" in parameters)
        elif not parameters or k.arg in parameters:
            keywords.append(ast.keyword(k.arg, rewriter.argument(str(k.arg), k.value, Bounds())))
    new: ast.expr = ast.Call(node.func, args, keywords)
    for size in reversed(sizes):
        new = ast.parse(f"[{ast.unparse(new)} for _ in range({size})]", mode="eval").body
    return new


def _buffer(rewriter: Rewriter, node: ast.expr, *, addressed: bool) -> list[ast.keyword]:
    """The buffer; of an allocator of ``nki.compiler`` with the address that it gave, where that is one number."""
    match node:
        case ast.Call(func=function) if rewriter.scope.full(function).startswith(_ALLOCATORS):
            _, memory, allocator = rewriter.scope.full(function).rsplit(".", 2)
            buffer = ast.keyword("buffer", ast.Attribute(ast.Name(rewriter.nl), memory))
            given = {k.arg: k.value for k in node.keywords}
            if allocator != "mod_alloc" or not addressed:
                return [buffer]
            zero = ast.Constant(0)
            first = given.get("base_partition", zero)
            if memory == "psum":
                bank = ast.BinOp(given.get("base_bank", zero), ast.Mult(), ast.Constant(_BANK))
                return [buffer, ast.keyword("address", ast.Tuple([first, bank], ast.Load()))]
            return [buffer, ast.keyword("address", ast.Tuple([first, given.get("base_addr", zero)], ast.Load()))]
        case ast.Attribute() if rewriter.scope.full(node).startswith("nki.compiler."):
            return [ast.keyword("buffer", ast.Attribute(ast.Name(rewriter.nl), node.attr))]
        case ast.Constant(value=str(text)):
            return [ast.keyword("buffer", ast.Attribute(ast.Name(rewriter.nl), text))]
        case _:
            return [ast.keyword("buffer", node)]


def parameters_of(package: str, name: str) -> tuple[str, ...]:
    """The parameters of a function of today; none if there is no such function."""
    function = getattr(sys.modules.get(package), name, None)
    try:
        return tuple(inspect.signature(function).parameters) if callable(function) else ()
    except (TypeError, ValueError):
        return ()


__all__ = ["allocation", "parameters_of"]
