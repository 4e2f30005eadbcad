"""Changes of a kernel that advice proposes: which instructions they are about, and the estimates that they give them.

Remedies are those of the public NKI performance and DMA guides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nki.base.dtype import float32
from nki.cost.dma import bandwidth, contiguous_bytes
from nki.cost.replay import table_ns
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor, is_row_indexed
from nki.sim.timing import NO_QUEUE, Revision, TimedCore
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.profiling.profile import Profile

GOOD_ROW = 2048
"""Bytes of a row from which on a transfer is efficient (NKI DMA bandwidth guide: 2 KiB at least, 4 KiB to saturate)."""


class _Revised(Revision):
    """A revision whose answers for each core are known."""

    def __init__(self) -> None:
        self.by_core: dict[TimedCore, tuple[list[Estimate], Collection[int], Mapping[int, int]]] = {}

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:  # noqa: ARG002
        return self.by_core[core][0]

    def unbound(self, core: TimedCore) -> Collection[int]:
        return self.by_core[core][1]

    def queues(self, core: TimedCore) -> Mapping[int, int]:
        return self.by_core[core][2]


class Change(Revision):
    """A change of some instructions, chosen and re-estimated one by one."""

    title: str
    remedy: str

    def __init__(self, target: Target) -> None:
        self.target = target
        self.found: list[Inst] = []

    def evidence(self) -> str:
        """The finding in numbers."""
        raise NotImplementedError

    def revised(self, profile: Profile) -> Revision:
        """The change of the instructions of ``profile``, which are asked about once: here, and in no replay."""
        revised = _Revised()
        for core, times in zip(profile.timed.cores, profile.timeline.cores, strict=True):
            estimates = self.estimates(core, times.estimates)
            revised.by_core[core] = estimates, self.unbound(core), self.queues(core)
        return revised

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
    """The HBM and the SBUF operand of a transfer between the two, of whole rows that lie at known places."""
    outside = inside = None
    for access in inst.accesses():
        if is_row_indexed(access):
            return None
        buffer = access.tensor.buffer
        if buffer.is_hbm:
            if outside is not None:
                return None
            outside = access
        elif buffer is Buffer.sbuf:
            if inside is not None:
                return None
            inside = access
    return None if outside is None or inside is None else (outside, inside)


def _run(inst: Inst) -> int:
    """Bytes of the shorter contiguous runs of a transfer."""
    return min((contiguous_bytes(access) for access in inst.accesses()), default=0)


class _OneByOne(Change):
    """A change for which instructions of one signature differ."""

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result = list(estimates)
        for number, inst in enumerate(core.core.numbered):
            changed = self.estimate(inst, estimates[number], core)
            if changed is not None:
                self.found.append(inst)
                result[number] = changed
        return result


class _ShortRows(_OneByOne):
    title = "Short rows in DMA transfers"
    remedy = (
        "load more columns in one nisa.dma_copy, so that each partition receives 2 KiB or more, and slice the tile in "
        "SBUF; let the fastest dimension in HBM be the free dimension of the tile"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.columns: Counter[tuple[Tensor, bool]] = Counter()
        """Bytes per partition that all transfers of a tensor in HBM move together, by direction."""
        self.shorter: dict[tuple[int, int, int], Estimate] = {}

    def evidence(self) -> str:
        rows = [_run(inst) for inst in self.found]
        return f"{len(rows)} transfers move rows of {_span(rows)} bytes; efficient ones have {GOOD_ROW}"

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        self.columns.clear()
        self.shorter.clear()  # another core has estimates of its own
        for inst, estimate in zip(core.core.numbered, estimates, strict=True):
            if estimate.transfer and (pair := _hbm_side(inst)) is not None:
                self.columns[_direction(pair, inst)] += pair[1].free_elements * pair[1].dtype.itemsize
        return super().estimates(core, estimates)

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        pair = _hbm_side(inst) if estimate.transfer else None
        if pair is None:
            return None
        direction = _direction(pair, inst)
        row, reach = _run(inst), min(GOOD_ROW, self.columns[direction])
        if not 0 < row < reach:
            return None  # rows are long enough, or there is no more to load at once
        key = id(estimate), row, reach
        if key not in self.shorter:
            self.shorter[key] = self._merged(estimate, row / reach, stores=not direction[1])
        return self.shorter[key]

    def _merged(self, estimate: Estimate, share: float, *, stores: bool) -> Estimate:
        """The estimate of a transfer that becomes the part ``share`` of a longer one."""
        occupancy = min(estimate.occupancy, estimate.bytes / bandwidth(self.target, stores=stores))
        engines = tuple(busy * occupancy / estimate.occupancy for busy in estimate.engines)
        transfer = min(estimate.transfer, max(occupancy, self.target.dma_spread_ns * share, *engines))
        issue = estimate.issue * share
        latency = estimate.latency - (estimate.issue - issue) - (estimate.transfer - transfer)
        return replace(estimate, occupancy=occupancy, transfer=transfer, issue=issue, latency=latency, engines=engines)


def _direction(pair: tuple[Access, Access], inst: Inst) -> tuple[Tensor, bool]:
    """The tensor in HBM of a transfer, and True for a load."""
    return pair[0].tensor, pair[1] in inst.writes()


def _span(numbers: Collection[int]) -> str:
    """``64``, or ``64 to 512``."""
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"


class _FewPartitions(Change):
    title = "Transfers of few partitions"
    remedy = "let a tile use all 128 partitions: each DMA engine serves eight of them, and the others stand still"

    def evidence(self) -> str:
        counts = [tile.partitions for inst in self.found if (pair := _hbm_side(inst)) for tile in pair[1:]]
        return f"{len(counts)} transfers use {_span(counts)} of {self.target.partitions} partitions"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        pair = _hbm_side(inst)
        if not estimate.transfer or pair is None or pair[1].partitions > self.target.partitions // 2:
            return None
        if estimate.transfer < 2 * estimate.occupancy:
            return None
        latency = estimate.latency - estimate.transfer + estimate.occupancy
        return replace(estimate, transfer=estimate.occupancy, latency=latency, engines=())


_GONE = Estimate("dma", 0.0, 0.0, 0.0, 0, "docs", "left out")
"""The estimate of a transfer that does not take place."""


class _Reloads(_OneByOne):
    title = "Inputs loaded again"
    remedy = (
        "keep the tile in SBUF: move its load out of the inner loops, or block the loops so that each tile is used as "
        "often as it fits"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.seen: set[tuple[object, ...]] = set()
        self.bytes = self.left_out = 0

    def revised(self, profile: Profile) -> Revision:
        self.left_out = profile.loads_left_out
        return super().revised(profile)

    def unbound(self, core: TimedCore) -> Collection[int]:
        again = {id(inst) for inst in self.found}
        return {number for number, inst in enumerate(core.core.numbered) if id(inst) in again}

    def evidence(self) -> str:
        names = sorted({pair[0].name for inst in self.found if (pair := _hbm_side(inst))})
        shown = ", ".join(f"'{name}'" for name in names[:3]) + (", …" if len(names) > 3 else "")
        again = f"{len(self.found)} transfers load parts of {shown} that were loaded before, {self.bytes / 1e6:.1f} MB"
        return again + (f"; {self.left_out} others are left out" if self.left_out else "")

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:
        pair = _hbm_side(inst) if estimate.transfer else None
        if pair is None or pair[0].tensor.role != "input" or pair[0] not in inst.reads():
            return None
        source = pair[0]
        key = (core.core.rank, source.tensor.name, source.offset, source.shape, source.strides)
        if source.dynamic is not None or key not in self.seen:
            self.seen.add(key)
            return None
        self.bytes += estimate.bytes
        return _GONE


class NoDoubleBuffers(Change):
    """Loads into memory of their own."""

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

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.moved: dict[tuple[int, int], tuple[Estimate, Estimate]] = {}
        """By the ``id`` of an estimate, which is kept alive, and the generator: that estimate, and its new one."""

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if not estimate.transfer or not estimate.generator or any(map(is_row_indexed, inst.accesses())):
            return None  # descriptors by indices, software alone can generate
        turn = len(self.found) % 2
        known = self.moved.get((id(estimate), turn))
        if known is None:
            known = estimate, replace(estimate, generator=f"{estimate.generator} {turn}")
            self.moved[id(estimate), turn] = known
        return known[1]


class _Chains(Change):
    title = "Instructions that need the result of the one before on their engine"
    remedy = "interleave two independent chains (two tiles), so that one fills the pipeline while the other waits"

    def evidence(self) -> str:
        return f"{len(self.found)} instructions leave their engine's pipeline before the next one can use the result"

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        return replace(estimate, dependent=0.0) if estimate.dependent > 0 and not estimate.transfer else None


class _FewLanes(Change):
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
        shorter = replace(estimate, occupancy=estimate.occupancy - saved, latency=estimate.latency - saved)
        return replace(shorter, ports_ns=max(0.0, estimate.ports_ns - saved))


class _Transposes(_OneByOne):
    title = "Transposes on the Tensor engine"
    remedy = (
        "keep the operand transposed in HBM, choose which operand of nc_matmul is stationary so that no transpose is "
        "needed, or load with nisa.dma_transpose"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.turned: set[Tensor] = set()
        self.copies = 0
        self.gone: set[int] = set()
        """The transposes and copies of the core that was asked about last."""

    def evidence(self) -> str:
        copies = f", and {self.copies} copies take the results out of PSUM" if self.copies else ""
        return f"{len(self.found) - self.copies} instructions of the Tensor engine only move data{copies}"

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        self.gone.clear()
        nothing: dict[int, Estimate] = {}
        result = list(estimates)
        for number, inst in enumerate(core.core.numbered):
            estimate = estimates[number]
            if estimate.moves and estimate.flops:
                self.turned.update(access.tensor for access in inst.writes())
            elif (copy := inst.as_copy()) is not None and copy.src.tensor in self.turned and not estimate.transfer:
                self.copies += 1
            else:
                continue
            self.found.append(inst)
            self.gone.add(number)
            if id(estimate) not in nothing:
                nothing[id(estimate)] = replace(estimate, occupancy=0.0, latency=0.0, dependent=0.0, load=0.0, ports=())
            result[number] = nothing[id(estimate)]
        return result

    def queues(self, core: TimedCore) -> Mapping[int, int]:  # noqa: ARG002
        return dict.fromkeys(self.gone, NO_QUEUE)

    def unbound(self, core: TimedCore) -> Collection[int]:
        """The products, which get the banks of PSUM that the transposes had."""
        return {n for n, inst in enumerate(core.core.numbered) if inst.on_tensor_engine and n not in self.gone}


class _Float32Products(Change):
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


class _Tables(_OneByOne):
    title = "Swaps of activation tables"
    remedy = "run all activations of one function before those of another, so that each table is loaded once"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.tables: set[tuple[int, str]] = set()
        self.swaps: set[int] = set()
        """Times of the swaps, in ns."""

    def evidence(self) -> str:
        tables = len({table for _, table in self.tables})
        return (
            f"{len(self.found)} activations follow one that needs another of {tables} tables, and a swap takes "
            f"{_span(sorted(self.swaps))} ns"
        )

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        result, last = list(estimates), ""
        for number, estimate in enumerate(estimates):
            if not (table := estimate.table):
                continue
            place = core.core.rank, table
            if last not in ("", table) and place in self.tables:
                self.found.append(core.core.numbered[number])
                self.swaps.add(round(table_ns(last, table, self.target)))
            if place in self.tables:
                result[number] = replace(estimate, table="")
            self.tables.add(place)
            last = table
        return result


KINDS: tuple[Callable[[Target], Change], ...] = (
    _ShortRows,
    _FewPartitions,
    _Reloads,
    NoDoubleBuffers,
    _Descriptors,
    _Chains,
    _FewLanes,
    _Transposes,
    _Float32Products,
    _Tables,
)
"""The changes of single instructions; those of engines are in :mod:`nki.profiling.moves`."""
