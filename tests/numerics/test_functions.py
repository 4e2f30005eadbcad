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
from nki.numerics import simd
from nki.numerics.functions import FUNCTIONS, emit, emit_power
from nki.numerics.functions.coefficients import piecewise_row, rows
from nki.numerics.numpy_entry import activate, loop_module, power
from nki.numerics.simd import F32 as FLOAT
from nki.numerics.simd import Lanes
from tests.support.native_calls import call, compiled

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

UNARY = [name for name, row in ACTIVATIONS.items() if not row.parameter]
PIECEWISE = {name: piecewise_row(name) for name, row in rows().items() if "symmetry" in row}
TAILS = {name: row.tail for name, row in PIECEWISE.items() if row.tail > -math.inf} | {"sin": -SIN_LIMIT}
"""Below it, a number of a vector takes a way of its own."""
INF, NAN = math.inf, math.nan

DOCUMENTED = """copy square sigmoid relu prelu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid gelu_apprx_sigmoid_dx
    silu silu_dx tanh softplus mish erf erf_dx exp log sin arctan sqrt rsqrt reciprocal sign abs"""

SPECIAL_RESULTS = {
    "copy": "-0:-0",
    "square": "-0:0 -inf:inf 1e30:inf",
    "sigmoid": "-inf:0 inf:1 0:0.5",
    "relu": "-0:0 -inf:0 inf:inf",
    "gelu": "-inf:-0 inf:inf -0:-0 3e38:3e38",
    "gelu_dx": "-inf:-0 inf:1 0:0.5 1e30:1",
    "gelu_apprx_tanh": "-inf:-0 inf:inf -0:-0",
    "gelu_apprx_sigmoid": "-inf:-0 inf:inf -0:-0",
    "gelu_apprx_sigmoid_dx": "-inf:-0 inf:1",
    "silu": "-inf:-0 inf:inf -0:-0",
    "silu_dx": "-inf:-0 inf:1",
    "tanh": "-inf:-1 inf:1 -0:-0 1e-45:1e-45",
    "softplus": "-inf:0 inf:inf",
    "mish": "-inf:-0 inf:inf -0:-0",
    "erf": "-inf:-1 inf:1 -0:-0",
    "erf_dx": "-inf:0 3e38:0",
    "exp": "-inf:0 inf:inf 0:1 88.73:inf -103.97:1e-45 -104.5:0",
    "log": "0:-inf -0:-inf -1e-45:nan -inf:nan inf:inf 1:0",
    "sin": "-0:-0 inf:inf 9:27.652597 -9:-27.652597",
    "arctan": "-0:-0 inf:1.5707964 -inf:-1.5707964",
    "sqrt": "-0:-0 -1e-45:nan inf:inf",
    "rsqrt": "0:inf -0:-inf -1:nan inf:0 4:0.5",
    "reciprocal": "0:inf -0:-inf -inf:-0 1e-45:inf",
    "sign": "-0:0 -1e-45:-1 inf:1",
    "abs": "-0:0 -inf:inf",
}

DIGESTS = {
    "copy": "81043de5ace7fd9c",
    "square": "9233e2976bcc43b5",
    "sigmoid": "3a81eb844cd84fc9",
    "relu": "f7754a56f7d25f8f",
    "prelu": "5f12ee82a6c275b2",
    "gelu": "ed84e3697ce06ad5",
    "gelu_dx": "391636259e0324b0",
    "gelu_apprx_tanh": "d1d7aa8dcc4bdd13",
    "gelu_apprx_sigmoid": "5b36a8ee3fb3cccb",
    "gelu_apprx_sigmoid_dx": "74491d0cfdeeaa73",
    "silu": "1592071f79ea068f",
    "silu_dx": "4ed968a44b9d0c2d",
    "tanh": "fb783b7377e403b5",
    "softplus": "786aeca2be7e62fb",
    "mish": "02ce34455b545700",
    "erf": "732181510b69104c",
    "erf_dx": "2d5b4a38bee25ca3",
    "exp": "3e7c24d823af2d10",
    "log": "91c7b80069938ed9",
    "sin": "6321d3ad618ee966",
    "arctan": "d6040a5e2a328ff5",
    "sqrt": "4dc45d707eda47d4",
    "rsqrt": "8b485dc216554aa2",
    "reciprocal": "2771236f83a90696",
    "sign": "f8dee63e275f56db",
    "abs": "4ef91ade3eecc74b",
    "power": "e157b99b60bd3fcc",
}
"""Of the results of every 4099th bit pattern: they are the same on all processors and in all versions."""

