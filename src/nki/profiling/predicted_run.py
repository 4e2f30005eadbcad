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
from nki.profiling.assumptions import ORDER, SPARE_LOADS, Assumption, Facts, Queues, same_trips
from nki.profiling.callers import Callers, callers
from nki.profiling.events import CoreEvents
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
    """A reading of what is not known: all guessed facts of ``target`` at the ``facts`` end of their ranges, and the
    ``program`` that a compiler may make, with its ``assumption`` and those before it, or without (None).
    """

    timed: TimedProgram
    target: Target
    facts: Facts
    program: str
    assumption: Assumption | None = None

    def run(self) -> Timeline:
        """The replay of it."""
        return self.timed.run(self.target) if self.assumption is None else self.assumption.run(self.target)


class Worth(NamedTuple):
    """The addition of an ``assumption`` to the interval: ``seconds`` at its end, and the ``part`` of the end before. Of
    one aside: what it adds to the latency, which may be less than 0, and the part of the latency.
    """

    assumption: Assumption
    seconds: float
    part: float


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
        find_assumptions: Callable[[], tuple[Assumption, ...]] = tuple,
        origin: Origin = UNKNOWN,
        recompiled: Callable[[Stage], TimedProgram | None] = lambda _: None,
        queues: Queues = "list",
    ) -> None:
        self.program = program
        self.target = target
        self.timed = timed
        self.fewest = fewest or timed
        self._find_assumptions = find_assumptions
        self.origin = origin
        self._recompiled = recompiled
        self.queues: Queues = queues
        """The order of the instructions of each queue: of the list scheduler, or of the program."""
        self.timeline: Timeline = timed.run(target)
        self.drawn: dict[int, tuple[float, ...]] = {}
        """The latencies that :mod:`nki.profiling.draws` has found, by the number of draws."""

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
    def capture_time(self) -> float:
        """Start-up and tear-down of an execution that a profiler captures, around the kernel's own time."""
        return self.target.capture_ns * 1e-9

    @property
    def total_time(self) -> float:
        """The time that a profiler on the device would show: the kernel with the capture's start-up and tear-down."""
        return self.device_time + self.capture_time

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The freedoms of another compiler with this kernel (:mod:`nki.profiling.assumptions`)."""
        return self._find_assumptions()

    @cached_property
    def ends(self) -> list[End]:
        """The readings of what is not known: at each end of the interval the program as it is compiled, then with one
        assumption after the other.
        """
        fewest = "as compiled" if self.fewest is self.timed else "with the fewest iterations"
        fast = [End(self.fewest, target, "fast", fewest) for target in self.target.bounds(0)]
        ends: list[End] = []
        for base in [*fast, *(End(self.timed, target, "slow", "as compiled") for target in self.target.bounds(1))]:
            here = [each for each in self.assumptions if each.end == base.facts]
            ends += [base, *(base._replace(timed=each.timed, program=each.name, assumption=each) for each in here)]
        return ends

    @cached_property
    def device_readings(self) -> list[tuple[End, float]]:
        """The time on the device in seconds at each end."""
        readings: list[tuple[End, float]] = []
        for end in self.ends:
            if end.assumption is not None and not end.assumption.instructions:
                readings.append((end, readings[-1][1]))  # it changes nothing
            else:
                readings.append((end, end.run().ns * 1e-9))
        return readings

    @property
    def readings(self) -> list[tuple[End, float]]:
        """The latency in seconds at each end."""
        return [(end, seconds + end.target.launch_ns * 1e-9) for end, seconds in self.device_readings]

    @property
    def interval(self) -> tuple[float, float]:
        """The latency if every number that is not known exactly were at the fast, or at the slow, end of its range, and
        a compiler did all that it may do.
        """
        times = [self.latency, *(seconds for _, seconds in self.readings)]
        return min(times), max(times)

    @property
    def device_interval(self) -> tuple[float, float]:
        """The same of :attr:`device_time`."""
        times = [self.device_time, *(seconds for _, seconds in self.device_readings)]
        return min(times), max(times)

    @property
    def total_interval(self) -> tuple[float, float]:
        """The same of :attr:`total_time`."""
        ends = [seconds + end.target.capture_ns * 1e-9 for end, seconds in self.device_readings]
        return min(self.total_time, *ends), max(self.total_time, *ends)

    @cached_property
    def asides(self) -> list[Worth]:
        """The addition to the latency of each assumption that is in no interval."""
        found = [each for each in self.assumptions if each.end == "aside"]
        more = [each.run(self.target).ns * 1e-9 - self.device_time for each in found]
        parts = [seconds / self.latency if self.latency else 0.0 for seconds in more]
        return list(map(Worth, found, more, parts))

    @cached_property
    def worths(self) -> list[Worth]:
        """The addition of each assumption to the interval, in the order of :attr:`assumptions`."""
        worths = {id(each.assumption): each for each in self.asides}
        for facts, best in (("fast", min), ("slow", max)):
            reached = self.latency
            for end, seconds in [(end, seconds) for end, seconds in self.readings if end.facts == facts]:
                before, reached = reached, best(reached, seconds)
                if end.assumption is not None and id(end.assumption) not in worths:
                    part = abs(reached / before - 1) if before else 0.0
                    worths[id(end.assumption)] = Worth(end.assumption, abs(reached - before), part)
        return [worths[id(each)] for each in self.assumptions]

    def assumption(self, name: str) -> Assumption | None:
        """The assumption of that name; None if there is nothing in the kernel that it is about."""
        return next((each for each in self.assumptions if each.name == name), None)

    @property
    def order(self) -> Assumption | None:
        """The other order of the queues: of the program, or of the list scheduler; None if no other is known."""
        return self.assumption(ORDER)

    @property
    def spare_loads(self) -> Assumption | None:
        """Loads of rows that SBUF still holds, which the vendor's compiler may leave out; None if there are none."""
        return self.assumption(SPARE_LOADS)

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
        target, origin = what_if.changed(self.target, changes), self.origin.changed(changes)
        known = self.timed, self.fewest, lambda: self.assumptions, origin, self._recompiled, self.queues
        return type(self)(self.program, target, *known)
