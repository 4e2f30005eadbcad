"""Native code of a kernel, with its artifact and the values that it read from outside."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nki import target as targets
from nki.backend.cpu.fusion.dead_stores import EliminateDeadStores
from nki.backend.cpu.fusion.epilogue import FuseEpilogues
from nki.backend.cpu.fusion.fuse import Fuse
from nki.backend.cpu.fusion.group_reductions import GroupReductions
from nki.backend.cpu.fusion.rematerialize import Rematerialize
from nki.backend.cpu.runtime import launch as native
from nki.backend.cpu.runtime.routines import Progress
from nki.backend.cpu.stages.assign_layouts import AssignLayouts
from nki.backend.cpu.stages.fold_transposes import FoldTransposes
from nki.backend.cpu.stages.share_loads import ShareLoads
from nki.base import gc_pause, knobs
from nki.compilation import pipeline, simulated_run
from nki.compilation.cache import store
from nki.compilation.cache.captured_values import Seen
from nki.compilation.float_arguments import for_formulas, for_values
from nki.compilation.launch_errors import BugReports
from nki.ir.program import Program
from nki.ir.stage import Stages
from nki.ir.text import artifact
from nki.numerics.floating_point import default_environment
from nki.transforms.copy_elimination import EliminateCopies
from nki.transforms.lower_sendrecv import LowerSendrecv
from nki.transforms.promote_float32 import PromoteFloat32

NATIVE_STAGES = Stages(
    (
        LowerSendrecv(),
        EliminateCopies(),
        FoldTransposes(),
        ShareLoads(),
        AssignLayouts(),
        FuseEpilogues(),
        GroupReductions(),
        Rematerialize(),
        Fuse(),
        EliminateDeadStores(),
    )
)
"""The stages after ``NATIVE_STOP`` that prepare a program for linking."""


def lower(program: Program, stop: str | None = None) -> Program:
    """Lower a placed ``program`` to the form that native code runs; with ``NKI_PRECISE_FP=0`` in float32.

    ``stop`` names the last stage, if not all are to run.
    """
    stages = NATIVE_STAGES if knobs.precise_fp() else (PromoteFloat32(), *NATIVE_STAGES)
    return pipeline.run_stages(program, targets.find(program.target), stages, stop)


class Executable(native.Executable):
    """Native code that can also be written to, and read from, a ``.klir`` file."""

    suffix: ClassVar[str] = ""
    """The end of the names of its artifacts."""
    outside: tuple[Seen, ...] = ()
    """Values that the kernel's Python read beside its arguments; the executable is valid for these values only."""

    made_of: tuple[Any, dict[str, Any]] | None = None
    """The kernel, apart from what it has compiled, and its arguments with a specification in place of each tensor; None
    for one from a file."""

    last_used = 0
    """The time of the last use, on the clock of :class:`nki.compilation.executable_cache.LruExecutables`."""

    path: str | None = None
    """The path by which graphs name it, once there is one."""

    text: str | None = None
    """The text that exported programs hold, once there is one."""

    forms: Sequence[Any] | None = None
    """Descriptions of its results in the words of the bridge that launches it, found at its first launch."""

    def __init__(self, kernel: Program, progress: Progress | None = None) -> None:
        started = time.perf_counter()
        self._lower(kernel)
        with BugReports():
            self._link(progress)
        self.compile_seconds = time.perf_counter() - started

    def _lower(self, kernel: Program) -> None:
        """Do all but the compilation of routines, and what depends on it."""
        self.precise = knobs.precise_fp()
        with BugReports(), gc_pause.paused():
            self._prepare(lower(kernel))
        self.kernel = kernel

    def memory(self, pointers: Sequence[int]) -> tuple[list[simulated_run.Array], list[simulated_run.Array]]:
        """The bytes of the inputs and of the outputs of a launch on ``pointers``."""
        sizes = [tensor.nbytes for tensor in (*self.kernel.inputs, *self.kernel.outputs)]
        arrays = [_bytes(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]
        return arrays[: len(self.inputs)], arrays[len(self.inputs) :]

    def native(self) -> Executable:
        """Itself, once its native code is there."""
        return self

    def artifact(self) -> Path:
        """The file that holds this kernel, in the cache folder; there is none if the folder cannot be written to."""
        name = (self.name if self.precise else f"{self.name}.float32") + self.suffix
        return store.store_artifact(name, artifact.dumps(self.kernel)).absolute()

    @staticmethod
    def load(path: str | Path) -> Executable:
        """Compile the kernel in a ``.klir`` file. Its rules are checked as for a kernel from source.

        Its floats have the values of the call that it was compiled for.
        """
        return _compiled(artifact.load(Path(path)))

    @staticmethod
    def parsed(data: bytes, origin: str) -> Executable:
        """Compile the kernel in the bytes of a ``.klir`` file, as :meth:`load` does; errors call them ``origin``."""
        return _compiled(artifact.loads(data, origin))


def _compiled(program: Program) -> Executable:
    program = for_values(program, {})
    with default_environment():
        return Executable(
            pipeline.compile(None, {}, targets.find(program.target), start=program, stop=pipeline.NATIVE_STOP)
        )


class CheckedExecutable(Executable):
    """Native code that the reference executor runs first, at the first launch, watched for hazards.

    The bits of both are compared. Later launches are native alone, and so are all with ``NKI_PRECISE_FP=0``, which
    changes the program.
    """

    suffix = ".checked"  # graphs name a kernel by its artifact; one without checks may have the same content
    is_checked = False

    def launch(self, pointers: Sequence[int], floats: Sequence[float] = (), from_torch: bool = False) -> None:
        if self.is_checked or not self.precise:
            super().launch(pointers, floats, from_torch)
            return
        inputs, outputs = self.memory(pointers)
        program = for_formulas(self.kernel, self.formulas, floats)
        expected = simulated_run.run(program, [array.copy() for array in inputs])
        super().launch(pointers, floats, from_torch)
        simulated_run.compare(self.kernel, outputs, expected)
        self.is_checked = True


def _bytes(pointer: int, size: int) -> simulated_run.Array:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pointer))
