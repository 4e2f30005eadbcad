"""Sums, products and extremes over axes of arrays of a traced function; products of matrices; order within rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from nki.proofs.executor import BINARY
from nki.proofs.reals import Reals
from nki.proofs.symbols import Array, Symbols, UndecidedError
from nki.proofs.traced.elements import Value, lifted, rearranged, spread

Axes = int | Sequence[int] | None
_LARGEST: Final = 8
"""Elements that the hardware finds at once."""


def normal_axes(axes: Axes, rank: int) -> tuple[int, ...]:
    """The axes counted from 0, ascending; None means all."""
    if axes is None:
        return tuple(range(rank))
    listed = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
    return tuple(sorted(int(axis) % rank for axis in listed))


def fold(
    reals: Reals, value: Symbols, axes: Axes, keepdims: bool, folded: Callable[[Reals, Symbols], Symbols]
) -> Symbols:
    """``folded`` of the last axis, to which ``axes`` are joined."""
    chosen = normal_axes(axes, len(value.shape))
    kept = [axis for axis in range(len(value.shape)) if axis not in chosen]
    shape = [value.shape[axis] for axis in kept]
    count = math.prod(value.shape[axis] for axis in chosen)
    rows = value.moved(lambda part: part.transpose([*kept, *chosen]).reshape([*shape, count]))
    result = folded(reals, rows)
    if keepdims:
        shape = [1 if axis in chosen else size for axis, size in enumerate(value.shape)]
    return result.moved(lambda part: part.reshape(shape))


def _last_of(op: str) -> Callable[[Reals, Symbols], Symbols]:
    """A fold in pairs, for an operator that takes its operands in any order."""

    def folded(reals: Reals, value: Symbols) -> Symbols:
        while (count := value.shape[-1]) > 1:
            half = count // 2
            left = value.moved(lambda part, half=half: part[..., :half])
            right = value.moved(lambda part, half=half: part[..., half : 2 * half])
            pairs = BINARY[op](reals, left, right)
            if count % 2:
                last = value.moved(lambda part: part[..., -1:])
                pairs = reals.joined([pairs, last], lambda parts: np.concatenate(parts, axis=-1))
            value = pairs
        return value.moved(lambda part: part[..., 0])

    return folded


def _of_truths(op: str) -> Callable[[Reals, Symbols], Symbols]:
    return lambda reals, value: _last_of(op)(reals, reals.truth(value))


FOLDS: Final[dict[str, Callable[[Reals, Symbols], Symbols]]] = {
    "add": lambda reals, value: reals.total(value, -1),
    "multiply": _last_of("multiply"),
    "maximum": Reals.greatest,
    "minimum": Reals.least,
    "logical_and": _of_truths("logical_and"),
    "logical_or": _of_truths("logical_or"),
}
"""By the name of NumPy's function of two operands."""


def total(reals: Reals, value: Symbols, axes: Axes = None, keepdims: bool = False) -> Symbols:
    """The sum over ``axes``."""
    return fold(reals, value, axes, keepdims, FOLDS["add"])


def mean(reals: Reals, value: Symbols, axes: Axes = None, keepdims: bool = False) -> Symbols:
    """The sum over ``axes``, divided by the number of elements."""
    count = math.prod(value.shape[axis] for axis in normal_axes(axes, len(value.shape)))
    return reals.divide(total(reals, value, axes, keepdims), reals.number(count))


def variance(reals: Reals, value: Symbols, axes: Axes, keepdims: bool, correction: float) -> Symbols:
    """The sum of squared deviations from the mean, divided by the number of elements less ``correction``."""
    count = math.prod(value.shape[axis] for axis in normal_axes(axes, len(value.shape)))
    deviations = reals.subtract(value, mean(reals, value, axes, True))
    squares = total(reals, reals.multiply(deviations, deviations), axes, keepdims)
    return reals.divide(squares, reals.number(count - correction))


def accumulated(reals: Reals, op: str, value: Symbols, axis: int, reverse: bool = False) -> Symbols:
    """Folds of all beginnings along ``axis``."""
    rows = value.moved(lambda part: np.moveaxis(part, axis, -1))
    count = rows.shape[-1]
    if reverse:
        rows = rows.moved(lambda part: part[..., ::-1])
    if op == "add" and rows.is_finite:
        flat = rows.moved(lambda part: part.reshape(-1, count))
        found = reals.matmul(flat, reals.constant(np.triu(np.ones((count, count), np.int32))))
        result = replace(found.moved(lambda part: part.reshape(rows.shape)), is_whole=value.is_whole)
    else:
        state = rows.moved(lambda part: part[..., 0])
        states = [state]
        for place in range(1, count):
            state = BINARY[op](reals, state, rows.moved(lambda part, place=place: part[..., place]))
            states.append(state)
        result = reals.joined(states, lambda parts: np.stack(parts, axis=-1))
    if reverse:
        result = result.moved(lambda part: part[..., ::-1])
    return result.moved(lambda part: np.moveaxis(part, -1, axis))


# -- products of matrices


