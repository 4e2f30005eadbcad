"""Subscripts of Beta 1 as subscripts of today: index tiles become slices, blocks items of lists, the rest patterns."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from nki.migrate.dense import group_of, joined
from nki.migrate.facts import Tensor
from nki.migrate.indices import Bounds, Grid, Index, Variable, as_node, sliced
from nki.migrate.polynomial import Polynomial, largest, smallest
from nki.migrate.syntax.code import code_of, expression, one_line
from nki.migrate.types import Types


class NotCarriedOverError(Exception):
    """A construct that no rule translates; the message says which."""


class TooManyAxesError(NotCarriedOverError):
    """An index that no view of today is; loops over ``axes`` would make one of it."""

    def __init__(self, message: str, axes: list[Variable]) -> None:
        super().__init__(message)
        self.axes = axes


@dataclass(frozen=True, slots=True)
class Part:
    """One element of a subscript: an index with variables, or source text."""

    text: str
    index: Index | None = None
    whole: bool = False
    moved: str = ""
    """The argument of ``ap`` with the tile that is added to the index when the kernel runs."""


def converted(types: Types, original: cst.Subscript, updated: cst.Subscript, bounds: Bounds) -> cst.BaseExpression:
    """The subscript of today. Raises :class:`NotCarriedOverError`."""
    owner = types.tensor(original.value)
    blocks = len(owner.blocks) if owner is not None and owner.buffer != "hbm" else 0
    if len(original.slice) == 1 and isinstance(original.slice[0].slice, cst.Index):
        grid = types.value(original.slice[0].slice.value)
        if isinstance(grid, Grid):  # all axes at once
            text = _slices([Part("", index) for index in grid.indices], owner, bounds)
            return expression(f"{code_of(updated.value)}{text}")
    moved = _moved_parts(types, original, owner)
    parts = [
        moved.get(position) or _part(types, before, after)
        for position, (before, after) in enumerate(zip(original.slice, updated.slice, strict=True))
    ]
    tiles = [
        position for position, element in enumerate(original.slice)
        if isinstance(element.slice, cst.Index) and parts[position].index is None
        and types.tensor(element.slice.value) is not None
    ]  # fmt: skip
    if not tiles and bounds.restrict and has_slices(original) and all(part.index is None for part in parts):
        parts = _clipped(types, original, parts, blocks, owner, bounds)
        updated = updated.with_changes(slice=as_node(", ".join(part.text for part in parts)))
    if not blocks and not tiles and all(part.index is None for part in parts):
        return updated
    base = code_of(updated.value)
    for part in parts[:blocks]:
        if part.index is not None or ":" in part.text or part.text == "...":
            raise NotCarriedOverError(f"`{one_line(original)}` indexes several blocks at once")
        base += f"[{part.text}]"
    rest = parts[blocks:]
    if not rest:
        return expression(base)
    if tiles:
        return expression(_gathered(types, base, rest, [t - blocks for t in tiles], bounds, original))
    if all(part.index is None for part in rest):
        return expression(f"{base}[{', '.join(part.text for part in rest)}]")
    if (
        _on_chip(owner)
        and not rest[0].moved
        and rest[0].index is not None
        and not any(step.terms for _, step in rest[0].index.steps)
    ):
        return expression(_one_partition(base, rest, rest[0].index, owner, bounds, original))
    if moved and not _on_chip(owner) and not _has_strides(original, owner, rest):
        return expression(_selected(base, rest, bounds, original))
    if moved:
        rest = _of_axes(types, original, rest, owner)
    text = _slices(rest, owner, bounds) or _reshaped(rest, owner, bounds)
    if text is None:
        return expression(_pattern(base, rest, owner, bounds, original))
    return expression(f"{base}{text}")


def _part(types: Types, before: cst.SubscriptElement, after: cst.SubscriptElement) -> Part:
    if isinstance(before.slice, cst.Index):
        value = before.slice.value
        index = types.value(value)
        if isinstance(index, Index):
            return Part("", index)
        if index is not None:
            raise NotCarriedOverError(f"`{one_line(value)}` as one index")
        number = types.evaluator.index(value) if types.fixed else None
        if number is not None:  # a number where a loop runs through the axis
            return Part(number.base.text)
        # the text of the new tree: what is inside may have changed
        return Part(one_line(after.slice.value) if isinstance(after.slice, cst.Index) else "")
    text = _slice_text(after.slice)
    return Part(text, whole=text == ":")


def _moved_parts(types: Types, original: cst.Subscript, owner: Tensor | None) -> dict[int, Part]:
    """The elements with a place that is known only when the kernel runs, by position.

    In HBM a tile alone, with no rows beside it, has an index for each row: it is none of these.
    """
    found = {k: part for k, one in enumerate(original.slice) if (part := _moved(types, one)) is not None}
    if _on_chip(owner):
        return found
    indices = [types.value(one.slice.value) for one in original.slice if isinstance(one.slice, cst.Index)]
    axes = [v for index in indices if isinstance(index, Index) for v, _ in index.steps]
    rows = any(v.axis == -v.ndim and v.ndim > 1 for v in axes) or sum(map(_is_slice, original.slice)) > 1
    return {k: part for k, part in found.items() if rows or (part.index is not None and part.index.steps)}


def _is_slice(element: cst.SubscriptElement) -> bool:
    return isinstance(element.slice, cst.Slice)


def _moved(types: Types, element: cst.SubscriptElement) -> Part | None:
    """``tile[0, 0] + index``, a place that is known only when the kernel runs; None for other elements."""
    value = element.slice.value if isinstance(element.slice, cst.Index) else None
    match value:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            pairs: list[tuple[cst.BaseExpression, Index | None]] = [
                (left, types.evaluator.index(right)), (right, types.evaluator.index(left)),
            ]  # fmt: skip
        case cst.Subscript() | cst.Name():
            pairs = [(value, Index(Polynomial()))]
        case _:
            return None
    for tile, index in pairs:
        if index is not None and _is_one_number(types, tile):
            return Part("", index, moved=f"scalar_offset={_as_tile(tile)}")
    return None


def _is_one_number(types: Types, node: cst.BaseExpression) -> bool:
    """True for a tile of one element; without a run also for a tile of which the source does not tell the shape."""
    seen, known = types.facts.seen(node), types.tensor(node)
    if seen is not None:
        return set(seen.shape) <= {1} and seen.buffer == "sbuf"
    if known is None or known.buffer != "sbuf" or known.blocks or types.facts.tensors.get(id(node)) is not None:
        return False
    return known.shape is None or all(size.constant == 1 for size in known.shape)


def _as_tile(node: cst.BaseExpression) -> str:
    """One element of a tile as a tile: ``t[0:1, k:k + 1]`` for ``t[0, k]``."""
    if not isinstance(node, cst.Subscript) or any(not isinstance(element.slice, cst.Index) for element in node.slice):
        return one_line(node)
    texts = [_one_element(one_line(element.slice)) for element in node.slice]
    return f"{one_line(node.value)}[{', '.join(texts)}]"


def _slice_text(node: cst.BaseSlice) -> str:
    """The code of an element of a subscript on one line, without comments."""
    if not isinstance(node, cst.Slice):
        return code_of(node).strip()
    lower, upper, step = (one_line(part) if part is not None else "" for part in (node.lower, node.upper, node.step))
    return f"{lower}:{upper}:{step}" if step else f"{lower}:{upper}"


def has_slices(node: cst.BaseExpression) -> bool:
    """True for a subscript with a slice in it."""
    return isinstance(node, cst.Subscript) and any(isinstance(element.slice, cst.Slice) for element in node.slice)


def _as_slice(types: Types, element: cst.BaseSlice) -> cst.BaseSlice:
    """``nl.ds(start, size)`` as a slice; other elements as they are."""
    match element:
        case cst.Index(value=cst.Call(func=function, args=[start, size])) if (
            types.names.full(function) == "nki.language.ds"
        ):
            stop = types.evaluator.polynomial(start.value) + types.evaluator.polynomial(size.value)
            return cst.Slice(lower=start.value, upper=expression(stop.text))
        case _:
            return element


def _clipped(
    types: Types, original: cst.Subscript, parts: list[Part], blocks: int, owner: Tensor | None, bounds: Bounds
) -> list[Part]:
    """The elements of a subscript with slices, as far as ``bounds`` let the axes of the tile through."""
    elements = [_as_slice(types, element.slice) for element in original.slice]
    rank = len(owner.shape) + blocks if owner is not None and owner.shape is not None else len(parts)
    full = cst.Slice(lower=None, upper=None)
    missing = max(rank - len(elements), 0)
    elements += [full] * missing
    parts = [*parts, *(Part(":", whole=True) for _ in range(missing))]
    on_chip = _on_chip(owner)
    kept = [k for k, one in enumerate(elements) if isinstance(one, cst.Slice) or (on_chip and k == blocks)]
    ndim = max(variable.ndim for variable in (*bounds.lower, *bounds.upper))
    kept += [-1] if len(kept) == 1 and ndim == 2 else []
    if len(kept) != ndim:
        raise NotCarriedOverError(f"`{one_line(original)}` below a mask of {ndim} axes: cut the slices to size")
    for variable in dict.fromkeys((*bounds.lower, *bounds.upper)):
        place = kept[ndim + variable.axis]
        one = elements[place] if place >= 0 else None
        if not isinstance(one, cst.Slice) or one.step is not None:
            raise NotCarriedOverError(f"`{one_line(original)}` below a mask: cut the slices to size")
        base = types.evaluator.polynomial(one.lower) if one.lower is not None else Polynomial()
        start = largest(base + value for value in bounds.start(variable))
        stop = smallest(base + value for value in bounds.stop(variable))
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
    base: str, rest: list[Part], rows: Index, owner: Tensor | None, bounds: Bounds, original: cst.Subscript
) -> str:
    """``t[0 * i_p, i_f]``: one partition of a tile, repeated to all of the result."""
    text = _slices([Part(rows.base.text), *rest[1:]], owner, bounds)
    sizes = {variable.axis: bounds.extent(variable) for variable in _axes(rest)}
    ndim = max(variable.ndim for variable in _axes(rest))
    if text is None:
        raise NotCarriedOverError(f"`{one_line(original)}` repeats a partition of a view that is no slice")
    return f"nl.broadcast_to({base}{text}, ({', '.join(sizes.get(axis, '1') for axis in range(-ndim, 0))}))"


def _one_element(text: str) -> str:
    if text.isdigit():
        return f"{text}:{int(text) + 1}"
    value = Polynomial.of(text)
    return f"{value.text}:{(value + 1).text}"


def _on_chip(owner: Tensor | None) -> bool:
    return owner is not None and owner.buffer in ("sbuf", "psum")


def _between(parts: list[Part], position: int, axis: int) -> bool:
    """True if a dimension of size 1 at ``position`` is the missing ``axis`` of the result."""
    before = [variable.axis for variable in _axes(parts[:position])]
    after = [variable.axis for variable in _axes(parts[position + 1 :])]
    return all(a < axis for a in before) and all(a > axis for a in after)


def _shape(original: cst.Subscript, owner: Tensor | None, parts: list[Part]) -> tuple[Polynomial, ...] | None:
    """The shape of what is indexed; beside an index tile, which names every dimension, ``t.shape[k]`` in HBM."""
    if owner is None or owner.shape is not None or owner.buffer != "hbm" or not isinstance(original.value, cst.Name):
        return owner.shape if owner is not None else None
    sizes = (Polynomial.of(f"{original.value.value}.shape[{k}]") for k in range(len(parts)))
    return tuple(sizes) if _axes(parts) else None


def _has_strides(original: cst.Subscript, owner: Tensor | None, parts: list[Part]) -> bool:
    """True if the source tells where the elements of what is indexed lie."""
    shape = _shape(original, owner, parts)
    return shape is not None and len(shape) >= len(parts) and isinstance(original.value, cst.Name)


def _selected(base: str, parts: list[Part], bounds: Bounds, original: cst.Subscript) -> str:
    """``x.select(0, tile)[…]``: a place that is known only when the kernel runs, of a view."""
    moved = [k for k, part in enumerate(parts) if part.moved]
    others = [part for part in parts if not part.moved]
    text = _slices(others, None, bounds) if any(part.index is not None for part in others) else None
    text = text or f"[{', '.join(part.text for part in others)}]"
    if len(moved) > 1 or parts[moved[0]].index != Index(Polynomial()):
        raise NotCarriedOverError(f"`{one_line(original)}` is an index that is known only when the kernel runs")
    return f"{base}.select({moved[0]}, {parts[moved[0]].moved.partition('=')[2]}){text}"


def _pattern(base: str, parts: list[Part], owner: Tensor | None, bounds: Bounds, original: cst.Subscript) -> str:
    """``t.ap(pattern=…, offset=…)``: each variable with its step through the storage."""
    shape = _shape(original, owner, parts)
    if owner is None or shape is None or len(shape) < len(parts):
        raise NotCarriedOverError(f"the strides of `{one_line(original)}` need the tensor's shape")
    if not isinstance(original.value, cst.Name):
        raise NotCarriedOverError(f"`{one_line(original)}` indexes a view by several variables")
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
                raise NotCarriedOverError(f"`{one_line(original)}` mixes slices and index tiles")
            offset += Polynomial.of(int(part.text) if part.text.isdigit() else part.text) * stride
            continue
        offset += part.index.base * stride
        for variable, step in part.index.steps:
            steps[variable] = steps.get(variable, Polynomial()) + step * stride
    ndim = max((variable.ndim for variable in steps), default=0)
    _check_axes(steps, ndim + len(shape) - len(parts), owner, original)
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
        raise NotCarriedOverError(f"`{one_line(original)}` has two indices that are known only when the kernel runs")
    more = "".join(f", {parts[k].moved}, indirect_dim={k}" for k in moved)
    return f"{base}.ap(pattern=[{', '.join(pattern)}], offset={offset.text}{more})"


def _of_axes(
    types: Types, original: cst.Subscript, parts: list[Part], owner: Tensor | None, first: int = 0
) -> list[Part]:
    """The elements with slices as variables, from axis ``first`` on; as they are beside other variables."""
    slices = [k for k, element in enumerate(original.slice) if _is_slice(element)]
    if any(variable for part in parts if part.index is not None for variable, _ in part.index.steps) or not slices:
        return parts
    ndim, new = first + len(slices), list(parts)
    for axis, k in enumerate(slices, first):
        one = cst.ensure_type(original.slice[k].slice, cst.Slice)
        start = types.evaluator.polynomial(one.lower) if one.lower is not None else Polynomial()
        known = owner.shape[k] if owner is not None and owner.shape is not None else None
        stop = types.evaluator.polynomial(one.upper) if one.upper is not None else known
        if one.step is None and stop is not None:
            variable = Variable(stop - start, axis - ndim, ndim)
            new[k] = Part("", Index(start, ((variable, Polynomial.of(1)),)))
    return new


def _check_axes(steps: dict[Variable, Polynomial], ndim: int, owner: Tensor, original: cst.Subscript) -> None:
    """Raise :class:`TooManyAxesError` for patterns with backward steps, and for those with too many dimensions."""
    back = [variable for variable, step in steps.items() if all(factor < 0 for _, factor in step.terms)]
    if not back and (ndim <= _DIMENSIONS or not _on_chip(owner)):
        return
    free = [v for v in back or steps if v.axis != -v.ndim]
    small = [v for v in free if v.size.constant is not None and v.size.constant <= _UNROLLED]
    small = (back and free) or sorted(small, key=lambda v: v.size.constant or 0)
    why = "steps backwards" if back else f"has {ndim} dimensions; on chip a view has at most {_DIMENSIONS}"
    raise TooManyAxesError(f"`{one_line(original)}` {why}", small)


_DIMENSIONS = 5
"""Dimensions of a view on chip."""
_UNROLLED = 8
"""Elements along an axis that a loop may run through."""


def _gathered(
    types: Types, base: str, parts: list[Part], tiles: list[int], bounds: Bounds, original: cst.Subscript
) -> str:
    """``x[index_tile, columns]``: rows that are known when the kernel runs."""
    owner = types.tensor(original.value)
    lead = tiles[0]
    plain = all(part.index is None and ":" not in part.text and part.text.strip() for part in parts[:lead])
    if len(tiles) > 1 or not plain or owner is None or owner.buffer != "hbm":
        raise NotCarriedOverError(f"`{one_line(original)}` is an index that is known only when the kernel runs")
    rows = parts[lead].text
    ndim = max((v.ndim for v in (*bounds.lower, *bounds.upper, *_axes(parts))), default=2)
    row = next((v for v in (*bounds.lower, *bounds.upper) if v.axis == -ndim), None)
    if row is not None:
        rows = f"{rows}[{largest(bounds.start(row))}:{smallest(bounds.stop(row))}]"
    if (pattern := _vector(types, base, parts, rows, row, bounds, original)) is not None:
        return pattern
    rest: list[str] = []
    for part in parts[lead + 1 :]:
        found = sliced(part.index, bounds) if part.index is not None else None
        if part.index is not None and found is None:
            raise NotCarriedOverError(f"`{one_line(original)}` is an index that is known only when the kernel runs")
        rest.append(found[0] if found is not None else part.text)
    before = [part.text for part in parts[:lead]]
    columns = f"[{', '.join([*before, ':', *rest])}]" if rest or before else ""
    return f"{base}{columns}.vector_select(0, {rows})"


def _vector(
    types: Types, base: str, parts: list[Part], rows: str, row: Variable | None, bounds: Bounds, original: cst.Subscript
) -> str | None:
    """``x.ap(…, vector_offset=rows, indirect_dim=0)``; None where the source does not tell the strides or the rows."""
    owner, element = types.tensor(original.value), original.slice[0].slice
    tile = types.tensor(element.value) if isinstance(element, cst.Index) else None
    if tile is None or not _has_strides(original, owner, parts):
        return None
    axes = _axes(parts)
    ndim = max((v.ndim for v in axes), default=1 + sum(map(_is_slice, original.slice)))
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
    rest = [selected, *_of_axes(types, original, parts, owner, 1)[1:]]
    if any(part.index is None and (part.whole or ":" in part.text) for part in rest):
        return None
    return _pattern(base, rest, owner, bounds, original)


def cut(text: str, tensor: Tensor | None, bounds: Bounds, variables: list[Variable]) -> str:
    """A whole tile as far as ``bounds`` let its axes through."""
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


__all__ = ["NotCarriedOverError", "TooManyAxesError", "converted", "cut", "has_slices"]
