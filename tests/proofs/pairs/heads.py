"""Attention in models: several heads, shared keys, decoding, the linear kind, and real sizes."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed


@nki.jit
def head_after_head(q, k, v):
    """(heads, length, width), one head after the other."""
    heads, length, width = q.shape
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for h in range(heads):
        weights = nl.ndarray((length, length), nl.float32)
        total, mixed = column(weights), nl.ndarray((length, width), nl.float32)
        scores = product(transposed(nl.load(q[h])), transposed(nl.load(k[h])))
        nisa.activation_reduce(weights, nl.exp, scores, nl.add, total, scale=width**-0.5)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(mixed, product(transposed(weights), nl.load(v[h])), nl.multiply, total)
        nl.store(out[h], mixed)
    return out


@nki.jit
def heads_side_by_side(q, k, v):
    """The last head first; the scores of all heads lie beside each other and share the instructions of softmax."""
    heads, length, width = q.shape
    scores = nl.ndarray((length, heads, length), nl.float32)
    top, total = nl.ndarray((length, heads), nl.float32), nl.ndarray((length, heads), nl.float32)
    for h in reversed(range(heads)):
        raw = product(transposed(nl.load(q[h])), transposed(nl.load(k[h])))
        nisa.tensor_scalar(scores[:, h], raw, nl.multiply, width**-0.5)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=2)
    nisa.tensor_tensor(scores, scores, top.expand_dim(2).broadcast(2, length), nl.subtract)
    nisa.activation(scores, nl.exp, scores)
    nisa.tensor_reduce(total, nl.add, scores, axis=2)
    nisa.reciprocal(total, total)
    nisa.tensor_tensor(scores, scores, total.expand_dim(2).broadcast(2, length), nl.multiply)
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for h in reversed(range(heads)):
        weights = nl.ndarray((length, length), nl.float32)
        nisa.tensor_copy(weights, scores[:, h])
        nl.store(out[h], copied(product(transposed(weights), nl.load(v[h]))))
    return out


@nki.jit
def shared_keys_by_head(q, k, v):
    """Heads 2 i and 2 i + 1 of q share head i of k and v."""
    heads, length, width = q.shape
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for h in range(heads):
        weights = nl.ndarray((length, k.shape[1]), nl.float32)
        total, mixed = column(weights), nl.ndarray((length, width), nl.float32)
        scores = product(transposed(nl.load(q[h])), transposed(nl.load(k[h // 2])))
        nisa.activation_reduce(weights, nl.exp, scores, nl.add, total, scale=width**-0.5)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(mixed, product(transposed(weights), nl.load(v[h // 2])), nl.multiply, total)
        nl.store(out[h], mixed)
    return out


@nki.jit
def shared_keys_stacked(q, k, v):
    """The queries of both heads as the rows of one tile."""
    heads, length, width = q.shape
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for group in range(heads // 2):
        rows = nl.ndarray((2 * length, width), nl.float32)
        nisa.dma_copy(rows, q[2 * group : 2 * group + 2].reshape((2 * length, width)))
        scores = nl.ndarray((2 * length, k.shape[1]), nl.float32)
        nisa.tensor_scalar(scores, product(transposed(rows), transposed(nl.load(k[group]))), nl.multiply, width**-0.5)
        top, total = column(scores), column(scores)
        nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
        nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(scores, scores, nl.multiply, total)
        mixed = copied(product(transposed(scores), nl.load(v[group])))
        for second in range(2):
            nl.store(out[2 * group + second], mixed[second * length : (second + 1) * length])
    return out


@nki.jit
def decoding(q, k, v):
    """One query (width, 1) and all keys: scores along a row."""
    width, _keys = k.shape[1], k.shape[0]
    query = nl.load(q)
    nisa.tensor_scalar(query, query, nl.multiply, width**-0.5)
    scores = copied(product(query, transposed(nl.load(k))))
    top, total = column(scores), column(scores)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def decoding_split(q, k, v):
    """The keys in two parts with maxima and sums of their own, merged at the end."""
    width, _keys = k.shape[1], k.shape[0]
    query, half = nl.load(q), k.shape[0] // 2
    tops, sums, mixes = [], [], []
    for i in range(2):
        scores = nl.ndarray((1, half), nl.float32)
        raw = product(query, transposed(nl.load(k[i * half : (i + 1) * half])))
        nisa.tensor_scalar(scores, raw, nl.multiply, width**-0.5)
        top, total = column(scores), column(scores)
        nisa.tensor_reduce(top, nl.maximum, scores, axis=1)
        nisa.tensor_scalar(scores, scores, nl.subtract, top)
        nisa.activation_reduce(scores, nl.exp, scores, nl.add, total)
        tops.append(top)
        sums.append(total)
        mixes.append(copied(product(transposed(scores), nl.load(v[i * half : (i + 1) * half]))))
    top = nl.ndarray((1, 1), nl.float32)
    nisa.tensor_tensor(top, tops[0], tops[1], nl.maximum)
    for i in range(2):
        nisa.tensor_tensor(tops[i], tops[i], top, nl.subtract)
        nisa.activation(tops[i], nl.exp, tops[i])
        nisa.tensor_tensor(sums[i], sums[i], tops[i], nl.multiply)
        nisa.tensor_scalar(mixes[i], mixes[i], nl.multiply, tops[i])
    nisa.tensor_tensor(sums[0], sums[0], sums[1], nl.add)
    nisa.tensor_tensor(mixes[0], mixes[0], mixes[1], nl.add)
    nisa.reciprocal(sums[0], sums[0])
    nisa.tensor_scalar(mixes[0], mixes[0], nl.multiply, sums[0])
    return returned(mixes[0])


@nki.jit
def linear_parallel(q, k, v):
    """(mask * (q kT)) v, without softmax."""
    length = q.shape[0]
    scores = copied(product(transposed(nl.load(q)), transposed(nl.load(k))))
    nisa.affine_select(scores, [[-1, length]], 1, scores, 0.0, cmp_op=nl.greater_equal)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def linear_recurrent(q, k, v):
    """The state is the sum of k vT so far; one step after the other."""
    length, width = q.shape
    state = nl.zeros((width, v.shape[1]), nl.float32)
    queries = transposed(nl.load(q))
    out = nl.ndarray(v.shape, nl.float32, buffer=nl.shared_hbm)
    for t in range(length):
        nisa.tensor_tensor(state, state, product(nl.load(k[t : t + 1]), nl.load(v[t : t + 1])), nl.add)
        nl.store(out[t : t + 1], copied(product(queries[:, t : t + 1], state)))
    return out


@nki.jit
def linear_chunks(q, k, v):
    """Between chunks of 8 the state, within a chunk the mask."""
    length, width = q.shape
    state = nl.zeros((width, v.shape[1]), nl.float32)
    out = nl.ndarray(v.shape, nl.float32, buffer=nl.shared_hbm)
    for t in range(0, length, 8):
        queries, keys, values = transposed(nl.load(q[t : t + 8])), nl.load(k[t : t + 8]), nl.load(v[t : t + 8])
        weights = copied(product(transposed(keys), queries))
        nisa.affine_select(weights, [[1, 8]], -1, weights, 0.0, cmp_op=nl.greater_equal)
        total = nl.ndarray((8, v.shape[1]), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(total, weights, values, accumulate=False)
        nisa.nc_matmul(total, queries, state, accumulate=True)
        nl.store(out[t : t + 8], copied(total))
        nisa.tensor_tensor(state, state, product(keys, values), nl.add)
    return out


@nki.jit
def large_naive(q, k, v):
    """2048 x 128: 128 queries see all keys at once."""
    length, width = q.shape
    keys = [transposed(nl.load(k[j : j + 128])) for j in range(0, length, 128)]
    values = [nl.load(v[j : j + 128]) for j in range(0, length, 128)]
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for i in range(0, length, 128):
        queries = transposed(nl.load(q[i : i + 128]))
        scores = nl.ndarray((128, length), nl.float32)
        for j, key in enumerate(keys):
            nisa.tensor_scalar(scores[:, 128 * j : 128 * (j + 1)], product(queries, key), nl.multiply, width**-0.5)
        top, total = column(scores), column(scores)
        nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
        nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
        nisa.reciprocal(total, total)
        psum, mixed = nl.ndarray((128, width), nl.float32, buffer=nl.psum), nl.ndarray((128, width), nl.float32)
        for j, value in enumerate(values):
            nisa.nc_matmul(psum, transposed(scores[:, 128 * j : 128 * (j + 1)]), value)
        nisa.tensor_scalar(mixed, psum, nl.multiply, total)
        nl.store(out[i : i + 128], mixed)
    return out


@nki.jit
def large_flash(q, k, v):
    """Blocks of 512 keys, online."""
    length, width = q.shape
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for i in range(0, length, 128):
        queries = transposed(nl.load(q[i : i + 128]))
        nisa.tensor_scalar(queries, queries, nl.multiply, width**-0.5)
        top, total, mixed = (
            nl.full((128, 1), -1e30, nl.float32),
            nl.zeros((128, 1), nl.float32),
            nl.zeros((128, width), nl.float32),
        )
        fresh, factor, part = column(mixed), column(mixed), column(mixed)
        for j in range(0, length, 512):
            keys = nl.ndarray((width, 512), nl.float32)
            for n in range(4):
                nisa.tensor_copy(
                    keys[:, 128 * n : 128 * (n + 1)], transposed(nl.load(k[j + 128 * n : j + 128 * (n + 1)]))
                )
            scores = copied(product(queries, keys))
            nisa.tensor_reduce(fresh, nl.maximum, scores, axis=1)
            nisa.tensor_tensor(fresh, fresh, top, nl.maximum)
            nisa.tensor_tensor(factor, top, fresh, nl.subtract)
            nisa.activation(factor, nl.exp, factor)
            nisa.tensor_scalar(scores, scores, nl.subtract, fresh)
            nisa.activation_reduce(scores, nl.exp, scores, nl.add, part)
            nisa.scalar_tensor_tensor(total, total, nl.multiply, factor, nl.add, part)
            psum = nl.ndarray((128, width), nl.float32, buffer=nl.psum)
            for n in range(4):
                rows = j + 128 * n
                nisa.nc_matmul(psum, transposed(scores[:, 128 * n : 128 * (n + 1)]), nl.load(v[rows : rows + 128]))
            nisa.scalar_tensor_tensor(mixed, mixed, nl.multiply, factor, nl.add, psum)
            nisa.tensor_copy(top, fresh)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(mixed, mixed, nl.multiply, total)
        nl.store(out[i : i + 128], mixed)
    return out


SHIFT = ("softmax is the same for any shift",)
HEADS = tensors((3, 20, 16), (3, 20, 16), (3, 20, 16))
SHARED = tensors((4, 20, 16), (2, 24, 16), (2, 24, 16))
LINEAR = tensors((24, 16), (24, 16), (24, 20))
DECODED = (Input((16, 1)), *tensors((64, 16), (64, 20)))
LARGE = tensors((2048, 128), (2048, 128), (2048, 128))
PAIRS = [
    Pair("heads side by side", "attention", head_after_head, heads_side_by_side, HEADS, identities=SHIFT),
    Pair("heads with shared keys", "attention", shared_keys_by_head, shared_keys_stacked, SHARED, identities=SHIFT),
    Pair("decoding split", "attention", decoding, decoding_split, DECODED, identities=SHIFT),
    Pair("linear attention recurrent", "attention", linear_parallel, linear_recurrent, LINEAR),
    Pair("linear attention in chunks", "attention", linear_recurrent, linear_chunks, LINEAR),
    Pair("attention 2048", "attention", large_naive, large_flash, LARGE, slow=True, identities=SHIFT),
]
