"""The compiled activation functions against the float64 formulas of the table, and their bits against each other."""

from __future__ import annotations

import ctypes
import hashlib
import math
import platform
import re
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki.isa.tables.activations import ACTIVATIONS, SIN_LIMIT
from nki.numerics import float32, float64, simd
from nki.numerics.activations import emit, emit_power
from nki.numerics.jit import engine
from nki.numerics.numpy_entry import activate, loop_module, power
from nki.numerics.pieces import GELU_DX
from nki.numerics.simd import F32 as FLOAT
from nki.numerics.simd import Lanes

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

UNARY = [name for name, row in ACTIVATIONS.items() if not row.parameter]
INF, NAN = math.inf, math.nan

DOCUMENTED = """copy square sigmoid relu prelu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid gelu_apprx_sigmoid_dx
    silu silu_dx tanh softplus mish erf erf_dx exp log sin arctan sqrt rsqrt reciprocal sign abs"""

_UNDERFLOW = {"x86_64": 0x10, "aarch64": 8}
"""FE_UNDERFLOW of C's fenv.h."""

EARLIER_BITS: dict[str, tuple[float, str]] = {
    "sigmoid": (-17.5, "bd196cd7e22bd79a"),
    "silu": (-17.5, "5939f7947f9921ff"),
    "gelu": (-6.5, "d0432220b6bc4fac"),
    "gelu_apprx_sigmoid": (-10.75, "513927ca867e8ff9"),
}
"""Where functions are no longer computed by pieces, and digests of the results from there to -112 in steps of 2^-14."""

SPECIAL = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, math.pi, -math.pi, math.pi / 2),
        *(1e-45, -1e-45, 1.1754942e-38, -1.1754942e-38, 1.1754944e-38, -1.1754944e-38, 3.4028235e38, -3.4028235e38),
        *(88.72283, 88.72284, -87.33655, -103.97, -103.98, 14.5, -14.5, 15.0, -15.0, 20.0, -20.0, 11.0, -11.0),
        *(0.5, -0.5, 0.7517915, -0.7517915, -1.2784646, -0.7511543, 9.0, -9.0),
    ],
    np.float32,
)


def samples() -> F32:
    """Special values, every 65,536th bit pattern with its neighbours, and numbers where the functions bend."""
    patterns = np.arange(0, 2**32, 2**16, dtype=np.uint64)
    patterns = np.concatenate([patterns, patterns + 1, patterns + 0xFFFF]).astype(np.uint32)
    draw = np.random.default_rng(7)
    return np.concatenate(
        [
            SPECIAL,
            patterns.view(np.float32),
            draw.integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32),
            draw.normal(0, 1, 60_000).astype(np.float32),
            draw.uniform(-16, 16, 60_000).astype(np.float32),
            draw.uniform(-110, 110, 60_000).astype(np.float32),
            (1 + draw.normal(0, 1e-4, 10_000)).astype(np.float32),
        ]
    )


SAMPLES = samples()


def assert_within(got: F32, exact: F64, inputs: F32, ulp: float, floor: float | F64 = 0.0) -> None:
    """``got`` is ``exact`` to ``ulp`` units of the last place or to ``floor``, with infinities and NaN in place."""
    floor = np.broadcast_to(floor, inputs.shape)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    ordinary = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~ordinary], rounded[~ordinary])
    exponent = np.frexp(np.maximum(np.abs(exact[ordinary]), 2.0**-126))[1]
    bound = np.maximum(ulp * np.ldexp(1.0, exponent - 24), floor[ordinary])
    error = np.abs(got[ordinary].astype(np.float64) - exact[ordinary])
    assert np.isfinite(got[ordinary]).all()
    worst = np.argmax(error / np.maximum(bound, 2.0**-1074))
    assert error[worst] <= bound[worst], (inputs[ordinary][worst], got[ordinary][worst], exact[ordinary][worst])


def loop(name: str, inputs: int, width: int, formula: Any = None) -> Any:
    """The compiled loop over one or two arrays, with vectors of ``width`` lanes; of ``formula``, or of the function."""

    def function_of(builder: object, values: list[object]) -> object:
        return emit_power(builder, *values) if name == "power" else emit(builder, name, *values)

    address = engine().compile(loop_module(name, inputs, formula or function_of, width))[name]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + inputs), ctypes.c_int64)(address)

    def run(*arrays: F32) -> F32:
        result = np.empty_like(arrays[0])
        function(result.ctypes.data, *[array.ctypes.data for array in arrays], result.size)
        return result

    return run


