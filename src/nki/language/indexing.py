"""Indexing: ``t[…]``, ``t.slice`` and ``t.select``. Nothing is clipped; errors are raised where the index is.

A view without elements may be made, as a kernel does that finds no work for its core; what uses it is refused.
"""

from __future__ import annotations

import math
import operator
from typing import Any, cast

from nki.base.errors import DynamicIndexError, IndexRangeError, keep_report
from nki.ir.types import Access, Dynamic, access_of, is_element_indexed, is_row_indexed
from nki.language.deferred_error import defer_error
from nki.language.dynamic import keep_elements, one_index, second_index
from nki.language.reversal import reversal

Index = int | slice | Any
Run = tuple[int, int, int, Access | None]
"""Part of a dimension that an index takes: start, number of elements (0: the dimension goes), step, run-time index."""
_NONE = -1
"""Stands for the number of elements of a slice that has none."""


class ds:
    """``nl.ds(start, size)``: the slice ``start : start + size``.

    ``start`` may be a register or a (1, 1) integer tile in SBUF: then the slice begins where it says at run time.
    """

    __slots__ = ("size", "start")

    def __init__(self, start: Any, size: int) -> None:
        self.start = start
        self.size = size

    def __repr__(self) -> str:
        at = access_of(self.start)
        start = at.name if isinstance(at, Access) else at
        return f"nl.ds({start}, {self.size})"


def index(t: Access, key: Index | tuple[Index, ...]) -> Access:
    """The part of the tensor that ``key`` names: integers, slices, ``nl.ds``, ``…`` and one index known at run time.

    On chip an integer keeps dimension 0, with size 1, and at least two dimensions remain; in HBM an integer removes its
    dimension. A register, or a (1, 1) integer tile in SBUF, chooses an element when the kernel runs; on chip it cannot
    choose the partition. Raises :class:`IndexRangeError` or :class:`DynamicIndexError`.
    """
    part = _slices(t, key) if t.__class__ is Access and t.dynamic is None and len(t.shape) == 2 else None
    return _index(t, key) if part is None else part


_ALL = slice(None)
_LISTED = (
    "; columns of a list are copied one by one, `nisa.tensor_copy(dst[:, k:k + 1], t[:, n:n + 1])`, or gathered by "
    "`nisa.nc_n_gather`; every second one is the slice `0:8:2`"
)
"""The way out of a list as an index."""


def _instead(item: Any, dim: int) -> str:
    """The way out of an index that is a list, an array or None."""
    if item is None:
        return f"; None adds no dimension: write t.expand_dim({dim}), which adds one of size 1"
    if isinstance(item, list):
        return "; not with arrays or None" + _LISTED
    if not hasattr(item, "dtype"):
        return ""
    return (
        "; not with arrays: equal distances are the slice start:stop:step, and rows of a tensor in HBM come from a "
        "tile of indices, `x.vector_select(0, rows)` or `x.ap(…, vector_offset=rows, indirect_dim=0)`"
    )


def _slices(t: Access, key: Any) -> Access | None:
    """The part of ``t``, a matrix, that slices of constants without a step take, as most indices are; else None.

    Without a loop: kernels index for most operands.
    """
    rows, columns = key if key.__class__ is tuple and len(key) == 2 else (key, _ALL)
    if rows.__class__ is not slice or columns.__class__ is not slice or not (rows.step is None is columns.step):
        return None
    offset, (height, width) = t.offset, t.shape
    start, stop = rows.start, rows.stop
    if start.__class__ is int and stop.__class__ is int and 0 <= start < stop <= height:
        offset += start * t.strides[0]
        height = stop - start
    elif start is not None or stop is not None:
        return None
    start, stop = columns.start, columns.stop
    if start.__class__ is int and stop.__class__ is int and 0 <= start < stop <= width:
        offset += start * t.strides[1]
        width = stop - start
    elif start is not None or stop is not None:
        return None
    return Access(t.tensor, offset, (height, width), t.strides, t.dtype, None, t.inside)


