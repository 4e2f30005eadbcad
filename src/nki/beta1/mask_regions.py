"""Regions: the elements of an operation that its mask leaves. They are known when the kernel is traced."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nki.base.beta1_errors import Beta1MaskError
from nki.base.warning import warn_here
from nki.beta1.index import Box, Mask, aligned

Shape = tuple[int, ...]


def joined(a: Any, b: Any) -> Any:
    """Two conditions of an operation as one, each a mask, a truth value, or None for no condition."""
    return b if a is None else a if b is None else a & b


def _fits(sizes: Shape, shape: Shape) -> bool:
    """True if a condition of ``sizes`` belongs to an operation of ``shape`` as it is."""
    return len(sizes) <= len(shape) and all(
        size in (1, want) for size, want in zip(reversed(sizes), reversed(shape), strict=False)
    )


def left_of_and(value: Any) -> Any:
    """The value that Python tests in ``value and …``: a mask counts as true, so the mask behind ``and`` remains."""
    if not isinstance(value, Mask):
        return value
    warn_here("`and` of two masks is the second one alone; write & to join them")
    return True


class Region:
    """The elements of an operation of ``shape`` that take part: all, none, a box, or any set."""

    __slots__ = ("array", "box", "is_whole", "shape")

    def __init__(self, shape: Shape, box: Box | None, array: NDArray[np.bool_] | None = None) -> None:
        self.shape = shape
        self.box = box
        """The smallest box around the elements; None: there are none."""
        self.array = array
        """Over the box, which elements take part; None: all."""
        self.is_whole = array is None and box is not None and box == tuple((0, n) for n in shape)
        """True if every element takes part."""

    @property
    def is_empty(self) -> bool:
        return self.box is None


def region(mask: Any, shape: Shape) -> Region:
    """The region of ``mask=``: a mask, a truth value, or None for no mask."""
    if mask is None or mask is True:
        return _all_of(shape)
    if isinstance(mask, bool | np.bool_ | int | np.integer):
        return Region(shape, tuple((0, n) for n in shape) if mask else None)
    if not isinstance(mask, Mask):
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: mask= is a {type(mask).__name__}",
            fix="compare index expressions, such as mask=(i_p < n); for a condition on a tile's values use nl.where",
        )
    lines: list[NDArray[np.bool_]] = [np.ones(n, np.bool_) for n in shape]
    others: list[NDArray[np.bool_]] = []
    for raw in mask.parts:
        if not isinstance(raw, np.ndarray) and _fits(raw.shape, shape) and (truth := raw.truth()) is not None:
            if truth:
                continue
            return Region(shape, None)
        part = aligned(raw, shape)
        axes = [axis for axis, size in enumerate(part.shape) if size > 1]
        if not axes:
            if not part.flat[0]:
                return Region(shape, None)
        elif len(axes) == 1:
            lines[axes[0]] = lines[axes[0]] & part.reshape(-1)
        else:
            others.append(part)
    return _bounded(shape, lines, others)


@lru_cache(4096)
def _all_of(shape: Shape) -> Region:
    return Region(shape, tuple((0, n) for n in shape))


def _bounded(shape: Shape, lines: list[NDArray[np.bool_]], others: list[NDArray[np.bool_]]) -> Region:
    array = _joint(shape, lines, others) if others else None
    if array is not None:
        axes = range(len(shape))
        lines = [np.asarray(array.any(axis=tuple(other for other in axes if other != axis))) for axis in axes]
    box: list[tuple[int, int]] = []
    solid = True
    for line in lines:
        places = np.flatnonzero(line)
        if not len(places):
            return Region(shape, None)
        start, end = int(places[0]), int(places[-1]) + 1
        solid &= len(places) == end - start
        box.append((start, end))
    if array is None and solid:
        return Region(shape, tuple(box))
    array = _joint(shape, lines, []) if array is None else array
    inside = array[tuple(slice(*bound) for bound in box)]
    return Region(shape, tuple(box), None if inside.all() else inside)


def _joint(shape: Shape, lines: list[NDArray[np.bool_]], others: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """The elements of ``shape`` that fulfil a condition on each axis and all the others."""
    array = np.ones(shape, np.bool_)
    for axis, line in enumerate(lines):
        array &= line.reshape((-1, *(1,) * (len(shape) - axis - 1)))
    for part in others:
        array &= np.broadcast_to(part, shape)
    return array


def boxes_of(region: Region) -> list[Box]:
    """Boxes that cover the region exactly, each of consecutive equal rows of axis 0."""
    if region.box is None:
        return []
    if region.array is None:
        return [region.box]
    return [
        tuple((s + b0, s + b1) for (s, _), (b0, b1) in zip(region.box, box, strict=True))
        for box in _boxes(region.array)
    ]


def _boxes(array: NDArray[np.bool_]) -> list[Box]:
    if array.ndim == 1:
        edges = np.flatnonzero(np.diff(np.concatenate(([False], array, [False])).astype(np.int8)))
        return [((int(a), int(b)),) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    boxes: list[Box] = []
    row = 0
    while row < len(array):
        end = row + 1
        while end < len(array) and (array[end] == array[row]).all():
            end += 1
        boxes.extend(cast("Box", ((row, end), *inner)) for inner in _boxes(array[row]))
        row = end
    return boxes