def bits(x: F32) -> NDArray[np.uint32]:
    """Bit patterns, with one pattern for all NaN: their payloads are unspecified."""
    return np.where(np.isnan(x), np.float32(NAN), x).view(np.uint32)


def test_the_table_has_the_documented_functions() -> None:
    assert sorted(ACTIVATIONS) == sorted(DOCUMENTED.split())
    for name, row in ACTIVATIONS.items():
        assert row.name == name
        assert row.formula and row.special and row.source and row.cores
        assert 0 <= row.ulp <= 1.5
        assert all(low < high for low, high in row.valid)
        assert (row.floor > 0) == (row.floor_range[0] < row.floor_range[1])


@pytest.mark.parametrize("name", UNARY)
def test_error_is_within_the_bound_of_the_table(name: str) -> None:
    row = ACTIVATIONS[name]
    with np.errstate(all="ignore"):
        exact = row.reference(SAMPLES.astype(np.float64))
    low, high = row.floor_range
    floor = np.where((low <= SAMPLES) & (high >= SAMPLES), row.floor, 0.0)
    assert_within(activate(name, SAMPLES), exact, SAMPLES, row.ulp, floor)


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("copy", -0.0, -0.0),
        ("square", -0.0, 0.0),
        ("square", -INF, INF),
        ("square", 1e30, INF),
        ("sigmoid", -INF, 0.0),
        ("sigmoid", INF, 1.0),
        ("sigmoid", 0.0, 0.5),
        ("relu", -0.0, 0.0),
        ("relu", -INF, 0.0),
        ("relu", INF, INF),
        ("gelu", -INF, -0.0),
        ("gelu", INF, INF),
        ("gelu", -0.0, -0.0),
        ("gelu", 3e38, np.float32(3e38)),
        ("gelu_dx", -INF, -0.0),
        ("gelu_dx", INF, 1.0),
        ("gelu_dx", 0.0, 0.5),
        ("gelu_apprx_tanh", -INF, -0.0),
        ("gelu_apprx_tanh", INF, INF),
        ("gelu_apprx_tanh", -0.0, -0.0),
        ("gelu_apprx_sigmoid", -INF, -0.0),
        ("gelu_apprx_sigmoid", INF, INF),
        ("gelu_apprx_sigmoid", -0.0, -0.0),
        ("gelu_apprx_sigmoid_dx", -INF, -0.0),
        ("gelu_apprx_sigmoid_dx", INF, 1.0),
        ("silu", -INF, -0.0),
        ("silu", INF, INF),
        ("silu", -0.0, -0.0),
        ("silu_dx", -INF, -0.0),
        ("silu_dx", INF, 1.0),
        ("tanh", -INF, -1.0),
        ("tanh", INF, 1.0),
        ("tanh", -0.0, -0.0),
        ("tanh", 1e-45, np.float32(1e-45)),
        ("softplus", -INF, 0.0),
        ("softplus", INF, INF),
        ("mish", -INF, -0.0),
        ("mish", INF, INF),
        ("mish", -0.0, -0.0),
        ("erf", -INF, -1.0),
        ("erf", INF, 1.0),
        ("erf", -0.0, -0.0),
        ("erf_dx", -INF, 0.0),
        ("erf_dx", 3e38, 0.0),
        ("exp", -INF, 0.0),
        ("exp", INF, INF),
        ("exp", 0.0, 1.0),
        ("exp", 88.73, INF),
        ("exp", -103.97, np.float32(1e-45)),
        ("exp", -104.5, 0.0),
        ("log", 0.0, -INF),
        ("log", -0.0, -INF),
        ("log", -1e-45, NAN),
        ("log", -INF, NAN),
        ("log", INF, INF),
        ("log", 1.0, 0.0),
        ("sin", -0.0, -0.0),
        ("sin", INF, INF),
        ("sin", 9.0, np.float32(27.652597)),
        ("sin", -9.0, np.float32(-27.652597)),
        ("arctan", -0.0, -0.0),
        ("arctan", INF, np.float32(math.pi / 2)),
        ("arctan", -INF, np.float32(-math.pi / 2)),
        ("sqrt", -0.0, -0.0),
        ("sqrt", -1e-45, NAN),
        ("sqrt", INF, INF),
        ("rsqrt", 0.0, INF),
        ("rsqrt", -0.0, -INF),
        ("rsqrt", -1.0, NAN),
        ("rsqrt", INF, 0.0),
        ("rsqrt", 4.0, 0.5),
        ("reciprocal", 0.0, INF),
        ("reciprocal", -0.0, -INF),
        ("reciprocal", -INF, -0.0),
        ("reciprocal", 1e-45, INF),
        ("sign", -0.0, 0.0),
        ("sign", -1e-45, -1.0),
        ("sign", INF, 1.0),
        ("abs", -0.0, 0.0),
        ("abs", -INF, INF),
    ],
)
def test_special_values(name: str, x: float, expected: float) -> None:
    got = activate(name, np.array([x], np.float32))
    np.testing.assert_array_equal(bits(got), bits(np.array([expected], np.float32)))


