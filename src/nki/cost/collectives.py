"""Time of collectives by algorithm, number of ranks and topology, from published figures alone.

A collective takes its start, the steps of its algorithm, and its bytes over the slowest way that they take. It runs
beside the engines: the cores for collectives move it through the DMA engines, which it shares with transfers, one
collective after the other (:class:`nki.ir.estimate.Collective`).

Ranks are numbered chip by chip and node by node. All groups of a replica group are assumed to run at once, so that a
rank has its part of what leaves its chip. A collective among several nodes goes by stages: gathering first between
the nodes, then within; scattering the other way round (documentation, Inter-node Collective Communications). A stage
has the algorithm that is fastest in the model; the documentation says that the runtime chooses so, and names sizes:
mesh below 1 MB, recursive doubling to 56 MB, rings above.

The price knows nothing of ranks that come late, of other programs on the links, and of the dtype: links and the DMA
engines that add have rates in bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from nki.cost.dma_costs import bandwidth
from nki.ir.estimate import Collective
from nki.target.model import Target

Kind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"]
_SOURCE: Final = "rates and steps of the links, and the part of them that collectives sustain, by published figures"


class Stage(NamedTuple):
    """A stage of a collective: its steps, its data on the slowest way, and its part of that on the DMA engines of a
    rank, in ns; ``moved`` is the bytes that these move.
    """

    algorithm: str
    steps_ns: float
    data_ns: float
    dma_ns: float
    moved: float

    @property
    def ns(self) -> float:
        return self.steps_ns + self.data_ns


# Without comparisons and a representation: each would be compiled at every `import nki`.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Level:
    """The ranks that take part in one stage: ``members`` of them on ``places`` (chips, or nodes), up to ``per_place``
    on each.

    ``gbps`` is the rate at which the ranks of one place send to others; ``dma_gbps`` the rate of a rank's DMA engines,
    and ``accumulate`` the part of it that is left if they add. ``crowding``: how many times their bytes the links carry
    if all send to all directly. ``is_node``: the places are chips of a node, and ``pairs``: two ranks of a chip may
    work as one.
    """

    members: int
    per_place: int
    places: int
    gbps: float
    dma_gbps: float
    accumulate: float
    hop_ns: float
    crowding: float
    is_node: bool = False
    pairs: bool = False

    def between(self, members: int, gbps: float, hop_ns: float, crowding: float) -> Level:
        """The level of nodes that are joined: each rank has a group of its own, with one rank on each of them."""
        return Level(members, 1, members, gbps, self.dma_gbps, self.accumulate, hop_ns, crowding)


def ring(level: Level, size: float, *, adds: bool) -> Stage:
    """Each rank passes on what it has received, to one neighbour: ``members - 1`` steps. Each place sends all of
    ``size``, the bytes that a rank has in the end (of a scattering one, in the beginning), but its own part.
    """
    sent = size * (level.members - 1) / level.members
    return _stage(level, "ring", level.members - 1, sent if level.places > 1 else 0.0, sent, adds)


def paired_ring(level: Level, size: float, *, adds: bool) -> Stage:
    """KangaRing: one rank of each two passes on for both. Half of the steps, and a quarter less of memory's accesses
    (a third less, if it ``adds``).
    """
    sent = size * (level.members - 1) / level.members
    accesses = 2 / 3 if adds else 3 / 4
    return _stage(level, "KangaRing", math.ceil(level.members / 2), sent, sent * accesses, adds)


def mesh(level: Level, size: float, *, adds: bool) -> Stage:
    """Each rank sends to all others: a step between places, and one within. Direct ways share links."""
    steps = (level.places > 1) + (level.per_place > 1)
    away = size * (level.members - level.per_place) / level.members * level.crowding
    return _stage(level, "mesh", steps, away, size * (level.members - 1) / level.members, adds)


def recursive_doubling(level: Level, size: float, *, adds: bool) -> Stage:
    """Pairs of places exchange all that they have, then pairs of pairs: as many steps as the logarithm of the places,
    a power of two, and one within. Some ways share links: the model takes the square root of a mesh's ``crowding``.
    """
    steps = round(math.log2(level.places)) + (level.per_place > 1)
    away = size * (level.members - level.per_place) / level.members * math.sqrt(level.crowding)
    return _stage(level, "recursive doubling", steps, away, size * (level.members - 1) / level.members, adds)


def single_step_mesh(level: Level, size: float) -> Stage:
    """All-reduce in one step: each rank sends its whole source to all others, and each adds them."""
    away = size * (level.members - level.per_place) * level.per_place * level.crowding
    return _stage(level, "single-step mesh", 1, away, size * (level.members - 1), adds=True)


def _stage(level: Level, algorithm: str, steps: int, sent: float, moved: float, adds: bool) -> Stage:
    """``sent``: the bytes that leave a place; ``moved``: those that the DMA engines of a rank move."""
    dma_ns = moved / (level.dma_gbps * (level.accumulate if adds else 1.0))
    link_ns = sent / level.gbps
    return Stage(algorithm, steps * level.hop_ns, max(dma_ns, link_ns), dma_ns, moved)


def price(kind: Kind, nbytes: int, ranks: int | Sequence[int], target: Target) -> Collective:
    """The estimate of one group: ``ranks`` by number, or how many from rank 0 on; ``nbytes`` is the source of one rank.

    A ``"permute"`` goes around the ring of ``ranks``, in their order. A group of one rank copies within its memory.
    """
    numbers = range(ranks) if isinstance(ranks, int) else ranks
    if kind == "permute":
        return permuted(nbytes, zip(numbers, [*numbers[1:], numbers[0]], strict=True), target)
    if len(numbers) == 1:
        return _copied(nbytes, target)
    levels = levels_of(numbers, target)
    if kind == "all_gather":
        return _estimate(gathering(levels, nbytes * len(numbers), adds=False), target)
    if kind == "reduce_scatter":
        return _estimate(gathering(levels, nbytes, adds=True), target)
    if kind == "all_reduce":
        return _estimate(reducing(levels, nbytes), target)
    return _estimate([exchanging(levels, nbytes, len(numbers))], target)


def of_groups(kind: Kind, nbytes: int, groups: Iterable[Sequence[int]], target: Target) -> Collective:
    """The estimate of a replica group: its ``groups`` run at once, and the slowest one counts."""
    return _slowest(price(kind, nbytes, ranks, target) for ranks in groups)


def permuted(nbytes: int, pairs: Iterable[tuple[int, int]], target: Target) -> Collective:
    """The estimate of ranks that send ``nbytes`` each, by pairs of source and target: the slowest pair counts.

    Chips of a node are neighbours: a rank sends through one link, or its part of all if the chip has more ranks.
    """
    estimates: list[Collective] = []
    for pair in pairs:
        if pair[0] == pair[1]:
            estimates.append(_copied(nbytes, target))
            continue
        levels = levels_of(pair, target)
        level, gbps = levels[-1], levels[-1].gbps
        if levels[-1].is_node:
            gbps = _links_gbps(target) / max(target.neuronlink_links, _ranks_per_chip(target))
        dma_ns = nbytes / level.dma_gbps
        data_ns = max(dma_ns, nbytes / gbps) if level.places > 1 else dma_ns
        estimates.append(_estimate([Stage("direct", level.hop_ns, data_ns, dma_ns, nbytes)], target))
    return _slowest(estimates)


def levels_of(ranks: Sequence[int], target: Target) -> list[Level]:
    """The levels of a group that have several members: the ranks of a node, the nodes of an UltraServer, and all else.

    Where nodes have unequal parts of a group, the largest counts.
    """
    per_chip, efficiency, hop_ns = _ranks_per_chip(target), target.collective_efficiency, target.neuronlink_hop_ns
    chips = Counter(rank // per_chip for rank in set(ranks))
    nodes = Counter(rank // (per_chip * target.chips_per_node) for rank in set(ranks))
    servers = Counter(node // target.neuronlink_nodes for node in nodes)
    on_chip, joined, apart = max(chips.values()), max(servers.values()), len(servers)
    places = max(Counter(chip // target.chips_per_node for chip in chips).values())
    side = 1.0 if target.neuronlink_is_switched else math.sqrt(places)
    of_node = Level(
        members=max(nodes.values()),
        per_place=on_chip,
        places=places,
        gbps=_links_gbps(target) * on_chip / per_chip,
        dma_gbps=bandwidth(target, cores=target.cores_per_rank) * target.cores_per_rank,
        accumulate=target.dma_accumulate_efficiency,
        hop_ns=hop_ns,
        crowding=max(1.0, side / 2),  # the mean distance on a square torus
        is_node=True,
        pairs=on_chip == per_chip and per_chip % 2 == 0,
    )
    nodes_gbps = target.neuronlink_nodes_gbps * efficiency / per_chip
    efa_gbps = target.efa_chip_gbps * efficiency / per_chip
    of_server = of_node.between(joined, nodes_gbps, hop_ns, max(1.0, joined / 4))  # the mean distance on a ring
    of_all = of_node.between(apart, efa_gbps, target.efa_hop_ns, target.efa_mesh_congestion)
    return [level for level in (of_node, of_server, of_all) if level.members > 1]


def gathering(levels: Sequence[Level], size: float, *, adds: bool) -> list[Stage]:
    """The stages of gathering ``size`` bytes on each rank; if it ``adds``, of scattering as many, which takes the same
    ways back.
    """
    stages: list[Stage] = []
    for level in levels:
        stages.append(fastest(level, size, adds=adds))
        size /= level.members
    return stages


def reducing(levels: Sequence[Level], size: float) -> list[Stage]:
    """The stages of an all-reduce of ``size`` bytes: scattering within a node, all-reduce of a part between nodes,
    gathering within.
    """
    *inner, outer = levels
    part = size / math.prod(level.members for level in inner)
    two_steps = [fastest(outer, part, adds=adds) for adds in (True, False)]
    one_step = single_step_mesh(outer, part)
    outermost = [one_step] if one_step.ns < sum(stage.ns for stage in two_steps) else two_steps
    return [*gathering(inner, size, adds=True), *outermost, *gathering(inner, size, adds=False)]


def exchanging(levels: Sequence[Level], size: float, ranks: int) -> Stage:
    """The stage of an all-to-all of ``size`` bytes on each of ``ranks``: each sends to all others at once, and copies
    what it keeps.
    """
    chunk, inner, link_ns = size / ranks, 1, 0.0
    for level in levels:
        sent = level.per_place * (level.members - level.per_place) * inner * chunk * level.crowding
        link_ns = max(link_ns, sent / level.gbps)
        inner *= level.members
    dma_ns = size / levels[0].dma_gbps
    return Stage("mesh", levels[-1].hop_ns, max(link_ns, dma_ns), dma_ns, size)


def fastest(level: Level, size: float, *, adds: bool) -> Stage:
    """The stage with the algorithm that takes least time."""
    algorithms = [mesh, ring]
    if level.places > 1 and level.places & (level.places - 1) == 0:
        algorithms.append(recursive_doubling)
    if level.places > 1 and level.pairs:
        algorithms.append(paired_ring)
    return min((algorithm(level, size, adds=adds) for algorithm in algorithms), key=lambda stage: stage.ns)


def _ranks_per_chip(target: Target) -> int:
    return max(1, target.cores_per_chip // target.cores_per_rank)


def _links_gbps(target: Target) -> float:
    """The rate that collectives sustain on all links of a chip to others of its node."""
    return target.neuronlink_chip_gbps * target.collective_efficiency


def _slowest(estimates: Iterable[Collective]) -> Collective:
    return max(estimates, key=lambda estimate: estimate.latency)


def _copied(nbytes: int, target: Target) -> Collective:
    """A copy within the memory of one rank, which needs no other."""
    ns = nbytes / (bandwidth(target, cores=target.cores_per_rank) * target.cores_per_rank)
    issue, start, completion = target.sequencer_ns, target.dma_static_start_ns, target.dma_completion_ns
    return Collective(ns, issue, start, ns, completion, nbytes, "measured", "a copy by the DMA engines")


def _estimate(stages: Sequence[Stage], target: Target) -> Collective:
    issue = target.sequencer_ns + target.collective_start_ns + sum(stage.steps_ns for stage in stages)
    return Collective(
        occupancy=sum(stage.dma_ns for stage in stages),
        issue=issue,
        start=0.0,
        transfer=sum(stage.data_ns for stage in stages),
        completion=target.dma_completion_ns,
        bytes=round(sum(stage.moved for stage in stages)),
        kind="guess",
        source=f"{', '.join(stage.algorithm for stage in stages)}: {_SOURCE}",
    )
