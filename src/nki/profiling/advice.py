"""Advice: changes of a kernel, each with its evidence and its worth.

The worth of a change is the difference of two runs of the model: the kernel as it is, and with the estimates that the
change would give its instructions. Remedies are those of the public NKI performance and DMA guides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nki.base.dtype import float32
from nki.base.source import Span
from nki.cost.dma import bandwidth, contiguous_bytes
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer
from nki.sim.timing import Revision, TimedCore
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.profiling.profile import Profile

LEAST_WORTH = 0.02
"""Least part of the latency that advice is worth."""
GOOD_ROW = 2048
"""Bytes of a row from which on a transfer is efficient (NKI DMA bandwidth guide: 2 KiB at least, 4 KiB to saturate)."""


@dataclass(frozen=True)
class Advice:
    """One change: what the profile shows (``evidence``), the documented ``remedy``, the ``seconds`` that the model
    expects to gain, and the ``lines`` that it is about.
    """

    title: str
    evidence: str
    remedy: str
    seconds: float
    lines: tuple[Span, ...]


class _Change(Revision):
    """A change of some instructions, chosen and re-estimated one by one."""

    title: str
    remedy: str

    def __init__(self, target: Target) -> None:
        self.target = target
        self.found: list[Inst] = []

    def evidence(self) -> str:
        """The finding in numbers."""
        raise NotImplementedError

    def applies(self, profile: Profile) -> bool:
        """Test if the kernel has an instruction that the change is about, without a replay."""
        probe = type(self)(self.target)
        for core, times in zip(profile.timed.cores, profile.timeline.cores, strict=True):
            probe.estimates(core, times.estimates)
            probe.unbound(core)
        return bool(probe.found)

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result = list(estimates)
        numbered = core.core.numbered
        decided: dict[tuple[int, int], Estimate | None] = {}  # by kind, and by estimate: held weights have another
        for number, kind in enumerate(core.kinds):
            estimate = estimates[number]
            key = kind, id(estimate)
            if key not in decided:
                decided[key] = self.estimate(numbered[number], estimate, core)
            changed = decided[key]
            if changed is not None:
                self.found.append(numbered[number])
                result[number] = changed
        return result

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:
        """The estimate of ``inst`` after the change; None if the change does not touch it. Instructions with one
        signature are asked about once.
        """
        raise NotImplementedError


def _hbm_side(inst: Inst) -> tuple[Access, Access] | None:
    """The HBM and the SBUF operand of a transfer between the two."""
    outside = [a for a in inst.accesses() if a.buffer.is_hbm]
    inside = [a for a in inst.accesses() if a.buffer is Buffer.sbuf]
    return (outside[0], inside[0]) if len(outside) == len(inside) == 1 else None


def _run(inst: Inst) -> int:
    """Bytes of the shorter contiguous runs of a transfer."""
    return min((contiguous_bytes(access) for access in inst.accesses()), default=0)


class _ShortRows(_Change):
    title = "Short rows in DMA transfers"
    remedy = (
        "load more columns in one nisa.dma_copy, so that each partition receives 2 KiB or more, and slice the tile in "
        "SBUF; let the fastest dimension in HBM be the free dimension of the tile"
    )

    def evidence(self) -> str:
        rows = [_run(inst) for inst in self.found]
        return f"{len(rows)} transfers move rows of {min(rows)} to {max(rows)} bytes; efficient ones have {GOOD_ROW}"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if not estimate.transfer or _hbm_side(inst) is None or not 0 < (row := _run(inst)) < GOOD_ROW:
            return None
        share = row / GOOD_ROW
        occupancy = min(estimate.occupancy, estimate.bytes / bandwidth(self.target))
        transfer = min(estimate.transfer, max(occupancy, self.target.dma_spread_ns * share))
        issue = estimate.issue * share
        latency = estimate.latency - (estimate.issue - issue) - (estimate.transfer - transfer)
        return replace(estimate, occupancy=occupancy, transfer=transfer, issue=issue, latency=latency)


class _FewPartitions(_Change):
    title = "Transfers of few partitions"
    remedy = "let a tile use all 128 partitions: each DMA engine serves eight of them, and the others stand still"

    def evidence(self) -> str:
        counts = [tile.partitions for inst in self.found if (pair := _hbm_side(inst)) for tile in pair[1:]]
        return f"{len(counts)} transfers use {min(counts)} to {max(counts)} partitions"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        pair = _hbm_side(inst)
        if not estimate.transfer or pair is None or pair[1].partitions > self.target.partitions // 2:
            return None
        if estimate.transfer < 2 * estimate.occupancy:
            return None
        latency = estimate.latency - estimate.transfer + estimate.occupancy
        return replace(estimate, transfer=estimate.occupancy, latency=latency)


class _OneByOne(_Change):
    """A change for which instructions of one signature differ."""

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result = list(estimates)
        for number, inst in enumerate(core.core.numbered):
            if estimates[number].transfer and (changed := self.estimate(inst, estimates[number], core)) is not None:
                self.found.append(inst)
                result[number] = changed
        return result


class _Reloads(_OneByOne):
    title = "Inputs loaded again"
    remedy = (
        "keep the tile in SBUF: move its load out of the inner loops, or block the loops so that each tile is used as "
        "often as it fits"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.seen: set[tuple[object, ...]] = set()
        self.bytes = 0

    def evidence(self) -> str:
        names = sorted({pair[0].name for inst in self.found if (pair := _hbm_side(inst))})
        shown = ", ".join(f"'{name}'" for name in names[:3]) + (", …" if len(names) > 3 else "")
        return f"{len(self.found)} transfers load parts of {shown} that were loaded before, {self.bytes / 1e6:.1f} MB"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:
        pair = _hbm_side(inst)
        if not estimate.transfer or pair is None or pair[0].tensor.role != "input" or pair[0] not in inst.reads():
            return None
        source = pair[0]
        key = (core.core.rank, source.tensor.name, source.offset, source.shape, source.strides)
        if source.dynamic is not None or key not in self.seen:
            self.seen.add(key)
            return None
        self.bytes += estimate.bytes
        return replace(estimate, occupancy=0.0, issue=0.0, start=0.0, transfer=1e-3, latency=1e-3, generator="")


class _NoDoubleBuffers(_Change):
    title = "Loads wait for their memory"
    remedy = (
        "give the loop two or more tiles to load into in turn (double buffering), or smaller tiles, so that the next "
        "load runs while the engines use the tile before"
    )

    def evidence(self) -> str:
        return f"{len(self.found)} loads wait until engines have used what lies in the memory that they write"

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:  # noqa: ARG002
        return estimates

    def unbound(self, core: TimedCore) -> Collection[int]:
        numbers: set[int] = set()
        for number, inst in enumerate(core.core.numbered):
            pair = _hbm_side(inst)
            if pair is not None and pair[1] in inst.writes():
                numbers.add(number)
                self.found.append(inst)
        return numbers


class _Descriptors(_OneByOne):
    title = "One generator of DMA descriptors"
    remedy = (
        "use fewer, larger transfers; or let part of them take another way: dge_mode=nisa.dge_mode.hwdge with "
        "engine=nisa.engine.scalar, or nisa.dge_mode.swdge"
    )

    def evidence(self) -> str:
        issue = self.target.dma_trigger_ns
        return f"{len(self.found)} transfers follow each other at {issue:.0f} ns or more, however small they are"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if not estimate.generator:
            return None
        return replace(estimate, generator=f"{estimate.generator} {len(self.found) % 2}")


class _Chains(_Change):
    title = "Instructions that need the result of the one before on their engine"
    remedy = "interleave two independent chains (two tiles), so that one fills the pipeline while the other waits"

    def evidence(self) -> str:
        return f"{len(self.found)} instructions leave their engine's pipeline before the next one can use the result"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        return replace(estimate, dependent=0.0) if estimate.dependent > 0 and not estimate.transfer else None


class _FewLanes(_Change):
    title = "Vector and Scalar instructions on few partitions"
    remedy = "lay tiles out over 128 partitions: an instruction takes as long for one partition as for all"

    def evidence(self) -> str:
        return f"{len(self.found)} instructions work on at most {self.target.partitions // 2} partitions"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if estimate.resource not in ("vector", "scalar"):
            return None
        tiles = [access for access in inst.accesses() if access.free_elements > 1 and access.buffer.on_chip]
        lanes = max((access.partitions for access in tiles), default=self.target.partitions)
        if lanes > self.target.partitions // 2:
            return None
        share = lanes / self.target.partitions
        saved = estimate.occupancy * (1 - share)
        return replace(estimate, occupancy=estimate.occupancy - saved, latency=estimate.latency - saved)


class _Transposes(_Change):
    title = "Transposes on the Tensor engine"
    remedy = (
        "keep the operand transposed in HBM, choose which operand of nc_matmul is stationary so that no transpose is "
        "needed, or load with nisa.dma_transpose"
    )

    def evidence(self) -> str:
        return f"{len(self.found)} instructions of the Tensor engine only move data"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        return replace(estimate, occupancy=0.0, load=0.0) if estimate.moves and estimate.flops else None


class _Float32Products(_Change):
    title = "Products of float32"
    remedy = "convert the operands to bfloat16 if the result allows it: the Tensor engine is four times as fast"

    def evidence(self) -> str:
        return f"{len(self.found)} products have float32 operands"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        operands = [access for access in inst.reads() if access.buffer is Buffer.sbuf]
        if not estimate.flops or estimate.moves or all(access.dtype is not float32 for access in operands):
            return None
        saved = estimate.occupancy * (1 - 1 / estimate.passes)
        return replace(estimate, occupancy=estimate.occupancy - saved, latency=estimate.latency - saved)


class _Tables(_Change):
    title = "Swaps of activation tables"
    remedy = "run all activations of one function before those of another, so that each table is loaded once"

    def evidence(self) -> str:
        return f"{len(self.found)} activations use tables of their own, and the Scalar engine swaps them"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        return replace(estimate, table="one") if estimate.table else None


class _Eviction(_Change):
    title = "Sums leave PSUM through the busiest engine"
    remedy = "give a part of the copies from PSUM to the other engine: engine=nisa.engine.vector or nisa.engine.scalar"

    def __init__(self, target: Target, busiest: str) -> None:
        super().__init__(target)
        self.busiest = busiest

    def applies(self, profile: Profile) -> bool:  # noqa: ARG002
        return True

    def evidence(self) -> str:
        return f"{len(self.found)} copies from PSUM run on {self.busiest}, the busiest engine"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if estimate.resource != self.busiest or inst.as_copy() is None:
            return None
        if all(access.buffer is not Buffer.psum for access in inst.reads()):
            return None
        return replace(estimate, occupancy=estimate.occupancy / 2)


_CHANGES: tuple[Callable[[Target], _Change], ...] = (
    _ShortRows,
    _FewPartitions,
    _Reloads,
    _NoDoubleBuffers,
    _Descriptors,
    _Chains,
    _FewLanes,
    _Transposes,
    _Float32Products,
    _Tables,
)


def advise(profile: Profile) -> list[Advice]:
    """The changes that are worth at least :data:`LEAST_WORTH` of the latency, the greatest worth first."""
    target = profile.target
    changes = [change(target) for change in _CHANGES]
    engines = [use for use in profile.engines if use.engine in ("vector", "scalar")]
    if engines:
        changes.append(_Eviction(target, max(engines, key=lambda use: use.busy).engine))
    advice: list[Advice] = []
    for change in changes:
        if not change.applies(profile):
            continue
        seconds = (profile.timeline.ns - profile.timed.run(target, change).ns) * 1e-9
        if seconds >= LEAST_WORTH * profile.latency:
            advice.append(Advice(change.title, change.evidence(), change.remedy, seconds, _lines(change.found)))
    advice += _about_the_clock(profile)
    return [*sorted(advice, key=lambda each: -each.seconds), *_about_overlap(profile)]


def _about_the_clock(profile: Profile) -> Iterable[Advice]:
    """Advice about the throttled clock of the Tensor engine."""
    throttled = [use for use in profile.engines if use.engine == "tensor" and use.throttled > 0]
    if throttled:
        unthrottled = profile.what_if(tensor_throttle_fraction=1.0)
        seconds = profile.device_time - unthrottled.device_time
        if seconds >= LEAST_WORTH * profile.latency:
            share = sum(use.throttled for use in throttled) / sum(use.busy for use in throttled)
            yield Advice(
                "The Tensor engine runs at a throttled clock",
                f"{share:.0%} of its busy time is due to the clock, which rises after a window of 3.4 us with few gaps",
                "close the gaps between products: load ahead, so that the engine always has work",
                seconds,
                (),
            )


def _about_overlap(profile: Profile) -> Iterable[Advice]:
    """Advice about engines that wait for each other. Its worth is a bound, so it comes last."""
    busiest = max(profile.engines, key=lambda use: use.busy, default=None)
    if busiest is not None:
        seconds = profile.device_time - max(busiest.busy * 1e-9, 0.0)
        if busiest.busy < 0.5 * profile.timeline.ns and len(profile.engines) > 1:
            yield Advice(
                "Engines work one after the other",
                f"the busiest engine, {busiest.engine}, works {busiest.busy / profile.timeline.ns:.0%} of the time",
                "split the work into more tiles, so that loads, products and other instructions of different tiles "
                "overlap; at best the kernel takes as long as its busiest engine",
                seconds,
                (),
            )


def _lines(instructions: Iterable[Inst]) -> tuple[Span, ...]:
    """The lines of ``instructions``, those with most of them first; at most five."""
    counts: defaultdict[tuple[str, int], int] = defaultdict(int)
    for inst in instructions:
        if (span := inst.where.span) is not None:
            counts[span.file, span.line] += 1
    order = sorted(counts, key=lambda place: -counts[place])
    return tuple(Span(file, line) for file, line in order[:5])
