"""The product of pairs, in tile registers or in vectors: the bits of the float32 product by groups, for any size."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki.numerics.matmul.amx import AS_SUMMED
from nki.numerics.matmul.contract import CHAIN, PANEL
from nki.numerics.matmul.host import configured, keeps_contract, matmul
from nki.numerics.matmul.units import MatrixUnit
from tests.support.matrix_units import UNITS, require
from tests.support.native_calls import call

Words = np.ndarray[Any, np.dtype[np.uint32]]


@pytest.fixture(params=["pairs", "tiles"])
def unit(request: pytest.FixtureRequest) -> MatrixUnit:
    """Each matrix unit for pairs, whether or not it pays."""
    require(request.param)
    unit = UNITS[request.param]
    assert unit is not None and keeps_contract(unit)
    return unit


def operand(depth: int, columns: int, seed: int) -> Any:
    """Normal bfloat16 numbers, with zeros and NaN, as float32."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((depth, columns)).astype(ml_dtypes.bfloat16).astype(np.float32)
    numbers[rng.random(numbers.shape) < 0.1] = -0.0
    numbers[rng.random(numbers.shape) < 0.001] = np.nan
    return numbers


def words(numbers: Any, unit: MatrixUnit) -> Words:
    """Rows w and 16 + w of each group, or 2 w and 2 w + 1, as the upper and the lower half of a word."""
    halves = (numbers.view(np.uint32) >> 16).reshape(-1, 2, 1 << unit.half, numbers.shape[1])
    return (halves[:, 0] << 16 | halves[:, 1]).reshape(-1, numbers.shape[1])


def product(unit: MatrixUnit, left: Any, right: Any, out: Any, accumulate: int) -> None:
    """Let the processor multiply words, with panels that lie apart, and columns of words beyond the result's."""
    depth, rows, columns = *left.shape, right.shape[1]
    count, step = -(-columns // PANEL), depth // 2 * PANEL + 48
    stationary = np.full((-(-rows // CHAIN) * CHAIN, depth // 2 + 32), 0x7FC07FC0, np.uint32)
    stationary[:rows, : depth // 2] = words(left, unit).T
    panels = np.full((count, step), 0x7FC07FC0, np.uint32)
    for number in range(count):
        part = words(right[:, PANEL * number : PANEL * (number + 1)], unit)
        panels[number, : depth // 2 * PANEL].reshape(-1, PANEL)[:, : part.shape[1]] = part
    sizes = rows, columns, unit.depth(depth), accumulate
    with configured(unit):
        call(unit.address(), out, out.strides[0] // 4, stationary, stationary.shape[1], panels, step, *sizes)


@pytest.mark.parametrize("depth", [16, 32, 48, 64, 128, 160, 240, 512])
@pytest.mark.parametrize("rows", [1, 7, 16, 17, 40, 77, 128])
@pytest.mark.parametrize("columns", [5, 16, 32, 33, 49, 96, 111])
def test_bits_of_every_size(depth: int, rows: int, columns: int, unit: MatrixUnit) -> None:
    depth += depth % unit.tile[2]  # tile registers multiply whole groups
    left, right = operand(depth, rows, 1), operand(depth, columns, 2)
    wide = np.random.default_rng(3).standard_normal((rows + 1, columns + 9)).astype(np.float32)
    for accumulate in (0, 1):
        before = wide.copy()
        expected = np.ascontiguousarray(wide[:rows, :columns])
        matmul(left, right, expected, bool(accumulate), by_groups=True)
        product(unit, left, right, wide[:rows, :columns], accumulate)
        assert wide[:rows, :columns].tobytes() == expected.tobytes()
        assert (wide[rows:] == before[rows:]).all() and (wide[:, columns:] == before[:, columns:]).all()


@pytest.mark.parametrize("rows", [16, 48, 128])
def test_a_panel_as_it_was_summed(rows: int, unit: MatrixUnit) -> None:
    left, right = operand(96, rows, 1), operand(96, PANEL, 2)
    out, expected = np.ones((rows, PANEL), np.float32), np.empty((rows, PANEL), np.float32)
    matmul(left, right, expected, False, by_groups=True)
    product(unit, left, right, out, AS_SUMMED)
    assert np.array_equal(out, expected, equal_nan=True)
