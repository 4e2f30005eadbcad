"""Kernels around reduction registers, scans, and the instructions that take eight values at a time."""

from __future__ import annotations

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import returned

from .case import EPSILON, case

command = nisa.reduce_cmd
LOWEST = -3.4028235e38


def top_k_reference(x, k):
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, order, 1), order


@case(lambda random: [random.permutation(64 * 200).reshape(64, 200).astype(np.float32), 20], top_k_reference, 0.0)
@nki.jit
def top_k(x, k):
    """Eight at a time: what was found is replaced by -inf, so that the next round finds the next eight."""
    rows = x.shape[0]
    tile = nl.load(x)
    count = (k + 7) // 8 * 8
    values, places = nl.ndarray((rows, count), x.dtype), nl.ndarray((rows, count), nl.uint32)
    for first in range(0, count, 8):
        eight = slice(first, first + 8)
        nisa.max8(values[:, eight], tile)
        nisa.nc_match_replace8(tile, tile, values[:, eight], float("-inf"), dst_idx=places[:, eight])
    best = nl.ndarray((rows, k), dtype=x.dtype, buffer=nl.shared_hbm)
    where = nl.ndarray((rows, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(best, values[:, :k])
    nisa.dma_copy(where, places[:, :k])
    return best, where


@case(
    lambda random: [random.permutation(32 * 60).reshape(32, 60).astype(np.float32)],
    lambda x: np.argsort(-x, axis=1)[:, :8],
    0.0,
)
@nki.jit
def experts_of_tokens(logits):
    """The router of a mixture of experts: the eight best experts of each token."""
    tile = nl.load(logits)
    tokens = logits.shape[0]
    best, number = nl.ndarray((tokens, 8), nl.float32), nl.ndarray((tokens, 8), nl.uint16)
    nisa.max8(dst=best, src=tile)
    nisa.nc_find_index8(dst=number, data=tile, vals=best)
    return returned(number)


def recurrence_reference(decay, data, start):
    result, state = np.empty_like(data), start[:, 0]
    for i in range(data.shape[1]):
        state = decay[:, i] * state + data[:, i]
        result[:, i] = state
    return result


@case(
    lambda random: [
        random.random((128, 96)).astype(np.float32),
        random.standard_normal((128, 96)).astype(np.float32),
        random.standard_normal((128, 1)).astype(np.float32),
    ],
    recurrence_reference,
    64 * EPSILON,
)
@nki.jit
def recurrence(decay, data, start):
    """A state-space model's scan over time, in two pieces: the second begins where the first ended."""
    rows, steps = data.shape
    factors, terms, first = nl.load(decay), nl.load(data), nl.load(start)
    states = nl.ndarray((rows, steps), dtype=nl.float32)
    half = steps // 2
    one, two = slice(0, half), slice(half, steps)
    nisa.tensor_tensor_scan(states[:, one], factors[:, one], terms[:, one], first, nl.multiply, nl.add)
    nisa.tensor_tensor_scan(
        states[:, two], factors[:, two], terms[:, two], states[:, half - 1 : half], nl.multiply, nl.add
    )
    return returned(states)


def causal_softmax_reference(scores, lengths):
    seen = np.arange(scores.shape[1]) < lengths
    shifted = np.where(seen, scores, -np.inf)
    weights = np.exp(shifted - shifted.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@case(
    lambda random: [
        random.standard_normal((128, 128)).astype(np.float32),
        np.arange(1, 129, dtype=np.float32).reshape(128, 1),
    ],
    causal_softmax_reference,
    16 * EPSILON,
    ("trn2", "trn3"),
)
@nki.jit
def causal_softmax(scores, lengths):
    """Masking, maximum, exponential and sum in two instructions, over the keys in two pieces."""
    queries, keys = scores.shape
    tile, ends = nl.load(scores), nl.load(lengths)
    zeros, largest = nl.ndarray((queries, 1), nl.float32), nl.ndarray((queries, 1), nl.float32)
    nisa.memset(zeros, 0.0)
    half = keys // 2
    for piece in range(2):
        part = nl.ds(piece * half, half)
        nisa.range_select(
            tile[:, part],
            tile[:, part],
            nl.greater_equal,
            nl.less,
            zeros,
            ends,
            reduce_cmd=command.reset_reduce if piece == 0 else command.reduce,
            reduce_res=None if piece == 0 else largest,
            range_start=piece * half,
            on_false_value=LOWEST,
        )
    nisa.tensor_scalar(largest, largest, nl.multiply, -1.0)
    total = nl.ndarray((queries, 1), dtype=nl.float32)
    nisa.activation(
        tile, nl.exp, tile, bias=largest, reduce_op=nl.add, reduce_res=total, reduce_cmd=command.reset_reduce
    )
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@case(
    lambda random: [random.standard_normal((96, 80)).astype(np.float32)],
    lambda x: np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
    16 * EPSILON,
    ("trn3",),
)
@nki.jit
def softmax_on_one_engine(x):
    """All of softmax on the Vector engine: maximum, exponential with its sum, the inverse of that."""
    tile = nl.load(x)
    largest, total = nl.ndarray((x.shape[0], 1), nl.float32), nl.ndarray((x.shape[0], 1), nl.float32)
    nisa.tensor_scalar_reduce(tile, tile, nl.bypass, None, nl.maximum, largest)
    nisa.exponential(tile, tile, largest, reduce_res=total, reduce_cmd=command.reset_reduce)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


def quantised_reference(x):
    return np.rint(x * (127 / np.abs(x).max(1, keepdims=True)))


@case(lambda random: [random.integers(-127, 128, (64, 50)).astype(np.float32)], quantised_reference, 1 / 127)
@nki.jit
def quantised(x):
    """Each row in 8-bit integers, scaled by its largest magnitude, which the next instruction gets with its sign."""
    tile = nl.load(x)
    sizes = nl.ndarray(x.shape, dtype=nl.float32)
    scale, whole = nl.ndarray((x.shape[0], 1), nl.float32), nl.ndarray(x.shape, nl.int8)
    nisa.tensor_scalar_reduce(sizes, tile, nl.abs, 0.0, nl.maximum, scale, reduce_res_negate=True)
    nisa.reciprocal(scale, scale)
    nisa.tensor_scalar(scale, scale, nl.multiply, -127.0)
    nisa.tensor_scalar(whole, tile, nl.multiply, scale)
    return returned(whole)
