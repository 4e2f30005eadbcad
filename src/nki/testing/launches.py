"""Runs of one verified program: natively, on threads, in the simulator, on memory with known contents."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.compilation import simulated_run
from nki.compilation.executable import Executable
from nki.ir.program import Program

Array = NDArray[Any]
POISONS = (0xA5, 0x5A)
"""Contents of the outputs' memory before a run: what a kernel does not write, differs."""


class Launches:
    """Native code of ``program``, and its simulation. Arrays are in the order of its inputs, dense."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.executable = Executable(program)
        self.outputs = self.executable.outputs

    def native(self, arrays: Sequence[Array], poison: int = POISONS[0], threads: int | None = None) -> list[Array]:
        """The results of a launch; ``arrays`` are what it leaves of them."""
        results: list[Array] = []
        for spec in self.outputs:
            count = int(np.prod(spec.shape)) * spec.dtype.itemsize
            results.append(np.full(count, poison, np.uint8).view(spec.dtype.dtype).reshape(spec.shape))
        with _threads(threads):
            self.executable.launch([array.ctypes.data for array in (*arrays, *results)])
        return results

    def simulated(self, arrays: Sequence[Array]) -> list[Array]:
        """The results of the reference executor, which raises the errors of hazards."""
        return simulated_run.run(self.program, [each.copy() for each in arrays])

    def changed(self) -> dict[str, tuple[int, int]]:
        """The inputs that the program returns: the positions of the output and of the input, by the input's name."""
        names = [spec.name for spec in self.executable.inputs]
        return {names[i]: (o, i) for o, i in self.executable.changes.items()}


@contextmanager
def _threads(count: int | None) -> Generator[None]:
    before = os.environ.get("NKI_NUM_THREADS")
    if count is not None:
        os.environ["NKI_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        if count is not None:
            os.environ.pop("NKI_NUM_THREADS") if before is None else os.environ.update(NKI_NUM_THREADS=before)


def bits(arrays: Sequence[Array]) -> list[bytes]:
    """The bytes of each array."""
    return [np.ascontiguousarray(each).tobytes() for each in arrays]
