"""Index expressions: ``arange``, ``mgrid``, ``ds``, and what arithmetic and comparisons make of them.

Loops are unrolled, so an index is a grid of known integers. It stays affine in the axes of the grid under ``+``, ``-``
and ``*`` with numbers; a comparison gives a :class:`Mask`.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from nki.base.beta1_errors import Beta1FlowError, Beta1IndexError, Beta1MaskError
from nki.beta1.masks import Mask

Shape = tuple[int, ...]


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape to which all ``shapes`` can be repeated. Raises ``ValueError`` where there is none."""
    return tuple(np.broadcast_shapes(*shapes))


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

    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
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
        entries = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        shape: list[int] = []
        steps: list[int] = []
        rest = list(zip(self.shape, self.steps, strict=True))
        full = sum(entry is not None and entry is not Ellipsis for entry in entries)
        start = self.start
        for entry in (*entries, *([] if Ellipsis in entries else [Ellipsis])):
            if entry is None:
                shape.append(1)
                steps.append(0)
            elif entry is Ellipsis:
                for _ in range(len(rest) - full):
                    size, step = rest.pop(0)
                    shape.append(size)
                    steps.append(step)
            elif isinstance(entry, slice) and rest:
                full -= 1
                size, step = rest.pop(0)
                picked = range(size)[entry]
                shape.append(len(picked))
                steps.append(step * picked.step)
                start += step * (picked.start if picked else 0)
            elif isinstance(entry, int | np.integer) and rest:
                full -= 1
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
            shape = broadcast_shape(self.shape, other.shape)
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
            return self._scaled(other.start, broadcast_shape(self.shape, other.shape))
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

    def _compare(self, other: Any, test: Any) -> Any:
        if isinstance(other, Index) or as_number(other) is not None:
            difference = self - other
            mask = Mask(difference.shape, (_Comparison(difference, test),))
            mask.affine = (difference, _TESTS[test])
            return mask
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: an index is compared with {type(other).__name__} {other!r:.40}",
            fix="compare index expressions with each other and with integers",
        )

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __eq__(self, other: object) -> Any:
        return NotImplemented if other is None else self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return NotImplemented if other is None else self._compare(other, operator.ne)

    __hash__ = object.__hash__

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


class _Comparison:
    """The condition ``test(index, 0)``."""

    __slots__ = ("index", "shape", "test")

    def __init__(self, index: Index, test: Any) -> None:
        self.index = index
        self.test = test
        self.shape = tuple(size if step else 1 for size, step in zip(index.shape, index.steps, strict=True))

    def truth(self) -> bool | None:
        """The value of all elements, if the smallest and the largest integer decide it."""
        low, high = self.index.bounds()
        if self.test is operator.eq or self.test is operator.ne:
            if low <= 0 <= high and low < high:
                return None
            return (low == 0) == (self.test is operator.eq)
        first, last = self.test(low, 0), self.test(high, 0)
        return bool(first) if first == last else None

    def array(self) -> NDArray[np.bool_]:
        return np.asarray(self.test(self.index.values(), 0))


_TESTS: Final[dict[Any, str]] = {
    operator.lt: "less", operator.le: "less_equal", operator.gt: "greater", operator.ge: "greater_equal",
    operator.eq: "equal", operator.ne: "not_equal",
}  # fmt: skip


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
