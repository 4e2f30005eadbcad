"""Packed dtypes from outside: arrays of other libraries, and views of words and bytes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import dtype as dt
from nki.base.errors import UnknownDTypeError


def foreign(name: str, size: int) -> np.dtype:
    """A NumPy type as libraries make it that know packed dtypes: bytes under the name of the type."""
    return np.dtype((type(name, (np.void,), {}), [("raw", "u1", (size,))]))


@pytest.mark.parametrize("kind", [d for d in dt.ALL if d.is_packed], ids=str)
def test_types_of_that_name_and_width_are_known(kind: dt.DType) -> None:
    assert dt.of(foreign(kind.name, kind.itemsize)) is kind
    with pytest.raises(UnknownDTypeError):
        dt.of(foreign(kind.name, 3))
    with pytest.raises(UnknownDTypeError):
        dt.of(foreign("float8_e4m3fn", 1))


def test_four_numbers_are_in_a_packed_element() -> None:
    elements = {d.name: (d.itemsize, d.largest, d.element) for d in dt.ALL if d.is_packed}
    assert elements == {
        "float8_e4m3fn_x4": (4, 448.0, np.dtype(ml_dtypes.float8_e4m3fn)),
        "float8_e5m2_x4": (4, 57344.0, np.dtype(ml_dtypes.float8_e5m2)),
        "float4_e2m1fn_x4": (2, 6.0, np.dtype(ml_dtypes.float4_e2m1fn)),
    }


@nki.jit
def words_and_bytes(packed):
    """A packed array of the caller's as words and as single numbers."""
    tile = nl.ndarray(packed.shape, packed.dtype)
    nisa.dma_copy(tile, packed)
    words = nl.ndarray(packed.shape, nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(words, tile.view(nl.uint32))
    numbers = nl.ndarray((packed.shape[0], 4 * packed.shape[1]), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(numbers, tile.view(nl.uint8).view(nl.float8_e5m2))
    return words, numbers


@pytest.mark.parametrize("run", [words_and_bytes, nki.simulate(words_and_bytes)], ids=["compiled", "simulated"])
def test_views_of_a_packed_array(run) -> None:
    numbers = np.random.default_rng(3).standard_normal((32, 24)).astype(ml_dtypes.float8_e5m2)
    words, values = run(numbers.view(foreign("float8_e5m2_x4", 4)))
    np.testing.assert_array_equal(words, numbers.view(np.uint32))
    np.testing.assert_array_equal(values, numbers.astype(np.float32))
