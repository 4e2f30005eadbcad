"""Small kernels with published profiles of a whole launch; written for this comparison."""

# pyright: basic

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def transposed_product(a, b):
    """``a @ b`` as a traced torch.matmul runs on inf2: ``a`` is transposed on the Tensor engine, sums leave PSUM by
    Scalar, and the store casts.
    """
    rows, depth = a.shape
    columns = b.shape[1]
    result = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((rows, depth), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((depth, columns), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    turned = nl.ndarray((depth, rows), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=left, engine=nisa.engine.tensor)
    stationary = nl.ndarray((depth, rows), dtype=a.dtype, buffer=nl.sbuf)
    nisa.activation(dst=stationary, op=nl.copy, data=turned)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    for start in range(0, columns, 512):
        width = min(512, columns - start)
        total = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=stationary, moving=right[:, start : start + width])
        nisa.activation(dst=tile[:, start : start + width], op=nl.copy, data=total)
    nisa.dma_copy(dst=result, src=tile)
    return result


@nki.jit
def exponential(x):
    """``exp(x)`` of one tile."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=out, op=nl.exp, data=tile)
    nisa.dma_copy(dst=result, src=out)
    return result


@nki.jit
def read_all(x):
    """Every row of ``x``, 128 at a time, goes to SBUF; one column comes back."""
    result = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + 128, :])
        if row + 128 == x.shape[0]:
            nisa.dma_copy(dst=result, src=tile[:, 0:1])
    return result
