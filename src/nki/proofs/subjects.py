"""The two sides of a proof: a kernel as a specialised program, or a function on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import DType
from nki.base.locks import imported
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.jit import Kernel, adapter_for
from nki.numerics.floating_point import default_environment
from nki.profiling.shapes import placeholder
from nki.proofs.executor import evaluate
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols
from nki.target.model import Target

Array = NDArray[Any]
_STOP = "accumulate"
"""The stage that says which products add to what their tile holds: after it a program says all that it computes."""


@dataclass(frozen=True)
class Input:
    """A tensor that both sides take."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass
class KernelSide:
    """A kernel, specialised for one set of arguments."""

    name: str
    program: Program
    target: Target
    _executable: Any = field(default=None, repr=False)

    @property
    def inputs(self) -> list[Input]:
        return [Input(tensor.name, tensor.shape, tensor.dtype) for tensor in self.program.inputs]

    @property
    def outputs(self) -> list[tuple[int, ...]]:
        return [spec.shape for spec in self.program.signature.output_specs()]

    def evaluate(self, inputs: Sequence[Symbols | Array], reals: Reals) -> list[Symbols]:
        """The outputs over a finite field."""
        with default_environment():
            return evaluate(self.program, inputs, reals)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The outputs as native code computes them; ``arrays`` stay as they are."""
        if self._executable is None:
            placed = pipeline.compile(None, {}, self.target, start=self.program, stop=pipeline.NATIVE_STOP)
            self._executable = imported("nki.compilation.executable").Executable(placed)
        results = [np.empty(spec.shape, spec.dtype.dtype) for spec in self._executable.outputs]
        inputs = [np.array(array, order="C") for array in arrays]
        self._executable.launch([array.ctypes.data for array in inputs + results])
        return results


def kernel_side(
    kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: Target | None = None
) -> KernelSide:
    """``kernel`` for arguments, of which tensors count by shape and dtype only. Raises what compilation raises."""
    launched = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    chosen = target or launched.chosen_target()
    positional = tuple(placeholder(value) for value in args)
    named = {name: placeholder(value) for name, value in kwargs.items()}
    specs = launched.specs(launched.bind(positional, named), adapter_for(positional, named))
    grid = launched.launch_grid(chosen)
    program = pipeline.compile(
        launched.func, specs, chosen, grid=grid, edges=launched.schedule, stop=_STOP, configs=launched.configs
    )
    return KernelSide(launched.func.__name__, program, chosen)
