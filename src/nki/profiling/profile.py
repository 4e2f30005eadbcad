"""``nki.profile``: predict the time of a kernel on the device, and say where it goes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from nki import target as targets
from nki.base.errors import KernelArgumentError, NkiError
from nki.base.locks import imported
from nki.base.profile_errors import ProfileFileError
from nki.base.source import Span
from nki.compiler.errors import strip_frames
from nki.cost.dma import bandwidth
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.profiling import measures, notebook, parquet, text, trace, what_if
from nki.profiling.advice import Advice, advise
from nki.profiling.callers import Callers, callers
from nki.profiling.compiling import Given, as_kernel, compiled_kernel, origin_of, trips_of
from nki.profiling.events import CoreEvents
from nki.profiling.measures import Cost, EngineUse, MemoryUse, Step, TransferSize
from nki.profiling.memory_choices import Compiled, SpareLoads, same_trips
from nki.profiling.summary import summary
from nki.profiling.titles import UNKNOWN, Origin
from nki.sim.lower_bound import lower_bound
from nki.sim.timing import TimedProgram, Timeline, Trips
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


class Profile:
    """The predicted run of a kernel on one target. Times of properties are seconds, those of events ns.

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
        """The ends of the interval; at the fast end, no load is spare, and at the slow end, no result is in the place
        of an operand.
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
        return [use for core in self.cores for use in measures.engine_uses(core, self.timeline.ns)]

    @cached_property
    def bytes(self) -> dict[str, int]:
        """Bytes by memory and direction (``hbm_read``, ``sbuf_write``, …), over all cores."""
        return measures.memory_bytes(self.cores)

    @property
    def hbm_bytes(self) -> int:
        """Bytes read from and written to HBM."""
        return self.bytes["hbm_read"] + self.bytes["hbm_write"]

    @cached_property
    def flops(self) -> int:
        """Operations of matrix products, transposes left out."""
        return measures.flops(self.cores, moves=False)

    @cached_property
    def transpose_flops(self) -> int:
        """Operations of the Tensor engine that only move data."""
        return measures.flops(self.cores, moves=True)

    @cached_property
    def peak_flops(self) -> float:
        """Operations per second of the cores' Tensor engines in the modes of the kernel's products: those of 8-bit
        operands that do several at once have a higher peak than 16-bit operands have, and float32 counts as these.
        """
        slots = measures.product_slots(self.cores)
        return self.peak_flops_16_bit * (self.flops / slots if slots else 1)

    @property
    def peak_flops_16_bit(self) -> float:
        """Operations per second of the cores' Tensor engines, for 16-bit operands."""
        target = self.target
        array = target.partitions * target.matmul_stationary_free_max
        return 2 * array * target.tensor_clock_ghz * 1e9 * len(self.cores)

    @property
    def peak_bandwidth(self) -> float:
        """Bytes per second that the DMA engines of the cores sustain in loads."""
        return bandwidth(self.target) * 1e9 * len(self.cores)

    @property
    def mfu(self) -> float:
        """Part of the peak of the Tensor engines that products use over the device time."""
        return self.flops / (self.peak_flops * self.device_time) if self.device_time else 0.0

    @property
    def mbu(self) -> float:
        """Part of the device time that transfers with HBM need at what the DMA engines of all cores sustain, in loads
        and in stores; a byte within HBM is moved once.
        """
        seconds = measures.hbm_seconds(self.cores, self.target)
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
        return measures.transfer_sizes(self.cores)

    @cached_property
    def critical_path(self) -> list[Step]:
        """The chain of instructions that makes the slowest core as slow as it is, over all cores that it waits for."""
        return measures.critical_path(self.cores)

    @cached_property
    def lines(self) -> dict[Span | None, Cost]:
        """Cost by source line, the greatest part of the critical path first; ns."""
        return measures.costs(self.cores, self.critical_path, measures.by_line)

    @cached_property
    def callers(self) -> Callers:
        """Cost of calls, and of lines by the calls that lead to them; ns."""
        return callers(self)

    @cached_property
    def by_instruction(self) -> dict[str, Cost]:
        """Cost by mnemonic, the greatest part of the critical path first; ns."""
        return measures.costs(self.cores, self.critical_path, measures.by_mnemonic)

    @cached_property
    def memory(self) -> list[MemoryUse]:
        """SBUF and PSUM in use over time."""
        return [use for core in self.cores for use in measures.memory_uses(core)]

    @property
    def peak_memory(self) -> dict[str, int]:
        """Most bytes per partition in use at one time on a core, by memory."""
        return {memory: max(use.peak for use in self.memory if use.memory == memory) for memory in ("sbuf", "psum")}

    @property
    def available_memory(self) -> dict[str, int]:
        """Bytes per partition that a kernel can use, by memory."""
        return {"sbuf": self.target.sbuf_usable_partition_bytes, "psum": self.target.psum_partition_bytes}

    @cached_property
    def advice(self) -> list[Advice]:
        """Changes of the kernel that the model expects to be worth it, the greatest worth first."""
        return advise(self)

    def what_if(self, **changes: float) -> Profile:
        """The profile if the hardware had other numbers: factors such as ``dma_bandwidth=2.0``, or values of facts such
        as ``semaphore_ns=0``. The program and its order stay as they are.

        Raises :class:`WhatIfError` for an unknown name.
        """
        target = what_if.changed(self.target, changes)
        programs, origin = (self.timed, self.fewest, self._wider), self.origin.changed(changes)
        return Profile(self.program, target, *programs, lambda: self.spare_loads, origin, self._recompiled)

    def compare(self, other: Profile) -> Comparison:
        """The profile beside another one: another kernel, target or what-if."""
        if not isinstance(other, Profile):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's argument
            raise KernelArgumentError(
                f"compare({other!r:.60}): this is no profile", fix="pass the result of nki.profile(kernel)(*args)"
            )
        return Comparison(self, other)

    def summary(self) -> dict[str, Any]:
        """The fields of the public profiler's ``summary-json``, times in seconds; see :mod:`nki.profiling.summary`."""
        return summary(self)

    def to_parquet(self, folder: str | Path) -> list[Path]:
        """Write the tables of the public profiler into ``folder``, one file each; the files.

        Raises :class:`MissingPackageError` without the package ``pyarrow``.
        """
        return parquet.write(self, Path(folder))

    def to_trace(self, path: str | Path) -> Path:
        """Write a Perfetto trace of the run to the file ``path``.

        Raises :class:`MissingPackageError` without the package ``perfetto``.
        """
        return trace.write(self, Path(path))

    def __str__(self) -> str:
        return text.report(self)

    def _repr_html_(self) -> str:
        return notebook.table(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report to ``path``: one HTML file that needs no network (:mod:`nki.profiling.html`). The path.

        Raises :class:`ProfileFileError` if the file cannot be written.
        """
        file = Path(path)
        page = imported("nki.profiling.html").render(self)
        try:
            file.write_text(page, encoding="utf-8")
        except OSError as error:
            fix = "choose a file that can be written"
            raise ProfileFileError(f"{file}: {error.strerror or error}", fix=fix) from None
        return file

    def __repr__(self) -> str:
        return f"<profile of {self.name} on {self.target}: {self.latency * 1e6:.2f} us>"


@dataclass(frozen=True)
class Comparison:
    """Two profiles; ``speedup`` is how many times as fast the second one is."""

    first: Profile
    second: Profile

    @property
    def speedup(self) -> float:
        return self.first.latency / self.second.latency

    @property
    def changed_lines(self) -> list[tuple[Span | None, float]]:
        """The lines of both profiles that take more, or less, of the critical path of the second one: the line and the
        change in ns, the greatest first.
        """
        first, second = self.first.lines, self.second.lines
        changes = [(span, second[span].critical - first[span].critical) for span in first if span in second]
        return sorted((each for each in changes if abs(each[1]) > 1e-3), key=lambda each: -abs(each[1]))

    def __str__(self) -> str:
        return text.compared(self)

    def _repr_html_(self) -> str:
        return notebook.compared(self)


def profile(
    kernel: Callable[..., Any], target: str | Target | None = None, trips: Given | None = None
) -> Callable[..., Profile]:
    """``nki.profile(kernel, target="trn2")(*args)``: the predicted run on the device, as a :class:`Profile`.

    ``args`` are arrays, or objects with ``shape`` and ``dtype``: only loops whose number of iterations depends on data
    need the data, and a run on the CPU then counts them. ``trips`` states them instead: a number, or a pair of the
    least and the greatest (the profile then holds the greatest, its interval both), for all such loops or by line.
    Nothing is run otherwise, and no cache changes.
    """
    as_kernel(kernel)

    @functools.wraps(getattr(kernel, "func", kernel))
    def predict(*args: Any, **kwargs: Any) -> Profile:
        try:
            chosen = target if target is None or isinstance(target, Target) else targets.find(str(target))
            compiled, inputs = compiled_kernel(kernel, args, kwargs, chosen)
            least, most = trips_of(compiled.timed.program, inputs, trips)
            return of_program(compiled, most, least, origin_of(kernel, args, kwargs))
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return predict


def of_program(
    kernel: Program | Compiled, trips: Trips | None = None, least: Trips | None = None, origin: Origin = UNKNOWN
) -> Profile:
    """The profile of a kernel after the last stage; ``least``: the fewest iterations, for the interval."""
    compiled = Compiled(TimedProgram(kernel)) if isinstance(kernel, Program) else kernel
    program, wider = compiled.timed.program, compiled.wider
    timed = compiled.timed.with_trips(trips or {})
    fewest = timed if least in (None, trips) else timed.with_trips(least)
    if wider is not None:
        wider = wider.with_trips(same_trips(wider.program, program, trips or {}))

    def spare_loads() -> SpareLoads | None:
        spare = compiled.find_spare_loads()
        return spare.with_trips(program, least or trips or {}) if spare is not None else None

    known = targets.find(program.target), timed, fewest, wider, spare_loads, origin
    return Profile(program, *known, compiled.recompiled)
