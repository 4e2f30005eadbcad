"""The compiler on one screen: capture, check, specialise, then one stage after the other."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from nki.base import gc_pause, knobs
from nki.base.errors import StageError
from nki.frontend.capture import capture
from nki.frontend.specialise import specialise
from nki.frontend.syntax_rules import check
from nki.ir.ordering import Pairs, connect_names
from nki.ir.program import Program, joined
from nki.ir.types import Tensor
from nki.passes import accumulate, allocate, order, schedule, sync, verify
from nki.target.model import Target

STAGES = {
    "verify": verify,
    "accumulate": accumulate,
    "depend": order,
    "allocate": allocate,
    "schedule": schedule,
    "sync": sync,
}
"""Each stage's ``run`` takes a kernel and a target and gives a kernel; ``legal`` says what holds after it."""
NATIVE = "allocate"
"""The last stage that native code needs: it runs instructions one after the other."""

Observe = Callable[[str, Program], None]


def ignore(stage: str, kernel: Program) -> None:
    """An observer that looks away."""


def compile(  # noqa: A001  # the word of the field, and of the design
    fn: Callable[..., Any] | None,
    arguments: Mapping[str, Any],
    target: Target,
    *,
    grid: tuple[int, ...] = (),
    start: Program | None = None,
    stop: str | None = None,
    edges: Pairs = (),
    reorder: bool | None = None,
    observe: Observe = ignore,
) -> Program:
    """Compile ``fn`` for ``arguments``: a TensorSpec per tensor, plain values for constants; or go on from ``start``.

    ``observe(stage, kernel)`` sees the kernel after ``specialise`` and after every stage; ``stop`` names the last one.
    ``edges`` are drawn between instructions that ``name=`` has named. ``reorder``: queues may take instructions in
    another order than the program's (None: unless the environment says OPEN_NKI_REORDER=0).
    """
    check_stage(stop)
    with gc_pause.paused():
        kernel = start or _specialised(_given(fn), arguments, target, grid, edges)
        options = {"schedule": {"reorder": knobs.reorder() if reorder is None else reorder}}
        observe("specialise", kernel)
        for name, stage in STAGES.items() if stop != "specialise" else ():
            kernel = joined([stage.run(core, target, **options.get(name, {})) for core in kernel.cores])
            stage.legal(kernel)
            observe(name, kernel)
            if name == stop:
                break
    return kernel


def _specialised(
    fn: Callable[..., Any], arguments: Mapping[str, Any], target: Target, grid: tuple[int, ...], edges: Pairs
) -> Program:
    """The kernel with a program for each core of ``grid``."""
    captured = check(capture(fn))
    common: dict[str, Tensor] = {}
    cores = range(grid[0] if grid else 1)
    made = [specialise(captured, arguments, target, grid=grid, core=core, common=common) for core in cores]
    if edges:
        for kernel in made:
            connect_names(kernel.body, edges, captured.span(captured.node))
    return joined(made)


def check_stage(name: str | None) -> None:
    """Raise :class:`StageError` unless ``name`` is a stage (or None)."""
    names = ["specialise", *STAGES]
    if name is not None and name not in names:
        near = difflib.get_close_matches(name, names, 1)
        raise StageError(
            f"there is no compiler stage {name!r}",
            fix=(f"did you mean {near[0]}? " if near else "") + f"stages: {', '.join(names)}",
        )


def _given(fn: Callable[..., Any] | None) -> Callable[..., Any]:
    if fn is None:
        raise TypeError("compile needs a function, or a kernel to start from")
    return fn
