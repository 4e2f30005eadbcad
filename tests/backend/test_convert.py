"""Conversions: native code, its NumPy twin and ml_dtypes agree bit for bit."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

from nki.backend.cpu.codegen import convert as native
from nki.base import dtype_conversion as twin
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.errors import DTypeError
from nki.numerics.llvm_jit import engine
from tests.support.native_calls import call, compiled

COMPUTES = [d for d in dt.ALL if d.computes]
CODED = [d for d in COMPUTES if d.itemsize <= 2]
FLOATS = [d for d in COMPUTES if d.is_float]
LANES = (1, 4, 8, 16)
ALIGN = 64  # elements: a multiple of every lane count


def emit(direction: str, dtype: DType, lanes: int) -> ir.Module:
    """A module with ``run(out, in, count)``, a loop over groups of ``lanes`` elements."""
    module = ir.Module()
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    run = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer, i64]), "run")
    stored, value = native.storage_type(dtype, lanes), native.storage_type(dt.float32, lanes)
    source, target = (stored, value) if direction == "decode" else (value, stored)
    b = ir.IRBuilder(run.append_basic_block())
    entry, body, done = b.block, run.append_basic_block(), run.append_basic_block()
    b.branch(body)
    b.position_at_end(body)
    index = b.phi(i64)
    index.add_incoming(ir.Constant(i64, 0), entry)
    raw = b.load(b.gep(run.args[1], [index], source_etype=source), typ=source, align=1)
    if direction == "encode_normal":
        result = normal_halves(b, raw, dtype)
    elif direction == "encode_unseen":
        result = native.encode_unseen(b, raw)
    else:
        result = getattr(native, direction)(b, raw, dtype)
    assert result.type == target
    b.store(result, b.gep(run.args[0], [index], source_etype=target), align=1)
    following = b.add(index, ir.Constant(i64, 1))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, run.args[2]), body, done)
    b.position_at_end(done)
    b.ret_void()
    return module


def normal_halves(b: Any, raw: Any, dtype: DType) -> Any:
    """The numbers of ``raw`` converted as two vectors of normal ones."""
    half = raw.type.count // 2
    kind = ir.VectorType(ir.IntType(32), half)
    parts = [b.shuffle_vector(raw, raw, ir.Constant(kind, list(range(first, first + half)))) for first in (0, half)]
    return native.encode_normal(b, *parts, dtype)


@cache
def routine(direction: str, dtype: DType, lanes: int) -> int:
    return compiled(emit(direction, dtype, lanes), "run")


def run_native(direction: str, array: np.ndarray, dtype: DType, lanes: int) -> np.ndarray:
    padded = np.zeros(-(-array.size // ALIGN) * ALIGN, array.dtype)
    padded[: array.size] = array
    out = np.empty(padded.size, np.float32 if direction == "decode" else dtype.dtype)
    call(routine(direction, dtype, lanes), out, padded, padded.size // lanes)
    return out[: array.size]


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def assert_same(got: np.ndarray, want: np.ndarray, *, any_nan: bool = False) -> None:
    """Equal bits; with ``any_nan`` a NaN need only be a NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape
    same = bits(got) == bits(want)
    if any_nan:
        with np.errstate(invalid="ignore"):
            same |= np.isnan(got) & np.isnan(want)
    wrong = np.flatnonzero(~same)
    assert not wrong.size, [(i, hex(bits(got)[i]), hex(bits(want)[i])) for i in wrong[:10]]


def codes(dtype: DType) -> np.ndarray:
    """Every code of an 8 or 16-bit type; for bool, what NumPy stores."""
    if dtype is dt.bool_:
        return np.array([False, True])
    return np.arange(1 << (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}").view(dtype.dtype)


def words(*patterns: int) -> np.ndarray:
    return np.array(patterns, np.uint32).view(np.float32)


@cache
def every_code_as_float32() -> np.ndarray:
    """The values of all small formats, and the ties between neighbours, as float32."""
    found = [np.array([0.0], np.float32)]
    for dtype in (d for d in CODED if d is not dt.bool_):
        with np.errstate(invalid="ignore"):
            values = codes(dtype).astype(np.float64)
        values = np.unique(values[np.isfinite(values)])
        found += [values.astype(np.float32), ((values[1:] + values[:-1]) / 2).astype(np.float32)]
    return np.unique(np.concatenate(found))


@cache
def inputs() -> np.ndarray:
    """float32 values that reach every rounding decision: codes, ties, their neighbours, bounds, specials, random."""
    draw = np.random.default_rng(7)
    base = [
        every_code_as_float32(),
        words(0x0, 0x80000000, 0x1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000),
        words(0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F80FFFF, 0x7F801FFF),
        np.array([s * (2.0**e + d) for e in range(33) for s in (1, -1) for d in (-1, -0.5, 0, 0.5, 1)], np.float32),
        np.array([464, 465, 448, 240, 248, 249, 57344, 61440, 61441, 65504, 65519, 65520, 65521], np.float32),
        # tfloat32: all ties near one exponent, odd and even
        (np.uint32(0x3F800000) + np.arange(1 << 12, dtype=np.uint32) * np.uint32(0x1000)).view(np.float32),
        draw.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32),
        draw.normal(size=50_000).astype(np.float32),
        (draw.normal(size=50_000) * 300).astype(np.float32),
    ]
    pattern = np.concatenate(base).view(np.uint32)
    # The float32 neighbours of each, and the negative of each.
    near = np.concatenate([pattern, pattern + np.uint32(1), pattern - np.uint32(1)])
    return np.concatenate([near, near ^ np.uint32(0x80000000)]).view(np.float32)


