"""Inputs on which two kernels may differ: distributions, scales and structures, in an order that is the same each time.

Whole numbers come first, for a small witness is easy to read. Others reach what one distribution does not: the rescale
of a running maximum needs rows that rise, a mask's edge a single element, a lost epsilon small numbers, a wrong branch
numbers of one sign.

Numbers stay below about 16. The filling of a mask, as -30000, takes the place of infinity beside scores of that size
alone; beyond it, kernels that are meant to be equal do differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.dtype_conversion import from_float32
from nki.ir.types import TensorSpec
from nki.workload.arguments import FILLS, filled

Array = NDArray[Any]
Shape = tuple[int, ...]
Numbers = Callable[[np.random.Generator, Shape], Array]
Range = tuple[int, int]
"""The least and the most integer of an input."""
_Maker = Callable[[str, int, int], Array]


def _whole(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.integers(-3, 4, shape)


def _signs(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.integers(0, 2, shape) * 2 - 1


def _rising(rng: np.random.Generator, shape: Shape) -> Array:
    """Along the last axis from -2 to 2, each row with a slope of its own."""
    slope = rng.integers(1, 4, (*shape[:-1], 1)) if shape else 1
    return slope * np.linspace(-2, 2, shape[-1] if shape else 1)


def _falling_rows(rng: np.random.Generator, shape: Shape) -> Array:
    """From row to row smaller, for kernels that walk along the rows."""
    steps = np.linspace(2, -2, shape[0] if shape else 1).reshape(-1, *[1] * (len(shape) - 1))
    return steps * rng.integers(1, 4, (1, *shape[1:]))


def _rows(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.integers(-3, 4, (*shape[:-1], 1)) * np.ones(shape)


def _one_hot(rng: np.random.Generator, shape: Shape) -> Array:
    """A single 1 in each row."""
    if not shape:
        return np.ones(())
    return (np.arange(shape[-1]) == rng.integers(0, shape[-1], (*shape[:-1], 1))).astype(np.float64)


def _spike(rng: np.random.Generator, shape: Shape) -> Array:
    """Zeros, and one large element."""
    numbers = np.zeros(int(np.prod(shape)))
    numbers[rng.integers(0, numbers.size)] = 8
    return numbers.reshape(shape)


def _scales(rng: np.random.Generator, shape: Shape) -> Array:
    """Both signs, magnitudes from 2^-8 to 4, all binary orders equally likely."""
    return rng.choice((-1.0, 1.0), shape) * np.exp2(rng.uniform(-8, 2, shape))


def _times(scale: float) -> Numbers:
    return lambda rng, shape: scale * rng.standard_normal(shape)


_SHAPES: Final[dict[str, Numbers]] = {
    "whole": _whole,
    "rising": _rising,
    "signs": _signs,
    "falling": _falling_rows,
    "positive": lambda rng, shape: np.abs(rng.standard_normal(shape)) + 0.25,
    "one hot": _one_hot,
    "spike": _spike,
    "rows": _rows,
    "small": _times(2.0**-8),
    "tiny": _times(2.0**-16),
    "large": _times(4.0),
    "scales": _scales,
    "count": lambda _, shape: np.arange(math.prod(shape)).reshape(shape) % 8,
}
ORDER: Final = (
    "whole", "random", "rising", "scales", "positive", "falling", "small", "signs", "uniform", "tiny", "large",
    "one hot", "rows", "spike", "ones", "count", "random", "scales",
)  # fmt: skip
"""The structures that all inputs get, one after the other; the names of ``--arg`` fillings are among them."""


def candidates(
    specs: Sequence[TensorSpec],
    seed: int,
    given: Sequence[Sequence[Array]] = (),
    ranges: Sequence[Range | None] = (),
) -> Iterator[list[Array]]:
    """Inputs of these shapes and dtypes; a new list of arrays each time.

    Integers may be indices or labels, and only the caller knows how many there are. They stay in their ``ranges``.
    Without one, integers of 16 bits and more take numbers of the first ``given`` inputs, or else numbers below every
    size in ``specs`` that is not 1.
    """
    known = given[0] if given else [None] * len(specs)
    most = min((size for spec in specs for size in spec.shape if size > 1), default=1)
    makers: list[_Maker] = []
    for place, spec in enumerate(specs):
        allowed, numbers = ranges[place] if ranges else None, known[place]
        if allowed is None and not (spec.dtype.is_integer and spec.dtype.itemsize > 1):
            makers.append(partial(_made, spec))
        elif allowed is None and numbers is not None:
            makers.append(partial(_shuffled, numbers))
        else:
            makers.append(partial(_ranged, spec, allowed or (0, most - 1)))
    for number, name in enumerate(ORDER):
        yield [maker(name, seed + number, place) for place, maker in enumerate(makers)]
    for number in range(len(ORDER)):  # structures mixed: each input another one
        rng = np.random.default_rng([seed, number])
        names: list[str] = rng.choice(ORDER, len(specs)).tolist()
        yield [maker(names[place], seed + number, place) for place, maker in enumerate(makers)]


def _made(spec: TensorSpec, name: str, seed: int, place: int) -> Array:
    dtype = spec.dtype
    if dtype.is_float and dtype.computes:
        if name in _SHAPES:
            numbers = _SHAPES[name](np.random.default_rng([seed, place]), spec.shape)
            return np.ascontiguousarray(from_float32(np.asarray(numbers, np.float32).reshape(spec.shape), dtype))
        return filled(spec.shape, dtype, name).array(seed, place)
    return filled(spec.shape, dtype, name if name in FILLS and not dtype.is_packed else "random").array(seed, place)


def _shuffled(known: Array, name: str, seed: int, place: int) -> Array:
    """The integers of an input in another order, or one of them alone."""
    rng = np.random.default_rng([seed, place])
    if name in ("ones", "spike"):
        return np.full(known.shape, known.flat[rng.integers(known.size)], known.dtype)
    return rng.permutation(known.reshape(-1)).reshape(known.shape)


def _ranged(spec: TensorSpec, allowed: Range, name: str, seed: int, place: int) -> Array:
    """Integers from the least to the most; in order, the least alone, or both ends."""
    rng = np.random.default_rng([seed, place])
    least, most = allowed
    if name == "count":
        numbers = least + np.arange(math.prod(spec.shape)).reshape(spec.shape) % (most - least + 1)
    elif name == "spike":
        numbers = np.full(spec.shape, least)
    elif name == "signs":
        numbers = rng.choice(allowed, spec.shape)
    else:
        numbers = rng.integers(least, most + 1, spec.shape)
    return numbers.astype(spec.dtype.dtype)
