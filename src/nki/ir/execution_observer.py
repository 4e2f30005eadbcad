"""Who looks on while a kernel runs, whatever carries it out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.types import Access


class Watcher:
    """What an executor tells about a run; this one does nothing.

    Windows come as they are after run-time indices were followed, so each says exactly which bytes are meant. What an
    instruction reads and writes comes from its semantics: no more than takes part, where an operand holds more.
    """

    def begins(self, inst: Inst) -> None:
        """``inst``, or a row of it, runs from now on: what is read and written next is its doing."""

    def reads(self, access: Access) -> None:
        """The bytes of ``access`` are about to be read."""

    def writes(self, access: Access) -> None:
        """The bytes of ``access`` are about to be written."""

    def ends(self) -> None:
        """What began is done."""

    def strays(self, numbers: NDArray[np.int64], outside: NDArray[np.bool_]) -> None:
        """What is written next gathers elements of these ``numbers``, of which some are ``outside`` what there is."""

    def looks_up(self, by: Inst | Loop, index: Access) -> None:
        """``by`` is about to read a run-time index, or what controls it."""

    def enters(self, loop: Loop) -> None:
        """The rounds of ``loop`` begin. Those of its tensors that are known hold nothing yet."""

    def counts(self, loop: For) -> None:
        """The register of ``loop`` has got its next value."""
