"""Certain hazards: the errors of a run that hold for all data, found without any.

A replay reports the accesses of a program to :class:`CertainHazards`. Of the state of memory it knows the bytes that
may be defined. What only data can show is left to runs: results of instructions on partly undefined operands, the
elements that a predicate or an index selects, races between accesses that may move the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nki.ir.effects import Exchange, Predicate
from nki.ir.instruction import Inst
from nki.ir.loop import Loop
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards import Hazards, Launch, Shadow
from nki.sim.hazards.core_races import ByteArray, CoreRaces, Race, per_byte
from nki.sim.hazards.messages import ExecutionLog
from nki.sim.hazards.undefined_bytes import Undefined
from nki.sim.hazards.undefined_values import Memory
from nki.target.model import Target

Elements = NDArray[np.bool_]


class NoData:
    """The executor of a replay, which has no memory."""

    @property
    def memory(self) -> Memory:
        raise AssertionError("a replay has no data")

    def contents(self, inst: Inst, access: Access) -> NDArray[np.uint8]:
        raise AssertionError(f"a replay has no data for {access.name} of {inst.mnemonic}")

    def rerun(self, inst: Inst) -> None:
        raise AssertionError(f"a replay cannot run {inst.mnemonic}")


class CertainRaces(CoreRaces):
    """Races that are races whatever the numbers are: a core reads what the other one alone has written or will write.

    A core that has written the bytes itself may have written the same numbers. A write to bytes that the other core has
    read changes them for sure only if they were unwritten.
    """

    def __init__(self, log: ExecutionLog) -> None:
        super().__init__(log)
        self.undecided: set[Tensor] = set()
        """Tensors with writes that may not happen, or at run-time indices."""
        self.read_unwritten: set[tuple[int, Tensor]] = set()
        """Core and tensor of the reads of nothing but unwritten bytes."""

    def reads(self, core: int, inst: Inst, access: Access, time: int, contents: Callable[[], ByteArray]) -> tuple[()]:
        del contents
        own = self.own_history(core, access.tensor)
        own.reads.record_read(access, time)
        other = self.other_history(core, access.tensor)
        if other is None or not other.writes.last or access.tensor in self.undecided:
            return ()
        race = per_byte(other.writes.times_of(access) > 0, access)
        if own.writes.last:
            race &= ~per_byte(own.writes.times_of(access) > 0, access)
        if race.any():
            raise self.error(core, inst, access, other.writes, race, "is read", "wrote")
        return ()

    def writes_somehow(self, core: int, inst: Inst, access: Access, time: int, unwritten: Elements) -> None:
        """``core`` is about to write ``access``; the bytes of ``unwritten`` elements hold nothing so far."""
        self.own_history(core, access.tensor).writes.record(access, time)
        other = self.other_history(core, access.tensor)
        if other is None or (1 - core, access.tensor) not in self.read_unwritten or access.tensor in self.undecided:
            return
        race = per_byte(other.reads.times_of(access) > 0, access) & per_byte(unwritten, access)
        if race.any():
            raise self.error(core, inst, access, other.reads, race, "is written", "read")

    def compare(self, tensor: Tensor, epoch: int) -> None:
        """Nothing: cores may have written the same numbers."""


class CertainHazards(Hazards):
    """Raises the errors of hazards that hold for all data while a core of ``launch`` is replayed."""

    def __init__(self, launch: Launch, races: CertainRaces, *, multicore: bool) -> None:
        super().__init__(launch, NoData(), multicore=multicore)
        self._certain_races = races
        self.is_certain = True
        """The running instruction runs whatever the data are."""
        self.in_loop = False
        self.in_order = True
        """The replay knows the order in which the cores meet."""
        self._moved: tuple[Access, Undefined] | None = None
        """The undefined elements that the running instruction copies, and where to."""

    def reads(self, access: Access) -> None:
        if self.is_certain and (self.in_order or not self._is_shared(access)):
            super().reads(access)
        else:
            self._may_read(access)

    def reads_somewhere(self, access: Access) -> None:
        """An access that a run-time index moves is about to be read."""
        shadow, whole = self._shadow(access.tensor), Access.whole(access.tensor)
        inst = self._running
        if self.is_certain and not inst.skips_out_of_bounds and not self._is_shared(access):
            predicate = inst.write_predicate()
            keeps = predicate is not None and access.tensor is predicate.dst.tensor
            if not keeps and not shadow.is_whole and not (shadow.times_of(whole) > 0).any():
                raise self._missing(inst, whole, shadow)
        self._may_read(whole)

    def _may_read(self, access: Access) -> None:
        reads = self._shadow(access.tensor).reads
        if reads is not None and not self._running.accumulates:
            reads.record_read(access, self._time)

    def reads_index(self, by: Inst | Loop, index: Access) -> None:
        if self.is_certain:
            super().reads_index(by, index)

    def writes(self, access: Access) -> None:
        if self.is_certain and not self._running.may_leave_unwritten():
            super().writes(access)
        else:
            self._may_write(access)

    def writes_somewhere(self, access: Access) -> None:
        """An access that a run-time index moves is about to be written."""
        self._may_write(Access.whole(access.tensor))

    def _may_write(self, access: Access) -> None:
        self._shadow(access.tensor).record(access, self._time)
        if self._is_shared(access):
            self._certain_races.undecided.add(access.tensor)

    def end(self) -> None:
        super().end()
        if self._moved is not None:
            (place, undefined), self._moved = self._moved, None
            self._shadow(place.tensor).undefine(place, undefined)

    @property
    def _running(self) -> Inst:
        assert self._inst is not None
        return self._inst

    def _is_shared(self, access: Access) -> bool:
        return self._is_multicore and access.buffer is Buffer.shared_hbm

    def _read_partly_defined(self, inst: Inst, access: Access, shadow: Shadow, races: Sequence[Race] = ()) -> None:
        if self._is_shared(access) and not (shadow.times_of(access) > 0).any():
            self._certain_races.read_unwritten.add((self._core, access.tensor))
        super()._read_partly_defined(inst, access, shadow, races)

    def _other_contents(self, access: Access, shadow: Shadow, races: Sequence[Race]) -> None:
        """Nothing: there are no data."""

    def _propagate(self, inst: Inst, access: Access, undefined: Undefined) -> None:
        """A copy moves undefined elements; of other results it is not known if they depend on these."""
        copy = inst.as_copy()
        if copy is None or copy.dst.dynamic is not None or copy.dst.one_place() or copy.src.dynamic is not None:
            return
        origins = undefined.origins
        if copy.src.dtype is copy.dst.dtype and origins.size == copy.dst.size and access.tensor is copy.src.tensor:
            self._moved = (copy.dst, Undefined(origins.reshape(copy.dst.shape), None))

    def _record_sent(self, exchange: Exchange, undefined: Undefined | None) -> None:
        if self.in_order:
            super()._record_sent(exchange, undefined)

    def _record_received(self, exchange: Exchange, shadow: Shadow) -> None:
        if self.in_order:
            super()._record_received(exchange, shadow)

    def _watch_shared_write(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        self._certain_races.writes_somehow(self._core, inst, access, self._time, shadow.times_of(access) == 0)

    def _write_predicated(self, inst: Inst, predicate: Predicate, shadow: Shadow) -> None:  # noqa: ARG002  # no data
        self._may_write(predicate.dst)

    def _accumulates(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        if not shadow.is_defined(access):
            super()._accumulates(inst, access, shadow)
        elif not self.in_loop:  # the next iteration may read the sum
            self._launch.psum_groups.go_on(inst, access, shadow, self._time)

    def _check_contents(self, inst: Inst) -> None:
        """Nothing: :mod:`nki.compiler.constant_contents` knows some numbers."""

    def _check_foreign(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """Nothing: the numbers are not known."""


def certain_launch(target: Target, *, carries: bool = False) -> tuple[Launch, CertainRaces]:
    """The state of a replay."""
    launch = Launch(target, carries=carries)
    launch.races = races = CertainRaces(launch.log)
    return launch, races
