"""State of the Tensor engine between products: the throttled clock, and the parts of the array that products keep.

Products in parts of the array that do not overlap run in parallel (reference, ``nisa.nc_matmul``, Tiling mode); no
document gives a rate. The engine is assumed to begin products in order, as many in the time of one as have room beside
it: nki-library counts on up to four times the rate with tiles of 32 columns.
"""

from __future__ import annotations

from typing import ClassVar

from nki.base.terms import Cause
from nki.ir.estimate import Matmul
from nki.target.model import Target

_BLOCK = 32
"""Rows and columns of the smallest parts."""


def blocks(position: tuple[int, int], size: tuple[int, int], target: Target) -> int:
    """Bit mask of the blocks of 32 x 32 that the part of the array at ``position`` (row, column) has."""
    (row, column), (rows, columns) = position, size
    a_row = ((1 << columns // _BLOCK) - 1) << column // _BLOCK
    width = target.matmul_stationary_free_max // _BLOCK
    return sum(a_row << (row // _BLOCK + index) * width for index in range(rows // _BLOCK))


class TensorClock:
    """The throttled clock of the Tensor engine; ``windows`` holds the rate of each window so far, 1 at full rate."""

    def __init__(self, target: Target) -> None:
        self.length = target.tensor_throttle_window_cycles / target.tensor_clock_ghz
        self.fraction = target.tensor_throttle_fraction
        self.rise, self.fall = target.tensor_throttle_raise, target.tensor_throttle_lower
        self.rate = self.fraction
        self.windows = [self.rate]
        self.window_end = self.length
        self.busy = 0.0

    def run(self, time: float, work: float, activity: float, clocked: float = 1.0) -> float:
        """The end of ``work`` ns at full rate that begins at ``time``; calls are in the order of their times.

        Windows count as busy by ``activity``. ``clocked`` is the part of the work that takes longer with a throttled
        clock; the rest goes by meanwhile.
        """
        while time >= self.window_end:
            self._next_window()
        rate = self.rate if self.rate == 1.0 else self._rate(clocked)
        end = time + work / rate
        if end <= self.window_end:
            self.busy += (end - time) * activity
            return end
        while True:
            room = (self.window_end - time) * rate
            if work <= room:
                break
            self.busy += (self.window_end - time) * activity
            work -= room
            time = self.window_end
            self._next_window()
            rate = self._rate(clocked)
        self.busy += work / rate * activity
        return time + work / rate

    def wait(self, time: float, end: float, activity: float) -> None:
        """A product waits from ``time`` to ``end`` for others to leave its part of the array, which is busy then."""
        while end >= self.window_end:
            self.busy += max(0.0, self.window_end - time) * activity
            time = max(time, self.window_end)
            self._next_window()
        self.busy += (end - time) * activity

    def _rate(self, clocked: float) -> float:
        return min(1.0, self.rate / clocked) if self.rate < 1.0 else 1.0

    def _next_window(self) -> None:
        share = self.busy / self.length
        if share >= self.rise:
            self.rate = 1.0
        elif share <= self.fall:
            self.rate = self.fraction
        self.busy = 0.0
        self.windows.append(self.rate)
        self.window_end += self.length


class TensorArray:
    """The array of the Tensor engine with its clock, and the parts of it that products keep."""

    cause: ClassVar = Cause.chain

    def __init__(self, target: Target) -> None:
        self.clock = TensorClock(target) if target.tensor_throttle_fraction != 1.0 else None
        self.parts = ArrayParts()

    def run(self, estimate: Matmul, time: float) -> tuple[float, float]:
        """Begin and end of an instruction that may begin at ``time``: no other product is in the part that it uses."""
        parts, clock = self.parts, self.clock
        if parts.until and (free := parts.free(estimate.array_mask, time)) > time:
            if clock is not None:
                clock.wait(time, free, estimate.activity)
            time = free
        end = time + estimate.occupancy
        if clock is not None:
            end = clock.run(time, estimate.occupancy, estimate.activity, estimate.clocked)
        if estimate.array_mask:
            parts.keep(estimate.array_mask, time + estimate.array_ns * (end - time) / estimate.occupancy)
        return time, end


class ArrayParts:
    """The times until which products keep parts of the array; ``part`` 0 is the whole array."""

    def __init__(self) -> None:
        self.until: dict[int, float] = {}

    def free(self, part: int, time: float) -> float:
        """The time from which on ``part`` is free, ``time`` or later."""
        for kept, until in self.until.items():
            if until > time and (not part or part & kept):
                time = until
        return time

    def keep(self, part: int, until: float) -> None:
        """A product is in ``part`` until that time."""
        self.until[part] = until
