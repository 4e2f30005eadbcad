"""The rows of coefficients: each approximates what it says, as well as it says, and the tool would keep it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.numerics.functions.coefficients import FILE, piecewise_row, rows, table
from tools.fit_functions import FITS, Fit, Pieces, shown, written

_ROUNDING = 2.0**-24
"""What float32 coefficients may add to an error."""


def test_the_tool_keeps_the_rows() -> None:
    assert written(rows(), ()) == FILE.read_text(encoding="ascii")


def test_the_tool_fits_rows_that_are_new_or_named() -> None:
    fitted = json.loads(written({name: row for name, row in rows().items() if name != "log"}, ("rsqrt_step",)))
    assert fitted["log"] == rows()["log"]
    np.testing.assert_allclose(numbers(fitted["rsqrt_step"]), numbers(rows()["rsqrt_step"]), rtol=1e-6)


def numbers(row: Any) -> list[float]:
    return [float.fromhex(number) for line in row["coefficients"] for number in line.split()]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_hexadecimal_floats_are_exact(numbers: list[float]) -> None:
    text = shown(numbers)
    assert list(map(float.fromhex, text.split())) == numbers


@pytest.mark.parametrize("fit", [fit for fit in FITS if isinstance(fit, Fit)], ids=lambda fit: fit.name)
def test_polynomials_are_as_near_as_their_rows_say(fit: Fit) -> None:
    x = np.linspace(fit.low, fit.high, 3_001)[1:]
    y = fit.function(x)
    over, *under = (np.polynomial.Polynomial(numbers)(x) for numbers in table(fit.name))
    error = np.abs(over / (under[0] if under else 1.0) - y) * (1 / np.abs(y) if fit.weight is None else fit.weight(x))
    assert error.max() <= 1.1 * float(rows()[fit.name]["error"]) + _ROUNDING * fit.single


@pytest.mark.parametrize("fit", [fit for fit in FITS if isinstance(fit, Pieces)], ids=lambda fit: fit.name)
def test_piecewise_polynomials_are_as_near_as_their_rows_say(fit: Pieces) -> None:
    row = piecewise_row(fit.name)
    z = np.linspace(0, row.end, 20_001)[1:]
    n = np.rint(z / row.step).astype(int)
    center = np.where(np.abs(n - row.zero) == 1, row.zero, n) if row.zero else n
    d = z - center * row.step
    value = np.zeros_like(z)
    for number, column in reversed(list(enumerate(row.coefficients))):
        low = row.low if number == 1 and row.zero else 0.0
        value = value * d + np.array(column)[n] + low * (center == row.zero)
    value += np.where((n == 0) & row.starts_as_z, z, 0.0)
    error = np.abs(value / fit.function(z) - 1)
    assert error.max() <= 1.1 * float(rows()[fit.name]["error"])
    assert all(len(column) == 32 for column in row.coefficients) and len(row.coefficients) == fit.degree + 1


def test_logarithms_of_the_table_are_those_of_its_numbers() -> None:
    inverse, high, low = map(np.array, table("log"))
    np.testing.assert_allclose(high + low, -np.log(inverse), rtol=0, atol=2.0**-42)
    assert (np.ldexp(high, 17) % 1 == 0).all()
    m = 1 + np.arange(16)[:, None] / 16 + np.arange(0, 2**19, 1021) / 2**23
    r = m * inverse[:, None] - 1
    assert (r == r.astype(np.float32)).all() and np.abs(r).max() <= 1 / 16
