"""Experts divided among ranks: each token goes to its expert's rank and comes back (dispatch and combine).

The router chooses one expert per token. An expert takes up to ``capacity`` tokens of each rank, so all messages have
one size, known when the kernel is compiled. A token that finds its expert full gets zeros; the residual of a model
carries it on.
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
    like,
    load,
    load_turned,
    my_share,
    product,
    store,
)

NEVER = -30000.0  # the logit of an expert that does not exist


def choose(rows, weights):
    """For 128 tokens in HBM and the tiles of the router: the number of the best expert and its probability, [128, 1]
    each, and a 1 in its column of [128, experts], at least 8.
    """
    scores = product(load_turned([rows]), weights)
    logits = nl.ndarray((TILE, max(scores.shape[1], 8)), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=logits, value=NEVER)  # max8 wants 8 columns
    nisa.tensor_copy(dst=logits[:, 0 : scores.shape[1]], src=scores)
    largest = nl.ndarray((TILE, 8), dtype=nl.float32, buffer=nl.sbuf)
    place = nl.ndarray((TILE, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.max8(dst=largest, src=logits)
    nisa.nc_find_index8(dst=place, data=logits, vals=largest)
    expert, chance, minus = (nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
    nisa.tensor_copy(dst=expert, src=place[:, 0:1])
    nisa.tensor_scalar(dst=minus, data=largest[:, 0:1], op0=nl.multiply, operand0=-1.0)
    nisa.activation_reduce(dst=like(logits), op=nl.exp, data=logits, bias=minus, reduce_op=nl.add, reduce_res=chance)
    nisa.reciprocal(dst=chance, data=chance)  # exp(largest - largest) is 1

    numbers, chosen = like(logits), like(logits)
    nisa.iota(dst=numbers, pattern=[[1, logits.shape[1]]])
    nisa.tensor_scalar(dst=chosen, data=numbers, op0=nl.equal, operand0=expert)
    return expert, chance, chosen


def choices(x, router):
    """The result of :func:`choose` for each 128 tokens."""
    weights = [load(router[part, :]) for part in blocks(x.shape[1], TILE)]
    return [choose(x[part, :], weights) for part in blocks(x.shape[0], TILE)]


def earlier_tokens(number, chosen):
    """[128, 1]: how many tokens before each one of tile ``number`` chose the same expert.

    Products with a triangle of ones, and with squares of ones for whole tiles before, count them in PSUM.
    """
    square, triangle, own = (nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
    nisa.memset(dst=square, value=1.0)
    nisa.affine_select(  # row before column
        dst=triangle,
        pattern=[[1, TILE]],
        channel_multiplier=-1,
        on_true_tile=square,
        on_false_value=0.0,
        cmp_op=nl.greater,
    )
    counts = product([*[square] * number, triangle], chosen[: number + 1])  # [128, experts]
    own, total = like(chosen[number]), nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=own, data1=counts, data2=chosen[number], op=nl.multiply)
    nisa.tensor_reduce(dst=total, op=nl.add, data=own, axis=1)
    return total


def slots(expert, place, capacity, end):
    """[128, 1] uint32: the row of each token among experts * capacity; ``end`` or more if its expert is full."""
    full, row, slot = like(place), like(place), like(place, nl.uint32)
    nisa.tensor_scalar(
        dst=full, data=place, op0=nl.greater_equal, operand0=float(capacity), op1=nl.multiply, operand1=float(end)
    )
    nisa.scalar_tensor_tensor(
        dst=row, data=expert, op0=nl.multiply, operand0=float(capacity), op1=nl.add, operand1=place
    )
    nisa.tensor_tensor(dst=slot, data1=row, data2=full, op=nl.add)
    return slot


def rows_at(buffer, slot):
    """128 rows of a matrix in HBM at the places that ``slot`` has."""
    width = buffer.shape[1]
    return buffer.ap(pattern=[[width, TILE], [1, width]], vector_offset=slot, indirect_dim=0)


def send(x, sent, chosen, capacity):
    """Copy this core's tokens of x to their slots in ``sent``; returns the slots of each 128 tokens."""
    result = []
    for number in my_share(list(range(len(chosen)))):
        place = earlier_tokens(number, [each for _, _, each in chosen])
        slot = slots(chosen[number][0], place, capacity, sent.shape[0])
        rows = load(x[number * TILE : number * TILE + TILE, :])
        nisa.dma_copy(dst=rows_at(sent, slot), src=rows, oob_mode=nisa.oob_mode.skip)
        result.append(slot)
    return result


