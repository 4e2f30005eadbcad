"""The element-wise functions of ``nki.language`` against NumPy: the same bits by both executors, values in bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki
import nki.language as nl
from nki import NkiPortabilityWarning
from nki.isa.tables.activations import ACTIVATIONS
from nki.language.operands import promoted

from .computing import BF16, computed, numbers, quiet, wide, within


def test_the_tests_compare_with_something() -> None:
    assert not np.array_equal(computed(nl.exp, numbers(3, 5)), numbers(3, 5))


BINARY: dict[str, tuple[Callable[..., Any], float]] = {
    "add": (np.add, 0.5),
    "subtract": (np.subtract, 0.5),
    "multiply": (np.multiply, 0.5),
    "divide": (np.divide, 0.5),
    "maximum": (np.maximum, 0),
    "minimum": (np.minimum, 0),
    "power": (lambda x, y: np.abs(x) ** y, 2),
    "fmod": (np.fmod, 0.5),
    "mod": (np.mod, 1),
    "equal": (np.equal, 0),
    "not_equal": (np.not_equal, 0),
    "less": (np.less, 0),
    "less_equal": (np.less_equal, 0),
    "greater": (np.greater, 0),
    "greater_equal": (np.greater_equal, 0),
    "logical_and": (np.logical_and, 0),
    "logical_or": (np.logical_or, 0),
    "logical_xor": (np.logical_xor, 0),
}
"""NumPy's function and the bound, in units in the last place of float32."""


def pair(name: str) -> tuple[Any, Any]:
    a, b = numbers(9, 70), numbers(9, 70)[::-1].copy()
    a[0, :4], b[0, :6] = b[0, :4], [0.5, 1.5, 2.5, 4.0, 1.0, 3.0]
    return (np.abs(a), b) if name == "power" else (a, b)


@quiet
@pytest.mark.parametrize("name", BINARY)
def test_two_tiles(name: str) -> None:
    a, b = pair(name)
    reference, ulp = BINARY[name]
    found = computed(getattr(nl, name), a, b)
    assert found.dtype == np.float32
    within(found, reference(wide(a), wide(b)), ulp)


@quiet
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("number", [2, 1.5, np.float32(0.75)])
def test_a_tile_and_a_number_on_either_side(name: str, number: Any) -> None:
    a, _ = pair(name)
    a[1, :2] = number
    reference, ulp = BINARY[name]
    fn = getattr(nl, name)
    within(computed(lambda x: fn(x, number), a), reference(wide(a), float(number)), ulp)
    within(computed(lambda x: fn(number, x), a), reference(float(number), wide(a)), ulp)


@pytest.mark.parametrize("name", ["abs_max", "abs_min"])
def test_the_larger_or_smaller_of_two_by_size_needs_gen4(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(4, 9), numbers(4, 9)[:, ::-1].copy()
    b[0] = -a[0]
    first = np.abs(a) > np.abs(b) if name == "abs_max" else np.abs(a) < np.abs(b)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.raises(nki.NkiError, match=name):
        computed(getattr(nl, name), a, b)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    np.testing.assert_array_equal(computed(getattr(nl, name), a, b), np.where(first, a, b))


BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_bits(name: str, kind: Any) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(0, np.iinfo(kind).max, (5, 40), kind, endpoint=True)
    b = rng.integers(0, 8 if "shift" in name else np.iinfo(kind).max, (5, 40), kind)
    fn, reference = getattr(nl, name), BITS[name]
    np.testing.assert_array_equal(computed(fn, a, b), reference(a, b))
    np.testing.assert_array_equal(computed(lambda x: fn(x, 5), a), reference(a, kind(5)))
    np.testing.assert_array_equal(computed(lambda x: fn(90, x), b), reference(kind(90), b))
    np.testing.assert_array_equal(computed(nl.invert, a), ~a)


def test_bits_of_two_widths_and_in_another_type() -> None:
    a, b = np.array([[200, 255]], np.uint8), np.array([[0x10FF, 0xFF00]], np.uint16)
    np.testing.assert_array_equal(computed(nl.bitwise_xor, a, b), a ^ b)
    found = computed(lambda x, y: nl.bitwise_or(x, y, dtype=nl.float32), a, b)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (a | b).astype(np.float32))
    np.testing.assert_array_equal(computed(lambda x: nl.invert(x, dtype=nl.int32), a), (~a).astype(np.int32))


