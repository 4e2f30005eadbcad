"""Views of the same elements in another shape or order. Nothing is copied: what would need a copy is refused."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any, cast

from nki.base.errors import DynamicIndexError, ViewError, keep_report
from nki.ir.types import Access, is_row_indexed
from nki.language.dynamic import keep_elements, keep_first
from nki.language.indexing import dimension


def _seen(t: Access, shape: tuple[int, ...], strides: tuple[int, ...]) -> Access:
    if t.dynamic is not None and shape != t.shape:
        keep_elements(t, f"a view in shape {shape}")
    return t.__class__(t.tensor, t.offset, shape, strides, t.dtype, t.dynamic)


def permute(t: Access, dims: Any) -> Access:
    """Dimension ``i`` of the result is dimension ``dims[i]``."""
    requested = tuple(cast("list[Any]", dims)) if isinstance(dims, tuple | list) else (dims,)
    order = [dimension(t, dim, "permute") for dim in requested]
    if sorted(order) != list(range(t.ndim)):
        raise ViewError(
            f"permute of '{t.name}' {t.shape} by {requested}, which does not name each of its {t.ndim} dimensions once",
            fix=f"pass a tuple with 0 to {t.ndim - 1} in the order that you need",
        )
    if order[0] != 0:
        keep_first(t, f"permute by {requested}")
    return _seen(t, tuple(t.shape[dim] for dim in order), tuple(t.strides[dim] for dim in order))


def broadcast(t: Access, dim: int, size: int) -> Access:
    """Dimension ``dim``, of size 1, repeated ``size`` times."""
    at = dimension(t, dim, "broadcast")
    count = _sizes(t, "broadcast", (size,))[0]
    if t.shape[at] != 1:
        raise ViewError(
            f"broadcast of dimension {at} of '{t.name}' {t.shape}, which has size {t.shape[at]}, to {count}",
            fix="only a dimension of size 1 is repeated: select one element of it, or t.expand_dim a new one",
        )
    if at == 0:
        keep_first(t, f"broadcast to {count}")
    return _seen(t, _put(t.shape, at, count), _put(t.strides, at, t.strides[at] if count == 1 else 0))


def expand_dim(t: Access, dim: int) -> Access:
    """A new dimension of size 1 before dimension ``dim``; the last place is ``t.ndim``."""
    at = dimension(t, dim, "expand_dim", t.ndim + 1)
    if at == 0:
        keep_first(t, "expand_dim")
    step = t.strides[at] * t.shape[at] or 1 if at < t.ndim else 1
    return _seen(t, _put(t.shape, at, 1, 0), _put(t.strides, at, step, 0))


def squeeze_dim(t: Access, dim: int) -> Access:
    """Dimension ``dim``, of size 1, removed."""
    at = dimension(t, dim, "squeeze_dim")
    if t.shape[at] != 1:
        raise ViewError(
            f"squeeze_dim of dimension {at} of '{t.name}' {t.shape}, which has size {t.shape[at]}",
            fix=f"only a dimension of size 1 can go; t.select({at}, index) takes one element of it",
        )
    if at == 0:
        keep_first(t, "squeeze_dim")
    least = 1 + t.buffer.on_chip
    if t.ndim == least:
        raise ViewError(
            f"squeeze_dim of '{t.name}' {t.shape} in {t.buffer.value} would leave {least - 1} dimensions; it keeps at "
            f"least {least}",
            fix="leave the dimension in place: instructions take it as it is",
        )
    return _seen(t, t.shape[:at] + t.shape[at + 1 :], t.strides[:at] + t.strides[at + 1 :])


def reshape(t: Access, requested: Any) -> Access:
    """The same elements, in row-major order, in another shape."""
    wanted = _sizes(t, "reshape", requested)
    if not wanted:
        raise ViewError(f"reshape of '{t.name}' {t.shape} to no dimensions", fix="keep at least one dimension")
    if math.prod(wanted) != t.size:
        raise ViewError(
            f"'{t.name}' of shape {t.shape} has {t.size} elements; shape {wanted} has {math.prod(wanted)}",
            fix="choose sizes with the same product",
        )
    on_chip = t.buffer.on_chip
    if on_chip and (len(wanted) < 2 or wanted[0] != t.shape[0]):
        raise ViewError(
            f"reshape of '{t.name}' from {t.shape} to {wanted} would change its partitions",
            fix=_moved(t, wanted),
        )
    if is_row_indexed(t) and wanted[0] != t.shape[0]:
        raise DynamicIndexError(
            f"reshape of '{t.name}' from {t.shape} to {wanted} would change dimension 0; its rows are chosen at run "
            "time",
            fix=f"keep dimension 0 at {t.shape[0]}",
        )
    first = 1 if on_chip or is_row_indexed(t) else 0
    strides = _restride(t.shape[first:], t.strides[first:], wanted[first:])
    if strides is None:
        raise ViewError(
            f"'{t.name}' of shape {t.shape} and strides {t.strides} cannot become {wanted} without a copy",
            fix="reshape the whole tensor before slicing it, or copy the slice to a tile of its own",
        )
    return _seen(t, wanted, (*t.strides[:first], *strides))


def reshape_dim(t: Access, dim: int, shape: Any) -> Access:
    """Dimension ``dim`` split into dimensions of ``shape``; one may be -1: what the others leave."""
    at = dimension(t, dim, "reshape_dim")
    size = t.shape[at]
    wanted = _sizes(t, "reshape_dim", shape, least=-1)
    open_ = [i for i, n in enumerate(wanted) if n == -1]
    if 0 in wanted or len(open_) > 1 or not wanted:
        raise ViewError(
            f"reshape_dim of dimension {at} of '{t.name}' {t.shape} into {wanted}",
            fix="pass sizes of at least 1; one of them may be -1, which stands for what the others leave",
        )
    product = math.prod(n for n in wanted if n != -1)
    if open_ and size % product == 0:
        wanted = _put(wanted, open_[0], size // product)
    if math.prod(wanted) != size:
        raise ViewError(
            f"reshape_dim of dimension {at} of '{t.name}' {t.shape} into {wanted}: it has {size} elements, and the "
            f"sizes {'do not divide that' if open_ else f'make {product}'}",
            fix=f"choose sizes with the product {size}",
        )
    if at == 0 and wanted[0] != size:
        keep_first(t, f"reshape_dim into {wanted}")
    strides = [t.strides[at]]
    for n in reversed(wanted[1:]):
        strides.append(strides[-1] * n)
    return _seen(
        t, t.shape[:at] + wanted + t.shape[at + 1 :], t.strides[:at] + tuple(reversed(strides)) + t.strides[at + 1 :]
    )


def flatten_dims(t: Access, start_dim: int, end_dim: int) -> Access:
    """Dimensions ``start_dim`` to ``end_dim``, both included, merged into one."""
    start, end = dimension(t, start_dim, "flatten_dims"), dimension(t, end_dim, "flatten_dims")
    if start > end:
        raise ViewError(
            f"flatten_dims of '{t.name}' {t.shape} from dimension {start} to {end}: the first comes after the last",
            fix=f"write flatten_dims({end}, {start})",
        )
    if start == 0:
        keep_first(t, f"flatten_dims({start}, {end})")
    last = end + 1
    merged = math.prod(t.shape[start:last])
    step = _restride(t.shape[start:last], t.strides[start:last], (merged,))
    if step is None:
        raise ViewError(
            f"flatten_dims({start}, {end}) of '{t.name}' of shape {t.shape} and strides {t.strides}: the dimensions "
            "are not contiguous in memory",
            fix="flatten before slicing or permuting, or copy to a tile of its own",
        )
    return _seen(t, (*t.shape[:start], merged, *t.shape[last:]), (*t.strides[:start], *step, *t.strides[last:]))


def _moved(t: Access, wanted: tuple[int, ...]) -> str:
    """Advice for elements that must change their partition, which no view does."""
    if t.ndim == 2 and t.shape[1] == 1 and wanted == (1, t.shape[0]):
        return f"write nl.transpose({t.name}), or nisa.nc_transpose: it copies the column into a row"
    return f"keep dimension 0 at {t.shape[0]} and at least two dimensions, or reshape the tensor in HBM before the load"


def _sizes(t: Access, what: str, requested: Any, least: int = 1) -> tuple[int, ...]:
    """``requested`` as sizes of dimensions."""
    items = cast("tuple[Any, ...]", requested) if isinstance(requested, tuple | list) else (requested,)
    try:
        wanted = tuple(map(operator.index, items))
    except TypeError as misfit:
        keep_report(misfit)
        raise ViewError(f"{what} of '{t.name}' to {requested!r}", fix="pass integers: the new sizes") from None
    if wanted and min(wanted) < least:
        raise ViewError(
            f"{what} of '{t.name}' {t.shape} to {wanted}: a size is below 1",
            fix="write out every size, each at least 1",
        )
    return wanted


def _put(items: tuple[int, ...], at: int, item: int, instead: int = 1) -> tuple[int, ...]:
    return (*items[:at], item, *items[at + instead :])


@lru_cache(maxsize=1 << 12)
def _restride(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of a view of ``shape``/``strides`` seen as ``wanted``; None when there are none."""
    runs: list[list[int]] = []  # [elements, step] of each dense run, outermost first
    for size, step in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    result: list[int] = []
    beyond = 1  # what a dimension of size 1 steps by: all that lies inside it
    for size in reversed(wanted):
        if size == 1:
            result.append(beyond or 1)
            continue
        while runs and runs[-1][0] == 1:
            runs.pop()
        if not runs or runs[-1][0] % size:
            return None
        result.append(runs[-1][1])
        beyond = runs[-1][1] * size
        runs[-1] = [runs[-1][0] // size, beyond]
    return tuple(reversed(result))


__all__ = [
    "broadcast", "expand_dim", "flatten_dims", "permute", "reshape", "reshape_dim", "squeeze_dim",
]  # fmt: skip
