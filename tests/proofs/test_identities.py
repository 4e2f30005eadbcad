"""The identities of docs/proofs.md hold in every field, and expressions that differ do not look the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki.proofs import constants
from nki.proofs.field import FIELDS, Field, UnluckyError, product
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols, UndecidedError


@pytest.fixture(params=FIELDS, ids=lambda field: str(field.p))
def field(request: pytest.FixtureRequest) -> Field:
    return request.param


@pytest.fixture
def m(field: Field) -> Reals:
    return Reals(field, key=7)


def drawn(m: Reals, name: str, count: int = 40) -> Symbols:
    return m.variables(name, (count,), False)


def same(one: Symbols, other: Symbols) -> bool:
    pairs = [(one.residues, other.residues), (one.exponents, other.exponents)]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    assert both
    return all(np.array_equal(*np.broadcast_arrays(a, b)) for a, b in both)


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def test_fields_are_what_they_claim(field: Field) -> None:
    assert is_prime(field.p) and is_prime(field.a) and is_prime(field.b)
    assert field.p == 2 * field.r * field.n + 1 < 1 << 32
    for small in (2, 3, 5, 7):
        assert all(pow(small, (prime - 1) // 2, prime) == 1 for prime in (field.p, field.a, field.b))


def test_products_of_matrices_are_exact(field: Field) -> None:
    random = np.random.default_rng(0)
    left, right = (random.integers(0, field.p, shape, np.uint64) for shape in ((3, 50), (50, 4)))
    exact = (left.astype(object) @ right.astype(object)) % field.p
    assert (product(left, right, field.p) == exact).all()


def test_zero_has_no_inverse(field: Field) -> None:
    numbers = np.array([1, 0, 2], np.uint64)
    for function in (field.inverse, field.exponent_inverse, field.log):
        with pytest.raises(UnluckyError):
            function(numbers)


def test_field_axioms(m: Reals) -> None:
    x, y, z = (drawn(m, name) for name in "xyz")
    assert same(m.multiply(x, m.add(y, z)), m.add(m.multiply(x, y), m.multiply(x, z)))
    assert same(m.multiply(m.divide(x, y), y), x)
    assert same(m.add(m.subtract(x, y), y), x)


def test_exp(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    assert same(m.exp(m.add(x, y)), m.multiply(m.exp(x), m.exp(y)))
    assert same(m.exp(m.number(0)), m.number(1))
    assert not same(m.exp(x), m.exp(y))


def test_log(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    assert same(m.log(m.multiply(x, y)), m.add(m.log(x), m.log(y)))
    assert same(m.log(m.exp(x)), x)


def test_sqrt(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    assert same(m.sqrt(m.multiply(x, y)), m.multiply(m.sqrt(x), m.sqrt(y)))
    for root in (2, 3, 5, 7):
        assert same(m.sqrt(m.number(root * root)), m.number(root))
    assert same(m.sqrt(m.multiply(x, x)), m.activation("abs", x))
    positive = m.exp(x)
    assert same(m.sqrt(m.multiply(positive, positive)), positive)
    assert same(m.multiply(m.sqrt(y), m.sqrt(y)), y), "as a kernel has made it"
    assert not same(m.multiply(m.sqrt(y), m.sqrt(x)), y)


def test_exact_roots(field: Field) -> None:
    """Elements that do not depend on the key of roots have sqrt(x) sqrt(x) = x."""
    first, second = (Reals(field, key=7, root_key=key) for key in (1, 2))
    roots = [m.sqrt(m.add(drawn(m, "x"), m.number(1))) for m in (first, second)]
    is_stable = roots[0].residues == roots[1].residues
    assert 0 < np.count_nonzero(is_stable) < 40
    assert roots[0].residues is not None
    x = first.add(drawn(first, "x"), first.number(1)).residues
    assert ((roots[0].residues * roots[0].residues % first.p == x) == is_stable).all()


def test_powers_of_logarithms(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    log = m.log(x)
    assert same(m.exp(log), x) and same(m.exp(m.negative(log)), m.reciprocal(x))
    assert same(m.exp(m.times(log, -0.5)), m.rsqrt(x)) and same(m.exp(m.times(log, 0.5)), m.sqrt(x))
    assert same(m.exp(m.add(log, m.log(y))), m.multiply(x, y))
    assert same(m.exp(m.add(log, y)), m.multiply(x, m.exp(y))) and not same(m.exp(m.times(log, 2.0)), x)
    assert same(m.exp(m.total(log, 0)), m.exp(m.log(m._product(x, 0))))


def test_split_exponentials(field: Field) -> None:
    whole, split = Reals(field, key=7), Reals(field, key=7, splits=True)
    for m, holds in ((whole, False), (split, True)):
        x, y = m.sigmoid(drawn(m, "x")), drawn(m, "y")
        assert same(m.exp(m.add(x, y)), m.multiply(m.exp(x), m.exp(y))) == holds
        assert m.has_split


def test_signs(m: Reals) -> None:
    x = drawn(m, "x")
    for positive in (m.exp(x), m.sigmoid(x), m.add(m.multiply(x, x), m.number(1)), m.sqrt(m.exp(x)), m.number(2)):
        assert same(m.activation("abs", positive), positive) and same(m.activation("relu", positive), positive)
        assert same(m.activation("sign", positive), m.number(1)) and same(m.greater(positive, m.number(0)), m.number(1))
    for unknown in (x, m.log(m.exp(x)), m.negative(m.exp(x)), m.subtract(m.exp(x), m.number(1)), m.tanh(x)):
        assert not same(m.activation("abs", unknown), unknown)
    zero = m.multiply(x, x)  # may be 0
    assert same(m.activation("abs", zero), zero) and not same(m.activation("sign", zero), m.number(1))


def test_sign_is_of_comparisons(m: Reals) -> None:
    x, zero = drawn(m, "x"), m.number(0)
    assert same(m.activation("sign", x), m.subtract(m.greater(x, zero), m.greater(zero, x)))


def test_masks_keep_their_value(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    fill = m.constant(np.full(40, -30000, np.float32))
    low, lower = m.add(fill, x), m.constant(np.full(40, -1e30, np.float32))
    assert same(m.exp(low), m.number(0)) and m.assumptions
    assert same(m.subtract(low, fill), x) and same(m.exp(m.subtract(low, fill)), m.exp(x))
    assert same(m.maximum(low, y), y) and same(m.maximum(low, lower), low)
    assert same(m.maximum(low, m.add(fill, y)), m.add(fill, m.maximum(x, y)))
    assert same(m.exp(m.negative(m.subtract(y, low))), m.number(0))
    assert not same(m.exp(m.scale(low, np.array(0.001, np.float32))), m.number(0))


def test_ranks(m: Reals) -> None:
    x = m.variables("x", (5, 12), False)
    found, turned = m.ranked(x, 8), m.ranked(x.moved(lambda part: part[:, ::-1]), 8)
    assert same(found, turned) and same(found.moved(lambda part: part[:, 0]), m.greatest(x))
    assert not same(found, m.ranked(x.moved(lambda part: part[:, 1:]), 8))


def test_maximum_of_multiples(m: Reals) -> None:
    x = drawn(m, "x")
    without = Reals(m.field, key=7, ties=False)
    for factor in (0.25, 3.0, -2.0):
        one = without.maximum(without.times(x, factor), x)
        positive = without.greater(x, without.number(0))
        pair = (without.times(x, factor), x)
        assert same(one, without.select(positive, *(pair if factor > 1 else pair[::-1])))
        assert same(m.maximum(x, m.times(x, factor)), m.maximum(m.times(x, factor), x))


def test_drawn_signs(m: Reals) -> None:
    bits = Reals(m.field, key=7, ties=False, bits=True)
    x, one, zero = drawn(bits, "x"), bits.number(1), bits.number(0)
    tail = bits.log(bits.add(one, bits.exp(bits.negative(bits.activation("abs", x)))))
    assert same(bits.softplus(x), bits.add(bits.maximum(x, zero), tail))
    truth = bits.greater(x, zero)
    assert set(np.unique(truth.residues).tolist()) == {0, 1} and truth.size.truths == 1
    assert same(bits.add(truth, bits.greater(zero, x)), one)


def test_log_of_what_is_gathered(m: Reals) -> None:
    table, index = m.variables("table", (5, 4), False), m.integers("index", (5, 3), 0, 3)
    for function in (m.log, m.exp):
        assert same(function(m.gathered(table, index)), m.gathered(function(table), index))


def test_max(m: Reals) -> None:
    x, y, z = (drawn(m, name) for name in "xyz")
    nested = m.maximum(m.maximum(x, y), z)
    assert same(nested, m.maximum(z, m.maximum(y, x)))
    assert same(nested, m.maximum(m.maximum(x, y), m.maximum(y, z)))
    assert same(m.maximum(x, x), x) and not same(m.maximum(x, y), nested)
    assert same(m.minimum(x, y), m.negative(m.maximum(m.negative(x), m.negative(y))))


def test_infinities(m: Reals) -> None:
    x, nothing = drawn(m, "x"), m.number(-np.inf).moved(lambda part: np.broadcast_to(part, (40,)))
    assert same(m.exp(nothing), m.number(0)) and same(m.maximum(x, nothing), x)


def test_comparisons(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    greater = m.greater(x, y)
    assert not same(greater, m.greater(y, x)), "neither of two equal numbers is greater"
    assert same(m.add(m.add(greater, m.greater(y, x)), m.equal(x, y)), m.number(1))
    assert same(m.greater(x, x), m.number(0)) and same(m.equal(x, x), m.number(1))


def test_select(m: Reals) -> None:
    x, y, z = (drawn(m, name) for name in "xyz")
    truth = m.greater(z, m.number(0))
    assert same(m.select(truth, x, x), x) and not same(m.select(truth, x, y), x)
    assert same(m.select(truth, x, y), m.select(m.opposite_truth(truth), y, x))


def test_formulas(m: Reals) -> None:
    x, one = drawn(m, "x"), m.number(1)
    assert same(m.sigmoid(x), m.divide(m.exp(x), m.add(m.exp(x), one)))
    assert same(m.tanh(x), m.subtract(m.multiply(m.number(2), m.sigmoid(m.add(x, x))), one))
    assert same(m.activation("silu", x), m.multiply(x, m.sigmoid(x)))


@pytest.mark.parametrize("name", ["erf", "sin", "arctan", "sign"])
def test_odd(m: Reals, name: str) -> None:
    x = drawn(m, "x")
    assert same(m.activation(name, m.negative(x)), m.negative(m.activation(name, x)))


def test_congruence(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    both = [m.unknown_function("f", m.add(*pair)) for pair in ((x, y), (y, x))]
    assert same(*both) and not same(both[0], m.unknown_function("g", m.add(x, y)))


@given(st.floats(2**-60, 2.0**60, width=32))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_a_constant_is_read_as_a_number_that_rounds_to_it(value: float) -> None:
    closed = constants.read(value)
    number = float(closed.fraction) * (constants.ATOMS[closed.atom] ** closed.power if closed.atom else 1.0)
    assert np.float32(number**0.5 if closed.is_root else number) == np.float32(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (128**-0.5, "sqrt(1/128)"),
        (1 / 3, "1/3"),
        (0.044715, "8943/200000"),
        (-0.5, "-1/2"),
        (0.271, "271/1000"),
        (1 / 0.029701, "1000000/29701"),
    ],
)
def test_known_constants(value: float, text: str) -> None:
    assert str(constants.read(float(np.float32(value)))) == text


TERMS = st.dictionaries(st.tuples(*[st.integers(0, 3)] * 2), st.integers(-4, 4).filter(bool), max_size=4)


@given(TERMS, TERMS)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_polynomials_are_equal_exactly_if_their_coefficients_are(one: Any, other: Any) -> None:
    m = Reals(FIELDS[0], key=3)
    x, y = drawn(m, "x", 1), drawn(m, "y", 1)

    def value(terms: dict[tuple[int, int], int]) -> Symbols:
        total = m.number(0)
        for (i, j), factor in terms.items():
            total = m.add(total, m.multiply(m.number(factor), m.multiply(m.power(x, i), m.power(y, j))))
        return total

    assert same(value(one), value(other)) == (one == other)


def test_integers_of_a_range(m: Reals) -> None:
    x = m.integers("labels", (6,), -1, 4)
    truths = [m.equal(x, m.constant(np.array(number, np.int32))) for number in range(-1, 5)]
    total, value = m.number(0), m.number(0)
    for number, truth in zip(range(-1, 5), truths, strict=True):
        total, value = m.add(total, truth), m.add(value, m.times(truth, number))
    assert same(total, m.number(1)) and same(value, x)
    above = m.add(truths[4], truths[5])
    assert same(m.greater(x, m.constant(np.array(2, np.int32))), above)
    assert same(m.greater(m.constant(np.array(3, np.int32)), x), m.subtract(m.number(1), above))
    assert same(m.equal(x, m.constant(np.array(9, np.int32))), m.number(0))


def test_gather(m: Reals) -> None:
    table, index = m.variables("table", (5, 4), False), m.integers("index", (5, 3), 0, 3)
    found = m.gathered(table, index)
    by_hand = m.number(0)
    for number in range(4):
        truth = m.equal(index, m.constant(np.array(number, np.int32)))
        column = table.moved(lambda part, number=number: part[:, number : number + 1])
        by_hand = m.add(by_hand, m.multiply(truth, column))
    assert same(found, by_hand)
    assert not same(found, m.gathered(table, m.integers("other", (5, 3), 0, 3)))


def test_masks_of_inputs(m: Reals) -> None:
    x, truth = drawn(m, "x"), m.greater(drawn(m, "y"), m.number(0))
    infinity = m.constant(np.array(-np.inf, np.float32))
    masked = m.select(truth, x, infinity)
    assert same(m.exp(masked), m.multiply(truth, m.exp(x)))
    other = m.greater(drawn(m, "z"), m.number(0))
    assert same(m.exp(m.select(other, masked, infinity)), m.multiply(other, m.multiply(truth, m.exp(x))))
    with pytest.raises(UndecidedError):
        m.negative(masked)


def test_maximum_of_two_is_a_choice(m: Reals) -> None:
    x, y = drawn(m, "x"), drawn(m, "y")
    assert same(m.add(m.maximum(x, y), m.minimum(x, y)), m.add(x, y))
    without = Reals(m.field, key=7, ties=False)
    assert same(without.maximum(x, y), without.select(without.greater(x, y), x, y))


def test_maximum_of_overlapping_sets(m: Reals) -> None:
    x = m.variables("x", (6, 9), False)
    parts = [x.moved(lambda part, chosen=chosen: part[:, chosen]) for chosen in (slice(0, 6), slice(4, 9))]
    assert same(m.maximum(m.greatest(parts[0]), m.greatest(parts[1])), m.greatest(x))
    fewer = x.moved(lambda part: part[:, :8])
    assert not same(m.greatest(fewer), m.greatest(x))
