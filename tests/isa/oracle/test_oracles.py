"""The oracles against their own vectors, and the number formats against exact rational arithmetic."""

from __future__ import annotations

import importlib
import pkgutil
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from . import activation, alu, functions, nc_matmul, numerics, tensor_tensor, verdict

NAMES = [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if not m.name.startswith("test_")]
MODULES = {name: importlib.import_module(f"{__package__}.{name}") for name in NAMES}
CASES = [
    pytest.param(module, asked, want, id=f"{name}-{i}")
    for name, module in MODULES.items()
    for i, (asked, want) in enumerate(getattr(module, "VECTORS", ()))
]
STORED = {n: getattr(ml_dtypes, n, None) or getattr(np, n, None) for n in numerics.FORMATS if n != "tfloat32"}
NARROW = [name for name, kind in STORED.items() if np.dtype(kind).itemsize < 4]


@pytest.mark.parametrize(("module", "arguments", "expected"), CASES)
def test_published_and_hand_calculated_vectors(module: ModuleType, arguments: dict[str, Any], expected: Any) -> None:
    before = {k: v.tobytes() for k, v in arguments.items() if isinstance(v, np.ndarray)}
    assert verdict.disagreement(module, expected, **arguments) is None
    assert before == {k: v.tobytes() for k, v in arguments.items() if isinstance(v, np.ndarray)}


@pytest.mark.parametrize(("module", "arguments", "expected"), CASES)
def test_a_wrong_result_is_refused(module: ModuleType, arguments: dict[str, Any], expected: Any) -> None:
    results = expected if isinstance(expected, tuple) else (expected,)
    for index, result in enumerate(results):
        wrong = result.copy()
        if result.dtype == np.int64:  # no engine's arithmetic has a number of that size
            wrong.flat[0] ^= 1
        else:
            wrong.flat[0] = _other(result)
        altered = tuple(wrong if i == index else r for i, r in enumerate(results))
        assert verdict.disagreement(module, altered if len(altered) > 1 else wrong, **arguments) is not None


def _other(result: np.ndarray) -> Any:
    """Half as much again as the first element, or 1.5 instead of 0: no bound is that wide."""
    value = numerics.exact(result).flat[0]
    other = 1.5 * value if np.isfinite(value) and value != 0 else 1.5
    written = numerics.write(np.array([other]), result.dtype)
    unlike = written.tobytes() != result.ravel()[:1].tobytes()
    return (written if unlike else numerics.write(np.array([value / 2]), result.dtype))[0]


def test_a_bound_is_stated() -> None:
    for name, module in MODULES.items():
        assert hasattr(module, "bounds") == hasattr(module, "TOLERANCE"), name


def test_rounding_to_float32_is_the_way_through_its_codes() -> None:
    rng = np.random.default_rng(0)
    edges = np.array([0, 1, 896, 897, 898, 1023, 1149, 1150, 1151, 1152, 2046, 2047], np.int64) << 52
    near = edges[:, None] + np.concatenate([(np.arange(-8, 9) << 28), np.arange(-3, 4), (1 << 28) + np.arange(-2, 3)])
    words = np.concatenate([near.ravel(), rng.integers(0, 1 << 63, 4000), rng.integers(896 << 52, 1152 << 52, 4000)])
    for sign in (0, -(1 << 63)):
        values = (words | sign).view(np.float64)
        codes = numerics.encode(values, numerics.FORMATS["float32"])
        with np.errstate(invalid="ignore"):
            assert np.array_equal(numerics.encode(numerics.round32(values), numerics.FORMATS["float32"]), codes)
            exact = numerics.decode(codes, numerics.FORMATS["float32"])
            assert np.array_equal(numerics.round32(values), exact, equal_nan=True)
    for value in (0.1, -0.0, np.inf, 1e-42, 1e39):
        assert numerics.round32(value).tobytes() == numerics.round32(np.array([value])).tobytes()


@pytest.mark.parametrize("name", NARROW)
def test_every_code_decodes_to_its_value(name: str) -> None:
    kind = np.dtype(STORED[name])
    codes = np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}")
    with np.errstate(all="ignore"):
        want = codes.view(kind).astype(np.float64)
    got = numerics.decode(codes, numerics.FORMATS[name])
    assert np.array_equal(got, want, equal_nan=True)
    numbers = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
    assert np.array_equal(numerics.encode(got, numerics.FORMATS[name])[numbers], codes[numbers])


