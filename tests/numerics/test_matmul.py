"""The native matrix product: bits of a sequential float32 FMA loop, for every size, stride and vector width."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from nki.base import element_types as dt
from nki.numerics.llvm_jit import engine
from nki.numerics.matmul import host
from nki.numerics.matmul.contract import PANEL, adds_by_groups
from nki.numerics.matmul.f32_microkernel import add_matmul, columns_of_block
from nki.numerics.matmul.host import keeps_contract
from nki.numerics.matmul.units import AMX, BF16_PAIRS
from tests.conftest import PAYS
from tests.support.matrix_units import UNITS, require
from tests.support.native_calls import call, compiled

LANES = (4, 8, 16)
SENTINEL = np.float32(-12345.5)


@cache
def routine(lanes: int, by_groups: bool = False) -> int:
    module = ir.Module()
    return compiled(module, add_matmul(module, lanes, by_groups).name)


def run(
    lanes: int,
    stationary: np.ndarray,
    moving: np.ndarray,
    out: np.ndarray,
    accumulate: bool = False,
    by_groups: bool = False,
    in_blocks: bool = False,
    in_panels: bool = False,
) -> np.ndarray:
    """Multiply into a copy of ``out``; the operands may be left parts of wider matrices.

    ``in_blocks``, ``in_panels``: the product gets the stationary one in blocks, the moving one in panels.
    """
    (depth, rows), columns = stationary.shape, moving.shape[1]
    out = out.copy()
    strides = [a.strides[0] // 4 for a in (out, stationary, moving)]
    assert all(a.strides[1] == 4 for a in (out, stationary, moving) if a.size and a.shape[1] > 1)
    block = columns_of_block(lanes)
    left, steps = stationary, (strides[1], block)
    if in_blocks:
        left = blocks_of(stationary, block)
        steps = block, left.strides[0] // 4
    right, apart = (panels_of(moving), (PANEL, depth * PANEL)) if in_panels else (moving, (strides[2], PANEL))
    sizes = rows, columns, depth, int(accumulate)
    call(routine(lanes, by_groups), out, strides[0], left, *steps, right, *apart, *sizes)
    return out


def blocks_of(stationary: np.ndarray, block: int) -> np.ndarray:
    """Columns by blocks, with room between those; what no column fills is a NaN that would show."""
    depth, rows = stationary.shape
    blocks = np.full((-(-rows // block), depth + 3, block), np.nan, np.float32)
    for column in range(rows):
        blocks[column // block, :depth, column % block] = stationary[:, column]
    return blocks


def panels_of(moving: np.ndarray) -> np.ndarray:
    """Rows by panels; what no column fills is a NaN that would show."""
    depth, columns = moving.shape
    panels = np.full((-(-columns // PANEL), depth, PANEL), np.nan, np.float32)
    for column in range(columns):
        panels[column // PANEL, :, column % PANEL] = moving[:, column]
    return panels


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """float32 fused multiply-add, exactly, in float64.

    The product of two float32 is exact in float64. Their sum with ``z`` is rounded to odd (an inexact result gets its
    last bit set), after which rounding to float32 is the only rounding that counts.
    """
    product, addend = x.astype(np.float64) * y, z.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    odd = np.where((error != 0) & even, np.nextafter(total, np.copysign(np.inf, error)), total)
    return odd.astype(np.float32)


def sequential(stationary: np.ndarray, moving: np.ndarray) -> np.ndarray:
    total = np.zeros((stationary.shape[1], moving.shape[1]), np.float32)
    for left, right in zip(stationary, moving, strict=True):
        total = fma(left[:, None], right[None, :], total)
    return total


def in_groups(stationary: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Groups of 32: both halves of a group are chains."""
    total = np.zeros((stationary.shape[1], moving.shape[1]), np.float32)
    for first in range(0, len(stationary), 32):
        halves = [
            sequential(stationary[start : start + 16], moving[start : start + 16]) for start in (first, first + 16)
        ]
        total = total + (halves[0] + halves[1])
    return total


