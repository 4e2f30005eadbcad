"""A product of matrices with the sizes of its tiles as parameters, for `nki sweep` and `nki tune`."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def product(a_t, b, rows=128, columns=512, depth=128, buffers=2):
    """``a_t.T @ b`` by tiles of (rows, columns); each load of ``b`` brings ``depth`` rows of it.

    a_t: (K, M), b: (K, N); the result is (M, N). ``buffers``: tiles of each operand in turn, so that the next load runs
    beside the product.
    """
    k, m = a_t.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a_t.dtype, buffer=nl.shared_hbm)
    blocks = depth // 128
    lefts = [nl.ndarray((128, blocks * rows), dtype=a_t.dtype, buffer=nl.sbuf) for _ in range(buffers)]
    rights = [nl.ndarray((128, blocks * columns), dtype=b.dtype, buffer=nl.sbuf) for _ in range(buffers)]
    turn = 0
    for row in range(0, m, rows):
        for column in range(0, n, columns):
            total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
            for start in range(0, k, depth):
                left, right = lefts[turn % buffers], rights[turn % buffers]
                turn += 1
                for block in range(blocks):
                    contracted = nl.ds(start + 128 * block, 128)
                    own_left = left[:, nl.ds(block * rows, rows)]
                    own_right = right[:, nl.ds(block * columns, columns)]
                    nisa.dma_copy(dst=own_left, src=a_t[contracted, nl.ds(row, rows)])
                    nisa.dma_copy(dst=own_right, src=b[contracted, nl.ds(column, columns)])
                for block in range(blocks):
                    nisa.nc_matmul(
                        dst=total,
                        stationary=left[:, nl.ds(block * rows, rows)],
                        moving=right[:, nl.ds(block * columns, columns)],
                    )
            result = nl.ndarray((rows, columns), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[nl.ds(row, rows), nl.ds(column, columns)], src=result)
    return out


def reference(a_t, b):
    return a_t.T @ b