def _too_many(t: Access, keys: tuple[Any, ...]) -> IndexRangeError:
    new = next((dim for dim, item in enumerate(keys) if item is None), None)
    if new is not None:
        return IndexRangeError(
            f"index None of '{t.name}' of shape {t.shape}: an index adds no dimension",
            fix=f"leave None out and write t.expand_dim({new}), which adds a dimension of size 1",
        )
    return IndexRangeError(
        f"'{t.name}' of shape {t.shape} has {len(t.shape)} dimensions; {len(keys)} indices were given",
        fix="give at most one index per dimension",
    )


def _index(t: Access, key: Any) -> Access:
    """The part of ``t`` that indices of any kind take."""
    keys: Any = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]  # cast() would take as long as the rest
    indexed, shape, strides = len(keys), t.shape, t.strides
    for item in keys:
        if item is Ellipsis:
            keys = _spread(keys, len(shape))
            indexed = len(keys)
            break
    if indexed > len(shape):
        raise _too_many(t, keys)
    dynamic = t.dynamic
    if dynamic is not None and keys:
        _chosen_stay(t, keys)
    offset, empty = t.offset, None
    sizes: list[int] = []
    steps: list[int] = []
    on_chip = t.tensor.buffer.on_chip
    for dim, item in enumerate(keys):
        size = shape[dim]
        if type(item) is slice and item.step is None:
            start, stop = item.start, item.stop
            if start is None and stop is None:
                sizes.append(size)
                steps.append(strides[dim])
                continue
            if type(start) is int and type(stop) is int and 0 <= start < stop <= size:
                offset += start * strides[dim]
                sizes.append(stop - start)
                steps.append(strides[dim])
                continue
            start, count, step = _slice(t, dim, item)
        elif type(item) is int:
            start, count, step = item if 0 <= item < size else _select(t, dim, item), 0, 1
        elif type(item) is ds and type(item.start) is int:
            start, count, step, _ = _window(t, dim, item)
        else:
            start, count, step, source = _other(t, dim, item)
            if source is not None:
                if dynamic is not None:
                    raise second_index(t, dynamic)
                dynamic = Dynamic(source, strides[dim])
        offset += start * strides[dim]
        if count > 0:
            sizes.append(count)
            steps.append(strides[dim] * step)
        elif count == _NONE:
            empty = dim
            sizes.append(0)
            steps.append(strides[dim])
        elif dim == 0 and on_chip:
            sizes.append(1)
            steps.append(strides[0])
    sizes.extend(shape[indexed:])
    steps.extend(strides[indexed:])
    if len(sizes) < 1 + on_chip:
        sizes.append(1)
        steps.append(1)
    inside = t.inside and dynamic is None is empty
    view = t.__class__(t.tensor, offset, tuple(sizes), tuple(steps), t.dtype, dynamic, inside)
    return view if empty is None else defer_error(view, _no_elements(t, empty, keys[empty]))


def _no_elements(t: Access, dim: int, item: Any) -> IndexRangeError:
    taken = _shown(cast(slice, item)) if isinstance(item, slice) else repr(item)
    return IndexRangeError(
        f"{taken} of dimension {dim} of '{t.name}' {t.shape} has no elements, and an instruction uses it",
        fix="skip the work for an empty piece with an if",
    )


def _reversal_of(t: Access, dim: int, taken: range) -> str:
    """The fix for a slice that steps backwards through the elements ``taken`` of a dimension."""
    steps = [math.prod(t.shape[at + 1 :]) for at in range(t.ndim)]
    pattern = list(zip(steps, t.shape, strict=True))
    pattern[dim] = steps[dim] * taken.step, len(taken)
    return reversal(t.name, t.buffer, dim, pattern, taken.start * steps[dim] if dim else 0)


def _spread(keys: tuple[Index, ...], dimensions: int) -> tuple[Index, ...]:
    """``keys`` with whole slices in place of the first ``…``."""
    at = next(i for i, item in enumerate(keys) if item is Ellipsis)
    return keys[:at] + (slice(None),) * (dimensions - len(keys) + 1) + keys[at + 1 :]


