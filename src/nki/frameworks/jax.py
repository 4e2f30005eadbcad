"""Kernels on JAX arrays: concrete, and inside the functions that JAX transforms (``docs/jax.md``).

A kernel's call is one JAX primitive; :mod:`nki.frameworks.jax_call` holds its rules.
"""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from jax.core import Tracer

from nki.base import dtype as dtypes
from nki.frameworks import jax_call
from nki.frameworks.jax_simulated import SimulatedExecutable
from nki.frameworks.kernel import Adapter, FrameworkKernel, pack
from nki.frameworks.numpy import NumPyTensors
from nki.jit import simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nki.jit import Kernel


class JAXTensors(NumPyTensors):
    """JAX arrays and tracers, and NumPy arrays, which JAX functions take as well."""

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, jax.Array) or super().is_framework_tensor(t)


class JAXAdapter(JAXTensors, Adapter):
    """Runs kernels on concrete arrays, and records them while JAX traces."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        executable, tensors = kernel.specialise(args, kwargs, self)
        if self.is_tracing(tensors):
            return pack(executable, jax_call.call(executable, kernel.launch_grid(), tensors))
        try:
            return pack(executable, jax_call.compiled(executable, kernel.launch_grid())(*tensors))
        except Exception:
            _handle_signals()
            raise

    def is_tracing(self, tensors: Sequence[Any]) -> bool:
        """True if JAX records a program, so that the tensors have no values."""
        return any(isinstance(t, Tracer) for t in tensors)

    def simulate(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors, run = simulation(kernel, args, kwargs, self)
        if not self.is_tracing(tensors):
            return super().simulate(kernel, args, kwargs)
        executable, tensors = kernel.specialise(args, kwargs, self)
        simulated = SimulatedExecutable(executable, lambda arrays: run(arrays)[1])
        return pack(executable, jax_call.call(simulated, kernel.launch_grid(), tensors))

    def to_numpy(self, t: Any) -> NDArray[Any]:
        return np.asarray(t)

    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:  # noqa: ARG002  # arrays of JAX never change
        return self.from_numpy(array)

    def from_numpy(self, array: NDArray[Any]) -> Any:
        return jax.numpy.asarray(array.view(dtypes.of(array.dtype).plain))


class JAXFrameworkKernel(JAXTensors, FrameworkKernel):
    """A :class:`FrameworkKernel` whose example arguments are JAX or NumPy arrays."""


def _handle_signals() -> None:
    """Let Python raise the KeyboardInterrupt that has ended a kernel, of which XLA has made an error of its own."""


ADAPTER: Final = JAXAdapter()