def draw(depth: int, rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng((seed, depth, rows, columns))
    # Magnitudes spread over 2**±8, so that alignment, cancellation and rounding all happen.
    return tuple(
        (rng.normal(size=shape) * np.exp2(rng.integers(-8, 9, shape))).astype(np.float32)
        for shape in ((depth, rows), (depth, columns))
    )  # type: ignore[return-value]


def same_bits(got: np.ndarray, want: np.ndarray) -> bool:
    return got.dtype == want.dtype == np.float32 and np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_reference_fma_is_exact() -> None:
    rng = np.random.default_rng(3)
    x, y, z = ((rng.normal(size=4000) * np.exp2(rng.integers(-30, 30, 4000))).astype(np.float32) for _ in range(3))
    z[::2] = -(x * y)[::2]  # cancellation leaves the product's low half
    z[1::4] = (z * np.float32(2**24))[1::4]
    for a, b, c, got in zip(x, y, z, fma(x, y, z), strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        near = [np.nextafter(got, np.float32(s)) for s in (-np.inf, np.inf)]
        miss = abs(Fraction(float(got)) - exact)
        misses = [abs(Fraction(float(n)) - exact) for n in near]
        even = int(got.view(np.uint32)) % 2 == 0
        assert all(miss < m or (miss == m and even) for m in misses)


@pytest.mark.parametrize("lanes", LANES)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 140),
    columns=st.integers(1, 140),
    depth=st.integers(1, 140),
    gaps=st.tuples(*[st.integers(0, 5)] * 3),
    accumulate=st.booleans(),
)
def test_bits(lanes: int, rows: int, columns: int, depth: int, gaps: tuple[int, int, int], accumulate: bool) -> None:
    wide_left, wide_right = draw(depth, rows + gaps[0], columns + gaps[1])
    left, right = wide_left[:, :rows], wide_right[:, :columns]
    holder = np.full((rows + 1, columns + gaps[2]), SENTINEL)
    old = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    holder[:rows, :columns] = old
    out, steps = holder.copy(), (wide_left.shape[1], columns_of_block(lanes))
    sizes = rows, columns, depth, int(accumulate)
    call(routine(lanes), out, holder.shape[1], left, *steps, right, wide_right.shape[1], PANEL, *sizes)
    product = sequential(left, right)
    holder[:rows, :columns] = old + product if accumulate else product
    assert same_bits(out, holder)


@pytest.mark.parametrize("lanes", LANES)
def test_every_small_edge(lanes: int) -> None:
    """All combinations of few rows and columns around the tile sizes."""
    left, right = draw(5, 20, 70)
    want = sequential(left, right)
    for rows in range(21):
        for columns in [*range(36), 47, 48, 49, 63, 64, 65]:
            got = run(lanes, left[:, :rows], right[:, :columns], np.empty((rows, columns), np.float32))
            assert same_bits(got, np.ascontiguousarray(want[:rows, :columns])), (rows, columns)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "size",
    [
        *("128x512x128", "130x40x256", "130x40x257", "9x70x600", "300x3x100", "1x1000x300"),
        *("125x145x127", "14x128x5", "13x161x1", "128x128x129", "129x128x128"),  # at the bounds of packing
        *("47x64x128", "48x64x128", "32x72x77", "31x72x77", "24x40x9", "23x40x9"),  # who copies a panel
    ],
)
@pytest.mark.parametrize("accumulate", [False, True])
def test_bits_of_large_products(lanes: int, size: str, accumulate: bool) -> None:
    rows, columns, depth = map(int, size.split("x"))
    left, right = draw(depth, rows, columns)
    old = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    product = sequential(left, right)
    assert same_bits(run(lanes, left, right, old, accumulate), old + product if accumulate else product)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "size",
    [
        *("128x512x128", "97x40x33", "23x64x200", "128x33x128", "3x70x5", "64x5x16", "1x64x7", "20x512x128"),
        *("128x40x300", "48x96x7", "25x64x130", "12x32x3", "36x40x1", "13x65x300"),
    ],
)
@pytest.mark.parametrize(("in_blocks", "in_panels"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("by_groups", [False, True])
def test_layouts_change_no_bit(lanes: int, size: str, in_blocks: bool, in_panels: bool, by_groups: bool) -> None:
    """Operands without gaps, of depths that are no multiple of the unrolled steps, too."""
    rows, columns, depth = map(int, size.split("x"))
    left, right = draw(depth, rows, columns)
    right[depth - 1, 0] = np.nan
    old = np.random.default_rng(1).normal(size=(rows, columns + 3)).astype(np.float32)[:, :columns]
    for accumulate in (False, True):
        expected = run(lanes, left, right, old, accumulate, by_groups)
        got = run(lanes, left, right, old, accumulate, by_groups, in_blocks, in_panels)
        assert same_bits(got, expected)


@pytest.mark.parametrize("lanes", LANES)
def test_close_to_float64(lanes: int) -> None:
    left, right = draw(128, 128, 512)
    got = run(lanes, left, right, np.empty((128, 512), np.float32))
    exact = left.astype(np.float64).T @ right.astype(np.float64)
    bound = 128 * 2.0**-24 * (np.abs(left).astype(np.float64).T @ np.abs(right).astype(np.float64))
    assert (np.abs(got - exact) <= bound).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (3, 40), (40, 3), (40, 1)])
