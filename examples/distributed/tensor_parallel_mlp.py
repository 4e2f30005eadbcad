"""A gated MLP with its hidden features divided among ranks: tensor parallel, and sequence parallel.

Rank r has a slice of the hidden features: columns of ``gate`` and ``up``, the same rows of ``down``. Its product is a
sum over its slice only, so the ranks add their products: one all-reduce for two layers, and none between them.
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
    gated_hidden,
    hbm,
    load,
    load_turned,
    my_share,
    product,
    store,
)


def partial_mlp(partial, x, gate, up, down):
    """(silu(x gate) * (x up)) down, into ``partial``, for the hidden features of this rank."""
    tokens, features = x.shape
    gates, ups = ([load(w[rows, :]) for rows in blocks(features, TILE)] for w in (gate, up))
    downs = [load(down[rows, :]) for rows in blocks(gate.shape[1], TILE)]
    for part in my_share(blocks(tokens, TILE)):
        inner = gated_hidden(load_turned([x[part, :]]), gates, ups)
        for columns in blocks(features, BANK):
            store(partial[part, columns], product(inner, [w[:, columns] for w in downs]))


@nki.jit
def tensor_parallel_mlp(
    x: "256x256:float32", gate: "256x256:float32", up: "256x256:float32", down: "256x256:float32", ranks=2
):
    """The whole result on every rank.

    x: [tokens, features], the same on all ranks; gate, up: [features, hidden / ranks], down: [hidden / ranks,
    features], the slice of this rank. Sizes but ``tokens`` are multiples of 128.
    """
    partial, total = hbm(x.shape, nl.float32, "partial"), hbm(x.shape, nl.float32, "total")
    partial_mlp(partial, x, gate, up, down)
    ncc.all_reduce(srcs=[partial], dsts=[total], replica_group=all_ranks(ranks), op=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part in my_share(blocks(x.shape[0], TILE)):
        nisa.dma_copy(dst=out[part, :], src=total[part, :])
    return out


@nki.jit
def sequence_parallel_mlp(
    x: "256x256:float32", gate: "256x256:float32", up: "256x256:float32", down: "256x256:float32", ranks=2
):
    """As above, but x and the result are this rank's tokens, [tokens / ranks, features].

    What lies between such layers (norms, residuals) then works on a part of the tokens. An all-gather and a
    reduce-scatter move as much as the one all-reduce.
    """
    own, features = x.shape
    mine, everyone = hbm(x.shape, x.dtype, "mine"), hbm((ranks * own, features), x.dtype, "everyone")
    partial, total = hbm(everyone.shape, nl.float32, "partial"), hbm(x.shape, nl.float32, "total")
    for part in my_share(blocks(own, TILE)):
        nisa.dma_copy(dst=mine[part, :], src=x[part, :])
    ncc.all_gather(srcs=[mine], dsts=[everyone], replica_group=all_ranks(ranks), collective_dim=0)
    partial_mlp(partial, everyone, gate, up, down)
    ncc.reduce_scatter(srcs=[partial], dsts=[total], replica_group=all_ranks(ranks), collective_dim=0, op=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part in my_share(blocks(own, TILE)):
        nisa.dma_copy(dst=out[part, :], src=total[part, :])
    return out
