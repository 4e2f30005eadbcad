"""Quotients by a shared divisor have the bits of divisions: near ties, at the bounds of the range, for anything."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from nki.numerics import shared_divisor
from nki.numerics.llvm import F32, I64, POINTER, VOID, has_classes
from tests.support.native_calls import call, compiled

LANES = (16, 32)
pytestmark = pytest.mark.skipif(not has_classes(), reason="vectors of AVX-512 alone are divided in this way")


@cache
def routine(lanes: int) -> int:
    """``run(out, numerators, divisor, vectors)``."""
    module = ir.Module()
    run = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, F32, I64]), "run")
    out, numerators, divisor, count = run.args
    vector = ir.VectorType(F32, lanes)
    entry, body, done = (run.append_basic_block() for _ in range(3))
    b: Any = ir.IRBuilder(entry)
    by = shared_divisor.shared(b, divisor)
    b.branch(body)
    b.position_at_end(body)
    index = b.phi(I64)
    index.add_incoming(ir.Constant(I64, 0), entry)
    given = b.load(b.gep(numerators, [index], source_etype=vector), typ=vector, align=4)
    b.store(shared_divisor.quotient(b, given, by), b.gep(out, [index], source_etype=vector), align=4)
    following = b.add(index, ir.Constant(I64, 1))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, count), body, done)
    b.position_at_end(done)
    b.ret_void()
    return compiled(module, "run")


def quotients(numerators: np.ndarray, divisor: np.float32, lanes: int) -> np.ndarray:
    """Native quotients. What fills the last vector is usual, so that it has the short way too."""
    padded = np.ones(-(-numerators.size // 32) * 32, np.float32)
    padded[: numerators.size] = numerators
    out = np.empty_like(padded)
    call(routine(lanes), out, padded, divisor, padded.size // lanes)
    return out[: numerators.size]


def same(numerators: np.ndarray, divisor: np.float32, lanes: int) -> None:
    """Quotients of NumPy are rounded once; a NaN may have any payload, as it is written in another way."""
    with np.errstate(all="ignore"):
        want = numerators / divisor
    got = quotients(numerators, divisor, lanes)
    right = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert right.all(), (divisor, numerators[~right][:5], got[~right][:5], want[~right][:5])


def near_ties(divisor: int) -> np.ndarray:
    """24-bit numerators with quotients almost halfway: ``2**k a = divisor * odd + r`` for a small ``r``."""
    found: list[int] = []
    for shift in (24, 25):
        for rest in (*range(-6, 0), *range(1, 7)):
            # divisor * m + rest = 0 modulo 2**shift, with an odd m of 25 bits
            base, modulus = divisor, 1 << shift
            if base % 2 == 0:
                continue
            m = -rest * pow(base, -1, modulus) % modulus
            for odd in (m, m + modulus):
                numerator, left = divmod(base * odd + rest, modulus)
                if odd % 2 and left == 0 and 1 << 23 <= numerator < 1 << 24 and 1 << 24 <= odd < 1 << 25:
                    found.append(numerator)
    return np.array(found, np.float32)


def test_some_quotients_are_almost_ties() -> None:
    """Near: the distance from a tie is a few units of 2**-25 of the last place."""
    divisor, near = 12345679, 0
    for numerator in near_ties(divisor):
        exact = Fraction(int(numerator), divisor)
        scaled = exact * 2 ** (24 if exact < 1 else 23)
        near += abs(scaled % 1 - Fraction(1, 2)) < Fraction(8, 1 << 24)
    assert near >= 3


@pytest.mark.parametrize("lanes", LANES)
def test_near_ties(lanes: int) -> None:
    random = np.random.default_rng(3)
    count = 0
    ends = (*range((1 << 23) + 1, (1 << 23) + 40, 2), *range((1 << 24) - 39, 1 << 24, 2))
    for divisor in (*ends, *random.integers(1 << 22, 1 << 23, 200) * 2 + 1):
        numerators = near_ties(int(divisor))
        count += numerators.size
        for scale, power in ((2.0**-24, -20), (2.0**-40, 0), (2.0**8, -20), (2.0**-24, -135), (2.0**-24, -145)):
            numbers = np.ldexp(np.concatenate([numerators, -numerators]), power).astype(np.float32)
            same(numbers, np.float32(divisor * scale), lanes)
    assert count > 800


@pytest.mark.parametrize("lanes", LANES)
def test_random_numbers(lanes: int) -> None:
    random = np.random.default_rng(4)
    for number in range(300):
        divisor = np.float32(random.uniform(1, 2) * 2.0 ** random.integers(-36, 36) * (1 if number % 10 else -1))
        spread = random.choice((1, 60, 100))
        numerators = random.normal(size=640) * 2.0 ** random.uniform(-spread, spread, 640)
        same(numerators.astype(np.float32), divisor, lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "divisor", [0.0, -0.0, 1e-45, 2.0**-33, 2.0**-32, 3.0, -3.0, 2.0**32, 2.0**33, np.inf, -np.inf, np.nan]
)
def test_anything(divisor: float, lanes: int) -> None:
    """Each special numerator, and those at the bounds of the range, alone in vectors of others."""
    edges = [np.float32(2.0**power) for power in (-126, -67, -66, 60, 61, 127)]
    near = [np.nextafter(edge, np.float32(to)) for edge in edges for to in (0, np.inf)]
    special = np.array([0.0, -0.0, 1e-45, -1e-40, np.inf, -np.inf, np.nan, 3.4e38, *edges, *near], np.float32)
    for value in (*special, *-special):
        vector = np.full(64, 1.7, np.float32)
        vector[37] = value
        same(vector, np.float32(divisor), lanes)
    same(np.zeros(32, np.float32), np.float32(divisor), lanes)


def test_other_vectors_are_divided() -> None:
    assert not any(map(shared_divisor.may_share, (1, 4, 8)))
