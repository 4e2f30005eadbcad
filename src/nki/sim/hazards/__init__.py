"""The hostile simulator: it watches a kernel run, and stops it where it trusts bytes that are not there.

Memory that nobody has written, that another tile has been laid over, PSUM that no matmul has begun: hardware goes on
with whatever it finds. ``docs/hazards.md`` lists them all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import NkiError
from nki.base.source import Where
from nki.base.warning import warn_at
from nki.ir.effects import Exchange, Predicate
from nki.ir.execution_observer import Watcher
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.program import CoreProgram
from nki.ir.rng_state import initial
from nki.ir.types import Access, Buffer, Tensor, is_element_indexed
from nki.sim.hazards.core_races import Races
from nki.sim.hazards.loop_carried import Iterations, ignore
from nki.sim.hazards.messages import Log, Reader, box_of, strayed
from nki.sim.hazards.placed_tiles import Places
from nki.sim.hazards.psum_groups import Sum, Sums
from nki.sim.hazards.shadow import SPOILT, Times
from nki.sim.hazards.undefined_values import Machine, Trial
from nki.target.model import Target


class Shadow(Sum):
    """What was written to a tensor, when it was made, where what is undefined in it comes from."""

    __slots__ = ("made", "origin", "tracked")

    def __init__(self, tensor: Tensor, made: int) -> None:
        ready = tensor.role == "input" or tensor.data is not None or initial(tensor) is not None
        super().__init__(tensor, whole=ready)
        self.made = made
        self.origin: NkiError | None = None
        """Of what is spoilt in it: the first reading of what nobody had written."""
        self.tracked = tensor.address is not None and tensor.buffer in (Buffer.sbuf, Buffer.psum)
        """Others may be laid over it."""


class Launch:
    """What is known of one run of a kernel, on all its cores: they run in turns, and share tensors."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.cores = 0
        self.log = Log()
        self.races = Races(self.log)
        self.sums = Sums(self.log, target)
        self.sent: dict[tuple[int, int, int], deque[tuple[NDArray[np.bool_], NkiError | None]]] = {}
        """By sender, receiver and pipe: what of each tile under way is undefined, and the error for that."""
        self._ahead: list[NkiError] = []
        self._shadows: dict[Tensor, Shadow] = {}

    def reads_ahead(self, error: NkiError) -> None:
        """A core has read of shared memory what nobody has written; it goes on, for the other one may race with it."""
        self._ahead.append(error)

    def is_ahead(self, origin: NkiError | None) -> bool:
        """Whether what is undefined comes from such a reading."""
        return any(origin is error for error in self._ahead)

    def made(self, tensor: Tensor, time: int) -> None:
        """``tensor`` was made at ``time``, unless another core had made it."""
        if tensor not in self._shadows:
            self._shadows[tensor] = Shadow(tensor, time)

    def finish(self, outputs: Iterable[Tensor]) -> None:
        """The kernel has ended: nothing undefined is in its outputs. Warn of those that were not wholly written."""
        self.races.finish()
        for error in self._ahead:
            raise error
        self.sums.finish()
        for tensor in outputs:
            whole, shadow = Access.whole(tensor), self.shadow(tensor)
            if shadow.touched(whole):
                continue
            times = shadow.at(whole)
            if (times == SPOILT).any():
                where = box_of(tensor, shadow.bytes_of(whole, times == SPOILT))
                assert shadow.origin is not None, "what is spoilt has an origin"
                shadow.origin.message += f"; what came of it is in output '{tensor.name}' {tensor.shape}, {where}"
                raise shadow.origin
            if tensor.span is not None:
                missing = shadow.bytes_of(whole, times == 0)
                warn_at(
                    tensor.span,
                    f"output '{tensor.name}' {tensor.shape} {tensor.dtype} is written in part: {missing.mean():.1%} of "
                    f"it, {box_of(tensor, missing)}, is what memory held before",
                )

    def shadow(self, tensor: Tensor) -> Shadow:
        """What is known of ``tensor``."""
        found = self._shadows.get(tensor)
        if found is None:
            found = self._shadows[tensor] = Shadow(tensor, 0)
        return found


