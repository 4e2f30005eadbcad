"""Stage ``accumulate``: the first product into a place of PSUM overwrites it, later ones add."""

from __future__ import annotations

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


def decided(fn: object, stop: str = "accumulate") -> Program:
    specs = {name: TensorSpec(name, (128, 128), bfloat16) for name in ("a", "b")}
    return pipeline.compile(fn, specs, GEN3, stop=stop)


def flags(program: Program) -> list[bool | None]:
    """The accumulation flags of the products, in program order."""
    return [inst.accumulates for inst in program.instructions() if inst.mnemonic == "nc_matmul"]


def result(total):
    tile = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_the_first_product_overwrites_and_later_ones_add() -> None:
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        for _ in range(3):
            nisa.nc_matmul(dst=total, stationary=x, moving=y)
        return result(total)

    assert flags(decided(kernel, "verify")) == [None, None, None]
    assert flags(decided(kernel)) == [False, True, True]


def test_each_part_of_a_tile_is_decided_by_itself() -> None:
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total[:, 0:64], stationary=x, moving=y[:, 0:64])
        nisa.nc_matmul(dst=total[:, 64:128], stationary=x, moving=y[:, 64:128])
        nisa.nc_matmul(dst=total[:, 0:64], stationary=x, moving=y[:, 0:64])
        return result(total)

    assert flags(decided(kernel)) == [False, False, True]


def test_a_transposition_into_a_sum_overwrites_it() -> None:
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        for moves in (False, False, True, False):
            nisa.nc_matmul(dst=total, stationary=x, moving=y, is_transpose=moves)
        return result(total)

    assert flags(decided(kernel)) == [False, True, False, True]


@pytest.mark.parametrize("first", ["memset", "matmul"])
def test_a_sum_with_a_write_of_another_engine_in_it_is_warned_of(first: str) -> None:
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        if first == "matmul":
            nisa.nc_matmul(dst=total, stationary=x, moving=y)
            nisa.nc_matmul(dst=total, stationary=x, moving=y)
        nisa.memset(total, 1.0)
        nisa.nc_matmul(dst=total, stationary=x, moving=y)
        nisa.nc_matmul(dst=total, stationary=x, moving=y)
        return result(total)

    with pytest.warns(NkiWarning, match="which another engine wrote") as given:
        program = decided(kernel)
    assert flags(program)[-2:] == [True, True]
    assert len({warning.lineno for warning in given}) == 2


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_of_the_user_stays(flag: bool) -> None:
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=x, moving=y, accumulate=False)
        nisa.nc_matmul(dst=total, stationary=x, moving=y, accumulate=flag)
        return result(total)

    assert flags(decided(kernel)) == [False, flag]


def test_the_check_finds_a_product_that_is_left_open() -> None:
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=x, moving=y)
        return result(total)

    before = decided(kernel, "verify")
    stage = next(stage for stage in pipeline.STAGES if stage.name == "accumulate")
    with pytest.raises((AssertionError, NkiError)):
        stage.check(before, before, GEN3)
