"""Attention: naive, online, masked in several ways, with several heads, and with its parts in other orders.

Queries, keys and values are (length, width).
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed

LOWEST = -3.4028235e38
INFINITY = float("inf")


@nki.jit
def naive(q, k, v):
    """All scores at once, weights divided before the product with the values."""
    length, width = q.shape
    scores = nl.ndarray((length, k.shape[0]), nl.float32)
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    top, total = column(scores), column(scores)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def flash(q, k, v):
    """Blocks of 16 keys; maximum, sum and output run along."""
    length, width = q.shape
    queries = transposed(nl.load(q))
    nisa.tensor_scalar(queries, queries, nl.multiply, width**-0.5)
    top, total, out = (
        nl.full((length, 1), -1e30, nl.float32),
        nl.zeros((length, 1), nl.float32),
        nl.zeros((length, width), nl.float32),
    )
    fresh, factor, part = column(out), column(out), column(out)
    for start in range(0, k.shape[0], 16):
        scores = copied(product(queries, transposed(nl.load(k[start : start + 16]))))
        nisa.tensor_reduce(fresh, nl.maximum, scores, axis=1)
        nisa.tensor_tensor(fresh, fresh, top, nl.maximum)
        nisa.tensor_tensor(factor, top, fresh, nl.subtract)
        nisa.activation(factor, nl.exp, factor)
        nisa.tensor_scalar(scores, scores, nl.subtract, fresh)
        nisa.activation_reduce(scores, nl.exp, scores, nl.add, part)
        nisa.scalar_tensor_tensor(total, total, nl.multiply, factor, nl.add, part)
        mixed = product(transposed(scores), nl.load(v[start : start + 16]))
        nisa.scalar_tensor_tensor(out, out, nl.multiply, factor, nl.add, mixed)
        nisa.tensor_copy(top, fresh)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, out, nl.multiply, total)
    return returned(out)


@nki.jit
def divided_late(q, k, v):
    """No maximum, the scale inside of exp, and the sum divides the output."""
    queries, keys = transposed(nl.load(q)), transposed(nl.load(k))
    weights = nl.ndarray((q.shape[0], k.shape[0]), nl.float32)
    total, out = column(weights), nl.ndarray(q.shape, nl.float32)
    nisa.activation_reduce(weights, nl.exp, product(queries, keys), nl.add, total, scale=q.shape[1] ** -0.5)
    nisa.reciprocal(total, total)
    nisa.activation(out, nl.copy, product(transposed(weights), nl.load(v)), scale=total)
    return returned(out)


@nki.jit
def scores_turned(q, k, v):
    """Keys on partitions: no transpose of the weights, and a column of ones beside the values sums them."""
    length, width = q.shape
    queries, keys = transposed(nl.load(q)), transposed(nl.load(k))
    weights = nl.ndarray((k.shape[0], length), nl.float32)
    nisa.activation(weights, nl.exp, product(keys, queries), scale=width**-0.5)
    values = nl.ones((k.shape[0], width + 1), nl.float32)
    nisa.dma_copy(values[:, 0:width], v)
    mixed = copied(product(weights, values))
    nisa.reciprocal(mixed[:, width : width + 1], mixed[:, width : width + 1])
    out = nl.ndarray((length, width), nl.float32)
    nisa.tensor_scalar(out, mixed[:, 0:width], nl.multiply, mixed[:, width : width + 1])
    return returned(out)


@nki.jit
def causal_filled(q, k, v):
    """Scores above the diagonal are -30000."""
    length, width = q.shape
    scores, top, total = (
        nl.ndarray((length, length), nl.float32),
        nl.ndarray((length, 1), nl.float32),
        nl.ndarray((length, 1), nl.float32),
    )
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.affine_select(scores, [[-1, length]], 1, scores, -30000.0, cmp_op=nl.greater_equal)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def causal_lowest(q, k, v):
    """Scores above the diagonal are the lowest float32."""
    length, width = q.shape
    scores, top, total = (
        nl.ndarray((length, length), nl.float32),
        nl.ndarray((length, 1), nl.float32),
        nl.ndarray((length, 1), nl.float32),
    )
    out = nl.ndarray((length, width), nl.float32)
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.affine_select(scores, [[1, length]], -1, scores, LOWEST, cmp_op=nl.less_equal)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1)
    nisa.tensor_scalar(scores, scores, nl.subtract, top)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, product(transposed(scores), nl.load(v)), nl.multiply, total)
    return returned(out)


@nki.jit
def causal_infinite(q, k, v):
    """Scores above the diagonal are -inf."""
    length, width = q.shape
    scores, top, total = (
        nl.ndarray((length, length), nl.float32),
        nl.ndarray((length, 1), nl.float32),
        nl.ndarray((length, 1), nl.float32),
    )
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.affine_select(scores, [[-1, length]], 1, scores, -INFINITY, cmp_op=nl.greater_equal)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def causal_multiplied(q, k, v):
    """Exponentials times a mask of 0 and 1 that iota makes."""
    length, width = q.shape
    weights, mask = nl.ndarray((length, length), nl.float32), nl.ndarray((length, length), nl.float32)
    total = column(weights)
    nisa.iota(mask, [[-1, length]], channel_multiplier=1)
    nisa.tensor_scalar(mask, mask, nl.greater_equal, 0.0)
    nisa.activation(weights, nl.exp, product(transposed(nl.load(q)), transposed(nl.load(k))), scale=width**-0.5)
    nisa.tensor_tensor(weights, weights, mask, nl.multiply)
    nisa.tensor_reduce(total, nl.add, weights, axis=1)
    nisa.reciprocal(total, total)
    out = nl.ndarray((length, width), nl.float32)
    nisa.tensor_scalar(out, product(transposed(weights), nl.load(v)), nl.multiply, total)
    return returned(out)


@nki.jit
def causal_flash(q, k, v):
    """Tiles of 16 queries and 16 keys; only the tile on the diagonal has a mask, and those above are left out."""
    length, width = q.shape
    out = nl.ndarray((length, width), nl.float32, buffer=nl.shared_hbm)
    for i in range(0, length, 16):
        queries = transposed(nl.load(q[i : i + 16]))
        nisa.tensor_scalar(queries, queries, nl.multiply, width**-0.5)
        top, total, mixed = (
            nl.full((16, 1), -1e30, nl.float32),
            nl.zeros((16, 1), nl.float32),
            nl.zeros((16, width), nl.float32),
        )
        fresh, factor, part = column(mixed), column(mixed), column(mixed)
        for j in range(0, i + 16, 16):
            scores = copied(product(queries, transposed(nl.load(k[j : j + 16]))))
            if j == i:
                nisa.affine_select(scores, [[-1, 16]], 1, scores, -INFINITY, cmp_op=nl.greater_equal)
            nisa.tensor_reduce(fresh, nl.maximum, scores, axis=1)
            nisa.tensor_tensor(fresh, fresh, top, nl.maximum)
            nisa.tensor_tensor(factor, top, fresh, nl.subtract)
            nisa.activation(factor, nl.exp, factor)
            nisa.tensor_scalar(scores, scores, nl.subtract, fresh)
            nisa.activation_reduce(scores, nl.exp, scores, nl.add, part)
            nisa.scalar_tensor_tensor(total, total, nl.multiply, factor, nl.add, part)
            values = product(transposed(scores), nl.load(v[j : j + 16]))
            nisa.scalar_tensor_tensor(mixed, mixed, nl.multiply, factor, nl.add, values)
            nisa.tensor_copy(top, fresh)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(mixed, mixed, nl.multiply, total)
        nl.store(out[i : i + 16], mixed)
    return out


@nki.jit
def window_selected(q, k, v):
    """Row i sees columns i - 20 to i: two selections."""
    length, width = q.shape
    scores, top, total = (
        nl.ndarray((length, length), nl.float32),
        nl.ndarray((length, 1), nl.float32),
        nl.ndarray((length, 1), nl.float32),
    )
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.affine_select(scores, [[-1, length]], 1, scores, -INFINITY, cmp_op=nl.greater_equal)
    nisa.affine_select(scores, [[1, length]], -1, scores, -INFINITY, cmp_op=nl.greater_equal, offset=20)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def window_blocks(q, k, v):
    """For each 16 queries only the keys that some of them see, and one mask of 0 and 1."""
    length, width = q.shape
    out = nl.ndarray((length, width), nl.float32, buffer=nl.shared_hbm)
    for i in range(0, length, 16):
        first = max(0, i - 20)
        seen = i + 16 - first
        queries, keys = transposed(nl.load(q[i : i + 16])), transposed(nl.load(k[first : i + 16]))
        weights, away, near = (nl.ndarray((16, seen), nl.float32) for _ in range(3))
        nisa.activation(weights, nl.exp, product(queries, keys), scale=width**-0.5)
        nisa.iota(away, [[-1, seen]], offset=i - first, channel_multiplier=1)
        nisa.tensor_scalar(near, away, nl.less_equal, 20.0)
        nisa.scalar_tensor_tensor(near, away, nl.greater_equal, 0.0, nl.multiply, near)
        nisa.tensor_tensor(weights, weights, near, nl.multiply)
        total, mixed = column(weights), nl.ndarray((16, width), nl.float32)
        nisa.tensor_reduce(total, nl.add, weights, axis=1)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(mixed, product(transposed(weights), nl.load(v[first : i + 16])), nl.multiply, total)
        nl.store(out[i : i + 16], mixed)
    return out


@nki.jit
def window_ranges(q, k, v):
    """range_select with bounds for each row: the lowest float32 outside of them."""
    length, width = q.shape
    scores, top, total = (
        nl.ndarray((length, length), nl.float32),
        nl.ndarray((length, 1), nl.float32),
        nl.ndarray((length, 1), nl.float32),
    )
    low, high = nl.ndarray((length, 1), nl.float32), nl.ndarray((length, 1), nl.float32)
    nisa.iota(low, [[0, 1]], offset=-20, channel_multiplier=1)
    nisa.iota(high, [[0, 1]], channel_multiplier=1)
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.range_select(scores, scores, nl.greater_equal, nl.less_equal, low, high, reduce_res=top, on_false_value=LOWEST)
    nisa.tensor_scalar(scores, scores, nl.subtract, top)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def bias_by_vector(q, k, v, bias):
    """The bias on the scores is a sum of tiles."""
    length, width = q.shape
    scores, top, total = nl.load(bias), nl.ndarray((length, 1), nl.float32), nl.ndarray((length, 1), nl.float32)
    raw = product(transposed(nl.load(q)), transposed(nl.load(k)))
    nisa.scalar_tensor_tensor(scores, raw, nl.multiply, width**-0.5, nl.add, scores)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def bias_as_factor(q, k, v, bias):
    """exp(score) exp(bias), and the identity times the bias is not needed."""
    length, width = q.shape
    weights, factors, total = (
        nl.ndarray((length, k.shape[0]), nl.float32),
        nl.load(bias),
        nl.ndarray((length, 1), nl.float32),
    )
    nisa.activation(weights, nl.exp, product(transposed(nl.load(q)), transposed(nl.load(k))), scale=width**-0.5)
    nisa.activation(factors, nl.exp, factors)
    nisa.tensor_tensor(weights, weights, factors, nl.multiply)
    nisa.tensor_reduce(total, nl.add, weights, axis=1)
    nisa.reciprocal(total, total)
    out = nl.ndarray((length, width), nl.float32)
    nisa.tensor_scalar(out, product(transposed(weights), nl.load(v)), nl.multiply, total)
    return returned(out)


@nki.jit
def flash_from_zero(q, k, v):
    """The maximum runs from 0 on, backwards over the keys, one block late: any shift is right."""
    length, width = q.shape
    queries = transposed(nl.load(q))
    top, total, out = (
        nl.zeros((length, 1), nl.float32),
        nl.zeros((length, 1), nl.float32),
        nl.zeros((length, width), nl.float32),
    )
    fresh, factor, part = column(out), column(out), column(out)
    for start in reversed(range(0, k.shape[0], 24)):
        scores = nl.ndarray((length, 24), nl.float32)
        raw = product(queries, transposed(nl.load(k[start : start + 24])))
        nisa.tensor_scalar(scores, raw, nl.multiply, width**-0.5)
        nisa.tensor_reduce(fresh, nl.maximum, scores, axis=1)
        nisa.tensor_scalar(scores, scores, nl.subtract, top)
        nisa.activation_reduce(scores, nl.exp, scores, nl.add, part)
        nisa.tensor_tensor(factor, top, fresh, nl.subtract)
        nisa.activation(factor, nl.exp, factor)
        nisa.scalar_tensor_tensor(total, total, nl.add, part, nl.multiply, factor)
        mixed = product(transposed(scores), nl.load(v[start : start + 24]))
        nisa.tensor_tensor(out, out, mixed, nl.add)
        nisa.tensor_scalar(out, out, nl.multiply, factor)
        nisa.tensor_copy(top, fresh)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, out, nl.multiply, total)
    return returned(out)


X = tensors((48, 16), (48, 16), (48, 16))
SHIFT = ("softmax is the same for any shift",)
ZERO = ("exp(-inf) = 0",)
TINY = ("exp of a large negative number is 0 in float32",)
PAIRS = [
    Pair("attention online", "attention", naive, flash, X, identities=SHIFT),
    Pair("attention online from zero", "attention", flash, flash_from_zero, X, identities=SHIFT),
    Pair("attention divided late", "attention", naive, divided_late, X, identities=SHIFT),
    Pair("attention turned", "attention", flash, scores_turned, X, identities=SHIFT),
    Pair(
        "causal attention filled",
        "attention",
        causal_filled,
        causal_lowest,
        X,
        sense="underflow",
        identities=SHIFT + TINY,
    ),
    Pair(
        "causal attention infinite",
        "attention",
        causal_filled,
        causal_infinite,
        X,
        sense="underflow",
        identities=SHIFT + TINY,
    ),
    Pair("causal attention multiplied", "attention", causal_infinite, causal_multiplied, X, identities=SHIFT + ZERO),
    Pair("causal attention online", "attention", causal_infinite, causal_flash, X, identities=SHIFT + ZERO),
    Pair(
        "causal attention online filled",
        "attention",
        causal_filled,
        causal_flash,
        X,
        sense="underflow",
        identities=SHIFT + TINY,
    ),
    Pair("attention in a window", "attention", window_selected, window_blocks, X, identities=SHIFT + ZERO),
    Pair(
        "attention in ranges",
        "attention",
        window_selected,
        window_ranges,
        X,
        sense="underflow",
        identities=SHIFT + TINY,
    ),
    Pair(
        "attention with a bias", "attention", bias_by_vector, bias_as_factor, (*X, *tensors((48, 48))), identities=SHIFT
    ),
]
