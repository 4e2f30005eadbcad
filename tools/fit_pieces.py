"""Fits the functions that the CPU computes by pieces and writes the tables as a Python module.

    python tools/fit_pieces.py > src/nki/numerics/pieces.py

A piece is a polynomial around a multiple of the step; fits are least squares of the relative error on Chebyshev points.
Only NumPy and ``math`` are used, in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PIECES = 32
POINTS = 400

HEADER = '''"""Functions of z >= 0 by pieces: polynomials in the distance of z from the nearest multiple of a step.

Written by tools/fit_pieces.py; do not edit. A row has one coefficient of all 32 pieces, from the constant terms up.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Pieces(NamedTuple):
    """A function from 0 to 31 ``step``; the first piece is what z has to be added to if ``starts_as_z``.

    The function is nearly 0 at multiple number ``zero``, if that is not 0: the neighbours of that piece are polynomials
    around the same multiple, and ``low`` adds to the linear coefficient of all three.
    """

    step: float
    rows: tuple[tuple[float, ...], ...]
    starts_as_z: bool = False
    zero: int = 0
    low: float = 0.0


# fmt: off'''


@dataclass(frozen=True)
class Fit:
    """``function`` from 0 to 31 ``step``, by polynomials of a degree."""

    name: str
    meaning: str
    function: Callable[[Array], Array]
    step: float
    degree: int
    starts_as_z: bool = False
    zero: int = 0


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    """Distribution function of the normal law."""
    return 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


def _density(x: Array) -> Array:
    """Density of the normal law."""
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _step_to(zero: float, steps: int) -> float:
    """The step of so few bits that its multiples are exact, of which ``steps`` are nearly a ``zero`` of the function.

    Relative errors near it are then those of the distance from it.
    """
    return round(zero / steps * 2**20) / 2**20


FITS = (
    Fit("TANH", "tanh(z)", np.tanh, 19 / 64, 6),
    Fit("ERF", "erf(z)", np.vectorize(math.erf), 33 / 256, 5, starts_as_z=True),
    Fit("GELU", "z Phi(-z), Phi the normal distribution function", lambda z: z * _normal(-z), 13 / 64, 7),
    Fit("SIGMOID", "sigmoid(-z)", lambda z: _sigmoid(-z), 9 / 16, 5),
    Fit("SILU", "z sigmoid(-z)", lambda z: z * _sigmoid(-z), 9 / 16, 6),
    Fit("GELU_APPRX_SIGMOID", "z sigmoid(-1.702 z)", lambda z: z * _sigmoid(-1.702 * z), 11 / 32, 6),
    Fit(
        "GELU_DX",
        "Phi(-z) - z phi(z), phi its density",
        lambda z: _normal(-z) - z * _density(z),
        _step_to(0.7517915246935645, 4),
        7,
        zero=4,
    ),
)


def piece(fit: Fit, number: int) -> tuple[list[float], float, float]:
    """Coefficients of one piece, each a float32 that those after it make up for, and the largest relative error.

    Last, what rounding took from the linear coefficient, if the function is nearly 0 at the piece's multiple: else 0.
    """
    center = _center(fit, number)
    low, high = (number - center - 0.5 * (number > 0)) * fit.step, (number - center + 0.5) * fit.step
    d = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    exact = fit.function(fit.step * center + d)
    powers = np.vander(d, fit.degree + 1, increasing=True) / exact[:, None]
    at_center = float(fit.function(np.array([fit.step * center]))[0])
    fixed = [float(np.float32(at_center))]
    begins_at_0 = number == 0 and at_center == 0
    left = np.ones(POINTS) - (d / exact if begins_at_0 and fit.starts_as_z else 0.0) - powers[:, 0] * fixed[0]
    rounding = 0.0
    if fit.zero and center == fit.zero:
        slope = _slope(fit)
        fixed.append(float(np.float32(slope)))
        rounding = slope - fixed[1]
        left = left - powers[:, 1] * slope
    while len(fixed) <= fit.degree:
        rest = powers[:, len(fixed) :]
        size = np.linalg.norm(rest, axis=0)
        found = np.asarray(np.linalg.lstsq(rest / size, left, rcond=None)[0], np.float64) / size
        fixed.append(float(np.float32(found[0])))
        left = left - rest[:, 0] * fixed[-1]
    return fixed, float(np.abs(left).max()), rounding


def _center(fit: Fit, number: int) -> int:
    """The multiple around which a piece is a polynomial: its own, or the neighbour at which the function is 0."""
    return fit.zero if fit.zero and abs(number - fit.zero) == 1 else number


def _slope(fit: Fit) -> float:
    """The derivative at the zero: of the polynomial of degree 8 through points around it."""
    d = np.arange(-4, 5) * fit.step / 16
    found = np.polynomial.polynomial.polyfit(d, fit.function(fit.step * fit.zero + d), 8)
    return float(found[1])


def _show(numbers: list[float]) -> str:
    lines = [numbers[first : first + 6] for first in range(0, PIECES, 6)]
    return "".join("            " + ", ".join(f"{number:.9g}" for number in line) + ",\n" for line in lines)


def main() -> None:
    print(HEADER)
    blank = ""
    for fit in FITS:
        print(end=blank)
        blank = "\n"
        pieces = [piece(fit, number) for number in range(PIECES)]
        print(f"# {fit.meaning}: error {max(error for _, error, _ in pieces):.1e}")
        print(f"{fit.name}: Final = Pieces(\n    {fit.step},\n    (")
        for column in zip(*(coefficients for coefficients, _, _ in pieces), strict=True):
            print(f"        (\n{_show(list(column))}        ),")
        options = "    starts_as_z=True,\n" * fit.starts_as_z
        if fit.zero:
            options += f"    zero={fit.zero},\n    low={pieces[fit.zero][2]:.9g},\n"
        print(f"    ),\n{options})")


if __name__ == "__main__":
    main()
