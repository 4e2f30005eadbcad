"""Queues and instructions that share a resource in a basic block, and the order in which they come to it.

Software generates descriptors on GpSimd, so GpSimd's instructions and those transfers take turns. Scalar commands one
of the hardware generators: its sequencer is held until the descriptors are made (profiles of trn2: 540-550 ns), while
the instruction before may still compute (Trainium2 Architecture Guide for NKI, DGE: "hidden behind earlier compute
instructions"). So a transfer that Scalar commands begins once the instruction before it has begun, and the instruction
behind it begins when the descriptors are made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from nki.cost.dma_costs import SOFTWARE
from nki.cost.sharing import DataQueue
from nki.ir.estimate import Compute, Dma, Estimate

SCALAR: Final = "scalar"
"""The compute engine that commands a hardware generator; the other one is Sync's, which computes nothing."""
_MEETINGS: Final = "meetings"
OWN_DMA: Final = "own DMA"
"""The data queue of GpSimd's own DMA, which does not use the DMA engines."""


def data_queue(estimate: Dma, ring: int) -> DataQueue:
    """The queue of the DMA engines in which a transfer waits: its generator's, else its ring."""
    if not estimate.occupancy:
        return OWN_DMA
    return estimate.dge or ring


def contention(
    queues: Sequence[int], estimates: Sequence[Estimate], by_id: Mapping[int, Estimate]
) -> tuple[bool, bool]:
    """Test if several data queues share the bandwidth, and if engines share a port; ``by_id``: estimates by id."""
    data_queues: set[DataQueue] = set()
    users: dict[str, int] = {}
    shares_ports = False
    for queue, number in set(zip(queues, map(id, estimates), strict=True)):
        estimate = by_id[number]
        if isinstance(estimate, Dma):
            data_queues.add(data_queue(estimate, queue))
        elif isinstance(estimate, Compute):
            for port in estimate.ports:
                if users.setdefault(port, queue) != queue:
                    shares_ports = True
    return len(data_queues) > 1, shares_ports


def by_queue(order: Iterable[int], queues: Sequence[int], count: int) -> list[Sequence[int]]:
    """The instructions of each queue."""
    threads: list[list[int]] = [[] for _ in range(count)]
    for number in order:
        threads[queues[number]].append(number)
    return list(threads)


def on_generator(estimates: Sequence[Estimate], by_id: Mapping[int, Estimate]) -> Mapping[int, str]:
    """The instructions of GpSimd and of Scalar, with the engine's name, if it generates descriptors beside them."""
    names = {each.dge for each in by_id.values() if isinstance(each, Dma)} & {SOFTWARE, SCALAR}
    if not names:
        return {}
    return {n: each.resource for n, each in enumerate(estimates) if each.resource in names and each.occupancy}


def before(
    order: Iterable[int], estimates: Sequence[Estimate], taking_turns: Mapping[int, str], meetings: Collection[int]
) -> dict[int, int]:
    """Of each transfer, and of each instruction ``taking_turns``: what its generator does before it. Of other
    ``meetings`` with another core: the one before, so that both cores tell of theirs in the order of the program.
    """
    result: dict[int, int] = {}
    last: dict[str, int] = {}
    for number in order:
        estimate = estimates[number]
        generator = estimate.dge if isinstance(estimate, Dma) else taking_turns.get(number)
        generator = generator or (_MEETINGS if number in meetings else "")
        if generator:
            result[number] = last.get(generator, -1)
            last[generator] = number
    return result