@pytest.mark.parametrize("name", [n for n in numerics.FORMATS if n != "float32"])
def test_rounding_between_every_two_neighbours(name: str) -> None:
    """On both sides of, and at, the point halfway between each code and the next, past the largest one too."""
    form = numerics.FORMATS[name]
    step = max(1, form.largest // 4096)
    codes = np.unique(np.concatenate([np.arange(0, form.largest, step), [form.largest - 1, form.largest]]))
    low = numerics.decode(codes, form)
    high = np.append(numerics.decode(codes[:-1] + 1, form), 2 * low[-1] - numerics.decode(form.largest - 1, form))
    half = (low + high) / 2
    below, above = np.nextafter(half, 0.0), np.nextafter(half, np.inf)
    over = form.nan if form.infinity is None else form.infinity
    following = np.append(codes[:-1] + 1, over)
    even = np.where(codes % 2 == 0, codes, following)
    for points, want in ((below, codes), (half, even), (above, following)):
        assert np.array_equal(numerics.encode(points, form), want)
        assert np.array_equal(numerics.encode(-points, form), want | form.sign)


def nearest(value: Fraction, name: str) -> float:
    """The nearest finite number of a format, by searching its codes with rational arithmetic."""
    form = numerics.FORMATS[name]
    low, high = 0, form.largest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(float(numerics.decode(middle, form))) <= value else (low, middle)
    options = [(abs(Fraction(float(numerics.decode(c, form))) - value), c % 2, c) for c in (low, high)]
    return float(numerics.decode(min(options)[2], form))


def test_rounding_random_numbers_agrees_with_rational_arithmetic() -> None:
    random = np.random.default_rng(1)
    for name, form in numerics.FORMATS.items():
        top = float(numerics.decode(form.largest, form))
        for value in random.random(60) * 2.0 ** random.integers(-30, 1, 60) * top:
            assert float(numerics.decode(numerics.encode(value, form), form)) == nearest(Fraction(float(value)), name)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
def test_float64_then_float32_is_the_correctly_rounded_operation(op: str) -> None:
    random = np.random.default_rng(2)
    bits = random.integers(0, 2**32, (2, 3000), dtype=np.uint32)
    x, y = bits.view(np.float32)
    with np.errstate(all="ignore"):
        want = {"add": x + y, "subtract": x - y, "multiply": x * y, "divide": x / y}[op]
    got = alu.arithmetic(op, numerics.exact(x), numerics.exact(y)).astype(np.float32)
    numbers = ~np.isnan(want)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(got[numbers].view(np.uint32), want[numbers].view(np.uint32))


def test_a_sum_rounded_to_odd_and_then_to_float32_is_the_rounded_sum() -> None:
    random = np.random.default_rng(4)
    x = np.ldexp(random.integers(-(2**47), 2**47, 400) | 1 << 24, random.integers(-60, 60, 400))  # ties among them
    y = np.ldexp(random.integers(-9, 9, 400), random.integers(-140, 100, 400))
    ties = np.ldexp(random.integers(2**23, 2**24, 400) * 2 + 1, random.integers(-40, 40, 400))
    tiny = random.choice([-1, 0, 1], 400) * 2.0**-149
    for one, two in ((x, y), (ties, tiny), (-ties, tiny), (tiny, ties), (ties, -ties)):
        got = numerics.round32(numerics.sum_to_odd(one, two))
        exact = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(one, two, strict=True)]
        assert np.abs(got).tolist() == [nearest(abs(total), "float32") for total in exact]
        assert all(number * total >= 0 for number, total in zip(got.tolist(), exact, strict=True))
    with np.errstate(invalid="ignore"):
        ends = numerics.sum_to_odd(np.array([np.inf, np.inf, np.nan]), np.array([1.0, -np.inf, 1.0]))
    assert np.array_equal(ends, [np.inf, np.nan, np.nan], equal_nan=True)


def test_a_bound_around_zero_admits_false() -> None:
    near = verdict.around(np.array([-1e-7, 1e-7, 1.0]), 1e-6, np.zeros(3, bool))
    assert (near.low.tolist(), near.high.tolist()) == ([0, 0, 1], [1, 1, 1])


