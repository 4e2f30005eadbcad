"""Changes of instructions of the compute engines: chains, transposes, float32 products, tables, operands."""

from __future__ import annotations

from dataclasses import replace

from nki.analysis.moved_data import moves_data
from nki.base.element_types import float32
from nki.cost.shared_resources import table_ns
from nki.ir.estimate import Compute, Dma, Estimate, Matmul
from nki.ir.instruction import Inst
from nki.ir.types import Buffer, Tensor
from nki.profiling.suggestions.suggestion import Suggestion, span
from nki.sim.timing import EstimateOverride, TimedCore
from nki.target.model import Target


class Chains(Suggestion):
    """Results that the next instruction of the engine can use at once."""

    title = "Instructions that need the result of the one before on their engine"
    remedy = "interleave two independent chains (two tiles), so that one fills the pipeline while the other waits"

    def evidence(self) -> str:
        return f"{self.count('instruction')} leave their engine's pipeline before the next one can use the result"

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:  # noqa: ARG002
        chains = isinstance(estimate, Compute) and estimate.dependent > 0
        return replace(estimate, dependent=0.0) if chains else None


class Transposes(Suggestion):
    """No transposes, and no copies of their results."""

    title = "Transposes on the Tensor engine"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.turned: set[Tensor] = set()

    def evidence(self) -> str:
        copies = self.count("copy", "copies", lambda inst: not inst.on_tensor_engine)
        moved = self.count("instruction", includes=lambda inst: inst.on_tensor_engine)
        return f"{moved} of the Tensor engine only move data, and {copies} take the results out of PSUM"

    def advised(self, returns_results: bool) -> str:
        if returns_results:
            product = "of nl.matmul give x as it multiplies, with transpose_x=True; or choose the stationary operand of"
            return f"keep the operand transposed in HBM; {product} nisa.nc_matmul so that no transpose is needed"
        direct = ", or load 2-byte elements with nisa.dma_transpose" if self.target.dma_hardware_descriptors else ""
        return (
            "keep the operand transposed in HBM, or choose which operand of nisa.nc_matmul is stationary so that no "
            f"transpose is needed{direct}"
        )

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        for number, inst in enumerate(core.core.numbered):
            estimate = override.before[number]
            if isinstance(estimate, Matmul) and estimate.is_data_movement:
                self.turned.update(access.tensor for access in inst.writes())
            elif isinstance(estimate, Dma) or (copy := moves_data(inst)) is None or copy[1].tensor not in self.turned:
                continue
            self.add(core, number, estimate)
            override.leave_out(number)
        # Products get the banks of PSUM that the transposes had.
        on_array = {number for number, inst in enumerate(core.core.numbered) if inst.on_tensor_engine}
        override.unbound.update(on_array.difference(override.queues))


class Float32Products(Suggestion):
    """Products of one pass."""

    title = "Products of float32"
    remedy = (
        "keep the operands in bfloat16 if the result may be as inexact: the Tensor engine takes one pass, and loads of "
        "half as many bytes may gain more than this"
    )
    passes = 1.0
    """Most passes of a product."""

    def evidence(self) -> str:
        return f"{self.count('product')} have float32 operands and take up to {self.passes:.0f} times as long"

    def estimate(self, inst: Inst, estimate: Estimate) -> Estimate | None:
        operands = [access for access in inst.reads() if access.buffer is Buffer.sbuf]
        if not isinstance(estimate, Matmul) or not estimate.is_matmul:
            return None
        if all(access.dtype is not float32 for access in operands):
            return None
        self.passes = max(self.passes, estimate.tensor_passes)
        return estimate.lasting(estimate.occupancy / estimate.tensor_passes)


class Tables(Suggestion):
    """One load of each activation table."""

    title = "Swaps of activation tables"
    remedy = "run all activations of one function before the next function's, so that each table is loaded once"

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.tables: set[tuple[int, str]] = set()
        self.swaps: set[int] = set()
        """Times of the swaps, in ns."""

    def evidence(self) -> str:
        tables = len({table for _, table in self.tables})
        return (
            f"{self.count('activation')} follow one that needs another of {tables} tables, and a swap takes "
            f"{span(sorted(self.swaps))} ns"
        )

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        last = ""
        for number, estimate in enumerate(override.before):
            if not isinstance(estimate, Compute) or not (table := estimate.table):
                continue
            place = core.core.rank, table
            if last not in ("", table) and place in self.tables:
                self.add(core, number, estimate)
                self.swaps.add(round(table_ns(last, table, self.target)))
            if place in self.tables:
                override.estimates[number] = replace(estimate, table="")
            self.tables.add(place)
            last = table
