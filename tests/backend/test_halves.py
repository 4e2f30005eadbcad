"""Sums of the even and of the odd elements of rows in one loop: what is one loop, and that others are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nki.backend.cpu.kernel_ir.nodes import SCRATCH, Expr, MemRef, PairedSums, Reduce
from nki.backend.cpu.kernel_ir.pair_sums import pair_sums
from nki.base import dtype as dt


def half(offset: int, columns: int, step: int = 2, base: int = 1, result: int = 0) -> Reduce:
    source = MemRef(base, 4 * offset, 32, 100, ((step, columns),), dt.float32)
    target = MemRef(SCRATCH, result, 32, 1, ((1, 1),), dt.float32)
    return Reduce(target, Expr("load", dt.float32, 32, columns, memref=source), "add", 1, False)


EVEN = half(0, 50)


@pytest.mark.parametrize("odd", [half(1, 50, result=128), half(1, 49, result=128)])
def test_neighbours_are_summed_in_one_loop(odd: Reduce) -> None:
    assert pair_sums([EVEN, odd], ()) == [PairedSums(EVEN, odd)]


@pytest.mark.parametrize(
    "odd",
    [
        half(2, 50, result=128),
        half(1, 48, result=128),
        half(1, 50, 3, result=128),
        half(1, 50, base=2, result=128),
        replace(half(1, 50, result=128), op="multiply"),
        replace(half(1, 50, result=128), groups=5),
        replace(half(1, 50, result=128), init=Expr("value", dt.float32, 1, 1, value=0.0)),
    ],
    ids=["gap", "shorter", "step", "memory", "operator", "groups", "start"],
)
def test_others_are_not(odd: Reduce) -> None:
    assert pair_sums([EVEN, odd], ()) == [EVEN, odd]


def test_a_sum_that_reads_the_other_result_is_not() -> None:
    mean = Expr("load", dt.float32, 32, 1, memref=EVEN.target)
    odd = half(1, 50, result=128)
    odd.value = Expr("alu", dt.float32, 32, 50, (odd.value, mean), "subtract")
    assert pair_sums([EVEN, odd], ()) == [EVEN, odd]
