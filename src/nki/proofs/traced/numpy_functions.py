"""Functions of NumPy that are no methods of arrays, on arrays that may depend on the inputs."""

# NumPy names what an argument is, and these functions take what it passes.
# ruff: noqa: ARG001

from __future__ import annotations

from typing import Any, cast

import numpy as np

from nki.proofs.reals import Reals
from nki.proofs.symbols import Array, Symbols, UndecidedError
from nki.proofs.traced import elements, folds
from nki.proofs.traced.folds import Axes
from nki.proofs.traced.traced_array import FUNCTIONS, TracedArray, joint_dtype, traced, unknown, value_of


def _where(reals: Reals, condition: Any, yes: Any = None, no: Any = None) -> TracedArray:
    if yes is None:
        raise UndecidedError("the places of elements depend on the inputs (np.where with one argument)")
    value = elements.select(reals, *(value_of(each) for each in (condition, yes, no)))
    return TracedArray(value, joint_dtype(yes, no), reals)


def _einsum(reals: Reals, subscripts: str, *operands: Any, **_: Any) -> TracedArray:
    value = folds.einsum(reals, subscripts, [value_of(each) for each in operands])
    return TracedArray(value, joint_dtype(*operands), reals)


def _dot(reals: Reals, one: Any, other: Any, out: None = None) -> Any:
    return traced(one, reals).dot(other)


def _inner(reals: Reals, one: Any, other: Any) -> TracedArray:
    mine, theirs = value_of(one), value_of(other)
    axes = [len(mine.shape) - 1], [len(theirs.shape) - 1]
    return TracedArray(folds.dot_general(reals, mine, theirs, axes), joint_dtype(one, other), reals)


def _outer(reals: Reals, one: Any, other: Any, out: None = None) -> Any:
    return traced(one, reals).reshape(-1, 1) * traced(other, reals).reshape(1, -1)


def _tensordot(reals: Reals, one: Any, other: Any, axes: Any = 2) -> TracedArray:
    mine, theirs = value_of(one), value_of(other)
    if isinstance(axes, int):
        axes = range(len(mine.shape) - axes, len(mine.shape)), range(axes)
    summed = [
        [int(axis) % len(side.shape) for axis in np.atleast_1d(list_)]
        for side, list_ in zip((mine, theirs), axes, strict=True)
    ]
    return TracedArray(folds.dot_general(reals, mine, theirs, (summed[0], summed[1])), joint_dtype(one, other), reals)


def _pad(reals: Reals, array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> TracedArray:
    value = value_of(array)
    if mode != "constant":

        def padded(places: Array) -> Array:
            return np.pad(places, pad_width, cast("Any", mode), **kwargs)

        return TracedArray(elements.rearranged(reals, padded, value), array.dtype, reals)
    widths = np.broadcast_to(np.asarray(pad_width), (len(value.shape), 2))
    filler = value_of(kwargs.get("constant_values", 0))
    found = folds.padded(reals, value, [int(w) for w in widths[:, 0]], [int(w) for w in widths[:, 1]], filler)
    return TracedArray(found, array.dtype, reals)


def _take(
    reals: Reals, array: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise"
) -> Any:
    places, whole = value_of(indices), traced(array, reals)
    if axis is None:
        whole, axis = whole.reshape(-1), 0
    if isinstance(places, Symbols):
        return whole.made(folds.picked(reals, whole.value, places, axis % whole.ndim))
    return whole.made(elements.moved(whole.value, lambda part: np.take(part, places, axis, mode=cast("Any", mode))))


def _take_along_axis(reals: Reals, array: Any, indices: Any, axis: int | None = -1) -> Any:
    places, whole = value_of(indices), traced(array, reals)
    if axis is None:
        whole, axis = whole.reshape(-1), 0
    if not isinstance(places, Symbols):
        chosen = axis
        return whole.made(elements.moved(whole.value, lambda part: np.take_along_axis(part, places, chosen)))
    last: int = axis
    turned = [elements.moved(each, lambda part: np.moveaxis(part, last, -1)) for each in (whole.value, places)]
    found = folds.gathered(reals, turned[0], cast("Symbols", turned[1]))
    return whole.made(found.moved(lambda part: np.moveaxis(part, -1, last)))


def _norm(reals: Reals, x: Any, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> Any:  # noqa: A002
    if ord not in (None, 2, "fro"):
        raise unknown(f"linalg.norm with ord={ord!r}")
    return np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))


def _copy_to(_: Reals, target: Any, source: Any) -> None:
    target[...] = source


def _nothing(reals: Reals, x: Any, *_: Any, **__: Any) -> Any:
    return x


FUNCTIONS.update(
    {
        "where": _where,
        "einsum": _einsum,
        "dot": _dot,
        "inner": _inner,
        "outer": _outer,
        "tensordot": _tensordot,
        "pad": _pad,
        "take": _take,
        "take_along_axis": _take_along_axis,
        "norm": _norm,
        "real": _nothing,
        "nan_to_num": _nothing,
        "copyto": _copy_to,
    }
)
