"""The predicted run of a kernel in numbers: times, engines, memory, costs by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from nki.base.source import Span
from nki.cost.dma_costs import bandwidth
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.profiling import metrics, what_if
from nki.profiling.callers import Callers, callers
from nki.profiling.events import CoreEvents
from nki.profiling.memory_choices import SpareLoads, same_trips
from nki.profiling.metrics import Cost, EngineUse, MemoryUse, Step, TransferSize
from nki.profiling.origin import UNKNOWN, Origin
from nki.sim.lower_bound import lower_bound
from nki.sim.timing import TimedProgram, Timeline
from nki.target.model import Target


@dataclass(frozen=True, slots=True)
class Bound:
    """A time in seconds that no schedule of the instructions can beat, and the ``resource`` that says so."""

    seconds: float
    resource: str


class End(NamedTuple):
    """A reading of what is not known: a program that a compiler may make (``program`` says which), and the target with
    all guessed ``facts`` at the ``fast`` or the ``slow`` end of their ranges.
    """

    timed: TimedProgram
    target: Target
    facts: str
    program: str


class PredictedRun:
    """The predicted run of a kernel on one target, in numbers. Times of properties are seconds, times of events ns.

    ``program`` is the kernel after the last stage of the compiler, and ``timeline`` the replay of it.
    """

    def __init__(
        self,
        program: Program,
        target: Target,
        timed: TimedProgram,
        fewest: TimedProgram | None = None,
        wider: TimedProgram | None = None,
        find_spare_loads: Callable[[], SpareLoads | None] = lambda: None,
        origin: Origin = UNKNOWN,
        recompiled: Callable[[Stage], TimedProgram | None] = lambda _: None,
    ) -> None:
        self.program = program
        self.target = target
        self.timed = timed
        self.fewest = fewest or timed
        self._wider = wider
        self._find_spare_loads = find_spare_loads
        self.origin = origin
        self._recompiled = recompiled
        self.timeline: Timeline = timed.run(target)

    def recompiled(self, stage: Stage) -> TimedProgram | None:
        """The kernel with ``stage``, which may change any instruction, and the stages behind that anew; None if it
        changes nothing, or if the changed kernel needs more memory than there is.
        """
        timed = self._recompiled(stage)
        return None if timed is None else timed.with_trips(same_trips(timed.program, self.program, self.timed.trips))

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.program.name

    @property
    def instructions(self) -> int:
        """Executed instructions on all cores."""
        return int(sum(int(core.runs.sum()) for core in self.cores))

    @cached_property
    def cores(self) -> list[CoreEvents]:
        """The events of each core."""
        return [CoreEvents.of(core) for core in self.timeline.cores]

    @property
    def device_time(self) -> float:
        """From the first instruction to the last result, of the slowest core."""
        return self.timeline.ns * 1e-9

    @property
    def launch_time(self) -> float:
        """Time of a launch beside the kernel's own: what a benchmark on the device measures too."""
        return self.target.launch_ns * 1e-9

    @property
    def latency(self) -> float:
        """The time that a benchmark on the device would show: launch and kernel."""
        return self.device_time + self.launch_time

    @property
    def ends(self) -> list[End]:
        """The ends of the interval; at the fast end, no load is spare, and at the slow end, no result is in the
        tile of an operand.
        """
        fast = [("as compiled" if self.fewest is self.timed else "with the fewest iterations", self.fewest)]
        if self.spare_loads is not None:
            fast.append(("without spare loads", self.spare_loads.timed))
        slow = [("as compiled", self.timed)]
        if self._wider is not None:
            slow.append(("with memory of its own for each result", self._wider))
        both = (("fast", fast, self.target.bound(0)), ("slow", slow, self.target.bound(1)))
        return [End(timed, target, facts, name) for facts, programs, target in both for name, timed in programs]

    @cached_property
    def readings(self) -> list[tuple[End, float]]:
        """The latency in seconds at each end."""
        return [(end, (end.timed.run(end.target).ns + end.target.launch_ns) * 1e-9) for end in self.ends]

    @property
    def interval(self) -> tuple[float, float]:
        """The latency if every number that is not known exactly were at the fast, or at the slow, end of its range."""
        times = [self.latency, *(seconds for _, seconds in self.readings)]
        return min(times), max(times)

    @cached_property
    def spare_loads(self) -> SpareLoads | None:
        """Loads of rows that SBUF still holds, which the vendor's compiler may leave out; None if there are none."""
        return self._find_spare_loads()

    @cached_property
    def lower_bound(self) -> Bound:
        """The time that no schedule of these instructions can beat, launch included, and the resource that says so."""
        bound = lower_bound(self.timed, self.timeline)
        return Bound(min(bound.ns * 1e-9 + self.launch_time, self.latency), bound.reason)

    @cached_property
    def engines(self) -> list[EngineUse]:
        """The use of every engine of every core."""
        return [use for core in self.cores for use in metrics.engine_uses(core, self.timeline.ns)]

    @cached_property
    def bytes(self) -> dict[str, int]:
        """Bytes by memory and direction (``hbm_read``, ``sbuf_write``, …), over all cores."""
        return metrics.memory_bytes(self.cores)

    @property
    def hbm_bytes(self) -> int:
        """Bytes read from and written to HBM."""
        return self.bytes["hbm_read"] + self.bytes["hbm_write"]

    @cached_property
    def flops(self) -> int:
        """Operations of matrix products, transposes left out."""
        return metrics.flops(self.cores, moves=False)

    @cached_property
    def transpose_flops(self) -> int:
        """Operations of the Tensor engine that only move data."""
        return metrics.flops(self.cores, moves=True)

    @cached_property
    def peak_flops(self) -> float:
        """Operations per second of the cores' Tensor engines in the modes of the kernel's products: modes of 8-bit
        operands that do several at once have a higher peak than 16-bit operands have, and float32 counts as 16 bits.
        """
        slots = metrics.product_slots(self.cores)
        return self.peak_flops_16_bit * (self.flops / slots if slots else 1)

    @property
    def peak_flops_16_bit(self) -> float:
        """Operations per second of the cores' Tensor engines, for 16-bit operands."""
        target = self.target
        array = target.partitions * target.matmul_stationary_free_max
        return 2 * array * target.tensor_clock_ghz * 1e9 * len(self.cores)

    @property
    def peak_bandwidth(self) -> float:
        """Bytes per second that the DMA engines of the cores, and their HBM, sustain in loads."""
        return bandwidth(self.target, cores=len(self.cores)) * 1e9 * len(self.cores)

    @property
    def mfu(self) -> float:
        """Part of the peak of the Tensor engines that products use over the device time."""
        return self.flops / (self.peak_flops * self.device_time) if self.device_time else 0.0

    @property
    def mbu(self) -> float:
        """Part of the device time that transfers with HBM need at what the DMA engines of all cores sustain, in loads
        and in stores; a byte within HBM is moved once.
        """
        seconds = metrics.hbm_seconds(self.cores, self.target)
        return seconds / (self.device_time * len(self.cores)) if self.device_time else 0.0

    @property
    def intensity(self) -> float:
        """Operations of products per byte of HBM traffic."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else 0.0

    @property
    def ridge(self) -> float:
        """The intensity from which on the Tensor engines, and not the transfers, are the limit."""
        return self.peak_flops / self.peak_bandwidth

    @cached_property
    def transfers(self) -> list[TransferSize]:
        """DMA transfers by size."""
        return metrics.transfer_sizes(self.cores)

    @cached_property
    def critical_path(self) -> list[Step]:
        """The chain of instructions that makes the slowest core as slow as it is, over all cores that it waits for."""
        return metrics.critical_path(self.cores)

    @cached_property
    def lines(self) -> dict[Span | None, Cost]:
        """Cost by source line, the greatest part of the critical path first; ns."""
        return metrics.costs(self.cores, self.critical_path, metrics.by_line)

    @cached_property
    def callers(self) -> Callers:
        """Cost of calls, and of lines by the calls that lead to them; ns."""
        return callers(self.cores, self.critical_path)

    @cached_property
    def by_instruction(self) -> dict[str, Cost]:
        """Cost by mnemonic, the greatest part of the critical path first; ns."""
        return metrics.costs(self.cores, self.critical_path, metrics.by_mnemonic)

    @cached_property
    def memory(self) -> list[MemoryUse]:
        """SBUF and PSUM in use over time."""
        return [use for core in self.cores for use in metrics.memory_uses(core)]

    @property
    def peak_memory(self) -> dict[str, int]:
        """Most bytes per partition in use at one time on a core, by memory."""
        return {memory: max(use.peak for use in self.memory if use.memory == memory) for memory in ("sbuf", "psum")}

    @property
    def available_memory(self) -> dict[str, int]:
        """Bytes per partition that a kernel can use, by memory."""
        return {"sbuf": self.target.sbuf_usable_partition_bytes, "psum": self.target.psum_partition_bytes}

    def what_if(self, **changes: float) -> Self:
        """The run if the hardware had other numbers: factors such as ``dma_bandwidth=2.0``, or values of facts such
        as ``semaphore_ns=0``. The program and its order stay as they are.

        Raises :class:`WhatIfError` for an unknown name.
        """
        target = what_if.changed(self.target, changes)
        programs, origin = (self.timed, self.fewest, self._wider), self.origin.changed(changes)
        return type(self)(self.program, target, *programs, lambda: self.spare_loads, origin, self._recompiled)
