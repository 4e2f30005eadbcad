"""Views: the access that an index expression makes of a tensor.

A view has a base (offset, shape, strides in elements of a tile) and, for a block tensor, the dimensions of blocks that
are not chosen yet. Bounds are tested when the view is used, for a mask may keep it inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from nki.base.beta1_errors import Beta1IndexError
from nki.base.element_types import DType
from nki.beta1.index import DynamicEnd, Index, as_number
from nki.beta1.mask_regions import Box, Region
from nki.ir.types import Access, Dynamic, IndexKind

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """An index of dimension ``dim`` of ``size`` elements that leaves it for some element of the view."""

    dim: int
    size: int
    index: Index
    """The index over the axes of the view."""

    def outside(self, region: Region) -> tuple[int, int] | None:
        """The smallest and largest index over ``region`` if one of them is outside."""
        if region.box is None:
            return None
        low, high = self.index.over(region.box).bounds(region.array)
        return None if low >= 0 and high < self.size else (low, high)


@dataclass(frozen=True, slots=True)
class View:
    """A window of one tile, or of a block tensor: ``blocks`` are (size, step) pairs of blocks not chosen yet."""

    block: int
    blocks: tuple[tuple[int, int], ...]
    offset: int
    shape: Shape
    strides: Shape
    dtype: DType
    bounds: tuple[Bound, ...] = ()
    dynamic: Dynamic | None = None

    def arranged(self, axes: Sequence[int | None]) -> View:
        """The view with dimension ``axes[i]`` as dimension ``i``; None: a new one of size 1."""
        shape = tuple(1 if axis is None else self.shape[axis] for axis in axes)
        strides = tuple(0 if axis is None else self.strides[axis] for axis in axes)
        bounds = tuple(replace(bound, index=bound.index.arranged(axes)) for bound in self.bounds)
        return replace(self, shape=shape, strides=strides, bounds=bounds)

    def fitted(self, shape: Shape) -> View | None:
        """The view as ``shape``, if that differs in dimensions of size 1 only and every element is inside."""
        if self.bounds or [n for n in self.shape if n != 1] != [n for n in shape if n != 1]:
            return None
        steps = iter([step for step, n in zip(self.strides, self.shape, strict=True) if n != 1])
        return replace(self, shape=shape, strides=tuple(next(steps) if n != 1 else 0 for n in shape))

    def repeated(self, shape: Shape) -> View:
        """The view with its dimensions of size 1 repeated to ``shape``; new ones stand behind the partitions."""
        own = range(len(self.shape))
        view = self.arranged((*own[:1], *(None,) * (len(shape) - len(own)), *own[1:]))
        strides = tuple(
            0 if n == 1 and (axis or want != 1) else step
            for axis, (step, n, want) in enumerate(zip(view.strides, view.shape, shape, strict=True))
        )
        return replace(view, shape=shape, strides=strides)


def describe(name: str, view: View) -> str:
    """The tensor in messages."""
    return f"'{name}' {(*(size for size, _ in view.blocks), *view.shape)}"


def indexed(name: str, view: View, key: Any, *, on_chip: bool) -> View:
    """``view[key]``, by slices and numbers, or by grids of indices."""
    entries = completed(name, view, key)
    by_indices = any(isinstance(e, Index) or hasattr(e, "access") for e in entries) and not _chooses(entries)
    block, blocks = _taken_blocks(name, view, entries, by_indices=by_indices)
    rest = entries[len(view.blocks) :]
    if by_indices:
        shape, terms = _of_indices(name, view, rest)
    else:
        shape, terms = _of_slices(name, view, rest, on_chip=on_chip)
        if on_chip and len(shape) == 1 and not blocks:
            shape, terms = (*shape, 1), [(start, (*steps, 0), source) for start, steps, source in terms]
    offset, strides, dynamic = view.offset, [0] * len(shape), view.dynamic
    bounds: list[Bound] = []
    for d, (start, steps, source) in enumerate(terms):
        offset += start * view.strides[d]
        strides = [stride + view.strides[d] * step for stride, step in zip(strides, steps, strict=True)]
        if source is not None:
            dynamic = source
            continue
        index = Index(start, shape, steps)
        low, high = index.bounds()
        if low < 0 or high >= view.shape[d]:
            bounds.append(Bound(d + len(view.blocks), view.shape[d], index))
    if by_indices and dynamic is not None and dynamic.kind is IndexKind.rows:
        strides[0] = 0
    result = View(block, blocks, offset, shape, tuple(strides), view.dtype, tuple(bounds), dynamic)
    if not by_indices or not on_chip:
        return result
    _, steps, source = terms[0]
    return _partition_first(name, result, steps if source is None else (0,) * len(shape), view.strides[0])


def _chooses(entries: list[Any]) -> bool:
    """True if run-time numbers stand beside slices, and no index of arange: each takes its dimension away, as an
    integer does. A number in front of one slice alone keeps it: ``t[i, :]`` is a tile of one row.
    """
    slices = [at for at, entry in enumerate(entries) if isinstance(entry, slice)]
    chosen = [at for at, entry in enumerate(entries) if hasattr(entry, "access")]
    return (
        bool(slices and chosen)
        and (slices[0] < chosen[0] or len(slices) > 1)
        and not any(isinstance(entry, Index) for entry in entries)
        and all(math.prod(entries[at].shape) == 1 for at in chosen)
    )


def completed(name: str, view: View, key: Any) -> list[Any]:
    """The entries of an index: whole dimensions instead of one Ellipsis, and of what slices leave out."""
    entries = list(cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,)))
    rank = len(view.blocks) + len(view.shape)
    given = sum(e is not None and e is not Ellipsis for e in entries)
    if given > rank:
        raise Beta1IndexError(
            f"{describe(name, view)} has {rank} dimensions and is indexed with {given} indices",
            fix="leave out the last ones",
        )
    full: list[Any] = [slice(None)] * (rank - given)
    at = next((i for i, e in enumerate(entries) if e is Ellipsis), None)
    if at is not None:
        return [*entries[:at], *full, *(e for e in entries[at + 1 :] if e is not Ellipsis)]
    if any(isinstance(e, Index) for e in entries):
        return entries  # trailing dimensions are taken whole behind the axes of the indices
    return [*entries, *full]


def _taken_blocks(
    name: str, view: View, entries: list[Any], *, by_indices: bool
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The chosen block, and the sizes and steps of block dimensions that slices keep."""
    block, kept = view.block, list[tuple[int, int]]()
    missing = [None] * (len(view.blocks) - len(entries))
    for entry, (size, step) in zip([*entries, *missing], view.blocks, strict=False):
        if entry is None and not by_indices:
            raise _new_partition(name, view)
        start, count, pace = _block_entry(name, view, entry, size)
        block += step * start
        if count is not None and by_indices:
            raise Beta1IndexError(
                f"failed_to_infer_tile_from_local_tensor: {describe(name, view)} keeps a block dimension",
                fix="index every block dimension with an integer or a loop variable",
            )
        if count is not None:
            kept.append((count, step * pace))
    return block, tuple(kept)