def matmul(reals: Reals, left: Value, right: Value) -> Symbols:
    """``left @ right`` as NumPy means it, with the leading axes broadcast."""
    one, other = lifted(left, reals), lifted(right, reals)
    if len(one.shape) == 1:
        return matmul(reals, one.moved(lambda part: part[None]), other).moved(lambda part: part[..., 0, :])
    if len(other.shape) == 1:
        return matmul(reals, one, other.moved(lambda part: part[:, None])).moved(lambda part: part[..., 0])
    if len(other.shape) == 2:
        return _of_two(reals, one, other)
    outer = np.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    sides = [
        side.moved(lambda part, side=side: np.broadcast_to(part, outer + side.shape[-2:]).reshape(-1, *side.shape[-2:]))
        for side in (one, other)
    ]
    products = [
        reals.matmul(*(side.moved(lambda part, batch=batch: np.ascontiguousarray(part[batch])) for side in sides))
        for batch in range(math.prod(outer))
    ]
    whole = reals.joined(products, lambda parts: np.stack(parts))
    return whole.moved(lambda part: part.reshape(*outer, *part.shape[-2:]))


def _of_two(reals: Reals, left: Symbols, right: Symbols) -> Symbols:
    *outer, count = left.shape
    flat = left.moved(lambda part: part.reshape(-1, count))
    return reals.matmul(flat, right).moved(lambda part: part.reshape(*outer, -1))