def test_integers_saturate_and_ties_go_to_even() -> None:
    values = np.array([0.5, 1.5, -2.5, 1e30, -1e30, np.nan, np.inf, 2.0**31 - 1])
    assert numerics.to_integer(values, "int32").tolist() == [0, 2, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1, 2**31 - 1]
    # The float32 nearest to 2**31 - 1 is 2**31, which saturates.
    assert numerics.write(values[-1:], np.int32).tolist() == [2**31 - 1]
    assert numerics.write(np.array([2.0**32]), np.uint32).tolist() == [2**32 - 1]


def test_powers_of_two_end_at_both_sides() -> None:
    values = [0.0, -1.0, np.inf, np.nan, 2.0**-149, 2.0**-127 * 1.49, 2.0**-127 * 1.5, 2.0**127 * 1.49, 2.0**127 * 1.5]
    codes = numerics.write(values, ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert codes.tolist() == [255, 255, 255, 255, 0, 0, 1, 254, 255]


def test_tfloat32_keeps_ten_bits() -> None:
    got = numerics.write(np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -np.inf]), "tfloat32")
    assert got.view(np.uint32).tolist() == [0x3F800000, 0x3F804000, 0xFF800000]


def test_every_operator_of_the_table_is_here() -> None:
    arithmetic = "add subtract multiply maximum minimum equal not_equal greater_equal greater less_equal less"
    arithmetic += " logical_and logical_or logical_xor power abs_max abs_min"
    assert set(arithmetic.split()) <= set(alu.BINARY)
    assert {"abs", "square", "relu", "rsqrt", "reciprocal"} <= set(alu.UNARY)
    assert set(alu.BITVEC) == {"invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
    assert len(functions.FUNCTIONS) == 26 - 1  # the table without prelu


def test_a_chain_of_activations_accumulates() -> None:
    data = np.array([[1, 2], [3, 4]], np.float32)
    dst = np.zeros((2, 2), np.float32)
    registers = activation.after(dst, op="copy", data=data, reduce_op="add", reduce_cmd="reset_reduce")
    registers = activation.after(
        dst, op="square", data=data, reduce_op="add", reduce_cmd="reduce", reduce_regs=registers
    )
    assert registers.tolist() == [3 + 5, 7 + 25]


def test_one_bit_is_enough_to_be_wrong() -> None:
    one, two = np.array([[0.1]], np.float32), np.array([[0.2]], np.float32)
    right = one + two
    off = np.nextafter(right, np.float32(1))
    arguments = {"dst": right, "data1": one, "data2": two, "op": "add"}
    assert verdict.disagreement(tensor_tensor, right, **arguments) is None
    assert verdict.disagreement(tensor_tensor, off, **arguments) is not None
    zero = {"dst": right, "data1": one, "data2": one, "op": "subtract"}
    assert verdict.disagreement(tensor_tensor, np.array([[-0.0]], np.float32), **zero) is not None


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3])
def test_the_matmul_bound_holds_float32_and_catches_bfloat16_accumulation(kind: Any) -> None:
    random = np.random.default_rng(3)
    left, right = (random.standard_normal((128, 16)).astype(np.float32).astype(kind) for _ in range(2))
    total = np.zeros((16, 16), np.float32)
    coarse = np.zeros((16, 16), np.float32)
    for k in range(128):
        term = np.outer(left[k].astype(np.float32), right[k].astype(np.float32))
        total = total + term
        coarse = (coarse + term).astype(ml_dtypes.bfloat16).astype(np.float32)
    arguments = {"dst": np.zeros((16, 16), np.float32), "stationary": left, "moving": right}
    assert verdict.disagreement(nc_matmul, total, **arguments) is None
    assert verdict.disagreement(nc_matmul, coarse, **arguments) is not None


def test_the_matmul_bound_holds_products_that_are_rounded_to_subnormal_numbers() -> None:
    """128 products of 3 * 2**-151: float32 rounds each up to 2**-149, and their sum is then exact."""
    left, right = (np.full((128, 1), x, np.float32) for x in (1.5 * 2.0**-75, 2.0**-75))
    arguments = {"dst": np.zeros((1, 1), np.float32), "stationary": left, "moving": right}
    rounded, lost = (np.array([[x]], np.float32) for x in (128 * 2.0**-149, 0.0))
    assert verdict.disagreement(nc_matmul, rounded, **arguments) is None
    assert verdict.disagreement(nc_matmul, lost, **arguments) is not None