def test_no_depth_gives_zero_or_keeps(lanes: int, shape: tuple[int, int]) -> None:
    left, right = np.empty((0, shape[0]), np.float32), np.empty((0, shape[1]), np.float32)
    old = np.full(shape, SENTINEL)
    assert same_bits(run(lanes, left, right, old), np.zeros(shape, np.float32))
    assert same_bits(run(lanes, left, right, old, accumulate=True), old)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("columns", [1, 3, 40, 65])
def test_special_values(lanes: int, columns: int) -> None:
    left, right = draw(6, 33, columns)
    left[0, 0], left[1, 1], left[2, 2], left[3, 2] = np.nan, np.inf, np.inf, -np.inf
    right[1], right[2:4] = 1.0, 1.0
    got = run(lanes, left, right, np.empty((33, columns), np.float32))
    assert np.isnan(got[0]).all() and (got[1] == np.inf).all() and np.isnan(got[2]).all()
    assert np.isfinite(got[3:]).all()


@pytest.mark.parametrize("lanes", LANES)
def test_signed_zeros_and_subnormals(lanes: int) -> None:
    """A sum starts at +0, so -0 needs a -0 already in the output; subnormals are neither read nor written as zero."""
    left, right = np.full((3, 17), -0.0, np.float32), np.ones((3, 33), np.float32)
    assert not np.signbit(run(lanes, left, right, np.empty((17, 33), np.float32))).any()
    left[:] = 2.0**-140
    right[:] = 0.5
    assert (run(lanes, left, right, np.empty((17, 33), np.float32)) == np.float32(1.5 * 2.0**-140)).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "size", ["1x64x7", "3x96x16", "20x512x128", "128x40x300", "40x5x9", "13x33x17", "26x64x32", "48x96x80"]
)
@pytest.mark.parametrize("accumulate", [False, True])
def test_bits_by_groups(lanes: int, size: str, accumulate: bool) -> None:
    rows, columns, depth = map(int, size.split("x"))
    left, right = draw(depth, rows, columns)
    old = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    product = in_groups(left, right)
    want = old + product if accumulate else product
    assert same_bits(run(lanes, left, right, old, accumulate, by_groups=True), want)


def test_groups_differ_from_one_chain() -> None:
    """Else the tests of groups could not fail."""
    operands = draw(64, 40, 40)
    assert not same_bits(in_groups(*operands), sequential(*operands))
    operands = draw(16, 40, 40)
    assert same_bits(in_groups(*operands), sequential(*operands))


def test_dtypes_that_are_multiplied_by_groups() -> None:
    narrow = {dt.bfloat16, dt.float8_e4m3, dt.float8_e4m3fn, dt.float8_e5m2}
    for one in (*narrow, dt.float16, dt.float32, dt.tfloat32):
        for two in (dt.bfloat16, dt.float16, dt.float32):
            assert adds_by_groups(one, two) == adds_by_groups(two, one) == ({one, two} <= narrow)


@pytest.mark.parametrize(("pairs", "floats"), [(1, 2), (2, 1)])
def test_pairs_are_used_where_they_are_faster(pairs: int, floats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    require("pairs")
    trials = host.TRIALS
    times = iter([*(0, pairs) * trials, *(0, floats) * trials])
    monkeypatch.setattr(host, "perf_counter_ns", lambda: next(times))
    assert PAYS(BF16_PAIRS) is (pairs < floats)


def test_processors_that_multiply_words_keep_the_contract() -> None:
    """All that are known: else a wrong product would not be seen, since it is not used."""
    assert [keeps_contract(unit) for unit in (AMX, BF16_PAIRS)] == [engine().has_tiles, engine().has_bfloat16]


@pytest.mark.parametrize("kind", ["tiles", "pairs"])
def test_units_with_another_order_are_not_used(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe compares with the contract: against sums of one chain it fails."""
    require(kind)
    unit, by_groups = UNITS[kind], host.matmul
    monkeypatch.setattr(host, "matmul", lambda *args, **_: by_groups(*args))
    assert not keeps_contract.__wrapped__(unit)
    monkeypatch.undo()
    assert keeps_contract.__wrapped__(unit)


def test_refuses_an_unknown_vector_width() -> None:
    with pytest.raises(KeyError):
        add_matmul(ir.Module(), 3)
