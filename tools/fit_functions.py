"""Fits the polynomials of the CPU's activation functions and writes them as a Python module.

    python tools/fit_functions.py > src/nki/numerics/polynomials.py

Each table is the minimax fit, in the stated weight, of a smooth function on an interval: least squares on Chebyshev
points, reweighted by Lawson's method until the error levels out. Only NumPy and ``math`` are used, in double precision,
which is enough for fits down to about 1e-13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import cheb2poly, chebvander
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

POINTS = 2000
ROUNDS = 80

LN2_HALF = 0.3466  # a little over ln(2) / 2: rounding to the nearest multiple of ln 2 leaves no more
MILLS_END = 14.5  # x Phi(-x) is below half the smallest float32 from x = 14.3 on
MILLS_DX_END = 15.0  # so is x phi(x), the derivative's, from x = 14.6 on

MILLS_SHIFT = 2.78515625  # makes what MILLS_SINGLE fits flat, and its constant term a float32 to within 1e-10


HEADER = '''"""Coefficients of the CPU's activation functions, from the constant term up.

Written by tools/fit_functions.py; do not edit. The error of a row is the largest relative error of the fit (or another
measure that the row names) before its coefficients are rounded. A quotient's denominator has the constant term 1.
"""'''


@dataclass(frozen=True)
class Fit:
    """One table: ``function`` on [low, high] by a polynomial, or by a quotient if ``denominator`` is not 0."""

    name: str
    meaning: str
    function: Function
    low: float
    high: float
    numerator: int
    denominator: int = 0
    weight: Function | None = None  # error is measured times this; default 1 / |function|
    single: bool = False  # coefficients are used in float32


def solve(fit: Fit) -> tuple[Array, Array, float]:
    """Numerator, denominator (constant term 1) in powers of x, and the largest weighted error."""
    u = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    x = (fit.low + fit.high) / 2 + (fit.high - fit.low) / 2 * u
    y = fit.function(x)
    weight = 1 / np.abs(y) if fit.weight is None else fit.weight(x)
    above, below = chebvander(u, fit.numerator), chebvander(u, fit.denominator)
    lawson, q, best = np.ones(POINTS), np.ones(POINTS), (math.inf, np.zeros(1), np.zeros(1))
    for _ in range(ROUNDS):
        scale = np.sqrt(lawson) * weight / np.abs(q)
        matrix = np.hstack([above, -y[:, None] * below[:, 1:]]) * scale[:, None]
        found = np.linalg.lstsq(matrix, y * scale, rcond=None)[0]
        over, under = found[: fit.numerator + 1], np.r_[1.0, found[fit.numerator + 1 :]]
        q = below @ under
        error = np.abs(above @ over / q - y) * weight
        if error.max() < best[0]:
            best = (float(error.max()), over, under)
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.sum()
    if fit.single:
        return _rounded(fit, x, y, weight * np.sqrt(lawson)), np.ones(1), best[0]
    line = Polynomial([-(fit.high + fit.low) / (fit.high - fit.low), 2 / (fit.high - fit.low)])
    over, under = (Polynomial(cheb2poly(part))(line).coef for part in best[1:])
    return over / under[0], under / under[0], best[0]


def _rounded(fit: Fit, x: Array, y: Array, scale: Array) -> Array:
    """Float32 coefficients: each is rounded in turn and those that follow are fitted again to make up for it."""
    powers = np.vander(x, fit.numerator + 1, increasing=True) * scale[:, None]
    left: Array = y * scale
    fixed: list[float] = []
    for column in range(fit.numerator + 1):
        size = np.linalg.norm(powers[:, column:], axis=0)
        found: Array = np.asarray(np.linalg.lstsq(powers[:, column:] / size, left, rcond=None)[0], np.float64) / size
        fixed.append(float(np.float32(found[0])))
        left = left - powers[:, column] * fixed[-1]
    return np.array(fixed)


def _mills(z: Array) -> Array:
    """Phi(-z) exp(z^2 / 2), with Phi the distribution function of the normal law."""
    return 0.5 * np.vectorize(math.erfc)(z / math.sqrt(2)) * np.exp(z * z / 2)


def _shifted_mills(t: Array) -> Array:
    z = MILLS_SHIFT * (1 + t) / (1 - t)
    return _mills(z) * (z + MILLS_SHIFT)


def _exp_rest(r: Array) -> Array:
    """(exp(r) - 1 - r) / r^2; its series near 0."""
    series = 1 / 2 + r / 6 + r**2 / 24 + r**3 / 120
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.abs(r) < 1e-3, series, (np.expm1(r) - r) / r**2)


def _erf_ratio(s: Array) -> Array:
    """erf(x) / x - 1 at s = x^2."""
    x = np.sqrt(s)
    return np.vectorize(math.erf)(x) / x - 1


def _minus_log_erfc(x: Array) -> Array:
    return -np.log(np.vectorize(math.erfc)(x))


FITS = (
    Fit("EXP", "exp(r)", np.exp, -LN2_HALF, LN2_HALF, 7),
    Fit(
        "EXP_REST_SINGLE",
        "(exp(r) - 1 - r) / r^2; error relative to exp(r)",
        _exp_rest,
        -LN2_HALF,
        LN2_HALF,
        4,
        weight=lambda r: r**2 / np.exp(r),
        single=True,
    ),
    Fit("ATANH", "2 atanh(s) / s in s^2", lambda t: 2 * np.arctanh(np.sqrt(t)) / np.sqrt(t), 0, 1 / 9, 7),
    Fit("SIN", "sin(r) / r in r^2", lambda t: np.sin(np.sqrt(t)) / np.sqrt(t), 0, 2.48, 6),
    Fit("ARCTAN", "arctan(t) / t in t^2", lambda t: np.arctan(np.sqrt(t)) / np.sqrt(t), 0, 1, 13),
    Fit("MILLS", "Phi(-z) exp(z^2 / 2)", _mills, 0, MILLS_DX_END, 5, 6),
    Fit(
        "MILLS_SINGLE",
        "Phi(-z) exp(z^2 / 2) (z + MILLS_SHIFT) in (z - MILLS_SHIFT) / (z + MILLS_SHIFT)",
        _shifted_mills,
        -1,
        (MILLS_END - MILLS_SHIFT) / (MILLS_END + MILLS_SHIFT),
        10,
        single=True,
    ),
    Fit(
        "ERF_SMALL_SINGLE",
        "erf(x) / x - 1 in x^2; absolute error",
        _erf_ratio,
        0,
        1,
        5,
        weight=np.ones_like,
        single=True,
    ),
    Fit(
        "ERF_LARGE_SINGLE",
        "-log(erfc(x)); error is that of erf(x)",
        _minus_log_erfc,
        1,
        4,
        6,
        weight=np.vectorize(math.erfc),
        single=True,
    ),
)


def _show(name: str, numbers: Array) -> str:
    return f"{name} = (\n" + "".join(f"    {float(number)!r},\n" for number in numbers) + ")\n"


def main() -> None:
    print(HEADER)
    print(f"\nMILLS_END = {MILLS_END}")
    print(f"MILLS_DX_END = {MILLS_DX_END}")
    print(f"MILLS_SHIFT = {MILLS_SHIFT}")
    for fit in FITS:
        over, under, error = solve(fit)
        print(f"\n# {fit.meaning}, {fit.low:.5g} to {fit.high:.5g}: error {error:.1e}")
        if fit.denominator:
            print(_show(f"{fit.name}_OVER", over), end="")
            print(_show(f"{fit.name}_UNDER", under), end="")
        else:
            print(_show(fit.name, over), end="")


if __name__ == "__main__":
    main()
