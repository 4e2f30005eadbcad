"""Tolerances that follow from dtypes, sizes and the reference's own conditioning (``docs/verify.md``).

The reference runs in float64: that is right. It runs again on inputs that are moved by what honest arithmetic may lose,
in float64 and in float32. How far its results move is what a kernel may be off, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki.base import element_types as dtypes
from nki.base.element_types import DType
from nki.workload.reference import deviations

Array = NDArray[Any]
Reference = Callable[[Sequence[Array], Any], list[Array]]
"""The reference's results for dense arrays, computed in a dtype."""

ROUNDINGS: Final = 4
"""Tiles of the working dtype that are stored on the way, each rounded by half a unit: operands, two steps, result."""
PASSES: Final = 2
"""Sums of n terms, one after the other, that a result may hold, as the mean and the variance in a normalisation."""
FUNCTION: Final = 8
"""Units of float32 that functions of the Scalar engine, and short chains of operations, may be off."""
SAMPLES: Final = 6
"""Moved inputs. The chance that none of them moves a result by a quarter of the typical distance is 1 in 100,000."""
LOSS: Final = 3
"""Errors of the reference's own float32 run that a kernel may have: it may round in another order, and more often."""
_AGAIN: Final = 2.0**-40
"""The part of its largest result that a reference may be off when it runs again: it computes in 53 bits."""
_U32: Final = 2.0**-24


