"""Kernels as courses teach them: a grid, tails, reductions, transposition, pooling, blocked products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki


@nki.jit
def add_on_a_grid(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    p = nl.program_id(0) * 128 + nl.arange(128)[:, None]
    f = nl.program_id(1) * 256 + nl.arange(256)[None, :]
    nl.store(out[p, f], value=nl.load(a[p, f]) + nl.load(b[p, f]))
    return out


def test_a_grid_of_programs(both: Any, data: Any) -> None:
    a, b = data(256, 512), data(256, 512)
    assert (both(add_on_a_grid[2, 2], a, b) == a + b).all()


@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    p, f = nl.mgrid[0:128, 0:columns]
    for i in nl.affine_range(math.ceil(rows / 128)):
        tile = nl.load(x[i * 128 + p, f], mask=(i * 128 + p < rows))
        raised = nl.exp(tile - nl.max(tile, axis=1, keepdims=True))
        nl.store(out[i * 128 + p, f], value=raised / nl.sum(raised, axis=1, keepdims=True), mask=(i * 128 + p < rows))
    return out


def test_softmax_with_a_tail(both: Any, data: Any) -> None:
    x = data(200, 64)
    raised = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(both(softmax, x), raised / raised.sum(1, keepdims=True), rtol=1e-5)


@nki.jit
def rmsnorm(x, g):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ix = nl.arange(128)[:, None]
    iw = nl.arange(1)[:, None]
    iy = nl.arange(x.shape[1])[None, :]
    weight = nl.load(g.reshape((1, g.shape[0]))[iw, iy])
    for i in nl.affine_range(math.ceil(x.shape[0] / 128)):
        tile = nl.load(x[i * 128 + ix, iy], mask=(i * 128 + ix < x.shape[0]))
        mean = nl.sum(nl.square(tile), axis=[1]) / x.shape[1]
        scaled = nl.multiply(tile, nl.rsqrt(mean))
        spread = weight.broadcast_to((128, g.shape[0]))
        scaled[...] = nl.multiply(scaled, spread, mask=(i * 128 + ix < x.shape[0]))
        nl.store(out[i * 128 + ix, iy], value=scaled, mask=(i * 128 + ix < x.shape[0]))
    return out


def test_rmsnorm_with_a_tail(both: Any, data: Any) -> None:
    x, g = data(130, 96), data(96)
    want = x / np.sqrt((x * x).mean(1, keepdims=True)) * g
    np.testing.assert_allclose(both(rmsnorm, x, g), want, rtol=2e-5)


@nki.jit
def average_pool(x, size):
    channels, high, wide = x.shape
    out = nl.ndarray((channels, high // size, wide // size), dtype=x.dtype, buffer=nl.shared_hbm)
    p, i, j, k, m = nl.mgrid[0:channels, 0 : high // size, 0 : wide // size, 0:size, 0:size]
    tile = nl.load(x)
    nl.store(out, value=nl.sum(tile[p, size * i + k, size * j + m], axis=[3, 4]) / (size * size))
    return out


def test_windows_of_five_dimensions(both: Any, data: Any) -> None:
    x = data(3, 6, 9)
    np.testing.assert_allclose(both(average_pool, x, 3), x.reshape(3, 2, 3, 3, 3).mean((2, 4)), rtol=1e-5)


@nki.jit
def transpose_inside(x, high, wide):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(x.shape[0])[:, None]
    tile = nl.load(x)
    turned = nl.ndarray(shape=(x.shape[0], high * wide), dtype=x.dtype)
    for i in nl.affine_range(high):
        for j in nl.affine_range(wide):
            turned[p, j * high + i] = nl.copy(tile[p, i * wide + j])
    nl.store(out, value=turned)
    return out


def test_moving_single_columns(both: Any, data: Any) -> None:
    x = data(5, 12)
    assert (both(transpose_inside, x, 3, 4) == x.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12)).all()


@nki.jit
def blocked_matmul(a_t, b):
    K, M = a_t.shape
    _, N = b.shape
    out = nl.ndarray((M, N), dtype=a_t.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((K // 128, nl.par_dim(128), M), dtype=a_t.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(K // 128):
        left[k] = nl.load(a_t[nl.ds(k * 128, 128), :])
    for n in nl.affine_range(N // 512):
        i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]
        for m in nl.affine_range(M // 128):
            acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // 128):
                right = nl.load(b[k * 128 + i_p, n * 512 + i_f])
                acc[...] += nl.matmul(left[k, :, m * 128 : (m + 1) * 128], right, transpose_x=True)
            nl.store(out[m * 128 + i_p, n * 512 + i_f], value=nisa.tensor_copy(acc, dtype=out.dtype))
    return out


def test_a_product_in_blocks(both: Any, data: Any) -> None:
    a, b = data(256, 256), data(256, 1024)
    np.testing.assert_allclose(both(blocked_matmul, a, b), a.T @ b, rtol=1e-4, atol=1e-4)
