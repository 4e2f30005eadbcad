"""Values that know what they would be without rounding, and which lines their errors come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.values import Value

Array = NDArray[Any]
Doubles = NDArray[np.float64]


class Kind(IntEnum):
    """Kinds of errors: rounding inside an instruction, a cast to fewer bits, or an earlier error that a difference of
    nearly equal numbers made large.
    """

    arithmetic = 0
    cast = 1
    cancellation = 2


class Source(NamedTuple):
    """The origin of an error: a line by its number, and the kind of the error."""

    line: int
    kind: Kind


class Form(Enum):
    """The form of a function of two operands: linear in both together, in each of them, or anything."""

    any = "any"
    linear = "linear"
    bilinear = "bilinear"


OTHERS = Source(-1, Kind.arithmetic)
"""The source of the least errors of a tile that has very many sources."""
Errors = dict[Source, Doubles]


@dataclass(slots=True)
class Tracked(Value):
    """A value of the simulator with its shadows, all in float64 and of its shape.

    ``local``: what the running instruction would have without rounding, from the inputs that it really has; None: just
    the elements. ``exact``: what the whole kernel would have without rounding; None: as ``local``. ``errors``: by their
    source, the parts of the difference between the two. ``last``: the casts behind which the value was only moved.
    """

    local: Doubles | None = None
    exact: Doubles | None = None
    errors: Errors = field(default_factory=dict[Source, Doubles])
    last: frozenset[Source] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Test if the value has no shadow of its own."""
        return self.local is None and self.exact is None and not self.errors


def doubles(value: Value) -> Doubles:
    """The elements of ``value`` in float64, which holds all but integers of 64 bits."""
    with np.errstate(all="ignore"):
        return value.array.astype(np.float64)


def tracked(value: Value) -> Tracked:
    """``value``, with no shadows if it has none."""
    return value if isinstance(value, Tracked) else Tracked(value.array, value.dtype)


def local_of(value: Tracked) -> Doubles:
    """The elements that the running instruction would give without rounding."""
    return doubles(value) if value.local is None else value.local


def difference(one: Doubles, other: Doubles) -> Doubles:
    """``one - other``, which is 0 where both are the same infinity or no number."""
    with np.errstate(all="ignore"):
        result = one - other
        if not math.isfinite(result.sum()):
            result = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, result)
    return result


def added(errors: Errors, source: Source, more: Doubles) -> None:
    """Add ``more`` to the errors that come from ``source``."""
    known = errors.get(source)
    with np.errstate(all="ignore"):
        errors[source] = more if known is None else known + more


@overload
def lifted(real: Value, function: Callable[[Doubles], Doubles], first: Value, /) -> Tracked: ...


@overload
def lifted(
    real: Value, function: Callable[[Doubles, Doubles], Doubles], first: Value, second: Value, /, *, form: Form = ...
) -> Tracked: ...


@overload
def lifted(real: Value, function: Callable[..., Doubles], /, *values: Value) -> Tracked: ...


def lifted(real: Value, function: Callable[..., Doubles], /, *values: Value, form: Form = Form.any) -> Tracked:
    """``real``, the result of a primitive on ``values``, with the shadows that the ``function`` in float64 gives.

    The error from a source is what the result would be with this error alone, less what it is without any: no
    derivative is taken, so a function may be steep, or step. ``form`` spares the difference where it is the function
    itself.
    """
    parts = [tracked(value) for value in values]
    locals_ = [local_of(part) for part in parts]
    with np.errstate(all="ignore"):
        local = function(*locals_)
        result = Tracked(real.array, real.dtype, local)
        if all(part.exact is None and not part.errors for part in parts):
            return result
        exacts = [here if part.exact is None else part.exact for part, here in zip(parts, locals_, strict=True)]
        result.exact = function(*exacts)
        if form is not Form.any and not math.isfinite(result.exact.sum()):
            form = Form.any
        for source in sources(parts):
            errors = [part.errors.get(source) for part in parts]
            result.errors[source] = _moved_by(errors, exacts, function, form, result.exact)
    return result


def _moved_by(
    errors: list[Doubles | None], exacts: list[Doubles], function: Callable[..., Doubles], form: Form, result: Doubles
) -> Doubles:
    """The way that ``errors`` of the operands move ``result``, which ``function`` has for ``exacts``."""
    pairs = list(zip(errors, exacts, strict=True))
    if form is Form.linear:
        return function(*[np.broadcast_to(0.0, exact.shape) if error is None else error for error, exact in pairs])
    if form is Form.bilinear and any(error is None for error in errors):
        return function(*[exact if error is None else error for error, exact in pairs])
    return difference(function(*[exact if error is None else exact + error for error, exact in pairs]), result)


@overload
def moved(real: Value, function: Callable[[Doubles], Doubles], first: Value, /) -> Value: ...


@overload
def moved(real: Value, function: Callable[[Doubles, Doubles], Doubles], first: Value, second: Value, /) -> Value: ...


@overload
def moved(real: Value, function: Callable[..., Doubles], /, *values: Value) -> Value: ...


def moved(real: Value, function: Callable[..., Doubles], /, *values: Value) -> Value:
    """The same for a primitive that moves elements and computes nothing, so that errors move alike."""
    parts = [tracked(value) for value in values]
    if all(part.is_plain and not part.last for part in parts):
        return real
    result = Tracked(real.array, real.dtype)
    locals_ = [local_of(part) for part in parts]
    if any(part.local is not None for part in parts):
        result.local = function(*locals_)
    if any(part.exact is not None for part in parts):
        pairs = zip(parts, locals_, strict=True)
        result.exact = function(*[here if part.exact is None else part.exact for part, here in pairs])
    for source in sources(parts):
        errors = [part.errors.get(source) for part in parts]
        pairs = zip(errors, locals_, strict=True)
        result.errors[source] = function(*[np.zeros_like(here) if e is None else e for e, here in pairs])
    result.last = frozenset().union(*(part.last for part in parts))
    return result


def sources(parts: Iterable[Tracked]) -> dict[Source, None]:
    """All sources of the errors of ``parts``."""
    return dict.fromkeys(source for part in parts for source in part.errors)


def pooled(errors: Errors, most: int) -> Errors:
    """``errors`` with the least ones joined, if they come from more than ``most`` sources."""
    if len(errors) <= most:
        return errors
    order = sorted((s for s in errors if s != OTHERS), key=lambda s: -_size(errors[s]))
    kept = {source: errors[source] for source in order[: most - 1]}
    for source in [*order[most - 1 :], *([OTHERS] if OTHERS in errors else [])]:
        added(kept, OTHERS, errors[source])
    return kept


def _size(error: Doubles) -> float:
    size = float(np.abs(error).max(initial=0.0))
    return math.inf if math.isnan(size) else size
