"""A run of a kernel with shadows: its outputs, what they would be without rounding, and the notes of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy import executor
from nki.backend.numpy.executor import run_cores
from nki.base.element_types import DType
from nki.ir.program import Program
from nki.ir.types import Access
from nki.numerics.floating_point import default_environment
from nki.rounding.error_executor import ErrorExecutor, Stored
from nki.rounding.error_memory import ErrorMemory
from nki.rounding.line_notes import Notes
from nki.rounding.tracked import Doubles, Source

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Output:
    """A result: its elements ``real``, in float64 as all else; ``exact``, without rounding; ``errors`` by source. The
    sources in ``last`` are casts to the result's own dtype, behind which nothing is computed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    real: Doubles
    exact: Doubles
    errors: dict[Source, Doubles]
    last: frozenset[Source]


def run(program: Program, arrays: Sequence[Array], stored: Stored | None = None) -> tuple[list[Output], Notes]:
    """Run ``program``, after stage ``accumulate``, on dense ``arrays``, which stay as they are."""
    memory, notes = ErrorMemory(), Notes()
    memory.begin(program, arrays)
    with default_environment():
        run_cores(program, lambda participant: ErrorExecutor(memory, participant, notes, stored))
    specs = program.signature.output_specs()
    outputs: list[Output] = []
    for tensor, spec, array in zip(program.outputs, specs, memory.results(program), strict=True):
        with np.errstate(all="ignore"):
            real = array.reshape(-1).astype(np.float64)
        shadow = memory.load(Access.whole(tensor), 1) if spec.dtype is tensor.dtype else None
        exact, errors, last = shadow or (real, {}, frozenset[Source]())
        flat = {source: error.reshape(-1) for source, error in errors.items()}
        outputs.append(Output(spec.name, spec.shape, spec.dtype, real, exact.reshape(-1), flat, last))
    return outputs, notes


def plain(program: Program, arrays: Sequence[Array]) -> list[Doubles]:
    """The results of ``program`` in the simulator, without shadows, each as one row of float64."""
    with default_environment(), np.errstate(all="ignore"):
        return [array.reshape(-1).astype(np.float64) for array in executor.run(program, list(arrays))]
