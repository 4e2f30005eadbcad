"""Shared banks: small tiles of PSUM that are in use at one moment lie side by side in one bank."""

from __future__ import annotations

from typing import Any

import pytest

import nki.isa as nisa
import nki.language as nl
from nki.base.errors import MemoryFullError
from nki.ir.program import Program
from nki.ir.types import Buffer
from tests.passes.small_memory import BANK, TRN2, P, agree, compiled, hbm, psum, small


def sums_of(*columns: int, rows: tuple[int, ...] = (128,), dtypes: tuple[Any, ...] = (nl.float32,)) -> Any:
    """A kernel with sums of so many columns each, all in use at one moment: they are read in turn, twice."""

    def kernel(x):
        right = nl.load(x)
        sums = []
        for i, width in enumerate(columns):
            height, dtype = rows[i % len(rows)], dtypes[i % len(dtypes)]
            one = nl.ndarray((height, width), dtype=dtype, buffer=nl.psum)
            if dtype == nl.float32:
                nisa.nc_matmul(one, right[:, 0:height], right[:, i : i + width])
            else:
                nisa.tensor_copy(one, right[0:height, i : i + width])
            sums.append(one)
        out = hbm(2, len(sums), 32, 8)
        total = nl.zeros((32, 8), dtype=nl.float32)
        for turn in range(2):
            for i, one in enumerate(sums):
                nisa.tensor_tensor(total, total, one[0:32, one.shape[1] - 8 :], nl.add)
                nl.store(out[turn, i], total)
        return out

    return kernel


def banks(program: Program) -> list[int]:
    """The sizes of the shared banks."""
    found = [tensor for tensor in program.core.tensors if "bank" in tensor.name]
    assert all(tensor.buffer is Buffer.psum and tensor.bytes_per_partition <= BANK for tensor in found)
    return [tensor.bytes_per_partition for tensor in found]


@pytest.mark.parametrize("order", [(384, 128), (128, 384)])
def test_tiles_of_two_sizes_fill_banks_together(order: tuple[int, int]) -> None:
    kernel = sums_of(*[order[0]] * 6, *[order[1]] * 6)
    assert banks(agree(kernel, small(psum=6 * BANK), x=(P, 512))) == [BANK] * 6
    with pytest.raises(MemoryFullError, match="12 tensors in use at one moment"):
        compiled(kernel, small(psum=5 * BANK), x=(P, 512))


def test_tiles_of_several_heights_and_dtypes_share_a_bank() -> None:
    kernel = sums_of(*[150, 90, 40] * 3, rows=(128, 32), dtypes=(nl.float32, nl.bfloat16))
    assert len(banks(agree(kernel, small(psum=2 * BANK), x=(P, 512)))) == 2


def test_a_kernel_that_fits_shares_none() -> None:
    assert not banks(agree(sums_of(*[64] * 8), TRN2, x=(P, 512)))
    assert banks(agree(sums_of(*[64] * 9), TRN2, x=(P, 512)))


def test_every_crowd_of_sums_shares_banks() -> None:
    """Tiles that follow each other have the same bytes."""

    def kernel(x):
        parts = [sums_of(*[128] * 8)(x), sums_of(*[200] * 4)(x), sums_of(*[128] * 8)(x)]
        return tuple(parts)

    program = agree(kernel, small(psum=2 * BANK), x=(P, 512))
    assert len(banks(program)) >= 4


def test_sums_of_a_loop_share_banks() -> None:
    def kernel(x):
        right = nl.load(x)
        out = hbm(P, 64)
        total = nl.zeros((128, 64), dtype=nl.float32)

        def body(_):
            sums = [psum(64) for _ in range(12)]
            for i, one in enumerate(sums):
                nisa.nc_matmul(one, right[:, 0:128], right[:, i : i + 64])
            for one in (*sums, *sums):
                nisa.tensor_tensor(total, total, one, nl.add)

        nl.fori_loop(0, 2, body)
        nl.store(out, total)
        return out

    program = agree(kernel, TRN2, x=(P, 512))
    (loop,) = (statement for statement in program.core.body if not hasattr(statement, "mnemonic"))
    assert [tensor.name for tensor in loop.tensors if "bank" in tensor.name]
