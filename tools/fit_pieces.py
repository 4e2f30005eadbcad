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
    """A function from 0 to 31 ``step``; the first piece is what z has to be added to if ``starts_as_z``."""

    step: float
    rows: tuple[tuple[float, ...], ...]
    starts_as_z: bool = False


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


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    """Distribution function of the normal law."""
    return 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))


FITS = (
    Fit("TANH", "tanh(z)", np.tanh, 19 / 64, 6),
    Fit("ERF", "erf(z)", np.vectorize(math.erf), 33 / 256, 5, starts_as_z=True),
    Fit("GELU", "z Phi(-z), Phi the normal distribution function", lambda z: z * _normal(-z), 13 / 64, 7),
    Fit("SIGMOID", "sigmoid(-z)", lambda z: _sigmoid(-z), 9 / 16, 5),
    Fit("SILU", "z sigmoid(-z)", lambda z: z * _sigmoid(-z), 9 / 16, 6),
    Fit("GELU_APPRX_SIGMOID", "z sigmoid(-1.702 z)", lambda z: z * _sigmoid(-1.702 * z), 11 / 32, 6),
)


def piece(fit: Fit, number: int) -> tuple[list[float], float]:
    """Coefficients of one piece, each a float32 that those after it make up for, and the largest relative error."""
    half, center = fit.step / 2, fit.step * number
    low = 0.0 if number == 0 else -half
    d = (low + half) / 2 + (half - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    exact = fit.function(center + d)
    powers = np.vander(d, fit.degree + 1, increasing=True) / exact[:, None]
    begins_at_0 = number == 0 and fit.function(np.zeros(1))[0] == 0
    fixed = [0.0] if begins_at_0 else []
    left = np.ones(POINTS) - (d / exact if begins_at_0 and fit.starts_as_z else 0.0)
    while len(fixed) <= fit.degree:
        rest = powers[:, len(fixed) :]
        size = np.linalg.norm(rest, axis=0)
        found = np.asarray(np.linalg.lstsq(rest / size, left, rcond=None)[0], np.float64) / size
        value = float(fit.function(np.array([center]))[0]) if not fixed else float(found[0])
        fixed.append(float(np.float32(value)))
        left = left - rest[:, 0] * fixed[-1]
    return fixed, float(np.abs(left).max())


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
        print(f"# {fit.meaning}: error {max(error for _, error in pieces):.1e}")
        print(f"{fit.name}: Final = Pieces(\n    {fit.step},\n    (")
        for column in zip(*(coefficients for coefficients, _ in pieces), strict=True):
            print(f"        (\n{_show(list(column))}        ),")
        print("    ),\n    starts_as_z=True,\n)" if fit.starts_as_z else "    ),\n)")


if __name__ == "__main__":
    main()
