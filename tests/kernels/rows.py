"""Kernels that work row by row: softmax, normalisations, losses, sums."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

from .case import EPSILON, case, normal, normals


def softmax_reference(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@case(normal(200, 333), softmax_reference, 16 * EPSILON)
@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]
    for start in range(0, rows, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, rows - start)
        tile = nl.load(x[start : start + size])
        top = nl.ndarray((size, 1), dtype=nl.float32)
        total = nl.ndarray((size, 1), dtype=nl.float32)
        nisa.tensor_reduce(top, nl.maximum, tile, axis=-1)
        nisa.tensor_scalar(tile, tile, nl.subtract, top)
        nisa.activation(tile, nl.exp, tile)
        nisa.tensor_reduce(total, nl.add, tile, axis=[1])
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(tile, tile, nl.multiply, total)
        nl.store(out[start : start + size], tile)
    return out


def layernorm_reference(x, gain, shift):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + shift


@case(normals((100, 700), (1, 700), (1, 700)), layernorm_reference, 32 * EPSILON)
@nki.jit
def layernorm(x, gain, shift, eps=1e-5):
    rows, width = x.shape
    tile = nl.load(x)
    limit = nl.tile_size.bn_stats_fmax
    pieces = (width + limit - 1) // limit
    stats = nl.ndarray((rows, pieces, 6), dtype=nl.float32)
    for i in range(pieces):
        nisa.bn_stats(stats[:, i], tile[:, limit * i : min(width, limit * (i + 1))])
    moments = nl.ndarray((rows, 2), dtype=nl.float32)
    nisa.bn_aggr(moments, stats)
    scale = nl.ndarray((rows, 1), dtype=nl.float32)
    nisa.tensor_scalar(scale, moments[:, 1:2], nl.add, eps)
    nisa.activation(scale, nl.rsqrt, scale)
    nisa.tensor_scalar(tile, tile, nl.subtract, moments[:, 0:1], op1=nl.multiply, operand1=scale)
    for vector, op in ((gain, nl.multiply), (shift, nl.add)):
        wide = nl.ndarray((rows, width), dtype=nl.float32)
        for r in range(rows):  # a vector of the free dimension, to every partition
            nisa.dma_copy(wide[r], vector)
        nisa.tensor_tensor(tile, tile, wide, op)
    return returned(tile)


def rmsnorm_reference(x):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)


@case(normal(77, 130, dtype=ml_dtypes.bfloat16), rmsnorm_reference, 2.0**-8)
@nki.jit
def rmsnorm(x):
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, dtype=nl.float32), nl.ndarray((x.shape[0], 1), dtype=nl.float32)
    nisa.activation(
        squares, nl.square, tile, reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=1e-6)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


def logsumexp_reference(x):
    top = x.max(1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(1, keepdims=True))


@case(normal(31, 65), logsumexp_reference, 8 * EPSILON)
@nki.jit
def logsumexp(x):
    rows = x.shape[0]
    tile, top, total = nl.load(x), nl.ndarray((rows, 1), nl.float32), nl.ndarray((rows, 1), nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile, 1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    # Two halves, added up in the engine's own registers.
    half = x.shape[1] // 2
    commands = nisa.reduce_cmd
    for part, command in ((tile[:, :half], commands.reset_reduce), (tile[:, half:], commands.reduce)):
        nisa.activation(part, nl.exp, part, reduce_op=nl.add, reduce_res=total, reduce_cmd=command)
    nisa.activation(total, nl.log, total)
    nisa.tensor_tensor(total, total, top, nl.add)
    return returned(total)


@case(normal(128, 100), lambda x: (x.sum(0, keepdims=True), x.max(0, keepdims=True)), 128 * EPSILON)
@nki.jit
def column_sums(x):
    tile = nl.load(x)
    outputs = []
    for op in (nl.add, nl.maximum):
        line = nl.ndarray((1, x.shape[1]), dtype=nl.float32)
        nisa.tensor_partition_reduce(line, op, tile)
        outputs.append(returned(line))
    return outputs


@case(normal(40, 100), lambda x: np.cumsum(x, 1), 64 * EPSILON)
@nki.jit
def prefix_sums(x):
    tile = nl.load(x)
    width, step = x.shape[1], 1
    while step < width:  # known at compile time
        # The window that is written overlaps the one that is read.
        nisa.tensor_tensor(tile[:, step:], tile[:, step:], tile[:, : width - step], nl.add)
        step *= 2
    return returned(tile)


def one_hot_reference(logits, labels):
    shifted = logits - logits.max(1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels, 1)
    return np.log(np.exp(shifted).sum(1, keepdims=True)) - chosen


@case(
    lambda random: [random.standard_normal((64, 50)).astype(np.float32), random.integers(0, 50, (64, 1), np.int32)],
    one_hot_reference,
    16 * EPSILON,
)
@nki.jit
def cross_entropy(logits, labels):
    rows, classes = logits.shape
    tile, wanted = nl.load(logits), nl.load(labels, dtype=nl.float32)
    column = nl.ndarray((rows, 1), dtype=nl.float32)
    nisa.tensor_reduce(column, nl.maximum, tile, 1)
    nisa.tensor_scalar(tile, tile, nl.subtract, column)
    numbers, hot = nl.ndarray((rows, classes), nl.float32), nl.ndarray((rows, classes), nl.float32)
    nisa.iota(numbers, [[1, classes]])
    # hot = (number == label) * logit
    nisa.scalar_tensor_tensor(hot, numbers, nl.equal, wanted, nl.multiply, tile)
    chosen = nl.ndarray((rows, 1), dtype=nl.float32)
    nisa.tensor_reduce(chosen, nl.add, hot, 1)
    nisa.activation_reduce(hot, nl.exp, tile, nl.add, column)
    nisa.activation(column, nl.log, column)
    nisa.tensor_tensor(column, column, chosen, nl.subtract)
    return returned(column)
