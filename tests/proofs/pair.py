"""What a pair is: two ways to compute one function over the real numbers, with the shapes for which they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_dtypes
import numpy as np

import nki
from nki.jit import Kernel

Array = np.ndarray[Any, Any]
Side = Literal["old", "new"]
Sense = Literal["reals", "rounding", "underflow"]
"""In which both sides are equal: over the reals with casts as identities; but for a cast that rounds a value on
purpose; but for exponentials too small for float32, such as exp of a large negative fill of a mask."""
DRAWS = ((0, 1.0), (1, 0.02))
"""Seeds and scales of random inputs; beside the small ones an epsilon counts."""
FLOATS = {"bfloat16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Input:
    """A tensor that a pair receives. Without ``low`` and ``high`` its numbers are normal ones; with both they are
    uniform in between, and for integers below ``high``.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """As ``--arg`` takes it."""
        return "x".join(map(str, self.shape)) + f":{self.dtype}"

    def drawn(self, random: np.random.Generator, scale: float = 1.0) -> Array:
        """Only normal numbers are scaled: the others have the range that the kernel needs."""
        if self.dtype.startswith(("int", "uint")):
            return random.integers(int(self.low or 0), int(self.high or 8), self.shape).astype(self.dtype)
        if self.low is not None and self.high is not None:
            values = random.uniform(self.low, self.high, self.shape)
        else:
            values = random.standard_normal(self.shape) * scale
        return values.astype(np.float32).astype(FLOATS.get(self.dtype, self.dtype))


def tensors(*shapes: tuple[int, ...], dtype: str = "float32") -> tuple[Input, ...]:
    """Inputs of normal numbers."""
    return tuple(Input(shape, dtype) for shape in shapes)


@dataclass(frozen=True)
class Pair:
    """``old`` and ``new`` are kernels; ``old`` may be a function of NumPy, PyTorch or JAX instead.

    ``bound``: how far the two may be apart on float32 hardware, relative to the largest magnitude of an output.
    ``slow``: of real size; only nightly tests run it. ``identities``: what a proof needs to know, in words.
    """

    name: str
    family: str
    old: Callable[..., Any]
    new: Callable[..., Any]
    specs: tuple[Input, ...]
    bound: float = 2e-5
    sense: Sense = "reals"
    slow: bool = False
    identities: tuple[str, ...] = field(default=())

    def arguments(self, seed: int = 0, scale: float = 1.0) -> list[Array]:
        random = np.random.default_rng(seed)
        return [spec.drawn(random, scale) for spec in self.specs]

    def side(self, side: Side) -> Callable[..., Any]:
        return self.old if side == "old" else self.new

    def kernels(self) -> Iterator[tuple[Side, Kernel]]:
        """The sides that are kernels."""
        for side in ("old", "new"):
            function = self.side(side)
            if isinstance(function, Kernel):
                yield side, function


def outputs(function: Callable[..., Any], arguments: list[Array]) -> list[Array]:
    """What a kernel computes in the simulator, or a function on its framework's tensors, in float64."""
    if isinstance(function, Kernel):
        results = nki.simulate(function)(*(argument.copy() for argument in arguments))
    else:
        results = function(*_framework_tensors(function, arguments))
    results = results if isinstance(results, tuple | list) else [results]
    return [np.asarray(result).astype(np.float64) for result in results]


def _framework_tensors(function: Callable[..., Any], arguments: list[Array]) -> list[Any]:
    names = function.__globals__  # type: ignore[attr-defined]
    used = function.__code__.co_names  # type: ignore[attr-defined]
    kinds = [name for name in ("torch", "jnp", "jax", "np") if name in used]
    kind = next(iter(kinds or [name for name in ("torch", "jnp") if name in names]), "np")
    if kind == "torch":
        return [names["torch"].from_numpy(argument) for argument in arguments]
    if kind != "np":
        return [names["jnp"].asarray(argument) for argument in arguments]
    return [a.astype(np.float64) if a.dtype.kind not in "iu" else a for a in arguments]


def distance(one: list[Array], other: list[Array]) -> float:
    """The largest difference relative to the largest magnitude of its output; infinite for other shapes or NaN."""
    if [o.shape for o in one] != [o.shape for o in other]:
        return np.inf
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return np.inf
        if a.size:
            worst = max(worst, float(np.abs(a - b).max()) / max(float(np.abs(a).max()), 1e-30))
    return worst