@pytest.mark.parametrize("name", UNARY)
def test_any_nan_gives_nan(name: str) -> None:
    patterns = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF, 0x7FD5AAAA] * 3, np.uint32)
    assert np.isnan(activate(name, patterns.view(np.float32))).all()


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("name", UNARY)
def test_vectors_and_scalars_have_the_same_bits(name: str, width: int) -> None:
    inputs = np.ascontiguousarray(SAMPLES[::5][:40_001])
    np.testing.assert_array_equal(bits(loop(name, 1, width)(inputs)), bits(loop(name, 1, 1)(inputs)))


@pytest.mark.parametrize("name", ["power", "prelu"])
def test_vectors_and_scalars_of_two_operands_have_the_same_bits(name: str) -> None:
    draw = np.random.default_rng(3)
    x, y = np.ascontiguousarray(SAMPLES[::5]), draw.permutation(SAMPLES[::5])
    np.testing.assert_array_equal(bits(loop(name, 2, 16)(x, y)), bits(loop(name, 2, 1)(x, y)))


@pytest.mark.parametrize("size", [0, 1, 3, 15, 16, 17, 33])
def test_every_length_and_shape(size: int) -> None:
    x = np.linspace(-3, 3, size, dtype=np.float32)
    one_by_one = [activate("tanh", np.array(value, np.float32)) for value in x]
    np.testing.assert_array_equal(activate("tanh", x), np.array(one_by_one, np.float32))
    matrix = np.linspace(-3, 3, 6 * size, dtype=np.float32).reshape(3, 2, size)
    strided = activate("tanh", matrix.transpose(2, 0, 1))
    np.testing.assert_array_equal(strided, activate("tanh", matrix).transpose(2, 0, 1))


@pytest.mark.parametrize("name", [*UNARY, "prelu", "power"])
def test_no_function_calls_a_library(name: str) -> None:
    def formula(builder: object, values: list[object]) -> object:
        return emit_power(builder, *values) if name == "power" else emit(builder, name, *values)

    text = str(loop_module("f", 2 if name in ("prelu", "power") else 1, formula, 16))
    called = set(re.findall(r'declare [^@]*@"([^"]+)"', text))
    assert {re.sub(r"\.v?\d*[fi]\d+.*", "", function) for function in called} <= {
        "llvm.fma",
        "llvm.fabs",
        "llvm.sqrt",
        "llvm.copysign",
        "llvm.x86.avx512.mask.scalef.ps.512",
        "llvm.x86.avx512.mask.fixupimm.ps.512",
        "llvm.x86.avx512.mask.getexp.ps.512",
        "llvm.x86.avx512.mask.getmant.ps.512",
        "llvm.x86.avx512.permvar.sf.512",
        "llvm.x86.avx512.vpermi2var.ps.512",
        "llvm.x86.avx512.rsqrt14.ps.512",
        "llvm.x86.avx2.permps",
    }
    assert " fast " not in text


