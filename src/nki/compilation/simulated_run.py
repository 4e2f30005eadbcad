"""A compiled kernel in the reference executor, one instruction after the other, observed for hazards."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from nki import target as targets
from nki.backend.numpy import executor as reference
from nki.backend.numpy.whole_numbers import exact_results
from nki.base import knobs
from nki.ir.program import CoreProgram, Program
from nki.numerics.floating_point import default_environment
from nki.passes.accumulate import Accumulate
from nki.sim.hazards import Hazards, Launch
from nki.sim.hazards.integer_rounding import Exact

Array = NDArray[Any]


def run(kernel: Program, inputs: list[Array]) -> list[Array]:
    """Run ``kernel`` on dense arrays in the order of its inputs; new arrays for its outputs.

    Raises the errors of hazards, unless ``OPEN_NKI_HAZARDS=0``.
    """
    with default_environment():
        return _run(kernel, inputs)


def _run(kernel: Program, inputs: list[Array]) -> list[Array]:
    if not knobs.hazards():
        return reference.run(kernel, inputs)
    launch = Launch(targets.find(kernel.target), propagates_undefined=kernel.propagates_undefined)
    outputs = _watched(kernel, inputs, launch, exact_results)
    finish(launch, kernel, inputs)
    return outputs


def finish(launch: Launch, kernel: Program, inputs: list[Array]) -> None:
    """Raise the errors that only the end of a run of ``kernel`` shows, and warn.

    The run is repeated where one core has read what the other one wrote later: by then the numbers had gone on.
    """
    again = launch.again()
    if again is not None:
        _watched(Accumulate(warns=False).run(kernel, launch.target), inputs, again, None)
    (again or launch).finish(kernel.outputs)


def _watched(kernel: Program, inputs: list[Array], launch: Launch, exact: Exact | None) -> list[Array]:
    """Run ``kernel`` watched for hazards; without ``exact``, a repetition, which prints nothing."""

    def watch(core: CoreProgram, executor: reference.Reference) -> Hazards:
        executor.prints = exact is not None
        return Hazards(launch, executor, core, multicore=len(kernel.cores) > 1, exact=exact)

    return reference.run(kernel, inputs, watch)


def compare(kernel: Program, results: list[Array], expected: list[Array]) -> None:
    """Raise unless native code has computed the bits that the reference executor ``expected``."""
    for tensor, one, other in zip(kernel.outputs, results, expected, strict=True):
        if one.tobytes() != other.tobytes():
            raise RuntimeError(f"native code and the reference executor differ in '{tensor.name}': a bug of open-nki")
