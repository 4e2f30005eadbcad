"""Eager execution: NumPy executes every instruction as soon as the kernel's Python records it.

``print(tile)`` shows values, and a debugger stops between two instructions with all earlier ones computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

from numpy.typing import NDArray

from nki.analysis.psum_state import PsumState
from nki.analysis.unnamed_tensors import warn_of_unnamed
from nki.backend.numpy.executor import Reference
from nki.backend.numpy.gather_scatter import gathered
from nki.backend.numpy.memory import Memory
from nki.backend.numpy.whole_numbers import exact_results
from nki.base import knobs
from nki.base.errors import NkiError
from nki.base.source import Where
from nki.base.tensor_text import text_of
from nki.base.warning import collecting
from nki.compilation import pipeline, simulated_run, vendor_options
from nki.compilation.hazard_check import CheckHazards
from nki.frontend.builder import CommonTensors, Observer
from nki.frontend.capture import capture
from nki.frontend.specialise import launch_of, specialise
from nki.frontend.syntax_rules import check
from nki.ir.indirection.gather_offsets import lists
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.ordering import Pairs, connect_names
from nki.ir.program import Program
from nki.ir.types import Access, Tensor, is_element_indexed
from nki.ir.value_printer import showing
from nki.passes import accumulate, verify
from nki.passes.allocate import Allocate
from nki.rendezvous.protocol import Participant
from nki.rendezvous.round_robin import RoundRobin
from nki.sim.hazards import Hazards, Launch
from nki.target.memory_spaces import OFFSET_GROUP
from nki.target.model import Target
from nki.transforms import promote_float32

Array = NDArray[Any]
_NO_MORE = object()


@dataclass(slots=True)
class _Rounds:
    """A loop while its body is recorded: the remaining rounds; ``runs`` is False if the loop has no round.

    ``body`` holds the statements that the remaining rounds execute for those recorded so far.
    """

    left: Iterator[None]
    runs: bool
    body: list[Statement] = field(default_factory=list[Statement])


class _Execution(Observer):
    """Executes recorded instructions. A loop's first round runs while its body is recorded, the others at its end."""

    def __init__(
        self,
        arrays: list[Array],
        target: Target,
        grid: tuple[int, ...],
        memory: Memory,
        wide: promote_float32.Widening | None,
        participant: Participant | None,
        launch: Launch | None,
    ) -> None:
        self.grid = grid
        self.core = 0 if participant is None else participant.rank
        self.memory = memory
        self.executor = Reference(memory, participant)
        self.hazards = None
        if launch is not None:
            self.hazards = Hazards(launch, self.executor, multicore=participant is not None, exact=exact_results)
        self.executor.observer = self.hazards
        self.psum = PsumState(target, warns=launch is None)  # they know more, and stop the kernel
        self.wide = wide
        self.waiting = iter(arrays)
        self.loops: list[_Rounds] = []

    def allocated(self, tensor: Tensor) -> None:
        self.psum.declare(tensor)
        if self.hazards is not None:
            self.hazards.allocated(tensor)
        if tensor.role == "input" and self.core == 0:
            self.memory.bind(tensor, next(self.waiting))

    def values(self, access: Access) -> str:
        """The present values of a tensor, for ``print``."""
        if self.wide is not None:
            access = self.wide.access(access)
        if is_element_indexed(access):
            return self._chosen(access)
        if access.dynamic is not None:
            followed = self.executor.followed(access)
            if followed is None:
                return "out of bounds"
            access = followed
        return text_of(self.memory.window(access), access.dtype)

    def _chosen(self, access: Access) -> str:
        """The elements that offsets select, in groups of the size that all engines but the Tensor engine use."""
        assert access.dynamic is not None
        index = self.memory.window(access.dynamic.source)
        if access.shape[1] > OFFSET_GROUP * index.shape[1]:
            return "as the Tensor engine chooses them"
        offsets = lists(index, OFFSET_GROUP, access.shape[1])
        if offsets.max() > largest_index(access):
            return "out of bounds"
        return text_of(gathered(self.memory, access, offsets), access.dtype)

    def emitted(self, inst: Inst) -> None:
        verify.check_writes(inst)
        for access in inst.writes():
            if access.tensor.role == "input":
                self.memory.own(access.tensor)  # only at its end is known if the kernel returns it
        verify.check_cores(inst, self.core, self.grid)
        decided = accumulate.decided(inst, self.psum)
        if self.wide is not None:
            decided = [self.wide.inst(each) for each in decided]
        if self.loops:
            self.loops[-1].body += decided
        if not self.loops or self.loops[-1].runs:
            self.executor.run(decided)

    def entered(self, loop: Loop) -> None:
        self.psum.enter_loop()
        rounds = self.executor.rounds(loop)
        runs = (not self.loops or self.loops[-1].runs) and next(rounds, _NO_MORE) is not _NO_MORE
        self.loops.append(_Rounds(rounds, runs))

    def left(self, loop: Loop) -> None:
        self.psum.leave_loop(loop)
        rounds = self.loops.pop()
        if self.loops:
            self.loops[-1].body.append(replace(loop, body=tuple(rounds.body)))
        if rounds.runs:
            self.executor.repeat(loop, rounds.body, rounds.left)

    def unrolling(self, where: Where) -> None:
        if self.hazards is not None:
            self.hazards.unrolling(where)

    def iterating(self) -> None:
        if self.hazards is not None:
            self.hazards.iterating()

    def unrolled(self) -> None:
        if self.hazards is not None:
            self.hazards.unrolled()