def test_sin_goes_over_into_a_cubic_a_little_beyond_pi() -> None:
    x = np.array([np.float32(np.pi), np.nextafter(np.float32(np.pi), np.float32(4)), 3.145, 3.146], np.float32)
    got = activate("sin", x)
    np.testing.assert_array_equal(got[:3], np.sin(x[:3].astype(np.float64)).astype(np.float32))
    past = float(x[3]) - np.pi
    assert x[2] < SIN_LIMIT < x[3] and got[3] == np.float32(past**3 / 6 - past)
    assert abs(float(got[3]) - np.sin(float(x[3]))) < 1e-9


def test_prelu_takes_its_slope_and_nothing_else_does() -> None:
    x = np.array([[-2.0, 3.0, -0.0, NAN], [-4.0, -INF, INF, 1.0]], np.float32)
    expected = np.array([[-0.5, 3.0, -0.0, NAN], [-2.0, -INF, INF, 1.0]], np.float32)
    slope = np.array([[0.25], [0.5]], np.float32)
    np.testing.assert_array_equal(bits(activate("prelu", x, slope)), bits(expected))
    with np.errstate(all="ignore"):
        exact = ACTIVATIONS["prelu"].reference(SAMPLES.astype(np.float64), np.float64(np.float32(0.1)))
    assert_within(activate("prelu", SAMPLES, 0.1), exact, SAMPLES, ACTIVATIONS["prelu"].ulp)
    with pytest.raises(TypeError, match="slope"):
        activate("prelu", x)
    with pytest.raises(TypeError, match="no parameter"):
        activate("relu", x, 0.1)


def test_wrong_names_and_dtypes_are_refused() -> None:
    with pytest.raises(KeyError):
        activate("cosine", np.zeros(1, np.float32))
    with pytest.raises(TypeError, match="float64"):
        activate("exp", np.zeros(1))


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_normal_exponentials_have_the_bits_of_all_others(width: int) -> None:
    def normal(builder: Any, values: list[Any]) -> Any:
        return float32.normal_exp(Lanes(builder, values[0]), values[0])

    def has_normal(builder: Any, values: list[Any]) -> Any:
        lanes = Lanes(builder, values[0])
        return lanes.select(float32.has_normal_exp(lanes, values), lanes.constant(FLOAT, 1.0), 0.0)

    x = np.concatenate([SAMPLES, around(math.log(2) * np.arange(-253, 254) / 2), around(np.array([-87.0, 87.0]))])
    where = loop("has_normal", 1, width, has_normal)(x) == 1
    np.testing.assert_array_equal(where, np.abs(x) <= 87)
    np.testing.assert_array_equal(bits(loop("normal", 1, width, normal)(x[where])), bits(activate("exp", x[where])))


def around(numbers: F64) -> F32:
    """``numbers`` as float32, each with 64 neighbours: next to where an exponent or a way begins."""
    patterns = numbers.astype(np.float32).view(np.int32)[:, None] + np.arange(-32, 33, dtype=np.int32)
    return np.ascontiguousarray(patterns.reshape(-1)).view(np.float32)


def test_numbers_have_normal_exponentials_together_if_each_has() -> None:
    def both(builder: Any, values: list[Any]) -> Any:
        lanes = Lanes(builder, values[0])
        return lanes.select(float32.has_normal_exp(lanes, values), lanes.constant(FLOAT, 1.0), 0.0)

    x, y = (np.ascontiguousarray(a.reshape(-1), np.float32) for a in np.meshgrid(SAMPLES[::400], SAMPLES[::400]))
    got = loop("both_normal", 2, 16, both)(x, y) == 1
    assert (np.maximum(np.abs(x), np.abs(y))[got] <= 87).all()  # of no NaN either
    assert got[np.maximum(np.abs(x), np.abs(y)) <= 61].all()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in _UNDERFLOW, reason="needs fenv.h's numbers")
@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "gelu", "gelu_apprx_sigmoid"])
def test_small_results_cost_no_subnormal_arithmetic(name: str, width: int) -> None:
    """Which takes 200 cycles for a vector; the flag of underflow tells it from a number that integers make."""
    library, flag = ctypes.CDLL("libm.so.6"), _UNDERFLOW[platform.machine()]
    function = loop(name, 1, width)

    def underflows(x: float) -> bool:
        inputs = np.full(64, x, np.float32)
        library.feclearexcept(flag)
        function(inputs)
        return library.fetestexcept(flag) != 0

    assert not any(underflows(x) for x in (-30000.0, -INF, 30000.0, INF))
    if name == "exp":
        assert underflows(-100.0)
    else:
        assert [x for x in np.linspace(-115, 115, 1_151) if underflows(x)] == []