_UNDERFLOW = {"x86_64": 0x10, "aarch64": 8}
"""FE_UNDERFLOW of C's fenv.h."""

SPECIAL = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, math.pi, -math.pi, math.pi / 2),
        *(1e-45, -1e-45, 1.1754942e-38, -1.1754942e-38, 1.1754944e-38, -1.1754944e-38, 3.4028235e38, -3.4028235e38),
        *(88.72283, 88.72284, -87.33655, -103.97, -103.98, 14.5, -14.5, 15.0, -15.0, 20.0, -20.0, 11.0, -11.0),
        *(0.5, -0.5, 0.7517915, -0.7517915, -1.2784646, -0.7511543, 9.0, -9.0),
    ],
    np.float32,
)


def around(numbers: F64) -> F32:
    """``numbers`` as float32, each with 64 neighbours: next to where an exponent or a way begins."""
    patterns = numbers.astype(np.float32).view(np.int32)[:, None] + np.arange(-32, 33, dtype=np.int32)
    return np.ascontiguousarray(patterns.reshape(-1)).view(np.float32)


def samples() -> F32:
    """Special values, every 65,536th bit pattern with its neighbours, and numbers where the functions bend."""
    patterns = np.arange(0, 2**32, 2**16, dtype=np.uint64)
    patterns = np.concatenate([patterns, patterns + 1, patterns + 0xFFFF]).astype(np.uint32)
    bends = np.concatenate([(np.arange(32) + 0.5) * row.step for row in PIECEWISE.values()])
    zero = np.arange(np.float32(0.37).view(np.int32), np.float32(1.13).view(np.int32), 7, np.int32).view(np.float32)
    draw = np.random.default_rng(7)
    return np.concatenate(
        [
            SPECIAL,
            patterns.view(np.float32),
            around(np.concatenate([bends, -bends, np.array(list(TAILS.values()))])),
            -zero[::3],  # around the zeros of derivatives
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


def loop(name: str, width: int, formula: Any = None, inputs: int = 1) -> Any:
    """The compiled loop over arrays, with vectors of ``width`` lanes; of ``formula``, or of the function."""
    address = compiled(loop_module(name, inputs, formula or of(name), width), name)

    def run(*arrays: F32) -> F32:
        result = np.empty_like(arrays[0])
        call(address, result, *arrays, result.size)
        return result

    return run


def of(name: str) -> Any:
    """What emits the function ``name``, or a power."""
    return lambda b, values: emit_power(b, *values) if name == "power" else emit(b, name, *values)


def bits(x: F32) -> NDArray[np.uint32]:
    """Bit patterns, with one pattern for all NaN: their payloads are unspecified."""
    return np.where(np.isnan(x), np.float32(NAN), x).view(np.uint32)


def test_the_table_has_the_documented_functions() -> None:
    assert sorted(ACTIVATIONS) == sorted(FUNCTIONS) == sorted(DOCUMENTED.split())
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


@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str) -> None:
    x, expected = np.array([pair.split(":") for pair in SPECIAL_RESULTS[name].split()], np.float64).T
    np.testing.assert_array_equal(bits(activate(name, x.astype(np.float32))), bits(expected.astype(np.float32)))
    patterns = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF, 0x7FD5AAAA] * 3, np.uint32)
    assert np.isnan(activate(name, patterns.view(np.float32))).all()


@pytest.mark.parametrize("name", [*UNARY, "prelu", "power"])
def test_bits_stay(name: str) -> None:
    x = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    if name in ("prelu", "power"):
        y = np.random.default_rng(1).permutation(x)
        got = power(x, y) if name == "power" else activate(name, x, y)
    else:
        got = activate(name, x)
    assert hashlib.sha256(bits(got).tobytes()).hexdigest()[:16] == DIGESTS[name]


