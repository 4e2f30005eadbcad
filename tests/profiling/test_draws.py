"""Ranking: versions of one kernel under the same draws of what the model does not know."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.profiling import draws
from nki.profiling.draws import latencies, part_faster, ranking_of
from nki.profiling.kernel_profile import Profile
from nki.target import GENERATIONS, Target

P = 128
VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd


def profiled(kernel: Any, *arguments: Any, target: str = "trn2", **version: Any) -> Profile:
    return nki.profile(kernel, target=target)(*arguments, **version)


def of(*sizes: int, dtype: str = "float32") -> Any:
    return nki.ShapeDtype(sizes, dtype)


@nki.jit
def rounds(x, work, columns=512, buffers=2, engine=VECTOR, serial=False, pieces=1):
    """Tiles of ``columns`` in turn: a load in ``pieces``, ``work`` instructions, a store, in so many buffers."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf) for _ in range(buffers)]
    part = columns // pieces
    for number, first in enumerate(range(0, x.shape[1], columns)):
        tile = tiles[number % buffers] if not serial else tiles[0]
        for piece in range(pieces):
            at = nl.ds(first + piece * part, part)
            nisa.dma_copy(dst=tile[:, piece * part : (piece + 1) * part], src=x[:, at])
        for _ in range(work):
            nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add, engine=engine)
        nisa.dma_copy(dst=y[:, first : first + columns], src=tile)
    return y


