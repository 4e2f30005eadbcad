"""Subscripts with index tiles: slices, lists of block dimensions, access patterns, gathers of rows."""

from __future__ import annotations

import ast

from nki.language.advice.beta1.dense import group_of, joined
from nki.language.advice.beta1.formulas import (
    Bounds,
    Index,
    UnknownFormError,
    Variable,
    extent,
    plus,
    same,
    sliced,
    times,
)
from nki.language.advice.beta1.operand_rewriting import OperandRewriter
from nki.language.advice.beta1.parsed import expression, keys_of, subscript


def indexed(rewriter: OperandRewriter, node: ast.Subscript) -> ast.expr | None:
    """The subscript in today's form; None if it is that already."""
    scope, keys = rewriter.scope, keys_of(node)
    memory = scope.memory(node.value)
    blocks = memory.blocks if memory is not None and isinstance(node.value, ast.Name) else 0
    owner: ast.expr = node.value
    tiles = [key for key in keys if scope.is_index(key)]
    gathered = next((k for k, key in enumerate(keys) if _moved(rewriter, key) is not None), None)
    if not tiles and gathered is None and not (blocks and len(keys) > 1):
        return _limited(owner, keys, rewriter.bounds)
    for key in keys[:blocks]:
        owner = ast.Subscript(owner, key, ast.Load())
    keys = keys[blocks:]
    if gathered is not None and blocks == 0:
        return _dynamic(rewriter, owner, keys, gathered)
    if not tiles:
        full = all(isinstance(key, ast.Slice) and key.lower is key.upper is key.step is None for key in keys)
        return owner if full or not keys else subscript(owner, [ast.unparse(key) for key in keys])
    indices = [_as_index(rewriter, key) for key in keys]
    texts = _slices(rewriter, keys, indices)
    if texts is not None:
        return subscript(owner, texts)
    return _reshaped(rewriter, owner, indices) or _strided(rewriter, owner, indices)


def _moved(rewriter: OperandRewriter, key: ast.expr) -> tuple[ast.expr, Index] | None:
    """The tile in ``tile`` or ``tile + index``, a place that is known only when the kernel runs, and the index."""
    scope = rewriter.scope
    match key:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for tile, other in ((left, right), (right, left)):
                index = scope.index(other) if scope.memory(other) is None else None
                if scope.memory(tile) is not None and index is not None:
                    return tile, index
            return (key, Index()) if scope.memory(key) is not None else None
        case _:
            return (key, Index()) if scope.memory(key) is not None else None


def _dynamic(rewriter: OperandRewriter, owner: ast.expr, keys: list[ast.expr], place: int) -> ast.expr | None:
    """A subscript with a tile: with rows beside it the tile is one number, else it has an index for each row."""
    found = _moved(rewriter, keys[place])
    if found is None:
        return None
    tile, added = found
    indices = [added if k == place else _as_index(rewriter, key) for k, key in enumerate(keys)]
    slices = [ast.unparse(key) for key in keys if isinstance(key, ast.Slice)]
    ndim = max(index.ndim if index is not None else 0 for index in indices)
    rows = any(v.axis == -ndim for index in indices if index is not None for v in index.steps)
    if slices:
        plain = ndim == 0 and len(slices) == len(keys) - 1 and added == Index()
        return _selected(rewriter, owner, slices, place, tile) if plain else None
    if ndim > 1 and rows:
        code = ast.unparse(rewriter.visit(_as_tile(tile)))
        return _strided(rewriter, owner, indices, f", scalar_offset={code}, indirect_dim={place}")
    if place or added != Index():
        return None
    code, ndim = ast.unparse(rewriter.visit(tile)), max(ndim, 2)
    variable = Variable("rows", f"{code}.shape[0]", -ndim)
    limited = next((v for v in (*rewriter.bounds.lower, *rewriter.bounds.upper) if v.axis == -ndim), None)
    if limited is not None:
        code += f"[{sliced(Index(steps={limited: '1'}), rewriter.bounds)}]" if isinstance(tile, ast.Name) else ""
        variable = limited
    indices[0] = Index(steps={variable: "1"}, ndim=ndim)
    return _strided(rewriter, owner, indices, f", vector_offset={code}, indirect_dim=0")


def _selected(rewriter: OperandRewriter, owner: ast.expr, slices: list[str], place: int, tile: ast.expr) -> ast.expr:
    """A tile beside slices: the block that it names, or with one slice the rows."""
    if len(slices) > 1:
        code = ast.unparse(rewriter.visit(_as_tile(tile)))
        return subscript(expression(f"{ast.unparse(owner)}.select({place}, {code})"), slices)
    texts = [*slices[:place], ":", *slices[place:]]
    code = f"{ast.unparse(subscript(owner, texts))}.vector_select({place}, {ast.unparse(rewriter.visit(tile))})"
    return expression(code)


def _as_index(rewriter: OperandRewriter, key: ast.expr) -> Index | None:
    index = None if isinstance(key, ast.Slice) else rewriter.scope.index(key)
    return joined(index, rewriter.groups) if index is not None and index.steps else index


