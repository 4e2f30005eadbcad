"""An expert on each rank that takes all tokens that choose it: the exchange moves as many as there are, no more.

A rank may get all tokens of all ranks, so the buffers have room for them, and the expert computes all of the room. The
lengths of the messages are numbers of the run (``all_to_all_v``). With a fixed capacity (``expert_parallel.py``) they
are constants, and tokens may find no room.
"""

from __future__ import annotations

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from examples.distributed.expert_parallel import choices, clear, combine, send
from examples.distributed.tensor_parallel_mlp import partial_mlp
from examples.distributed.tiles import TILE, all_ranks, hbm, product


def table_of(counts, slot, ranks):
    """The table of an exchange: elements for each rank, where they start in slots of ``slot`` elements, and room for
    what arrives. ``counts``: [1, ranks] uint32.
    """
    table = nl.ndarray((1, 3, ranks), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=table[:, 0, :], src=counts)
    nisa.iota(dst=table[:, 1, :], pattern=[[slot, ranks]])
    nisa.memset(dst=table[:, 2, :], value=0)
    return table


def elements_sent(chosen, features, ranks):
    """[1, ranks] uint32: elements of the tokens for each rank; a column of ones counts them in PSUM."""
    ones = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    tokens = product([ones] * len(chosen), [each[:, 0:ranks] for _, _, each in chosen])
    counts = nl.ndarray((1, ranks), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=counts, data=tokens, op0=nl.multiply, operand0=float(features))
    return counts


@nki.jit
def dropless_experts(
    x: "256x128:float32",
    router: "128x2:float32",
    gate: "128x256:float32",
    up: "128x256:float32",
    down: "256x128:float32",
    ranks=2,
):
    """x: [tokens, features], this rank's; router: [features, ranks], on all ranks; gate, up: [features, hidden], down:
    [hidden, features], the expert of this rank. Returns [tokens, features]. Sizes but ``ranks`` are multiples of 128.
    """
    tokens, features = x.shape
    sent, received, results, returned = (
        hbm((ranks * tokens, features), x.dtype, name) for name in ("sent", "received", "results", "returned")
    )
    clear(received)  # what does not arrive is computed with, and goes nowhere
    chosen = choices(x, router)
    own_slots = send(x, sent, chosen, tokens)
    there = table_of(elements_sent(chosen, features, ranks), tokens * features, ranks)
    ncc.all_to_all_v(srcs=[sent], dsts=[received], replica_group=all_ranks(ranks), metadata_tensor=there)
    partial_mlp(results, received, gate, up, down)
    back = table_of(there[:, 2, :], tokens * features, ranks)  # as many go back as have come
    ncc.all_to_all_v(srcs=[results], dsts=[returned], replica_group=all_ranks(ranks), metadata_tensor=back)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    combine(out, returned, chosen, own_slots)
    return out
