"""Hazards: observes a running kernel and stops it where its result depends on undefined bytes.

Examples are memory that was never written, a tile that another tile has overwritten, and PSUM to which a matmul adds
before any has started the sum. Hardware goes on with whatever memory holds. ``docs/hazards.md`` lists all hazards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.uses import may_keep
from nki.base.errors import CoreRaceError, NkiError
from nki.base.source import Where
from nki.base.warning import warn_at
from nki.ir.effects import Exchange, Predicate
from nki.ir.execution_observer import ExecutionObserver
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import repeats
from nki.sim.hazards.core_races import ByteArray, CoreRaces, Race, Write, per_byte
from nki.sim.hazards.integer_rounding import Exact, IntegerRounding
from nki.sim.hazards.loop_carried import LoopCarried, ignore
from nki.sim.hazards.messages import ExecutionLog, ReadErrors, first_box, out_of_range_error
from nki.sim.hazards.placed_tiles import PlacedTiles
from nki.sim.hazards.psum_groups import PsumGroups
from nki.sim.hazards.required_contents import check_contents, required_contents
from nki.sim.hazards.shadow import READY, Times, is_overwritten, is_poisoned
from nki.sim.hazards.undefined_bytes import Origins, Shadow, Undefined
from nki.sim.hazards.undefined_values import Executor, Trial
from nki.target.model import Target

MAPPED_BYTES = 1 << 30
"""An output beyond this size is not searched for its first unwritten element, nor are parts of such tensors judged
before a run: the map would be four times as large."""


class Launch:
    """State of one run of a kernel on all its cores, which run in turns and share tensors."""

    def __init__(self, target: Target, *, propagates_undefined: bool = False) -> None:
        self.target = target
        self.propagates_undefined = propagates_undefined
        """Undefined elements are an error only where they reach an output (``Program.propagates_undefined``)."""
        self.cores = 0
        self.log = ExecutionLog()
        self.races = CoreRaces(self.log)
        self.psum_groups = PsumGroups(self.log, target)
        self.origins = Origins()
        self.sent: dict[tuple[int, int, int], deque[Undefined | None]] = {}
        """By sender, receiver and pipe: what is undefined of each tile in flight."""
        self._shadows: dict[Tensor, Shadow] = {}

    def again(self) -> Launch | None:
        """For the same run once more, if reads have turned out to race with writes that came after them; it knows them.

        Without a repetition only what had read these bytes by then would be defined.
        """
        if not self.races.late:
            return None
        launch = Launch(self.target, propagates_undefined=self.propagates_undefined)
        launch.races = type(self.races)(launch.log)
        launch.races.known = self.races.late
        launch.psum_groups.warned = self.psum_groups.warned
        return launch

    def allocated(self, tensor: Tensor, time: int) -> None:
        """``tensor`` is made at ``time``, unless another core has made it before."""
        if tensor not in self._shadows:
            self._shadows[tensor] = Shadow(tensor, time)

    def undefine(self, tensor: Tensor, race: Race) -> None:
        """Two cores have left different numbers in ``tensor``: the bytes of the ``race`` are undefined."""
        origins = np.where(race.bytes.any(axis=-1), self.origins.number(race.error), 0)
        self.shadow(tensor).undefine(Access.whole(tensor), Undefined(origins, race.other))

    def finish(self, outputs: Iterable[Tensor]) -> None:
        """The kernel has ended: raise for undefined bytes in outputs, and warn of outputs that are written in part."""
        for tensor, race in self.races.finish():
            self.undefine(tensor, race)
        self.origins.raise_deferred()
        self.psum_groups.finish()
        for tensor in outputs:
            whole, shadow = Access.whole(tensor), self.shadow(tensor)
            untouched = shadow.untouched_bytes() if tensor.nbytes > MAPPED_BYTES else 0
            if untouched:
                share = untouched / tensor.nbytes
                _warn_of_rest(tensor, f"{share:.1%} of it or more" if share < 1 else "")
                continue
            if shadow.is_defined(whole):
                continue
            times = shadow.times_of(whole)
            if is_poisoned(times).any():
                raise self._of_output(tensor, shadow)
            if tensor.span is not None:
                missing = shadow.bytes_of(whole, is_unwritten)
                share = f"{missing.count() / tensor.nbytes:.1%} of it, {first_box(tensor, missing)},"
                _warn_of_rest(tensor, "" if missing.cells.all() else share)

    def _of_output(self, tensor: Tensor, shadow: Shadow) -> NkiError:
        """The error of undefined bytes that have come to an output."""
        whole = Access.whole(tensor)
        times = shadow.times_of(whole)
        error = self.origins.first(times)
        if not isinstance(error, CoreRaceError):  # which says all, and says it when compiled too
            where = first_box(tensor, shadow.bytes_of(whole, is_poisoned))
            error.message += f"; what came of it is in output '{tensor.name}' {tensor.shape}, {where}"
        return error

    def shadow(self, tensor: Tensor) -> Shadow:
        """The shadow of ``tensor``."""
        shadow = self._shadows.get(tensor)
        if shadow is None:
            shadow = self._shadows[tensor] = Shadow(tensor, 0)
        return shadow


class Hazards(ExecutionObserver):
    """Raises the errors of hazards, and warns of probable ones, while ``executor`` runs one core of ``launch``.

    With ``program``, the program of the core where it is known beforehand, a message can name a later write of the
    missing bytes. ``multicore``: the launch has other cores. ``exact`` tells results of integers that float32 changes.
    """

    def __init__(
        self,
        launch: Launch,
        executor: Executor,
        program: CoreProgram | None = None,
        *,
        multicore: bool = False,
        exact: Exact | None = None,
    ) -> None:
        self._core = launch.cores
        self._is_multicore = multicore
        launch.cores += 1
        self._launch = launch
        self._shared_writes: list[Callable[[], None]] = []
        """Work that waits for the end of the running instruction, about its writes to shared memory."""
        self._log = launch.log
        self._shadow = launch.shadow
        self._executor = executor
        self._program = program
        self._placed_tiles = PlacedTiles()
        self._loop_carried = LoopCarried(self._log)
        self._rounding = IntegerRounding(executor, exact)
        self._inst: Inst | None = None
        self._trial: Trial | None = None
        self._pending_out_of_range: tuple[NDArray[np.bool_], NkiError] | None = None
        self._out_of_range: list[tuple[Access, NDArray[np.bool_], NkiError]] = []
        """Results of the running instruction with elements gathered at out-of-range indices, and the error."""
        self._tile_reads: list[Access] = []
        """Reads of the running instruction from placed tiles."""
        self._time = READY

    def allocated(self, tensor: Tensor) -> None:
        """The program makes ``tensor`` at this point."""
        self._launch.allocated(tensor, self._time)

    def unrolling(self, where: Where) -> None:
        """A loop begins that promises independent iterations."""
        self._loop_carried.begin(where, self._time)

    def iterating(self) -> None:
        """The next iteration of the innermost of these loops begins."""
        self._loop_carried.next(self._time)

    def unrolled(self) -> None:
        """The innermost of these loops has ended."""
        self._loop_carried.end()

    def begin(self, inst: Inst) -> None:
        self._inst = inst
        self._time = self._log.add(inst)
        self._tile_reads = []
        self._rounding.begin(inst)

    def starts(self, inst: Inst) -> None:
        """Compare the operands of ``inst`` with the contents that the reference asks of them."""
        for required in required_contents(inst):
            access = required.operand
            shadow = self._shadow(access.tensor)
            if shadow.is_defined(access):
                check_contents(inst, required, self._executor.memory)
            elif required.rule:  # the result does not depend on it, so that no other check sees it
                raise self._missing(inst, access, shadow)

    def end(self) -> None:
        inst = self._inst
        if self._rounding.active and inst is not None:
            self._rounding.end(inst)
        barrier = None if inst is None else inst.as_barrier()
        if barrier is not None and len(barrier.cores) > 1:
            tensor = barrier.data.tensor
            for race in self._launch.races.pass_barrier(self._core, tensor):
                self._launch.undefine(tensor, race)
        self._poison_results()
        for written in self._shared_writes:
            written()
        self._shared_writes = []

    def _poison_results(self) -> None:
        """Poison results of the running instruction that depend on undefined bytes or on out-of-range elements."""
        for access, outside, error in self._out_of_range:
            origins = np.where(outside, self._launch.origins.number(error), 0)
            self._shadow(access.tensor).undefine(access, Undefined(origins, None))
        self._out_of_range, self._pending_out_of_range = [], None
        if self._trial is None:
            return
        trial, self._trial = self._trial, None
        for access, undefined in trial.undefined():
            self._shadow(access.tensor).undefine(access, undefined)

    def reads(self, access: Access) -> None:
        shadow = self._shadow(access.tensor)
        inst = self._inst
        assert inst is not None
        if shadow.reads is not None:
            if inst.accumulates:
                self._accumulates(inst, access, shadow)
                return
            shadow.reads.record_read(access, self._time)
        races: Sequence[Race] = ()
        if self._others_may_write(access):
            races = self._launch.races.reads(self._core, inst, access, self._time, partial(self._bytes, access))
        if shadow.may_be_overwritten:
            self._tile_reads.append(access)
        if not races and (shadow.is_whole or shadow.is_defined(access)):
            if self._rounding.active:
                self._rounding.reads(access)
            if (exchange := inst.as_exchange()) is not None:
                self._record_sent(exchange, None)
            if self._loop_carried.open and not self._others_may_write(access):
                self._loop_carried.reads(inst, access, shadow, shadow.allocated, self._time)
        elif may_keep(inst, access):
            self._keeps(access, shadow)
        else:
            self._rounding.active = False
            self._read_partly_defined(inst, access, shadow, races)

    def _keeps(self, access: Access, shadow: Shadow) -> None:
        """The instruction may leave elements of ``access`` as they are, and some are undefined."""

    def _read_partly_defined(self, inst: Inst, access: Access, shadow: Shadow, races: Sequence[Race] = ()) -> None:
        """Read ``access``, which is undefined in part: raise if all of it is, else propagate the undefined elements."""
        times, origins = shadow.times_of(access), self._launch.origins
        carried = self._launch.propagates_undefined
        may_be = bool(races) or carried or origins.may_be_read(times) or bool((times > 0).any())
        if is_overwritten(times).any() or not (may_be or self._others_may_write(access)):
            raise self._missing(inst, access, shadow)
        numbers = np.where(is_poisoned(times), times, 0)
        if (times == 0).any():
            numbers[times == 0] = self._number_of_unwritten(inst, access, shadow, deferred=not may_be)
        numbers = np.asarray(numbers if numbers.ndim == access.ndim else numbers.min(axis=-1))
        for race in races:
            numbers[race.bytes.any(axis=-1)] = origins.number(race.error)
        undefined = Undefined(numbers, self._other_contents(access, shadow, races))
        if (exchange := inst.as_exchange()) is not None:  # a trial would need the other core
            self._record_sent(exchange, undefined)
        else:
            self._propagate(inst, access, undefined)

    def _other_contents(self, access: Access, shadow: Shadow, races: Sequence[Race]) -> NDArray[np.uint8] | None:
        """The contents of ``access`` in another run: of fresh memory, and in another order of the cores."""
        undefined = per_byte(shadow.times_of(access) <= 0, access)
        contents = np.where(undefined, shadow.other(access), self._bytes(access))
        for race in races:
            np.copyto(contents, race.other, where=race.bytes)
        return contents

    def _propagate(self, inst: Inst, access: Access, undefined: Undefined) -> None:
        """Find the results that depend on what is ``undefined`` of ``access`` when the instruction has ended."""
        if self._trial is None:
            self._trial = Trial(self._executor, inst)
        self._trial.reads(access, undefined)

    def _others_may_write(self, access: Access) -> bool:
        return self._is_multicore and access.buffer is Buffer.shared_hbm

    def _record_sent(self, exchange: Exchange, undefined: Undefined | None) -> None:
        """Record what is undefined of a tile that goes to another core."""
        key = (self._core, exchange.to, exchange.pipe)
        self._launch.sent.setdefault(key, deque()).append(undefined)

    def _record_received(self, exchange: Exchange, shadow: Shadow) -> None:
        """Poison the elements of a received tile that were undefined on the sending core."""
        undefined = self._launch.sent[exchange.source, self._core, exchange.pipe].popleft()
        if undefined is not None:
            shadow.undefine(exchange.dst, undefined)

    def writes(self, access: Access) -> None:
        shadow = self._shadow(access.tensor)
        inst = self._inst
        assert inst is not None
        predicate = inst.write_predicate()
        if predicate is not None and access is predicate.dst and not shadow.is_defined(access):
            self._write_predicated(inst, predicate, shadow)
            return
        if self._trial is not None:
            self._trial.writes(access)
        if self._rounding.active:
            self._rounding.writes(access)
        if shadow.reads is not None and inst.effects.accumulation is not None and inst.accumulates is False:
            self._launch.psum_groups.start(inst, access, shadow)
        if access.buffer is Buffer.shared_hbm and (self._is_multicore or self._loop_carried.open):
            self._watch_shared_write(inst, access, shadow)
        elif self._loop_carried.open:
            self._loop_carried.writes(inst, access, shadow.allocated)
        if self._pending_out_of_range is not None and self._pending_out_of_range[0].size == access.size:
            outside, error = self._pending_out_of_range
            self._out_of_range.append((access, outside.reshape(access.shape), error))
        shadow.record(access, self._time)
        if (exchange := inst.as_exchange()) is not None:
            self._record_received(exchange, shadow)
        if shadow.may_be_overwritten:
            self._placed_tiles.record_write(shadow, access, self._time)
            self._check_self_overwrite(inst, shadow)

    def _check_self_overwrite(self, inst: Inst, written: Shadow) -> None:
        """Raise if the instruction reads a tile that it has just overwritten through another one."""
        for access in self._tile_reads:
            shadow = self._shadow(access.tensor)
            if shadow is written or not shadow.was_overwritten(self._time):  # so most tiles never need a map of times
                continue
            overwritten = shadow.bytes_of(access, lambda times: times == -self._time)
            if overwritten.cells.any():
                chosen, (before, over) = overwritten, shadow.overwritten[self._time]
                raise self._errors(inst, access, shadow).clobbered(chosen, before, over, self._time, itself=True)

    def _watch_shared_write(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """Remember the bytes of shared memory that ``inst`` is about to write, to compare them afterwards."""
        if self._is_multicore:
            before, undefined = self._bytes(access), self._undefined(access, shadow)
            other = np.where(undefined, shadow.other(access), before) if undefined.any() else before
            self._shared_writes.append(partial(self._race, inst, access, shadow, before, other, undefined))
            return
        on_change = self._loop_carried.writes_again(inst, access, shadow, shadow.allocated)
        self._loop_carried.writes(inst, access, shadow.allocated)
        if on_change is not ignore:
            words = self._bytes(access)
            self._shared_writes.append(lambda: on_change((words != self._bytes(access)).any(axis=-1)))

    def _race(
        self,
        inst: Inst,
        access: Access,
        shadow: Shadow,
        before: ByteArray,
        other: ByteArray,
        undefined: NDArray[np.bool_],
    ) -> None:
        """``access`` has been written, which held ``before``, or ``other`` where it was ``undefined``."""
        now, unsure = self._bytes(access), self._undefined(access, shadow)
        write = Write(access, before, other, now, unsure, (undefined != unsure) | (before != now))
        self._launch.races.writes(self._core, inst, write, self._time)

    def _undefined(self, access: Access, shadow: Shadow) -> NDArray[np.bool_]:
        """The undefined bytes of ``access``."""
        if shadow.is_defined(access):
            return np.zeros((*access.shape, access.dtype.itemsize), np.bool_)
        return per_byte(shadow.times_of(access) <= 0, access)

    def _bytes(self, access: Access) -> NDArray[np.uint8]:
        """The bytes of ``access``, in its shape and one dimension more."""
        window = np.ascontiguousarray(self._executor.memory.window(access))
        return window.view(np.uint8).reshape(*access.shape, access.dtype.itemsize).copy()

    def gathers_out_of_range(self, numbers: NDArray[np.int64], outside: NDArray[np.bool_]) -> None:
        assert self._inst is not None
        self._pending_out_of_range = (outside, out_of_range_error(self._inst, numbers, outside))

    def reads_index(self, by: Inst | Loop, index: Access) -> None:
        shadow = self._shadow(index.tensor)
        if not shadow.is_defined(index):
            raise self._missing(by, index, shadow)

    def enters_loop(self, loop: Loop) -> None:
        for tensor in loop.tensors:
            if tensor.buffer is not Buffer.register:  # engines keep the contents of their registers
                self._shadow(tensor).reset()

    def counts_iteration(self, loop: For) -> None:
        self._shadow(loop.register.tensor).record(loop.register, self._log.add(loop))

    def _write_predicated(self, inst: Inst, predicate: Predicate, shadow: Shadow) -> None:
        """Record a predicated copy to undefined elements: those that the predicate selects are defined now.

        What it selects may be undefined itself; what it leaves stays as it is, also where it copies a tile to itself.
        """
        if self._trial is not None:
            self._trial.writes(predicate.dst)
        mask = predicate.mask(self._executor.contents(inst, predicate.operand))
        shadow.record_some(predicate.dst, mask, self._time)

    def _accumulates(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """A matmul adds to ``access``, where an accumulation group must have started."""
        if shadow.is_defined(access):
            self._launch.psum_groups.go_on(inst, access, shadow, self._time)
        else:
            times = shadow.times_of(access)
            if is_overwritten(times).any() or not times.all():
                raise self._missing(inst, access, shadow)
            self._read_partly_defined(inst, access, shadow)
        self._check_foreign(inst, access, shadow)

    def _check_foreign(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """A matmul adds to ``access``: what another engine wrote there must be zeros."""
        self._launch.psum_groups.check_foreign(inst, access, shadow, self._executor.memory.window(access))

    def _missing(self, by: Inst | Loop, access: Access, shadow: Shadow) -> NkiError:
        """The error for reading ``access``, which is unwritten or overwritten in part."""
        errors = self._errors(by, access, shadow)
        times = shadow.times_of(access)
        overwritten = is_overwritten(times)
        if overwritten.any():
            time = -int(times[overwritten].min())
            return errors.clobbered(shadow.bytes_of(access, is_overwritten), *shadow.overwritten[time], time)
        if is_poisoned(times).any():
            return errors.undefined(self._launch.origins.first(times))
        return self._unwritten(by, access, shadow)

    def _unwritten(self, by: Inst | Loop, access: Access, shadow: Shadow) -> NkiError:
        """The error for reading ``access``, which is unwritten in part."""
        errors = self._errors(by, access, shadow)
        missing = shadow.bytes_of(access, is_unwritten)
        if isinstance(by, Inst) and by.accumulates and shadow.reads is not None:
            return errors.without_start(missing)
        beneath = self._placed_tiles.beneath(access.tensor, missing) if shadow.may_be_overwritten else None
        if beneath is not None:
            return errors.stale(missing, *beneath)
        program = None if self._others_may_write(access) else self._program
        return errors.unwritten(
            missing, shadow.last, program, swapped=shadow.last == 0 and self._is_swapped(by, access)
        )

    def _number_of_unwritten(self, inst: Inst, access: Access, shadow: Shadow, *, deferred: bool) -> int:
        """The origin of what nothing has written of ``access``."""
        return self._launch.origins.number(self._unwritten(inst, access, shadow), deferred=deferred)

    def _is_swapped(self, by: Inst | Loop, access: Access) -> bool:
        """True if ``by`` writes nothing but a tensor that has contents already: its operands may be swapped."""
        if not isinstance(by, Inst):
            return False
        writes = by.writes()
        written = {each.tensor for each in writes}
        full = (each.role == "input" or self._shadow(each).last > 0 for each in written)
        whole = any(f.name in _WHOLE and operand.tensor is access.tensor for f, operand in by.operands())
        alike = bool(writes) and (whole or writes[0].size == access.size)
        return alike and access.tensor not in written and len(written) == 1 and all(full)

    def _errors(self, by: Inst | Loop, access: Access, shadow: Shadow) -> ReadErrors:
        asked = shadow.bytes_of(access, _every).count() if repeats(access) else access.nbytes
        return ReadErrors(by, access, asked, self._log)


def is_unwritten(times: Times) -> NDArray[np.bool_]:
    """True for elements that nothing has accessed."""
    return times == 0


def _every(times: Times) -> NDArray[np.bool_]:
    return np.ones(times.shape, np.bool_)


_WHOLE: Final = ("data", "src", "stationary", "moving")
"""Operands that may be larger or smaller than the result, and are no columns."""


def _warn_of_rest(output: Tensor, missing: str) -> None:
    """Warn of the bytes of an output that are ``missing``, in words; "": all."""
    if output.span is None:
        return
    what = f"output '{output.name}' {output.shape} {output.dtype}"
    if missing:
        text = f"{what} is written in part: {missing} is what memory held before"
    else:
        text = (
            f"{what}: this run writes nothing to it, so it is what memory held before; write it also where a loop has "
            "no rounds, or a condition or an index leaves the write out"
        )
    warn_at(output.span, text)
