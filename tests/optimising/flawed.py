"""Kernels as people write them first, each with something that the profile advises against."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def naive_product(lhs_t, rhs):
    """Loads both operands in the innermost loop, and adds up on Vector."""
    depth, rows = lhs_t.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(rows // 128):
        for n in range(columns // 512):
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=acc, value=0.0)
            for k in range(depth // 128):
                a = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=lhs_t[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                nisa.dma_copy(dst=b, src=rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=part, stationary=a, moving=b)
                nisa.tensor_tensor(dst=acc, data1=acc, data2=part, op=nl.add)
            res = nl.ndarray((128, 512), dtype=lhs_t.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=res, src=acc)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], src=res)
    return out


@nki.jit
def one_tile(x):
    """Uses one tile for all blocks of rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    raised = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0] // 128):
        rows = slice(i * 128, (i + 1) * 128)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.activation(dst=raised, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[rows], src=raised)
    return out


@nki.jit
def weights_again(x, scale):
    """Loads the same row of factors for each block of rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        factors = nl.load(scale)
        result = nl.multiply(tile, factors)
        nl.store(out[i * 128 : (i + 1) * 128, :], result)
    return out


@nki.jit
def short_rows(x):
    """Moves 32 columns at once."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for j in range(x.shape[1] // 32):
        tile = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[0:128, j * 32 : (j + 1) * 32])
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        nisa.dma_copy(dst=out[0:128, j * 32 : (j + 1) * 32], src=tile)
    return out


WIDTH = 64


@nki.jit
def narrow(x):
    """Has a constant for the width of its tiles that is too small."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for first in range(0, x.shape[1], WIDTH):
        tile = nl.ndarray((128, WIDTH), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, first : first + WIDTH])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[:, first : first + WIDTH], src=tile)
    return out


@nki.jit
def two_for_one(x):
    """Multiplies and adds, and raises and sums, in two instructions each."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        shifted = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_scalar(dst=shifted, data=tile, op0=nl.multiply, operand0=0.5, engine=nisa.engine.vector)
        nisa.tensor_scalar(dst=shifted, data=shifted, op0=nl.add, operand0=-1.0, engine=nisa.engine.vector)
        raised = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=raised, op=nl.exp, data=shifted)
        nisa.tensor_reduce(dst=total, op=nl.add, data=raised, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=raised, op0=nl.multiply, operand0=total, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


@nki.jit
def float32_product(lhs_t, rhs):
    """Multiplies in float32 and stores bfloat16."""
    out = nl.ndarray((128, rhs.shape[1]), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    blocks = lhs_t.shape[0] // 128
    left = []
    for k in range(blocks):
        a = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=lhs_t[k * 128 : (k + 1) * 128])
        left.append(a)
    for n in range(rhs.shape[1] // 512):
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for k in range(blocks):
            b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=b, src=rhs[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
            for _ in range(4):
                nisa.nc_matmul(dst=total, stationary=left[k], moving=b)
        result = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[:, n * 512 : (n + 1) * 512], src=result)
    return out


@nki.jit
def turned(x, w):
    """Transposes blocks of ``x`` on the Tensor engine that a DMA could."""
    columns = w.shape[1]
    out = nl.ndarray((x.shape[0], columns), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    weights = nl.ndarray((128, columns), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w)
    for i in range(x.shape[0] // 128):
        tile = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        total = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for k in range(8):
            across = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=across, data=tile[:, k * 128 : (k + 1) * 128], engine=nisa.engine.tensor)
            stationary = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=stationary, src=across, engine=nisa.engine.vector)
            nisa.nc_matmul(dst=total, stationary=stationary, moving=weights)
        result = nl.ndarray((128, columns), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=result)
    return out


@nki.jit
def on_the_device(x):
    """Squares blocks in a loop on the device with rounds that do not overlap."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body(i):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * 128, 128)])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[nl.ds(i * 128, 128)], src=tile)

    nl.fori_loop(0, x.shape[0] // 128, body)
    return out


@nki.jit
def all_on_vector(x):
    """Leaves all work to Vector."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for j in range(x.shape[1] // 1024):
        place = slice(j * 1024, (j + 1) * 1024)
        tile = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        power = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, place])
        nisa.tensor_tensor(dst=power, data1=tile, data2=tile, op=nl.multiply, engine=nisa.engine.vector)
        nisa.tensor_tensor(dst=total, data1=tile, data2=power, op=nl.add, engine=nisa.engine.vector)
        for _ in range(3):
            nisa.tensor_tensor(dst=power, data1=power, data2=tile, op=nl.multiply, engine=nisa.engine.vector)
            nisa.tensor_tensor(dst=total, data1=total, data2=power, op=nl.add, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out[:, place], src=total)
    return out


@nki.jit
def row_through_hbm(x, scales):
    """Repeats a row over the partitions by way of HBM."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        factors = nl.broadcast_to(nl.load(scales[i : i + 1]), (128, x.shape[1]))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


def norm(tile):
    """The rows of ``tile`` over the root of their mean square, as a helper of the kernel below."""
    squares = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / tile.shape[1], op1=nl.add, operand1=1e-6)
    nisa.activation(dst=total, op=nl.rsqrt, data=total)
    nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=total, engine=nisa.engine.vector)
    return result


@nki.jit
def norms_again(q, k):
    """Normalises each block of ``k`` for each block of ``q``."""
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    for i in range(q.shape[0] // 128):
        total = norm(nl.load(q[i * 128 : (i + 1) * 128]))
        for j in range(k.shape[0] // 128):
            block = nl.load(k[j * 128 : (j + 1) * 128])
            other = norm(block)
            nisa.tensor_tensor(dst=total, data1=total, data2=other, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=total)
    return out
