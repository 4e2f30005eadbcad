"""A compiled kernel in the reference executor, one instruction after the other, observed for hazards."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from nki import target as targets
from nki.backend.numpy import executor as reference
from nki.backend.numpy.whole_numbers import exact_results
from nki.base import knobs
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment
from nki.sim.hazards import Hazards, Launch

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
    launch = Launch(targets.find(kernel.target), carries=kernel.carries)
    outputs = reference.run(
        kernel,
        inputs,
        lambda core, executor: Hazards(launch, executor, core, multicore=len(kernel.cores) > 1, exact=exact_results),
    )
    launch.finish(kernel.outputs)
    return outputs


def compare(kernel: Program, results: list[Array], expected: list[Array]) -> None:
    """Raise unless native code has computed the bits that the reference executor ``expected``."""
    for tensor, one, other in zip(kernel.outputs, results, expected, strict=True):
        if one.tobytes() != other.tobytes():
            raise RuntimeError(f"native code and the reference executor differ in '{tensor.name}': a bug of open-nki")
