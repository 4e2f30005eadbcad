"""The inputs on which ``nki.testing.verify`` runs a kernel: sizes at the edges of tiles, rules of numbers, draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki.base.dtype_conversion import from_float32
from nki.base.element_types import DType
from nki.base.gate_errors import VerificationInputError
from nki.workload.arguments import TensorArgument, filled

Array = NDArray[Any]
Sizes = Mapping[str, int | Sequence[int] | range]

EDGES: Final = (127, 128, 129, 511, 512, 513)
"""Sizes around 128, the partitions of a tile, and 512, the float32 columns of a bank of PSUM (target/memory_spaces)."""
SCALES: Final = (2.0**-10, 2.0**3)
"""Factors of random inputs: results near zero, where a loose absolute tolerance takes zeros, and large ones."""
_SHARE: Final = 1 / 64
"""The part of an input's elements that are special in a draw of special values, at least one; of rows too for zeros."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for the numbers of a draw. ``special``: a part of one input is so; else all inputs are random."""

    name: str
    fill: str = "random"
    scale: float = 1.0
    special: str = ""


GIVEN: Final = Rule("as given")
ORDINARY: Final = (
    Rule("random"),
    Rule("uniform", "uniform"),
    Rule("wide", "wide"),
    *(Rule(f"random x {scale:g}", scale=scale) for scale in SCALES),
)
MADE: Final = Rule("made")
SPECIAL: Final = ("nan", "inf", "zero", "subnormal", "largest", "equal")


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor argument of the kernel, with the array that the user gave as an example, if any."""

    argument: TensorArgument
    example: Array | None = None

    @property
    def is_float(self) -> bool:
        """True if its elements are floats that rules may scale and replace."""
        return self.argument.dtype.is_float and self.argument.dtype.computes

    @property
    def is_free(self) -> bool:
        """True if rules make its numbers: floats for which the user named no filling."""
        return self.is_float and (self.example is not None or not self.argument.given)

    @property
    def varies(self) -> bool:
        """True if two draws differ."""
        if self.example is not None:
            return self.is_float or len(np.unique(self.example.reshape(-1).view(self.argument.dtype.plain))) > 1
        return not self.argument.given or self.argument.fill in ("random", "uniform", "wide", MADE.name)

    def drawn(self, rule: Rule, generator: np.random.Generator) -> Array:
        """The elements by ``rule``, dense.

        Where the user named a filling, that one holds. Integers of an example are drawn from its elements, so they stay
        indices that exist; floats of an example without negative ones have none.
        """
        own, dtype = self.argument, self.argument.dtype
        if self.example is not None and (rule == GIVEN or not self.is_float):
            if rule == GIVEN:
                return self.example.copy()
            flat = self.example.reshape(-1)
            return flat[generator.integers(0, flat.size, flat.size)].reshape(own.shape)
        if not self.is_free:
            return np.ascontiguousarray(own.make(generator))
        array = filled(own.shape, dtype, rule.fill).make(generator)
        if rule.scale != 1.0:
            array = from_float32(array.astype(np.float32) * np.float32(rule.scale), dtype)
        if self.example is not None and not np.any(self.example.astype(np.float32) < 0):
            array = np.abs(array)
        return np.ascontiguousarray(array)

    def with_special(self, kind: str, array: Array, generator: np.random.Generator) -> Array:
        """``array`` with special values of ``kind`` in some places; "equal": one number in all."""
        flat = array.reshape(-1).copy()
        if kind == "equal":
            flat[:] = flat[0]
        else:
            values = _special(kind, self.argument.dtype)
            count = max(1, round(flat.size * _SHARE))
            places = generator.choice(flat.size, count, replace=False)
            flat[places] = values[generator.integers(0, len(values), count)]
            if kind == "zero":  # whole rows too: a norm or a sum of nothing but zeros
                rows = flat.reshape(-1, array.shape[-1])
                some = generator.choice(len(rows), max(1, round(len(rows) * _SHARE)), replace=False)
                rows[some] = 0
        if self.example is not None and not np.any(self.example.astype(np.float32) < 0):
            flat = np.abs(flat)
        return flat.reshape(array.shape)


def _special(kind: str, dtype: DType) -> Array:
    limits = cast("Any", ml_dtypes.finfo(dtype.dtype))
    magnitudes: dict[str, Any] = {
        "nan": [np.nan],
        "inf": [np.inf, -np.inf],
        "zero": [0.0, -0.0],
        "subnormal": [limits.smallest_subnormal, -limits.smallest_subnormal, limits.tiny / 2],
        "largest": [dtype.largest, -dtype.largest],
    }
    return from_float32(np.array(magnitudes[kind], np.float32), dtype)


def flushed(array: Array, dtype: DType) -> Array:
    """``array`` with 0 for each subnormal number, as an engine may read it."""
    if not dtype.is_float:
        return array
    smallest = max(float(cast("Any", ml_dtypes.finfo(dtype.dtype)).tiny), float(np.finfo(np.float32).tiny))
    return np.where(np.abs(array.astype(np.float64)) < smallest, np.zeros((), array.dtype), array)


def with_infinities(array: Array, own: Input, sign: int) -> Array:
    """``array`` of ``own`` with an infinity of ``sign`` for each NaN."""
    if not own.is_float:
        return array
    wide = array.astype(np.float32)
    return from_float32(np.where(np.isnan(wide), np.float32(sign * np.inf), wide), own.argument.dtype)


def rules(seeds: int, special: Sequence[str], inputs: Sequence[Input], made: bool) -> list[Rule]:
    """The rules of all draws of one shape, in order; a caller shuffles them."""
    if made:
        return [MADE] * max(3 * seeds, 2)
    chosen = [GIVEN] * any(each.example is not None for each in inputs)
    if not any(each.is_free for each in inputs):
        return [*chosen, *[ORDINARY[0]] * max(3 * seeds, 2)]
    return [*chosen, *ORDINARY * seeds, *(Rule(f"special: {kind}", special=kind) for kind in special)]


def drawn(inputs: Sequence[Input], rule: Rule, generator: np.random.Generator) -> list[Array]:
    """The arrays of one draw, in the order of the kernel's inputs."""
    arrays = [each.drawn(rule, generator) for each in inputs]
    if rule.special:
        able = [n for n, each in enumerate(inputs) if each.is_free]
        chosen = able[int(generator.integers(len(able)))]
        arrays[chosen] = inputs[chosen].with_special(rule.special, arrays[chosen], generator)
    return arrays