def dot_general(
    reals: Reals,
    left: Value,
    right: Value,
    contracted: tuple[Sequence[int], Sequence[int]],
    batched: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Symbols:
    """Axes of the result: the batched ones, the free ones of ``left``, the free ones of ``right``."""
    one, other = lifted(left, reals), lifted(right, reals)
    free = [
        [axis for axis in range(len(side.shape)) if axis not in (*summed, *outer)]
        for side, summed, outer in zip((one, other), contracted, batched, strict=True)
    ]
    batch = [one.shape[axis] for axis in batched[0]]
    count = math.prod(one.shape[axis] for axis in contracted[0])
    sizes = [[side.shape[axis] for axis in axes] for side, axes in zip((one, other), free, strict=True)]
    rows, columns = (math.prod(size) for size in sizes)
    flat = one.moved(lambda part: part.transpose([*batched[0], *free[0], *contracted[0]]).reshape(-1, rows, count))
    turned = other.moved(
        lambda part: part.transpose([*batched[1], *contracted[1], *free[1]]).reshape(-1, count, columns)
    )
    return matmul(reals, flat, turned).moved(lambda part: part.reshape([*batch, *sizes[0], *sizes[1]]))


def einsum(reals: Reals, subscripts: str, operands: Sequence[Value]) -> Symbols:
    """Einstein's sum, from left to right."""
    inputs, result = _labels(subscripts, [len(each.shape) for each in operands])
    done, labels = _plain(reals, lifted(operands[0], reals), inputs[0], {*result, *"".join(inputs[1:])})
    for place, operand in enumerate(operands[1:], 1):
        wanted = {*result, *"".join(inputs[place + 1 :])}
        right, other = _plain(reals, lifted(operand, reals), inputs[place], {*wanted, *labels})
        shared = [label for label in labels if label in other]
        summed, batched = [s for s in shared if s not in wanted], [s for s in shared if s in wanted]
        axes = [[[text.index(s) for s in chosen] for text in (labels, other)] for chosen in (summed, batched)]
        done = dot_general(reals, done, right, (axes[0][0], axes[0][1]), (axes[1][0], axes[1][1]))
        labels = "".join([*batched, *(s for s in labels if s not in shared), *(s for s in other if s not in shared)])
    done, labels = _plain(reals, done, labels, set(result))
    return done.moved(lambda part: part.transpose([labels.index(label) for label in result]))


def _labels(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, with capital letters from the end for an ellipsis."""
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    most = max([rank - len(text) + 3 for text, rank in zip(inputs, ranks, strict=True) if "..." in text], default=0)
    names = "ZYXWVUTS"[:most]
    filled = [
        text.replace("...", names[most - (rank - len(text) + 3) :]) for text, rank in zip(inputs, ranks, strict=True)
    ]
    if not arrow:
        every = "".join(inputs).replace("...", "")
        result = "..." * bool(most) + "".join(sorted(label for label in set(every) if every.count(label) == 1))
    return filled, result.replace("...", names)


def _plain(reals: Reals, value: Symbols, labels: str, wanted: set[str]) -> tuple[Symbols, str]:
    """An operand without labels twice, and without labels that nothing else has: those axes are summed."""
    if len(set(labels)) < len(labels):
        once = "".join(dict.fromkeys(labels))

        def diagonal(places: Array) -> Array:
            return np.einsum(f"{labels}->{once}", places)

        value, labels = rearranged(reals, diagonal, value), once
    alone = [axis for axis, label in enumerate(labels) if label not in wanted]
    if alone:
        value = total(reals, value, alone)
        labels = "".join(label for label in labels if label in wanted)
    return value, labels


def windows(
    reals: Reals, value: Symbols, taps: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> Symbols:
    """The windows of the last axes, as many as there are ``taps``, as one more axis at the end."""
    counts = [
        (size - (tap - 1) * apart - 1) // step + 1
        for size, tap, apart, step in zip(value.shape[-len(taps) :], taps, dilation, strides, strict=True)
    ]
    found: list[Symbols] = []
    for place in np.ndindex(*taps):
        index = tuple(
            slice(first * apart, first * apart + (count - 1) * step + 1, step)
            for first, apart, count, step in zip(place, dilation, counts, strides, strict=True)
        )
        found.append(value.moved(lambda part, index=index: part[(..., *index)]))
    return reals.joined(found, lambda parts: np.stack(parts, axis=-1))


def convolution(
    reals: Reals, value: Value, kernel: Value, strides: Sequence[int], dilation: Sequence[int], groups: int
) -> Symbols:
    """A convolution without padding of (batch, channels, …) with (channels out, channels of a group, …)."""
    x, w = lifted(value, reals), lifted(kernel, reals)
    batch, channels = x.shape[:2]
    out, inner, *taps = w.shape
    seen = windows(reals, x, taps, strides, dilation)
    sizes, count = seen.shape[2:-1], seen.shape[-1]
    columns = seen.moved(
        lambda part: np.moveaxis(part, -1, 2).reshape(batch, groups, channels // groups * count, math.prod(sizes))
    )
    weights = w.moved(lambda part: part.reshape(groups, out // groups, inner * count))
    return matmul(reals, weights, columns).moved(lambda part: part.reshape(batch, out, *sizes))


# -- order within rows, which is unknown but for one fact: it depends on the whole row


def _numbered(reals: Reals, value: Symbols, count: int) -> Symbols:
    shape = (*value.shape[:-1], count)
    return reals.constant(np.broadcast_to(np.arange(count, dtype=np.int32), shape))


def largest(reals: Reals, value: Symbols, count: int) -> tuple[Symbols, Symbols]:
    """The largest ``count`` elements along the last axis in descending order, and their indices.

    As kernels find them, eight at a time; of more than eight nothing is known but their names.
    """
    if count <= _LARGEST <= value.shape[-1]:
        eight = _numbered(reals, value, _LARGEST)
        found = reals.ranked(value, _LARGEST)
        wanted = reals.function_of_rows("the wanted", found, eight)
        indices = _integers(reals.function_of_rows("find, last first: False", value, wanted))
        return tuple(each.moved(lambda part: part[..., :count]) for each in (found, indices))  # pyright: ignore[reportReturnType]
    places = _numbered(reals, value, count)
    return reals.ranked(value, count), _integers(reals.function_of_rows("the largest", value, places))


def extreme_index(reals: Reals, value: Symbols, smallest: bool) -> Symbols:
    """The index of the largest, or of the smallest, along the last axis."""
    return largest(reals, reals.negative(value) if smallest else value, 1)[1].moved(lambda part: part[..., 0])


def ordered(reals: Reals, value: Symbols, descending: bool) -> tuple[Symbols, Symbols]:
    """The elements of the last axis in order, and their indices."""
    places = _numbered(reals, value, value.shape[-1])
    name = "descending" if descending else "ascending"
    found = reals.ranked(value, value.shape[-1])
    indices = _integers(reals.function_of_rows(f"order, {name}", value, places))
    return found if descending else found.moved(lambda part: part[..., ::-1]), indices


def _integers(found: Symbols) -> Symbols:
    return replace(found, is_whole=True)


def gathered(reals: Reals, value: Value, indices: Symbols) -> Symbols:
    """Elements of the last axis at ``indices``, which depend on the inputs: as kernels gather within partitions."""
    if not indices.is_whole:
        raise UndecidedError("elements are read at places that are no integers")
    return reals.gathered(lifted(value, reals), indices)


def picked(reals: Reals, value: Value, indices: Symbols, axis: int) -> Symbols:
    """``value[…, indices, …]`` at ``axis``: whole slices at places that depend on the inputs, as an embedding reads."""
    symbols = lifted(value, reals)
    columns = symbols.moved(lambda part: np.moveaxis(part, axis, -1))
    outer = columns.shape[:-1]
    places = indices.moved(lambda part: np.broadcast_to(part.reshape(-1), (*outer, part.size)))
    found = gathered(reals, columns, places).moved(lambda part: part.reshape(*outer, *indices.shape))
    rank, inner = len(indices.shape), len(outer)
    order = [*range(axis), *range(inner, inner + rank), *range(axis, inner)]
    return found.moved(lambda part: part.transpose(order))


def padded(reals: Reals, value: Value, low: Sequence[int], high: Sequence[int], filler: Value) -> Symbols:
    """``value`` with elements ``filler``, a single number, around it; negative widths cut."""
    index = tuple(slice(max(0, -a), size - max(0, -b)) for a, b, size in zip(low, high, value.shape, strict=True))
    cut = lifted(value, reals).moved(lambda part: part[index])
    widths = [(max(0, a), max(0, b)) for a, b in zip(low, high, strict=True)]
    outside = np.pad(np.zeros(cut.shape, np.bool_), widths, constant_values=True)
    whole = cut.moved(lambda part: np.pad(part, widths))
    return reals.choose(outside, *spread([filler, whole], reals))
