"""Each rule of ball arithmetic: a number in the operands' balls gives a number in the result's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki.isa.tables.activations import ACTIVATIONS
from nki.isa.tables.alu_operators import TABLE
from nki.proofs import ball
from nki.proofs.ball import Ball

NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0, 1e-6, -2.5e3, float(np.float32(0.1)), 0.1]) | st.floats(-64, 64)
RADII = st.sampled_from([0.0, 0.0, 1e-9, 0.125, 2.0])
PARTS = st.sampled_from([-1.0, -0.37, 0.0, 0.5, 1.0])
ROUNDING = 2.0**-46
EXACT = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y}
FUNCTIONS = sorted(name for name, row in ACTIVATIONS.items() if not row.parameter)
BINARY = sorted(row.name for row in TABLE.values() if row.arity == 2 and not row.bits)
UNARY = sorted(row.name for row in TABLE.values() if row.arity == 1 and not row.bits)
FORMULAS = {
    "divide": np.divide, "maximum": np.maximum, "minimum": np.minimum, "power": np.power, "fmod": np.fmod,
    "mod": lambda x, y: np.mod(x, y),
    "abs_max": lambda x, y: np.where(abs(x) > abs(y), x, y), "abs_min": lambda x, y: np.where(abs(x) < abs(y), x, y),
    "equal": np.equal, "not_equal": np.not_equal, "greater_equal": np.greater_equal, "greater": np.greater,
    "less_equal": np.less_equal, "less": np.less, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "logical_not": np.logical_not, "bypass": lambda x: x, "abs": np.abs,
    "square": np.square, "relu": lambda x: np.maximum(x, 0), "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
}  # fmt: skip


def single(centre, radius):
    return Ball(np.array([[centre]]), np.array([[radius]]))


def inside(found, value):
    """True if ``value`` is in the ball, up to its own rounding in float64; undefined values are in all."""
    centre, radius = found.centre.item(), found.radius.item()
    if not np.isfinite(value) or np.isinf(radius):
        return np.isinf(radius) or value == centre
    return abs(value - centre) <= radius + ROUNDING * (abs(value) + (radius > 0))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(NUMBERS, RADII, PARTS, NUMBERS, RADII, PARTS, st.sampled_from(sorted(EXACT)))
def test_sums_and_products_enclose_the_exact_ones(x, rx, px, y, ry, py, op):
    found = ball.binary(op, single(x, rx), single(y, ry))
    value = EXACT[op](Fraction(x) + Fraction(px) * Fraction(rx), Fraction(y) + Fraction(py) * Fraction(ry))
    assert abs(value - Fraction(found.centre.item())) <= Fraction(found.radius.item())


@pytest.mark.parametrize("op", BINARY)
@settings(max_examples=80, deadline=None, derandomize=True)
@given(NUMBERS, RADII, PARTS, NUMBERS, RADII, PARTS)
def test_a_binary_operator(op, x, rx, px, y, ry, py):
    found = ball.binary(op, single(x, rx), single(y, ry))
    with np.errstate(all="ignore"):
        assert inside(found, float((FORMULAS | EXACT)[op](np.float64(x + px * rx), np.float64(y + py * ry))))


@pytest.mark.parametrize("op", UNARY)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(NUMBERS, RADII, PARTS)
def test_a_unary_operator(op, x, r, p):
    with np.errstate(all="ignore"):
        assert inside(ball.unary(op, single(x, r)), float(FORMULAS[op](np.float64(x + p * r))))


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=80, deadline=None, derandomize=True)
@given(NUMBERS, RADII, PARTS)
def test_a_function(name, x, r, p):
    with np.errstate(all="ignore"):
        assert inside(ball.function(name, single(x, r)), float(ACTIVATIONS[name].reference(np.array([x + p * r]))[0]))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(NUMBERS, RADII, PARTS), min_size=1, max_size=9))
def test_sums_extremes_and_products_of_several(elements):
    x, r, p = (np.array(each, np.float64).reshape(-1, 1) for each in zip(*elements, strict=True))
    one, values = Ball(x, r), x + p * r
    exact = sum(map(Fraction, values[:, 0].tolist()))
    total = ball.total(one, 0)
    assert abs(exact - Fraction(total.centre.item())) <= Fraction(total.radius.item()) + Fraction(ROUNDING) * 600
    assert inside(ball.extreme(one, 0, True), values.max()) and inside(ball.extreme(one, 0, False), values.min())
    ones = Ball(np.ones_like(x), np.zeros_like(x))
    assert inside(ball.product(one, ones), values.sum())


@pytest.mark.parametrize(("x", "r", "radius"), [(0.0, 0.0, 0.0), (0.0, 0.1, np.inf), (2.0, 0.0, 0.0)])
def test_only_an_exact_condition_selects(x, r, radius):
    """Between a number and one that is unknown."""
    known, lost = single(5.0, 0.0), ball.unknown((1, 1))
    yes, no = (known, lost) if x else (lost, known)
    assert ball.select(single(x, r), yes, no).radius.item() == radius


def test_an_infinity_is_exact_only_if_it_was_an_operand():
    infinite = single(-np.inf, 0.0)
    assert ball.binary("add", infinite, single(1.0, 0.5)).radius.item() == 0
    assert ball.function("exp", infinite).centre.item() == ball.function("exp", infinite).radius.item() == 0
    assert ball.function("exp", single(1000.0, 0.0)).radius.item() == np.inf
    assert ball.binary("subtract", infinite, infinite).radius.item() == np.inf
    assert ball.unary("reciprocal", single(0.0, 0.0)).radius.item() == np.inf


def test_whole_numbers_add_up_exactly_and_others_do_not():
    whole = Ball(np.arange(2000.0).reshape(1, -1), np.zeros((1, 2000)))
    assert ball.total(whole, 1).radius.item() == 0
    assert ball.total(Ball(whole.centre / 3, whole.radius), 1).radius.item() > 0
