"""A kernel and its arguments as a scheduled program, and the iterations of loops that only the data says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy import executor
from nki.base.errors import KernelArgumentError
from nki.compiler import pipeline
from nki.ir.execution_observer import ExecutionObserver
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, While, loops
from nki.ir.program import Program
from nki.ir.types import Access
from nki.jit import Kernel, adapter_for
from nki.numerics.floating_point import default_environment
from nki.profiling.shapes import is_shape_only, placeholder
from nki.sim.timing import Trips, loop_count
from nki.target.model import Target

Array = NDArray[Any]


def compiled(
    kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: Target | None
) -> tuple[Program, list[Array] | None]:
    """The program of ``kernel`` after the last stage, and its inputs as arrays; None if one of them has only a shape.

    No cache keeps anything.
    """
    launched = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    chosen = target or launched.chosen_target()
    positional = tuple(placeholder(value) for value in args)
    named = {name: placeholder(value) for name, value in kwargs.items()}
    adapter = adapter_for(positional, named)
    arguments = launched.bind(positional, named)
    specs = launched.specs(arguments, adapter)
    grid = launched.launch_grid(chosen)
    with default_environment():
        program = pipeline.compile(
            launched.func, specs, chosen, grid=grid, edges=launched.schedule, spills=launched.spills
        )
    if any(map(is_shape_only, (*args, *kwargs.values()))):
        return program, None
    tensors = [value for value in arguments.values() if adapter.is_framework_tensor(value)]
    return program, [np.ascontiguousarray(adapter.to_numpy(tensor)) for tensor in tensors]


Given = int | tuple[int, int] | Mapping[int, int | tuple[int, int]]
"""Iterations that a caller states: of all loops, or by line; a number, or the least and the greatest."""


def trips_of(program: Program, arrays: list[Array] | None, given: Given | None = None) -> tuple[Trips, Trips]:
    """The least and the most iterations of the loops of ``program`` whose bounds only the run knows.

    They are ``given``, or counted by a run on ``arrays``; a loop that is neither has no entry.
    """
    unknown = unknown_loops(program)
    stated = {id(loop): bounds for loop in unknown if (bounds := _stated(loop, given)) is not None}
    counted = {} if len(stated) == len(unknown) or arrays is None else _counted(program, arrays, unknown)
    ends = [{**counted, **{loop: (bounds[end],) for loop, bounds in stated.items()}} for end in (0, 1)]
    return ends[0], ends[1]


def _stated(loop: Loop, given: Given | None) -> tuple[int, int] | None:
    if isinstance(given, Mapping):
        span = loop.where.span
        given = None if span is None else given.get(span.line)
    if given is None:
        return None
    counts = given if isinstance(given, tuple) else (given, given)
    if len(counts) != 2 or any(type(count) is not int or count < 0 for count in counts) or counts[0] > counts[1]:
        raise KernelArgumentError(
            f"trips={given!r}: this is no number of iterations, and no pair of the least and the greatest",
            fix="pass a number, a pair such as (0, 64), or either by line of the loop: trips={12: 64}",
        )
    return counts


def _counted(program: Program, arrays: list[Array], unknown: list[Loop]) -> dict[int, Sequence[int]]:
    """The iterations of ``unknown`` loops in a run on ``arrays``."""
    counters: list[_TripCounter] = []

    def watch(*_: Any) -> _TripCounter:
        counters.append(_TripCounter())
        return counters[-1]

    with default_environment():
        executor.run(program, arrays, watch)
    counts: dict[int, list[int]] = {}
    for counter in counters:
        counts.update(counter.finished())
    return {id(loop): counts.get(id(loop), [0]) for loop in unknown}


def unknown_loops(program: Program) -> list[Loop]:
    """The loops of ``program`` whose numbers of iterations only a run knows."""
    return [loop for core in program.cores for loop in loops(core.body) if loop_count(loop) is None]


class _TripCounter(ExecutionObserver):
    """Counts the iterations of every loop, each time that it is entered."""

    def __init__(self) -> None:
        self.counts: dict[int, list[int]] = {}
        self.conditions: set[int] = set()

    def enters_loop(self, loop: Loop) -> None:
        self.counts.setdefault(id(loop), []).append(0)

    def counts_iteration(self, loop: For) -> None:
        self.counts[id(loop)][-1] += 1

    def reads_index(self, by: Inst | Loop, index: Access) -> None:  # noqa: ARG002
        if isinstance(by, While):
            self.conditions.add(id(by))
            self.counts[id(by)][-1] += 1

    def finished(self) -> dict[int, list[int]]:
        """The counts; a ``while`` loop tests its condition once more than it runs."""
        return {
            loop: [count - 1 for count in counts] if loop in self.conditions else counts
            for loop, counts in self.counts.items()
        }
