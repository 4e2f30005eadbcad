"""The rows of ``coefficients.json``, which ``tools/fit_functions.py`` writes.

A row says what it approximates, where, in which form, and with what largest relative error (or another one that it
names) before coefficients are rounded. Numbers are hexadecimal floats; polynomials begin with the constant term.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

FILE: Final = Path(__file__).with_name("coefficients.json")

Numbers = tuple[float, ...]
Symmetry = Literal["f(-x) = -f(x)", "f(-x) = 1 - f(x)", "f(-x) = f(x) - x"]


class Piecewise(NamedTuple):
    """A function g of z >= 0 by 32 polynomials, each in the distance of z from the nearest multiple of ``step``.

    Each of ``coefficients`` has one number for each polynomial. The first polynomial is what z has to be added to if
    ``starts_as_z``. g is nearly 0 at multiple number ``zero``, if that is not 0: the neighbours of that polynomial are
    around the same multiple, and ``low`` adds to the linear coefficient of all three.

    The function f has the ``symmetry``, and g(z) is f(z), f(-z) or -f(-z) for the three kinds of it. From z = ``end``
    on g is constant in float32, or x is below ``tail``, where f has another formula.
    """

    symmetry: Symmetry
    step: float
    end: float
    tail: float
    coefficients: tuple[Numbers, ...]
    starts_as_z: bool
    zero: int
    low: float


@cache
def rows() -> dict[str, dict[str, Any]]:
    """All rows by name, as they are in the file."""
    return json.loads(FILE.read_text(encoding="ascii"))


@cache
def table(name: str) -> tuple[Numbers, ...]:
    """The numbers of the row ``name``: a polynomial, both polynomials of a quotient, or the columns of a table."""
    return tuple(tuple(map(float.fromhex, line.split())) for line in rows()[name]["coefficients"])


def polynomial(name: str) -> Numbers:
    """The coefficients of the polynomial ``name``."""
    (numbers,) = table(name)
    return numbers


@cache
def piecewise_row(name: str) -> Piecewise:
    """The row of the function ``name``."""
    row = rows()[name]
    step, end, tail, low = (float.fromhex(row[key]) for key in ("step", "end", "tail", "low"))
    return Piecewise(row["symmetry"], step, end, tail, table(name), row["starts as z"], row["zero"], low)
