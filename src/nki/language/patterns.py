"""Views that name memory itself: access patterns (``ap``) and other element types (``view``).

Limits: NKI access-pattern guide. A pattern is ``[[step, count], …]``, outermost first, in elements of the view's dtype.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final, cast

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.errors import DynamicIndexError, IndexRangeError, NkiError, ViewError, keep_report
from nki.base.source import here
from nki.base.warning import warn_at
from nki.ir.types import Access, Dynamic, IndexKind, access_of
from nki.ir.windows import is_contiguous
from nki.language.deferred_error import defer_error
from nki.language.dynamic import column_index, one_index
from nki.language.indexing import dimension
from nki.language.reversal import reversal
from nki.target.memory_spaces import ACCESS_PATTERN_DIMS

_Pairs = Sequence[tuple[int, int]]


def ap(
    t: Access, pattern: Any, offset: Any, scalar_offset: Any, vector_offset: Any, indirect_dim: int, dtype: DType | None
) -> Access:
    """The elements of the storage of ``t`` at ``offset + index_0 * step_0 + index_1 * step_1 + …``."""
    kind = t.dtype if dtype is None else dt.of(dtype)
    pairs = _pairs(t, pattern)
    given = tuple(pairs)
    key: tuple[object, ...] | None = None
    is_plain = scalar_offset is None is vector_offset is t.dynamic and t.__class__ is Access
    if is_plain and (offset is None or (type(offset) is int and not t.offset)):  # what a warning is due for has no key
        key = t.tensor.form, t.form, t.offset, given, offset, kind
        window = _windows.get(key)
        if window is not None:
            return Access(t.tensor, *window, kind)
    if t.dynamic is not None:
        raise DynamicIndexError(
            f"ap on a view of '{t.name}' that is indexed at run time by '{t.dynamic.source.name}': ap addresses "
            "storage, and the index would be lost",
            fix="call ap on the tensor itself, with scalar_offset= or vector_offset=",
        )
    start = _start_in_view(t, pairs, offset, kind) if t.buffer.on_chip else None
    if start is None:
        start = _start(t, offset, kind)
    else:
        pairs[0] = (t.tensor.bytes_per_partition // kind.itemsize, pairs[0][1])
    _check_forwards(t, given, start, kind)
    dynamic = None
    if scalar_offset is not None and vector_offset is not None:
        raise DynamicIndexError(
            f"ap on '{t.name}' {t.shape} with scalar_offset and vector_offset; a view has one run-time index",
            fix="pass one of the two",
        )
    if vector_offset is not None:
        column = column_index(t, dimension(t, indirect_dim, "ap"), vector_offset, "ap", columns=True)
        if column.size < pairs[0][1]:
            raise ViewError(
                f"ap on '{t.name}' {t.shape}: pattern {_shown(given)} has {pairs[0][1]} rows, and vector_offset "
                f"'{column.name}' {column.shape} has {column.size} indices",
                fix=f"make the first count {column.size}, or pass {pairs[0][1]} indices",
            )
        dynamic = Dynamic(column, _index_step(t, 0, kind), IndexKind.rows)
        pairs[0] = (0, pairs[0][1])
    elif scalar_offset is not None:
        dim = dimension(t, indirect_dim, "ap")
        source = access_of(scalar_offset)
        if not isinstance(source, Access):
            raise IndexRangeError(
                f"ap on '{t.name}' {t.shape}: scalar_offset={scalar_offset!r:.40} ({type(scalar_offset).__name__}) is "
                "neither a register nor a (1, 1) tile",
                fix="add an offset that is known when the kernel is compiled to offset=",
            )
        dynamic = Dynamic(one_index(t, dim, source), _index_step(t, dim, kind))
    problem = _partition_problem(t, pairs, given, start, kind) if t.buffer.on_chip else None
    problem = problem or _extent_problem(t, pairs, given, start, kind)
    shape, strides = tuple([n for _, n in pairs]), tuple([s for s, _ in pairs])
    if problem is not None:
        return defer_error(t.__class__(t.tensor, start, shape, strides, kind, dynamic), problem)
    if key is not None:
        _note_window(key, (start, shape, strides))
    return t.__class__(t.tensor, start, shape, strides, kind, dynamic)


_Window = tuple[int, tuple[int, ...], tuple[int, ...]]
_windows: dict[tuple[object, ...], _Window] = {}
"""Start, shape and strides of patterns that were checked, by all that they depend on: kernels repeat theirs."""
_MOST_WINDOWS: Final = 1 << 14


def _note_window(key: tuple[object, ...], window: _Window) -> None:
    if len(_windows) >= _MOST_WINDOWS:
        _windows.clear()
    _windows[key] = window


def view(t: Access, dtype: Any) -> Access:
    """The bytes of ``t`` as elements of ``dtype``; the last dimension's size follows the sizes of the types."""
    kind = dt.of(dtype)
    old, new = t.dtype.itemsize, kind.itemsize
    if old == new:
        return t.__class__(t.tensor, t.offset, t.shape, t.strides, kind, t.dynamic)
    what = f"view of '{t.name}' {t.shape} {t.dtype} as {kind}"
    if t.dynamic is not None:
        raise DynamicIndexError(
            f"{what}: it is indexed at run time, in elements of {old} bytes; elements of {kind} have {new}",
            fix="view the tensor first, and index it then",
        )
    last = t.shape[-1]
    if last != 1 and t.strides[-1] != 1:
        raise ViewError(
            f"{what}: its last dimension is not contiguous, its elements lie {t.strides[-1]} apart",
            fix="view the tensor before slicing or permuting it, or copy it to a tile of its own",
        )
    if new < old:
        ratio = old // new
        strides = (*(s * ratio for s in t.strides[:-1]), 1)
        return t.__class__(t.tensor, t.offset * ratio, (*t.shape[:-1], last * ratio), strides, kind)
    ratio = new // old
    if last % ratio:
        raise ViewError(
            f"{what}: an element takes {ratio} of its last dimension, which has {last}",
            fix=f"make the last dimension a multiple of {ratio}",
        )
    _check_storage(t, kind)
    uneven = [s for s, n in zip(t.strides[:-1], t.shape[:-1], strict=True) if n > 1 and s % ratio]
    if t.offset % ratio or uneven:
        place = f"starts at element {t.offset}" if t.offset % ratio else f"steps by {uneven[0]} elements"
        raise ViewError(
            f"{what}: it {place} of its storage, which is no multiple of {ratio}",
            fix=f"start and step at multiples of {ratio} elements",
        )
    strides = (*(s // ratio for s in t.strides[:-1]), 1)
    return t.__class__(t.tensor, t.offset // ratio, (*t.shape[:-1], last // ratio), strides, kind)


def get_pattern(t: Access) -> list[list[int]]:
    """``[[step, count], …]`` of the dimensions, outermost first; the caller may change it."""
    return [[step, count] for step, count in t.pattern()]


def _pairs(t: Access, pattern: Any) -> list[tuple[int, int]]:
    """``pattern`` as pairs of a step and a count, after the checks that depend on it alone."""
    entries = list(cast("list[Any]", pattern)) if isinstance(pattern, tuple | list) else []
    pairs: list[tuple[int, int]] = []
    for entry in entries:
        try:
            step, count = entry
            if step.__class__ is not int or count.__class__ is not int:
                step, count = int(operator.index(step)), int(operator.index(count))  # True is an index, too
            pairs.append((step, count))
        except (TypeError, ValueError) as misfit:
            keep_report(misfit)
            raise ViewError(
                f"ap on '{t.name}' {t.shape}: {entry!r} in the pattern is not a pair of integers [step, count]",
                fix=_EXAMPLE,
            ) from None
    if not pairs:
        raise ViewError(f"ap on '{t.name}' {t.shape}: pattern {pattern!r:.60} is no list of pairs", fix=_EXAMPLE)
    for step, count in pairs:
        if count < 1:
            raise ViewError(
                f"ap on '{t.name}' {t.shape}: [{step}, {count}] in pattern {_shown(pairs)} has {count} elements",
                fix="use steps of at least 0 and counts of at least 1",
            )
    return pairs


def _check_forwards(t: Access, pairs: _Pairs, start: int, kind: DType) -> None:
    """Raise unless all steps are forwards. No document says that engines step backwards, and the release notes of the
    runtime (2.31, 2.32) say that DMA with such steps moved wrong data before.
    """
    row = max(1, t.tensor.nbytes // t.tensor.shape[0] // kind.itemsize)
    for dim, (step, count) in enumerate(pairs):
        if step < 0:
            raise ViewError(
                f"ap on '{t.name}' {t.shape}: [{step}, {count}] in pattern {_shown(pairs)} steps backwards by {-step}",
                fix=reversal(t.name, t.buffer, dim, pairs, start % row),
            )


_EXAMPLE = "pass a list of pairs, outermost dimension first, such as [[64, 128], [1, 64]]"


def _start_in_view(t: Access, pairs: list[tuple[int, int]], offset: Any, kind: DType) -> int | None:
    """The first element, in the storage, of a pattern that counts in the elements of the view, on chip; else None.

    A pattern counts in the storage (NKI access-pattern guide), or in the view (NKI reference, ``ap``, and the public
    library). The step from one partition to the next tells them apart: only one of both can be meant.
    """
    (step, count), *inner = pairs
    free, width = t.tensor.bytes_per_partition, math.prod(t.shape[1:]) * t.dtype.itemsize
    if count == 1 or step * kind.itemsize != width or width == free or type(offset) not in (int, type(None)):
        return None
    if free % kind.itemsize or t.strides[0] * t.dtype.itemsize != free or not is_contiguous(t):
        return None
    first, misfit = divmod(t.offset * t.dtype.itemsize, kind.itemsize)
    row, column = divmod(offset or 0, step)
    outside = row < 0 or row + count > t.shape[0] or column + sum((n - 1) * s for s, n in inner) >= step
    return None if misfit or outside else first + row * (free // kind.itemsize) + column


def _start(t: Access, offset: Any, kind: DType) -> int:
    """The first element of the pattern: ``offset`` from the start of the storage, or the start of the view."""
    size = kind.itemsize
    inherited, rest = divmod(t.offset * t.dtype.itemsize, size)
    if offset is None:
        if rest:
            raise ViewError(
                f"ap on '{t.name}' {t.shape} {t.dtype}: the view starts at byte {t.offset * t.dtype.itemsize} of its "
                f"storage, which is no multiple of the {size} bytes of {kind}",
                fix=f"pass offset=, in elements of {kind} from the start of the storage",
            )
        return inherited
    try:
        start = operator.index(offset)
    except TypeError as misfit:
        keep_report(misfit)
        access = access_of(offset)
        shown = f"tensor '{access.name}'" if isinstance(access, Access) else f"{offset!r:.40} ({type(offset).__name__})"
        raise ViewError(
            f"ap on '{t.name}' {t.shape}: offset is {shown}, no integer",
            fix="pass an offset known when the kernel is compiled; scalar_offset= takes one known at run time",
        ) from None
    if t.offset:
        span = here().span
        if span is not None:
            warn_at(
                span,
                f"ap(offset=…) on a view of '{t.name}' that does not start at element 0 of its storage: the offset "
                "counts from the start of the storage (NKI language guide), not from the start of the view (as the API "
                "reference has it). Call ap on the whole tensor, or leave offset out to start where the view does",
            )
    return start


def _index_step(t: Access, dim: int, kind: DType) -> int:
    """The step of an index on dimension ``dim`` of ``t``, in elements of ``kind``."""
    step, rest = divmod(t.strides[dim] * t.dtype.itemsize, kind.itemsize)
    if rest:
        raise ViewError(
            f"ap on '{t.name}' {t.shape} {t.dtype} as {kind}: an index into dimension {dim} moves by "
            f"{t.strides[dim] * t.dtype.itemsize} bytes, which is no multiple of {kind.itemsize}",
            fix=f"give what lies inside dimension {dim} a multiple of {kind.itemsize} bytes, or leave dtype out",
        )
    return step


def _check_storage(t: Access, kind: DType) -> None:
    """A partition on chip holds whole elements of ``kind``."""
    size = t.tensor.bytes_per_partition
    if t.buffer.on_chip and size % kind.itemsize:
        raise ViewError(
            f"'{t.name}' {t.tensor.shape} {t.tensor.dtype} as {kind}: a partition of its storage has {size} bytes, "
            f"which is no multiple of {kind.itemsize}",
            fix=f"allocate its partitions with a multiple of {kind.itemsize} bytes",
        )


def _partition_problem(
    t: Access, pairs: list[tuple[int, int]], given: _Pairs, start: int, kind: DType
) -> NkiError | None:
    """On chip a pattern is the same in neighbouring partitions, and stays in each; the error where it does not stay.

    Errors show the pattern as it was ``given``.
    """
    _check_storage(t, kind)
    if not 2 <= len(pairs) <= ACCESS_PATTERN_DIMS:
        raise ViewError(
            f"ap on {_storage(t)}: pattern {_shown(given)} has {len(pairs)} dimensions; on chip it has 2 to "
            f"{ACCESS_PATTERN_DIMS}, and the first is the partitions",
            fix="append [1, 1]"
            if len(pairs) < 2
            else "merge dimensions that are contiguous, or use several instructions",
        )
    free = t.tensor.bytes_per_partition // kind.itemsize
    step, count = pairs[0]
    if count == 1:
        pairs[0] = (free, 1)
    elif step != free:
        raise ViewError(
            f"ap on {_storage(t)}: pattern {_shown(given)} steps {step} elements from partition to partition; a "
            f"partition of the storage has {free} {kind} elements, and engines read neighbouring partitions",
            fix=f"make the first pair [{free}, {count}]",
        )
    within = start % free + sum([(n - 1) * s for s, n in pairs[1:]])
    if start >= 0 and within >= free:
        return ViewError(
            f"ap on {_storage(t)}: pattern {_shown(given)} at {start} reaches element {within} of a partition, which "
            f"has {free} {kind} elements",
            fix=f"keep the furthest element of the free dimensions below {free}",
        )
    return None


def _extent_problem(t: Access, pairs: _Pairs, given: _Pairs, start: int, kind: DType) -> NkiError | None:
    """The error unless the pattern stays in the storage; where an index is added at run time, with index 0."""
    total = t.tensor.nbytes // kind.itemsize
    furthest = start + sum([(n - 1) * s for s, n in pairs])
    if start < 0 or furthest >= total:
        return IndexRangeError(
            f"ap on '{t.name}' {t.tensor.shape} {t.tensor.dtype}: pattern {_shown(given)} at {start} reaches from "
            f"element {start} to {furthest}; the storage has {total} {kind} elements",
            fix=f"keep the offset at least 0, and offset plus all (count - 1) * step below {total}",
        )
    return None


def _storage(t: Access) -> str:
    return f"'{t.name}' {t.tensor.shape} {t.tensor.dtype} in {t.buffer.value}"


def _shown(pairs: _Pairs) -> str:
    return str([list(pair) for pair in pairs])


__all__ = ["ap", "get_pattern", "view"]
