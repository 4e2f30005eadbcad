"""Accumulation groups in PSUM: checks their start, the engines that add to them, and the time of their reads.

This is the dynamic check of a PSUM accumulation: the simulator asks it for every matmul that runs. The static check,
which resolves ``accumulate=None`` before the kernel runs, is :mod:`nki.analysis.psum_state`, which stage ``accumulate``
(:mod:`nki.passes.accumulate`) calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.messages import ExecutionLog, ReadErrors, early_read_error, first_box
from nki.sim.hazards.shadow import AccessTimes, Times
from nki.target.model import Target


class PsumShadow(AccessTimes):
    """Times of the writes to a tensor, and for PSUM of its reads."""

    __slots__ = ("reads",)

    def __init__(self, tensor: Tensor, *, whole: bool) -> None:
        super().__init__(tensor, whole=whole)
        self.reads = AccessTimes(tensor) if tensor.buffer is Buffer.psum else None


@dataclass(slots=True)
class _EarlyRead:
    """``elements`` of ``access`` that were written at ``started``, read at ``read``, and then added to by ``inst``."""

    inst: Inst
    access: Access
    shadow: PsumShadow
    elements: NDArray[np.bool_]
    started: int
    read: int
    time: int
    is_running_sum: bool
    """The sum had been read and added to before."""

    def is_read_later(self) -> bool:
        """True if an instruction has read one of the elements since ``inst`` added to them."""
        assert self.shadow.reads is not None
        return bool((self.shadow.reads.times_of(self.access)[self.elements] > self.time).any())


class PsumGroups:
    """The accumulation groups of a launch."""

    def __init__(self, log: ExecutionLog, target: Target) -> None:
        self._log = log
        self._target = target
        self.warned: set[tuple[Any, str]] = set()
        self._early_reads: dict[tuple[Tensor, AccessPattern], _EarlyRead] = {}

    def check_foreign(self, inst: Inst, access: Access, shadow: PsumShadow, window: NDArray[Any]) -> None:
        """Check a matmul that adds to ``access``, which holds ``window``.

        Raises AccumulationError if another engine was the last to write an element, and wrote a number other than 0, on
        targets where a matmul does not add to those.
        """
        if not self._target.matmul_accumulates_foreign_psum:
            for written in _times_written(access, shadow):
                if written > 0 and not self._log.by_tensor_engine(written):
                    self._foreign(inst, access, shadow, written, window)

    def go_on(self, inst: Inst, access: Access, shadow: PsumShadow, time: int) -> None:
        """A matmul adds at ``time`` to ``access``: remember the elements that were read since they were written."""
        assert shadow.reads is not None
        if shadow.reads.last > _times_written(access, shadow)[0]:
            self._continue_after_read(inst, access, shadow, time)

    def _foreign(self, inst: Inst, access: Access, shadow: PsumShadow, time: int, window: NDArray[Any]) -> None:
        """Warn of adding to zeros that another engine wrote at ``time``, which overwrites them; raise for others.

        Elements that a matmul has added to since are sums of matmuls, whatever they began with.
        """
        foreign: NDArray[np.bool_] = np.equal(shadow.times_of(access), time)
        numbers: NDArray[np.bool_] = np.not_equal(window, 0)
        others = foreign & numbers.reshape(*access.shape, *[1] * (foreign.ndim - access.ndim))
        if others.any():
            asked = shadow.byte_mask(access, np.ones(foreign.shape, np.bool_))
            wrong = shadow.byte_mask(access, others)
            raise ReadErrors(inst, access, asked.count(), self._log).foreign(wrong, time, self._target.name)
        writer = self._log.describe(time, inst.where.span)
        self._warn(
            inst,
            f"adds to dst {_where(access, shadow, foreign)} where {writer} wrote zeros; on "
            f"{self._target.name} that is undefined, only what matmuls wrote can be added to: leave the zeros out",
        )

    def _continue_after_read(self, inst: Inst, access: Access, shadow: PsumShadow, time: int) -> None:
        """Record the elements that have been read since they were written, to be reported when their fate is known."""
        assert shadow.reads is not None
        written, read = shadow.times_of(access), shadow.reads.times_of(access)
        later = read > written
        if later.any():
            key = (access.tensor, pattern_of(access))
            started, last = int(written[later].max()), int(read[later].max())
            self._early_reads[key] = _EarlyRead(
                inst, access, shadow, later, started, last, time, key in self._early_reads
            )

    def start(self, inst: Inst, access: Access, shadow: PsumShadow) -> None:
        """A matmul starts a group at ``access``: warn if it overwrites sums of matmuls that no instruction has read."""
        assert shadow.reads is not None
        for (tensor, pattern), early in list(self._early_reads.items()):
            if tensor is access.tensor and _overlaps(early, access):
                self._report(self._early_reads.pop((tensor, pattern)))
        time = shadow.single_time(access)
        if not shadow.last or (time and not self._log.by_matmul(time)):
            return
        if time and shadow.reads.patterns.get(pattern_of(access), 0) > time:
            return
        written = shadow.times_of(access)
        if (written <= 0).any() or (shadow.reads.times_of(access) > written).any():
            return
        times = _distinct(written)
        if all(map(self._log.by_matmul, times)):
            writer = self._log.describe(times[-1], inst.where.span)
            self._warn(
                inst,
                f"overwrites dst {_where(access, shadow, written > 0)} which {writer} wrote and nothing has read; to "
                "add to it pass accumulate=True",
            )

    def finish(self) -> None:
        """The kernel has ended: raise for a sum that was read too early, and warn of running sums."""
        for early in self._early_reads.values():
            self._report(early)

    def _report(self, early: _EarlyRead) -> None:
        """Raise if no instruction reads the sum after its early read; else warn of a running sum."""
        if not early.is_running_sum and not early.is_read_later():
            chosen = early.shadow.byte_mask(early.access, early.elements)
            raise early_read_error(self._log, early.access.tensor, chosen, early.read, early.inst)
        near = early.inst.where.span
        writer, reader = self._log.describe(early.started, near), self._log.describe(early.read, near)
        self._warn(
            early.inst,
            f"goes on with the sum in dst {_where(early.access, early.shadow, early.elements)} that {writer} wrote and "
            f"{reader} has read; for a new sum make another tile, or pass accumulate=False",
        )

    def _warn(self, inst: Inst, text: str) -> None:
        """Warn at the line of ``inst``, once of each kind."""
        key = (inst.where.frames[:1], text[:8])
        if key not in self.warned and inst.where.span is not None:
            self.warned.add(key)
            warn_at(inst.where.span, f"{inst.mnemonic}: {text}")


def _times_written(access: Access, shadow: PsumShadow) -> list[int]:
    """The times at which elements of ``access`` were written last, in order."""
    single = shadow.single_time(access)
    return [single] if single else shadow.distinct_times(access)


def _distinct(times: Times) -> list[int]:
    """The different ``times``, in order. Neighbours are mostly equal, so few are left to be sorted."""
    flat = times.reshape(-1)
    starts = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    return sorted({int(flat[0]), *flat[starts].tolist()})


def _where(access: Access, shadow: PsumShadow, elements: NDArray[np.bool_]) -> str:
    """The tensor, and the bytes of those ``elements`` of ``access``, in words."""
    tensor = access.tensor
    return f"'{tensor.name}' {tensor.shape} {tensor.dtype}, {first_box(tensor, shadow.byte_mask(access, elements))},"


def _overlaps(early: _EarlyRead, access: Access) -> bool:
    return early.shadow.byte_mask(early.access, early.elements).has_any(pattern_of(access))
