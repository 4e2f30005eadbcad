"""Masks: which elements of an operation take part. They are known when the kernel is traced."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from nki.base.beta1_errors import Beta1FlowError, Beta1MaskError
from nki.base.warning import warn_here

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""Start and end on each axis."""


class Condition(Protocol):
    """A comparison of an index that is evaluated where its elements matter."""

    shape: Shape
    """The shape of :meth:`array`: size 1 on axes on which it does not depend."""

    def truth(self) -> bool | None:
        """The value of all elements, if they are known to have one."""
        ...

    def array(self) -> NDArray[np.bool_]: ...


Part = NDArray[np.bool_] | Condition


class Mask:
    """A conjunction of conditions over the axes of an operation; each is an array with size 1 on other axes."""

    __slots__ = ("affine", "parts", "shape")
    __array_ufunc__ = None

    def __init__(self, shape: Shape, parts: tuple[Part, ...]) -> None:
        self.shape = shape
        self.parts = parts
        self.affine: tuple[Any, str] | None = None
        """Of one comparison: the index that is compared with 0, and the name of the operator."""

    @classmethod
    def of(cls, shape: Shape, array: NDArray[np.bool_]) -> Mask:
        """The mask of one condition."""
        return cls(shape, (np.asarray(array, np.bool_),))

    def __and__(self, other: Any) -> Mask:
        if isinstance(other, Mask):
            shape = tuple(np.broadcast_shapes(self.shape, other.shape))
            return Mask(shape, (*self.parts, *other.parts))
        if isinstance(other, bool | np.bool_):
            return self if other else Mask(self.shape, (np.zeros((1,) * len(self.shape), np.bool_),))
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: a mask is joined with {type(other).__name__}",
            fix="join comparisons of index expressions with &, each in parentheses",
        )

    __rand__ = __and__

    def __or__(self, other: Any) -> Mask:
        if isinstance(other, Mask):
            shape = tuple(np.broadcast_shapes(self.shape, other.shape))
            return Mask.of(shape, self.array(shape) | other.array(shape))
        if isinstance(other, bool | np.bool_):
            return Mask.of(self.shape, np.ones((1,) * len(self.shape), np.bool_)) if other else self
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: a mask is joined with {type(other).__name__}",
            fix="join comparisons of index expressions with &, each in parentheses",
        )

    __ror__ = __or__

    def __invert__(self) -> Mask:
        return Mask.of(self.shape, ~self.array(self.shape))

    def array(self, shape: Shape) -> NDArray[np.bool_]:
        """The mask over ``shape``."""
        result = np.ones(shape, np.bool_)
        for part in self.parts:
            result &= np.broadcast_to(_aligned(_evaluated(part), shape), shape)
        return result

    def __bool__(self) -> NoReturn:
        raise Beta1FlowError(
            "control_flow_condition_depending_on_arange: a comparison of indices is used as a condition",
            fix="pass it as mask=, and join comparisons with &: (a <= i) & (i < b) instead of `and` or a <= i < b",
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise Beta1MaskError("cannot_assign_to_index: a mask cannot be assigned to", fix="make a new mask")


def joined(a: Any, b: Any) -> Any:
    """Two conditions of an operation as one, each a mask, a truth value, or None for no condition."""
    return b if a is None else a if b is None else a & b


def _evaluated(part: Part) -> NDArray[np.bool_]:
    return part if isinstance(part, np.ndarray) else part.array()


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


def _aligned(part: NDArray[np.bool_], shape: Shape) -> NDArray[np.bool_]:
    """``part`` with the number of axes of ``shape``: ones too many leave; new ones go in front, or behind the first
    axis where that is the partitions of both.
    """
    while part.ndim > len(shape):
        axis = next((a for a, size in enumerate(part.shape) if size == 1), None)
        if axis is None:
            break
        part = part.reshape(part.shape[:axis] + part.shape[axis + 1 :])
    more = len(shape) - part.ndim
    at = 1 if part.ndim > 1 and part.shape[0] == shape[0] and part.shape[0] not in (1, shape[more]) else 0
    part = part.reshape(part.shape[:at] + (1,) * more + part.shape[at:])
    for size, want in zip(part.shape, shape, strict=False):
        if size not in (1, want):
            raise Beta1MaskError(
                f"the mask has {part.shape} elements, the operation {shape}",
                fix="build the mask from the indices of the operation",
            )
    return part


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
        part = _aligned(_evaluated(raw), shape)
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
    if others:
        array = np.ones(shape, np.bool_)
        for axis, line in enumerate(lines):
            array &= line.reshape((-1, *(1,) * (len(shape) - axis - 1)))
        for part in others:
            array &= np.broadcast_to(part, shape)
        lines = [
            np.asarray(array.any(axis=tuple(a for a in range(len(shape)) if a != axis))) for axis in range(len(shape))
        ]
    else:
        array = None
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
    if array is None:
        array = np.ones(shape, np.bool_)
        for axis, line in enumerate(lines):
            array &= line.reshape((-1, *(1,) * (len(shape) - axis - 1)))
    inside = array[tuple(slice(*bound) for bound in box)]
    return Region(shape, tuple(box), None if inside.all() else inside)


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
