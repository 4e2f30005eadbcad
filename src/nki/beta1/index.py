"""Index expressions: ``arange``, ``mgrid``, ``ds``, and what arithmetic and comparisons make of them.

Loops are unrolled, so an index is a grid of known integers. It stays affine in the axes of the grid under ``+``, ``-``
and ``*`` with numbers; a comparison gives a :class:`Mask`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from nki.base.beta1_errors import Beta1FlowError, Beta1IndexError, Beta1MaskError
from nki.base.python_operators import EQUALITIES, ORDERINGS

Shape = tuple[int, ...]
Box = tuple[tuple[int, int], ...]
"""Start and end on each axis."""


class Index:
    """A grid of integers ``start + sum(steps[axis] * i[axis])`` of ``shape``."""

    __slots__ = ("shape", "start", "steps")
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class

    def __init__(self, start: int, shape: Shape, steps: Shape) -> None:
        self.start = start
        self.shape = shape
        self.steps = tuple(0 if size == 1 else step for size, step in zip(shape, steps, strict=True))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return np.dtype(np.int32)

    def expanded(self, ndim: int) -> tuple[Shape, Shape]:
        """Shape and steps with ``ndim`` axes, new ones in front."""
        more = ndim - len(self.shape)
        return (1,) * more + self.shape, (0,) * more + self.steps

    def over(self, box: Box) -> Index:
        """The part of the grid within ``box``."""
        start = self.start + sum(step * a for step, (a, _) in zip(self.steps, box, strict=True))
        return Index(start, tuple(b - a for a, b in box), self.steps)

    def arranged(self, axes: Sequence[int | None]) -> Index:
        """The grid with axis ``axes[i]`` as axis ``i``; None: a new one of size 1."""
        shape = tuple(1 if axis is None else self.shape[axis] for axis in axes)
        return Index(self.start, shape, tuple(0 if axis is None else self.steps[axis] for axis in axes))

    def bounds(self, where: NDArray[np.bool_] | None = None) -> tuple[int, int]:
        """The smallest and the largest integer, of those that ``where`` chooses if it is given."""
        if where is not None:
            chosen = np.broadcast_to(self.values(), where.shape)[where]
            return int(chosen.min()), int(chosen.max())
        ends = [step * (size - 1) for step, size in zip(self.steps, self.shape, strict=True)]
        return self.start + sum(min(e, 0) for e in ends), self.start + sum(max(e, 0) for e in ends)

    def values(self) -> NDArray[np.int64]:
        """The integers, with size 1 on axes that they do not depend on."""
        total: Any = np.int64(self.start)
        for axis, (size, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            if step:
                line = np.arange(size, dtype=np.int64) * step
                total = total + line.reshape((size, *(1,) * (len(self.shape) - axis - 1)))
        return np.asarray(total).reshape(
            tuple(size if step else 1 for size, step in zip(self.shape, self.steps, strict=True))
        )

    def __getitem__(self, key: Any) -> Index:
        if len(self.shape) == 1:
            if key == _COLUMN:
                return _made(self.start, (self.shape[0], 1), (self.steps[0], 0))
            if key == _ROW:
                return _made(self.start, (1, self.shape[0]), (0, self.steps[0]))
        entries = list(cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,)))
        given = sum(entry is not None and entry is not Ellipsis for entry in entries)
        at = next((place for place, entry in enumerate(entries) if entry is Ellipsis), len(entries))
        entries[at : at + 1] = [slice(None)] * (len(self.shape) - given)
        shape: list[int] = []
        steps: list[int] = []
        start, rest = self.start, list(zip(self.shape, self.steps, strict=True))
        for entry in entries:
            if entry is None:
                shape.append(1)
                steps.append(0)
            elif isinstance(entry, slice) and rest:
                size, step = rest.pop(0)
                picked = range(size)[entry]
                shape.append(len(picked))
                steps.append(step * picked.step)
                start += step * (picked.start if picked else 0)
            elif isinstance(entry, int | np.integer) and rest:
                _, step = rest.pop(0)
                start += step * int(cast("int", entry))
            else:
                raise Beta1IndexError(
                    f"an index of shape {self.shape} cannot be indexed with {entry!r:.40}",
                    fix="add axes with None: nl.arange(128)[:, None]",
                )
        return Index(start, tuple(shape), tuple(steps))

    def _combined(self, other: Any, sign: int) -> Any:
        if type(other) is int:
            return _made(self.start + sign * other, self.shape, self.steps)
        if isinstance(other, Index):
            shape = tuple(np.broadcast_shapes(self.shape, other.shape))
            mine, others = self.expanded(len(shape))[1], other.expanded(len(shape))[1]
            steps = tuple(a + sign * b for a, b in zip(mine, others, strict=True))
            return Index(self.start + sign * other.start, shape, steps)
        number = as_number(other)
        return NotImplemented if number is None else Index(self.start + sign * number, self.shape, self.steps)

    def __add__(self, other: Any) -> Any:
        return self._combined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combined(other, -1)

    def __neg__(self) -> Index:
        return Index(-self.start, self.shape, tuple(-s for s in self.steps))

    def __rsub__(self, other: Any) -> Any:
        return (-self)._combined(other, 1)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Index) and not any(other.steps):
            return self._scaled(other.start, tuple(np.broadcast_shapes(self.shape, other.shape)))
        if isinstance(other, Index) and not any(self.steps):
            return other * self
        number = as_number(other)
        return NotImplemented if number is None else self._scaled(number, self.shape)

    def _scaled(self, number: int, shape: Shape) -> Index:
        steps = self.expanded(len(shape))[1]
        return Index(self.start * number, shape, tuple(s * number for s in steps))

    __rmul__ = __mul__

    def _exact(self, other: Any, what: str) -> int:
        number = as_number(other)
        if number is None or number == 0:
            raise Beta1IndexError(
                f"`index {what} {other!r:.40}` is not affine in the index", fix="use +, - and * with integers"
            )
        return number

    def __floordiv__(self, other: Any) -> Index:
        number = self._exact(other, "//")
        if any(step % number for step in self.steps):
            return self._irregular(self.values() // number, "//", number)
        return Index(self.start // number, self.shape, tuple(step // number for step in self.steps))

    def __mod__(self, other: Any) -> Index:
        number = self._exact(other, "%")
        if any(step % number for step in self.steps):
            return self._irregular(self.values() % number, "%", number)
        return Index(self.start % number, self.shape, (0,) * len(self.shape))

    def _irregular(self, values: NDArray[np.int64], sign: str, number: int) -> Index:
        """``values`` as an index if they happen to be affine."""
        steps: list[int] = []
        for axis, size in enumerate(values.shape):
            step = int(np.take(values, 1, axis).flat[0] - values.flat[0]) if size > 1 else 0
            steps.append(step)
        index = Index(int(values.flat[0]), self.shape, tuple(steps))
        if not (np.broadcast_to(index.values(), values.shape) == values).all():
            raise Beta1IndexError(
                f"`index {sign} {number}` is not affine in the index: its steps differ",
                fix="index with several arange axes, one for each digit",
            )
        return index

    def compared(self, other: Any, name: str) -> Mask:
        """The mask of a comparison by the operator ``name``."""
        if isinstance(other, Index) or as_number(other) is not None:
            difference = self - other
            return Mask(difference.shape, (Comparison(difference, name),))
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: an index is compared with {type(other).__name__} {other!r:.40}",
            fix="compare index expressions with each other and with integers",
        )

    def __bool__(self) -> NoReturn:
        raise Beta1FlowError(
            "control_flow_condition_depending_on_arange: an index of arange is used as a condition",
            fix="pass the comparison as mask= of the operations",
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise Beta1IndexError("cannot_assign_to_index: an index cannot be assigned to", fix="make a new index")

    def __repr__(self) -> str:
        return f"Index(start={self.start}, shape={self.shape}, steps={self.steps})"


_COLUMN: Final = (slice(None), None)
_ROW: Final = (None, slice(None))


def _made(start: int, shape: Shape, steps: Shape) -> Index:
    """An index with steps that are 0 already where its size is 1."""
    index = Index.__new__(Index)
    index.start, index.shape, index.steps = start, shape, steps
    return index


class Comparison:
    """The condition that an index and 0 fulfil, which is evaluated where its elements matter."""

    __slots__ = ("index", "name", "shape", "test")

    def __init__(self, index: Index, name: str) -> None:
        self.index = index
        self.name = name
        """The name of the operator."""
        self.test = _TESTS[name]
        self.shape = tuple(size if step else 1 for size, step in zip(index.shape, index.steps, strict=True))
        """The shape of :meth:`array`: size 1 on axes on which it does not depend."""

    def truth(self) -> bool | None:
        """The value of all elements, if the smallest and the largest integer decide it."""
        low, high = self.index.bounds()
        if self.name in ("equal", "not_equal"):
            if low <= 0 <= high and low < high:
                return None
            return (low == 0) == (self.name == "equal")
        first, last = self.test(low, 0), self.test(high, 0)
        return bool(first) if first == last else None

    def array(self) -> NDArray[np.bool_]:
        return np.asarray(self.test(self.index.values(), 0))


_TESTS: Final = {row.function: getattr(operator, row.method) for row in (*ORDERINGS, *EQUALITIES)}


def _comparing(name: str) -> Any:
    def method(self: Index, other: Any) -> Any:
        return NotImplemented if other is None and name in ("equal", "not_equal") else self.compared(other, name)

    return method


for _row in (*ORDERINGS, *EQUALITIES):
    setattr(Index, f"__{_row.method}__", _comparing(_row.function))


Part = NDArray[np.bool_] | Comparison


class Mask:
    """A conjunction of conditions over the axes of an operation; each is an array with size 1 on other axes."""

    __slots__ = ("parts", "shape")
    __array_ufunc__ = None

    def __init__(self, shape: Shape, parts: tuple[Part, ...]) -> None:
        self.shape = shape
        self.parts = parts

    @classmethod
    def of(cls, shape: Shape, array: NDArray[np.bool_]) -> Mask:
        """The mask of one condition."""
        return cls(shape, (np.asarray(array, np.bool_),))

    @property
    def comparison(self) -> Comparison | None:
        """The comparison that the mask is; None if it is anything else."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Comparison) else None

    def __and__(self, other: Any) -> Mask:
        if isinstance(other, Mask):
            shape = tuple(np.broadcast_shapes(self.shape, other.shape))
            return Mask(shape, (*self.parts, *other.parts))
        if isinstance(other, bool | np.bool_):
            return self if other else Mask(self.shape, (np.zeros((1,) * len(self.shape), np.bool_),))
        raise _not_joined(other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Mask:
        if isinstance(other, Mask):
            shape = tuple(np.broadcast_shapes(self.shape, other.shape))
            return Mask.of(shape, self.array(shape) | other.array(shape))
        if isinstance(other, bool | np.bool_):
            return Mask.of(self.shape, np.ones((1,) * len(self.shape), np.bool_)) if other else self
        raise _not_joined(other)

    __ror__ = __or__

    def __invert__(self) -> Mask:
        return Mask.of(self.shape, ~self.array(self.shape))

    def array(self, shape: Shape) -> NDArray[np.bool_]:
        """The mask over ``shape``."""
        result = np.ones(shape, np.bool_)
        for part in self.parts:
            result &= np.broadcast_to(aligned(part, shape), shape)
        return result

    def __bool__(self) -> NoReturn:
        raise Beta1FlowError(
            "control_flow_condition_depending_on_arange: a comparison of indices is used as a condition",
            fix="pass it as mask=, and join comparisons with &: (a <= i) & (i < b) instead of `and` or a <= i < b",
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise Beta1MaskError("cannot_assign_to_index: a mask cannot be assigned to", fix="make a new mask")


def _not_joined(other: Any) -> Beta1MaskError:
    return Beta1MaskError(
        f"unsupported_expression_in_mask: a mask is joined with {type(other).__name__}",
        fix="join comparisons of index expressions with &, each in parentheses",
    )


def aligned(condition: Part, shape: Shape) -> NDArray[np.bool_]:
    """``condition`` with as many axes as ``shape``: ones too many leave; new ones go in front, or behind the first axis
    where that is the partitions of both.
    """
    part: Any = condition if isinstance(condition, np.ndarray) else condition.array()
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


def as_number(value: Any) -> int | None:
    """``value`` as an int if it is a whole number of Python or NumPy, else None."""
    if isinstance(value, int | np.integer):
        return int(cast("int", value))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and cast("Any", value).dtype.kind in "iu":
        return int(cast("Any", value))
    return None


@functools.lru_cache(1024)
def _counted(count: int) -> Index:
    return Index(0, (count,), (1,))


def arange(*args: Any) -> Index:
    """``arange(stop)``, ``arange(start, stop)`` or ``arange(start, stop, step)``: an index along one axis.

    Add axes with ``[:, None]``; an index of one axis alone is an error where it indexes a tensor.
    """
    if len(args) == 1 and type(args[0]) is int and args[0] > 0:
        return _counted(args[0])
    numbers = [as_number(a) for a in args]
    if not 1 <= len(numbers) <= 3 or None in numbers:
        raise Beta1IndexError(f"nl.arange{args!r:.60} takes one to three integers", fix="write nl.arange(128)")
    picked = range(*cast("list[int]", numbers))
    if not picked:
        raise Beta1IndexError(f"nl.arange{args!r:.60} is empty", fix="give it at least one integer")
    return Index(picked.start, (len(picked),), (picked.step,))


class Grid(tuple[Index, ...]):
    """The indices of ``mgrid``: a tuple, also with the names ``p``, ``x``, ``y``, ``z`` and ``w``."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Index:
        position = "pxyzw".find(name) if len(name) == 1 else -1
        if not 0 <= position < len(self):
            raise AttributeError(f"this mgrid has {len(self)} axes, and no attribute {name!r}")
        return self[position]


class MGrid:
    """``nl.mgrid[0:128, 0:512]``: an index for each slice, all of one shape."""

    def __getitem__(self, key: Any) -> Grid:
        slices = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        ranges: list[range] = []
        for part in slices:
            bounds: Any = part
            if not isinstance(part, slice) or as_number(bounds.stop) is None:
                raise Beta1IndexError(f"nl.mgrid[{bounds!r:.40}] is no slice with an end", fix="write nl.mgrid[0:128]")
            numbers = [as_number(bounds.start or 0), as_number(bounds.stop), as_number(bounds.step or 1)]
            ranges.append(range(*cast("list[int]", numbers)))
        shape = tuple(len(r) for r in ranges)
        if 0 in shape:
            raise Beta1IndexError(f"nl.mgrid of shape {shape} is empty", fix="give each slice at least one integer")
        return Grid(
            Index(r.start, shape, tuple(r.step if axis == own else 0 for axis in range(len(shape))))
            for own, r in enumerate(ranges)
        )


mgrid: Final = MGrid()


def ds(start: Any, size: Any) -> slice:
    """The slice of ``size`` elements from ``start``."""
    first, count = as_number(start), as_number(size)
    if first is None or count is None:
        if hasattr(start, "access") and count is not None:
            return slice(start, DynamicEnd(count))
        raise Beta1IndexError(f"nl.ds({start!r:.40}, {size!r:.40}) takes two integers", fix="write nl.ds(0, 128)")
    return slice(first, first + count)


class DynamicEnd:
    """The end of a slice of ``count`` elements that begins at a run-time index."""

    def __init__(self, count: int) -> None:
        self.count = count