@nki.jit
def products(x, w, again=1, dtype=nl.bfloat16, wide=512):
    """``again`` times the product of a column of tiles, in parts of ``wide`` columns."""
    y = nl.ndarray((P, w.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
    right = nl.ndarray((P, w.shape[1]), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=w)
    for first in range(0, w.shape[1], wide):
        total = nl.ndarray((P, wide), dtype=nl.float32, buffer=nl.psum)
        for number in range(again):
            nisa.nc_matmul(dst=total, stationary=left, moving=right[:, first : first + wide], accumulate=number > 0)
        out = nl.ndarray((P, wide), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=out, src=total)
        nisa.dma_copy(dst=y[:, first : first + wide], src=out)
    return y


@nki.jit
def functions(x, count, tables=1):
    """``count`` activation functions of a tile, of so many tables in turn."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for number in range(count):
        nisa.activation(dst=tile, data=tile, op=(nl.exp, nl.rsqrt)[number % tables])
    nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def again(x, loads=1, stores=1, sums=0, transposes=0, copies=0):
    """Each kind of instruction so many times, in the places of the time before."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((P, 1), dtype=x.dtype, buffer=nl.sbuf)
    turned = nl.ndarray((P, P), dtype=x.dtype, buffer=nl.psum)
    for _ in range(copies):
        nisa.dma_copy(dst=between, src=x)
    for _ in range(loads):
        nisa.dma_copy(dst=tile, src=between if copies else x)
    for _ in range(sums):
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=total)
    for _ in range(transposes):
        nisa.nc_transpose(dst=turned, data=tile[:, 0:P], engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=tile[:, 0:P], src=turned)
    for _ in range(stores):
        nisa.dma_copy(dst=y, src=tile)
    return y


X, WIDE, W = of(P, 4096), of(P, 16384), of(P, 2048, dtype="bfloat16")
LEFT = of(P, P, dtype="bfloat16")
FAMILIES: dict[str, tuple[Any, tuple[Any, ...], list[dict[str, Any]]]] = {
    "work on Vector": (rounds, (X,), [{"work": n} for n in (1, 4, 16)]),
    "work on GpSimd": (rounds, (X,), [{"work": n, "engine": GPSIMD} for n in (1, 4, 16)]),
    "two buffers before one": (rounds, (WIDE,), [{"work": 4}, {"work": 4, "buffers": 1}]),
    "four buffers before one": (rounds, (WIDE,), [{"work": 2, "buffers": 4}, {"work": 2, "buffers": 1}]),
    "one tile for all rounds": (rounds, (WIDE,), [{"work": 4}, {"work": 4, "serial": True}]),
    "wide tiles before narrow ones": (rounds, (WIDE,), [{"work": 1, "columns": n} for n in (2048, 512, 128)]),
    "one load before pieces": (rounds, (WIDE,), [{"work": 1, "pieces": n} for n in (1, 4, 16)]),
    "pieces of wide tiles": (rounds, (WIDE,), [{"work": 1, "columns": 2048, "pieces": n} for n in (1, 8, 32)]),
    "products": (products, (LEFT, W), [{"again": n} for n in (1, 8, 64)]),
    "narrow products": (products, (LEFT, W), [{"again": n, "wide": 128} for n in (1, 8, 64)]),
    "wide products before narrow ones": (products, (LEFT, W), [{"again": 32, "wide": n} for n in (512, 128)]),
    "functions": (functions, (X,), [{"count": n} for n in (1, 4, 16)]),
    "functions of two tables": (functions, (X,), [{"count": n, "tables": 2} for n in (2, 4, 16)]),
    "one table before two": (functions, (of(P, 128),), [{"count": 16, "tables": n} for n in (1, 2)]),
    "16 bits before 32": (products, (LEFT, W), [{"again": 32, "dtype": each} for each in (nl.bfloat16, nl.float32)]),
    "loads of one tile": (again, (X,), [{"loads": n} for n in (1, 8, 64)]),
    "stores of one tile": (again, (X,), [{"stores": n} for n in (1, 8, 64)]),
    "sums": (again, (X,), [{"sums": n} for n in (1, 8, 64)]),
    "transposes": (again, (X,), [{"transposes": n} for n in (1, 8, 64)]),
    "copies from HBM to HBM": (again, (X,), [{"copies": n} for n in (1, 8, 64)]),
}
"""Versions of kernels, the fastest first: each does what the one before does, and more, or in steps that cost more."""


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_order_is_sure_and_wrong(family: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "MOST", 32)
    kernel, arguments, versions = FAMILIES[family]
    profiles = [profiled(kernel, *arguments, target=target, **version) for version in versions]
    for faster, slower in combinations(profiles, 2):
        ranking = ranking_of(slower, faster)
        assert ranking is not None and ranking.faster > 1 - draws.SURE, f"{slower!r} counts as faster than {faster!r}"
    ends = ranking_of(profiles[-1], profiles[0])
    assert ends is not None and (ends.faster >= draws.SURE or len(versions) == 2), "the ends of a family are apart"


def test_a_kernel_ties_with_itself() -> None:
    one, two = (profiled(rounds, X, work=4) for _ in range(2))
    ranking = one.compare(two).ranking
    assert ranking is not None and (ranking.faster, ranking.is_tie) == (0.5, True)
    assert "a tie: faster in 50 % of 64 draws" in str(one.compare(two))


def test_a_difference_is_sure_where_intervals_overlap() -> None:
    """What slows one of them down slows the other one, too."""
    more, less = profiled(rounds, WIDE, work=5), profiled(rounds, WIDE, work=4)
    assert more.interval[0] < less.interval[1]
    ranking = more.compare(less).ranking
    assert ranking is not None and ranking.faster == 1.0 and not ranking.is_tie
    back = less.compare(more).ranking
    assert back is not None and back.faster == 0.0
    assert "faster in 100 % of 64 draws" in str(more.compare(less))
    assert "slower in 100 % of 64 draws" in str(less.compare(more))


def test_a_what_if_has_no_order() -> None:
    profile = profiled(rounds, X, work=4)
    comparison = profile.compare(profile.what_if(semaphore_ns=0))
    assert comparison.ranking is None and "% of" not in str(comparison)


def test_draws_lie_in_the_interval_and_around_the_latency() -> None:
    profile: Profile = profiled(rounds, WIDE, work=2, buffers=1)
    times = latencies(profile, 64)
    least, most = profile.interval
    assert least * 0.999 <= min(times) < profile.latency < max(times) <= most * 1.001
    again = latencies(profiled(rounds, WIDE, work=2, buffers=1), 64)
    assert times == again, "the same draws each time"


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_each_fact_is_drawn_over_all_of_its_range(target: Target) -> None:
    drawn = [draws._target(target, number, 64) for number in range(64)]
    for name, fact in target.facts().items():
        values = [each.facts()[name].value for each in drawn]
        if fact.range is None:
            assert all(value == fact.value for value in values), name
        elif isinstance(fact.value, float):
            low, high = sorted(fact.range)
            assert low <= min(values) <= max(values) <= high, name
            middle = np.median(values)
            assert min(fact.value, middle) >= low and max(fact.value, middle) <= high
            below, above = (sum((v - fact.value) * side > 0 for v in values) for side in (-1, 1))
            assert below <= 32 and above <= 32, "the value is the median"


def test_facts_are_drawn_in_orders_of_their_own() -> None:
    first, second = draws._places("dma_start_ns", 64), draws._places("semaphore_ns", 64)
    assert sorted(first) == sorted(second) and first != second
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.4


def test_equal_times_count_half() -> None:
    assert part_faster([1.0, 2.0, 3.0, 3.0], [2.0, 2.0, 2.0, 4.0]) == 0.625


def test_a_larger_kernel_has_fewer_draws() -> None:
    assert [draws.count_of(count) for count in (0, 1000, 20_000, 10**6)] == [64, 64, 50, 16]