def slice_of(t: Access, dim: int, start: int, end: int, step: int = 1) -> Access:
    """``t`` with elements ``start`` to ``end`` (exclusive) of dimension ``dim``, every ``step``-th."""
    at = dimension(t, dim, "slice")
    taken = slice(start, end, step)
    if any(_negative(bound) for bound in (start, end)):
        raise IndexRangeError(
            f"slice {_shown(taken)} of dimension {at} of '{t.name}' {t.shape} counts from the end; .slice() takes "
            f"bounds from 0 to {t.shape[at]}",
            fix="write t[…], which takes negative bounds, or add the dimension's size",
        )
    return index(t, (slice(None),) * at + (taken,))


def select(t: Access, dim: int, at: Any) -> Access:
    """``t`` at element ``at`` of dimension ``dim``, which goes: an integer, or an index known at run time."""
    where = dimension(t, dim, "select")
    if at is Ellipsis or isinstance(at, slice | ds):
        raise IndexRangeError(
            f"select of dimension {where} of '{t.name}' {t.shape} got {at!r}, not one index", fix="use t[…] for slices"
        )
    if _negative(at):
        raise IndexRangeError(
            f"index {at} of dimension {where} of '{t.name}' {t.shape} counts from the end; .select() takes 0 to "
            f"{t.shape[where] - 1}",
            fix="write t[…], which takes negative indices, or add the dimension's size",
        )
    return index(t, (slice(None),) * where + (at,))


def dimension(t: Access, dim: Any, what: str, count: int | None = None) -> int:
    """``dim`` from 0, after checking that it is one of ``count`` (else the tensor's) dimensions."""
    limit = t.ndim if count is None else count
    try:
        at = operator.index(dim)
    except TypeError as misfit:
        keep_report(misfit)
        at = limit
    if not -limit <= at < limit:
        raise IndexRangeError(
            f"{what}: dimension {dim!r} of '{t.name}' {t.shape}, which has {t.ndim} dimensions",
            fix=f"use a dimension from 0 to {limit - 1}, or from -{limit} to -1",
        )
    return at + limit if at < 0 else at


def _negative(bound: Any) -> bool:
    return not isinstance(bound, Access) and hasattr(bound, "__index__") and operator.index(bound) < 0


def _chosen_stay(t: Access, keys: tuple[Any, ...]) -> None:
    """Check that an index takes all rows, or elements, of a view that run-time indices choose."""
    if is_row_indexed(t) and not _takes_all(t, 0, keys[0]):
        raise DynamicIndexError(
            f"dimension 0 of '{t.name}' {t.shape} is indexed; its {t.shape[0]} rows are chosen at run time",
            fix="slice the column of indices before using it, and index the other dimensions: t[:, …]",
        )
    if is_element_indexed(t) and not all(_takes_all(t, dim, key) for dim, key in enumerate(keys)):
        keep_elements(t, "a part")


def _takes_all(t: Access, dim: int, key: Any) -> bool:
    numbers = _range_of(key)
    key = key if numbers is None else _slice_through(numbers)
    return isinstance(key, slice) and _slice(t, dim, cast(slice, key)) == (0, t.shape[dim], 1)


def _other(t: Access, dim: int, item: Any) -> Run:
    """The slow cases of an index."""
    if isinstance(item, slice):
        return (*_slice(t, dim, cast(slice, item)), None)
    if isinstance(item, ds):
        return _window(t, dim, item)
    numbers = _range_of(item)
    if numbers is not None:
        return (*_slice(t, dim, _slice_through(numbers)), None)
    source = access_of(item)
    if isinstance(source, Access):
        return 0, 0, 1, one_index(t, dim, source)
    try:
        at = None if isinstance(item, bool) else operator.index(item)
    except TypeError as misfit:
        keep_report(misfit)
        at = None
    if at is None:
        listed = _steps_of(item)
        raise IndexRangeError(
            f"index {item!r:.40} ({type(item).__name__}) into dimension {dim} of '{t.name}' {t.shape}",
            fix=f"write the slice {_shown(_slice_through(listed))}"
            if listed
            else "index with integers, slices, nl.ds(start, size), … and registers" + _instead(item, dim),
        )
    return _select(t, dim, at), 0, 1, None


