"""Interface of an observer of a running program, for any executor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.types import Access


class ExecutionObserver:
    """Events of a run, which an executor reports; this class ignores all of them.

    Accesses are reported after their run-time indices have been applied, so each says exactly which bytes are meant.
    Reads and writes come from the semantics of an instruction: only the elements that take part, where an operand holds
    more.
    """

    def starts(self, inst: Inst) -> None:
        """``inst``, with operands of required contents, is about to run; no run-time index is applied yet."""

    def begin(self, inst: Inst) -> None:
        """``inst``, or a row of it, begins; the next reads and writes are its own."""

    def reads(self, access: Access) -> None:
        """The bytes of ``access`` are about to be read."""

    def writes(self, access: Access) -> None:
        """The bytes of ``access`` are about to be written."""

    def end(self) -> None:
        """The instruction that began is complete."""

    def gathers_out_of_range(self, numbers: NDArray[np.int64], outside: NDArray[np.bool_]) -> None:
        """The next write stores gathered elements with these ``numbers``, some of them ``outside`` the source."""

    def reads_index(self, by: Inst | Loop, index: Access) -> None:
        """``by`` is about to read a run-time index, a loop bound or a loop condition."""

    def enters_loop(self, loop: Loop) -> None:
        """The iterations of ``loop`` begin; its loop-local tensors are undefined."""

    def counts_iteration(self, loop: For) -> None:
        """The register of ``loop`` has received its next value."""
