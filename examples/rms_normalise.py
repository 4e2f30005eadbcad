"""A first kernel: each row of a matrix divided by its root mean square."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def rms_normalise(x):
    rows, columns = x.shape
    assert rows <= nl.tile_size.pmax, f"{rows} rows do not fit in {nl.tile_size.pmax} partitions"

    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    squares = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)

    factor = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=factor, op=nl.rsqrt, data=total, scale=1.0 / columns)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)

    result = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=tile)
    return result


if __name__ == "__main__":
    x = np.random.default_rng(0).standard_normal((128, 512), dtype=np.float32)
    y = rms_normalise(x)
    expected = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True))
    print("largest deviation from NumPy:", np.abs(y - expected).max())
