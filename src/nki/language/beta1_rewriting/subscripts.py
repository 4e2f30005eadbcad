"""Subscripts of Beta 1 as subscripts of today: index tiles become slices, blocks items of lists, the rest patterns."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from nki.frontend.site import keys_of
from nki.language.beta1_rewriting.calls import NotCarriedOverError
from nki.language.beta1_rewriting.dense import group_of, joined
from nki.language.beta1_rewriting.facts import Tensor
from nki.language.beta1_rewriting.indices import Bounds, Grid, Index, Variable, sliced
from nki.language.beta1_rewriting.types import Types
from nki.source_text.polynomial import Polynomial, largest, smallest
from nki.source_text.source import code_of, in_one_line, one_line


class TooManyAxesError(NotCarriedOverError):
    """An index that no view of today is; loops over ``axes`` would make one of it."""

    def __init__(self, message: str, axes: list[Variable]) -> None:
        super().__init__(message)
        self.axes = axes


@dataclass(frozen=True, slots=True)
class Part:
    """One key of a subscript: an index with variables, or source text."""

    text: str
    index: Index | None = None
    whole: bool = False
    moved: str = ""
    """The argument of ``ap`` with the tile that is added to the index when the kernel runs."""


def converted(types: Types, node: ast.Subscript, base: str, texts: Sequence[str], bounds: Bounds) -> str | None:
    """The subscript of today, of ``base`` with keys ``texts``; None where it is one.

    Raises :class:`NotCarriedOverError`.
    """
    owner, keys = types.tensor(node.value), keys_of(node)
    blocks = len(owner.blocks) if owner is not None and owner.buffer != "hbm" else 0
    grid = types.value(keys[0]) if len(keys) == 1 else None
    if isinstance(grid, Grid):  # all axes at once
        return f"{base}{_slices([Part('', index) for index in grid.indices], owner, bounds)}"
    moved = _moved_parts(types, keys, owner)
    parts = [moved.get(k) or _part(types, key, text) for k, (key, text) in enumerate(zip(keys, texts, strict=True))]
    tiles = [
        k for k, key in enumerate(keys)
        if not isinstance(key, ast.Slice) and parts[k].index is None and types.tensor(key) is not None
    ]  # fmt: skip
    plain = not tiles and all(part.index is None for part in parts)
    cut = plain and bounds.restrict and has_slices(node)
    if cut:
        parts = _clipped(types, node, parts, blocks, owner, bounds)
    if not blocks and plain:
        return f"{base}[{', '.join(part.text for part in parts)}]" if cut else None
    for part in parts[:blocks]:
        if part.index is not None or ":" in part.text or part.text == "...":
            raise NotCarriedOverError(f"`{one_line(node)}` indexes several blocks at once")
        base += f"[{part.text}]"
    rest = parts[blocks:]
    if not rest:
        return base
    if tiles:
        return _gathered(types, base, rest, [t - blocks for t in tiles], bounds, node)
    if all(part.index is None for part in rest):
        return f"{base}[{', '.join(part.text for part in rest)}]"
    rows = rest[0].index
    if _on_chip(owner) and not rest[0].moved and rows is not None and not any(step.terms for _, step in rows.steps):
        return _one_partition(base, rest, rows, owner, bounds, node)
    if moved and not _on_chip(owner) and not _has_strides(node, owner, rest):
        return _selected(base, rest, bounds, node)
    if moved:
        rest = _of_axes(types, node, rest, owner)
    text = _slices(rest, owner, bounds) or _reshaped(rest, owner, bounds)
    return f"{base}{text}" if text is not None else _pattern(base, rest, owner, bounds, node)


def _part(types: Types, key: ast.expr, text: str) -> Part:
    if isinstance(key, ast.Slice):
        text = _slice_text(key) if text == code_of(key) else text
        return Part(text, whole=text == ":")
    value = types.value(key)
    if isinstance(value, Index):
        return Part("", value)
    if value is not None:
        raise NotCarriedOverError(f"`{one_line(key)}` as one index")
    number = types.evaluator.index(key) if types.fixed else None
    if number is not None:  # a number where a loop runs through the axis
        return Part(number.base.text)
    return Part(in_one_line(text))  # the new text: what is inside may have changed


def _moved_parts(types: Types, keys: list[ast.expr], owner: Tensor | None) -> dict[int, Part]:
    """The keys with a place that is known only when the kernel runs, by position.

    In HBM a tile alone, with no rows beside it, has an index for each row: it is none of these.
    """
    found = {k: part for k, key in enumerate(keys) if (part := _moved(types, key)) is not None}
    if _on_chip(owner):
        return found
    axes = [v for key in keys if (index := types.index(key)) is not None for v, _ in index.steps]
    rows = any(v.axis == -v.ndim and v.ndim > 1 for v in axes) or sum(map(_is_slice, keys)) > 1
    return {k: part for k, part in found.items() if rows or (part.index is not None and part.index.steps)}


def _is_slice(key: ast.expr) -> bool:
    return isinstance(key, ast.Slice)


def _moved(types: Types, key: ast.expr) -> Part | None:
    """``tile[0, 0] + index``, a place that is known only when the kernel runs; None for other keys."""
    match key:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            pairs = [(left, types.evaluator.index(right)), (right, types.evaluator.index(left))]
        case ast.Subscript() | ast.Name():
            pairs = [(key, Index(Polynomial()))]
        case _:
            return None
    for tile, index in pairs:
        if index is not None and _is_one_number(types, tile):
            return Part("", index, moved=f"scalar_offset={_as_tile(tile)}")
    return None


def _is_one_number(types: Types, node: ast.expr) -> bool:
    """True for a tile of one element; without a run also for a tile of unknown shape."""
    seen, known = types.facts.seen(node), types.tensor(node)
    if seen is not None:
        return set(seen.shape) <= {1} and seen.buffer == "sbuf"
    if known is None or known.buffer != "sbuf" or known.blocks or types.facts.tensors.get(id(node)) is not None:
        return False
    return known.shape is None or all(size.constant == 1 for size in known.shape)


def _as_tile(node: ast.expr) -> str:
    """One element of a tile as a tile: ``t[0:1, k:k + 1]`` for ``t[0, k]``."""
    if not isinstance(node, ast.Subscript) or any(map(_is_slice, keys_of(node))):
        return one_line(node)
    return f"{one_line(node.value)}[{', '.join(_one_element(one_line(key)) for key in keys_of(node))}]"


def _slice_text(key: ast.Slice) -> str:
    """The code of a slice on one line, without comments."""
    lower, upper, step = (one_line(part) if part is not None else "" for part in (key.lower, key.upper, key.step))
    return f"{lower}:{upper}:{step}" if step else f"{lower}:{upper}"


def has_slices(node: ast.expr) -> bool:
    """True for a subscript with a slice in it."""
    return isinstance(node, ast.Subscript) and any(map(_is_slice, keys_of(node)))


def _bounds_of_slice(types: Types, key: ast.expr) -> tuple[Polynomial, bool] | None:
    """The start of a slice or of ``nl.ds(start, size)``, and whether it has a step; None for other keys."""
    match key:
        case ast.Call(func=function, args=[start, _]) if types.names.full(function) == "nki.language.ds":
            return types.evaluator.polynomial(start), False
        case ast.Slice(lower=lower, step=step):
            return types.evaluator.polynomial(lower) if lower is not None else Polynomial(), step is not None
        case _:
            return None


def _clipped(
    types: Types, node: ast.Subscript, parts: list[Part], blocks: int, owner: Tensor | None, bounds: Bounds
) -> list[Part]:
    """The keys of a subscript with slices, within the ``bounds`` of the axes of the tile."""
    slices = [_bounds_of_slice(types, key) for key in keys_of(node)]
    rank = len(owner.shape) + blocks if owner is not None and owner.shape is not None else len(parts)
    missing = max(rank - len(slices), 0)
    slices += [(Polynomial(), False)] * missing
    parts = [*parts, *(Part(":", whole=True) for _ in range(missing))]
    kept = [k for k, one in enumerate(slices) if one is not None or (_on_chip(owner) and k == blocks)]
    ndim = max(variable.ndim for variable in (*bounds.lower, *bounds.upper))
    kept += [-1] if len(kept) == 1 and ndim == 2 else []
    if len(kept) != ndim:
        raise NotCarriedOverError(f"`{one_line(node)}` below a mask of {ndim} axes: cut the slices to size")
    for variable in dict.fromkeys((*bounds.lower, *bounds.upper)):
        place = kept[ndim + variable.axis]
        one = slices[place] if place >= 0 else None
        if one is None or one[1]:
            raise NotCarriedOverError(f"`{one_line(node)}` below a mask: cut the slices to size")
        start = largest(one[0] + value for value in bounds.start(variable))
        stop = smallest(one[0] + value for value in bounds.stop(variable))
        parts[place] = Part(f"{start}:{stop}")
    while missing and parts[-1].whole:
        parts.pop()
        missing -= 1
    return parts


def _axes(parts: list[Part]) -> list[Variable]:
    return [variable for part in parts if part.index is not None for variable, _ in part.index.steps]


def _slices(parts: list[Part], owner: Tensor | None, bounds: Bounds) -> str | None:
    """The subscript with slices; None where slices cannot say it."""
    variables = _axes(parts)
    axes = [variable.axis for variable in variables]
    single = all(part.index is None or (not part.moved and sliced(part.index, bounds) is not None) for part in parts)
    if not single or sorted(set(axes)) != axes:
        return None
    ndim = max(variable.ndim for variable in variables)
    missing = [axis for axis in range(-ndim, 0) if axis not in axes]
    texts: list[str] = []
    for position, part in enumerate(parts):
        found = sliced(part.index, bounds) if part.index is not None else None
        if found is not None:
            texts.append(found[0])
        elif missing and not part.whole and ":" not in part.text and _between(parts, position, missing[0]):
            missing.pop(0)
            texts.append(_one_element(part.text))
        else:
            texts.append(part.text)
    added = "".join(f".expand_dim({ndim + axis})" for axis in missing if ndim > 2 or not _on_chip(owner))
    return f"[{', '.join(texts)}]{added}"


def _reshaped(parts: list[Part], owner: Tensor | None, bounds: Bounds) -> str | None:
    """Slices in the shape of the index, where several of its variables step through a dimension without gaps."""
    variables = _axes(parts)
    axes = [variable.axis for variable in variables]
    ndim = max((variable.ndim for variable in variables), default=0)
    if bounds.restrict or sorted(axes) != list(range(-ndim, 0)) or any(part.moved or part.whole for part in parts):
        return None
    rows = parts[0].index
    if _on_chip(owner) and (rows is None or len(rows.steps) != 1 or rows.steps[0][0].axis != -ndim):
        return None
    texts: list[str] = []
    last = -ndim - 1
    for part in parts:
        if part.index is None:
            texts.append(part.text)
            continue
        group = group_of(part.index)
        if group is None or group[0].axis != last + 1:
            return None
        found = sliced(joined(part.index, (group,)), bounds)
        if found is None:
            return None
        texts.append(found[0])
        last = group[-1].axis
    sizes = {variable.axis: variable.size.text for variable in variables}
    return f"[{', '.join(texts)}].reshape(({', '.join(sizes[axis] for axis in range(-ndim, 0))}))"


def _one_partition(
    base: str, rest: list[Part], rows: Index, owner: Tensor | None, bounds: Bounds, node: ast.Subscript
) -> str:
    """``t[0 * i_p, i_f]``: one partition of a tile, repeated to all of the result."""
    text = _slices([Part(rows.base.text), *rest[1:]], owner, bounds)
    sizes = {variable.axis: bounds.extent(variable) for variable in _axes(rest)}
    ndim = max(variable.ndim for variable in _axes(rest))
    if text is None:
        raise NotCarriedOverError(f"`{one_line(node)}` repeats a partition of a view that is no slice")
    return f"nl.broadcast_to({base}{text}, ({', '.join(sizes.get(axis, '1') for axis in range(-ndim, 0))}))"


def _one_element(text: str) -> str:
    if text.isdigit():
        return f"{text}:{int(text) + 1}"
    value = Polynomial.of(text)
    return f"{value.text}:{(value + 1).text}"


def _on_chip(owner: Tensor | None) -> bool:
    return owner is not None and owner.on_chip


def _between(parts: list[Part], position: int, axis: int) -> bool:
    """True if a dimension of size 1 at ``position`` is the missing ``axis`` of the result."""
    before = [variable.axis for variable in _axes(parts[:position])]
    after = [variable.axis for variable in _axes(parts[position + 1 :])]
    return all(a < axis for a in before) and all(a > axis for a in after)


def _shape(node: ast.Subscript, owner: Tensor | None, parts: list[Part]) -> tuple[Polynomial, ...] | None:
    """The shape of what is indexed; beside an index tile, which names every dimension, ``t.shape[k]``."""
    if owner is None or owner.shape is not None or owner.blocks or not isinstance(node.value, ast.Name):
        return owner.shape if owner is not None else None
    sizes = (Polynomial.of(f"{node.value.id}.shape[{k}]") for k in range(len(parts)))
    return tuple(sizes) if _axes(parts) else None


def _has_strides(node: ast.Subscript, owner: Tensor | None, parts: list[Part]) -> bool:
    """True if the source tells where the elements of what is indexed lie."""
    shape = _shape(node, owner, parts)
    return shape is not None and len(shape) >= len(parts) and isinstance(node.value, ast.Name)


def _selected(base: str, parts: list[Part], bounds: Bounds, node: ast.Subscript) -> str:
    """``x.select(0, tile)[…]``: a place that is known only when the kernel runs, of a view."""
    moved = [k for k, part in enumerate(parts) if part.moved]
    others = [part for part in parts if not part.moved]
    text = _slices(others, None, bounds) if any(part.index is not None for part in others) else None
    text = text or f"[{', '.join(part.text for part in others)}]"
    if len(moved) > 1 or parts[moved[0]].index != Index(Polynomial()):
        raise NotCarriedOverError(f"`{one_line(node)}` is an index that is known only when the kernel runs")
    return f"{base}.select({moved[0]}, {parts[moved[0]].moved.partition('=')[2]}){text}"


def _pattern(base: str, parts: list[Part], owner: Tensor | None, bounds: Bounds, node: ast.Subscript) -> str:
    """``t.ap(pattern=…, offset=…)``: each variable with its step through the storage."""
    shape = _shape(node, owner, parts)
    if owner is None or shape is None or len(shape) < len(parts):
        raise NotCarriedOverError(f"the strides of `{one_line(node)}` need the tensor's shape")
    if not isinstance(node.value, ast.Name):
        raise NotCarriedOverError(f"`{one_line(node)}` indexes a view by several variables")
    strides: list[Polynomial] = []
    for position in range(len(shape)):
        stride = Polynomial.of(1)
        for size in shape[position + 1 :]:
            stride = stride * size
        strides.append(stride)
    offset = Polynomial()
    steps: dict[Variable, Polynomial] = {}
    for part, stride in zip(parts, strides, strict=False):
        if part.index is None:
            if part.whole or ":" in part.text:
                raise NotCarriedOverError(f"`{one_line(node)}` mixes slices and index tiles")
            offset += Polynomial.of(int(part.text) if part.text.isdigit() else part.text) * stride
            continue
        offset += part.index.base * stride
        for variable, step in part.index.steps:
            steps[variable] = steps.get(variable, Polynomial()) + step * stride
    ndim = max((variable.ndim for variable in steps), default=0)
    _check_axes(steps, ndim + len(shape) - len(parts), owner, node)
    pattern: list[str] = []
    for axis in range(-ndim, 0):
        variable = next((v for v in steps if v.axis == axis), None)
        if variable is None:
            pattern.append("[1, 1]")
            continue
        if variable in bounds.lower:
            start = Polynomial.of(largest(bounds.start(variable)))
            offset += start * steps[variable]
        pattern.append(f"[{steps[variable].text}, {bounds.extent(variable)}]")
    pattern += [f"[{strides[k].text}, {shape[k].text}]" for k in range(len(parts), len(shape))]
    moved = [k for k, part in enumerate(parts) if part.moved]
    if len(moved) > 1:
        raise NotCarriedOverError(f"`{one_line(node)}` has two indices that are known only when the kernel runs")
    more = "".join(f", {parts[k].moved}, indirect_dim={k}" for k in moved)
    return f"{base}.ap(pattern=[{', '.join(pattern)}], offset={offset.text}{more})"


def _of_axes(types: Types, node: ast.Subscript, parts: list[Part], owner: Tensor | None, first: int = 0) -> list[Part]:
    """The elements with slices as variables, from axis ``first`` on; as they are beside other variables."""
    keys = keys_of(node)
    slices = [k for k, key in enumerate(keys) if _is_slice(key)]
    if any(variable for part in parts if part.index is not None for variable, _ in part.index.steps) or not slices:
        return parts
    ndim, new = first + len(slices), list(parts)
    for axis, k in enumerate(slices, first):
        one = keys[k]
        assert isinstance(one, ast.Slice)
        start = types.evaluator.polynomial(one.lower) if one.lower is not None else Polynomial()
        known = owner.shape[k] if owner is not None and owner.shape is not None else None
        stop = types.evaluator.polynomial(one.upper) if one.upper is not None else known
        if one.step is None and stop is not None:
            variable = Variable(stop - start, axis - ndim, ndim)
            new[k] = Part("", Index(start, ((variable, Polynomial.of(1)),)))
    return new


def _check_axes(steps: dict[Variable, Polynomial], ndim: int, owner: Tensor, node: ast.Subscript) -> None:
    """Raise :class:`TooManyAxesError` for patterns with backward steps, and for those with too many dimensions."""
    back = [variable for variable, step in steps.items() if all(factor < 0 for _, factor in step.terms)]
    if not back and (ndim <= _DIMENSIONS or not _on_chip(owner)):
        return
    free = [v for v in back or steps if v.axis != -v.ndim]
    small = [v for v in free if v.size.constant is not None and v.size.constant <= _UNROLLED]
    small = (back and free) or sorted(small, key=lambda v: v.size.constant or 0)
    why = "steps backwards" if back else f"has {ndim} dimensions; on chip a view has at most {_DIMENSIONS}"
    raise TooManyAxesError(f"`{one_line(node)}` {why}", small)


_DIMENSIONS = 5
"""Dimensions of a view on chip."""
_UNROLLED = 8
"""Elements along an axis that a loop may run through."""


def _gathered(types: Types, base: str, parts: list[Part], tiles: list[int], bounds: Bounds, node: ast.Subscript) -> str:
    """``x[index_tile, columns]``: rows that are known when the kernel runs."""
    owner = types.tensor(node.value)
    lead = tiles[0]
    plain = all(part.index is None and ":" not in part.text and part.text.strip() for part in parts[:lead])
    if len(tiles) > 1 or not plain or owner is None or owner.buffer != "hbm":
        raise NotCarriedOverError(f"`{one_line(node)}` is an index that is known only when the kernel runs")
    rows = parts[lead].text
    ndim = max((v.ndim for v in (*bounds.lower, *bounds.upper, *_axes(parts))), default=2)
    row = next((v for v in (*bounds.lower, *bounds.upper) if v.axis == -ndim), None)
    if row is not None:
        rows = f"{rows}[{largest(bounds.start(row))}:{smallest(bounds.stop(row))}]"
    if (pattern := _vector(types, base, parts, rows, row, bounds, node)) is not None:
        return pattern
    rest: list[str] = []
    for part in parts[lead + 1 :]:
        found = sliced(part.index, bounds) if part.index is not None else None
        if part.index is not None and found is None:
            raise NotCarriedOverError(f"`{one_line(node)}` is an index that is known only when the kernel runs")
        rest.append(found[0] if found is not None else part.text)
    before = [part.text for part in parts[:lead]]
    columns = f"[{', '.join([*before, ':', *rest])}]" if rest or before else ""
    return f"{base}{columns}.vector_select(0, {rows})"


def _vector(
    types: Types, base: str, parts: list[Part], rows: str, row: Variable | None, bounds: Bounds, node: ast.Subscript
) -> str | None:
    """``x.ap(…, vector_offset=rows, indirect_dim=0)``; None where the source does not tell the strides or the rows."""
    owner, key = types.tensor(node.value), keys_of(node)[0]
    tile = types.tensor(key) if not isinstance(key, ast.Slice) else None
    if tile is None or not _has_strides(node, owner, parts):
        return None
    axes = _axes(parts)
    ndim = max((v.ndim for v in axes), default=1 + sum(map(_is_slice, keys_of(node))))
    if any(v.axis == -ndim for v in axes):
        return None
    count = (
        Polynomial.of(bounds.extent(row))
        if row is not None
        else tile.shape[0]
        if tile.shape
        else Polynomial.of(f"{rows}.shape[0]")
    )
    variable = Variable(count, -ndim, ndim)
    selected = Part("", Index(Polynomial(), ((variable, Polynomial.of(1)),)), moved=f"vector_offset={rows}")
    rest = [selected, *_of_axes(types, node, parts, owner, 1)[1:]]
    if any(part.index is None and (part.whole or ":" in part.text) for part in rest):
        return None
    return _pattern(base, rest, owner, bounds, node)


def cut(text: str, tensor: Tensor | None, bounds: Bounds, variables: list[Variable]) -> str:
    """A whole tile, cut to the ``bounds`` of its axes."""
    restricted = {v.axis: v for v in variables if bounds.restricts(v)}
    if not restricted:
        return text
    ndim = len(tensor.shape) if tensor is not None and tensor.shape is not None else max(v.ndim for v in variables)
    parts: list[str] = []
    for axis in range(-ndim, 0):
        known = tensor.shape[axis].constant if tensor is not None and tensor.shape is not None else None
        variable = restricted.get(axis)
        if variable is None or known == 1:
            parts.append(":")
            continue
        plain = Index(Polynomial(), ((variable, Polynomial.of(1)),))
        found = sliced(plain, bounds)
        parts.append(found[0] if found is not None else ":")
    while parts and parts[-1] == ":":
        parts.pop()
    return f"{text}[{', '.join(parts)}]" if parts else text


__all__ = ["TooManyAxesError", "converted", "cut", "has_slices"]
