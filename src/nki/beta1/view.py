"""Views: the access that an index expression makes of a tensor.

A view has a base (offset, shape, strides in elements of a tile) and, for a block tensor, the dimensions of blocks that
are not chosen yet. Bounds are tested when the view is used, for a mask may keep it inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from nki.base.beta1_errors import Beta1IndexError
from nki.base.element_types import DType
from nki.beta1.index import DynamicEnd, Index, as_number, broadcast_shape
from nki.beta1.masks import Region
from nki.ir.types import Access, Dynamic, IndexKind

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """An index of dimension ``dim`` of ``size`` elements that leaves it for some element of the view."""

    dim: int
    size: int
    start: int
    steps: Shape

    def outside(self, region: Region) -> tuple[int, int] | None:
        """The smallest and largest index over ``region`` if one of them is outside."""
        if region.box is None:
            return None
        if region.array is None:
            ends = [(step * a, step * (b - 1)) for step, (a, b) in zip(self.steps, region.box, strict=True)]
            low = self.start + sum(min(pair) for pair in ends)
            high = self.start + sum(max(pair) for pair in ends)
        else:
            values: Any = np.int64(self.start)
            for axis, (step, (a, b)) in enumerate(zip(self.steps, region.box, strict=True)):
                line = np.arange(a, b) * step
                values = values + line.reshape((-1, *(1,) * (len(self.steps) - axis - 1)))
            chosen = np.broadcast_to(values, region.array.shape)[region.array]
            low, high = int(chosen.min()), int(chosen.max())
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

    def with_shape(self, shape: Shape, strides: Shape) -> View:
        return replace(self, shape=shape, strides=strides)


def describe(name: str, view: View) -> str:
    """The tensor in messages."""
    return f"'{name}' {(*(size for size, _ in view.blocks), *view.shape)}"


def indexed(name: str, view: View, key: Any, *, on_chip: bool) -> View:
    """``view[key]``."""
    entries = list(cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,)))
    rank = len(view.blocks) + len(view.shape)
    if len(entries) == rank:
        regular = _regular(view, entries, on_chip=on_chip)
        if regular is not None:
            return regular
    entries = _completed(name, view, entries, rank)
    if any(isinstance(e, Index) or hasattr(e, "access") for e in entries) and not _chooses(entries):
        return _advanced(name, view, entries, on_chip=on_chip)
    return _basic(name, view, entries, on_chip=on_chip)


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


def _regular(view: View, entries: list[Any], *, on_chip: bool) -> View | None:
    """:func:`indexed` by a number for each block and by numbers and indices of one rank for the rest, all inside; None
    for any other index. Most indices of kernels are of this kind.
    """
    if view.dynamic is not None:
        return None
    block, ahead = view.block, len(view.blocks)
    for entry, (size, step) in zip(entries, view.blocks, strict=False):
        if type(entry) is not int or not 0 <= entry < size:
            return None
        block += entry * step
    rest = entries[ahead:] if ahead else entries
    sizes = _joint([entry for entry in rest if type(entry) is Index])
    if sizes is None:
        return None
    rank = len(sizes)
    offset, strides = view.offset, [0] * rank
    for d, (entry, size, step) in enumerate(zip(rest, view.shape, view.strides, strict=True)):
        if type(entry) is int:
            if not 0 <= entry < size or (on_chip and d == 0):
                return None
            offset += entry * step
            continue
        if type(entry) is not Index:
            return None
        low = high = entry.start
        for axis, (pace, count) in enumerate(zip(entry.steps, entry.shape, strict=True)):
            if pace:
                if on_chip and (axis == 0) != (d == 0):
                    return None
                strides[axis] += step * pace
                if pace > 0:
                    high += pace * (count - 1)
                else:
                    low += pace * (count - 1)
        if low < 0 or high >= size:
            return None
        offset += entry.start * step
    if on_chip and sizes[0] > 1 and not strides[0]:
        return None
    return View(block, (), offset, sizes, tuple(strides), view.dtype)


def _joint(indices: list[Index]) -> Shape | None:
    """The shape of several indices of one rank of 2 or more, each as long on an axis as the others or of size 1."""
    if not indices:
        return None
    shape = indices[0].shape
    if len(shape) < 2:
        return None
    for index in indices:
        other = index.shape
        if other == shape:
            continue
        if len(other) != len(shape):
            return None
        joint: list[int] = []
        for a, b in zip(shape, other, strict=True):
            if a != b and a != 1 and b != 1:
                return None
            joint.append(b if a == 1 else a)
        shape = tuple(joint)
    return shape


def _completed(name: str, view: View, entries: list[Any], rank: int) -> list[Any]:
    given = sum(e is not None and e is not Ellipsis for e in entries)
    if given > rank:
        raise Beta1IndexError(
            f"{describe(name, view)} has {rank} dimensions and is indexed with {given} indices",
            fix="leave out the last ones",
        )
    full: list[Any] = [slice(None)] * (rank - given)
    if any(e is Ellipsis for e in entries):
        at = next(i for i, e in enumerate(entries) if e is Ellipsis)
        return [*entries[:at], *full, *(e for e in entries[at + 1 :] if e is not Ellipsis)]
    if any(isinstance(e, Index) for e in entries):
        return entries  # trailing dimensions are taken whole behind the axes of the indices
    return [*entries, *full]


def _basic(name: str, view: View, entries: list[Any], *, on_chip: bool) -> View:
    blocks: list[tuple[int, int]] = []
    shape: list[int] = []
    strides: list[int] = []
    starts: list[tuple[int, int, int, int, int]] = []  # dim, size, start, step, axis of the result
    block, offset, dim = view.block, view.offset, 0
    dynamic = view.dynamic
    for entry in entries:
        if entry is None:
            if dim <= len(view.blocks) + on_chip - 1 and on_chip:
                raise Beta1IndexError(
                    f"a new axis in front of the partitions of {describe(name, view)}",
                    fix="add it behind dimension 0",
                )
            shape.append(1)
            strides.append(0)
            continue
        if dim < len(view.blocks):
            size, step = view.blocks[dim]
            chosen = _block_entry(name, view, entry, size)
            block += step * chosen[0]
            if chosen[1] is not None:
                blocks.append((chosen[1], step * chosen[2]))
            dim += 1
            continue
        position = dim - len(view.blocks)
        size, step = view.shape[position], view.strides[position]
        start, count, pace, source = _entry(name, view, entry, size)
        if source is not None:
            if dynamic is not None:
                raise Beta1IndexError(f"{describe(name, view)} has two run-time indices", fix="copy in two steps")
            dynamic = Dynamic(source, step, IndexKind.whole)
        offset += step * start
        keep = count is not None or (on_chip and position == 0)
        inside = start >= 0 and start + ((count or 1) - 1) * pace < size
        if not inside and source is None:
            starts.append((dim, size, start, pace, len(shape) if keep else -1))
        if keep:
            shape.append(1 if count is None else count)
            strides.append(step * pace)
        dim += 1
    if on_chip and len(shape) == 1 and not blocks:
        shape.append(1)
        strides.append(0)
    bounds = tuple(
        Bound(d, size, start, tuple(pace if axis == own else 0 for axis in range(len(shape))))
        for d, size, start, pace, own in starts
    )
    return View(block, tuple(blocks), offset, tuple(shape), tuple(strides), view.dtype, bounds, dynamic)


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


def _advanced(name: str, view: View, entries: list[Any], *, on_chip: bool) -> View:
    rank = len(view.blocks) + len(view.shape)
    position = 0
    block = view.block
    while position < len(view.blocks):
        entry = entries[position] if position < len(entries) else None
        start, count, _ = _block_entry(name, view, entry, view.blocks[position][0])
        if count is not None:
            raise Beta1IndexError(
                f"failed_to_infer_tile_from_local_tensor: {describe(name, view)} keeps a block dimension",
                fix="index every block dimension with an integer or a loop variable",
            )
        block += view.blocks[position][1] * start
        position += 1
    entries = entries[position:]
    if any(isinstance(e, slice) and e != slice(None) for e in entries):
        raise _mixed(name, view)
    dims = [e for e in entries if e is not None]
    sources = [(d, e) for d, e in enumerate(dims) if hasattr(e, "access")]
    indices = [e for e in dims if isinstance(e, Index)]
    shape = broadcast_shape(*(i.shape for i in indices), *(_index_shape(e) for _, e in sources))
    whole = [d for d, e in enumerate(dims) if isinstance(e, slice)] + list(range(len(dims), len(view.shape)))
    shape, extra = _room(shape, [view.shape[d] for d in whole])
    return _composed(name, replace(view, block=block, blocks=()), dims, shape, dict(zip(whole, extra, strict=True)),
                     on_chip=on_chip, rank=rank)  # fmt: skip


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


def _mixed(name: str, view: View) -> Beta1IndexError:
    return Beta1IndexError(
        f"unsupported_mixing_basic_advanced_tensor_indexing: slices and indices of nl.arange stand side by side in an "
        f"index of {describe(name, view)}",
        fix="use slices for all dimensions, or nl.arange and nl.mgrid for all",
    )


def _composed(
    name: str,
    view: View,
    dims: list[Any],
    shape: Shape,
    whole: dict[int, int],
    *,
    on_chip: bool,
    rank: int,
) -> View:
    offset, strides = view.offset, [0] * len(shape)
    partition = [0] * len(shape)
    bounds: list[Bound] = []
    dynamic = view.dynamic
    for d, (size, step) in enumerate(zip(view.shape, view.strides, strict=True)):
        if d in whole:
            start, steps = 0, tuple(1 if axis == whole[d] else 0 for axis in range(len(shape)))
        else:
            entry = dims[d]
            if hasattr(entry, "access"):
                dynamic, start, steps = _dynamic(name, view, entry, dynamic, step, shape)
                offset += start * step
                strides = [s + step * n for s, n in zip(strides, steps, strict=True)]
                continue
            start, steps = _affine(name, view, entry, size, len(shape))
        bound = Bound(d + rank - len(view.shape), size, start, steps)
        if bound.outside(Region(shape, tuple((0, n) for n in shape))) is not None:
            bounds.append(bound)
        offset += start * step
        strides = [s + step * n for s, n in zip(strides, steps, strict=True)]
        if d == 0:
            partition = list(steps)
    if dynamic is not None and dynamic.kind is IndexKind.rows:
        strides[0] = 0
    result = View(view.block, (), offset, shape, tuple(strides), view.dtype, tuple(bounds), dynamic)
    return _partition_first(name, result, partition, view.strides[0]) if on_chip else result


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


def _partition_first(name: str, view: View, partition: list[int], step: int) -> View:
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
    shape, strides = view.shape[first:], view.strides[first:]
    bounds = tuple(replace(b, steps=b.steps[first:]) for b in view.bounds)
    return replace(view, shape=shape, strides=strides, bounds=bounds)


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


__all__ = ["Bound", "View", "check_bounds", "describe", "indexed", "strides_of"]
