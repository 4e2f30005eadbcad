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


def choose(logits):
    """From logits [128, experts], 8 experts or more: the number of the largest, its probability ([128, 1] each), and a
    1 in its column of [128, experts].
    """
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

    ``tokens``, ``features`` and ``hidden`` are multiples of 128, ``experts`` is 8 to 512, ``capacity`` up to 128, and
    ranks * capacity up to 512.
    """
    features, (local, experts) = x.shape[1], (gate.shape[0], router.shape[1])
    rows, end = blocks(x.shape[0], TILE), experts * capacity
    sent, received, results, returned = (
        hbm((end, features), x.dtype, name) for name in ("sent", "received", "results", "returned")
    )
    nothing = nl.zeros((TILE, features), dtype=x.dtype)
    for part in my_share(blocks(end, TILE)):  # slots that no token takes
        nisa.dma_copy(dst=sent[part, :], src=nothing[0 : part.stop - part.start, :])
    if nl.num_programs(0) > 1:
        nisa.core_barrier(data=sent, cores=(0, 1))

    # Both cores choose for all tokens, because a token's place depends on those before it; each sends its own.
    weights = [load(router[part, :]) for part in blocks(features, TILE)]
    choices = []
    for part in rows:
        logits = nl.ndarray((TILE, experts), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=logits, src=product(load_turned([x[part, :]]), weights))
        choices.append(choose(logits))
    mine, own_slots = my_share(list(range(len(rows)))), []
    for number in mine:
        place = earlier_tokens(number, [chosen for _, _, chosen in choices])
        slot = slots(choices[number][0], place, capacity, end)
        nisa.dma_copy(dst=rows_at(sent, slot), src=load(x[rows[number], :]), oob_mode=nisa.oob_mode.skip)
        own_slots.append(slot)

    ncc.all_to_all(srcs=[sent], dsts=[received], replica_group=all_ranks(ranks), collective_dim=0)
    shape = (ranks, local, capacity, features)
    run_experts(received.reshape(shape), results.reshape(shape), gate, up, down)
    ncc.all_to_all(srcs=[results], dsts=[returned], replica_group=all_ranks(ranks), collective_dim=0)

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for number, slot in zip(mine, own_slots, strict=True):
        tile = nl.zeros((TILE, features), dtype=x.dtype)
        nisa.dma_copy(dst=tile, src=rows_at(returned, slot), oob_mode=nisa.oob_mode.skip)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=choices[number][1])
        nisa.dma_copy(dst=out[rows[number], :], src=tile)
    return out
