"""Windows, strides, more than two dimensions, patterns of positions."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

from .case import EPSILON, case, integers, normal, normals


@case(normal(64, 12, 20), lambda x: x.reshape(64, 6, 2, 10, 2).max((2, 4)), 0.0)
@nki.jit
def max_pool(x):
    channels, height, width = x.shape
    tile = nl.load(x)
    best = nl.ndarray((channels, height // 2, width // 2), dtype=x.dtype)
    nisa.tensor_copy(best, tile[:, 0:height:2, 0:width:2])
    for dy, dx in ((0, 1), (1, 0), (1, 1)):
        nisa.tensor_tensor(best, best, tile[:, dy::2, dx::2], nl.maximum)
    return returned(best)


@case(normal(30, 7, 11), lambda x: (x.mean((1, 2))[:, None], x.min(2)), 16 * EPSILON)
@nki.jit
def pool_everything(x):
    tile = nl.load(x)
    total, least = nl.ndarray((30, 1), nl.float32), nl.ndarray((30, 7), nl.float32)
    nisa.tensor_reduce(total, nl.add, tile, axis=(1, 2))
    nisa.tensor_scalar(total, total, nl.multiply, 1 / (x.shape[1] * x.shape[2]))
    nisa.tensor_reduce(least, nl.minimum, tile, axis=-1, keepdims=True)
    mean = nl.ndarray((30, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    low = nl.ndarray((30, 7), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(mean, total)
    nl.store(low, least)
    return mean, low


@case(normal(6, 4, 50), lambda x: x.reshape(24, 50)[::2, 10:40:3].reshape(12, 5, 2) * 2, 0.0)
@nki.jit
def reshaped_and_strided(x):
    view = x.reshape((24, 50))[::2, 10:40:3]
    tile = nl.ndarray((12, 10), dtype=x.dtype)
    nisa.dma_copy(tile, view)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2)
    return returned(tile.reshape(12, 5, 2))


def rope_reference(x, c, s):
    first, second = x[:, 0::2], x[:, 1::2]
    return np.stack([first * c - second * s, second * c + first * s], -1).reshape(x.shape)


@case(normals((90, 64), (90, 32), (90, 32)), rope_reference, 2 * EPSILON)
@nki.jit
def rotary(x, cosine, sine):
    tile, c, s = nl.load(x), nl.load(cosine), nl.load(sine)
    result = nl.ndarray(x.shape, dtype=nl.float32)
    product = nl.ndarray(c.shape, dtype=nl.float32)
    for place, (one, other, op) in {"0": (0, 1, nl.subtract), "1": (1, 0, nl.add)}.items():
        nisa.tensor_tensor(result[:, int(place) :: 2], tile[:, one::2], c, nl.multiply)
        nisa.tensor_tensor(product, tile[:, other::2], s, nl.multiply)
        nisa.tensor_tensor(result[:, int(place) :: 2], result[:, int(place) :: 2], product, op)
    return returned(result)


def convolution_reference(x, w):
    padded = np.pad(x, ((0, 0), (1, 1)))
    return sum(w[:, k : k + 1] * padded[:, k : k + x.shape[1]] for k in range(3))


@case(normals((96, 45), (96, 3)), convolution_reference, 4 * EPSILON)
@nki.jit
def depthwise_convolution(x, w):
    channels, length = x.shape
    padded = nl.zeros((channels, length + 2), dtype=nl.float32)
    nisa.dma_copy(padded[:, 1:-1], x)
    taps, total = nl.load(w), nl.zeros((channels, length), dtype=nl.float32)
    for k in range(3):
        nisa.scalar_tensor_tensor(total, padded[:, nl.ds(k, length)], nl.multiply, taps[:, k : k + 1], nl.add, total)
    return returned(total)


@case(integers(0, 9, 1, 1), lambda x: np.arange(60 * 4 * 5).reshape(60, 4, 5) * 7 - 3 + x[0, 0], 0.0)
@nki.jit
def positions(x):
    numbers = nl.ndarray((60, 4, 5), dtype=nl.int32)
    nisa.iota(numbers, [[5, 4], [1, 5]], offset=0, channel_multiplier=20)
    nisa.tensor_scalar(numbers, numbers, nl.multiply, 7.0, op1=nl.subtract, operand1=3.0)
    more = nl.ndarray((60, 1), dtype=nl.float32)
    for p in range(0, 60, 20):
        for q in range(20):
            nisa.dma_copy(more[p + q], x)
    nisa.tensor_scalar(numbers, numbers, nl.add, more)
    return returned(numbers)


@case(normal(70, 70), lambda x: (np.tril(x), np.eye(70), np.triu(x, 1)[:, ::-1][:, ::-1]), 0.0)
@nki.jit
def triangles(x):
    tile = nl.load(x)
    outputs = [nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(3)]
    ones = nl.ndarray(x.shape, dtype=nl.float32)
    nisa.memset(ones, 1.0)
    size = x.shape[1]
    for out, source, comparison in zip(outputs, [tile, ones, tile], [nl.greater_equal, nl.equal, nl.less], strict=True):
        part = nl.ndarray(x.shape, dtype=nl.float32)
        nisa.affine_select(part, [[-1, size]], 1, source, 0.0, cmp_op=comparison)
        nl.store(out, part)
    return tuple(outputs)


@case(
    lambda random: [
        random.standard_normal((50, 33)).astype(np.float32),
        random.integers(0, 2, (50, 33)).astype(np.uint8),
    ],
    lambda x, m: (np.where(m, -1.5, x), np.where(m, x * x, 0)),
    EPSILON,
)
@nki.jit
def predicated(x, mask):
    tile, chosen = nl.load(x), nl.load(mask)
    squares, rest = nl.ndarray(x.shape, nl.float32), nl.zeros(x.shape, nl.float32)
    nisa.tensor_tensor(squares, tile, tile, nl.multiply)
    nisa.tensor_copy_predicated(rest, squares, chosen)
    nisa.tensor_copy_predicated(tile, -1.5, chosen)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(first, tile)
    nl.store(second, rest)
    return first, second


@case(normal(100, 9), lambda x: np.concatenate([x[4:100:5], x[0:60:3], x[40:80]])[:, ::1], 0.0)
@nki.jit
def rearranged_partitions(x):
    """DMA within SBUF: windows that step over partitions and overlap the ones that they are copied from."""
    tile = nl.load(x)
    result = nl.ndarray((80, 9), dtype=x.dtype)
    nisa.dma_copy(result[0:20], tile[4:100:5])
    nisa.dma_copy(result[20:40], tile[0:60:3])
    nisa.dma_copy(tile[0:40], tile[40:80])
    nisa.dma_copy(result[40:80], tile[0:40])
    return returned(result)
