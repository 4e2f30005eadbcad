"""Programs of several ranks: tensors, steps, and their meaning by the oracles.

Every rank has the same tensors with contents of its own, and runs the same steps; a :class:`ByRank` step gives ranks
other ones. Ranks run one by one until each stands at a collective or has ended. A collective runs when all ranks of its
list stand at one with this list. When none can run, ranks that stand are a deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from tests.isa.oracle import tensor_scalar, tensor_tensor

from . import oracles

Array = np.ndarray[Any, Any]
Groups = tuple[tuple[int, ...], ...]
DTYPES: dict[str, Any] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
}
REDUCING = ("all_reduce", "reduce_scatter", "collective_permute_implicit_reduce")
BY_CHANNEL = ("collective_permute_implicit", "collective_permute_implicit_reduce")
VARIABLE = ("all_to_all_v", "all_gather_v")
_NOTHING = np.empty(0, np.float32)
"""What stands for a tensor of a rank that takes no part."""


class MismatchError(Exception):
    """Ranks of a list stand at calls that do not belong together."""


class WaitsForeverError(Exception):
    """Ranks stand at collectives, and none of them can run."""


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    memory: str
    """``sbuf``, where each core has a tensor of its own, or ``hbm``."""

    def key(self, core: int) -> str:
        """The name of what ``core`` has there."""
        return f"{self.name}@{core}" if core and self.memory == "sbuf" else self.name


@dataclass(frozen=True)
class Operand:
    """A tensor, or the rows (``axis`` 0) or columns (1) ``start`` to ``stop`` of one."""

    tensor: Tensor
    axis: int | None = None
    start: int = 0
    stop: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        if self.axis is None:
            return self.tensor.shape
        return tuple(self.stop - self.start if i == self.axis else n for i, n in enumerate(self.tensor.shape))

    def of(self, memory: Mapping[str, Array], core: int) -> Array:
        whole = memory[self.tensor.key(core)]
        return whole if self.axis is None else whole[(slice(None),) * self.axis + (slice(self.start, self.stop),)]


@dataclass(frozen=True)
class Compute:
    """``dst = data1 op data2``, tensors of one shape and dtype, or ``data1 op number``."""

    dst: Tensor
    data1: Tensor
    op: str
    data2: Tensor | float


@dataclass(frozen=True)
class Copy:
    """By DMA, from any memory to any."""

    dst: Tensor
    src: Tensor


@dataclass(frozen=True)
class RankRow:
    """Row ``rank_id()`` of ``table``, in HBM, into the one row of ``dst``."""

    dst: Tensor
    table: Tensor


@dataclass(frozen=True)
class Call:
    """A collective. ``srcs`` and ``dsts`` are tensors moved at once, or one a channel."""

    kind: str
    srcs: tuple[Operand, ...]
    dsts: tuple[Operand, ...]
    groups: Groups = ()
    op: str = "add"
    dim: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
    others: tuple[Operand, ...] = ()
    """The second sources of ``collective_permute_implicit_reduce``."""
    metadata: Tensor | None = None
    known: bool = False
    rdispls: bool = False

    def members(self, rank: int) -> tuple[int, ...]:
        """The ranks that ``rank`` meets here; none if it takes no part."""
        if self.kind == "collective_permute":
            ranks = tuple(sorted({r for pair in self.pairs for r in pair}))
            return ranks if rank in ranks else ()
        return next((ranks for ranks in self.groups if rank in ranks), ())

    def agreement(self) -> tuple[Any, ...]:
        """All that ranks must have in common."""
        sides = [
            [(int(np.prod(o.shape)), o.tensor.dtype) for o in side] for side in (self.srcs, self.others, self.dsts)
        ]
        op = self.op if self.kind in REDUCING else ""
        return self.kind, sides, op, self.dim, self.pairs, self.known, self.rdispls


@dataclass(frozen=True)
class Split:
    """``call`` prepared, then ``between``, then ``call`` triggered."""

    call: Call
    between: tuple[Step, ...]


@dataclass(frozen=True)
class Ring:
    """Slot r of ``result``, in HBM, becomes what rank r had in ``held``, which walks along the ring.

    ``held`` and ``other`` take turns.
    """

    result: Tensor
    held: Tensor
    other: Tensor
    groups: Groups

    @property
    def hops(self) -> list[Call]:
        """One fewer than there are ranks in a list."""
        buffers = (Operand(self.held), Operand(self.other))
        return [
            Call("collective_permute_implicit", (buffers[i % 2],), (buffers[1 - i % 2],), self.groups)
            for i in range(len(self.groups[0]) - 1)
        ]


@dataclass(frozen=True)
class Loop:
    """``rounds`` of the body; ``kind`` ``loaded`` reads the number of rounds from the tensor of that name."""

    kind: str
    rounds: int | Tensor
    body: tuple[Step, ...]


@dataclass(frozen=True)
class ByRank:
    """Other steps for some ranks, by Python's ``if``."""

    cases: tuple[tuple[tuple[int, ...], tuple[Step, ...]], ...]
    rest: tuple[Step, ...]

    def of(self, rank: int) -> tuple[Step, ...]:
        return next((steps for ranks, steps in self.cases if rank in ranks), self.rest)


