"""The change that lets iterations of a loop on the device overlap: several of them become one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from nki.base.source import Span
from nki.cost.queue_replay import Replay, run
from nki.ir.estimate import Dma, Estimate
from nki.ir.instruction import Inst
from nki.ir.loop import For
from nki.ir.types import Buffer, Tensor
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.suggestion import Affected
from nki.sim.timing import Block, Part, Repeated, loop_count
from nki.target.model import Target

TOGETHER = 4
"""Iterations that become one, if there are so many and their tiles fit."""

LONGEST = 10_000
"""Instructions of an iteration, at most: longer ones overlap within themselves, and take long to replay."""


@dataclass(frozen=True)
class SerialLoop:
    """A loop with ``together`` iterations that could be one: its ``count`` of iterations, the ns of each now and then,
    its ``line``, and its instructions.
    """

    count: int
    together: int
    now: float
    then: float
    line: Span | None
    affected: tuple[Affected, ...]

    @property
    def seconds(self) -> float:
        """Gain of the change."""
        return self.count * (self.now - self.then) * 1e-9


def serial_loops(profile: PredictedRun) -> Iterator[SerialLoop]:
    """The innermost loops of ``profile`` with iterations that need nothing of each other, on the slowest core.

    Both times are of a replay in which the loop has run before: one iteration, and several as one, each in tiles of
    its own.
    """
    number = max(range(len(profile.cores)), key=lambda n: profile.timeline.cores[n].end)
    core, times = profile.timed.cores[number], profile.timeline.cores[number]
    runs = profile.cores[number].runs.tolist()
    for loop, block in _innermost(core.parts):
        first, end = block.first, block.first + len(block.queues)
        instructions = core.core.numbered[first:end]
        count = runs[first]
        together = min(TOGETHER, count, loop_count(loop) or count, _room(profile, instructions))
        if together < 2 or end - first > LONGEST or block.meetings or _needs_the_one_before(loop, instructions):
            continue
        estimates = times.estimates[first:end]
        now, then = (_ns(block, estimates, profile.target, copies) / copies for copies in (1, together))
        pairs = zip(instructions, estimates, strict=True)
        affected = tuple(Affected(inst, count, each.busy * count) for inst, each in pairs)
        yield SerialLoop(count, together, now, then, loop.where.span, affected)


def _innermost(parts: Collection[Part]) -> Iterator[tuple[For, Block]]:
    """The counted loops with one block as body."""
    for part in parts:
        if not isinstance(part, Repeated):
            continue
        body = part.parts
        if len(body) == 1 and isinstance(body[0], Block) and isinstance(part.loop, For):
            yield part.loop, body[0]
        else:
            yield from _innermost(body)


def _needs_the_one_before(loop: For, instructions: Collection[Inst]) -> bool:
    """Test if an iteration reads what the one before it wrote: in HBM, in registers, in tiles from outside the loop."""
    own = set(loop.tensors)
    stored = {access.tensor for inst in instructions for access in inst.writes() if access.buffer.is_hbm}
    written: set[Tensor] = set()
    changed = {access.tensor for inst in instructions for access in inst.writes()}
    for inst in instructions:
        for access in (*inst.reads(), *inst.indexed_by()):
            tensor = access.tensor
            if tensor in stored or (tensor in changed and tensor not in written and tensor not in own):
                return True
        whole = (access for access in inst.writes() if access.shape == access.tensor.shape and access.dynamic is None)
        written.update(access.tensor for access in whole)
    return False


def _room(profile: PredictedRun, instructions: Collection[Inst]) -> int:
    """The iterations with tiles that fit on chip at once."""
    target = profile.target
    most = {Buffer.sbuf: target.sbuf_usable_partition_bytes, Buffer.psum: target.psum_partition_bytes}
    sizes: defaultdict[Buffer, int] = defaultdict(int)
    for tensor in {access.tensor for inst in instructions for access in inst.writes() if access.buffer in most}:
        sizes[tensor.buffer] += tensor.bytes_per_partition
    peaks = profile.peak_memory
    return min((1 + (most[memory] - peaks[memory.value]) // size for memory, size in sizes.items() if size), default=1)


def _ns(block: Block, estimates: list[Estimate], target: Target, copies: int) -> float:
    """The time of ``copies`` iterations in one, behind another iteration.

    Each instruction of all copies side by side, as a scheduler puts loads in front, or one copy behind the other,
    whichever is faster.
    """
    length = len(estimates)
    one_by_one = [(turn, number) for turn in range(copies) for number in range(length)]
    side_by_side = [(turn, number) for number in range(length) for turn in range(copies)]
    orders = (one_by_one, side_by_side) if copies > 1 else (one_by_one,)
    return min(_replayed(block, estimates, target, order) for order in orders)


def _replayed(block: Block, estimates: list[Estimate], target: Target, order: Sequence[tuple[int, int]]) -> float:
    """The time of copies of a block with instructions in the ``order``, by copy and number, behind the block."""
    replay = Replay(target)
    replay.now += target.sequencer_ns  # the branch
    run(replay.block(block.queues, estimates, block.graph.predecessors, block.graph.chained))
    begin = replay.now
    place = {each: position for position, each in enumerate(order)}
    waits = [tuple(sorted(place[turn, other] for other in block.graph.predecessors[n])) for turn, n in order]
    chained = [tuple(sorted(place[turn, other] for other in block.graph.chained[n])) for turn, n in order]
    behind = max(block.queues) + 1  # each copy has rings of its own
    queues = [block.queues[n] + (turn * behind if isinstance(estimates[n], Dma) else 0) for turn, n in order]
    replay.now += target.sequencer_ns
    run(replay.block(queues, [estimates[n] for _, n in order], waits, chained))
    return replay.now - begin
