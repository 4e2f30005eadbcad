"""Fits the polynomials of the CPU's functions and writes their rows: src/nki/numerics/functions/coefficients.json.

    python tools/fit_functions.py [row ...]

Rows that are named, and rows with a changed definition below, are fitted. All others stay as they are, since
LAPACK rounds differently from host to host and each bit of a coefficient counts: results are compared to the bit.

Polynomials are minimax fits, in the stated weight, of smooth functions on an interval: least squares on Chebyshev
points, reweighted by Lawson's method until the error levels out. Fits of a piecewise function are least squares of the
relative error, without weights. Only NumPy and ``math`` are used, in double precision, which is enough for fits down to
about 1e-13.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import cheb2poly, chebvander
from numpy.typing import NDArray

from nki.numerics.functions.coefficients import FILE, rows
from nki.numerics.functions.float32 import MILLS_END, MILLS_SHIFT
from nki.numerics.functions.float64 import MILLS_DX_END

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
Row = dict[str, Any]

POINTS = 2000
ROUNDS = 80
PIECES = 32
PIECE_POINTS = 400
LN2_HALF = 0.3466  # a little over ln(2) / 2: rounding to the nearest multiple of ln 2 leaves no more


def shown(numbers: Iterable[float]) -> str:
    """``numbers`` as hexadecimal floats, without the zeros at their ends."""
    parts = [float(number).hex().partition("p") for number in numbers]
    return " ".join(
        f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{power}" for digits, _, power in parts
    )


@dataclass(frozen=True)
class Fit:
    """``function`` on [low, high] by a polynomial, or by a quotient if ``denominator`` is not 0.

    A quotient's denominator has the constant term 1.
    """

    name: str
    meaning: str
    function: Function
    low: float
    high: float
    degree: int
    denominator: int = 0
    weight: Function | None = None  # error is measured times this; default 1 / |function|
    single: bool = False  # coefficients are used in float32

    def definition(self) -> Row:
        """What the row says before it is fitted."""
        degrees = [self.degree, self.denominator] if self.denominator else self.degree
        form = "quotient" if self.denominator else "polynomial"
        numbers = "float32" if self.single else "float64"
        interval = shown([self.low, self.high])
        return {"of": self.meaning, "form": form, "numbers": numbers, "interval": interval, "degree": degrees}

    def fitted(self) -> Row:
        """The rest of the row."""
        over, under, error = solve(self)
        return {"error": f"{error:.1e}", "coefficients": [shown(over), *([shown(under)] if self.denominator else [])]}


def solve(fit: Fit) -> tuple[Array, Array, float]:
    """Numerator, denominator (constant term 1) in powers of x, and the largest weighted error."""
    u = np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    x = (fit.low + fit.high) / 2 + (fit.high - fit.low) / 2 * u
    y = fit.function(x)
    weight = 1 / np.abs(y) if fit.weight is None else fit.weight(x)
    above, below = chebvander(u, fit.degree), chebvander(u, fit.denominator)
    lawson, q, best = np.ones(POINTS), np.ones(POINTS), (math.inf, np.zeros(1), np.zeros(1))
    for _ in range(ROUNDS):
        scale = np.sqrt(lawson) * weight / np.abs(q)
        matrix = np.hstack([above, -y[:, None] * below[:, 1:]]) * scale[:, None]
        solution = np.linalg.lstsq(matrix, y * scale, rcond=None)[0]
        over, under = solution[: fit.degree + 1], np.r_[1.0, solution[fit.degree + 1 :]]
        q = below @ under
        error = np.abs(above @ over / q - y) * weight
        if error.max() < best[0]:
            best = (float(error.max()), over, under)
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.sum()
    if fit.single:
        scale = weight * np.sqrt(lawson)
        powers = np.vander(x, fit.degree + 1, increasing=True) * scale[:, None]
        return np.array(rounded_in_turn(powers, y * scale, [])), np.ones(1), best[0]
    line = Polynomial([-(fit.high + fit.low) / (fit.high - fit.low), 2 / (fit.high - fit.low)])
    over, under = (Polynomial(cheb2poly(part))(line).coef for part in best[1:])
    return over / under[0], under / under[0], best[0]


def rounded_in_turn(powers: Array, left: Array, fixed: list[float]) -> list[float]:
    """Float32 coefficients of ``powers`` behind ``fixed``: each is rounded, then the others make up for it.

    ``left`` is what the columns behind ``fixed`` have to add up to.
    """
    fixed = list(fixed)
    for column in range(len(fixed), powers.shape[1]):
        size = np.linalg.norm(powers[:, column:], axis=0)
        solution = np.asarray(np.linalg.lstsq(powers[:, column:] / size, left, rcond=None)[0], np.float64) / size
        fixed.append(float(np.float32(solution[0])))
        left = left - powers[:, column] * fixed[-1]
    return fixed


@dataclass(frozen=True)
class Pieces:
    """``function`` from 0 to 31 steps, by a polynomial for each multiple of ``step``; the rest is in its row.

    ``end``: the largest number that is looked up, in steps. ``tail``: where the tail begins, None for at the end; an
    odd function has none.
    """

    name: str
    meaning: str
    function: Function
    symmetry: str
    step: float
    degree: int
    starts_as_z: bool = False
    zero: int = 0
    end: float = PIECES - 1.0
    tail: float | None = None

    def definition(self) -> Row:
        """What the row says before it is fitted."""
        end = self.end * self.step
        return {
            "of": self.meaning,
            "form": f"{PIECES} polynomials",
            "numbers": "float32",
            "symmetry": self.symmetry,
            "step": shown([self.step]),
            "end": shown([end]),
            "tail": "-inf" if self.symmetry == ODD else shown([-end if self.tail is None else self.tail]),
            "degree": self.degree,
            "starts as z": self.starts_as_z,
            "zero": self.zero,
        }

    def fitted(self) -> Row:
        """The rest of the row."""
        pieces = [self.piece(number) for number in range(PIECES)]
        columns = zip(*(coefficients for coefficients, _, _ in pieces), strict=True)
        error, low = max(error for _, error, _ in pieces), pieces[self.zero][2]
        return {
            "error": f"{error:.1e}",
            "low": shown([float(np.float32(low))]),
            "coefficients": list(map(shown, columns)),
        }

    def piece(self, number: int) -> tuple[list[float], float, float]:
        """Coefficients of one polynomial, each a float32 that those after it make up for, and the largest error.

        Last, what rounding took from the linear coefficient, if the function is nearly 0 at the multiple: else 0.
        """
        center = self.zero if self.zero and abs(number - self.zero) == 1 else number
        low, high = (number - center - 0.5 * (number > 0)) * self.step, (number - center + 0.5) * self.step
        d = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(PIECE_POINTS) + 0.5) / PIECE_POINTS)
        exact = self.function(self.step * center + d)
        powers = np.vander(d, self.degree + 1, increasing=True) / exact[:, None]
        at_center = float(self.function(np.array([self.step * center]))[0])
        fixed = [float(np.float32(at_center))]
        begins_at_0 = number == 0 and at_center == 0
        left = np.ones(PIECE_POINTS) - (d / exact if begins_at_0 and self.starts_as_z else 0.0)
        left = left - powers[:, 0] * fixed[0]
        rounding = 0.0
        if self.zero and center == self.zero:
            slope = self._slope()
            fixed.append(float(np.float32(slope)))
            rounding = slope - fixed[1]
            left = left - powers[:, 1] * slope
        coefficients = rounded_in_turn(powers, left, fixed)
        rest = left - powers[:, len(fixed) :] @ np.array(coefficients[len(fixed) :])
        return coefficients, float(np.abs(rest).max()), rounding

    def _slope(self) -> float:
        """The derivative at the zero: of the polynomial of degree 8 through points around it."""
        d = np.arange(-4, 5) * self.step / 16
        solution = np.polynomial.polynomial.polyfit(d, self.function(self.step * self.zero + d), 8)
        return float(solution[1])


class LogTable:
    """For each sixteenth of the mantissas m from 1 to 2: c, and -log(c) as two floats.

    c is near 1 / m, and of so few bits that m c - 1 is a float. At both ends it is exactly 1 and 1 / 2, so that
    logarithms around 1 start from 0. The first part of -log(c) is a multiple of 2^-17, so that its sum with n times the
    first part of ln 2 is exact.
    """

    name = "log"

    def definition(self) -> Row:
        """What the row says before it is computed."""
        meaning = "c near 1 / m for each sixteenth of the numbers m from 1 to 2, and -log(c) as two floats"
        return {"of": meaning, "form": "table", "numbers": "float32"}

    def fitted(self) -> Row:
        """The rest of the row."""
        inverse: list[float] = []
        for sixteenth in range(16):
            m: Array = 1 + sixteenth / 16 + np.arange(2**19) / 2**23
            nearest = (math.inf, 1.0)
            for bits in range(2, 11):
                c = round(2 ** (bits + 1) / float(m[0] + m[-1])) / 2**bits
                r: Array = m * c - 1
                if bool((r == r.astype(np.float32)).all()):
                    nearest = min(nearest, (max(-float(r[0]), float(r[-1])), c))
            inverse.append({0: 1.0, 15: 0.5}.get(sixteenth, nearest[1]))
        high = [-round(math.log(c) * 2**17) / 2**17 + 0.0 for c in inverse]
        low = [float(np.float32(-math.log(c) - first)) + 0.0 for c, first in zip(inverse, high, strict=True)]
        return {"coefficients": list(map(shown, (inverse, high, low)))}


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    """Distribution function of the normal law."""
    return 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


def _density(x: Array) -> Array:
    """Density of the normal law."""
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


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


def _step_to(zero: float, steps: int) -> float:
    """The step of so few bits that its multiples are exact; ``steps`` of it are nearly a ``zero`` of the function.

    Relative errors near it are then relative errors of the distance from it.
    """
    return round(zero / steps * 2**20) / 2**20


ODD, COMPLEMENT, REMAINDER = "f(-x) = -f(x)", "f(-x) = 1 - f(x)", "f(-x) = f(x) - x"

FITS: tuple[Fit | Pieces | LogTable, ...] = (
    Pieces("tanh", "tanh(z)", np.tanh, ODD, 19 / 64, 6),
    Pieces("erf", "erf(z)", np.vectorize(math.erf), ODD, 33 / 256, 5, starts_as_z=True),
    Pieces("sigmoid", "sigmoid(-z)", lambda z: _sigmoid(-z), COMPLEMENT, 9 / 16, 5),
    Pieces("silu", "z sigmoid(-z)", lambda z: z * _sigmoid(-z), REMAINDER, 9 / 16, 6),
    Pieces("gelu_apprx_sigmoid", "z sigmoid(-1.702 z)", lambda z: z * _sigmoid(-1.702 * z), REMAINDER, 11 / 32, 6),
    Pieces("gelu", "z Phi(-z), Phi the normal distribution function", lambda z: z * _normal(-z), REMAINDER, 13 / 64, 7),
    Pieces(
        "gelu_dx",
        "Phi(-z) - z phi(z), phi the normal density",
        lambda z: _normal(-z) - z * _density(z),
        COMPLEMENT,
        _step_to(0.7517915246935645, 4),
        7,
        zero=4,
        end=PIECES - 1 + 0.49,  # the last polynomial ends a little less than half a step beyond its multiple
        tail=-3.75,  # further below, relative errors exceed 1 ulp
    ),
    Fit(
        "exp_rest",
        "(exp(r) - 1 - r) / r^2; error relative to exp(r)",
        _exp_rest,
        -LN2_HALF,
        LN2_HALF,
        4,
        weight=lambda r: r**2 / np.exp(r),
        single=True,
    ),
    Fit(
        "gelu_tail",
        f"Phi(-z) exp(z^2 / 2) (z + k) in (z - k) / (z + k), k = {MILLS_SHIFT}",
        _shifted_mills,
        -1,
        (MILLS_END - MILLS_SHIFT) / (MILLS_END + MILLS_SHIFT),
        10,
        single=True,
    ),
    LogTable(),
    Fit(
        "log_rest",
        "(log(1 + r) - r + r^2 / 2) / r^3; error relative to r",
        _log_rest,
        -0.0356,
        0.0625,
        3,
        weight=lambda r: r**2,
        single=True,
    ),
    Fit(
        "rsqrt_step",
        "((1 - e)^(-1/2) - 1) / e; error relative to (1 - e)^(-1/2)",
        _rsqrt_step,
        -0.0703,
        0.068,
        2,
        weight=lambda e: np.abs(e) * np.sqrt(1 - e),
        single=True,
    ),
    Fit("exp", "exp(r)", np.exp, -LN2_HALF, LN2_HALF, 7),
    Fit("atanh", "2 atanh(s) / s in s^2", lambda t: 2 * np.arctanh(np.sqrt(t)) / np.sqrt(t), 0, 1 / 9, 7),
    Fit("sin", "sin(r) / r in r^2", lambda t: np.sin(np.sqrt(t)) / np.sqrt(t), 0, 2.48, 6),
    Fit("arctan", "arctan(t) / t in t^2", lambda t: np.arctan(np.sqrt(t)) / np.sqrt(t), 0, 1, 13),
    Fit("gelu_dx_tail", "Phi(-z) exp(z^2 / 2)", _mills, 0, MILLS_DX_END, 5, 6),
)


def written(before: dict[str, Row], wanted: Collection[str]) -> str:
    """The text of the file; ``wanted`` rows, and rows with another definition than ``before``, are new."""
    after: dict[str, Row] = {}
    for fit in FITS:
        definition, row = fit.definition(), before.get(fit.name, {})
        is_same = fit.name not in wanted and definition.items() <= row.items()
        after[fit.name] = row if is_same else definition | fit.fitted()
    return json.dumps(after, indent=1) + "\n"


def main() -> None:
    """Write the rows."""
    unknown = set(sys.argv[1:]) - {fit.name for fit in FITS}
    if unknown:
        sys.exit(f"no rows: {', '.join(sorted(unknown))}; rows: {', '.join(fit.name for fit in FITS)}")
    FILE.write_text(written(rows() if FILE.exists() else {}, sys.argv[1:]), encoding="ascii")


if __name__ == "__main__":
    main()
