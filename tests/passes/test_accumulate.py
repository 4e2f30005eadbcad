"""Stage ``accumulate``: the first product into a place of PSUM overwrites it, later ones add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nki.isa as nisa
import nki.language as nl
from nki.base.element_types import bfloat16
from nki.base.errors import NkiError
from nki.base.warning import NkiWarning
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.types import TensorSpec
from nki.target import GEN3
from tests.support.kernel_parts import stored


def decided(fill: Callable[..., None], stop: str = "accumulate") -> Program:
    """A kernel that fills a tile of PSUM by ``fill``, which gets the tile and the operands."""

    def kernel(a, b):
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        fill(total, nl.load(a), nl.load(b))
        return stored(total)

    specs = {name: TensorSpec(name, (128, 128), bfloat16) for name in ("a", "b")}
    return pipeline.compile(kernel, specs, GEN3, stop=stop)


def flags(program: Program) -> list[bool | None]:
    """The accumulation flags of the products, in program order."""
    return [inst.accumulates for inst in program.instructions() if inst.mnemonic == "nc_matmul"]


def three_times(total, x, y):
    for _ in range(3):
        nisa.nc_matmul(dst=total, stationary=x, moving=y)


def by_parts(total, x, y):
    """Each part of a tile is decided by itself."""
    for columns in (slice(0, 64), slice(64, 128), slice(0, 64)):
        nisa.nc_matmul(dst=total[:, columns], stationary=x, moving=y[:, columns])


def with_a_transposition(total, x, y):
    """The transposition overwrites the sum."""
    for moves in (False, False, True, False):
        nisa.nc_matmul(dst=total, stationary=x, moving=y, is_transpose=moves)


def with_flags(flag: bool) -> Any:
    """The flag of the user stays."""

    def told(total, x, y):
        nisa.nc_matmul(dst=total, stationary=x, moving=y, accumulate=False)
        nisa.nc_matmul(dst=total, stationary=x, moving=y, accumulate=flag)

    return told


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        (three_times, [False, True, True]),
        (by_parts, [False, False, True]),
        (with_a_transposition, [False, True, False, True]),
        (with_flags(True), [False, True]),
        (with_flags(False), [False, False]),
    ],
)
def test_the_first_product_overwrites_and_later_ones_add(fill: Any, expected: list[bool]) -> None:
    assert flags(decided(fill)) == expected


def test_the_flags_are_open_before_the_stage() -> None:
    assert flags(decided(three_times, "verify")) == [None, None, None]


@pytest.mark.parametrize("first", ["memset", "matmul"])
def test_a_sum_with_a_write_of_another_engine_in_it_is_warned_of(first: str) -> None:
    def fill(total, x, y):
        if first == "matmul":
            nisa.nc_matmul(dst=total, stationary=x, moving=y)
            nisa.nc_matmul(dst=total, stationary=x, moving=y)
        nisa.memset(total, 1.0)
        nisa.nc_matmul(dst=total, stationary=x, moving=y)
        nisa.nc_matmul(dst=total, stationary=x, moving=y)

    with pytest.warns(NkiWarning, match="which another engine wrote") as given:
        program = decided(fill)
    assert flags(program)[-2:] == [True, True]
    assert len({warning.lineno for warning in given}) == 2


def test_the_check_finds_a_product_that_is_left_open() -> None:
    before = decided(three_times, "verify")
    stage = next(stage for stage in pipeline.STAGES if stage.name == "accumulate")
    with pytest.raises((AssertionError, NkiError)):
        stage.check(before, before, GEN3)