@pytest.mark.parametrize("name", list(EARLIER_BITS))
def test_bits_are_those_of_arithmetic_with_subnormals(name: str) -> None:
    """The digests come from formulas whose last multiplication made the subnormal result."""
    first, expected = EARLIER_BITS[name]
    small = -np.arange(-first, 112, 2.0**-14).astype(np.float32)
    assert hashlib.sha256(bits(activate(name, small)).tobytes()).hexdigest()[:16] == expected


def test_the_derivative_of_gelu_is_within_its_bound_near_its_zero_and_where_its_pieces_end() -> None:
    row = ACTIVATIONS["gelu_dx"]
    step = GELU_DX.step
    ends = around((np.arange(32) + 0.5) * step)
    near = np.arange(np.float32(2 * step).view(np.int32), np.float32(6 * step).view(np.int32), 7, np.int32)
    x = np.concatenate([ends, -ends, -near.view(np.float32), around(np.array([-3.75, -0.7517915, 5.9]))])
    low, high = row.floor_range
    floor = np.where((low <= x) & (high >= x), row.floor, 0.0)
    assert_within(activate("gelu_dx", x), row.reference(x.astype(np.float64)), x, row.ulp, floor)
    large = np.array([GELU_DX.step * 31.5, 6.0, 7.0, 1e30], np.float32)
    np.testing.assert_array_equal(activate("gelu_dx", large), np.ones(4, np.float32))


@pytest.mark.parametrize("width", [4, 8, 16])
def test_the_derivative_of_gelu_has_the_bits_of_float64_below_its_pieces(width: int) -> None:
    """Beside numbers that are not there, too, whose bits do not depend on their neighbours."""
    x = np.random.default_rng(4).uniform(-20, 6, 40_000).astype(np.float32)
    below = x < -3.75
    got, single = loop("gelu_dx", 1, width)(x), loop("gelu_dx", 1, 1)(x)
    np.testing.assert_array_equal(bits(got), bits(single))

    def formula(builder: Any, values: list[Any]) -> Any:
        return float64.gelu_dx(Lanes(builder, values[0]), values[0])

    np.testing.assert_array_equal(bits(got[below]), bits(loop("gelu_dx_64", 1, width, formula)(x)[below]))
    assert below.sum() > 20_000 and (got[~below] != loop("gelu_dx_64", 1, width, formula)(x)[~below]).any()


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("name", list(EARLIER_BITS))
def test_bits_do_not_depend_on_the_other_lanes_of_a_vector(name: str, width: int) -> None:
    """Large negative numbers take a way of their own, on which the whole vector goes."""
    first, _ = EARLIER_BITS[name]
    usual = np.linspace(first + 0.5, -2 * first, 8_000).astype(np.float32)
    mixed = usual.copy()
    mixed[::5] = np.linspace(first, -120, len(mixed[::5]))
    kept = np.arange(len(mixed)) % 5 != 0
    function = loop(name, 1, width)
    np.testing.assert_array_equal(bits(function(mixed)[kept]), bits(function(usual)[kept]))
    np.testing.assert_array_equal(bits(function(mixed)), bits(loop(name, 1, 1)(mixed)))


@pytest.mark.parametrize("has_avx2", [False, True])
@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize("name", ["tanh", "erf", "gelu", "gelu_dx", "log", "rsqrt", "sqrt", "sin"])
def test_processors_without_avx512_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, name: str, width: int, has_avx2: bool
) -> None:
    if has_avx2 and not simd.has_avx2():
        pytest.skip("needs AVX2")
    inputs = np.ascontiguousarray(SAMPLES[::3])
    expected = bits(activate(name, inputs))
    monkeypatch.setattr(simd, "has_avx512", lambda: False)
    monkeypatch.setattr(simd, "has_avx2", lambda: has_avx2)
    text = str(loop_module("f", 1, lambda b, values: emit(b, name, *values), width))
    assert ("avx2.permps" in text) == (has_avx2 and name not in ("rsqrt", "sqrt", "sin"))  # also of the last elements
    np.testing.assert_array_equal(bits(loop(name, 1, width)(inputs)), expected)


