"""Narrow floats, integers and bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import copied, returned

from .case import case, integers, normal, normals


def silu(x):
    return x / (1 + np.exp(-x))


@case(normals((33, 95), (33, 95), dtype=np.float16), lambda x, y: silu(x) * y, 2.0**-10)
@nki.jit
def gated_float16(x, y):
    tile, gate = nl.load(x), nl.load(y)
    nisa.activation(tile, nl.silu, tile)
    nisa.tensor_tensor(tile, tile, gate, nl.multiply)
    return returned(tile)


FORMATS = {"float8_e4m3": 2.0**-4, "float8_e5m2": 2.0**-3, "bfloat16": 2.0**-8, "float16": 2.0**-11}


@case(normal(20, 40), lambda x: [x * 0.5] * len(FORMATS), 2.0**-3)
@nki.jit
def through_every_format(x):
    outputs = []
    for name in FORMATS:
        narrow = nl.ndarray(x.shape, dtype=getattr(nl, name))
        nisa.tensor_copy(narrow, nl.load(x))
        nisa.tensor_scalar(narrow, narrow, nl.multiply, 0.5)
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, narrow)
        outputs.append(out)
    return outputs


def quantized(x):
    scale = np.abs(x).max(1, keepdims=True) / 127
    return np.rint(x / scale), scale


@case(normal(60, 128), lambda x: (quantized(x)[0], quantized(x)[1], x), 0.0079)
@nki.jit
def quantize_int8(x):
    tile = nl.load(x)
    size, inverse = nl.ndarray((60, 1), nl.float32), nl.ndarray((60, 1), nl.float32)
    magnitude = nl.ndarray(x.shape, nl.float32)
    nisa.activation(magnitude, nl.abs, tile)
    nisa.tensor_reduce(size, nl.maximum, magnitude, 1)
    nisa.tensor_scalar(size, size, nl.multiply, 1 / 127.0)
    nisa.reciprocal(inverse, size)
    codes, back = nl.ndarray(x.shape, nl.int8), nl.ndarray(x.shape, nl.float32)
    nisa.tensor_scalar(codes, tile, nl.multiply, inverse)
    nisa.tensor_scalar(back, codes, nl.multiply, size)
    return returned(codes), returned(size), returned(back)


def xorshift(x):
    x = x.astype(np.uint32)
    x = x ^ (x << np.uint32(13))
    x = x ^ (x >> np.uint32(17))
    return x ^ (x << np.uint32(5)), (x * np.uint32(2654435761)) + x


@case(integers(1, 2**31, 64, 21, dtype=np.uint32), xorshift, 0.0)
@nki.jit
def random_bits(x):
    state = nl.load(x)
    moved = nl.ndarray(x.shape, dtype=nl.uint32)
    hashed = nl.ndarray(x.shape, dtype=nl.uint32)
    factor = nl.ndarray(x.shape, dtype=nl.uint32)
    nisa.iota(factor, [[0, 21]], offset=2654435761 - 2**31)
    nisa.tensor_scalar(factor, factor, nl.bitwise_or, 2**31)
    for op, amount in ((nl.left_shift, 13), (nl.right_shift, 17), (nl.left_shift, 5)):
        if amount == 5:
            nisa.tensor_tensor(hashed, state, factor, nl.multiply)
            nisa.tensor_tensor(hashed, hashed, state, nl.add)
        nisa.tensor_scalar(moved, state, op, amount)
        nisa.tensor_tensor(state, state, moved, nl.bitwise_xor)
    first = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    second = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(first, state)
    nl.store(second, hashed)
    return first, second


@case(
    lambda random: [random.integers(-(2**15), 2**15, (25, 30)).astype(np.int16), random.random((25, 30)) < 0.5],
    lambda x, b: (np.clip(x.astype(np.int64) * 3, -128, 127), np.clip(x, 0, 255), (x != 0) & b),
    0.0,
)
@nki.jit
def saturating(x, flags):
    tile, flag = nl.load(x), nl.load(flags)
    results = [nl.ndarray(x.shape, dtype=d) for d in (nl.int8, nl.uint8, nl.bool_)]
    nisa.tensor_scalar(results[0], tile, nl.multiply, 3.0)
    nisa.tensor_copy(results[1], tile)
    nisa.tensor_tensor(results[2], tile, flag, nl.logical_and)
    made = [nl.ndarray(x.shape, dtype=r.dtype, buffer=nl.shared_hbm) for r in results]
    for out, result in zip(made, results, strict=True):
        nl.store(out, result)
    return tuple(made)


@case(normals((64, 16), (64, 24), dtype=ml_dtypes.float8_e5m2), lambda a, b: a.T @ b, 64 * 2.0**-23, ("trn2", "trn3"))
@nki.jit
def matmul_float8(a, b):
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(a), nl.load(b))
    return returned(copied(total))
