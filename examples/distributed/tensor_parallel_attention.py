"""Causal self-attention with its heads divided among ranks.

Rank r has some heads: their columns of ``query``, ``key`` and ``value``, the same rows of ``output``. No head needs
another one, so the ranks meet once, to add what their heads give to each token.
"""

from __future__ import annotations

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from examples.distributed.tiles import (
    BANK,
    TILE,
    all_ranks,
    blocks,
    hbm,
    like,
    load,
    load_turned,
    my_share,
    product,
    store,
    transposed,
)

MASKED = -30000.0  # instead of the score of a later token: exp gives 0


def in_sbuf(result, dtype):
    """A result in PSUM as a tile that a product reads."""
    tile = like(result, dtype)
    nisa.tensor_copy(dst=tile, src=result)
    return tile


def softmax_turned(query, key, first, scale):
    """Probabilities of the queries from token ``first`` on over the keys up to each: tiles [128 keys, queries].

    query: [head, queries], key: [head, keys], with no keys behind the last query, so that blocks of the future cost
    nothing.
    """
    scores = in_sbuf(product([query], [key]), nl.float32)
    queries, keys = scores.shape
    masked, weights = like(scores), like(scores)
    nisa.affine_select(
        dst=masked,
        pattern=[[-1, keys]],  # first + query - key
        offset=first,
        channel_multiplier=1,
        on_true_tile=scores,
        on_false_value=MASKED,
        cmp_op=nl.greater_equal,
    )
    peak, total = (nl.ndarray((queries, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=masked, axis=1, negate=True)
    nisa.tensor_scalar(dst=peak, data=peak, op0=nl.multiply, operand0=scale)
    nisa.activation_reduce(
        dst=weights, op=nl.exp, data=masked, scale=scale, bias=peak, reduce_op=nl.add, reduce_res=total
    )
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=total)
    return [in_sbuf(transposed(weights[:, block]), query.dtype) for block in blocks(keys, TILE)]


@nki.jit
def tensor_parallel_attention(
    x: "256x256:float32",
    query: "256x128:float32",
    key: "256x128:float32",
    value: "256x128:float32",
    output: "128x256:float32",
    head=64,
    ranks=2,
):
    """The whole result on every rank.

    x: [tokens <= 512, features], the same on all ranks; query, key, value: [features, features / ranks <= 512], output:
    [features / ranks, features], the heads of this rank, ``head`` <= 128 features each. ``tokens`` and ``features`` are
    multiples of 128.
    """
    (tokens, features), kind = x.shape, x.dtype
    partial, total = hbm(x.shape, nl.float32, "partial"), hbm(x.shape, nl.float32, "total")
    turned, rows, columns = load_turned([x]), blocks(tokens, TILE), blocks(query.shape[1], head)
    wq, wk, wv = ([load(w[part, :]) for part in blocks(features, TILE)] for w in (query, key, value))

    # Keys [head, tokens] and values [128 tokens, all heads] of all tokens: each core needs them, and to compute them
    # twice is cheaper than to exchange them.
    keys = [in_sbuf(product([w[:, h] for w in wk], turned), kind) for h in columns]
    values = [in_sbuf(product([tile[:, part] for tile in turned], wv), kind) for part in rows]
    outputs = [load(output[h, :]) for h in columns]

    # Later queries have more keys; every second block for each core divides the work more evenly than halves do.
    for part in my_share(rows):
        mixed, own = [], [tile[:, part] for tile in turned]
        for number, h in enumerate(columns):
            queries = in_sbuf(product([w[:, h] for w in wq], own), kind)  # [head, 128 tokens]
            weights = softmax_turned(queries, keys[number][:, 0 : part.stop], part.start, head**-0.5)
            mixed.append(in_sbuf(product([v[:, h] for v in values[: len(weights)]], weights), kind))  # as the queries
        for wide in blocks(features, BANK):
            store(partial[part, wide], product(mixed, [w[:, wide] for w in outputs]))

    ncc.all_reduce(srcs=[partial], dsts=[total], replica_group=all_ranks(ranks), op=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part in my_share(rows):
        nisa.dma_copy(dst=out[part, :], src=total[part, :])
    return out