def _hosts(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Emit code for such processors, which this one runs too."""
    if host == "native":
        return
    if host == "AVX2" and not simd.has_avx2():
        pytest.skip("needs AVX2")
    monkeypatch.setattr(simd, "has_avx512", lambda: False)
    monkeypatch.setattr(simd, "has_avx2", lambda: host == "AVX2")


@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize(
    ("name", "host"),
    [
        *((name, "native") for name in [*UNARY, "prelu", "power"]),
        *((name, host) for name in ("tanh", "erf", "gelu", "gelu_dx", "log", "rsqrt") for host in ("AVX2", "x86-64")),
    ],
)
def test_vectors_and_scalars_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, name: str, host: str, width: int
) -> None:
    """On every processor."""
    inputs = 2 if name in ("prelu", "power") else 1
    given = [np.ascontiguousarray(SAMPLES[::5]), np.random.default_rng(3).permutation(SAMPLES[::5])][:inputs]
    expected = bits(power(*given) if name == "power" else activate(name, *given))
    _hosts(monkeypatch, host)
    if host != "native":
        text = str(loop_module("f", inputs, of(name), width))
        assert ("avx2.permps" in text) == (host == "AVX2" and name != "rsqrt")  # also of the last elements
    np.testing.assert_array_equal(bits(loop(name, width, inputs=inputs)(*given)), expected)


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("name", list(TAILS))
def test_bits_do_not_depend_on_the_other_lanes_of_a_vector(name: str, width: int) -> None:
    """Large negative numbers take a way of their own, on which the whole vector goes."""
    first = TAILS[name]
    usual = np.linspace(first + 0.01, -first, 8_000).astype(np.float32)
    mixed = usual.copy()
    mixed[::5] = np.linspace(first, -120, len(mixed[::5]))
    kept = np.arange(len(mixed)) % 5 != 0
    function = loop(name, width)
    np.testing.assert_array_equal(bits(function(mixed)[kept]), bits(function(usual)[kept]))
    np.testing.assert_array_equal(bits(function(mixed)), bits(loop(name, 1)(mixed)))


@pytest.mark.parametrize("size", [0, 1, 3, 15, 16, 17, 33])
def test_every_length_and_shape(size: int) -> None:
    x = np.linspace(-3, 3, size, dtype=np.float32)
    one_by_one = [activate("tanh", np.array(value, np.float32)) for value in x]
    np.testing.assert_array_equal(activate("tanh", x), np.array(one_by_one, np.float32))
    matrix = np.linspace(-3, 3, 6 * size, dtype=np.float32).reshape(3, 2, size)
    strided = activate("tanh", matrix.transpose(2, 0, 1))
    np.testing.assert_array_equal(strided, activate("tanh", matrix).transpose(2, 0, 1))


@pytest.mark.parametrize("name", [*FUNCTIONS, "power"])
def test_no_function_calls_a_library(name: str) -> None:
    text = str(loop_module("f", 2 if name in ("prelu", "power") else 1, of(name), 16))
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


SHORT = {name: function.normal for name, function in FUNCTIONS.items() if function.normal is not None}
"""Functions with a shorter formula for normal results."""


def accepted(name: str, width: int, *arrays: F32) -> NDArray[np.bool_]:
    """Where the shorter formula of ``name`` is right for all ``arrays``."""

    def formula(builder: Any, values: list[Any]) -> Any:
        lanes = Lanes(builder, values[0])
        return lanes.select(SHORT[name].holds(lanes, values), lanes.constant(FLOAT, 1.0), 0.0)

    return loop("accepted", width, formula, len(arrays))(*arrays) == 1


@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize("name", list(SHORT))
def test_normal_results_have_the_bits_of_all_others(name: str, width: int) -> None:
    def normal(builder: Any, values: list[Any]) -> Any:
        return SHORT[name].formula(Lanes(builder, values[0]), values[0])

    x = np.concatenate([SAMPLES, around(math.log(2) * np.arange(-253, 254) / 2), around(np.array([-87.0, 87.0]))])
    where = accepted(name, width, x)
    np.testing.assert_array_equal(where, np.abs(x) <= 87)
    np.testing.assert_array_equal(bits(loop("normal", width, normal)(x[where])), bits(activate(name, x[where])))


def test_numbers_have_normal_exponentials_together_if_each_has() -> None:
    x, y = (np.ascontiguousarray(a.reshape(-1), np.float32) for a in np.meshgrid(SAMPLES[::400], SAMPLES[::400]))
    got = accepted("exp", 16, x, y)
    assert (np.maximum(np.abs(x), np.abs(y))[got] <= 87).all()  # of no NaN either
    assert got[np.maximum(np.abs(x), np.abs(y)) <= 61].all()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in _UNDERFLOW, reason="needs fenv.h's numbers")
@pytest.mark.parametrize("width", [1, 4, 8, 16])
@pytest.mark.parametrize("name", ["exp", "sigmoid", "silu", "gelu", "gelu_apprx_sigmoid"])
def test_small_results_cost_no_subnormal_arithmetic(name: str, width: int) -> None:
    """Which takes 200 cycles for a vector; the flag of underflow tells it from a number that integers make."""
    library, flag = ctypes.CDLL("libm.so.6"), _UNDERFLOW[platform.machine()]
    function = loop(name, width)

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
