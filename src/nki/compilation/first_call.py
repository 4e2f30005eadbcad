"""The first call of a kernel that needs LLVM is interpreted; LLVM works behind it, and later calls run native code.

To interpret a program of a few hundred instructions takes some milliseconds, to compile its routines up to seconds. The
reference executor gives the bits of native code, and stops with its errors, so that a caller sees no difference but the
time. The stages of the compiler, their checks and the search for hazards have run before either.

Work begins behind the first call, not beside it: both are Python for a large part, and one thread at a time enters
LLVM, which the compiled functions of the reference executor may need, too. Calls that come before native code is there
are interpreted as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from nki.backend.cpu.runtime.regions import rounds_of
from nki.backend.cpu.runtime.routines import Turns
from nki.backend.numpy import executor as reference
from nki.base import knobs
from nki.compilation import work_behind
from nki.compilation.executable import Executable
from nki.compilation.float_arguments import for_formulas
from nki.compilation.launch_errors import BugReports
from nki.ir.instruction import Inst
from nki.ir.loop import For, Statement
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment
from nki.rendezvous import ranks

INSTRUCTION: Final = 0.3e-3
ELEMENT: Final = 4e-9
"""Seconds that the reference executor takes for an instruction and for each element of its operands.

Measured with the kernels of ``benchmarks/unseen_kernels.py`` on an AMD EPYC: 0.02 to 0.6 milliseconds for an
instruction, all in all, and 0.5 to 10 nanoseconds for an element; 1.8 milliseconds for searches of eight values.
"""
MODULE: Final = 0.1
ROUTINE: Final = 5e-3
"""Seconds of LLVM for a program, and for each of its routines: less than any of those kernels takes."""


class InterpretedFirst(Executable):
    """An executable for calls: native code once it is there, the reference executor while that takes less time.

    It is a plain :class:`Executable` from then on, so that launches do not ask. What needs native code itself, as
    graphs of frameworks and measurements do, takes it with :meth:`native`.
    """

    def __init__(self, kernel: Program) -> None:
        self._job: work_behind.Job | None = None
        self._lower(kernel)
        if _is_interpreted(kernel, self.missing, self.precise):
            self._job = work_behind.Job(self._compile)
        else:
            self._compile(None)
            self._become_plain()

    def __getattr__(self, name: str) -> Any:
        """The tables of native code, which is waited for, and the seconds that it took."""
        if name not in ("linked", "compile_seconds") or self.__dict__.get("_job") is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)
        return getattr(self.native(), name)

    def native(self) -> Executable:
        """Itself, once its native code is there: compiled now, unless that has begun. Raises the errors of that."""
        job = self._job
        if job is not None:
            job.finish()
            self._become_plain()
        return self

    def _become_plain(self) -> None:
        """Be an :class:`Executable`, so that launches ask nothing more: native code is there."""
        self._job = None
        self.__class__ = Executable  # pyright: ignore[reportAttributeAccessIssue]  # pyright knows no new class

    def launch(self, pointers: Sequence[int], floats: Sequence[float] = (), from_torch: bool = False) -> None:
        job = self._job
        if job is not None:
            if not job.is_done and not job.is_left:
                self._interpret(pointers, floats)
                work_behind.begin(job)
                return
            self.native()
        Executable.launch(self, pointers, floats, from_torch)  # another thread may have made it one

    def _interpret(self, pointers: Sequence[int], floats: Sequence[float]) -> None:
        inputs, outputs = self.memory(pointers)
        with BugReports(), default_environment():
            program = for_formulas(self.kernel, self.formulas, floats)
            results = reference.run(program, [array.copy() for array in inputs])
        for output, result in zip(outputs, results, strict=True):
            output[...] = result.reshape(-1).view(output.dtype)

    def _compile(self, turns: Turns | None) -> None:
        started = time.perf_counter()
        with BugReports(), default_environment():
            self._link(None, turns)
        self.compile_seconds = time.perf_counter() - started


def _is_interpreted(kernel: Program, missing: int, precise: bool) -> bool:
    """True if the first call of ``kernel`` is to be interpreted; ``missing`` of its routines are to be compiled.

    Not where results may depend on who runs it: with memory of ranks, without the search for hazards, or with other
    precision.
    """
    forced = knobs.first_call()
    if forced == b"native" or not precise or not knobs.hazards() or ranks.current() is not None:
        return False
    if any(inst.effects.collective is not None for inst in kernel.instructions()):
        return False
    if forced == b"interpreted":
        return True
    limit = MODULE + ROUTINE * missing
    return missing > 0 and sum(interpretation_seconds(core.body, limit) for core in kernel.cores) <= limit


def interpretation_seconds(body: Iterable[Statement], limit: float = math.inf) -> float:
    """The estimated seconds of the reference executor for ``body``; infinite if it cannot be known, or is above
    ``limit``.
    """
    seconds = 0.0
    for statement in body:
        if isinstance(statement, Inst):
            elements = sum(math.prod(access.shape) for access in statement.accesses())
            seconds += INSTRUCTION + ELEMENT * elements
        elif isinstance(statement, For) and isinstance(statement.start, int) and isinstance(statement.stop, int):
            seconds += rounds_of(statement) * interpretation_seconds(statement.body, limit)
        else:
            return math.inf
        if seconds > limit:
            return math.inf
    return seconds


__all__ = ["InterpretedFirst", "interpretation_seconds"]
