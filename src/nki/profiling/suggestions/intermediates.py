"""The change that keeps results on chip which go to HBM and come back (performance guide, Opt #2)."""

from __future__ import annotations

from collections import defaultdict

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.ir.estimate import Dma
from nki.ir.types import Tensor
from nki.profiling.amounts import size
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.suggestions.suggestion import Kept, hbm_side, writes
from nki.sim.timing import LEFT_OUT, EstimateOverride, TimedCore

_Window = tuple[Tensor, AccessPattern]


class ThroughHbm(Kept):
    """Stores of a kernel's own tensors in HBM and loads of the same rows: none of them takes place."""

    title = "Results that wait in HBM"
    remedy = (
        "keep the tile in SBUF until its last use: join the loops that store and load it, with tiles small enough that "
        "all of them fit"
    )

    def evidence(self) -> str:
        moved = f"{self.count('transfer')} store parts of {self.tensors()} and load them again, {size(self.bytes)}"
        return f"{moved}: {self.room()}"

    def overrides(self, profile: PredictedRun) -> dict[TimedCore, EstimateOverride]:
        if len(profile.cores) > 1:
            return {}  # cores may pass each other what they store
        return super().overrides(profile)

    def change(self, core: TimedCore, override: EstimateOverride) -> None:
        estimates, result = override.before, override.estimates
        stores: dict[_Window, tuple[int, tuple[int, ...]]] = {}
        returns: defaultdict[int, list[int]] = defaultdict(list)  # the loads of what an instruction stored
        needed: set[Tensor] = set()
        for number, inst in enumerate(core.core.numbered):
            pair = hbm_side(inst) if isinstance(estimates[number], Dma) else None
            for access in inst.accesses():
                if not access.buffer.is_hbm or access.tensor.role not in ("", "spill"):
                    continue
                window, is_stored = (access.tensor, pattern_of(access)), writes(inst, access)
                plain = pair is not None and access.dynamic is None and inst.as_copy() is not None
                if plain and is_stored and pair is not None:
                    stores[window] = number, pair[1].shape
                elif plain and window in stores and pair is not None and stores[window][1] == pair[1].shape:
                    returns[stores[window][0]].append(number)
                else:
                    needed.add(access.tensor)
        kept: list[tuple[int, int, int]] = []
        for store, again in returns.items():
            pair = hbm_side(core.core.numbered[store])
            assert pair is not None
            if pair[0].tensor in needed:
                continue
            for number in (store, *again):
                estimate = estimates[number]
                assert isinstance(estimate, Dma)
                self.add(core, number, estimate)
                self.bytes += estimate.bytes * self.runs(core, number)
                result[number] = LEFT_OUT
            override.unbound.update(again)
            kept.append((store, again[-1], pair[1].free_elements * pair[1].dtype.itemsize))
        self.keep(kept)
