"""Transfers and replays of a few instructions, and the hardware's way to share, written again packet by packet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nki.cost.queue_replay import Replay
from nki.ir.estimate import Dma, Estimate
from nki.target import GEN3, Target

SLACK = 1e-6
"""Nanoseconds by which sums of the same times in another order may differ."""
ENGINES = 16


def transfer(busy: float, first: int = 0, count: int = ENGINES, dge: str = "sync", alone: float = 0.0) -> Dma:
    """A transfer that keeps ``count`` engines from ``first`` on for ``busy`` ns each, and ``alone`` ns more alone; with
    an issue of 10 ns, 50 ns to the first data, and 7 to the reader.
    """
    times = () if count == ENGINES else tuple(busy * (first <= e < first + count) for e in range(ENGINES))
    return Dma(busy * count / ENGINES, 10.0, 50.0, busy + alone, 7.0, 1, "docs", "test", dge, times)


def replayed(
    queues: Sequence[int],
    estimates: Sequence[Estimate],
    predecessors: dict[int, tuple[int, ...]] | None = None,
    chained: dict[int, tuple[int, ...]] | None = None,
    target: Target = GEN3,
) -> Replay:
    """The replay of instructions without meetings."""
    replay, numbers = Replay(target), range(len(queues))
    waits, chains = ([(each or {}).get(number, ()) for number in numbers] for each in (predecessors, chained))
    assert list(replay.block(queues, estimates, waits, chains)) == []
    return replay


def in_turns(coming: Sequence[tuple[float, int, float]], step: float) -> list[float]:
    """The end of each transfer, which comes at a time to a queue with a share of the whole in ns, if queues take turns
    with packets of ``step`` ns.
    """
    left, ends = [share for _, _, share in coming], [0.0] * len(coming)
    waiting = [number for number, share in enumerate(left) if share]
    time, turn = 0.0, 0
    while waiting:
        first: dict[int, int] = {}
        for number in waiting:
            if coming[number][0] <= time + SLACK:
                first.setdefault(coming[number][1], number)
        if not first:
            time = min(coming[number][0] for number in waiting)
            continue
        queue = min(first, key=lambda queue: (queue - turn) % 5)
        number, turn = first[queue], queue + 1
        packet = min(step, left[number])
        time, left[number] = time + packet, left[number] - packet
        if left[number] <= SLACK:
            ends[number] = time
            waiting.remove(number)
    return ends


def check_spans(times: Sequence[tuple[float, float]], shares: Iterable[float]) -> None:
    """No span of time moves more than all of it can: ``shares`` are the ns of the whole between begin and end."""
    ordered = sorted(zip(times, shares, strict=True), key=lambda each: each[0][1])
    for first, _ in times:
        total = 0.0
        for (begin, end), share in ordered:
            total += share if begin >= first else 0.0
            assert total <= max(0.0, end - first) + SLACK
