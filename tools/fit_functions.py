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


def _rsqrt_step(e: Array) -> Array:
    """((1 - e)^(-1/2) - 1) / e; its series near 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.abs(e) < 1e-4, 1 / 2 + 3 / 8 * e, ((1 - e) ** -0.5 - 1) / e)


def _log_rest(r: Array) -> Array:
    """(log(1 + r) - r + r^2 / 2) / r^3, by its series."""
    return sum(((-r) ** n / (n + 3) for n in range(12)), np.zeros_like(r))


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
        "RSQRT_STEP_SINGLE",
        "((1 - e)^(-1/2) - 1) / e; error relative to (1 - e)^(-1/2)",
        _rsqrt_step,
        -0.0703,
        0.068,
        2,
        weight=lambda e: np.abs(e) * np.sqrt(1 - e),
        single=True,
    ),
    Fit(
        "LOG_REST_SINGLE",
        "(log(1 + r) - r + r^2 / 2) / r^3; error relative to r",
        _log_rest,
        -0.0356,
        0.0625,
        3,
        weight=lambda r: r**2,
        single=True,
    ),
)


def log_table() -> tuple[list[float], list[float], list[float]]:
    """For each sixteenth of the mantissas m from 1 to 2: c, and -log(c) as two floats.

    c is near 1 / m, and of so few bits that m c - 1 is a float. At both ends it is exactly 1 and 1 / 2, so that
    logarithms around 1 start from 0. The first part of -log(c) is a multiple of 2^-17, so that its sum with n times the
    first part of ln 2 is exact.
    """
    inverse: list[float] = []
    for sixteenth in range(16):
        m: Array = 1 + sixteenth / 16 + np.arange(2**19) / 2**23
        found = (math.inf, 1.0)
        for bits in range(2, 11):
            c = round(2 ** (bits + 1) / float(m[0] + m[-1])) / 2**bits
            r: Array = m * c - 1
            if bool((r == r.astype(np.float32)).all()):
                found = min(found, (max(-float(r[0]), float(r[-1])), c))
        inverse.append({0: 1.0, 15: 0.5}.get(sixteenth, found[1]))
    high = [-round(math.log(c) * 2**17) / 2**17 + 0.0 for c in inverse]
    low = [float(np.float32(-math.log(c) - first)) + 0.0 for c, first in zip(inverse, high, strict=True)]
    return inverse, high, low


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
    print("\n# For each sixteenth of the numbers m from 1 to 2: c near 1 / m, and -log(c) as two floats")
    for name, numbers in zip(("LOG_INVERSE", "LOG_HIGH", "LOG_LOW"), log_table(), strict=True):
        print(_show(name, np.array(numbers)), end="")


if __name__ == "__main__":
    main()
