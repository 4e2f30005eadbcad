"""Changes of DMA transfers; :mod:`nki.profiling.suggestions.reloads` has the ones for repeated loads."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from enum import Enum

from nki.cost.dma_costs import SOFTWARE, bandwidth, contiguous_bytes
from nki.ir.estimate import Compute, Dma, Estimate
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor, is_row_indexed
from nki.profiling.suggestions.suggestion import Suggestion, hbm_side, on_engine, span, writes
from nki.sim.timing import EstimateOverride, TimedCore
from nki.target.model import Target

LEAST_ROW = 512
"""Bytes of a row from which on a packet takes longer than its fixed time, so that a longer row may be cut."""
GOOD_ROW = 2048
"""Bytes of a row from which on a transfer is efficient (NKI DMA bandwidth guide: 2 KiB at least, 4 KiB to saturate)."""


def _run(inst: Inst) -> int:
    """Bytes of the shorter contiguous runs of a transfer."""
    return min((contiguous_bytes(access) for access in inst.accesses()), default=0)


def _direction(pair: tuple[Access, Access], inst: Inst) -> tuple[Tensor, bool]:
    """The tensor in HBM of a transfer, and True for a load."""
    return pair[0].tensor, writes(inst, pair[1])


def _row_bytes(tensor: Tensor) -> int:
    """Bytes of the last dimension of a tensor."""
    return tensor.shape[-1] * tensor.dtype.itemsize


class ShortRows(Suggestion):
    """Transfers of 2 KiB or more for each partition, if the tensor has so many."""

    title = "Short rows in DMA transfers"
    one_by_one = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.columns: Counter[tuple[Tensor, bool]] = Counter()
        """Bytes per partition that all transfers of a tensor in HBM move together, by direction."""
        self.blocks: defaultdict[tuple[object, ...], set[int]] = defaultdict(set)
        """The first rows of the blocks of one tensor that transfers transpose, by their columns."""
        self.forms: set[_Form] = set()

    def evidence(self) -> str:
        rows = [_run(each.inst) for each in self.affected]
        moved = f"{self.count('transfer')} of {self.tensors()} move rows of {span(rows)} bytes"
        return f"{moved}; efficient ones have {GOOD_ROW}"

    def advised(self, returns_results: bool) -> str:
        move = "nl.load or nl.store" if returns_results else "nisa.dma_copy"
        words = {
            _Form.partial: f"move more columns in one {move}, so that each partition has 2 KiB, and slice the tile",
            _Form.whole: "where the tensor has no longer rows, give each partition several neighbours in HBM",
            _Form.stepped: "where a transfer steps over elements of a row, load the whole row, and step on chip: "
            "tile[:, ::2]",
            _Form.turned: "where single elements move, let the fastest dimension in HBM be the free dimension of the "
            "tile, and transpose on chip",
            _Form.blocks: "move more rows in one nisa.dma_transpose: its columns become the partitions",
        }
        return "; ".join(text for form, text in words.items() if form in self.forms)

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates = override.before
        self.columns.clear()
        self.blocks.clear()
        for number, (inst, estimate) in enumerate(zip(core.core.numbered, estimates, strict=True)):
            if isinstance(estimate, Dma) and (pair := hbm_side(inst)) is not None:
                moved = pair[1].free_elements * pair[1].dtype.itemsize
                self.columns[_direction(pair, inst)] += moved * self.runs(core, number)
                if _transposes(inst):
                    self.blocks[_block(pair[0])].add(pair[0].offset)
        super().change(core, override)

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        if not isinstance(estimate, Dma) or (pair := hbm_side(inst)) is None:
            return None
        if _transposes(inst):
            return self._with_more_rows(estimate, len(self.blocks[_block(pair[0])]))
        direction = _direction(pair, inst)
        row, reach = _run(inst), min(GOOD_ROW, self.columns[direction])
        form = _form(*pair, row)
        if form is _Form.stepped:
            if not direction[1]:
                return None  # to store whole rows would change what lies between
            row, reach = pair[0].dtype.itemsize, min(GOOD_ROW, _reach(pair[0]))
        if not 0 < row < reach:
            return None  # rows are long enough, or there is no more to load at once
        self.forms.add(form)
        more = _reach(pair[0]) / (pair[1].free_elements * row) if form is _Form.stepped else 1.0
        whole = more * estimate.bytes / bandwidth(self.target, stores=not direction[1])
        share = row / reach
        return self.once(estimate, share, lambda: self._merged(estimate, share, min(estimate.occupancy, whole)))

    def _with_more_rows(self, estimate: Dma, blocks: int) -> Dma | None:
        """The estimate of a transpose as one of several ``blocks`` of rows in one transfer."""
        if blocks < 2:
            return None
        self.forms.add(_Form.blocks)
        return self.once(estimate, 1 / blocks, lambda: self._merged(estimate, 1 / blocks, estimate.occupancy))

    def _merged(self, estimate: Dma, share: float, occupancy: float) -> Dma:
        """The estimate of a transfer that becomes the part ``share`` of a longer one."""
        times = tuple(busy * occupancy / estimate.occupancy for busy in estimate.engine_times)
        transfer = min(estimate.transfer, max(occupancy, self.target.dma_spread_ns * share, *times))
        issue = estimate.issue * share
        return replace(estimate, occupancy=occupancy, transfer=transfer, issue=issue, engine_times=times)


def _transposes(inst: Inst) -> bool:
    """True if the rows that the transfer reads become columns of what it writes."""
    return any(inst.effects.row_dims.values())


class _Form(Enum):
    """The rows that a transfer moves: parts of rows of a tensor; whole rows, the longest that it has; elements of a row
    with a step; elements of many rows; blocks that it transposes.
    """

    partial = 0
    whole = 1
    stepped = 2
    turned = 3
    blocks = 4


def _form(outside: Access, inside: Access, row: int) -> _Form:
    if row > outside.dtype.itemsize or inside.free_elements == 1:
        return _Form.whole if row >= _row_bytes(outside.tensor) else _Form.partial
    return _Form.stepped if _reach(outside) <= _row_bytes(outside.tensor) else _Form.turned


def _reach(access: Access) -> int:
    """Bytes from the first element of a partition to the last one."""
    steps = zip(access.shape[1:], access.strides[1:], strict=True)
    return (1 + sum((count - 1) * abs(step) for count, step in steps)) * access.dtype.itemsize


def _block(outside: Access) -> tuple[object, ...]:
    """The columns that a transfer transposes: more rows of them could be in one."""
    row = max(1, outside.strides[0])
    return outside.tensor, outside.shape[1:], outside.strides, outside.offset % row, outside.dynamic is None


class FewPartitions(Suggestion):
    """Tiles of all partitions, in transfers and on Vector, Scalar and GpSimd."""

    title = "Tiles of few partitions"
    more_rows = "take more rows at once"
    folded = "fold columns into partitions with reshape"
    older_folded = "reshape the tensor in HBM so that columns become rows"
    gathered = (
        "let one transfer load the rows of all indices: x.vector_select(0, column), where the indices are a column of "
        "SBUF"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.rows: defaultdict[tuple[Tensor, bool, int], dict[object, int]] = defaultdict(dict)
        """Rows that all transfers of a tensor in HBM move, by direction and by the bytes of a row; by window."""
        self.together: dict[int, int] = {}
        """By the number of an instruction: those like it, on other tiles, that could be one with it."""
        self.ways: set[str] = set()
        self.found_by_data: set[Tensor] = set()
        """The tiles and registers of the core with indices that come from data, and not from a loop."""

    def advised(self, returns_results: bool) -> str:
        ways = [self.more_rows] if self.more_rows in self.ways else []
        if self.folded in self.ways:
            ways.append(self.older_folded if returns_results else self.folded)
        if self.gathered in self.ways:
            ways.append(self.gathered)
        return (
            "let a tile use all 128 partitions, since an instruction takes as long for one as for all, and each DMA "
            f"engine serves eight of them: {', or '.join(ways)}"
        )

    def evidence(self) -> str:
        moved = [pair[1].partitions for each in self.affected if (pair := hbm_side(each.inst))]
        computed = [lanes for each in self.affected if hbm_side(each.inst) is None and (lanes := _lanes(each.inst))]
        parts: list[str] = []
        if moved:
            transfers = self.count("transfer", includes=lambda inst: hbm_side(inst) is not None)
            parts.append(f"{transfers} of {self.tensors()} use {span(moved)} of {self.target.partitions} partitions")
        if computed:
            instructions = self.count("instruction", includes=lambda inst: hbm_side(inst) is None)
            parts.append(f"{instructions} of Vector, Scalar or GpSimd {span(computed)}")
        return " and ".join(parts)

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates, result = override.before, override.estimates
        self.rows.clear()
        self.together.clear()
        few: defaultdict[tuple[int, int], dict[int, Tensor]] = defaultdict(dict)
        for number, (inst, estimate) in enumerate(zip(core.core.numbered, estimates, strict=True)):
            if isinstance(estimate, Dma):
                if (pair := hbm_side(inst)) is not None and pair[0].strides[0]:  # a step of 0 repeats one row
                    runs, window = self.runs(core, number), pair[0].offset
                    rows = self.rows[_shape_of_rows(pair, inst)]
                    rows[window if pair[0].dynamic is None else (number, window)] = pair[1].partitions * (
                        1 if pair[0].dynamic is None else runs
                    )
            elif 0 < (lanes := _lanes(inst)) <= self.target.partitions // 2:
                few[core.kinds[number], lanes][number] = _widest(inst).tensor
        self.found_by_data = _indices_of_data(core)
        for tiles in few.values():
            count = len({*tiles.values()})
            self.together.update(dict.fromkeys(tiles, count))
        for number, inst in enumerate(core.core.numbered):
            changed = self._changed(inst, estimates[number], self.together.get(number, 1))
            if changed is not None:
                self.add(core, number, estimates[number])
                result[number] = changed

    def _changed(self, inst: Inst, estimate: Estimate, together: int) -> Estimate | None:
        if isinstance(estimate, Dma):
            pair = hbm_side(inst)
            return self._transfer(inst, pair, estimate) if pair is not None else None
        if not isinstance(estimate, Compute) or estimate.resource not in ("vector", "scalar", "gpsimd"):
            return None
        lanes = _lanes(inst)
        if not 0 < lanes <= self.target.partitions // 2:
            return None
        most = self.target.partitions // lanes
        merged, folded = min(most, together), min(most, _foldable(inst))
        if max(merged, folded) < 2:
            return None  # there are no more rows, and columns have to stay where they are
        saved = estimate.occupancy * (1 - 1 / merged)
        if folded > merged:
            saved = max(saved, estimate.occupancy - self._folded(inst, estimate, folded))
        self.ways.add(self.folded if folded > merged else self.more_rows)
        return self.once(estimate, saved, lambda: estimate.lasting(estimate.occupancy - saved))

    def _folded(self, inst: Inst, estimate: Compute, parts: int) -> float:
        """The occupancy of an instruction on a part of its elements per partition."""
        windows: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            if access.buffer.on_chip and access.free_elements > 1:
                shape = (access.partitions, access.free_elements // parts)
                strides = (access.strides[0], access.strides[-1])
                windows[number] = access.with_window(access.offset, shape, strides, access.dynamic)
        return on_engine(inst.with_operands(windows), estimate.resource).cost(self.target).occupancy

    def _transfer(self, inst: Inst, pair: tuple[Access, Access], estimate: Dma) -> Estimate | None:
        """The estimate of a transfer as a part of one with more rows, its engines all at work."""
        partitions = pair[1].partitions
        if partitions > self.target.partitions // 2 or not pair[0].strides[0]:
            return None
        known = sum(self.rows[_shape_of_rows(pair, inst)].values())
        rows = max(partitions, min(self.target.partitions, known))
        folds = pair[1].free_elements * pair[1].dtype.itemsize * partitions >= self.target.partitions * LEAST_ROW
        if rows == partitions and (estimate.transfer < 2 * estimate.occupancy or not folds):
            return None
        if rows == partitions:
            self.ways.add(self.folded)
        else:
            by_data = partitions == 1 and any(index.tensor in self.found_by_data for index in inst.indexed_by())
            if by_data and not self.target.dma_hardware_descriptors:
                return None  # no DMA has an index for each row
            self.ways.add(self.gathered if by_data else self.more_rows)
        issue, whole = estimate.issue * (partitions / rows), estimate.occupancy
        return self.once(estimate, issue, lambda: replace(estimate, transfer=whole, issue=issue, engine_times=()))


def _shape_of_rows(pair: tuple[Access, Access], inst: Inst) -> tuple[Tensor, bool, int]:
    tensor, loads = _direction(pair, inst)
    return tensor, loads, pair[1].free_elements * pair[1].dtype.itemsize


def _lanes(inst: Inst) -> int:
    """The partitions of the tiles of an instruction; 0 if it has none of several elements per partition."""
    tiles = [access for access in inst.accesses() if access.free_elements > 1 and access.buffer.on_chip]
    return max((access.partitions for access in tiles), default=0)


def _indices_of_data(core: TimedCore) -> set[Tensor]:
    """The tiles and registers with indices of ``core`` that do not follow from counters of loops alone."""
    indices = {access.tensor for inst in core.distinct for access in inst.indexed_by()}
    if not indices:
        return set()
    found: set[Tensor] = set()
    for inst in core.core.numbered:
        sources = [access.tensor for access in inst.reads()]
        if any(tensor.buffer is not Buffer.register or tensor in found for tensor in sources):
            found.update(access.tensor for access in inst.writes())
    return found


def _widest(inst: Inst) -> Access:
    return max((access for access in inst.accesses() if access.buffer.on_chip), key=lambda access: access.free_elements)


def _foldable(inst: Inst) -> int:
    """The parts into which the elements of a partition could be cut, one for each of several partitions: 1 where each
    result needs a whole partition, or a number that a partition has.
    """
    tiles = [access for access in inst.accesses() if access.buffer.on_chip]
    sizes = {(access.partitions, access.free_elements) for access in tiles}
    return tiles[0].free_elements if len(sizes) == 1 and inst.effects.streamed else 1


class NoDoubleBuffers(Suggestion):
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

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        used: set[Tensor] = set()
        for number, inst in enumerate(core.core.numbered):
            if inst.on_rings and (pair := hbm_side(inst)) is not None and writes(inst, pair[1]):
                tile = pair[1].tensor
                if tile not in used or tile.address is not None:
                    self.add(core, number, override.before[number])
                    override.unbound.add(number)  # other loads wait for what the tile itself held: TilesOfRounds
                used.add(tile)


class Descriptors(Suggestion):
    """Half of the transfers with descriptors of another origin."""

    title = "One generator of DMA descriptors"
    one_by_one = True

    def evidence(self) -> str:
        issue = self.target.dma_trigger_ns
        return (
            f"{self.count('transfer')} of {self.tensors()} follow each other at {issue:.0f} ns or more, however small "
            "they are"
        )

    def advised(self, returns_results: bool) -> str:
        fewer = "use fewer, larger transfers"
        if not self.target.dma_hardware_descriptors:
            return (
                f"{fewer}; or make descriptors of part of them in advance: nisa.dma_copy, dge_mode=nisa.dge_mode.none"
            )
        if returns_results:
            return f"{fewer}; or move part of them with nisa.dma_copy and dge_mode=nisa.dge_mode.swdge"
        return (
            f"{fewer}; or let part of them take another way: dge_mode=nisa.dge_mode.hwdge with "
            "engine=nisa.engine.scalar, or nisa.dge_mode.swdge"
        )

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        if not isinstance(estimate, Dma) or not estimate.dge or any(map(is_row_indexed, inst.accesses())):
            return None  # descriptors by indices, software alone can generate
        is_static = not self.target.dma_hardware_descriptors or estimate.dge == SOFTWARE
        if is_static and any(access.dynamic is not None for access in inst.accesses()):
            return None
        if len(self.affected) % 2 == 0:
            return estimate
        return self.once(estimate, is_static, lambda: self._elsewhere(estimate, is_static))

    def _elsewhere(self, estimate: Dma, is_static: bool) -> Dma:
        return self._in_advance(estimate) if is_static else replace(estimate, dge=f"{estimate.dge} 2")

    def _in_advance(self, estimate: Dma) -> Dma:
        """The estimate of a transfer with descriptors that lie in HBM from the beginning. It is as late as before: what
        counts here is the time of the generator, which others wait for.
        """
        issue = self.target.sequencer_ns
        return replace(estimate, dge="", issue=issue, start=estimate.start + estimate.issue - issue)