class Hazards(Watcher):
    """Raises the errors of hazards, and warns of what is probably one, while a core runs its part of ``launch``.

    ``machine`` is what runs it. ``program`` is what it runs where that is known before: a message can then say where
    what is missing is written later. ``several``: other cores run parts of the launch, too.
    """

    def __init__(
        self, launch: Launch, machine: Machine, program: CoreProgram | None = None, *, several: bool = False
    ) -> None:
        self._core = launch.cores
        self._several = several
        launch.cores += 1
        self._launch = launch
        self._written: list[tuple[Access, NDArray[np.uint8], Callable[[NDArray[np.bool_]], None]]] = []
        """What the running instruction writes to what others see, the bytes before, and who asks for what changes."""
        self._log = launch.log
        self._shadow = launch.shadow
        self._machine = machine
        self._program = program
        self._places = Places()
        self._iterations = Iterations(self._log)
        self._inst: Inst | None = None
        self._trial: Trial | None = None
        self._origin: NkiError | None = None
        self._outside: tuple[NDArray[np.bool_], NkiError] | None = None
        self._stray: list[tuple[Access, NDArray[np.bool_], NkiError]] = []
        """What the running instruction gathers from outside its source, and the error for that."""
        self._taken: list[Access] = []
        """What the running instruction has read of tiles that others may lie over."""
        self._time = 0

    def made(self, tensor: Tensor) -> None:
        """``tensor`` was made where the program is now."""
        self._launch.made(tensor, self._time)

    def unrolling(self, where: Where) -> None:
        """A loop begins whose iterations are said not to depend on each other."""
        self._iterations.begin(where, self._time)

    def iterating(self) -> None:
        """The next iteration of the innermost of these loops begins."""
        self._iterations.next(self._time)

    def unrolled(self) -> None:
        """The innermost of these loops has ended."""
        self._iterations.end()

    def begins(self, inst: Inst) -> None:
        self._inst = inst
        self._time = self._log.add(inst)
        self._taken = []

    def ends(self) -> None:
        inst = self._inst
        barrier = None if inst is None else inst.as_barrier()
        if barrier is not None and len(barrier.cores) > 1:
            self._launch.races.met(self._core, barrier.data.tensor)
        for access, before, tell in self._written:
            assert inst is not None
            now = self._bytes(access)
            if self._several:
                self._launch.races.writes(self._core, inst, access, self._time, before != now, now)
            tell((before != now).any(axis=-1))
        self._written = []
        self._undefine()

    def _undefine(self) -> None:
        """Spoil what the running instruction has made of undefined bytes, or of elements that there are not."""
        for access, outside, origin in self._stray:
            shadow = self._shadow(access.tensor)
            shadow.spoil(access, outside)
            shadow.origin = origin
        self._stray, self._outside = [], None
        if self._trial is None:
            return
        trial, self._trial = self._trial, None
        for access, undefined in trial.undefined():
            if undefined.any():
                shadow = self._shadow(access.tensor)
                shadow.spoil(access, undefined)
                shadow.origin = self._origin

    def reads(self, access: Access) -> None:
        shadow = self._shadow(access.tensor)
        inst = self._inst
        assert inst is not None
        if shadow.reads is not None:
            if inst.accumulates:
                self._adds(inst, access, shadow)
                return
            shadow.reads.note_read(access, self._time)
        if access.buffer is Buffer.shared_hbm and self._several:
            self._launch.races.reads(self._core, inst, access, self._time, partial(self._bytes, access))
        if shadow.tracked:
            self._taken.append(access)
        if shadow.whole or shadow.touched(access):
            if (exchange := inst.as_exchange()) is not None:
                self._sends(exchange, np.zeros(access.shape, np.bool_), None)
            if self._iterations.open and not (self._several and access.buffer is Buffer.shared_hbm):
                self._iterations.reads(inst, access, shadow, shadow.made, self._time)
        elif not _may_stay(inst, access):
            self._reads_some(inst, access, shadow)

    def _reads_some(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """Not all of ``access`` is there. If some is, see what comes of the rest."""
        times = shadow.at(access)
        ahead = self._launch.is_ahead(shadow.origin)
        if _buried(times).any() or not ((times > 0).any() or ahead or self._others_may_write(access)):
            raise self._missing(inst, access, shadow)
        origin = shadow.origin if (times == SPOILT).any() else self._missing(inst, access, shadow)
        if not (times > 0).any() and not ahead:
            assert origin is not None
            self._launch.reads_ahead(origin)
        undefined = times <= 0
        undefined = np.asarray(undefined if undefined.ndim == access.ndim else undefined.any(axis=-1))
        if (exchange := inst.as_exchange()) is not None:  # to run it again takes the other core
            self._sends(exchange, undefined, origin)
            return
        if self._trial is None:
            self._trial, self._origin = Trial(self._machine, inst), origin
        self._trial.reads(access, undefined)

    def _others_may_write(self, access: Access) -> bool:
        return self._several and access.buffer is Buffer.shared_hbm

    def _sends(self, exchange: Exchange, undefined: NDArray[np.bool_], origin: NkiError | None) -> None:
        """What is undefined of a tile that goes to another core."""
        key = (self._core, exchange.to, exchange.pipe)
        self._launch.sent.setdefault(key, deque()).append((undefined, origin))

    def _receives(self, exchange: Exchange, shadow: Shadow) -> None:
        """What is undefined of a tile that came from another core stays so."""
        undefined, origin = self._launch.sent[exchange.source, self._core, exchange.pipe].popleft()
        if undefined.any():
            shadow.spoil(exchange.dst, undefined)
            shadow.origin = origin

    def writes(self, access: Access) -> None:
        shadow = self._shadow(access.tensor)
        inst = self._inst
        assert inst is not None
        predicate = inst.write_predicate()
        if predicate is not None and access is predicate.dst and not shadow.touched(access):
            self._writes_some(inst, predicate, shadow)
            return
        if self._trial is not None:
            self._trial.writes(access)
        if shadow.reads is not None and inst.effects.accumulation is not None and inst.accumulates is False:
            self._launch.sums.restarts(inst, access, shadow)
        if access.buffer is Buffer.shared_hbm and (self._several or self._iterations.open):
            self._shares(inst, access, shadow)
        elif self._iterations.open:
            self._iterations.writes(inst, access, shadow.made)
        if self._outside is not None and self._outside[0].size == access.size:
            self._stray.append((access, self._outside[0].reshape(access.shape), self._outside[1]))
        shadow.note(access, self._time)
        if (exchange := inst.as_exchange()) is not None:
            self._receives(exchange, shadow)
        if shadow.tracked:
            self._places.written(shadow, access, self._time)
            self._check_own(inst, shadow)

    def _check_own(self, inst: Inst, written: Shadow) -> None:
        """Raise where the instruction reads a tile that it has just overwritten through another one."""
        for access in self._taken:
            shadow = self._shadow(access.tensor)
            buried = shadow.at(access) == -self._time
            if shadow is not written and buried.any():
                chosen, (before, over) = shadow.bytes_of(access, buried), shadow.buried[self._time]
                raise self._reader(inst, access, shadow).clobbered(chosen, before, over, self._time, itself=True)

    def _shares(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """What others see is about to be written: it is seen to when that is done."""
        tell = ignore if self._several else self._iterations.writes_again(inst, access, shadow, shadow.made)
        if not self._several:
            self._iterations.writes(inst, access, shadow.made)
        if self._several or tell is not ignore:
            self._written.append((access, self._bytes(access), tell))

    def _bytes(self, access: Access) -> NDArray[np.uint8]:
        """The bytes of ``access``, in its shape and one dimension more."""
        window = np.ascontiguousarray(self._machine.memory.window(access))
        return window.view(np.uint8).reshape(*access.shape, access.dtype.itemsize).copy()

    def strays(self, numbers: NDArray[np.int64], outside: NDArray[np.bool_]) -> None:
        assert self._inst is not None
        self._outside = (outside, strayed(self._inst, numbers, outside))

    def looks_up(self, by: Inst | Loop, index: Access) -> None:
        shadow = self._shadow(index.tensor)
        if not shadow.touched(index):
            ahead = self._launch.is_ahead(shadow.origin) and shadow.origin
            raise ahead or self._missing(by, index, shadow)

    def enters(self, loop: Loop) -> None:
        for tensor in loop.tensors:
            if tensor.buffer is not Buffer.register:  # engines keep what is in theirs
                self._shadow(tensor).forget()

    def counts(self, loop: For) -> None:
        self._shadow(loop.register.tensor).note(loop.register, self._log.add(loop))

    def _writes_some(self, inst: Inst, predicate: Predicate, shadow: Shadow) -> None:
        """A predicated copy to places that were never written: those that the predicate chooses are now."""
        mask = predicate.mask(self._machine.contents(inst, predicate.operand))
        shadow.note_some(predicate.dst, mask, self._time)

    def _adds(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """A matmul adds to ``access``: matmuls must have begun that sum."""
        if shadow.touched(access):
            self._launch.sums.adds(inst, access, shadow, self._time, self._machine.memory.window(access))
            return
        times = shadow.at(access)
        if _buried(times).any() or not times.all():
            raise self._missing(inst, access, shadow)
        self._reads_some(inst, access, shadow)

    # Reading what is not there

    def _missing(self, by: Inst | Loop, access: Access, shadow: Shadow) -> NkiError:
        """The error for reading ``access``, some of which is unwritten or buried."""
        reader = self._reader(by, access, shadow)
        times = shadow.at(access)
        buried = _buried(times)
        if buried.any():
            time = -int(times[buried].min())
            return reader.clobbered(shadow.bytes_of(access, buried), *shadow.buried[time], time)
        if (times == SPOILT).any():
            assert shadow.origin is not None, "what is spoilt has an origin"
            return reader.undefined(shadow.origin)
        missing = shadow.bytes_of(access, times == 0)
        if isinstance(by, Inst) and by.accumulates and shadow.reads is not None:
            return reader.unbegun(missing)
        found = self._places.beneath(access.tensor, missing) if shadow.tracked else None
        if found is not None:
            return reader.stale(missing, *found)
        return reader.unwritten(missing, shadow.last, None if self._others_may_write(access) else self._program)

    def _reader(self, by: Inst | Loop, access: Access, shadow: Shadow) -> Reader:
        asked = shadow.bytes_of(access, np.ones(shadow.at(access).shape, np.bool_))
        return Reader(by, access, asked, self._log)


def _may_stay(inst: Inst, access: Access) -> bool:
    """Whether ``inst`` may leave ``access`` as it is, and so may find nothing there."""
    predicate = inst.write_predicate()
    if predicate is None:
        return False
    return access is predicate.dst or (is_element_indexed(predicate.dst) and access.tensor is predicate.dst.tensor)


def _buried(times: Times) -> NDArray[np.bool_]:
    return (times < 0) & (times != SPOILT)
