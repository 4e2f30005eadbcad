"""The native searches of each partition, against the plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki.backend.cpu.native import library
from nki.backend.numpy import top8 as plain
from tests.support.native_calls import call

Array = np.ndarray[Any, Any]
SIZES = (8, 9, 15, 16, 17, 31, 33, 64, 100, 1000)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-42, -1e-42, 1.5, -3e38], np.float32)


def called(name: str, *arguments: Any) -> None:
    """Call a function of ``row_operations.c`` with arrays and numbers."""
    call(library.address(name, "row_operations"), *arguments)


def top8(data: Array) -> Array:
    out = np.full((len(data), 11), 77, np.float32)  # three columns that must stay as they are
    called("top8", out, 11, data, data.strides[0] // 4, *data.shape)
    assert (out[:, 8:] == 77).all()
    return out[:, :8]


def find(data: Array, wanted: Array, last_first: bool) -> Array:
    out = np.empty((len(data), 8), np.uint32)
    steps = data.strides[0] // 4, wanted.strides[0] // 4
    called("find", out, 8, data, steps[0], wanted, steps[1], *data.shape, int(last_first))
    return out


def rows(width: int, kind: int) -> Array:
    """Five rows of a wider array: distinct numbers, few different ones, any bits, special values, ascending numbers."""
    rng = np.random.default_rng([width, kind])
    made = [
        rng.standard_normal((5, width + 3)),
        rng.integers(-4, 4, (5, width + 3)),
        rng.integers(0, 1 << 32, (5, width + 3), np.uint32).view(np.float32),
        rng.choice(SPECIAL, (5, width + 3)),
        np.sort(rng.standard_normal((5, width + 3)), axis=1),
    ][kind]
    return made.astype(np.float32)[:, :width]


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("width", SIZES)
def test_eight_largest(width: int, kind: int) -> None:
    data = rows(width, kind)
    assert top8(data).tobytes() == plain.top8(data).tobytes()


@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("width", [1, 3, *SIZES])
def test_places(width: int, kind: int, last_first: bool) -> None:
    data = rows(width, kind)
    rng = np.random.default_rng([width, kind, last_first])
    wanted = np.take_along_axis(data, rng.integers(0, width, (5, 8)), axis=1)
    wanted[:, ::5] = rng.choice(SPECIAL, wanted[:, ::5].shape)  # values that may be nowhere
    np.testing.assert_array_equal(find(data, wanted, last_first), plain.find(data, wanted, last_first))


def test_order_of_special_values() -> None:
    data = np.array([[0.0, np.nan, -0.0, -np.inf, np.inf, 1e-42, -1e-42, -3e38, -5.0]], np.float32)
    want = np.array([[np.nan, np.inf, 1e-42, 0.0, -0.0, -1e-42, -5.0, -3e38]], np.float32)
    np.testing.assert_array_equal(plain.top8(data).view(np.uint32), want.view(np.uint32))


def test_equal_values_get_places_of_their_own() -> None:
    data = np.array([[5, 5, 1, 5]], np.float32)
    wanted = np.array([[5, 5, 5, 5, 1, 1, 2, np.nan]], np.float32)
    no = plain.NOWHERE
    assert plain.find(data, wanted, False).tolist() == [[0, 1, 3, no, 2, no, no, no]]
    assert plain.find(data, wanted, True).tolist() == [[no, 3, 1, 0, no, 2, no, no]]
