"""Comparing an implementation's result with an oracle's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from . import numerics
from .numerics import Array


@dataclass(frozen=True)
class Bounds:
    """The accepted interval of each element, as float64, ends included.

    ``free`` marks the elements that the documentation leaves open: any value, NaN included, is right there.
    """

    low: Array
    high: Array
    free: Array


def around(values: Any, error: Any, dst: Array, free: Any = False) -> Bounds:
    """All that ``dst`` may hold when float32 results lie within ``error`` of the real ``values``.

    Casts are monotone, so casting both ends of the interval gives exactly the reachable values. The cast to bool
    is not, which has a value of its own for 0.
    """
    with np.errstate(all="ignore"):
        # An infinite result moves by nothing: inf - inf would only poison the interval.
        value, reach = np.asarray(values), np.where(np.isinf(values), 0.0, error)
        ends = [value - reach, value, value + reach]
        if dst.dtype == np.bool_:
            ends.append(np.where((ends[0] <= 0) & (ends[2] >= 0), 0.0, value))
    return span(ends, dst, free)


def overflows(sizes: Any) -> Any:
    """Where a float32 sum of numbers with this total magnitude may leave the range on its way, in some order.

    An infinity or a NaN is right there as well, whatever the real sum: magnitudes of infinite numbers do not count.
    """
    return np.asarray(sizes) > 3.4e38


def span(candidates: Sequence[Array], dst: Array, free: Any = False) -> Bounds:
    """The interval from the smallest to the largest of several possible results, after the cast to ``dst``."""
    with np.errstate(all="ignore"):
        stored = [numerics.exact(numerics.write(c, dst.dtype)).reshape(dst.shape) for c in candidates]
    low, high = stored[0], stored[0]
    for values in stored[1:]:
        low, high = np.fmin(low, values), np.fmax(high, values)
    return Bounds(low, high, np.broadcast_to(np.asarray(free), np.shape(candidates[0])).reshape(dst.shape))


def bounds_of(module: ModuleType, dst: Array, **arguments: Any) -> Any:
    """What an oracle accepts besides its own result; None where every bit is promised."""
    return module.bounds(dst, **arguments) if hasattr(module, "bounds") else None


def disagreement(module: ModuleType, got: Any, dst: Array, **arguments: Any) -> str | None:
    """Why ``got`` is not what ``module.oracle`` asks for, or None if it is.

    Without bounds every bit counts, the sign of zero too. A NaN must be the oracle's own or the canonical one, and not
    even that where the module's ``copies_bits`` says that the instruction only moves data.
    """
    with np.errstate(all="ignore"):
        want = module.oracle(dst, **arguments)
        limits = bounds_of(module, dst, **arguments)
    moves = hasattr(module, "copies_bits") and module.copies_bits(dst, **arguments)
    wants: tuple[Any, ...] = want if isinstance(want, tuple) else (want,)
    gots: tuple[Any, ...] = got if isinstance(got, tuple) else (got,)
    limit: tuple[Any, ...] = limits if isinstance(limits, tuple) else (limits,) * len(wants)
    if len(wants) != len(gots):
        return f"{len(gots)} results instead of {len(wants)}"
    for index, (w, g, b) in enumerate(zip(wants, gots, limit, strict=True)):
        if w.dtype != g.dtype or w.shape != g.shape:
            return f"result {index} is {g.dtype}{g.shape} instead of {w.dtype}{w.shape}"
        wrong = numerics.bits(g) != numerics.bits(w) if moves else ~_accepted(g, w, b)
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            asked = f"{w[where]!r}" if b is None else f"[{b.low[where]!r}, {b.high[where]!r}] (about {w[where]!r})"
            count = f"{int(wrong.sum())} of {wrong.size}"
            return f"result {index}: {count} differ, first at {where}: {g[where]!r} for {asked}"
    return None


def _accepted(got: Array, want: Array, bounds: Bounds | None) -> Array:
    same = numerics.bits(got) == numerics.bits(want)
    if want.dtype.name in numerics.FORMATS:
        canonical = numerics.bits(got) == numerics.FORMATS[want.dtype.name].nan
        same |= canonical & np.isnan(numerics.exact(want))
    if bounds is None:
        return same
    value = numerics.exact(got)
    return same | bounds.free | ((bounds.low <= value) & (value <= bounds.high))
