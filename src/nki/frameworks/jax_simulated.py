"""Kernels that the simulator runs inside a program of a framework, with the values of each launch."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nki import compiler

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nki.compiler.executable import Executable

Run = Callable[[list["NDArray[Any]"]], "Sequence[NDArray[Any]]"]
"""Results of the simulator for inputs in NKI's dtypes."""


class SimulatedExecutable(compiler.executable.Executable):
    """A compiled kernel, of which the simulator runs each launch in place of native code.

    Graphs name it by a path of no file, since only this process can simulate it; exported programs hold the kernel as
    they hold any other, so they run natively.
    """

    def __init__(self, executable: Executable, run: Run) -> None:
        self.run = run
        self.name, self.kernel, self.precise = executable.name, executable.kernel, executable.precise
        self.inputs, self.outputs, self.changes = executable.inputs, executable.outputs, executable.changes
        self.returns_sequence = executable.returns_sequence
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