@pytest.mark.parametrize("exponent", [0, 1, -101, -100, -99, -98, -126, 126])
def test_square_roots_are_rounded(exponent: int) -> None:
    """All numbers from a power of two to the next one: from 2^-100 on roots are computed, below by an instruction."""
    x = np.ldexp(np.arange(2**23, 2**24).astype(np.float32), exponent - 23)
    np.testing.assert_array_equal(bits(activate("sqrt", x)), bits(np.sqrt(x)))


def test_square_roots_of_subnormals_zeros_and_negative_numbers_beside_others() -> None:
    x = np.concatenate([SAMPLES, around(np.array([2.0**-100, 2.0**-126, 2.0**-149, 2.0**127]))])
    np.random.default_rng(2).shuffle(x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(bits(activate("sqrt", x)), bits(np.sqrt(x)))


@pytest.mark.skipif(not simd.has_avx512(), reason="only AVX-512 estimates")
@pytest.mark.parametrize("error", [-(2.0**-14), -(2.0**-15), -(2.0**-20), 0.0, 2.0**-17, 2.0**-14])
def test_square_roots_do_not_depend_on_the_estimate(monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    """Processors give other estimates, within 2^-14 of the inverse root."""

    def formula(builder: Any, values: list[Any]) -> Any:
        monkeypatch.setattr(Lanes, "estimated_inverse_root", lambda _, x: values[1])
        return emit(builder, "sqrt", values[0])

    draw = np.random.default_rng(3)
    x = np.ldexp(draw.integers(2**23, 2**24, 400_000).astype(np.float32), draw.integers(-120, 100, 400_000))
    estimate = ((1 + error) / np.sqrt(x.astype(np.float64))).astype(np.float32)
    np.testing.assert_array_equal(bits(loop("root", 2, 16, formula)(x, estimate)), bits(np.sqrt(x)))


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_sines_do_not_depend_on_the_other_lanes_of_a_vector(width: int) -> None:
    """A cubic is computed where one number is beyond pi."""
    usual = np.linspace(-3.14, 3.14, 8_000).astype(np.float32)
    mixed = usual.copy()
    mixed[::5] = np.linspace(-20, 20, len(mixed[::5]))
    function, kept = loop("sin", 1, width), np.arange(len(mixed)) % 5 != 0
    np.testing.assert_array_equal(bits(function(mixed)[kept]), bits(function(usual)[kept]))
    np.testing.assert_array_equal(bits(function(mixed)), bits(loop("sin", 1, 1)(mixed)))


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_no_result_is_beyond_one(name: str) -> None:
    x = np.concatenate([np.linspace(3, 20, 500_001), [1e5, 3e38, INF]]).astype(np.float32)
    got = activate(name, x)
    assert got.max() == 1 and (got[x > 18] == 1).all()


def test_power_is_within_one_ulp_of_float64() -> None:
    draw = np.random.default_rng(11)
    x = np.concatenate([np.exp(draw.uniform(-20, 20, 50_000)), 1 + draw.normal(0, 1e-3, 50_000)]).astype(np.float32)
    y = np.concatenate([draw.uniform(-5, 5, 50_000), draw.normal(0, 1e4, 50_000)]).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert_within(power(x, y), exact, x, 0.51)


def test_power_has_the_special_values_of_numpy() -> None:
    x, y = np.meshgrid(SPECIAL, np.concatenate([SPECIAL, np.float32([2, 3, -2, -3, 16777215, 16777216, 1e10])]))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    got = power(x, y)
    assert_within(got.ravel(), exact.ravel(), x.ravel(), 0.51)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(exact[~np.isnan(got)]))


def test_power_broadcasts() -> None:
    got = power(np.array([[1.0], [2.0], [-3.0]], np.float32), np.array([2.0, 3.0], np.float32))
    np.testing.assert_array_equal(got, np.array([[1, 1], [4, 8], [9, -27]], np.float32))
