"""A run of a kernel with shadows: its outputs, what they would be without rounding, and the notes of its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy import executor
from nki.backend.numpy.memory import Memory
from nki.base.element_types import DType
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment
from nki.rendezvous.protocol import Participant
from nki.rounding.line_notes import Notes
from nki.rounding.shadow_executor import ShadowExecutor, Stored
from nki.rounding.shadow_memory import ShadowMemory
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
    shadows, notes = ShadowMemory(), Notes()

    def make(memory: Memory, participant: Participant | None) -> ShadowExecutor:
        return ShadowExecutor(memory, participant, shadows, notes, stored)

    with default_environment():
        results = executor.run(program, list(arrays), make=make)
    specs = program.signature.output_specs()
    outputs: list[Output] = []
    for tensor, spec, array in zip(program.outputs, specs, results, strict=True):
        shadow = shadows.of(tensor)
        with np.errstate(all="ignore"):
            real = array.reshape(-1).astype(np.float64)
        known = shadow is not None and spec.dtype is tensor.dtype
        exact = shadow.exact if shadow is not None and known else real
        errors = dict(shadow.errors) if shadow is not None and known else {}
        last = shadow.last if shadow is not None else frozenset[Source]()
        outputs.append(Output(spec.name, spec.shape, spec.dtype, real, exact, errors, last))
    return outputs, notes


def plain(program: Program, arrays: Sequence[Array]) -> list[Doubles]:
    """The results of ``program`` in the simulator, without shadows, each as one row of float64."""
    with default_environment(), np.errstate(all="ignore"):
        return [array.reshape(-1).astype(np.float64) for array in executor.run(program, list(arrays))]