def _as_tile(node: ast.expr) -> ast.expr:
    """One element of a tile as a tile: ``t[0:1, k:k + 1]`` for ``t[0, k]``."""
    keys = keys_of(node) if isinstance(node, ast.Subscript) else []
    if not isinstance(node, ast.Subscript) or any(isinstance(key, ast.Slice | ast.List) for key in keys):
        return node
    if any(isinstance(key, ast.Constant) and not isinstance(key.value, int) for key in keys):
        return node
    return subscript(node.value, [f"{ast.unparse(key)}:{plus(ast.unparse(key), '1')}" for key in keys])


def _limited(owner: ast.expr, keys: list[ast.expr], bounds: Bounds) -> ast.expr | None:
    """Slices with the limits that a mask has on their axes; None without a mask, and where it limits other axes.

    Raises :class:`UnknownFormError` for a slice of another size than the axis of the mask.
    """
    limits = {variable.axis: variable for variable in {**bounds.lower, **bounds.upper}}
    axes = range(-len(keys), 0)
    if limits.keys().isdisjoint(axes) or not all(isinstance(key, ast.Slice) for key in keys):
        return None
    texts: list[str] = []
    for axis, key in zip(axes, keys, strict=True):
        variable = limits.get(axis)
        if variable is None or not isinstance(key, ast.Slice):
            texts.append(ast.unparse(key))
            continue
        start = ast.unparse(key.lower) if key.lower is not None else "0"
        stop = ast.unparse(key.upper) if key.upper is not None else ""
        whole = not stop and start == "0"
        text = sliced(Index(start, steps={variable: "1"}), bounds)
        if text is None or key.step is not None or not (whole or same(stop or "0", plus(start, variable.size))):
            raise UnknownFormError
        texts.append(text)
    return subscript(owner, texts)


def _slices(rewriter: OperandRewriter, keys: list[ast.expr], indices: list[Index | None]) -> list[str] | None:
    """The keys as slices, if each holds one variable at most and they stand in the order of the axes."""
    axes = [v.axis for index in indices if index is not None for v in index.steps]
    if axes != sorted(axes) or len(axes) != len(set(axes)):
        return None
    ndim = max((index.ndim for index in indices if index is not None), default=0)
    missing = set(range(-ndim, 0)) - set(axes)
    texts: list[str] = []
    place = -1
    for key, index in zip(reversed(keys), reversed(indices), strict=True):
        if index is None:
            texts.append(ast.unparse(key))
        elif index.steps:
            text = sliced(index, rewriter.bounds)
            if text is None:
                return None
            place = next(iter(index.steps)).axis - 1
            texts.append(text)
        elif place in missing:
            texts.append(f"{index.base}:{plus(index.base, '1')}")
            place -= 1
        else:
            texts.append(index.base)
    return texts[::-1]


def _reshaped(rewriter: OperandRewriter, owner: ast.expr, indices: list[Index | None]) -> ast.expr | None:
    """Slices in the shape of the index, where several of its variables step through a dimension without gaps."""
    known = [index for index in indices if index is not None]
    variables = [v for index in known for v in index.steps]
    ndim = max((index.ndim for index in known), default=0)
    plain = len(known) == len(indices) and not (rewriter.bounds.lower or rewriter.bounds.upper)
    memory = rewriter.scope.memory(owner)
    on_chip = memory is not None and "hbm" not in memory.buffer
    if not plain or [v.axis for v in variables] != list(range(-ndim, 0)) or (on_chip and len(known[0].steps) != 1):
        return None
    groups = [group_of(index) if index.steps else () for index in known]
    cut = [
        sliced(joined(index, (group,)), rewriter.bounds) if group else index.base
        for index, group in zip(known, groups, strict=True)
    ]
    if None in groups or None in cut:
        return None
    shape = ", ".join(v.size for v in variables)
    return expression(f"{ast.unparse(subscript(owner, [str(text) for text in cut]))}.reshape(({shape}))")


def _strided(
    rewriter: OperandRewriter, owner: ast.expr, indices: list[Index | None], more: str = ""
) -> ast.expr | None:
    """``t.ap(pattern=…, offset=…)`` of an index for each dimension, with several variables or in another order.

    ``more`` are its arguments of run-time indices.
    """
    name = ast.unparse(owner)
    steps: dict[Variable, str] = {}
    offset = "0"
    for k, index in enumerate(indices):
        stride = "1"
        for later in range(k + 1, len(indices)):
            stride = times(stride, f"{name}.shape[{later}]")
        if index is None:
            return None
        for variable, step in index.steps.items():
            steps[variable] = plus(steps.get(variable, "0"), times(step, stride))
        offset = plus(offset, times(index.base, stride))
    ordered = sorted(steps, key=lambda variable: variable.axis)
    sizes = [extent(variable, rewriter.bounds) for variable in ordered]
    if len({variable.axis for variable in ordered}) != len(ordered) or None in sizes:
        return None
    pattern = ", ".join(f"[{steps[variable]}, {size}]" for variable, size in zip(ordered, sizes, strict=True))
    return expression(f"{name}.ap(pattern=[{pattern}], offset={offset}{more})")


__all__ = ["indexed"]
