"""A kernel and its arguments as a scheduled program, and the iterations of loops that only the data says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import KernelArgumentError
from nki.base.locks import imported
from nki.compilation import launch_grid, pipeline
from nki.frontend.capture import unwrap
from nki.frontend.frontend_errors import NotAFunctionError
from nki.ir.execution_observer import ExecutionObserver
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, While, loops
from nki.ir.program import Program
from nki.ir.types import Access
from nki.jit import Adapter, Kernel, adapter_for
from nki.numerics.floating_point import default_environment
from nki.profiling.assumptions import Compiled, Queues, compiled
from nki.profiling.origin import Origin, arguments_of
from nki.profiling.shapes import is_shape_only, placeholder
from nki.sim.timing import Trips, deciding_inputs, loop_count
from nki.target.model import Target

Array = NDArray[Any]


@dataclass(frozen=True)
class Inputs:
    """The inputs of a program by name, in their order; those in ``missing`` have only a shape."""

    arrays: dict[str, Callable[[], Array]]
    missing: frozenset[str] = frozenset()


def compiled_kernel(
    kernel: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    target: Target | None,
    queues: Queues | None = None,
) -> tuple[Compiled, Inputs]:
    """``kernel`` as its profile replays it, with ``queues`` in that order, and its inputs. No cache keeps anything."""
    launched = as_kernel(kernel)
    chosen = checked_target(launched, target)
    adapter, arguments = shaped_arguments(launched, args, kwargs)
    result = compiled_for(launched, launched.specs(arguments, adapter), chosen, queues)
    given = launched.bind(args, kwargs)
    tensors = {name: value for name, value in arguments.items() if adapter.is_framework_tensor(value)}
    arrays = {name: partial(_dense, adapter, tensor) for name, tensor in tensors.items()}
    missing = frozenset(name for name in tensors if is_shape_only(given[name]))
    return result, Inputs(arrays, missing)


def shaped_arguments(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Adapter, dict[str, Any]]:
    """The arguments by name, a tensor for what has only a shape; and the adapter of their framework."""
    positional = tuple(placeholder(value) for value in args)
    named = {name: placeholder(value) for name, value in kwargs.items()}
    return adapter_for(positional, named), kernel.bind(positional, named)


def compiled_to(stop: str, kernel: Kernel, specs: dict[str, Any], target: Target) -> Program:
    """``kernel`` after the stage ``stop``, for arguments with a specification in place of each tensor."""
    grid, schedule, configs = kernel.launch_grid(target), kernel.schedule, kernel.configs
    return pipeline.compile(kernel.func, specs, target, grid=grid, edges=schedule, stop=stop, configs=configs)


def checked_target(kernel: Kernel, target: Target | None) -> Target:
    """``target``, or the kernel's own. Raises :class:`GridError` if it has fewer cores than the kernel's launches."""
    chosen = target or kernel.chosen_target()
    if len(kernel.grid) == 1:
        launch_grid.of_brackets(kernel.grid, chosen)
    return chosen


def compiled_for(kernel: Kernel, specs: dict[str, Any], target: Target, queues: Queues | None = None) -> Compiled:
    """``kernel`` as its profile replays it, for arguments with a specification in place of each tensor; ``queues``: in
    that order.
    """
    grid, schedule, configs = kernel.launch_grid(target), kernel.schedule, kernel.configs
    compile_all = partial(pipeline.compile, kernel.func, specs, target, grid=grid, edges=schedule, configs=configs)
    with default_environment():
        return compiled(lambda observe: compile_all(observe=observe), target, queues)


def origin_of(kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Origin:
    """The file of a kernel, and its arguments."""
    launched = as_kernel(kernel)
    return origin_for(launched, launched.bind(args, kwargs))


def origin_for(kernel: Kernel, arguments: Mapping[str, Any]) -> Origin:
    """The same for ``arguments`` that are bound to the kernel's parameters."""
    code = getattr(unwrap(kernel), "__code__", None)
    return Origin(getattr(code, "co_filename", ""), arguments_of(arguments))


def as_kernel(kernel: Any) -> Kernel:
    """The kernel of a function, decorated or not. Raises :class:`NotAFunctionError` for anything else."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) or not callable(kernel):
        raise NotAFunctionError(
            f"nki.profile was given {kernel!r:.60}, which is not a function",
            fix="pass the kernel itself, and its arguments in a second pair of parentheses: nki.profile(kernel)(x); "
            "the command takes a name: nki profile FILE.py:KERNEL",
        )
    if isinstance(kernel, functools.partial):
        raise NotAFunctionError(
            "a functools.partial object is no kernel",
            fix="pass the function, and its arguments in the call: nki.profile(kernel)(x, n=3)",
        )
    return Kernel(kernel)


def _dense(adapter: Adapter, tensor: Any) -> Array:
    return np.ascontiguousarray(adapter.to_numpy(tensor))


Given = int | tuple[int, int] | Mapping[int, int | tuple[int, int]]
"""Iterations that a caller states: of all loops, or by line; a number, or the least and the greatest."""


def trips_of(program: Program, inputs: Inputs, given: Given | None = None) -> tuple[Trips, Trips]:
    """The least and the most iterations of the loops of ``program`` with bounds that only the run knows.

    They are ``given``, or counted by a run on ``inputs``; a loop that is neither has no entry. Inputs that decide about
    no loop need no data.
    """
    unknown = unknown_loops(program)
    _check_lines(unknown, given)
    if given not in (None, {}) and not unknown:
        raise KernelArgumentError(
            f"trips={given!r}: {program.name} has no loop with a number of iterations that depends on data",
            fix="leave trips= out",
        )
    stated = {id(loop): bounds for loop in unknown if (bounds := _stated(loop, given)) is not None}
    rest = {id(loop) for loop in unknown} - stated.keys()
    decisive = [
        name
        for core in program.cores
        for loop in loops(core.body)
        if id(loop) in rest
        for name in deciding_inputs(loop, core)
    ]
    counted: dict[int, Sequence[int]] = {}
    if rest and inputs.missing.isdisjoint(decisive):
        counted = _counted(program, [make() for make in inputs.arrays.values()], unknown)
    ends = [{**counted, **{loop: (bounds[end],) for loop, bounds in stated.items()}} for end in (0, 1)]
    return ends[0], ends[1]


def _check_lines(unknown: list[Loop], given: Given | None) -> None:
    """Raise :class:`KernelArgumentError` for a line at which no loop needs a number of iterations."""
    if not isinstance(given, Mapping):
        return
    lines = sorted({loop.where.span.line for loop in unknown if loop.where.span is not None})
    if wrong := [line for line in given if line not in lines]:
        raise KernelArgumentError(
            f"trips={dict(given)!r}: at line {wrong[0]} no loop has a number of iterations that depends on data",
            fix=f"such loops are at line {', '.join(map(str, lines))}" if lines else "leave trips= out",
        )


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
        imported("nki.backend.numpy.executor").run(program, arrays, watch)  # few profiles need it
    counts: dict[int, list[int]] = {}
    for counter in counters:
        counts.update(counter.finished())
    return {id(loop): counts.get(id(loop), [0]) for loop in unknown}


def unknown_loops(program: Program) -> list[Loop]:
    """The loops of ``program`` with numbers of iterations that only a run knows."""
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
