"""Changes of products on the Tensor engine: sums in PSUM, all rows of the array, the short operand moving."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.ir.estimate import Estimate, Matmul
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.profiling.suggestions.suggestion import Suggestion, span
from nki.sim.timing import EstimateOverride, TimedCore
from nki.target.model import Target

_Window = tuple[Tensor, AccessPattern]


class SumsOutsidePsum(Suggestion):
    """Sums of products that the Tensor engine adds up itself."""

    title = "Sums of products on Vector"
    remedy = (
        "let the products of one sum follow each other into one tile of PSUM, which adds them up for nothing, and copy "
        "the sum out once: loop over the contraction innermost"
    )
    older_remedy = (
        "let the products of one sum follow each other into one tile of PSUM (total += nisa.nc_matmul(…) on nl.zeros "
        "with buffer=nl.psum), and copy the sum out once: loop over the contraction innermost"
    )

    def evidence(self) -> str:
        return f"{self.count('instruction')} add a product to a tile in SBUF"

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates = override.before
        sums: defaultdict[_Window, list[int]] = defaultdict(list)
        writers: dict[Tensor, int] = {}
        products: defaultdict[_Window, list[int]] = defaultdict(list)
        for number, inst in enumerate(core.core.numbered):
            estimate = estimates[number]
            if isinstance(estimate, Matmul) and estimate.is_matmul:
                writers.update((access.tensor, number) for access in inst.writes())
            elif (added := _added(inst)) is not None and added[0].tensor in writers:
                operand, total = added
                window = total.tensor, pattern_of(total)
                sums[window].append(number)
                products[window].append(writers[operand.tensor])
        for window, numbers in sums.items():
            for number in numbers[:-1]:  # the last one takes the sum out
                self.add(core, number, estimates[number])
                override.leave_out(number)
            if len(numbers) > 1:
                override.unbound.update(products[window])  # they no longer wait until their tile is empty


def _added(inst: Inst) -> tuple[Access, Access] | None:
    """The operand in PSUM of an instruction that adds it to a tile in SBUF, in place, and that tile."""
    chains = inst.update_chains()
    if len(chains) != 2 or any([operator for operator, _ in chain.steps] != ["add"] for chain in chains):
        return None
    (dst,) = inst.writes()
    one, two = (chain.operand for chain in chains)
    for operand, total in ((one, two), (two, one)):
        if operand.buffer is Buffer.psum and dst.buffer is Buffer.sbuf and total.same_place(dst):
            return operand, total
    return None


class _Product(NamedTuple):
    """A product of ``rows`` rows, ``loaded`` columns that stay and ``moving`` ones that move, into ``dst``."""

    estimate: Matmul
    rows: int
    loaded: int
    moving: int
    dst: Access


def _product(inst: Inst, estimate: Estimate) -> _Product | None:
    """The sizes of a product of the whole array: only its moving columns take time."""
    effects = inst.effects
    if not isinstance(estimate, Matmul) or not estimate.is_matmul or estimate.array_mask:
        return None
    if not effects.stationary or not effects.moving:
        return None
    stationary: Access = inst.__dict__[effects.stationary]
    moving: Access = inst.__dict__[effects.moving]
    return _Product(estimate, moving.partitions, stationary.free_elements, moving.free_elements, inst.writes()[0])


class FewRows(Suggestion):
    """Products of few rows of one sum as one product, and others side by side in the array."""

    title = "Products of few rows"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.rows: set[int] = set()
        self.adds = self.alone = False
        """Some products are parts of one sum; some are not."""

    @property
    def is_bound(self) -> bool:
        return self.alone  # products that need each other do not run side by side

    def evidence(self) -> str:
        return f"{self.count('product')} contract {span(self.rows)} of {self.target.partitions} rows"

    def advised(self, returns_results: bool) -> str:  # noqa: ARG002
        ways: list[str] = []
        if self.adds:
            ways.append("put the operands of products of one sum below each other, so that one product has 128 rows")
        if self.alone:
            ways.append("let independent products run side by side: tile_position= and tile_size= of nisa.nc_matmul")
        return "; ".join(ways)

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates, result = override.before, override.estimates
        sums: defaultdict[_Window, dict[int, _Product]] = defaultdict(dict)
        for number, inst in enumerate(core.core.numbered):
            if (product := _product(inst, estimates[number])) is not None:
                sums[product.dst.tensor, pattern_of(product.dst)][number] = product
        for products in sums.values():
            rows = max(product.rows for product in products.values())
            if rows > self.target.partitions // 2:
                continue  # a row beside many, such as a bias, fits nowhere else
            merged = min(self.target.partitions // rows, len(products))
            tile = min((size for size in self.target.matmul_row_tiles if size >= rows), default=self.target.partitions)
            share = min(1 / merged, tile / self.target.partitions)
            if share == 1:
                continue
            self.adds |= merged > 1
            self.alone |= merged == 1
            self.rows.add(rows)
            for number, product in products.items():
                estimate = product.estimate
                self.add(core, number, estimate)
                shorter = estimate.releasing_after(estimate.occupancy * share)
                result[number] = replace(shorter, activity=min(1.0, estimate.activity / share))


class ShortStationary(Suggestion):
    """Products with exchanged operands, so that the one with few columns moves (performance guide, Opt #7)."""

    title = "The short operand of products is stationary"
    remedy = (
        "exchange stationary= and moving= of nisa.nc_matmul: the array loads columns four times as fast as they move; "
        "the result comes transposed"
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.columns: set[int] = set()

    def advised(self, returns_results: bool) -> str:
        return self.remedy.replace("stationary= and moving=", "the operands") if returns_results else self.remedy

    def evidence(self) -> str:
        return f"{self.count('product')} load {span(self.columns)} columns, and more columns move"

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        product, target = _product(inst, estimate), self.target
        if (
            product is None
            or product.loaded > target.matmul_stationary_free_max // 2
            or product.estimate.tensor_passes != 1
        ):
            return None
        pieces = math.ceil(product.moving / target.matmul_stationary_free_max)
        loaded = min(product.moving, target.matmul_stationary_free_max) / target.stationary_load_speedup
        issue = target.matmul_issue_cycles + target.stationary_load_cycles
        multiply = product.loaded / target.tensor_activity_limit + issue
        each = max(loaded, target.matmul_min_interval_cycles, multiply) / target.tensor_clock_ghz
        if pieces * each > 0.9 * estimate.occupancy:
            return None
        self.columns.add(product.loaded)
        return product.estimate.lasting(pieces * each)