@pytest.mark.parametrize("op", sorted(functions.FUNCTIONS))
def test_activation_bounds_hold_float32_rounding_and_catch_bfloat16_rounding(op: str) -> None:
    x = np.linspace(0.0625, 1.5, 64, dtype=np.float32)[None]
    y = functions.evaluate(op, x.astype(np.float64))
    arguments = {"dst": np.zeros_like(x), "op": op, "data": x}
    assert verdict.disagreement(activation, y.astype(np.float32), **arguments) is None
    wrong = (y * (1 + 2.0**-9)).astype(np.float32)
    assert verdict.disagreement(activation, wrong, **arguments) is not None


@pytest.mark.parametrize(
    ("op", "x", "y", "want"),
    [
        *(("greater_equal", *case) for case in ((2.0, 2.0, 1.0), (1.0, 2.0, 0.0), (np.nan, 0.0, 0.0))),
        *(("less_equal", *case) for case in ((2.0, 2.0, 1.0), (3.0, 2.0, 0.0), (0.0, np.nan, 0.0))),
        *(("less", *case) for case in ((2.0, 2.0, 0.0), (1.0, 2.0, 1.0), (-0.0, 0.0, 0.0))),
        *(("logical_or", *case) for case in ((0.0, -0.0, 0.0), (0.0, 2.0, 1.0), (np.nan, 0.0, 1.0))),
        *(("bypass", *case) for case in ((3.0, 5.0, 3.0), (-0.0, 5.0, -0.0))),
        *(("relu", *case) for case in ((-2.0, 0.0, 0.0), (-0.0, 0.0, 0.0), (2.0, 0.0, 2.0), (np.nan, 0.0, np.nan))),
        *(("negative", *case) for case in ((5.0, 0.0, -5.0), (0.0, 0.0, -0.0))),
        *(("logical_not", *case) for case in ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0))),
        *(
            ("power", *case)
            for case in ((-8.0, 3.0, -512.0), (0.0, 0.0, 1.0), (-8.0, 0.5, np.nan), (0.0, -1.0, np.inf))
        ),
        *(("power", *case) for case in ((-np.inf, 0.5, np.inf), (-np.inf, 3.0, -np.inf), (-np.inf, -3.0, -0.0))),
        *(("power", *case) for case in ((-0.0, -3.0, -np.inf), (-0.0, -2.0, np.inf), (-0.0, -np.inf, np.inf))),
        *(("power", *case) for case in ((-2.0, 4097.0, -np.inf), (-2.0, 4096.0, np.inf), (np.nan, 0.0, 1.0))),
        *(("rsqrt", *case) for case in ((0.0, 0.0, np.inf), (-1.0, 0.0, np.nan), (np.inf, 0.0, 0.0))),
    ],
)
def test_operators_at_special_values(op: str, x: float, y: float, want: float) -> None:
    got = float(alu.arithmetic(op, x, y))
    assert (np.isnan(got) and np.isnan(want)) or (got == want and np.signbit(got) == np.signbit(want))


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("silu", 0.7310585786),
        ("mish", 0.8650983883),
        ("gelu_apprx_tanh", 0.8411919906),
        ("gelu", 0.8413447461),
        ("gelu_apprx_sigmoid", 0.8457957659),
        ("exp", np.e),
        ("softplus", 1.3132616875),
        ("sigmoid", 0.7310585786),
    ],
)
def test_functions_at_one(op: str, want: float) -> None:
    assert abs(float(functions.evaluate(op, np.array(1.0))) - want) < 1e-9


@pytest.mark.parametrize("op", ["gelu", "gelu_apprx_sigmoid", "silu", "erf"])
def test_derivatives_are_slopes(op: str) -> None:
    x, h = np.linspace(-6, 6, 49), 1e-4
    slope = (functions.evaluate(op, x + h) - functions.evaluate(op, x - h)) / (2 * h)
    assert np.max(np.abs(functions.evaluate(f"{op}_dx", x) - slope)) < 1e-7
