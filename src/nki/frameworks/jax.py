"""Kernels on JAX arrays: concrete, and inside the functions that JAX transforms (``docs/jax.md``).

A kernel's call is one JAX primitive; :mod:`nki.frameworks.jax_call` holds its rules.
"""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jax
import numpy as np
from jax.core import Tracer

from nki.base import element_types as dtypes
from nki.base.framework_errors import FixedShapeError
from nki.base.locks import imported
from nki.compilation.executable import Executable
from nki.frameworks import jax_call
from nki.frameworks.kernel_adapter import Adapter, FrameworkKernel, pack
from nki.frameworks.numpy import NumPyTensors
from nki.jit import simulation
from nki.passes.verify import check_returned
from nki.rendezvous import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nki.compilation.traced_step import Event
    from nki.ir.program import Program
    from nki.jit import Kernel

Run = Callable[[list["NDArray[Any]"]], "Sequence[NDArray[Any]]"]
"""Results of the simulator for inputs in NKI's dtypes."""


class JAXTensors(NumPyTensors):
    """JAX arrays and tracers, and NumPy arrays, which JAX functions take as well."""

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, jax.Array) or super().is_framework_tensor(t)

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        sizes: tuple[Any, ...] = t.shape
        if isinstance(t, Tracer) and (open_sizes := [str(size) for size in sizes if not isinstance(size, int)]):
            raise FixedShapeError(
                f"its shape ({', '.join(map(str, sizes))}) has {', '.join(open_sizes)}, and kernels are compiled for "
                "fixed shapes",
                fix="export for a shape of numbers, one program for each; axes of jax.vmap alone may stay symbols",
            )
        return super().map_framework_tensor(t)


class JAXAdapter(JAXTensors, Adapter):
    """Runs kernels on concrete arrays, and records them while JAX traces."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        executable, tensors = self.specialised(kernel, args, kwargs)
        if self.is_tracing(tensors):
            return pack(executable, jax_call.call(executable, kernel.launch_grid(), tensors))
        if ranks.current() is not None:
            return pack(executable, self._launched(executable, tensors))
        try:
            return pack(executable, jax_call.compiled(executable, kernel.launch_grid())(*tensors))
        except Exception:
            _handle_signals()
            raise

    def specialised(
        self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Executable, list[Any]]:
        """``kernel.specialise(…)``. Raises :class:`InputWrittenError` as :meth:`check_changes` does."""
        executable, tensors = kernel.specialise(args, kwargs, self)
        if executable.changes:
            self.check_changes(executable.kernel)
        return executable, tensors

    def check_changes(self, program: Program) -> None:
        check_returned(program)

    def _launched(self, executable: Executable, tensors: Sequence[Any]) -> list[Any]:
        """The results of a launch outside of XLA, which runs one program of a device at a time: ranks of one device
        would wait for each other.
        """
        arrays = [np.ascontiguousarray(self.to_numpy(tensor)) for tensor in tensors]
        outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
        executable.launch([array.ctypes.data for array in (*arrays, *outputs)])
        return list(map(self.from_numpy, outputs))

    def is_tracing(self, tensors: Sequence[Any]) -> bool:
        """True if JAX records a program, so that the tensors have no values."""
        return any(isinstance(t, Tracer) for t in tensors)

    def simulate(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors, run = simulation(kernel, args, kwargs, self)
        if not self.is_tracing(tensors):
            return super().simulate(kernel, args, kwargs)
        executable, tensors = self.specialised(kernel, args, kwargs)
        simulated = SimulatedExecutable(executable, lambda arrays: run(arrays)[1])
        return pack(executable, jax_call.call(simulated, kernel.launch_grid(), tensors))

    def to_numpy(self, t: Any) -> NDArray[Any]:
        return np.asarray(t)

    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:  # noqa: ARG002  # arrays of JAX never change
        return self.from_numpy(array)

    def from_numpy(self, array: NDArray[Any]) -> Any:
        return jax.numpy.asarray(array.view(dtypes.of(array.dtype).plain))

    def trace(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Event]:
        return imported("nki.frameworks.jax_step").trace(function, args, kwargs)


class SimulatedExecutable(Executable):
    """A compiled kernel that the simulator runs at each launch, instead of native code.

    Graphs name it by a path of no file, since only this process can simulate it; exported programs hold the kernel as
    they hold any other, so they run natively.
    """

    def __init__(self, executable: Executable, run: Run) -> None:
        self.run = run
        self.name, self.kernel, self.precise = executable.name, executable.kernel, executable.precise
        self.inputs, self.outputs, self.changes = executable.inputs, executable.outputs, executable.changes
        self.returned, self.returns_sequence = executable.returned, executable.returns_sequence
        self.made_of = executable.made_of
        self.reference = Path(f"/nki-simulated/{self.name}-{secrets.token_hex(8)}")

    def artifact(self) -> Path:
        return self.reference

    def launch(
        self,
        pointers: Sequence[int],
        floats: Sequence[float] = (),  # noqa: ARG002  # all compiled in
        from_torch: bool = False,  # noqa: ARG002  # the simulator has one thread
    ) -> None:
        count = len(self.inputs)
        arrays = [
            np.frombuffer(ctypes.string_at(pointer, tensor.nbytes), spec.dtype.dtype).reshape(spec.shape).copy()
            for pointer, tensor, spec in zip(pointers, self.kernel.inputs, self.inputs, strict=False)
        ]
        for pointer, result in zip(pointers[count:], self.run(arrays), strict=True):
            data = result.tobytes()
            ctypes.memmove(pointer, data, len(data))


class JAXFrameworkKernel(JAXTensors, FrameworkKernel):
    """A :class:`FrameworkKernel` with JAX or NumPy arrays as example arguments."""


def _handle_signals() -> None:
    """Let Python raise the KeyboardInterrupt that has ended a kernel: XLA has made it an error of its own."""


ADAPTER: Final = JAXAdapter()
