"""The programs of "NKI Migration Guide from Beta 1 to Beta 2" that index with values of the run."""

from __future__ import annotations

import numpy as np

import nki.isa as nisa
import nki.language as nl
from tests.support.both_executors import both, numbers


# Mended: the assertion compares, and a shape is a tuple. One more argument says which rows, where the guide has
# memset(batch_idx, value=3 * 128).
def indirect_scalar_dynamic_dma(A, start=3 * 128):
    assert A.shape == (512, 512)
    batch_idx = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.memset(batch_idx, value=start)
    result = nl.ndarray((128, 256), A.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(
        src=A.ap(pattern=[[512, 128], [1, 256]], offset=0, scalar_offset=batch_idx, indirect_dim=0), dst=result[...]
    )
    return result


def indirect_vector_dynamic_dma(A):
    dynamic_idx_legal = nl.ndarray((64, 1), nl.int32, nl.sbuf)
    nisa.iota(dynamic_idx_legal, [[1, 1]], 0, 2)
    result_sb = nl.ndarray((64, 512), nl.float32, buffer=nl.sbuf)
    result_hbm = nl.ndarray((64, 512), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(
        src=A.ap([[512, 64], [1, 512]], 0, vector_offset=dynamic_idx_legal, indirect_dim=0),
        dst=result_sb,
        name="inst0",
    )
    nisa.dma_copy(result_hbm, result_sb, name="copy1")
    return result_hbm


def test_scalar_dynamic_access():
    A = numbers(512, 512)
    flat = A.flatten()
    for start in (3 * 128, 0, 77):
        result = both(indirect_scalar_dynamic_dma, A, start)
        assert np.array_equal(result, A[start : start + 128, 0:256])
    # The guide's own loops.
    x, y = np.meshgrid(np.arange(128), np.arange(256), indexing="ij")
    assert np.array_equal(both(indirect_scalar_dynamic_dma, A), flat[0 + 384 * 512 + x * 512 + y * 1])


def test_vector_dynamic_access():
    A = numbers(128, 512)
    dynamic_idx = 2 * np.arange(64)
    result = both(indirect_vector_dynamic_dma, A)
    assert np.array_equal(result, A[dynamic_idx])
    # The guide's own loops.
    w, z = np.meshgrid(np.arange(64), np.arange(512), indexing="ij")
    assert np.array_equal(result, A.flatten()[0 + 1 * z + 512 * dynamic_idx[w]])