def test_whole_numbers_of_32_bits_are_exact() -> None:
    a, b = np.array([[2**30 + 1, -7]], np.int32), np.array([[3, 2**24 + 1]], np.int32)
    np.testing.assert_array_equal(computed(nl.add, a, b), a + b)
    np.testing.assert_array_equal(computed(nl.copy, a), a)


KINDS = [
    (nl.float32, nl.bfloat16, nl.float32),
    (nl.float16, nl.bfloat16, nl.float32),
    (nl.float8_e4m3, nl.float8_e5m2, nl.bfloat16),
    (nl.float8_e5m2, nl.float16, nl.float16),
    (nl.tfloat32, nl.bfloat16, nl.tfloat32),
    (nl.int32, nl.bfloat16, nl.bfloat16),
    (nl.bool_, nl.int8, nl.int8),
    (nl.int16, nl.int32, nl.int32),
    (nl.uint8, nl.uint32, nl.uint32),
    (nl.int8, nl.uint8, nl.int16),
    (nl.int32, nl.uint16, nl.int32),
    (nl.int32, nl.uint32, nl.float32),
    (nl.bool_, nl.bool_, nl.bool_),
]


@pytest.mark.parametrize(("a", "b", "both"), KINDS, ids=str)
def test_what_two_types_make_together(a: Any, b: Any, both: Any) -> None:
    assert promoted(a, b) is promoted(b, a) is both


@pytest.mark.parametrize(
    ("fn", "kinds", "want"),
    [
        (nl.add, (BF16, np.float32), np.float32),
        (nl.less, (np.int16, np.int16), np.int16),
        (lambda x: nl.multiply(x, 0.5), (np.int32,), np.float32),
        (lambda x: nl.multiply(x, 2), (np.int32,), np.int32),
        (lambda x: nl.greater(x, 0.5), (np.int32,), np.int32),
        (lambda x: nl.add(1.5, x), (BF16,), BF16),
        (lambda x: nl.add(x, 1, dtype=nl.uint8), (np.float32,), np.uint8),
        (nl.exp, (BF16,), BF16),
        (lambda x: nl.exp(x, dtype=nl.float32), (BF16,), np.float32),
        (lambda x: nl.sum(x, axis=1), (BF16,), BF16),
        (lambda x: nl.mean(x, axis=1, dtype=nl.float32), (np.int8,), np.float32),
        (nl.softmax, (BF16,), BF16),
        (nl.floor, (BF16,), BF16),
        (nl.tan, (np.float16,), np.float16),
        (lambda x: nl.where(x, x, 0.0), (BF16,), BF16),
        (lambda x: nl.where(x, 1.0, 0.0), (np.int8,), np.float32),
        (lambda x: nl.broadcast_to(x, (2, 3), dtype=nl.float16), (np.float32,), np.float16),
        (nl.transpose, (BF16,), BF16),
        (lambda x: nl.transpose(x, dtype=nl.float32), (BF16,), np.float32),
        (lambda x: nl.matmul(x, x, transpose_x=True), (BF16,), np.float32),
        (lambda x: nl.zeros_like(x), (BF16,), BF16),
    ],
)
def test_the_type_of_the_result(fn: Any, kinds: tuple[Any, ...], want: Any) -> None:
    arrays = [np.array([[1, 2, 3], [4, 5, 6]]).astype(kind) for kind in kinds]
    assert computed(fn, *arrays).dtype == want


SHAPES = [
    ((5, 7), (5, 1)),
    ((5, 1), (5, 7)),
    ((5, 7), (1, 7)),
    ((1, 7), (5, 1)),
    ((1, 1), (5, 7)),
    ((4, 3, 6), (4, 1)),
    ((4, 3, 1), (4, 1, 6)),
    ((1, 3, 1), (4, 3, 6)),
]


