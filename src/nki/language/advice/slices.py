"""Advice on slices that leave their tensor: the same slice, cut at the end of the dimension."""

from __future__ import annotations

import ast

from nki.base.errors import NkiError
from nki.frontend.site import Site, keys_of
from nki.language.advice.call import substituted
from nki.language.nki_tensor import NkiTensor


def advise_slice(error: NkiError, site: Site) -> NkiError | None:
    """The error for ``t[0:300]`` of 256 rows, with ``min`` around the stop; None if a start is outside as well."""
    node = site.node
    tensor = site.value(node.value) if isinstance(node, ast.Subscript) else None
    if not isinstance(node, ast.Subscript) or not isinstance(tensor, NkiTensor) or hasattr(site.statement, "body"):
        return None
    keys = keys_of(node)
    if len(keys) > tensor.ndim:
        return None
    cut = [_cut(site, key, size) for key, size in zip(keys, tensor.shape, strict=False)]
    if None in cut or all(new is old for new, old in zip(cut, keys, strict=True)):
        return None
    parts = [key for key in cut if key is not None]
    index = ast.Tuple(parts, ast.Load()) if isinstance(node.slice, ast.Tuple) else parts[0]
    sliced = ast.Subscript(node.value, index, node.ctx)
    error.fix = f"cut the slice at the end: write `{ast.unparse(substituted(site.statement, node, sliced))}`"
    return error


def _cut(site: Site, key: ast.expr, size: int) -> ast.expr | None:
    """``key`` within a dimension of ``size``; None if that cannot be done, or nothing would be left."""
    if not isinstance(key, ast.Slice) or key.upper is None:
        return key
    start = 0 if key.lower is None else site.value(key.lower)
    stop = site.value(key.upper)
    if not isinstance(start, int) or not isinstance(stop, int) or not 0 <= start < min(stop, size):
        return None
    if stop <= size:
        return key
    smaller = ast.Call(ast.Name("min", ast.Load()), [key.upper, ast.Constant(size)], [])
    return ast.Slice(key.lower, smaller, key.step)


__all__ = ["advise_slice"]
