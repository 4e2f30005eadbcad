"""Rule cases of the instructions by which cores meet."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa

from .spec import Case, Spec, call, psum, tile

own = nisa.dma_engine.gpsimd_dma


def shared(*shape: int) -> Spec:
    return Spec(*shape, buffer="shared_hbm")


LEGAL: dict[str, dict[str, Any]] = {
    "core_barrier": call(data=shared(4, 8), cores=(0,)),
    "sendrecv": call("src dst", send_to_rank=0, recv_from_rank=0, pipe_id=0),
}
OWN = [
    Case("core_barrier", "GE01", {}, {}, "trn1", "trn2", says="trn1"),
    Case("core_barrier", "CB01", {"cores": (1,)}, {"cores": (0, 1)}, says="(1,)"),
    Case("core_barrier", "CB01", {"cores": (0, 1, 2)}, {"cores": (1, 0)}, says="(0, 1, 2)"),
    Case("core_barrier", "CB02", {"engine": nisa.engine.dma}, {"engine": nisa.engine.sync}, says="dma"),
    Case("core_barrier", "CB03", {"data": Spec(4, 8, buffer="private_hbm")}, {"data": tile(4, 8)}, says="hbm"),
    Case("sendrecv", "GE01", {}, {}, "trn1", "trn2", says="trn1"),
    Case("sendrecv", "BU01", {"src": psum(4, 8)}, says="'the_src'"),
    Case("sendrecv", "BU01", {"dst": shared(4, 8)}, says="'the_dst'"),
    Case("sendrecv", "SP01", {"src": tile(5, 8)}),
    Case("sendrecv", "SE01", {"src": tile(4, 9)}),
    Case("sendrecv", "SR01", {"src": tile(4, 8, dtype="bfloat16")}, says="bfloat16"),
    Case("sendrecv", "SR02", {"src": tile(4, 8)}, {"src": tile(4, 2, 4), "dst": tile(4, 2, 4)}, says="(4, 2, 4)"),
    Case("sendrecv", "SR03", {"send_to_rank": 2}, {"send_to_rank": 1, "recv_from_rank": 1}, says="2"),
    Case("sendrecv", "SR03", {"recv_from_rank": -1}, says="-1"),
    Case("sendrecv", "SR04", {"send_to_rank": 1}, says="recv_from_rank=0"),
    Case(
        "sendrecv",
        "SR05",
        {"src": tile(4, 257), "dst": tile(4, 257), "dma_engine": own},
        {"src": tile(4, 256), "dst": tile(4, 256), "dma_engine": own},
        says="1024",
    ),
    Case(
        "sendrecv",
        "SR05",
        {"src": tile(4, 257, dtype="uint8"), "dst": tile(4, 257, dtype="uint8"), "dma_engine": own},
        {"src": tile(4, 256, dtype="uint8"), "dst": tile(4, 256, dtype="uint8"), "dma_engine": own},
        says="256",
    ),
]
