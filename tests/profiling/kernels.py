"""Kernels for the tests that read profiles."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from nki.profiling.kernel_profile import Profile


def shape(*sizes: int, dtype: str = "bfloat16") -> Any:
    return nki.ShapeDtype(sizes, dtype)


def profiled(kernel: Any, *arguments: Any, target: str = "trn2", cores: int = 1) -> Profile:
    """The profile of a kernel, or of a function that is one, launched on ``cores``."""
    return nki.profile(kernel if cores == 1 else nki.jit(kernel)[cores], target=target)(*arguments)


def product(lhs, rhs):
    """``lhs @ rhs`` in tiles of 128 rows, with a transpose on the Tensor engine for each tile of ``lhs``."""
    rows, inner = lhs.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=rhs.dtype, buffer=nl.shared_hbm)
    for m in range(rows // 128):
        total = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for k in range(inner // 128):
            tile = nl.ndarray((128, 128), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=lhs[m * 128 : m * 128 + 128, k * 128 : k * 128 + 128])
            turned = nl.ndarray((128, 128), dtype=lhs.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=tile)
            stationary = nl.ndarray((128, 128), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=stationary, src=turned)
            moving = nl.ndarray((128, columns), dtype=rhs.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=moving, src=rhs[k * 128 : k * 128 + 128])
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        result = nl.ndarray((128, columns), dtype=rhs.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.gelu, data=total)
        nisa.dma_copy(dst=out[m * 128 : m * 128 + 128], src=result)
    return out


def add_up(x, rows):
    """The sum of the first ``rows`` rows."""
    count = nl.load(rows)
    total = nl.zeros((1, x.shape[1]), nl.float32)
    row = nl.ndarray((1, x.shape[1]), nl.float32)

    def body(i):
        nisa.dma_copy(row, x[nl.ds(i, 1)])
        nisa.tensor_tensor(total, total, row, nl.add)

    nl.fori_loop(0, nisa.register_alloc(count), body)
    result = nl.ndarray((1, x.shape[1]), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(result, total)
    return result


def halves(x):
    """Each of two cores doubles its half of ``x``, and reads the other's behind a barrier."""
    rows = x.shape[0] // nl.num_programs()
    first = nl.program_id(0) * rows
    other = (1 - nl.program_id(0)) * rows
    middle = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="middle")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[first : first + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=middle[first : first + rows], src=tile)
    nisa.core_barrier(data=middle, cores=(0, 1))
    nisa.dma_copy(dst=tile, src=middle[other : other + rows])
    nisa.dma_copy(dst=out[other : other + rows], src=tile)
    return out


def profiled_product(rows=256, inner=256, columns=512, dtype="bfloat16", target="trn2"):
    """The profile of :func:`product`, of shapes only."""
    lhs, rhs = nki.ShapeDtype((rows, inner), dtype), nki.ShapeDtype((inner, columns), dtype)
    return nki.profile(nki.jit(product), target=target)(lhs, rhs)


def profiled_sum(count=200):
    """The profile of :func:`add_up` with ``count`` iterations."""
    x, rows = np.zeros((256, 64), np.float32), np.array([[count]], np.int32)
    return nki.profile(nki.jit(add_up), target="trn2")(x, rows)


def scale_rows(x):
    """Twice each row of ``x``, in a loop on the device that is the whole kernel."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)

    def body(i):
        nisa.dma_copy(row, x[nl.ds(i, 1)])
        nisa.tensor_scalar(row, row, nl.multiply, 2.0)
        nisa.dma_copy(out[nl.ds(i, 1)], row)

    nl.fori_loop(0, x.shape[0], body)
    return out


def profiled_rows(count=200):
    """The profile of :func:`scale_rows` with ``count`` rows."""
    return nki.profile(nki.jit(scale_rows), target="trn2")(nki.ShapeDtype((count, 64), "float32"))


def exponentials_in_turn(x, unrolled):
    """exp(x) in tiles of 128 rows, each by an iteration of a loop on the device, or (``unrolled``) of Python."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body(i):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[nl.ds(i * 128, 128)])
        powers = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(powers, nl.exp, tile)
        nisa.dma_copy(out[nl.ds(i * 128, 128)], powers)

    if unrolled:
        for i in range(x.shape[0] // 128):
            body(i)
    else:
        nl.fori_loop(0, x.shape[0] // 128, body)
    return out


def profiled_halves():
    """The profile of :func:`halves` on two cores."""
    return nki.profile(nki.jit(halves)[2], target="trn2")(np.zeros((256, 64), np.float32))


def static_copy(x):
    """A copy through SBUF, with descriptors in HBM before the kernel begins."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x, dge_mode=nisa.dge_mode.none)
    nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.none)
    return out
