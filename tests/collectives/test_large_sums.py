"""Sums of large tensors over ranks, which are combined in runs: their bits are the ones of a sum of whole tensors."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import rank_exchange
from tests.collectives.rank_kernels import sum_of_all

RANKS = 3
GROUPS = (tuple(range(RANKS)),)
WIDTH = 70_001
"""Ranks do not divide the elements, and neither do runs."""


@nki.jit
def sum_in_columns(a: Any, groups: Any) -> Any:
    """The sum in every second half of a tile of twice the columns, which lie in strides."""
    tile, wide = nl.load(a), nl.ndarray((a.shape[0], 2 * a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=7.0)
    ncc.all_reduce([tile], [wide[:, a.shape[1] :]], ncc.ReplicaGroup(groups), nl.add)
    out = nl.ndarray(wide.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=wide)
    return out


def arguments(dtype: Any, *shape: int) -> list[Any]:
    random = np.random.default_rng(0)
    values = [random.normal(size=shape) * 100 for _ in range(RANKS)]
    values[1].flat[5] = np.nan
    return [value.astype(dtype) if dtype != np.int32 else np.nan_to_num(value).astype(dtype) for value in values]


def expected(parts: list[Any]) -> Any:
    """The sum in float32, or in integers, in the order of the ranks, rounded once."""
    wide = [part if part.dtype == np.int32 else part.astype(np.float32) for part in parts]
    return reduce(np.add, wide).astype(parts[0].dtype)


@pytest.mark.parametrize("simulated", [False, True], ids=["native", "simulated"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_large_sums(dtype: Any, simulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_exchange, "_RUN", 1 << 14)
    parts = arguments(dtype, 2, WIDTH)
    if simulated:
        results = nki.simulate(sum_of_all, ranks=RANKS)(parts, GROUPS)
    else:
        with nki.ranks(RANKS):
            results = sum_of_all(parts, GROUPS)
    for result in results:
        assert np.array_equal(result.astype(np.float32), expected(parts).astype(np.float32), equal_nan=True)


def test_a_large_sum_into_columns() -> None:
    parts = arguments(np.float32, 64, 300)
    with nki.ranks(RANKS):
        native = sum_in_columns(parts, GROUPS)
    for result, other in zip(native, nki.simulate(sum_in_columns, ranks=RANKS)(parts, GROUPS), strict=True):
        assert result.tobytes() == other.tobytes() and (result[:, :300] == 7).all()
        assert np.array_equal(result[:, 300:], expected(parts), equal_nan=True)
