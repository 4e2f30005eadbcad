"""Causal attention with rotary embedding as NKI kernels: a whole context forward and backward, and one token.

A context is one tile of up to 128 tokens. Four heads of 32 features lie beside one another; turned, head h is in rows
32 h to 32 h + 31, and its product is a 32-row tile of the Tensor engine. The scores of the four heads fill a PSUM bank.

The annotations are the shapes for which ``nki check examples/llama`` compiles a kernel; a call may have others.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from examples.llama.kernels import HALF, HEAD, MASKED, like, load, ones, turned


def load_table(table, heads):
    """[tokens, 16] of cosines or sines -> [tokens, heads, 16] in SBUF, the same for each head."""
    tokens = table.shape[0]
    tile = nl.ndarray((tokens, heads, HALF), dtype=nl.float32, buffer=nl.sbuf)
    for head in range(heads):
        nisa.dma_copy(dst=tile[:, head, :], src=table)
    return tile


def rotate(rows, cosine, sine, back=False):
    """Rows [tokens, features] with each pair (i, i + 16) of a head turned by its angle; ``back``: the other way.

    That is the gradient too: a rotation's transpose is the rotation back.
    """
    tokens, heads = cosine.shape[0], cosine.shape[1]
    source = rows.reshape((tokens, heads, HEAD))
    result = nl.ndarray((tokens, heads, HEAD), dtype=nl.float32, buffer=nl.sbuf)
    product = nl.ndarray((tokens, heads, HALF), dtype=nl.float32, buffer=nl.sbuf)
    for half in range(2):
        own, other = (
            source[:, :, half * HALF : half * HALF + HALF],
            source[:, :, HALF - half * HALF : HEAD - half * HALF],
        )
        target = result[:, :, half * HALF : half * HALF + HALF]
        nisa.tensor_tensor(dst=target, data1=own, data2=cosine, op=nl.multiply)
        nisa.tensor_tensor(dst=product, data1=other, data2=sine, op=nl.multiply)
        plus = (half == 1) != back
        nisa.tensor_tensor(dst=target, data1=target, data2=product, op=nl.add if plus else nl.subtract)
    return result.reshape((tokens, heads * HEAD))


def load_rotated(qkv, first, tokens, cosine, sine):
    """Queries and keys after rotation, and values, of one context: rows [tokens, features] each."""
    features = qkv.shape[1] // 3
    rows = load(qkv[first : first + tokens, :])
    query = rotate(rows[:, 0:features], cosine, sine)
    key = rotate(rows[:, features : 2 * features], cosine, sine)
    return query, key, rows[:, 2 * features : 3 * features]


def causal_mask(tokens, heads):
    """[tokens, heads, tokens]: 0 where key <= query, MASKED elsewhere."""
    zeros = nl.ndarray((tokens, heads, tokens), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    mask = nl.ndarray((tokens, heads, tokens), dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=mask,
        pattern=[[0, heads], [-1, tokens]],  # query - key
        channel_multiplier=1,
        on_true_tile=zeros,
        on_false_value=MASKED,
        cmp_op=nl.greater_equal,
    )
    return mask


def by_head(left, right, heads):
    """[tokens, heads, tokens] in PSUM: for each head left @ right.T, both turned already ([features, tokens])."""
    tokens = left.shape[1]
    result = nl.ndarray((tokens, heads, right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for head in range(heads):
        row = head * HEAD
        nisa.nc_matmul(
            dst=result[:, head, :],
            stationary=left[row : row + HEAD, :],
            moving=right[row : row + HEAD, :],
            accumulate=False,
            tile_position=(row, 0),
            tile_size=(HEAD, 128),
        )
    return result


def probabilities(query, key, mask):
    """Softmax over the keys of query . key / sqrt(32) + mask: [tokens, heads, tokens] in SBUF."""
    tokens, heads = mask.shape[0], mask.shape[1]
    scores, weights = like(mask), like(mask)
    nisa.scalar_tensor_tensor(
        dst=scores,
        data=by_head(turned(query), turned(key), heads),
        op0=nl.multiply,
        operand0=HEAD**-0.5,
        op1=nl.add,
        operand1=mask,
    )
    peak = nl.ndarray((tokens, heads), dtype=nl.float32, buffer=nl.sbuf)
    total, inverse = like(peak), like(peak)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=scores, axis=2, negate=True)
    for head in range(heads):
        nisa.activation_reduce(
            dst=weights[:, head, :],
            op=nl.exp,
            data=scores[:, head, :],
            bias=peak[:, head : head + 1],
            reduce_op=nl.add,
            reduce_res=total[:, head : head + 1],
        )
    nisa.reciprocal(dst=inverse, data=total)
    for head in range(heads):
        nisa.tensor_scalar(
            dst=weights[:, head, :],
            data=weights[:, head, :],
            op0=nl.multiply,
            operand0=inverse[:, head : head + 1],
        )
    return weights


def mix(weights, rows, transposed=False):
    """[tokens, features] in PSUM: for each head weights @ rows, or weights.T @ rows.

    The stationary operand enters the product turned, so the plain product turns ``weights`` and the other does not.
    """
    tokens, heads = weights.shape[0], weights.shape[1]
    result = nl.ndarray((tokens, heads * HEAD), dtype=nl.float32, buffer=nl.psum)
    for head in range(heads):
        column = head * HEAD
        nisa.nc_matmul(
            dst=result[:, column : column + HEAD],
            stationary=weights[:, head, :] if transposed else turned(weights[:, head, :]),
            moving=rows[:, column : column + HEAD],
            accumulate=False,
        )
    return result


def store(destination, tile):
    """Write a tile in PSUM to HBM."""
    copy = like(tile)
    nisa.tensor_copy(dst=copy, src=tile)
    nisa.dma_copy(dst=destination, src=copy)


@nki.jit
def attention(qkv: "1024x384:float32", cosine: "128x16:float32", sine: "128x16:float32"):
    """Causal self-attention of independent contexts.

    qkv: [contexts * tokens, 3 features], queries, keys and values beside one another, features = 32 heads <= 128;
    cosine, sine: [tokens <= 128, 16], the rotation by position. Returns [contexts * tokens, features].
    """
    rows, features = qkv.shape[0], qkv.shape[1] // 3
    tokens, heads = cosine.shape[0], features // HEAD
    result = nl.ndarray((rows, features), dtype=nl.float32, buffer=nl.shared_hbm)
    cosines, sines, mask = load_table(cosine, heads), load_table(sine, heads), causal_mask(tokens, heads)
    for first in range(0, rows, tokens):
        query, key, value = load_rotated(qkv, first, tokens, cosines, sines)
        store(result[first : first + tokens, :], mix(probabilities(query, key, mask), value))
    return result


@nki.jit
def attention_backward(
    qkv: "1024x384:float32", cosine: "128x16:float32", sine: "128x16:float32", dy: "1024x128:float32"
):
    """Gradient of qkv.

    The probabilities P are computed again, which is cheaper than to keep them. dV = P.T dy; dP = dy V.T;
    dS = P (dP - sum of P dP over the keys) / sqrt(32); dQ = dS K and dK = dS.T Q, rotated back.
    """
    rows, features = qkv.shape[0], qkv.shape[1] // 3
    tokens, heads = cosine.shape[0], features // HEAD
    result = nl.ndarray((rows, 3 * features), dtype=nl.float32, buffer=nl.shared_hbm)
    cosines, sines, mask = load_table(cosine, heads), load_table(sine, heads), causal_mask(tokens, heads)
    for first in range(0, rows, tokens):
        query, key, value = load_rotated(qkv, first, tokens, cosines, sines)
        gradient = load(dy[first : first + tokens, :])
        weights = probabilities(query, key, mask)
        rates, product = like(weights), like(weights)
        nisa.tensor_copy(dst=rates, src=by_head(turned(gradient), turned(value), heads))
        nisa.tensor_tensor(dst=product, data1=weights, data2=rates, op=nl.multiply)
        mean = nl.ndarray((tokens, heads), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=mean, op=nl.add, data=product, axis=2)
        for head in range(heads):
            nisa.scalar_tensor_tensor(
                dst=rates[:, head, :],
                data=rates[:, head, :],
                op0=nl.subtract,
                operand0=mean[:, head : head + 1],
                op1=nl.multiply,
                operand1=weights[:, head, :],
            )
        for part, turn in enumerate((mix(rates, key), mix(rates, query, transposed=True))):
            scaled = nl.ndarray((tokens, features), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=scaled, data=turn, op0=nl.multiply, operand0=HEAD**-0.5)
            nisa.dma_copy(
                dst=result[first : first + tokens, part * features : (part + 1) * features],
                src=rotate(scaled, cosines, sines, back=True),
            )
        store(result[first : first + tokens, 2 * features :], mix(weights, gradient, transposed=True))
    return result


# ---- one token -----------------------------------------------------------------------------------------------------


def outer(column, row):
    """[1, p] and [1, n] -> [p, n] in PSUM, all products."""
    result = nl.ndarray((column.shape[1], row.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=result, stationary=column, moving=row, accumulate=False)
    return result


def with_token(cache, product):
    """The cache, a matrix in HBM, plus ``product``: in SBUF."""
    tile = load(cache)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=product, op=nl.add)
    return tile


def block_diagonal(query, heads):
    """[1, features] -> [features, heads]: the query of head h, over sqrt(32), in column h, rows 32 h to 32 h + 31."""
    column = turned(query)
    result = nl.ndarray((heads * HEAD, heads), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=result, value=0.0)
    for head in range(heads):
        rows = slice(head * HEAD, head * HEAD + HEAD)
        nisa.tensor_scalar(
            dst=result[rows, head : head + 1], data=column[rows, :], op0=nl.multiply, operand0=HEAD**-0.5
        )
    return result


@nki.jit
def attention_step(
    qkv: "1x384:float32",
    cosine: "1x16:float32",
    sine: "1x16:float32",
    here: "1x128:float32",
    mask: "1x128:float32",
    keys: "128x128:float32",
    values: "128x128:float32",
):
    """Attention of one token over those before it and itself.

    qkv: [1, 3 features]; cosine, sine: [1, 16], the rotation at its position; here: [1, tokens], 1 at its position, 0
    elsewhere; mask: [1, tokens], 0 up to its position, MASKED after it; keys: [features, tokens], values:
    [tokens, features], the cache, zero from its position on. Positions are data, so one compiled kernel serves all.
    Returns [1, features], and the rotated key [1, features] for the caller to keep.
    """
    features, tokens = keys.shape
    heads = features // HEAD
    result = nl.ndarray((1, features), dtype=nl.float32, buffer=nl.shared_hbm)
    query, key, value = load_rotated(qkv, 0, 1, load_table(cosine, heads), load_table(sine, heads))
    position = load(here)
    all_keys = with_token(keys, outer(key, position))
    all_values = with_token(values, outer(position, value))

    scores = nl.ndarray((heads, tokens), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=ones(1, heads), moving=load(mask), accumulate=False)
    nisa.nc_matmul(dst=scores, stationary=block_diagonal(query, heads), moving=all_keys, accumulate=True)
    peak = nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf)
    total, weights = like(peak), like(scores)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=scores, axis=1, negate=True)
    nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, bias=peak, reduce_op=nl.add, reduce_res=total)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=total)

    by_token = turned(weights)
    mixed = nl.ndarray((1, features), dtype=nl.float32, buffer=nl.psum)
    for head in range(heads):
        columns = slice(head * HEAD, head * HEAD + HEAD)
        nisa.nc_matmul(
            dst=mixed[:, columns],
            stationary=by_token[:, head : head + 1],
            moving=all_values[:, columns],
            accumulate=False,
        )
    store(result, mixed)
    new_key = nl.ndarray((1, features), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=new_key, src=key)
    return result, new_key
