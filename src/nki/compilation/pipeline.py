"""The compiler on one screen: capture, check, specialise, then one stage after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nki.analysis.unnamed_tensors import warn_of_unnamed
from nki.base import gc_pause, progress
from nki.base.locks import imported
from nki.compilation.float_arguments import with_float_arguments
from nki.compilation.hazard_check import CheckHazards
from nki.compilation.launch_errors import BugReports
from nki.frontend.builder import CommonTensors
from nki.frontend.capture import capture
from nki.frontend.specialise import launch_of, specialise
from nki.frontend.syntax_rules import check
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.ordering import Pairs, connect_names
from nki.ir.program import Program
from nki.ir.stage import Stage, Stages, check_stage
from nki.passes.accumulate import Accumulate
from nki.passes.allocate import Allocate
from nki.passes.order import Order
from nki.passes.schedule import Schedule
from nki.passes.sync import Sync
from nki.passes.verify import Verify
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.compilation.vendor_options import Configs

STAGES = Stages((Verify(), Accumulate(), CheckHazards(), Order(), Allocate(), Schedule(), Sync()))
SPECIALISE = "specialise"
"""The name of what precedes the stages."""
NATIVE_STOP = "allocate"
"""The last stage that native code needs: it runs instructions one after the other."""

Observe = Callable[[str, Program], None]


def ignore(stage: str, program: Program) -> None:
    """An observer that does nothing."""


def compile(  # noqa: A001  # the word of the field, and of the design
    fn: Callable[..., Any] | None,
    arguments: Mapping[str, Any],
    target: Target,
    *,
    grid: tuple[int, ...] = (),
    start: Program | None = None,
    stop: str | None = None,
    edges: Pairs = (),
    stages: Sequence[Stage] = STAGES,
    observe: Observe = ignore,
    configs: Configs | None = None,
) -> Program:
    """Compile ``fn`` for ``arguments``: a TensorSpec per tensor, plain values for constants; or start from ``start``.

    ``observe(stage, program)`` sees the program after ``specialise`` and after every stage; ``stop`` names the
    last one. ``edges`` connect instructions by their ``name=``. ``configs``: of ``fn``.
    """
    if stop is not None:
        check_stage(stop, (SPECIALISE, *STAGES.names))
    name = getattr(fn, "__name__", "kernel") if start is None else start.name
    with BugReports(), gc_pause.paused(), progress.compiling(name):
        program = start or _specialised(_given(fn), arguments, target, grid, edges, configs)
        observe(SPECIALISE, program)
        if stop == SPECIALISE:
            return program
        return run_stages(program, target, stages, stop, observe)


def run_stages(
    program: Program, target: Target, stages: Sequence[Stage], stop: str | None = None, observe: Observe = ignore
) -> Program:
    """Run, and check, the ``stages`` that concern ``program``, in order; ``stop`` is the last one."""
    for stage in stages:
        if stage.concerns(program):
            progress.stage(stage.name)
            before, program = program, stage.run(program, target)
            stage.check(before, program, target)
        observe(stage.name, program)
        if stage.name == stop:
            break
    return program


def _specialised(
    fn: Callable[..., Any],
    arguments: Mapping[str, Any],
    target: Target,
    grid: tuple[int, ...],
    edges: Pairs,
    configs: Configs | None,
) -> Program:
    """The kernel with a program for each core of ``grid``; the programs of a larger grid belong to its cores."""
    captured = check(capture(fn))
    common = CommonTensors()
    grid, programs = launch_of(grid, target)
    cores = range(grid[0] if grid else 1)
    config: Any = imported("nki.compilation.vendor_options")  # `import nki` does not pay for it
    with config.configured(configs):
        parts = [
            specialise(captured, arguments, target, grid=grid, core=core, programs=programs, common=common)
            for core in cores
        ]
    if edges:
        for part in parts:
            connect_names(part.core.body, edges, captured.span(captured.node))
    program = Program.of(parts)
    if RuntimeFloat in map(type, arguments.values()):
        program = with_float_arguments(program, arguments)
    if common.unnamed:
        warn_of_unnamed(program, common.unnamed)
    program.spills = config.spills(configs)
    return program


def _given(fn: Callable[..., Any] | None) -> Callable[..., Any]:
    if fn is None:
        raise TypeError("compile needs a function, or a kernel to start from")
    return fn