def _range_of(item: Any) -> range | None:
    """The numbers of an index that is a range, or ``nl.affine_range``."""
    numbers: object = getattr(item, "numbers", item)
    return numbers if isinstance(numbers, range) else None


def _steps_of(item: object) -> range | None:
    """The numbers of a list that has them at equal steps."""
    numbers = cast("list[Any]", item) if isinstance(item, list) else []
    if not numbers or not all(type(number) is int for number in numbers):
        return None
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    found = range(numbers[0], numbers[-1] + (1 if step > 0 else -1), step) if step else range(0)
    return found if list(found) == numbers else None


def _slice_through(numbers: range) -> slice:
    """The slice through the elements ``numbers``."""
    if not numbers:
        return slice(numbers.start, numbers.start)
    backwards = numbers.step < 0
    end = numbers[-1] + (-1 if backwards else 1)
    return slice(numbers[0], None if end < 0 else end, None if numbers.step == 1 else numbers.step)


def _window(t: Access, dim: int, item: ds) -> Run:
    size = t.shape[dim]
    start = item.start if type(item.start) is int else access_of(item.start)
    moving = start if isinstance(start, Access) else None
    try:
        start = 0 if moving is not None else operator.index(cast(Any, start))
        count = operator.index(item.size)
    except TypeError as misfit:
        keep_report(misfit)
        raise IndexRangeError(
            f"{item!r} of dimension {dim} of '{t.name}' {t.shape} has a bound that is no integer",
            fix="slice with integers known at compile time; only the start may be a register or a (1, 1) tile",
        ) from None
    first = start + size if start < 0 else start
    if count < 0 or not 0 <= first <= size - count:
        raise IndexRangeError(
            f"{item!r} of dimension {dim} of '{t.name}' {t.shape} leaves the dimension, which has size {size}",
            fix=f"keep start + size <= {size}, and size at least 0",
        )
    return first, count or _NONE, 1, None if moving is None else one_index(t, dim, moving)


def _select(t: Access, dim: int, at: int) -> int:
    size = t.shape[dim]
    if not -size <= at < size:
        raise IndexRangeError(
            f"index {at} is outside dimension {dim} of '{t.name}' {t.shape}, which has size {size}",
            fix=f"use an index from 0 to {size - 1}",
        )
    return at + size if at < 0 else at


def _slice(t: Access, dim: int, item: slice) -> tuple[int, int, int]:
    size = t.shape[dim]
    try:
        step = 1 if item.step is None else operator.index(item.step)
        start = 0 if item.start is None else operator.index(item.start)
        stop = size if item.stop is None else operator.index(item.stop)
    except TypeError as misfit:
        keep_report(misfit)
        raise IndexRangeError(
            f"slice {_shown(item)} of dimension {dim} of '{t.name}' {t.shape} has a bound that is no integer",
            fix="slice with integers known at compile time; nl.ds(start, size) takes a start known at run time",
        ) from None
    start, stop = (start + size if start < 0 else start), (stop + size if stop < 0 else stop)
    if step < 1 or not (0 <= start <= stop <= size):
        backwards = step < 0 and len(range(*item.indices(size)))
        raise IndexRangeError(
            f"slice {_shown(item)} of dimension {dim} of '{t.name}' {t.shape} "
            + (f"has step {step}" if step < 1 else f"leaves the dimension, which has size {size}"),
            fix=_reversal_of(t, dim, range(size)[item])
            if backwards
            else f"keep 0 <= start <= stop <= {size}, for example with min(stop, {size}), and a positive step",
        )
    return start, -(-(stop - start) // step) or _NONE, step


def _shown(item: slice) -> str:
    parts = [access_of(p) for p in ([item.start, item.stop] + ([item.step] if item.step is not None else []))]
    return ":".join("" if p is None else p.name if isinstance(p, Access) else str(p) for p in parts)


__all__ = ["Index", "dimension", "ds", "index", "select", "slice_of"]
