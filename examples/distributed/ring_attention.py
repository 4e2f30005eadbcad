"""Ring attention: a long sequence divided among ranks, keys and values pass from rank to rank.

Each rank keeps its queries. In each step it works on the block of keys and values that it has, while the next one is on
its way from its predecessor. No rank ever has all keys: a running maximum and sum make the softmax of what has passed.
"""

from __future__ import annotations

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from examples.distributed.tiles import (
    TILE,
    all_ranks,
    blocks,
    hbm,
    like,
    load,
    load_turned,
    my_share,
    product,
    transposed,
)

MASKED = -30000.0  # added to the score of a later token: exp gives 0


def column(value):
    """[128, 1], one number per query."""
    tile = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=value)
    return tile


class Running:
    """Softmax over the keys so far of one block of queries: maximum, sum and mixed values, not yet divided."""

    def __init__(self, width):
        self.peak, self.total = column(MASKED), column(0.0)
        self.mixed = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=self.mixed, value=0.0)

    def add(self, scores, values):
        """Take in scores [queries, keys] and the tiles [128 keys, width] of their values."""
        peak, minus, shrink, total, weights = column(0.0), column(0.0), column(0.0), column(0.0), like(scores)
        nisa.tensor_reduce(dst=peak, op=nl.maximum, data=scores, axis=1)
        nisa.tensor_tensor(dst=peak, data1=peak, data2=self.peak, op=nl.maximum)
        nisa.tensor_scalar(dst=minus, data=peak, op0=nl.multiply, operand0=-1.0)
        nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, bias=minus, reduce_op=nl.add, reduce_res=total)
        # What was summed with the old maximum shrinks to the new one.
        nisa.activation(dst=shrink, op=nl.exp, data=self.peak, bias=minus)
        nisa.scalar_tensor_tensor(
            dst=self.total, data=self.total, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=total
        )
        turned = []
        for part in blocks(scores.shape[1], TILE):
            tile = nl.ndarray((TILE, TILE), dtype=values[0].dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=transposed(weights[:, part]))
            turned.append(tile)
        nisa.scalar_tensor_tensor(
            dst=self.mixed,
            data=self.mixed,
            op0=nl.multiply,
            operand0=shrink,
            op1=nl.add,
            operand1=product(turned, values),
        )
        self.peak = peak

    def store(self, destination):
        inverse, result = column(0.0), like(self.mixed, destination.dtype)
        nisa.reciprocal(dst=inverse, data=self.total)
        nisa.tensor_scalar(dst=result, data=self.mixed, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=destination, src=result)


def first_tokens(ranks, tokens):
    """[ranks, 128] in HBM: row r holds the position of the first token of rank r.

    A register is a row number and nothing else on the device, so arithmetic with a rank begins with a table.
    """
    numbers = nl.ndarray((ranks, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=numbers, pattern=[[0, TILE]], channel_multiplier=tokens)
    table = nl.ndarray((ranks, TILE), dtype=nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(dst=table, src=numbers)
    return table


def first_token_of(rank, table):
    """[128, 1]: row ``rank``, a register, of the table, down the partitions."""
    tile = column(0.0)
    nisa.dma_copy(dst=tile, src=table.ap(pattern=[[1, TILE], [1, 1]], scalar_offset=rank, indirect_dim=0))
    return tile


def distances(part, keys):
    """[128, keys]: query - key, as numbers within the block of one rank, for the queries of ``part``."""
    tile = nl.ndarray((TILE, keys), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=tile, pattern=[[-1, keys]], offset=part.start, channel_multiplier=1)
    return tile


def masked(scores, distance, lead):
    """``scores``, plus MASKED where the key comes after the query. ``lead``: [128, 1], by how many tokens this rank's
    block is behind the block of the keys.
    """
    result, later = like(scores), like(scores)
    nisa.tensor_scalar(dst=later, data=distance, op0=nl.add, operand0=lead, op1=nl.less, operand1=0.0)
    nisa.scalar_tensor_tensor(dst=result, data=later, op0=nl.multiply, operand0=MASKED, op1=nl.add, operand1=scores)
    return result


def scaled_queries(query):
    """[128, width] in HBM -> [width, 128] over sqrt(width), so that no score is scaled."""
    turned = load_turned([query])[0]
    nisa.tensor_scalar(dst=turned, data=turned, op0=nl.multiply, operand0=query.shape[1] ** -0.5)
    return [turned]


def keys_and_values(buffer, tokens, width):
    """The two halves of a buffer: keys [width, tokens], turned once before they travel, and values [tokens, width]."""
    return buffer[0].reshape((width, tokens)), buffer[1].reshape((tokens, width))


@nki.jit
def ring_attention(query: "512x64:float32", key: "512x64:float32", value: "512x64:float32", causal=True, ranks=2):
    """softmax(query key.T / sqrt(width)) value for this rank's tokens; all are [tokens / ranks, width <= 128], rank r
    has the r-th block of the sequence. Tokens of a rank: a multiple of 128, up to 512.
    """
    tokens, width = query.shape
    parts, group = blocks(tokens, TILE), all_ranks(ranks)
    # Two buffers: one is read while the other one receives.
    buffers = [hbm((2, tokens * width), key.dtype, name) for name in ("even", "odd")]
    first = keys_and_values(buffers[0], tokens, width)
    for part in my_share(parts):
        nisa.dma_copy(dst=first[0][:, part], src=load_turned([key[part, :]])[0])
        nisa.dma_copy(dst=first[1][part, :], src=value[part, :])
    if causal:
        table = first_tokens(ranks, tokens)
        mine = first_token_of(ncc.rank_id(), table)
        apart = [distances(part, tokens) for part in my_share(parts)]

    queries = [scaled_queries(query[part, :]) for part in my_share(parts)]
    running = [Running(width) for _ in queries]
    for step in range(ranks):
        here, there = buffers[step % 2], buffers[1 - step % 2]
        if step < ranks - 1:  # begins now and runs beside the arithmetic below
            ncc.collective_permute_implicit(srcs_by_channel=[[here]], dsts_by_channel=[[there]], replica_group=group)
        travelled = keys_and_values(here, tokens, width)
        keys, values = [load(travelled[0])], [load(travelled[1][part, :]) for part in parts]
        if causal:
            owner = ncc.collective_permute_implicit_current_processing_rank_id(step, group)
            lead = like(mine)
            nisa.tensor_tensor(dst=lead, data1=mine, data2=first_token_of(owner, table), op=nl.subtract)
        for number, softmax in enumerate(running):
            scores = product(queries[number], keys)
            # The own block comes first, so each query has met a key; a block of the future then adds exp(-30000), zero.
            # All ranks take the same steps, whatever their place in the sequence.
            softmax.add(masked(scores, apart[number], lead) if causal else scores, values)

    out = nl.ndarray(query.shape, dtype=query.dtype, buffer=nl.shared_hbm)
    for number, part in enumerate(my_share(parts)):
        running[number].store(out[part, :])
    return out
