"""Loops over ``nl.affine_range``: whether their iterations depend on each other, which they say they do not.

Three ways of doing so are warned of: an iteration reads what an earlier one wrote; it overwrites what an earlier one
found there from before the loop; or it writes other numbers than an earlier one to the same place of what the caller
gets. A tile that each iteration fills before it reads it is as good as one made inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.source import Where
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.commutative_updates import reduces
from nki.sim.hazards.messages import Log, box_of, line_of
from nki.sim.hazards.shadow import Trace, key_of

_INSIDE: Final = "use range, or make the tensor inside the loop"
_APART: Final = "use range, or let each write a place of its own"


@dataclass(slots=True)
class _Loop:
    """A loop that is being run: what ran after ``start`` ran in it, what ran after ``present`` in this iteration.

    ``exposed``: of tensors made before the loop, what an iteration has read that it had not written.
    """

    where: Where
    start: int
    present: int
    told: set[Tensor]
    exposed: dict[Tensor, Trace] = field(default_factory=dict[Tensor, Trace])

    def has_had(self, trace: Trace, made: int, tensor: Tensor) -> bool:
        """Whether an earlier iteration can matter to a tensor made at time ``made`` and touched as ``trace`` says."""
        return made <= self.start and self.start < self.present and tensor not in self.told and trace.last > self.start


class Iterations:
    """Watches these loops.

    Sums do not count, nor other updates in place whose order is free: the next iteration would do as well first.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: dict[Any, set[Tensor]] = {}
        self.open: list[_Loop] = []

    def begin(self, where: Where, time: int) -> None:
        """A loop begins behind ``time``."""
        self.open.append(_Loop(where, time, time, self._told.setdefault(where.frames[:1], set())))

    def next(self, time: int) -> None:
        """The next iteration of the innermost loop begins behind ``time``."""
        self.open[-1].present = time

    def end(self) -> None:
        """The innermost loop has ended."""
        self.open.pop()

    def reads(self, inst: Inst, access: Access, trace: Trace, made: int, time: int) -> None:
        """``inst`` reads ``access`` at ``time``, all of which is there, of a tensor made behind time ``made``."""
        if access.buffer is Buffer.register or (self.open[0].start < made and self.open[-1].start < made):
            return
        free = reduces(inst, access)
        for loop in self.open:
            if made > loop.start or trace.windows.get(key_of(access), 0) > loop.present or free:
                continue
            if loop.has_had(trace, made, access.tensor):
                times = trace.at(access)
                earlier = (times > loop.start) & (times <= loop.present)
                if earlier.any():
                    loop.told.add(access.tensor)
                    said = self._log.said(int(times[earlier].max()), inst.where.span)
                    self._warn(inst, loop, f"reads {_named(access, trace, earlier)} which {said} wrote", _INSIDE)
            exposed = loop.exposed.setdefault(access.tensor, Trace(access.tensor))
            if trace.last <= loop.present:
                exposed.note_read(access, time)
            else:
                exposed.note_some(access, _any(trace.at(access) <= loop.present, access), time)

    def writes(self, inst: Inst, access: Access, made: int) -> None:
        """``inst`` is about to write ``access`` of a tensor made behind time ``made``."""
        for loop in self.open:
            read = loop.exposed.get(access.tensor)
            if read is None or not loop.has_had(read, made, access.tensor):
                continue
            times = read.at(access)
            earlier = (times > 0) & (times <= loop.present)
            if earlier.any():
                loop.told.add(access.tensor)
                said = self._log.said(int(times[earlier].max()), inst.where.span)
                self._warn(inst, loop, f"writes {_named(access, read, earlier)} where {said} read it", _APART)

    def writes_again(self, inst: Inst, access: Access, trace: Trace, made: int) -> Callable[[NDArray[np.bool_]], None]:
        """``inst`` is about to write ``access`` of what callers get; to be told where it then is not as it was."""
        loops = [loop for loop in self.open if loop.has_had(trace, made, access.tensor)]
        if not loops or any(access.tensor is read.tensor for read in inst.reads()):
            return ignore  # what adds to what is there, reads() has judged
        times = trace.at(access).copy()

        def changed(elements: NDArray[np.bool_]) -> None:
            elements = elements.reshape(*access.shape, *[1] * (times.ndim - access.ndim))
            for loop in loops:
                earlier = (times > loop.start) & (times <= loop.present) & elements
                if earlier.any():
                    loop.told.add(access.tensor)
                    said = self._log.said(int(times[earlier].max()), inst.where.span)
                    what = f"writes {_named(access, trace, earlier)} where {said} wrote other numbers"
                    self._warn(inst, loop, what, _APART)

        return changed

    def _warn(self, inst: Inst, loop: _Loop, what: str, fix: str) -> None:
        span = inst.where.span
        if span is None or loop.where.span is None:
            return
        warn_at(
            span,
            f"{inst.mnemonic}: {what} in an earlier iteration of the nl.affine_range of "
            f"{line_of(loop.where.span, span)}; such iterations do not depend on each other: {fix}",
        )


def ignore(elements: NDArray[np.bool_]) -> None:
    """Nothing comes of it."""


def _named(access: Access, trace: Trace, places: NDArray[np.bool_]) -> str:
    """The tensor, and which bytes of it the ``places`` of ``access`` are, as ``trace`` counts them."""
    tensor = access.tensor
    return f"'{tensor.name}' {tensor.shape} {tensor.dtype}, {box_of(tensor, trace.bytes_of(access, places))},"


def _any(chosen: NDArray[np.bool_], access: Access) -> NDArray[np.bool_]:
    """For each element of ``access`` whether some of its places, as a trace gives them, are ``chosen``."""
    return np.asarray(chosen.any(axis=-1)) if chosen.ndim > access.ndim else chosen
