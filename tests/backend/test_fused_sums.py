"""Sums of expressions that nothing else reads: no tile in scratch memory, and the bits of the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.loop_ir.lower import lower
from nki.backend.cpu.loop_ir.nodes import SCRATCH, Assign, LoopStatement, Reduce
from tests.support.both_executors import both, numbers

SHAPES = [(128, 512), (17, 488), (1, 100), (16, 9), (33, 7), (128, 1), (100, 255), (2, 64), (61, 81)]


def statistics(x):
    """[p, 6], by row."""
    out = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(tile, nl.load(x))
    nisa.dma_copy(out, tile)
    return out


def squares(x):
    """[p, 1]: the sum of squares, whose squares are a result, too."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    column = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile, nl.square, nl.load(x), reduce_op=nl.add, reduce_res=column)
    nisa.dma_copy(out, tile)
    nisa.dma_copy(total, column)
    return out, total


def statements(kernel: Any, x: Any, mnemonic: str) -> list[LoopStatement]:
    insts = nki.jit(kernel).compile(x).kernel.core.instructions()
    (inst,) = (inst for inst in insts if inst.mnemonic == mnemonic)
    return lower(inst, ()).statements


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_statistics(shape: tuple[int, int], dtype: Any) -> None:
    x = numbers(*shape)
    x[0, -1], x[-1, 0] = np.inf, -0.0
    both(statistics, x.astype(dtype))
    both(squares, x)


def test_deviations_are_not_stored() -> None:
    lowered = statements(statistics, numbers(128, 512), "bn_stats")
    sums = [statement for statement in lowered if isinstance(statement, Reduce)]
    assert [statement.value.kind for statement in sums] == ["load", "load", "alu", "alu"]
    assert not [s for s in lowered if isinstance(s, Assign) and s.target.base == SCRATCH]


def test_results_are_stored_and_read() -> None:
    lowered = statements(squares, numbers(128, 512), "activation_reduce")
    (total,) = (statement for statement in lowered if isinstance(statement, Reduce))
    assert total.value.kind == "load"


@pytest.mark.parametrize("columns", [16, 17, 31, 33, 77, 130])
@pytest.mark.parametrize("op", [nl.maximum, nl.minimum])
def test_extremes_of_rows_that_end_within_a_vector(columns: int, op: Any) -> None:
    def extremes(x):
        out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(tile, op, nl.load(x), axis=1)
        nisa.dma_copy(out, tile)
        return out

    x = numbers(64, columns)
    for row in range(columns if columns < 60 else 60):
        x[row, row] = (np.nan, 9.0, -9.0, np.inf, -np.inf)[row % 5]
    x[60:] = 0.0
    x[61, ::2] = x[62, -1] = x[63, 0] = -0.0
    both(extremes, x)