Step = Compute | Copy | RankRow | Call | Split | Ring | Loop | ByRank


@dataclass
class Program:
    ranks: int
    tensors: list[Tensor]
    steps: tuple[Step, ...]
    contents: dict[str, list[Array]] = field(default_factory=dict[str, "list[Array]"])
    """Of each tensor and core (:meth:`Tensor.key`), for each rank."""
    made: str = ""
    """What was changed to give ranks other steps."""
    cores: int = 1
    """Of each rank. All run the same steps; the first one alone computes and copies into HBM."""


@dataclass(frozen=True)
class _Arrival:
    """A rank stands at ``call``; ``prepared`` is the metadata that a split form has read."""

    call: Call
    prepared: Array | None = None


def expected(program: Program) -> list[dict[str, Array]]:
    """The tensors of every rank after the program. Raises :class:`MismatchError` or :class:`WaitsForeverError`."""
    filled = program.contents.items()
    memories = [{name: contents[rank].copy() for name, contents in filled} for rank in range(program.ranks)]
    runs = [_run(program.steps, memory, rank, program.cores) for rank, memory in enumerate(memories)]
    at: list[_Arrival | None] = [next(run, None) for run in runs]
    while any(at):
        ready = next((ranks for ranks in _lists(at) if _together(at, ranks)), None)
        if ready is None:
            raise WaitsForeverError(f"{[(rank, a.call) for rank, a in enumerate(at) if a]}")
        _exchange(memories, at, ready, program.cores)
        for rank in ready:
            at[rank] = next(runs[rank], None)
    return memories


def _lists(at: Sequence[_Arrival | None]) -> Iterator[tuple[int, ...]]:
    for rank, arrival in enumerate(at):
        if arrival is not None:
            yield arrival.call.members(rank)


def _together(at: Sequence[_Arrival | None], ranks: tuple[int, ...]) -> bool:
    arrivals = [(rank, at[rank]) for rank in ranks]
    return all(arrival is not None and arrival.call.members(rank) == ranks for rank, arrival in arrivals)


def _run(steps: Sequence[Step], memory: dict[str, Array], rank: int, cores: int) -> Iterator[_Arrival]:
    for step in steps:
        match step:
            case Call():
                if step.members(rank):
                    yield _Arrival(step)
            case Split(call, between):
                assert call.metadata is not None
                read = memory[call.metadata.name].copy()
                yield from _run(between, memory, rank, cores)
                if call.members(rank):
                    yield _Arrival(call, read)
            case Ring():
                for number, hop in enumerate([*step.hops, None]):
                    owner = oracles.current_processing_rank_id(number, step.groups, rank)
                    memory[step.result.name][owner] = memory[(step.held, step.other)[number % 2].name]
                    if hop is not None:
                        yield _Arrival(hop)
            case Loop(_, rounds, body):
                count = int(memory[rounds.name].item()) if isinstance(rounds, Tensor) else rounds
                for _ in range(count):
                    yield from _run(body, memory, rank, cores)
            case ByRank():
                yield from _run(step.of(rank), memory, rank, cores)
            case _:
                for core in range(cores if step.dst.memory == "sbuf" else 1):
                    _local(step, memory, rank, core)