def _new_partition(name: str, view: View) -> Beta1IndexError:
    return Beta1IndexError(
        f"a new axis in front of the partitions of {describe(name, view)}", fix="add it behind dimension 0"
    )


Term = tuple[int, Shape, Dynamic | None]
"""The part of its dimension that an entry takes: the first element, the steps along the axes of the result, and an
index known at run time, which is added."""


def _of_slices(name: str, view: View, entries: list[Any], *, on_chip: bool) -> tuple[Shape, list[Term]]:
    """The shape of an index by numbers and slices, and its terms; a partition stays a dimension."""
    shape: list[int] = []
    found: list[tuple[int, int, int, Dynamic | None]] = []
    dynamic = view.dynamic
    for entry in entries:
        if entry is None:
            if on_chip and not found:
                raise _new_partition(name, view)
            shape.append(1)
            continue
        d = len(found)
        start, count, pace, source = _entry(name, view, entry, view.shape[d])
        if source is not None:
            if dynamic is not None:
                raise Beta1IndexError(f"{describe(name, view)} has two run-time indices", fix="copy in two steps")
            dynamic = Dynamic(source, view.strides[d], IndexKind.whole)
        stays = count is not None or (on_chip and d == 0)
        found.append((start, len(shape) if stays else -1, pace, dynamic if source is not None else None))
        if stays:
            shape.append(1 if count is None else count)
    terms = [
        (start, tuple(pace if axis == own else 0 for axis in range(len(shape))), source)
        for start, own, pace, source in found
    ]
    return tuple(shape), terms


def _block_entry(name: str, view: View, entry: Any, size: int) -> tuple[int, int | None, int]:
    """Start, number (None: the dimension goes) and step of an entry for a block dimension."""
    number = as_number(entry)
    if isinstance(entry, Index) and not any(entry.steps):
        number = entry.start
    if number is not None:
        if number < 0:
            number += size
        if not 0 <= number < size:
            raise _outside(name, number, number, 0, size)
        return number, None, 1
    if isinstance(entry, slice):
        start, count, step, _ = _entry(name, view, entry, size)
        if count is not None and (start < 0 or start + (count - 1) * step >= size):
            raise _outside(name, start, start + (count - 1) * step, 0, size)
        return start, count, step
    raise Beta1IndexError(
        f"a block dimension of {describe(name, view)} is indexed with {type(entry).__name__}",
        fix="index blocks with integers or loop variables",
    )


