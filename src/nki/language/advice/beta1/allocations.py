"""Allocations of NKI Beta 1 as those of today: block dimensions, ``par_dim``, the allocators of ``nki.compiler``."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Final

from nki.base.dtype import DType
from nki.language.advice.beta1.addresses import address, block_indices
from nki.language.advice.beta1.formulas import Bounds
from nki.language.advice.beta1.operand_rewriting import OperandRewriter
from nki.language.advice.beta1.parsed import expression

_ALLOCATORS: Final = ("nki.compiler.", "nki.language.sbuf.", "nki.language.psum.")
"""Their module; the migration guide of the vendor also writes them as attributes of the buffers."""


def allocation(rewriter: OperandRewriter, node: ast.Call) -> ast.expr:
    """``nl.ndarray`` and the like: block dimensions are lists of tensors, ``par_dim`` a number."""
    shape = next((k.value for k in node.keywords if k.arg == "shape"), next(iter(node.args[:1]), None))
    blocks = rewriter.scope.blocks(shape)
    sizes: list[str] = []
    if blocks and isinstance(shape, ast.Tuple | ast.List):
        sizes = [rewriter.text(part) for part in shape.elts[:blocks]]
        shape.elts = shape.elts[blocks:]
    indices = block_indices({n.id for n in ast.walk(node) if isinstance(n, ast.Name)}, len(sizes))
    args = [rewriter.positional(arg, Bounds()) for arg in node.args]
    parameters = parameters_of("nki.language", node.func.attr if isinstance(node.func, ast.Attribute) else "")
    keywords = [
        ast.keyword(k.arg, rewriter.argument(str(k.arg), k.value, Bounds()))
        for k in node.keywords
        if k.arg != "buffer" and (not parameters or k.arg in parameters)
    ]
    buffer = next((k.value for k in node.keywords if k.arg == "buffer"), None)
    if buffer is not None:
        keywords.append(ast.keyword("buffer", _buffer(rewriter, buffer)))
    at = _address(rewriter, buffer, indices, ast.Call(node.func, args, keywords)) if "address" in parameters else None
    if at is not None:
        keywords.append(ast.keyword("address", expression(at)))
    else:
        indices = ["_"] * len(sizes)
    new: ast.expr = ast.Call(node.func, args, keywords)
    for name, size in zip(reversed(indices), reversed(sizes), strict=True):
        new = expression(f"[{ast.unparse(new)} for {name} in range({size})]")
    return new


def _address(rewriter: OperandRewriter, buffer: ast.expr | None, indices: list[str], new: ast.Call) -> str | None:
    """The address that an allocator of ``nki.compiler`` gave to the tile, as far as the source tells."""
    full = rewriter.scope.full(buffer.func) if isinstance(buffer, ast.Call) else ""
    if not isinstance(buffer, ast.Call) or not full.startswith(_ALLOCATORS):
        return None
    named = {k.arg: k.value for k in new.keywords}
    shape, dtype = (named.get(key) or next(iter(new.args[k : k + 1]), None) for k, key in enumerate(("shape", "dtype")))
    if not isinstance(shape, ast.Tuple | ast.List) or dtype is None:
        return None
    return address(buffer, full, indices, [ast.unparse(size) for size in shape.elts], itemsize(ast.unparse(dtype)))


def itemsize(dtype: str) -> str:
    """The bytes of an element, as code: a number for a dtype that is named."""
    module, _, name = dtype.rpartition(".")
    known = getattr(sys.modules["nki.language"], name, None) if module.isidentifier() else None
    return str(known.itemsize) if isinstance(known, DType) else f"{dtype}.itemsize"


def _buffer(rewriter: OperandRewriter, node: ast.expr) -> ast.expr:
    """The buffer; that of an allocator of ``nki.compiler``."""
    match node:
        case ast.Call(func=function) if rewriter.scope.full(function).startswith(_ALLOCATORS):
            return ast.Attribute(ast.Name(rewriter.nl), rewriter.scope.full(function).rsplit(".", 2)[1])
        case ast.Attribute() if rewriter.scope.full(node).startswith("nki.compiler."):
            return ast.Attribute(ast.Name(rewriter.nl), node.attr)
        case ast.Constant(value=str(text)):
            return ast.Attribute(ast.Name(rewriter.nl), text)
        case _:
            return node


def parameters_of(package: str, name: str) -> tuple[str, ...]:
    """The parameters of a function of today; none if there is no such function."""
    function = getattr(sys.modules.get(package), name, None)
    try:
        return tuple(inspect.signature(function).parameters) if callable(function) else ()
    except (TypeError, ValueError):
        return ()


__all__ = ["allocation", "itemsize", "parameters_of"]
