"""Tiles in float32 instead of fewer bits: what that does to the error, and to the predicted time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from numpy.typing import NDArray

from nki.base.errors import NkiError
from nki.base.source import Span
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.types import Tensor
from nki.passes.accumulate import Accumulate
from nki.passes.verify import Verify
from nki.profiling.assumptions import Compiled, compiled
from nki.rounding import shadow_run
from nki.rounding.findings import LineError, WiderTiles
from nki.rounding.line_errors import relative
from nki.rounding.shadow_run import Output
from nki.rounding.tracked import difference
from nki.sim.timing import TimedProgram, once
from nki.target.model import Target
from nki.transforms.promote_float32 import LOW, PromoteFloat32

Array = NDArray[Any]
MOST: Final = 4
"""Lines with tiles that are tried."""
_LEAST: Final = 1.05
"""A change that lowers the error by less than this factor is not shown."""


def tried(
    program: Program, arrays: Sequence[Array], outputs: Sequence[Output], lines: Sequence[LineError], target: Target
) -> tuple[WiderTiles, ...]:
    """Reruns of ``program``, after stage ``accumulate``, with the tiles of notable casts in float32: of each line by
    itself, and of all of them.
    """
    tensors = {tensor.name: tensor for core in program.cores for tensor in core.tensors}
    candidates: dict[tuple[str, ...], tuple[Span, ...]] = {}
    for line in [line for line in lines if line.is_notable and line.tiles][:MOST]:
        names = tuple(name for name in line.tiles if _can_widen(tensors[name], program))
        if names:
            candidates[names] = (*candidates.get(names, ()), *([line.span] if line.span is not None else []))
    if not candidates:
        return ()
    together = tuple(dict.fromkeys(chain.from_iterable(candidates)))
    candidates.setdefault(together, tuple(chain.from_iterable(candidates.values())))
    base = compiled(lambda observe: _scheduled(program, target, observe), target)
    made: dict[tuple[str, ...], WiderTiles] = {}
    for names, spans in candidates.items():
        again = names, _with_copies(names, program)
        for tiles in dict.fromkeys(again):  # a copy in the old dtype rounds as the tile did
            found = made.get(tiles) or _rerun(program, arrays, outputs, tiles, spans, base, target)
            made[tiles] = found
            if found.less >= _LEAST or found.problem:
                break
    return tuple(sorted((each for each in made.values() if each.less >= _LEAST), key=lambda each: -each.less))


def _with_copies(names: tuple[str, ...], program: Program) -> tuple[str, ...]:
    """``names``, and the tiles of the same dtype that are made of them."""
    found = dict.fromkeys(names)
    for inst in program.instructions():
        read = {access.tensor.dtype for access in inst.reads() if access.tensor.name in found}
        made = [access.tensor for access in inst.writes() if access.tensor.dtype in read]
        found.update(dict.fromkeys(tensor.name for tensor in made if _can_widen(tensor, program)))
    return tuple(found)


def _can_widen(tensor: Tensor, program: Program) -> bool:
    """Outputs keep the dtype that the caller asks for; an address, and the bytes behind it, are the kernel's choice."""
    return tensor.dtype in LOW and tensor not in program.outputs and tensor.role != "input" and tensor.address is None


def _scheduled(program: Program, target: Target, observe: pipeline.Observe) -> Program:
    stages = pipeline.STAGES.behind(Accumulate.name)
    return pipeline.compile(None, {}, target, start=program, stages=stages, observe=observe)


def _rerun(
    program: Program,
    arrays: Sequence[Array],
    outputs: Sequence[Output],
    names: tuple[str, ...],
    spans: tuple[Span, ...],
    base: Compiled,
    target: Target,
) -> WiderTiles:
    dtypes = {tensor.dtype.name for core in program.cores for tensor in core.tensors if tensor.name in names}
    shown = " and ".join(sorted(dtypes))
    change = PromoteFloat32(frozenset(names))
    try:
        wide = change.run(program, target)
        results = shadow_run.plain(wide, arrays)
    except NkiError as error:
        return WiderTiles(names, shown, spans, 0.0, None, error.message)
    pairs = zip(outputs, results, strict=True)
    errors = [relative(difference(result, output.exact), output.exact) for output, result in pairs]
    before = max(relative(difference(output.real, output.exact), output.exact) for output in outputs)
    after = max(errors)
    less = before / after if after else float("inf")
    try:
        pipeline.run_stages(wide, target, (Verify(),))
        slower = base.recompiled(change)
    except NkiError as error:
        return WiderTiles(names, shown, spans, less, None, error.message)
    if slower is None:
        return WiderTiles(names, shown, spans, less, None, "SBUF has no room for it")
    return WiderTiles(names, shown, spans, less, _time(slower, target) / _time(base.timed, target))


def _time(timed: TimedProgram, target: Target) -> float:
    """The latency of a profile, in ns: the kernel and its launch."""
    return timed.with_trips(once(timed.program)).run(target).ns + target.launch_ns
