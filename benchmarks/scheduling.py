"""Worth of reordering: predicted end of list scheduling against program order, by the estimates of ``nki.cost``.

The kernels of ``tests/kernels`` on every target that they run on, and the kernels of the example's model. Times are
predictions, so that a run is deterministic and ``--runs`` is of no use.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.timing import Row, micro
from examples.minilm import encoder, main
from examples.minilm.encoder import Call
from examples.minilm.model import Array, load_model, make_batch
from nki import target as targets
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.jit import adapter_for
from nki.passes.schedule import Schedule
from nki.sim.lower_bound import bound_of
from nki.sim.timing import TimedProgram, once
from nki.target.model import Target
from tests.kernels import test_corpus  # enters the kernels into CASES
from tests.kernels.case import CASES

LEAST_GAIN = 0.005
"""Kernels that gain less are counted in the mean and get no row of their own."""


def rows(runs: int) -> Iterator[Row]:
    """One row for each kernel that gains, and the geometric mean over all of a target."""
    assert test_corpus.MODULES
    for target in targets.GENERATIONS:
        ratios: list[float] = []
        for name, program in programs(target):
            row, ratio = compared(name, program, target)
            ratios.append(ratio)
            if ratio > 1 + LEAST_GAIN:
                yield row
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        gaining = sum(ratio > 1 + LEAST_GAIN for ratio in ratios)
        yield Row(f"{target}: mean of {len(ratios)} kernels", f"{gaining} gain", "", f"{mean:.3f} x")


def programs(target: Target) -> Iterator[tuple[str, Program]]:
    """Every kernel, compiled for ``target`` up to ``allocate``."""
    for name, case in CASES.items():
        if target.name in case.targets:
            yield name, compiled(case.kernel, tuple(case.arguments()), target)
    # The example's kernels pass numbers as bias, which trn1 does not take.
    for name, (kernel, arguments) in minilm_calls().items() if target.generation >= 3 else ():
        yield f"MiniLM {name}", compiled(kernel, arguments, target)


@functools.cache
def minilm_calls() -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    """Every kernel of the example's model by name, with the arguments of its first launch."""
    launched: dict[str, tuple[Any, tuple[Any, ...]]] = {}

    def launch(call: Call, x: Array) -> Array:
        launched.setdefault(call.name, (call.kernel, (x, *call.weights)))
        return encoder.launch(call, x)

    model = load_model()
    encoder.embed(model, make_batch(model.tokenizer, main.SENTENCES), launch)
    return launched


def compiled(kernel: Any, arguments: tuple[Any, ...], target: Target) -> Program:
    """``kernel`` for ``arguments`` after the last stage before ``schedule``."""
    specs = kernel.specs(kernel.bind(arguments, {}), adapter_for(arguments, {}))
    return pipeline.compile(kernel.func, specs, target, grid=kernel.grid, stop="allocate")


def compared(name: str, program: Program, target: Target) -> tuple[Row, float]:
    """The row of one program, and how many times as fast list scheduling makes it."""
    ends: dict[bool, float] = {}
    bound = 0.0
    for reorder in (False, True):
        scheduled = Schedule(reorder).run(program, target)
        timed = TimedProgram(scheduled, once(scheduled))
        ends[reorder] = timed.run(target).ns
        bound = bound_of(timed, target).ns
    ratio = ends[False] / ends[True]
    row = Row(
        f"{target} {name}, {program.size} instructions",
        micro(ends[True] * 1e-9),
        f"{micro(ends[False] * 1e-9)} in order",
        f"{ratio:.3f} x of {ends[False] / bound:.3f}",
    )
    return row, ratio