@dataclass(frozen=True, slots=True)
class Expectation:
    """The right elements of one output, how far each may be off, and which ones the reference defines."""

    right: Array
    allowed: Array
    defined: Array

    def errors(self, found: Array, dtype: DType) -> Array:
        """The error of each element in units of its tolerance; 0 where the reference defines none."""
        wide = found.astype(np.float64)
        error = deviations(wide, self.right)
        with np.errstate(all="ignore"):
            over = np.abs(self.right) + self.allowed >= _largest(dtype)
            saturated = over & (np.abs(wide) >= _largest(dtype)) & (np.sign(wide) == np.sign(self.right))
            units = np.where(error > 0, error / self.allowed, 0.0)
        units = np.where(np.isnan(units), np.inf, units)
        return np.where(saturated | ~self.defined, 0.0, units)


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits: the coarsest dtype, and a part of the largest result in place of what is derived."""

    precision: DType | None = None
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Precision:
    """The facts from which a tolerance follows."""

    coarsest: DType
    """The coarsest dtype that an output may have."""
    working: DType
    """The dtype of intermediate tiles."""
    terms: int
    """Of the longest sum."""
    moves: bool
    """An input has floats, which can be moved."""
    given: float | None = None
    alike: bool = False
    """All terms of a sum may be equal, and with them their roundings."""

    @property
    def moved(self) -> float:
        """By how much inputs are moved, relative to each element: its standard deviation."""
        return ROUNDINGS * unit(self.working) + self.summing

    @property
    def summing(self) -> float:
        """The loss of sums, relative to the root of the sum of squares."""
        return PASSES * (self.terms if self.alike else math.sqrt(self.terms)) * _U32

    def rounding(self, output: DType) -> float:
        """The loss of a result at its end, relative to itself: functions, and roundings to tiles or to its dtype."""
        own = 2 * unit(output) if output.is_float and unit(output) > unit(self.working) else 0.0
        return ROUNDINGS * unit(self.working) + FUNCTION * 2 * _U32 + own

    def derivation(self) -> str:
        """The derivation in words."""
        if self.given is not None:
            return f"{self.given:g} of the largest result of each output, as given"
        sums = f"{PASSES} sums of {self.terms} terms in float32 ({PASSES} x sqrt({self.terms}) x {_U32:.2g})"
        ratio = unit(self.working) / _U32
        coarser = f" x {ratio:g} for {self.working}" if ratio > 1 else ""
        moved = (
            f"how far the reference moves, in {SAMPLES} samples, if each element of the inputs moves by "
            f"{self.moved:.2g}: {ROUNDINGS} roundings to {self.working} ({unit(self.working):.2g} each), {sums}"
            if self.moves
            else f"no input has floats to move, so {self.moved:.2g} of the largest result: {ROUNDINGS} roundings to "
            f"{self.working}, {sums}"
        )
        return (
            f"{moved}; {LOSS} x what the reference loses in float32{coarser}; and of each result "
            f"{self.rounding(self.working):.2g}: {ROUNDINGS} roundings to {self.working}, {FUNCTION} units of float32"
        )


def unit(dtype: DType) -> float:
    """The unit roundoff of a float dtype: half the distance from 1 to the next number."""
    return max(float(cast("Any", ml_dtypes.finfo(dtype.dtype)).eps) / 2, _U32)


def precision(
    inputs: Sequence[tuple[tuple[int, ...], DType]], outputs: Sequence[tuple[int, ...]], limits: Limits
) -> Precision:
    """The precision of a kernel with these ``inputs`` and shapes of ``outputs``.

    The coarsest float dtype among the inputs is the coarsest one of outputs, unless the user says another one.
    Intermediate tiles are not coarser than bfloat16 by default: operands of 8 bits are sums in float32. A sum has as
    many terms as the longest axis of an input, or as an input has elements for each element of the smallest output,
    whichever is more.
    """
    floats = [dtype for _, dtype in inputs if dtype.is_float and dtype.computes]
    coarsest = limits.precision or max(floats, key=unit, default=dtypes.float32)
    working = limits.precision or min(coarsest, dtypes.bfloat16, key=unit)
    axes = [size for shape, _ in inputs for size in shape]
    smallest = min((math.prod(shape) for shape in outputs), default=1)
    ratios = [math.prod(shape) // max(smallest, 1) for shape, _ in inputs]
    return Precision(coarsest, working, max([1, *axes, *ratios]), bool(floats), limits.tolerance)


def expectations(
    reference: Reference,
    arrays: Sequence[Array],
    outputs: Sequence[DType],
    precise: Precision,
    generator: np.random.Generator,
    also: Sequence[Array] | None = None,
    reach: Sequence[Array] | None = None,
    orders: Sequence[Sequence[Array]] = (),
) -> list[Expectation]:
    """The right elements of each output on ``arrays``, with their tolerances.

    An element is undefined where the reference gives NaN, or loses it in float32 (an intermediate number overflows).
    With ``also``, it is undefined too where the reference differs on these arrays; with ``reach``, where it overflows
    on these in float32, so that the order of a sum decides. With ``orders``, the arrays with either infinity for each
    NaN, it is undefined where that matters and the reference takes NaN for one of them, as sorting does.
    """
    right = reference(arrays, np.float64)
    single = reference(arrays, np.float32)
    if reach is not None:
        pairs = zip(single, reference(reach, np.float32), strict=True)
        single = [np.where(np.isfinite(far.astype(np.float64)), one, np.nan) for one, far in pairs]
    spread = [np.zeros(each.shape) for each in right]
    loss = [_errors(one, other) for one, other in zip(single, right, strict=True)]
    for _ in range(SAMPLES):
        moved = [_moved(each, precise, generator) for each in arrays]
        exact, rounded = reference(moved, np.float64), reference(moved, np.float32)
        for n, one in enumerate(exact):
            spread[n] = np.maximum(spread[n], _errors(one, right[n]))
            loss[n] = np.maximum(loss[n], _errors(rounded[n], one))
    others = right if also is None else reference(also, np.float64)
    extremes = [reference(each, np.float64) for each in orders]
    for n, each in enumerate(right if extremes else ()):
        first, second = (_are_same(each, found[n]) for found in extremes)
        single[n] = np.where(first != second, np.nan, single[n].astype(np.float64))
    return [
        _expectation(right[n], single[n], spread[n], loss[n], others[n], output, precise)
        for n, output in enumerate(outputs)
    ]


def _expectation(
    right: Array, single: Array, spread: Array, loss: Array, other: Array, output: DType, precise: Precision
) -> Expectation:
    wide, single = right.astype(np.float64), single.astype(np.float64)
    finite = np.isfinite(wide)
    size = np.where(finite, np.abs(wide), 0.0)
    largest = float(size.max(initial=0.0))
    allowed = spread
    if precise.given is not None:
        allowed = np.full(wide.shape, precise.given * largest)
    elif right.dtype.kind == "f":
        ratio = unit(precise.working) / _U32
        tiny = max(_smallest(output), _smallest(precise.working), _smallest(dtypes.float32))
        allowed = spread + LOSS * ratio * loss + precise.rounding(output) * np.maximum(size, tiny) + _U32**2 * largest
        if not precise.moves:
            allowed = allowed + precise.moved * largest
    beyond = finite & (size > float(np.finfo(np.float32).max))
    defined = ~np.isnan(wide) & ~np.isnan(single) & np.isfinite(allowed)
    defined &= np.isfinite(single) | beyond | ~finite
    with np.errstate(all="ignore"):
        defined &= np.where(finite, _errors(other, right) <= allowed, other == right)
    return Expectation(wide, np.where(np.isfinite(allowed), allowed, 0.0), defined)


def is_same(one: Array, other: Array) -> bool:
    """Test if two results of a reference are the same but for the order of its sums."""
    size = np.where(np.isfinite(one.astype(np.float64)), np.abs(one.astype(np.float64)), 0.0)
    return one.shape == other.shape and bool((_errors(one, other) <= _AGAIN * size.max(initial=0.0)).all())


def _are_same(one: Array, other: Array) -> Array:
    return _errors(one, other) == 0


def _smallest(dtype: DType) -> float:
    """The smallest normal number of a float dtype, below which its numbers are as coarse as there; 0 for others."""
    return float(cast("Any", ml_dtypes.finfo(dtype.dtype)).tiny) if dtype.is_float else 0.0


def _errors(one: Array, other: Array) -> Array:
    """The distances of results; infinite where only one is a finite number."""
    return deviations(one.astype(np.float64), other.astype(np.float64))


def _moved(array: Array, precise: Precision, generator: np.random.Generator) -> Array:
    """Floats moved at random to numbers of float32: each by itself, and all alike as a sum of them may be off."""
    if not (array.dtype.kind == "f" or (array.dtype.kind == "V" and dtypes.of(array.dtype).is_float)):
        return array
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        steps = precise.moved * generator.uniform(-math.sqrt(3), math.sqrt(3), wide.shape)
        together = precise.summing * generator.uniform(-math.sqrt(3), math.sqrt(3))
        return (wide * (1 + steps + together)).astype(np.float32)


def _largest(dtype: DType) -> float:
    return dtype.largest if dtype.is_float else np.inf