def combine(out, returned, chosen, own_slots):
    """Store to ``out``, for this core's tokens, what their experts returned times the probability of the choice."""
    for number, slot in zip(my_share(list(range(len(chosen)))), own_slots, strict=True):
        tile = nl.zeros((TILE, out.shape[1]), dtype=out.dtype)
        nisa.dma_copy(dst=tile, src=rows_at(returned, slot), oob_mode=nisa.oob_mode.skip)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=chosen[number][1])
        nisa.dma_copy(dst=out[number * TILE : number * TILE + TILE, :], src=tile)


def clear(buffer):
    """Zeros in a matrix in HBM, a part by each core."""
    nothing = nl.zeros((TILE, buffer.shape[1]), dtype=buffer.dtype)
    for part in my_share(blocks(buffer.shape[0], TILE)):
        nisa.dma_copy(dst=buffer[part, :], src=nothing[0 : part.stop - part.start, :])
    if nl.num_programs(0) > 1:
        nisa.core_barrier(data=buffer, cores=(0, 1))


def run_experts(received, results, gate, up, down):
    """Each expert of this rank on its tokens from all ranks.

    received, results: [ranks, experts of this rank, capacity, features].
    """
    ranks, experts, capacity, features = received.shape
    for expert in my_share(list(range(experts))):
        rows = blocks(features, TILE)
        turned = load_turned([received[rank, expert] for rank in range(ranks)])
        gates, ups = ([load(w[expert, part, :]) for part in rows] for w in (gate, up))
        inner = gated_hidden(turned, gates, ups)
        downs = [load(down[expert, part, :]) for part in blocks(gate.shape[2], TILE)]
        for rank, part in enumerate(blocks(ranks * capacity, capacity)):
            for wide in blocks(features, BANK):
                outputs = product([tile[:, part] for tile in inner], [w[:, wide] for w in downs])
                store(results[rank, expert, :, wide], outputs)


@nki.jit
def expert_parallel_mlp(
    x: "256x128:float32",
    router: "128x8:float32",
    gate: "4x128x256:float32",
    up: "4x128x256:float32",
    down: "4x256x128:float32",
    capacity=32,
    ranks=2,
):
    """x: [tokens, features], this rank's; router: [features, experts], on all ranks; gate, up: [experts / ranks,
    features, hidden], down: [experts / ranks, hidden, features], the experts of this rank. Returns [tokens, features].

    ``tokens``, ``features`` and ``hidden`` are multiples of 128, ``experts`` up to 512, ``capacity`` up to 128, and
    ranks * capacity up to 512.
    """
    features, (local, experts) = x.shape[1], (gate.shape[0], router.shape[1])
    sent, received, results, returned = (
        hbm((experts * capacity, features), x.dtype, name) for name in ("sent", "received", "results", "returned")
    )
    clear(sent)  # slots that no token takes travel, too
    chosen = choices(x, router)  # on both cores for all tokens: a token's slot depends on those before it
    own_slots = send(x, sent, chosen, capacity)
    ncc.all_to_all(srcs=[sent], dsts=[received], replica_group=all_ranks(ranks), collective_dim=0)
    shape = (ranks, local, capacity, features)
    run_experts(received.reshape(shape), results.reshape(shape), gate, up, down)
    ncc.all_to_all(srcs=[results], dsts=[returned], replica_group=all_ranks(ranks), collective_dim=0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    combine(out, returned, chosen, own_slots)
    return out