def run(
    fn: Callable[..., Any],
    arguments: Mapping[str, Any],
    arrays: list[Array],
    target: Target,
    grid: tuple[int, ...] = (),
    edges: Pairs = (),
    configs: vendor_options.Configs | None = None,
) -> tuple[Program, list[Array]]:
    """Run ``fn`` on dense ``arrays``, one per TensorSpec in ``arguments``; the kernel that ran, and its outputs.

    Edges between instructions change no result; the run still checks that some order obeys them.
    """
    memory, captured = Memory(), check(capture(fn))
    wide = None if knobs.precise_fp() else promote_float32.Widening()
    carried = captured.dialect.propagates_undefined
    watched = knobs.hazards() and wide is None  # wide tiles take the place of others
    launch = Launch(target, propagates_undefined=carried) if watched else None

    grid, programs = launch_of(grid, target)

    def results() -> set[str]:
        """The names of what the kernel returns, from a recording that runs nothing and says nothing."""
        alone = CommonTensors()
        with collecting(aside=True), redirect_stdout(StringIO()), showing(lambda _: ""), suppress(NkiError):
            specialise(captured, arguments, target, grid=grid, programs=programs, common=alone)
        return alone.results

    common = CommonTensors(find=results)

    def work(participant: Participant | None) -> Program:
        execution = _Execution(arrays, target, grid, memory, wide, participant, launch)
        with showing(execution.values):
            return specialise(
                captured,
                arguments,
                target,
                grid=grid,
                core=execution.core,
                programs=programs,
                common=common,
                observer=execution,
            )

    count = grid[0] if grid else 1
    with vendor_options.configured(configs):
        kernel = Program.of([work(None)] if count == 1 else RoundRobin[Program](count).run([work] * count))
    warn_of_unnamed(kernel, common.unnamed)
    kernel.spills = vendor_options.spills(configs)
    verify.Verify().check(kernel, kernel, target)
    if launch is not None:
        simulated_run.finish(launch, kernel, arrays)
    for core in kernel.cores:
        connect_names(core.body, edges, captured.span(captured.node))
    # Refuses what does not fit; known only now. What lies over what, hazards know to the byte.
    stages = pipeline.STAGES.behind(CheckHazards.name).with_stage(Allocate(check_overlap=launch is None))
    pipeline.run_stages(kernel, target, stages, pipeline.NATIVE_STOP)
    return kernel, memory.results(kernel if wide is None else wide.kernel(kernel))