def exact(value: np.ndarray, dtype: DType) -> np.ndarray:
    """What ``value`` becomes according to the contract, written a third time, with ml_dtypes and wide arithmetic."""
    with np.errstate(all="ignore"):
        if dtype is dt.bool_:
            return value.astype(np.bool_)  # NaN is true
        if dtype.is_integer:
            info = np.iinfo(dtype.dtype)
            inside = (value >= info.min) & (value < float(info.max) + 1)  # rounding may still carry past the top
            whole = np.where(inside, np.rint(np.where(inside, value, 0)).astype(np.int64), 0)
            beyond = np.where(np.signbit(value), info.min, info.max) * ~np.isnan(value)
            return np.minimum(np.where(inside, whole, beyond), info.max).astype(dtype.dtype)
        if dtype is dt.tfloat32:
            return _nearest_tf32(value)
        rounded = value.astype(dtype.dtype)
        return np.where(np.isnan(rounded), np.array(np.nan, np.float32).astype(dtype.dtype), rounded)


def _nearest_tf32(value: np.ndarray) -> np.ndarray:
    """The nearer of the two neighbours with ten mantissa bits, compared in float64; ties to the even one."""
    below = (value.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    above = ((value.view(np.uint32) & np.uint32(0xFFFFE000)) + np.uint32(0x2000)).view(np.float32)
    # 2**128 stands for the infinity that lies beyond the largest number.
    wide_above = np.where(np.isinf(above), np.copysign(np.float64(2.0**128), value), above.astype(np.float64))
    to_below = np.abs(value.astype(np.float64) - below)
    to_above = np.abs(wide_above - value)
    even = (below.view(np.uint32) & np.uint32(0x2000)) == 0
    nearest = np.where((to_below < to_above) | ((to_below == to_above) & even), below, above)
    return np.where(np.isnan(value), words(0x7FC00000), np.where(np.isinf(value), value, nearest))


@cache
def expected(dtype: DType) -> np.ndarray:
    return exact(inputs(), dtype)


@pytest.mark.parametrize("dtype", CODED, ids=str)
@pytest.mark.parametrize("lanes", LANES)
def test_decodes_every_code(dtype: DType, lanes: int) -> None:
    raw = codes(dtype)
    with np.errstate(invalid="ignore"):
        want = raw.astype(np.float32)
    assert_same(run_native("decode", raw, dtype, lanes), want, any_nan=True)
    assert_same(twin.to_float32(raw, dtype), want, any_nan=True)


def test_reads_any_byte_but_zero_as_true() -> None:
    raw = np.arange(256).astype(np.uint8).view(np.bool_)
    assert run_native("decode", raw, dt.bool_, 16).tolist() == [0.0] + [1.0] * 255


@pytest.mark.parametrize("dtype", [dt.int32, dt.uint32], ids=str)
@pytest.mark.parametrize("lanes", LANES)
def test_decodes_wide_integers(dtype: DType, lanes: int) -> None:
    pattern = inputs().view(np.uint32)
    edges = [(1 << k) + d for k in range(33) for d in range(-3, 4)]
    raw = np.concatenate([pattern, np.array([e & 0xFFFFFFFF for e in edges], np.uint32)]).view(dtype.dtype)
    want = raw.astype(np.float64).astype(np.float32)
    assert_same(run_native("decode", raw, dtype, lanes), want)
    assert_same(twin.to_float32(raw, dtype), want)


@pytest.mark.parametrize("dtype", [dt.float32, dt.tfloat32], ids=str)
def test_reads_32_bit_floats_unchanged(dtype: DType) -> None:
    raw = inputs()
    assert_same(run_native("decode", raw, dtype, 16), raw)
    assert_same(twin.to_float32(raw, dtype), raw)


@pytest.mark.parametrize("dtype", COMPUTES, ids=str)
@pytest.mark.parametrize("lanes", [*LANES, 32])
def test_encodes(dtype: DType, lanes: int) -> None:
    value = inputs()
    want = expected(dtype)
    # In native code a float32 result gets the canonical NaN where it is written (test_nan_bits.py).
    assert_same(run_native("encode", value, dtype, lanes), want, any_nan=dtype is dt.float32)
    assert_same(twin.from_float32(value, dtype), want)


@pytest.mark.parametrize("dtype", [dt.bfloat16, dt.float16, dt.int8], ids=str)
@pytest.mark.parametrize("lanes", [1, 16, 32])
def test_encodes_with_a_branch(dtype: DType, lanes: int) -> None:
    """Special numbers alone among others, and vectors without any, in turn: each has its own way."""
    value = inputs()
    usual = value[(np.abs(value) > 2e-38) & (np.abs(value) < 3e38)]
    for start in (0, 5, 17, 31):
        value = np.concatenate([value, usual[start::97], value[start::1013]])
    assert_same(run_native("encode_mostly_normal", value, dtype, lanes), exact(value, dtype))


@pytest.mark.parametrize("lanes", [1, 8, 16, 32])
def test_encodes_for_further_arithmetic(lanes: int) -> None:
    """Numbers as for others; a NaN without low half stays a NaN, whatever its payload."""
    payloads = (np.arange(0x7F81, 0x8000, dtype=np.uint32) << 16).view(np.float32)
    value = np.concatenate([inputs()[~np.isnan(inputs())], payloads, -payloads])
    got = run_native("encode_unseen", value, dt.bfloat16, lanes)
    assert_same(got, exact(value, dt.bfloat16), any_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_encode_undoes_decode(dtype: DType) -> None:
    raw = codes(dtype) if dtype in CODED else expected(dtype)
    again = run_native("encode", run_native("decode", raw, dtype, 16), dtype, 16)
    with np.errstate(invalid="ignore"):
        nan = np.isnan(raw)
    assert np.array_equal(bits(again)[~nan], bits(raw)[~nan])
    assert np.isnan(again[nan]).all()


def test_overflow_is_as_each_format_says() -> None:
    huge = np.array([1e6, -1e6, np.inf, 464.0, 480.0], np.float32)
    e4m3fn = twin.from_float32(huge, dt.float8_e4m3fn).astype(np.float32)
    assert np.isnan(e4m3fn[[0, 1, 2, 4]]).all() and e4m3fn[3] == 448
    for dtype in (dt.float8_e4m3, dt.float8_e5m2, dt.float16):
        assert twin.from_float32(huge, dtype).astype(np.float32)[:3].tolist() == [np.inf, -np.inf, np.inf]
    largest = np.array([3.39e38, 3.4e38], np.float32)
    assert twin.from_float32(largest, dt.bfloat16).view(np.uint16).tolist() == [0x7F7F, 0x7F80]


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("dtype", [dt.bfloat16, dt.float16, dt.float32], ids=str)
def test_normal_numbers_are_rounded_like_all_others(dtype: DType, lanes: int) -> None:
    """All upper halves of normal numbers and of zeros, with lower halves about where rounding changes; ties too."""
    upper = np.arange(0x80, 0x7F7F, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    patterns = np.concatenate([(upper[:, None] | lower).reshape(-1), np.zeros(1, np.uint32)])
    numbers = np.concatenate([patterns, patterns | 0x80000000]).astype(np.uint32).view(np.float32)
    if dtype is dt.float16:
        numbers = numbers[np.abs(numbers) < 65520]
    assert_same(run_native("encode_normal", numbers, dtype, lanes), twin.from_float32(numbers, dtype))


def test_integers_saturate() -> None:
    value = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.5, -0.5, 5e9, 3.5], np.float32)
    low, high, most = -(2**31), 2**31 - 1, 2**32 - 1
    assert twin.from_float32(value, dt.int32).tolist() == [0, high, low, high, low, 2, 0, high, 4]
    assert twin.from_float32(value, dt.uint32).tolist() == [0, most, 0, 3_000_000_000, 0, 2, 0, most, 4]


@pytest.mark.parametrize("dtype", COMPUTES, ids=str)
def test_keeps_shape_of_strided_arrays(dtype: DType) -> None:
    value = np.arange(-12, 12, dtype=np.float32).reshape(4, 6)[::2, ::3]
    stored = twin.from_float32(value, dtype)
    assert stored.shape == (2, 2) and stored.dtype == dtype.dtype
    assert np.array_equal(stored, exact(np.ascontiguousarray(value).reshape(-1), dtype).reshape(2, 2))
    assert twin.to_float32(stored.T, dtype).shape == (2, 2)
    assert twin.from_float32(np.float32(1.0).reshape(()), dtype).shape == ()


PACKED = [d for d in dt.ALL if d.is_packed]


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_packed_types_are_moved_and_not_converted_as_a_whole(dtype: DType) -> None:
    assert native.storage_type(dtype, 1) == ir.IntType(8 * dtype.itemsize)
    with pytest.raises(DTypeError):
        twin.to_float32(np.zeros(1, dtype.dtype), dtype)
    with pytest.raises(DTypeError):
        twin.from_float32(np.zeros(1, np.float32), dtype)
    b = ir.IRBuilder(ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f").append_basic_block())
    with pytest.raises(DTypeError):
        native.decode(b, ir.Constant(native.storage_type(dtype, 1), 0), dtype)
    with pytest.raises(DTypeError):
        native.encode(b, ir.Constant(ir.FloatType(), 0.0), dtype)


@pytest.mark.parametrize("lanes", LANES)
def test_powers_of_two(lanes: int) -> None:
    """All codes of float8_e8m0fnu, and float32 numbers on both sides of where it rounds."""
    kind = dt.float8_e8m0fnu
    codes = np.arange(256, dtype=np.uint8).view(kind.dtype)
    got = run_native("decode", codes, kind, lanes)
    want = np.append(np.ldexp(1.0, np.arange(255) - 127), np.nan).astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(twin.to_float32(codes, kind), want)
    edges = np.concatenate([np.arange(-2, 3) + (n << 22) for n in range(1024)]) % (1 << 32)
    values = edges.astype(np.uint32).view(np.float32)
    stored = run_native("encode", values, kind, lanes).view(np.uint8)
    np.testing.assert_array_equal(stored, twin.from_float32(values, kind).view(np.uint8))
    for value, code in ((1.0, 127), (1.5, 128), (1.49, 127), (2.0**-127, 0), (0.0, 255), (-1.0, 255), (3e38, 255)):
        assert twin.from_float32(np.array([value], np.float32), kind).view(np.uint8) == code


@pytest.mark.parametrize("lanes", LANES)
def test_the_least_powers_of_two_are_the_nearest_ones(lanes: int) -> None:
    """Around 2**-127, which is subnormal in float32: against distances in float64, where they are exact."""
    words = np.append(
        np.arange(1, 1 << 24, 4099), [0x3FFFFF, 0x400001, 0x5FFFFF, 0x600000, 0x600001, 0xBFFFFF, 0xC00000]
    )
    values = words.astype(np.uint32).view(np.float32)
    powers = np.ldexp(1.0, np.arange(4) - 127)
    far = np.abs(values.astype(np.float64)[:, None] - powers)
    want = 3 - np.argmin(far[:, ::-1], axis=1)  # the larger of two
    kind = dt.float8_e8m0fnu
    assert twin.from_float32(values, kind).view(np.uint8).tolist() == want.tolist()
    assert run_native("encode", values, kind, lanes).view(np.uint8).tolist() == want.tolist()


@pytest.mark.parametrize("direction", ["decode", "encode"])
@pytest.mark.parametrize("dtype", COMPUTES, ids=str)
def test_native_code_calls_nothing(direction: str, dtype: DType) -> None:
    listing = engine().listing(emit(direction, dtype, 16), assembly=True)
    assert not [line for line in listing.splitlines() if line.split()[:1] and line.split()[0].startswith("call")]


def test_ml_dtypes_formats_are_those_of_the_contract() -> None:
    assert [float(ml_dtypes.finfo(d.dtype).max) for d in FLOATS if d.itemsize == 1] == [240.0, 448.0, 57344.0]


def test_float16_without_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        has_half = False

    words = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    hard = [run_native("decode", words, dt.float16, 8)]
    values = np.concatenate([RANDOM_WORDS.view(np.float32), words.astype(np.float32), hard[0] * np.float32(1.0009765)])
    hard.append(run_native("encode", values, dt.float16, 8))
    monkeypatch.setattr(native, "engine", lambda: Old)
    routine.cache_clear()
    try:
        for lanes in (1, 8):
            assert "fpext" not in str(emit("decode", dt.float16, lanes))
            assert "fptrunc" not in str(emit("encode", dt.float16, lanes))
            routine.cache_clear()
            assert_same(run_native("decode", words, dt.float16, lanes), hard[0], any_nan=True)
            assert_same(run_native("encode", values, dt.float16, lanes), hard[1])
    finally:
        routine.cache_clear()


RANDOM_WORDS = np.random.default_rng(5).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
