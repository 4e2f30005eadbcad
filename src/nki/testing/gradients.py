"""``nki.testing``: checks that kernels are right (``docs/training.md``)."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from nki.base import element_types as dtypes
from nki.base.errors import ArgumentError
from nki.base.framework_errors import GradientMismatchError
from nki.jit import adapter_for
from nki.workload.reference import ROUNDING, SUMMING, as_array, detached, eps, of_arrays_or_tensors, results_of

Float64 = NDArray[np.float64]
Saved = Literal["inputs", "results", "all"]

_SHORTER: Final = 4
"""Shorter steps that are tried, each a quarter of the one before."""


@dataclass(frozen=True)
class Worst:
    """The element of one gradient that lies farthest outside its tolerance, or nearest to it."""

    argument: str
    index: tuple[int, ...]
    gradient: float
    """The number that the backward returns."""
    difference_quotient: float
    """The derivative by central differences."""
    tolerance: float
    checked: int
    """Elements that were compared, of ``size``."""
    size: int

    @property
    def error(self) -> float:
        return abs(self.gradient - self.difference_quotient)

    @property
    def good(self) -> bool:
        return self.error <= self.tolerance  # not so for NaN

    def __str__(self) -> str:
        place = f"{self.argument}[{', '.join(map(str, self.index))}]"
        return (
            f"{'ok ' if self.good else 'BAD'} {place}: backward {self.gradient:.9g}, "
            f"difference quotient {self.difference_quotient:.9g}, off by {self.error:.2g}, "
            f"tolerance {self.tolerance:.2g} ({self.checked} of {self.size} elements)"
        )


@dataclass(frozen=True)
class GradientReport:
    """The worst element of each gradient."""

    worst: tuple[Worst, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.worst))


def gradcheck(
    kernel: Callable[..., Any],
    backward: Callable[..., Any],
    *args: Any,
    reference: Callable[..., Any] | None = None,
    save: Saved = "inputs",
    kept: int = 0,
    elements: int = 64,
    tolerance: float | None = None,
    step: float | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> GradientReport:
    """Compare the gradients that ``backward`` returns with central differences.

    ``kernel``, ``backward``, ``save`` and ``kept`` are as in ``nki.torch.op``; ``args`` are arrays of any framework,
    and what else the kernel takes. The loss is the sum of the results times random weights. ``elements`` random
    elements of each argument are moved, all if it has no more.

    ``reference`` computes what the kernel does: it gets the arguments as float64 NumPy arrays, or if ``args`` are
    PyTorch's and it raises TypeError or AttributeError for arrays, as float64 tensors. It returns arrays or tensors. An
    element may differ by ``tolerance`` of the gradient's largest element; by default
    ROUNDING * eps of the gradient's dtype + SUMMING * eps of float32.

    Without ``reference`` the kernel itself is differenced in its own precision, which is coarser: the precision of the
    coarsest float dtype among its arguments and results. The tolerance grows by the rounding of the results that move
    (2 eps of that dtype each, as independent errors), divided by the distance, and by the difference between the
    quotients over one and over two steps, which estimates the curvature.

    ``step`` is the distance from the middle, relative to the element if that is larger than 1; by default the cube root
    of eps of float64, or without ``reference`` of that dtype. It is shortened where a result is no finite number.

    Returns the worst element of each gradient. Raises :class:`GradientMismatchError`, with the same lines, if one is
    outside its tolerance.
    """
    adapter = adapter_for(args, kwargs)
    if tensors := [name for name, value in kwargs.items() if adapter.is_framework_tensor(value)]:
        raise ArgumentError(f"tensor {tensors[0]!r} is passed by name", fix="pass tensors by position")
    values = [adapter.to_numpy(detached(a)) if adapter.is_framework_tensor(a) else a for a in args]
    places = [i for i, a in enumerate(values) if isinstance(a, np.ndarray)]
    random = np.random.default_rng(seed)

    def convert(array: Any) -> Any:
        # A copy, which a kernel may change.
        return adapter.from_numpy(as_array(array).copy()) if isinstance(array, np.ndarray) else array

    def run(*values: Any, **constants: Any) -> Any:
        return kernel(*map(convert, values), **constants)

    results = results_of(run(*values, **kwargs))
    shown = results[: len(results) - kept]
    weights: list[NDArray[Any]] = [as_array(random.standard_normal(r.shape)).astype(r.dtype) for r in shown]
    saved = [values[i] for i in places] if save != "results" else []
    saved += list(results) if save != "inputs" else []
    gradients = results_of(backward(*map(convert, [*saved, *weights]), **_shared(kernel, backward, values, kwargs)))
    if len(gradients) > len(places):
        raise ArgumentError(
            f"the backward returns {len(gradients)} gradients, and the kernel takes {len(places)} tensors",
            fix="return a gradient for each tensor argument in order, at most as many",
        )

    names = list(inspect.signature(kernel).parameters)
    torch: Any = sys.modules.get("torch")
    if reference is not None and torch is not None and any(isinstance(a, torch.Tensor) for a in args):
        reference = of_arrays_or_tensors(reference, torch)
    function = _Differenced(reference or run, reference is None, values, kwargs, weights)
    worst: list[Worst] = []
    for position, gradient in zip(places, gradients, strict=False):
        if gradient is None:
            continue
        _check_shape(names[position], gradient.shape, values[position].shape)
        size = gradient.size
        chosen = range(size) if size <= elements else sorted(random.choice(size, elements, replace=False).tolist())
        worst.append(_compare(function, position, names[position], gradient, chosen, tolerance, step))
    report = GradientReport(tuple(worst))
    if not all(w.good for w in worst):
        raise GradientMismatchError(
            f"the backward of {getattr(kernel, '__name__', 'the kernel')!r} is not its derivative:\n{report}",
            fix="compare the formula for the first tensor that is BAD; index and sign show which term is wrong",
        )
    return report


def _check_shape(name: str, gradient: tuple[int, ...], tensor: tuple[int, ...]) -> None:
    if gradient != tensor:
        raise ArgumentError(
            f"the gradient of {name!r} has shape {gradient}, the tensor {tensor}",
            fix="return gradients in the order and shapes of the tensor arguments",
        )


def _compare(
    function: _Differenced,
    position: int,
    name: str,
    gradient: NDArray[Any],
    chosen: Sequence[int],
    tolerance: float | None,
    step: float | None,
) -> Worst:
    found = gradient.astype(np.float64).reshape(-1)[list(chosen)]
    quotients, bounds = np.array([function.quotient(position, i, step) for i in chosen]).T
    share = ROUNDING * eps(gradient.dtype) + SUMMING * eps(np.dtype(np.float32)) if tolerance is None else tolerance
    allowed = share * float(np.abs(gradient.astype(np.float64)).max(initial=0.0)) + bounds
    excess = np.nan_to_num(np.abs(found - quotients) - allowed, nan=np.inf)
    at = int(excess.argmax())
    index = tuple(int(i) for i in np.unravel_index(chosen[at], gradient.shape))
    return Worst(name, index, found[at], quotients[at], float(allowed[at]), len(chosen), gradient.size)


@dataclass(frozen=True)
class _Quotient:
    """A difference quotient of the loss over ``distance``, and the results at both ends."""

    quotient: float
    distance: float
    above: list[Float64]
    below: list[Float64]


class _Differenced:
    """The loss as a function of single elements; ``rounded``: the kernel itself computes it, in its own precision."""

    def __init__(
        self,
        function: Callable[..., Any],
        rounded: bool,
        values: Sequence[Any],
        named: dict[str, Any],
        weights: Sequence[NDArray[Any]],
    ) -> None:
        self.function, self.rounded, self.named = function, rounded, named
        self.values: list[Any] = [
            v.astype(np.float64) if isinstance(v, np.ndarray) and not rounded and _is_float(as_array(v)) else v
            for v in values
        ]
        self.weights = [w.astype(np.float64) for w in weights]
        arrays: list[NDArray[Any]] = [*(v for v in self.values if isinstance(v, np.ndarray)), *weights]
        floats = [array.dtype for array in arrays if _is_float(array)]
        self.eps = max(map(eps, floats), default=0.0) if rounded else eps(np.dtype(np.float64))
        """Of the coarsest dtype in which results are rounded on their way."""

    def results(self, position: int, index: int, value: float) -> tuple[list[Float64], float]:
        """The results with one element at ``value``, and what that is after its rounding."""
        changed = self.values[position].copy()
        changed.reshape(-1)[index] = value
        values = [changed if i == position else v for i, v in enumerate(self.values)]
        found = results_of(self.function(*values, **self.named))[: len(self.weights)]
        if len(found) < len(self.weights):
            raise ArgumentError(
                f"the reference returns {len(found)} results, the kernel {len(self.weights)}",
                fix="return the same results in the same order",
            )
        wide = [np.asarray(r).astype(np.float64) for r in found]
        for theirs, weight in zip(wide, self.weights, strict=True):
            if theirs.shape != weight.shape:
                raise ArgumentError(
                    f"the reference returns shape {theirs.shape}, the kernel {weight.shape}",
                    fix="return the same results in the same order",
                )
        return wide, float(changed.reshape(-1)[index])

    def quotient(self, position: int, index: int, step: float | None) -> tuple[float, float]:
        """The central difference quotient for one element, and by how much it may be wrong itself."""
        dtype = self.values[position].dtype
        if not _is_float(self.values[position]):
            raise ArgumentError(f"a gradient for a tensor of {dtype}", fix="return None in its place")
        middle = float(self.values[position].reshape(-1)[index])
        # The cube root of eps balances rounding against curvature.
        width = (step or float(np.cbrt(max(self.eps, eps(dtype))))) * max(1.0, abs(middle))
        once = self.over(position, index, middle, width)
        if not self.rounded:
            return once.quotient, 0.0
        twice = self.over(position, index, middle, 2 * width)
        for _ in range(_SHORTER):
            if math.isfinite(once.quotient) and math.isfinite(twice.quotient):
                break
            width /= 4  # it led out of the function's domain
            once, twice = (self.over(position, index, middle, each) for each in (width, 2 * width))
        return once.quotient, self.rounding(once, twice) + abs(twice.quotient - once.quotient)

    def over(self, position: int, index: int, middle: float, width: float) -> _Quotient:
        """The quotient over ``middle`` ± ``width``."""
        above, right = self.results(position, index, middle + width)
        below, left = self.results(position, index, middle - width)
        difference = 0.0
        for high, low, weight in zip(above, below, self.weights, strict=True):
            difference += float(((high - low) * weight).sum())
        return _Quotient(difference / (right - left), right - left, above, below)

    def rounding(self, once: _Quotient, twice: _Quotient) -> float:
        """The error of the first quotient that the rounding of results may cause.

        A kernel rounds each result a few times on its way. The weights of the loss are random, so these errors add up
        like independent ones. Where a step is finer than the results, some that depend on the element stay as they are:
        what moves in either step counts, and all if none does.
        """
        moved = [
            (high != low) | (higher != lower)
            for high, low, higher, lower in zip(once.above, once.below, twice.above, twice.below, strict=True)
        ]
        everything = not any(each.any() for each in moved)
        squares = 0.0
        for high, low, weight, chosen in zip(once.above, once.below, self.weights, moved, strict=True):
            error = np.abs(weight) * (np.abs(high) + np.abs(low)) * (chosen | everything)
            squares += float(np.square(error).sum())
        return 2 * self.eps * math.sqrt(squares) / once.distance


def _shared(
    kernel: Callable[..., Any], backward: Callable[..., Any], values: Sequence[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """The arguments that are no tensors and that the backward takes too, by name; defaults included."""
    bound = inspect.signature(kernel).bind(*values, **named)
    bound.apply_defaults()
    wanted = inspect.signature(backward).parameters
    return {k: v for k, v in bound.arguments.items() if k in wanted and not isinstance(v, np.ndarray)}


def _is_float(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" or dtypes.of(array.dtype).is_float


__all__ = ["GradientReport", "Worst", "gradcheck"]
