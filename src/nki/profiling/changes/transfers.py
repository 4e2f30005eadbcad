"""Changes of DMA transfers that advice proposes; :mod:`nki.profiling.changes.reloads` has those of repeated loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from nki.cost.dma import SOFTWARE, bandwidth, contiguous_bytes
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor, is_row_indexed
from nki.profiling.changes.change import BETA_1, Change, OneByOne, hbm_side, span
from nki.sim.timing import TimedCore
from nki.target.model import Target

GOOD_ROW = 2048
"""Bytes of a row from which on a transfer is efficient (NKI DMA bandwidth guide: 2 KiB at least, 4 KiB to saturate)."""


def _run(inst: Inst) -> int:
    """Bytes of the shorter contiguous runs of a transfer."""
    return min((contiguous_bytes(access) for access in inst.accesses()), default=0)


def _direction(pair: tuple[Access, Access], inst: Inst) -> tuple[Tensor, bool]:
    """The tensor in HBM of a transfer, and True for a load."""
    return pair[0].tensor, pair[1] in inst.writes()


def _row_bytes(tensor: Tensor) -> int:
    """Bytes of the last dimension of a tensor."""
    return tensor.shape[-1] * tensor.dtype.itemsize


class ShortRows(OneByOne):
    """Transfers of 2 KiB or more for each partition, as far as the tensor has them."""

    title = "Short rows in DMA transfers"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.columns: Counter[tuple[Tensor, bool]] = Counter()
        """Bytes per partition that all transfers of a tensor in HBM move together, by direction."""
        self.shorter: dict[tuple[int, int, int], Estimate] = {}
        self.partial = self.whole = self.scattered = False
        """Some transfers move parts of rows of a tensor; some whole rows, the longest that it has; some, elements."""

    def evidence(self) -> str:
        rows = [_run(each.inst) for each in self.found]
        moved = f"{self.count('transfer')} of {self.tensors()} move rows of {span(rows)} bytes"
        return f"{moved}; efficient ones have {GOOD_ROW}"

    def advised(self, release: str) -> str:
        move = "nl.load or nl.store" if release == BETA_1 else "nisa.dma_copy"
        parts: list[str] = []
        if self.partial:
            parts.append(f"move more columns in one {move}, so that each partition has 2 KiB, and slice the tile")
        if self.whole:
            parts.append("where the tensor has no longer rows, give each partition several neighbours in HBM")
        if self.scattered:
            parts.append(
                "where single elements move, let the fastest dimension in HBM be the free dimension of the tile, and "
                "transpose on chip"
            )
        return "; ".join(parts)

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        self.columns.clear()
        self.shorter.clear()  # another core has estimates of its own
        for number, (inst, estimate) in enumerate(zip(core.core.numbered, estimates, strict=True)):
            if estimate.transfer and (pair := hbm_side(inst)) is not None:
                moved = pair[1].free_elements * pair[1].dtype.itemsize
                self.columns[_direction(pair, inst)] += moved * self.runs(core, number)
        return super().estimates(core, estimates)

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        pair = hbm_side(inst) if estimate.transfer else None
        if pair is None:
            return None
        direction = _direction(pair, inst)
        row, reach = _run(inst), min(GOOD_ROW, self.columns[direction])
        if not 0 < row < reach:
            return None  # rows are long enough, or there is no more to load at once
        key = id(estimate), row, reach
        if key not in self.shorter:
            self.shorter[key] = self._merged(estimate, row / reach, stores=not direction[1])
        is_scattered = row == pair[0].dtype.itemsize and pair[1].free_elements > 1
        is_whole = not is_scattered and row >= _row_bytes(pair[0].tensor)
        self.scattered |= is_scattered
        self.whole |= is_whole
        self.partial |= not (is_scattered or is_whole)
        return self.shorter[key]

    def _merged(self, estimate: Estimate, share: float, *, stores: bool) -> Estimate:
        """The estimate of a transfer that becomes the part ``share`` of a longer one."""
        occupancy = min(estimate.occupancy, estimate.bytes / bandwidth(self.target, stores=stores))
        engines = tuple(busy * occupancy / estimate.occupancy for busy in estimate.engines)
        transfer = min(estimate.transfer, max(occupancy, self.target.dma_spread_ns * share, *engines))
        issue = estimate.issue * share
        latency = estimate.latency - (estimate.issue - issue) - (estimate.transfer - transfer)
        return replace(estimate, occupancy=occupancy, transfer=transfer, issue=issue, latency=latency, engines=engines)


class FewPartitions(OneByOne):
    """Tiles of all partitions, in transfers and on Vector, Scalar and GpSimd."""

    title = "Tiles of few partitions"
    remedy = (
        "let a tile use all 128 partitions, since an instruction takes as long for one as for all, and each DMA engine "
        "serves eight of them: take more rows at once, or fold columns into partitions with reshape"
    )
    older_remedy = (
        "let a tile use all 128 partitions, since an instruction takes as long for one as for all, and each DMA engine "
        "serves eight of them: take more rows at once, or reshape the tensor in HBM so that columns become rows"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.rows: Counter[tuple[Tensor, bool, int]] = Counter()
        """Rows that all transfers of a tensor in HBM move, by direction and by the bytes of a row."""
        self.wider: dict[tuple[int, float], Estimate] = {}

    def evidence(self) -> str:
        moved = [pair[1].partitions for each in self.found if (pair := hbm_side(each.inst))]
        computed = [lanes for each in self.found if hbm_side(each.inst) is None and (lanes := _lanes(each.inst))]
        parts: list[str] = []
        if moved:
            transfers = self.count("transfer", includes=lambda inst: hbm_side(inst) is not None)
            parts.append(f"{transfers} of {self.tensors()} use {span(moved)} of {self.target.partitions} partitions")
        if computed:
            instructions = self.count("instruction", includes=lambda inst: hbm_side(inst) is None)
            parts.append(f"{instructions} of Vector, Scalar or GpSimd {span(computed)}")
        return " and ".join(parts)

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        self.rows.clear()
        self.wider.clear()
        for number, (inst, estimate) in enumerate(zip(core.core.numbered, estimates, strict=True)):
            if estimate.transfer and (pair := hbm_side(inst)) is not None:
                self.rows[_shape_of_rows(pair, inst)] += pair[1].partitions * self.runs(core, number)
        return super().estimates(core, estimates)

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        pair = hbm_side(inst) if estimate.transfer else None
        if pair is not None:
            return self._transfer(inst, pair, estimate)
        if estimate.resource not in ("vector", "scalar", "gpsimd"):
            return None
        lanes = _lanes(inst)
        if not 0 < lanes <= self.target.partitions // 2:
            return None
        key = id(estimate), lanes / self.target.partitions
        if key not in self.wider:
            saved = estimate.occupancy * (1 - key[1])
            shorter = replace(estimate, occupancy=estimate.occupancy - saved, latency=estimate.latency - saved)
            self.wider[key] = replace(shorter, ports_ns=max(0.0, estimate.ports_ns - saved))
        return self.wider[key]

    def _transfer(self, inst: Inst, pair: tuple[Access, Access], estimate: Estimate) -> Estimate | None:
        """The estimate of a transfer as a part of one with more rows, its engines all at work."""
        partitions = pair[1].partitions
        if partitions > self.target.partitions // 2:
            return None
        rows = min(self.target.partitions, self.rows[_shape_of_rows(pair, inst)])
        if rows <= partitions and estimate.transfer < 2 * estimate.occupancy:
            return None
        key = id(estimate), partitions / max(rows, partitions)
        if key not in self.wider:
            issue = estimate.issue * key[1]
            latency = estimate.latency - (estimate.transfer - estimate.occupancy) - (estimate.issue - issue)
            self.wider[key] = replace(estimate, transfer=estimate.occupancy, issue=issue, latency=latency, engines=())
        return self.wider[key]


def _shape_of_rows(pair: tuple[Access, Access], inst: Inst) -> tuple[Tensor, bool, int]:
    tensor, loads = _direction(pair, inst)
    return tensor, loads, pair[1].free_elements * pair[1].dtype.itemsize


def _lanes(inst: Inst) -> int:
    """The partitions of the tiles of an instruction; 0 if it has none of several elements per partition."""
    tiles = [access for access in inst.accesses() if access.free_elements > 1 and access.buffer.on_chip]
    return max((access.partitions for access in tiles), default=0)


class NoDoubleBuffers(Change):
    """Loads into memory of their own, where that is the memory of another tile, or the kernel has chosen it."""

    title = "Loads wait for their memory"
    remedy = (
        "use smaller tiles, so that more of them fit, or other addresses, so that the next load runs while the engines "
        "use the tile before"
    )

    def evidence(self) -> str:
        return (
            f"{self.count('load')} of {self.tensors()} wait until engines have used what lies in the memory that they "
            "write"
        )

    def estimates(self, core: TimedCore, estimates: list[Estimate]) -> list[Estimate]:
        for number in self.unbound(core):
            self.find(core, number, estimates[number])
        return estimates

    def unbound(self, core: TimedCore) -> Collection[int]:
        used: set[Tensor] = set()
        found: set[int] = set()
        for number, inst in enumerate(core.core.numbered):
            if inst.on_rings and (pair := hbm_side(inst)) is not None and pair[1] in inst.writes():
                tile = pair[1].tensor
                if tile not in used or tile.address is not None:
                    found.add(number)  # other loads wait for what the tile itself held: TilesOfRounds
                used.add(tile)
        return found


class Descriptors(OneByOne):
    """Half of the transfers with descriptors of another origin."""

    title = "One generator of DMA descriptors"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.moved: dict[tuple[int, int], tuple[Estimate, Estimate]] = {}
        """By the ``id`` of an estimate, which is kept alive, and the generator: that estimate, and its new one."""

    def evidence(self) -> str:
        issue = self.target.dma_trigger_ns
        return (
            f"{self.count('transfer')} of {self.tensors()} follow each other at {issue:.0f} ns or more, however small "
            "they are"
        )

    def advised(self, release: str) -> str:
        fewer = "use fewer, larger transfers"
        if not self.target.dma_hardware_descriptors:
            return (
                f"{fewer}; or make descriptors of part of them in advance: nisa.dma_copy, dge_mode=nisa.dge_mode.none"
            )
        if release == BETA_1:
            return f"{fewer}; or move part of them with nisa.dma_copy and dge_mode=nisa.dge_mode.swdge"
        return (
            f"{fewer}; or let part of them take another way: dge_mode=nisa.dge_mode.hwdge with "
            "engine=nisa.engine.scalar, or nisa.dge_mode.swdge"
        )

    def estimate(self, inst: Inst, estimate: Estimate, core: TimedCore) -> Estimate | None:  # noqa: ARG002
        if not estimate.transfer or not estimate.generator or any(map(is_row_indexed, inst.accesses())):
            return None  # descriptors by indices, software alone can generate
        is_static = not self.target.dma_hardware_descriptors or estimate.generator == SOFTWARE
        if is_static and any(access.dynamic is not None for access in inst.accesses()):
            return None
        turn = len(self.found) % 2
        known = self.moved.get((id(estimate), turn))
        if known is None:
            other = self._in_advance(estimate) if is_static else replace(estimate, generator=f"{estimate.generator} 2")
            known = self.moved[id(estimate), turn] = estimate, other if turn else estimate
        return known[1]

    def _in_advance(self, estimate: Estimate) -> Estimate:
        """The estimate of a transfer whose descriptors lie in HBM from the beginning. It is as late as before: what
        counts here is the time of the generator, which others wait for.
        """
        issue = self.target.sequencer_ns
        return replace(estimate, generator="", issue=issue, start=estimate.start + estimate.issue - issue)
