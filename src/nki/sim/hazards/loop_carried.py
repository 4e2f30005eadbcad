"""Loop-carried dependences in loops over ``nl.affine_range``, which promise that there are none.

Three kinds are warned of: an iteration reads bytes that an earlier one wrote (RAW); an iteration overwrites bytes from
before the loop that an earlier one read (WAR); an iteration writes other values than an earlier one to the same bytes
of an output (WAW). A tile that each iteration fills before reading it counts as made inside the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import pattern_of
from nki.base.source import Where
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.commutative_updates import is_commutative_update
from nki.sim.hazards.messages import ExecutionLog, first_box, line_of
from nki.sim.hazards.shadow import AccessTimes

_FIX_READ: Final = "use range, or make the tensor inside the loop"
_FIX_WRITE: Final = "use range, or let each write a place of its own"


@dataclass(slots=True)
class _Loop:
    """A loop that is running, with the times at which it and its current iteration started.

    ``exposed``: upward-exposed reads of tensors made before the loop, which the iteration had not written itself.
    """

    where: Where
    start: int
    iteration_start: int
    warned: set[Tensor]
    exposed: dict[Tensor, AccessTimes] = field(default_factory=dict[Tensor, AccessTimes])

    def may_depend(self, access_times: AccessTimes, allocated: int, tensor: Tensor) -> bool:
        """True if an earlier iteration may have accessed a tensor that was made at time ``made``."""
        return (
            allocated <= self.start
            and self.start < self.iteration_start
            and tensor not in self.warned
            and access_times.last > self.start
        )


class LoopCarried:
    """Finds the loop-carried dependences of a launch.

    Commutative updates in place, such as sums, are no dependences: iterations may run in any order.
    """

    def __init__(self, log: ExecutionLog) -> None:
        self._log = log
        self._warned: dict[Any, set[Tensor]] = {}
        self.open: list[_Loop] = []

    def begin(self, where: Where, time: int) -> None:
        """A loop begins after ``time``."""
        self.open.append(_Loop(where, time, time, self._warned.setdefault(where.frames[:1], set())))

    def next(self, time: int) -> None:
        """The next iteration of the innermost loop begins after ``time``."""
        self.open[-1].iteration_start = time

    def end(self) -> None:
        """The innermost loop has ended."""
        self.open.pop()

    def reads(self, inst: Inst, access: Access, access_times: AccessTimes, allocated: int, time: int) -> None:
        """``inst`` reads ``access``, all of it defined, at ``time``; the tensor was made after time ``made``."""
        if access.buffer is Buffer.register or (self.open[0].start < allocated and self.open[-1].start < allocated):
            return
        commutative = is_commutative_update(inst, access)
        for loop in self.open:
            if (
                allocated > loop.start
                or access_times.patterns.get(pattern_of(access), 0) > loop.iteration_start
                or commutative
            ):
                continue
            if loop.may_depend(access_times, allocated, access.tensor):
                times = access_times.times_of(access)
                earlier = (times > loop.start) & (times <= loop.iteration_start)
                if earlier.any():
                    loop.warned.add(access.tensor)
                    writer = self._log.describe(int(times[earlier].max()), inst.where.span)
                    self._warn(
                        inst, loop, f"reads {_describe(access, access_times, earlier)} which {writer} wrote", _FIX_READ
                    )
            exposed = loop.exposed.setdefault(access.tensor, AccessTimes(access.tensor))
            if access_times.last <= loop.iteration_start:
                exposed.record_read(access, time)
            else:
                exposed.record_some(
                    access, _any_byte(access_times.times_of(access) <= loop.iteration_start, access), time
                )

    def writes(self, inst: Inst, access: Access, allocated: int) -> None:
        """``inst`` is about to write ``access``; the tensor was made after time ``made``."""
        for loop in self.open:
            reads = loop.exposed.get(access.tensor)
            if reads is None or not loop.may_depend(reads, allocated, access.tensor):
                continue
            times = reads.times_of(access)
            earlier = (times > 0) & (times <= loop.iteration_start)
            if earlier.any():
                loop.warned.add(access.tensor)
                reader = self._log.describe(int(times[earlier].max()), inst.where.span)
                self._warn(inst, loop, f"writes {_describe(access, reads, earlier)} where {reader} read it", _FIX_WRITE)

    def writes_again(
        self, inst: Inst, access: Access, access_times: AccessTimes, allocated: int
    ) -> Callable[[NDArray[np.bool_]], None]:
        """``inst`` is about to write ``access`` of an output; call the result with the elements that changed."""
        loops = [loop for loop in self.open if loop.may_depend(access_times, allocated, access.tensor)]
        if not loops or any(access.tensor is read.tensor for read in inst.reads()):
            return ignore  # reads() has checked updates in place
        times = access_times.times_of(access).copy()

        def changed(elements: NDArray[np.bool_]) -> None:
            elements = elements.reshape(*access.shape, *[1] * (times.ndim - access.ndim))
            for loop in loops:
                earlier = (times > loop.start) & (times <= loop.iteration_start) & elements
                if earlier.any():
                    loop.warned.add(access.tensor)
                    writer = self._log.describe(int(times[earlier].max()), inst.where.span)
                    what = f"writes {_describe(access, access_times, earlier)} where {writer} wrote other numbers"
                    self._warn(inst, loop, what, _FIX_WRITE)

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
    """Do nothing."""


def _describe(access: Access, access_times: AccessTimes, entries: NDArray[np.bool_]) -> str:
    """The tensor, and the bytes of those ``entries`` of ``access``, in words."""
    tensor = access.tensor
    return (
        f"'{tensor.name}' {tensor.shape} {tensor.dtype}, {first_box(tensor, access_times.byte_mask(access, entries))},"
    )


def _any_byte(chosen: NDArray[np.bool_], access: Access) -> NDArray[np.bool_]:
    """True for each element of ``access`` with a ``chosen`` entry of :meth:`AccessTimes.times_of`."""
    return np.asarray(chosen.any(axis=-1)) if chosen.ndim > access.ndim else chosen