def _local(step: Compute | Copy | RankRow, memory: dict[str, Array], rank: int, core: int) -> None:
    def of(tensor: Tensor) -> Array:
        return memory[tensor.key(core)]

    match step:
        case Compute(dst, data1, op, Tensor() as data2):
            result = tensor_tensor.oracle(of(dst), data1=of(data1), data2=of(data2), op=op)
        case Compute(dst, data1, op, number):
            result = tensor_scalar.oracle(of(dst), data=of(data1), op0=op, operand0=number)
        case Copy(dst, src):
            result = of(src).copy()
        case RankRow(dst, table):
            result = of(table)[rank : rank + 1].copy()
    memory[step.dst.key(core)] = result


def _exchange(
    memories: list[dict[str, Array]], at: Sequence[_Arrival | None], ranks: tuple[int, ...], cores: int
) -> None:
    """Run the collective at which ``ranks`` stand; of tiles, each core with the same core of other ranks."""
    arrivals = [(rank, arrival) for rank in ranks if (arrival := at[rank]) is not None]
    first = arrivals[0][1].call
    if any(arrival.call.agreement() != first.agreement() for _, arrival in arrivals):
        raise MismatchError(f"{[(rank, arrival.call) for rank, arrival in arrivals]}")

    on_chip = first.dsts[0].tensor.memory == "sbuf"
    for core in range(cores if on_chip else 1):
        for number in range(len(first.dsts)):
            results = _moved(first, arrivals, memories, number, core)
            for rank, arrival in arrivals:
                arrival.call.dsts[number].of(memories[rank], core)[...] = results[rank]


def _moved(
    call: Call, arrivals: list[tuple[int, _Arrival]], memories: list[dict[str, Array]], number: int, core: int
) -> oracles.Ranks:
    """What the destinations of every rank hold after operand ``number`` was moved."""

    def tensors(of: str) -> oracles.Ranks:
        """An operand of every rank that takes part; nothing for the others."""
        parts = {rank: getattr(arrival.call, of)[number].of(memories[rank], core) for rank, arrival in arrivals}
        return [parts.get(rank, _NOTHING) for rank in range(len(memories))]

    srcs, dsts = tensors("srcs"), tensors("dsts")
    groups = [[rank for rank, _ in arrivals]]
    match call.kind:
        case "all_reduce" | "reduce_scatter":
            return getattr(oracles, call.kind)(srcs, dsts, groups, call.op)
        case "all_gather":
            return oracles.all_gather(srcs, dsts, groups, call.dim)
        case "all_to_all" | "collective_permute_implicit":
            return getattr(oracles, call.kind)(srcs, dsts, groups)
        case "collective_permute":
            return oracles.collective_permute(srcs, dsts, call.pairs)
        case "collective_permute_implicit_reduce":
            return oracles.collective_permute_implicit_reduce(srcs, tensors("others"), dsts, groups, call.op)
    tables: oracles.Ranks = [_NOTHING] * len(memories)
    prepared = list(tables)
    for rank, arrival in arrivals:
        assert arrival.call.metadata is not None
        tables[rank] = memories[rank][arrival.call.metadata.name]
        prepared[rank] = tables[rank] if arrival.prepared is None else arrival.prepared
    flags = {"recv_counts_known": call.known, "has_rdispls": call.rdispls, "prepared": prepared}
    results, written = getattr(oracles, call.kind)(srcs, dsts, tables, groups, **flags)
    for rank, arrival in arrivals:
        assert arrival.call.metadata is not None
        memories[rank][arrival.call.metadata.name][...] = written[rank]
    return results