def shapes(sizes: Sizes, most: int, rng: random.Random) -> list[dict[str, int]]:
    """Values of the names in ``sizes``: each listed one at least once; of a range its ends, the edges of tiles in it,
    and two that nothing foretells; at most ``most`` sets of values.

    Raises :class:`VerificationInputError` for names without a value, and for values that are no sizes.
    """
    columns: dict[str, list[int]] = {}
    for name, given in sizes.items():
        if isinstance(given, int):
            columns[name] = [given]
        elif isinstance(given, range) and len(given):
            edges = [each for each in EDGES if each in given]
            rng.shuffle(edges)
            some = [given[0], given[-1], rng.choice(given), *edges, rng.choice(given)]
            columns[name] = list(dict.fromkeys(some))[:most]
        else:
            columns[name] = list(given)
        if not columns[name] or any(type(each) is not int or each < 1 for each in columns[name]):
            raise VerificationInputError(
                f"sizes: {name!r} is {given!r}", fix=f"write {name!r}: 128, a list of sizes from 1 on, or range(1, 600)"
            )
        rng.shuffle(columns[name])
    count = max(map(len, columns.values()), default=1)
    rows = [{name: values[n % len(values)] for name, values in columns.items()} for n in range(count)]
    return [dict(pairs) for pairs in dict.fromkeys(tuple(row.items()) for row in rows)]


Make = Callable[[np.random.Generator], Sequence[Any]]