def _entry(name: str, view: View, entry: Any, size: int) -> tuple[int, int | None, int, Access | None]:
    """Start, count (None: the dimension goes), step and run-time index of one entry of a basic index."""
    number = None if isinstance(entry, bool) else as_number(entry)
    if number is not None:
        return (number + size if -size <= number < 0 else number), None, 1, None
    source: Access | None = getattr(entry, "access", None)
    if source is not None:
        _check_integers(name, view, source)
        extra: Index | None = getattr(entry, "extra", None)
        return 0 if extra is None else extra.start, None, 1, source
    if not isinstance(entry, slice):
        raise Beta1IndexError(
            f"{describe(name, view)} is indexed with {entry!r:.40} ({type(entry).__name__})",
            fix="use integers, slices, or indices of nl.arange and nl.mgrid",
        )
    bounds = cast("Any", entry)
    if isinstance(bounds.stop, DynamicEnd):
        return 0, bounds.stop.count, 1, bounds.start.access
    given: list[Any] = [bounds.start, bounds.stop, bounds.step]
    numbers = [None if e is None else as_number(e) for e in given]
    if any(n is None and e is not None for n, e in zip(numbers, given, strict=True)):
        raise Beta1IndexError(
            f"indirect_indices: a slice of {describe(name, view)} has bounds known only at run time",
            fix="use nl.ds(index, size) or an index of nl.arange",
        )
    step = 1 if numbers[2] is None else numbers[2]
    if step < 1:
        raise Beta1IndexError(f"a slice of {describe(name, view)} has the step {step}", fix="use steps of 1 or more")
    start = 0 if numbers[0] is None else numbers[0]
    stop = size if numbers[1] is None else numbers[1]
    start, stop = (n + size if n < 0 else n for n in (start, stop))
    count = -(-(stop - start) // step)
    if count < 1:
        raise Beta1IndexError(
            f"slice {start}:{stop} of a dimension of {describe(name, view)} has no elements",
            fix="make the end larger than the start",
        )
    return start, count, step, None


def _of_indices(name: str, view: View, entries: list[Any]) -> tuple[Shape, list[Term]]:
    """The shape of an index by grids, to which they are repeated, and its terms."""
    if any(isinstance(e, slice) and e != slice(None) for e in entries):
        raise Beta1IndexError(
            "unsupported_mixing_basic_advanced_tensor_indexing: slices and indices of nl.arange stand side by side in "
            f"an index of {describe(name, view)}",
            fix="use slices for all dimensions, or nl.arange and nl.mgrid for all",
        )
    dims = [e for e in entries if e is not None]
    grids = [e.shape for e in dims if isinstance(e, Index)] + [_index_shape(e) for e in dims if hasattr(e, "access")]
    whole = [d for d, e in enumerate(dims) if isinstance(e, slice)] + list(range(len(dims), len(view.shape)))
    shape, axes = _room(tuple(np.broadcast_shapes(*grids)), [view.shape[d] for d in whole])
    axis_of = dict(zip(whole, axes, strict=True))
    terms: list[Term] = []
    dynamic = view.dynamic
    for d, (size, step) in enumerate(zip(view.shape, view.strides, strict=True)):
        if d in axis_of:
            terms.append((0, tuple(int(axis == axis_of[d]) for axis in range(len(shape))), None))
        elif hasattr(dims[d], "access"):
            dynamic, start, steps = _dynamic(name, view, dims[d], dynamic, step, shape)
            terms.append((start, steps, dynamic))
        else:
            terms.append((*_affine(name, view, dims[d], size, len(shape)), None))
    return shape, terms


def _check_integers(name: str, view: View, source: Access) -> None:
    """Raise unless the run-time index ``source`` holds integers."""
    if source.dtype.kind not in ("i", "u"):
        raise Beta1IndexError(
            f"indirect_indices: {describe(name, view)} is indexed with '{source.name}', which is {source.dtype}; a "
            "run-time index is int32 or uint32",
            fix=f"convert it: nl.copy({source.name}, dtype=nl.int32)",
        )


def _index_shape(source: Any) -> Shape:
    shape = tuple(source.shape)
    return shape if math.prod(shape) != 1 else (1,) * len(shape)


def _room(shape: Shape, sizes: list[int]) -> tuple[Shape, list[int]]:
    """``shape`` with room for dimensions that are taken whole; and their axes."""
    free = len(shape)
    while free > 1 and len(shape) - free < len(sizes) and shape[free - 1] == 1:
        free -= 1
    shape = shape[:free]
    return (*shape, *sizes), list(range(free, free + len(sizes)))


def _affine(name: str, view: View, entry: Any, size: int, ndim: int) -> tuple[int, Shape]:
    if isinstance(entry, Index):
        if entry.ndim == 1 and entry.shape[0] > 1:
            raise Beta1IndexError(
                f"1d_arange: {describe(name, view)} is indexed with an nl.arange of one axis",
                fix="give it two axes: nl.arange(n)[:, None] or nl.arange(n)[None, :]",
            )
        return entry.start, entry.expanded(ndim)[1]
    number = as_number(entry)
    if number is None:
        raise Beta1IndexError(
            f"{describe(name, view)} is indexed with {entry!r:.40} ({type(entry).__name__})",
            fix="use integers and indices of nl.arange or nl.mgrid",
        )
    return (number + size if -size <= number < 0 else number), (0,) * ndim


def _dynamic(
    name: str, view: View, entry: Any, present: Dynamic | None, step: int, shape: Shape
) -> tuple[Dynamic, int, Shape]:
    """The run-time index ``entry`` of a dimension with ``step``, the constant added to it and its steps."""
    if present is not None:
        raise Beta1IndexError(
            f"copy_dynamic_indirect_indices: {describe(name, view)} has two run-time indices",
            fix="index one dimension at run time, and copy in two steps for another",
        )
    source: Access = entry.access
    _check_integers(name, view, source)
    extra: Index | None = getattr(entry, "extra", None)
    start, steps = (0, (0,) * len(shape)) if extra is None else (extra.start, extra.expanded(len(shape))[1])
    if source.size == 1:
        return Dynamic(source, step, IndexKind.whole), start, steps
    if source.shape[0] != shape[0] or source.size != source.shape[0]:
        raise Beta1IndexError(
            f"indirect_indices: {describe(name, view)} is indexed with a tile {source.shape}, not one index per row",
            fix="use a tile of (rows, 1), or of one element",
        )
    column = Access(source.tensor, source.offset, (source.shape[0], 1), (source.strides[0], 1), source.dtype)
    return Dynamic(column, step, IndexKind.rows), start, steps


def _partition_first(name: str, view: View, partition: Shape, step: int) -> View:
    """``view`` of a tile on chip with its partitions in axis 0, where the index has them so."""
    axes = [axis for axis, n in enumerate(partition) if n]
    first = axes[0] if axes else 0
    if len(axes) > 1 or any(size != 1 for size in view.shape[:first]):
        raise Beta1IndexError(
            f"leading_dimension_of_tensor_must_be_partition: an index of '{name}' gives a tile {view.shape} whose "
            "first axis is not the partition",
            fix="let the partition's nl.arange have the first axis: nl.arange(128)[:, None]",
        )
    mixed = first < len(view.strides) and axes and view.strides[first] != partition[first] * step
    if mixed or (not axes and view.shape and view.shape[0] > 1 and view.strides[0]):
        raise Beta1IndexError(
            f"leading_dimension_of_tensor_must_be_partition: an index of '{name}' moves partition and free dimension "
            f"along one axis of the tile {view.shape}",
            fix="use an nl.arange of its own for the partition",
        )
    return view.arranged(range(first, len(view.shape)))


def _outside(name: str, low: int, high: int, dim: int, size: int) -> Beta1IndexError:
    return Beta1IndexError(
        f"tensor_access_out_of_bound: an index of dimension {dim} of '{name}' reaches from {low} to {high}; the "
        f"dimension has {size} elements",
        fix="correct the index, or pass mask= to the operation",
    )


def check_bounds(name: str, view: View, region: Region) -> None:
    """Raise unless every element of ``region`` of the view is inside the tensor."""
    for bound in view.bounds:
        outside = bound.outside(region)
        if outside is not None:
            raise _outside(name, *outside, bound.dim, bound.size)


def part(access: Access, box: Box) -> Access:
    """The box of an access; of rows chosen at run time, the rows of the box."""
    offset = access.offset + sum(step * a for step, (a, _) in zip(access.strides, box, strict=True))
    sizes = tuple(b - a for a, b in box)
    dynamic = access.dynamic
    if dynamic is not None and dynamic.kind is IndexKind.rows and (box[0][0] or sizes[0] != access.shape[0]):
        source = dynamic.source
        first = source.offset + source.strides[0] * box[0][0]
        rows = Access(source.tensor, first, (sizes[0], 1), source.strides, source.dtype)
        dynamic = Dynamic(rows, dynamic.step, dynamic.kind)
    return access.with_window(offset, sizes, access.strides, dynamic)


def strides_of(shape: Shape, strides: Shape, sizes: Shape) -> Shape | None:
    """The strides of a view of ``shape`` as ``sizes``; None if it needs a copy (as NumPy's reshape decides)."""
    span = 1 + sum(abs(s) * (n - 1) for s, n in zip(strides, shape, strict=True))
    backing = np.empty(span, np.int8)
    array: Any = np.ndarray(shape, np.int8, backing, 0, strides)
    try:
        result = array.reshape(sizes, copy=False)
    except ValueError:
        return None
    return tuple(int(s) for s in result.strides)
