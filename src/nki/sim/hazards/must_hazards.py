"""Must-analysis of hazards: the errors of a run that hold for all data, found without any data.

A replay reports the accesses of a program to :class:`MustHazards`. Of the state of memory it knows the bytes that
may be defined, and the elements that are undefined whatever the data are (:mod:`nki.sim.hazards.undefined_elements`).
What only data can show is left to runs: the elements that a predicate or an index selects, races between accesses that
may move the same numbers.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import pattern_of
from nki.analysis.uses import may_keep
from nki.ir.effects import Exchange, Predicate
from nki.ir.instruction import Inst
from nki.ir.loop import Loop
from nki.ir.types import Access, Buffer, Form, Tensor
from nki.sim.hazards import MAPPED_BYTES, Hazards, Launch, Shadow, is_unwritten
from nki.sim.hazards.core_races import Race, per_byte
from nki.sim.hazards.must_races import MustRaces
from nki.sim.hazards.undefined_bytes import Undefined
from nki.sim.hazards.undefined_elements import Place, UndefinedElements, place_of
from nki.sim.hazards.undefined_values import Memory

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


class MustHazards(Hazards):
    """Raises the errors of hazards that hold for all data while a core of ``launch`` is replayed."""

    def __init__(self, launch: Launch, *, multicore: bool) -> None:
        """``launch``: with :class:`MustRaces`."""
        super().__init__(launch, NoData(), multicore=multicore)
        assert isinstance(launch.races, MustRaces)
        self._must_races = launch.races
        self._read_undefined: dict[Place, Elements] = {}
        """The undefined elements of what the running instruction has read."""
        self._origin = 0
        """The number of the first error that they come from."""
        self.is_certain = True
        """The running instruction runs whatever the data are."""
        self.in_loop = False
        """More iterations of a loop may follow than those that are replayed."""
        self.in_order = True
        """The replay knows the order in which the cores meet."""

    @property
    def has_undefined(self) -> bool:
        """True if the instruction that has just ended has read undefined elements."""
        return bool(self._read_undefined) and self._origin != 0

    def concerns(self, inst: Inst) -> bool:  # noqa: ARG002  # some of a subclass do not
        """True if ``inst`` has to be replayed."""
        return True

    def begin(self, inst: Inst) -> None:
        self._read_undefined, self._origin = {}, 0
        super().begin(inst)

    def reads(self, access: Access) -> None:
        certain = self.is_certain and (self.in_order or not self._is_shared(access))
        if certain and not self._needs_large_map(access):
            super().reads(access)
        else:
            self._may_read(access)

    def reads_somewhere(self, access: Access) -> None:
        """An access that a run-time index moves is about to be read."""
        shadow, whole = self._shadow(access.tensor), Access.whole(access.tensor)
        inst = self._running
        if self.is_certain and not inst.skips_out_of_bounds and not self._is_shared(access):
            known = shadow.is_whole or self._needs_large_map(whole)
            if not known and not (shadow.times_of(whole) > 0).any() and not may_keep(inst, access):
                raise self._missing(inst, whole, shadow)
        self._may_read(whole)

    def _needs_large_map(self, access: Access) -> bool:
        """True if only a map of a tensor, too large to have one, tells what is written of ``access``."""
        if access.tensor.nbytes <= MAPPED_BYTES:
            return False
        shadow = self._shadow(access.tensor)
        return not shadow.is_whole and pattern_of(access) not in shadow.patterns

    def _may_read(self, access: Access) -> None:
        reads = self._shadow(access.tensor).reads
        if reads is not None and not self._running.accumulates:
            reads.record_read(access, self._time)

    def knows(self, index: Access) -> bool:
        """True if all of ``index`` is defined, or nothing is certain: :meth:`reads_index` has no errors then."""
        return not self.is_certain or self._shadow(index.tensor).is_defined(index)

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
            certain = self.is_certain and self.in_order and not self._running.may_leave_unwritten()
            certain = certain and self._running.write_predicate() is None
            self._must_races.writes_somewhere(self._core, access.tensor, self._time, certain=certain)

    def poison_results(self, inst: Inst, moved: Container[Tensor]) -> None:
        """Poison the results of ``inst`` that depend on undefined elements, those in ``moved`` tensors aside."""
        results = UndefinedElements(self._read_undefined)
        results.visit(inst)
        if inst.may_leave_unwritten():
            return
        origin, none = np.int32(self._origin), np.int32(0)
        for access, undefined in results.results:
            if access.tensor not in moved:
                self._shadow(access.tensor).undefine(access, Undefined(np.where(undefined, origin, none), None))

    @property
    def _running(self) -> Inst:
        assert self._inst is not None
        return self._inst

    def _is_shared(self, access: Access) -> bool:
        return self._is_multicore and access.buffer is Buffer.shared_hbm

    def _keeps(self, access: Access, shadow: Shadow) -> None:
        undefined = per_byte(shadow.times_of(access) <= 0, access)
        self._read_undefined[place_of(access)] = np.asarray(undefined.any(axis=-1))

    def _other_contents(self, access: Access, shadow: Shadow, races: Sequence[Race]) -> None:
        """Nothing: there are no data."""

    def _number_of_unwritten(self, inst: Inst, access: Access, shadow: Shadow, *, deferred: bool) -> int:
        """The origin of what nothing has written of ``access``. Its error is made when it is raised: few are."""
        last = shadow.last
        if deferred or not last or inst.accumulates or shadow.may_be_overwritten:
            return super()._number_of_unwritten(inst, access, shadow, deferred=deferred)
        missing = shadow.bytes_as_now(access, is_unwritten)
        program = None if self._others_may_write(access) else self._program
        return self._launch.origins.later(
            lambda: self._errors(inst, access, shadow).unwritten(missing(), last, program)
        )

    def _propagate(self, inst: Inst, access: Access, undefined: Undefined) -> None:  # noqa: ARG002  # later, see below
        """Remember the undefined elements, for :meth:`poison_results`."""
        self._read_undefined[place_of(access)] = undefined.elements
        self._origin = min(self._origin, int(undefined.origins.min()))

    def _record_sent(self, exchange: Exchange, undefined: Undefined | None) -> None:
        if self.in_order:
            super()._record_sent(exchange, undefined)

    def _record_received(self, exchange: Exchange, shadow: Shadow) -> None:
        if self.in_order:
            super()._record_received(exchange, shadow)

    def _watch_shared_write(self, inst: Inst, access: Access, shadow: Shadow) -> None:  # noqa: ARG002  # no data
        if self.in_order:
            self._must_races.writes_somehow(self._core, inst, access, self._time)
        else:
            self._must_races.writes_somewhere(self._core, access.tensor, self._time, certain=False)

    def _write_predicated(self, inst: Inst, predicate: Predicate, shadow: Shadow) -> None:  # noqa: ARG002  # no data
        self._may_write(predicate.dst)

    def _accumulates(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        if not shadow.is_defined(access):
            super()._accumulates(inst, access, shadow)
        elif not self.in_loop:  # the next iteration may read the sum
            self._launch.psum_groups.go_on(inst, access, shadow, self._time)

    def _check_foreign(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """Nothing: the numbers are not known."""


class WritesOfCores(MustHazards):
    """Only warns of cores that write some tensors where data decide: the rest of the program has no certain hazard."""

    def __init__(self, launch: Launch, tensors: Container[Tensor]) -> None:
        """``tensors``: those that are watched."""
        super().__init__(launch, multicore=True)
        self._tensors = tensors
        self._may_concern: dict[Form, bool] = {}
        """By the form of instructions: some of them may have to be replayed, as they may write to shared memory."""

    def concerns(self, inst: Inst) -> bool:
        if inst.effects.external or inst.effects.scalar_registers:
            return True
        form = inst.form
        may = self._may_concern.get(form)
        if may is None:
            may = self._may_concern[form] = any(map(self._is_shared, inst.writes()))
        return may and any(access.tensor in self._tensors for access in inst.writes())

    def knows(self, index: Access) -> bool:  # noqa: ARG002  # as of all that is read
        return True

    def reads_index(self, by: Inst | Loop, index: Access) -> None:
        pass

    def reads(self, access: Access) -> None:
        pass

    def reads_somewhere(self, access: Access) -> None:
        pass

    def writes(self, access: Access) -> None:
        if access.tensor in self._tensors:
            super().writes(access)

    def writes_somewhere(self, access: Access) -> None:
        if access.tensor in self._tensors:
            super().writes_somewhere(access)

    def _record_received(self, exchange: Exchange, shadow: Shadow) -> None:
        """Nothing: nothing is undefined."""
