"""Views of indices that differ from earlier ones only in their starts.

Loops are unrolled, so the index of one line is computed for each round, and only the starts of its entries change. The
view is affine in them as long as each stays within limits: a plan holds what is fixed. Everything else, and all that is
wrong, goes the way of :mod:`nki.beta1.view`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from nki.beta1 import view as views
from nki.beta1.index import Index
from nki.beta1.view import View

Shape = tuple[int, ...]
_MOST_PLANS: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Plan:
    """A view but for its block and offset.

    ``terms``: of each entry, True if it chooses a block; the number that its start is multiplied with and added to
    the block or to the offset; and the smallest and largest start for which the view is inside the tensor.
    """

    terms: tuple[tuple[bool, int, int, int], ...]
    blocks: tuple[tuple[int, int], ...]
    shape: Shape
    strides: Shape


_plans: dict[Any, _Plan | None] = {}
"""By the sizes and steps of the view and the form of the index; None where the view is not affine in the starts."""


def indexed(name: str, view: View, key: Any, *, on_chip: bool) -> View:
    """``view[key]``; see :func:`nki.beta1.view.indexed`."""
    entries = cast("Sequence[Any]", key if isinstance(key, tuple) else (key,))
    for entry in entries:
        if entry is Ellipsis:
            entries = views.completed(name, view, key)
            break
    starts: list[int] = []
    form: list[Any] = []
    for entry in entries:
        kind = cast("type[Any]", type(entry))
        if kind is int:
            starts.append(entry)
            form.append(int)
        elif kind is Index:
            starts.append(entry.start)
            form.append((entry.shape, entry.steps))
        elif kind is slice:
            first, last, step = entry.start, entry.stop, entry.step
            if first is None and last is None and step is None:
                starts.append(0)
                form.append(slice)
            elif type(first) is int and type(last) is int and 0 <= first < last and (step is None or type(step) is int):
                starts.append(first)
                form.append((last - first, step))
            else:
                break
        elif entry is None:
            form.append(None)
        else:
            break
    else:
        if view.dynamic is None:
            return _planned(name, view, entries, starts, tuple(form), on_chip)
    return views.indexed(name, view, tuple(entries), on_chip=on_chip)


def _planned(
    name: str, view: View, entries: Sequence[Any], starts: list[int], form: tuple[Any, ...], on_chip: bool
) -> View:
    key = (view.blocks, view.shape, view.strides, on_chip, form)
    plan = _plans.get(key)
    if plan is None:
        result = views.indexed(name, view, tuple(entries), on_chip=on_chip)
        if key not in _plans:
            if len(_plans) >= _MOST_PLANS:
                _plans.clear()
            _plans[key] = None if result.bounds or result.dynamic is not None else _plan(view, entries, form, result)
        return result
    block, offset = view.block, view.offset
    for start, (of_block, step, low, high) in zip(starts, plan.terms, strict=True):
        if not low <= start <= high:
            return views.indexed(name, view, tuple(entries), on_chip=on_chip)
        if of_block:
            block += step * start
        else:
            offset += step * start
    return View(block, plan.blocks, offset, plan.shape, plan.strides, view.dtype)


def _plan(view: View, entries: Sequence[Any], form: tuple[Any, ...], result: View) -> _Plan:
    """The plan of ``result``, the view of ``entries``: each takes the next dimension."""
    dimensions = [(True, size, step) for size, step in view.blocks]
    dimensions += [(False, size, step) for size, step in zip(view.shape, view.strides, strict=True)]
    taken = [(entry, part) for entry, part in zip(entries, form, strict=True) if entry is not None]
    terms: list[tuple[bool, int, int, int]] = []
    for (entry, part), (of_block, size, step) in zip(taken, dimensions, strict=False):
        low, high = 0, size - 1
        if isinstance(entry, Index):
            first, last = entry.bounds()
            low, high = entry.start - first, size - 1 - (last - entry.start)
        elif isinstance(part, tuple):
            length, pace = cast("tuple[int, int | None]", part)
            pace = pace or 1
            high = size - 1 - (-(-length // pace) - 1) * pace
        terms.append((of_block, step, low, high))
    return _Plan(tuple(terms), result.blocks, result.shape, result.strides)