@pytest.mark.parametrize(("one", "other"), SHAPES, ids=str)
def test_dimensions_of_size_one_are_repeated(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = numbers(*one), numbers(*other)
    longer = max(len(one), len(other))
    left, right = (t.reshape(len(t), *(1,) * (longer - 1)) if t.ndim < longer else t for t in (a, b))
    with pytest.warns(NkiPortabilityWarning, match=r"nl.subtract repeats .* of one shape"):
        found = computed(nl.subtract, a, b)
    np.testing.assert_array_equal(found, left - right)


def test_operands_in_psum() -> None:
    def both(x, y):
        left, right = nl.matmul(x, y, transpose_x=True), nl.matmul(y, x, transpose_x=True)
        return nl.multiply(nl.add(left, right), nl.maximum(left, 0.0))

    a, b = np.eye(6, dtype=np.float32), numbers(6, 6)
    np.testing.assert_array_equal(computed(both, a, b), (b + b.T) * np.maximum(b, 0))


def test_power_and_rsqrt_reach_psum_by_a_copy() -> None:
    eye, b = np.eye(6, dtype=np.float32), np.abs(numbers(6, 6)) + 1
    found = computed(lambda x, y: nl.power(nl.matmul(x, y, transpose_x=True), y), eye, b)
    within(found, wide(b) ** wide(b), 2)
    with pytest.warns(NkiPortabilityWarning, match="rsqrt of a tile in PSUM"):
        found = computed(lambda x, y: nl.rsqrt(nl.matmul(x, y, transpose_x=True)), eye, b)
    within(found, 1 / np.sqrt(wide(b)), 0.51)


EXACT: dict[str, Callable[[Any], Any]] = {
    "logical_not": np.logical_not,
    "negative": np.negative,
    "square": np.square,
    "copy": np.positive,
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "sign": np.sign,
}


@pytest.mark.parametrize("name", EXACT)
def test_one_tile_exactly(name: str) -> None:
    a = numbers(6, 65)
    a[0, :3] = 0, 1, -2
    np.testing.assert_array_equal(computed(getattr(nl, name), a), EXACT[name](a).astype(np.float32))


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in {"prelu", "sin", "copy"}])
def test_one_tile(name: str) -> None:
    a = numbers(6, 65)
    a = np.abs(a) + np.float32(0.01) if name in {"log", "sqrt", "rsqrt"} else a
    row = ACTIVATIONS[name]
    within(computed(getattr(nl, name), a), row.reference(wide(a)), max(row.ulp, 0.5), row.floor)


@pytest.mark.parametrize("scale", [1.0, 20.0, 1000.0, 2.0**14])
def test_angles_of_any_size(scale: float) -> None:
    """The angle that is left of whole turns is off by 5e-7 at most, which is what the tangent's bound says too."""
    a = np.clip(numbers(8, 400, scale=scale), -(2.0**16), 2.0**16)
    within(computed(nl.sin, a), np.sin(wide(a)), 0, 5e-7)
    within(computed(nl.cos, a), np.cos(wide(a)), 0, 5e-7)
    want = np.tan(wide(a))
    assert np.all(np.abs(wide(computed(nl.tan, a)) - want) <= 1e-6 * (1 + want * want) * (1 + 1e-3 * np.abs(want)))


def test_the_sine_of_nine_and_of_infinity() -> None:
    """The Scalar engine by itself gives 27.65 there."""
    found = computed(nl.sin, np.array([[9.0, np.inf, np.nan, 3e38]], np.float32))
    assert abs(found[0, 0] - 0.4121184852) < 5e-7
    assert np.isnan(found[0, 1:3]).all()
    assert abs(found[0, 3]) <= 1


ODD = [0.0, -0.5, 0.5, 1.5, -1.5, 2.5, 2**22 + 0.5, -(2**22) - 0.5, 2**23 - 0.5, 2**23 + 1, 2**31, -3e9, 1e30]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_whole_parts(name: str) -> None:
    a = np.concatenate([np.array([*ODD, np.inf, -np.inf, np.nan]), numbers(1, 200, scale=50)[0]]).astype(np.float32)[
        None
    ]
    reference = getattr(np, name)
    np.testing.assert_array_equal(computed(getattr(nl, name), a), reference(a))
    low = a.astype(BF16)
    np.testing.assert_array_equal(wide(computed(getattr(nl, name), low)), reference(wide(low)))
    whole = np.array([[2**31 - 1, -5, 0]], np.int32)
    np.testing.assert_array_equal(computed(getattr(nl, name), whole), whole)
