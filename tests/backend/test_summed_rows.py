"""Element-wise results with their sums in one loop: the bits of the simulator, and what is one loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import Fused
from nki.ir.instruction import Inst
from tests.support.both_executors import both, numbers

SHAPES = [(128, 512), (16, 16), (32, 130), (128, 257), (48, 300), (112, 128), (100, 64), (16, 1000), (1, 200), (64, 15)]
RESULTS = [nl.float32, nl.bfloat16, nl.float16, nl.float8_e5m2]


def powers(dtype: Any) -> Any:
    """A kernel of [p, n], and of biases [p, 1]: exponentials of that dtype, and their sums."""

    def kernel(x, bias):
        out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
        sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
        total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(tile, nl.exp, nl.load(x), nl.add, total, bias=nl.load(bias), scale=0.5)
        nisa.dma_copy(out, tile)
        nisa.dma_copy(sums, total)
        return out, sums

    return kernel


def in_place(x):
    """[p, n]: the tile is its own result; the bias is one of its columns, which changes on the way."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=tile[:, 3:4])
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.dma_copy(out, tile)
    nisa.dma_copy(sums, total)
    return out, sums


def shifted(x):
    """[p, n]: results overwrite the elements before those that they come from."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile[:, 1:], nl.exp, tile[:, :-1], nl.add, total)
    nisa.dma_copy(out, tile)
    nisa.dma_copy(sums, total)
    return out, sums


def special(rows: int, columns: int) -> Any:
    """Numbers, of which some lead to 0, to subnormal numbers, to infinity or to NaN."""
    x = numbers(rows, columns)
    places = np.random.default_rng(1).integers(0, x.size, (6, max(3, x.size // 50)))
    for where, value in zip(places, (-3e38, -190.0, np.inf, -np.inf, -208.0, np.nan), strict=True):
        x.reshape(-1)[where[: None if value == value else 2]] = value
    return x


@pytest.mark.parametrize("dtype", RESULTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits(shape: tuple[int, int], dtype: Any) -> None:
    both(powers(dtype), special(*shape), numbers(shape[0], 1))


@pytest.mark.parametrize("kernel", [in_place, shifted])
@pytest.mark.parametrize("shape", [(128, 300), (16, 129), (32, 40)], ids=str)
def test_bits_where_operands_share_memory(kernel: Any, shape: tuple[int, int]) -> None:
    both(kernel, special(*shape))


def sums_of(kernel: Any, *arrays: Any) -> list[Inst]:
    insts = nki.jit(kernel).compile(*arrays).kernel.core.instructions()
    return [inst for inst in insts if inst.mnemonic == "activation_reduce"]


def is_one_loop(inst: Inst) -> bool:
    return any(isinstance(statement, Fused) for statement in lower(inst, aliases(inst)).statements)


@pytest.mark.parametrize("dtype", RESULTS, ids=str)
def test_results_and_sums_are_one_loop(dtype: Any) -> None:
    (inst,) = sums_of(powers(dtype), numbers(128, 512), numbers(128, 1))
    assert is_one_loop(inst)


def test_part_of_a_group_of_rows_is_not() -> None:
    (inst,) = sums_of(powers(nl.bfloat16), numbers(100, 64), numbers(100, 1))
    assert not is_one_loop(inst)
