"""References evaluated over a finite field, or in float64, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki.proofs.field import FIELDS
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols
from nki.proofs.traced import evaluate_function
from tests.proofs.traced.floats import Floats

Array = np.ndarray


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return np.abs(floats(*shape)) + np.float32(0.5)


def unit(*shape: int) -> Array:
    return np.random.default_rng(3).uniform(-0.9, 0.9, shape).astype(np.float32)


def integers(*shape: int, below: int = 4) -> Array:
    return np.random.default_rng(5).integers(0, below, shape).astype(np.int32)


def symbolic(function: Callable[..., Any], *specs: Any, key: int = 1) -> list[Symbols]:
    """The outputs over a finite field."""
    reals = Reals(FIELDS[0], key)
    arrays = [each for each in specs if isinstance(each, np.ndarray)]
    inputs = [reals.variables(f"input {n}", each.shape, each.dtype.kind in "iu") for n, each in enumerate(arrays)]
    return evaluate_function(function, inputs, specs, reals)


def are_same(one: list[Symbols], other: list[Symbols]) -> bool:
    """True if both are the same functions over the field."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape, (a.shape, b.shape)
        parts = [(a.residues, b.residues), (a.exponents, b.exponents)]
        both = [(x, y) for x, y in parts if x is not None and y is not None]
        assert both
        if not all((x == y).all() for x, y in both):
            return False
    return True


def in_floats(function: Callable[..., Any], *specs: Any) -> list[Array]:
    """The outputs by the rules of a proof, in float64."""
    reals = Floats()
    inputs = [reals.of(each, each.dtype.kind in "iub") for each in specs if isinstance(each, np.ndarray)]
    return [each.residues for each in evaluate_function(function, inputs, specs, reals)]


def assert_close(found: list[Array], expected: Any) -> None:
    """``found`` is what a framework computes, in float32 or better."""
    listed = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    assert len(found) == len(listed)
    for one, other in zip(found, listed, strict=True):
        array = np.asarray(other, np.float64)
        assert one.shape == array.shape
        np.testing.assert_allclose(one, array, rtol=2e-4, atol=2e-5)
