"""The hostile simulator: it watches a kernel run, and stops it where it trusts bytes that are not there.

Memory that nobody has written, that another tile has been laid over, PSUM that no matmul has begun: hardware goes on
with whatever it finds. ``docs/hazards.md`` lists them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import NkiError
from nki.base.source import Where
from nki.base.warning import warn_at
from nki.ir.generators import initial
from nki.ir.inst import Inst
from nki.ir.kernel import Kernel
from nki.ir.loop import For, Loop
from nki.ir.types import Access, Buffer, Tensor, by_elements
from nki.ir.watching import Watcher
from nki.isa.core_barrier import CoreBarrier
from nki.isa.sendrecv import Sendrecv
from nki.isa.tensor_copy_predicated import TensorCopyPredicated
from nki.sim.iterations import Iterations
from nki.sim.places import Places
from nki.sim.races import Races
from nki.sim.report import Log, Reader, box_of
from nki.sim.shadow import SPOILT, Times, Trace, key_of
from nki.sim.trial import Machine, Trial
from nki.target.model import Target


class Shadow(Trace):
    """What was written to a tensor, when it was made, and for PSUM what was read of it."""

    __slots__ = ("made", "origin", "reads", "tracked")

    def __init__(self, tensor: Tensor, made: int) -> None:
        ready = tensor.role == "input" or tensor.data is not None or initial(tensor) is not None
        super().__init__(tensor, whole=ready)
        self.made = made
        self.origin: NkiError | None = None
        """Of what is spoilt in it: the first reading of what nobody had written."""
        self.reads = Trace(tensor) if tensor.buffer is Buffer.psum else None
        self.tracked = tensor.address is not None and tensor.buffer in (Buffer.sbuf, Buffer.psum)
        """Others may be laid over it."""


class Launch:
    """What is known of one run of a kernel, on all its cores: they run in turns, and share tensors."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.cores = 0
        self.log = Log()
        self.races = Races(self.log)
        self._shadows: dict[Tensor, Shadow] = {}

    def made(self, tensor: Tensor, time: int) -> None:
        """``tensor`` was made at ``time``, unless another core had made it."""
        if tensor not in self._shadows:
            self._shadows[tensor] = Shadow(tensor, time)

    def finish(self, outputs: Iterable[Tensor]) -> None:
        """The kernel has ended: nothing undefined is in its outputs. Warn of those that were not wholly written."""
        self.races.finish()
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
        self, launch: Launch, machine: Machine, program: Kernel | None = None, *, several: bool = False
    ) -> None:
        self._core = launch.cores
        self._several = several
        launch.cores += 1
        self._launch = launch
        self._written: list[tuple[Access, NDArray[np.uint8]]] = []
        """What the running instruction writes to what cores share, and the bytes before."""
        self._target = launch.target
        self._log = launch.log
        self._shadow = launch.shadow
        self._machine = machine
        self._program = program
        self._places = Places()
        self._iterations = Iterations(self._log)
        self._inst: Inst | None = None
        self._trial: Trial | None = None
        self._origin: NkiError | None = None
        self._time = 0
        self._said: set[tuple[Any, str]] = set()

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

    def ends(self) -> None:
        inst = self._inst
        if isinstance(inst, CoreBarrier) and len(inst.together()) > 1:
            self._launch.races.met(self._core, inst.data.tensor)
        for access, before in self._written:
            assert inst is not None
            now = self._bytes(access)
            self._launch.races.writes(self._core, inst, access, self._time, before != now, now)
        self._written = []
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
            if getattr(inst, "accumulate", False):
                self._adds(inst, access, shadow)
                return
            shadow.reads.note_read(access, self._time)
        if access.buffer is Buffer.shared_hbm and self._several:
            self._launch.races.reads(self._core, inst, access, self._time, partial(self._bytes, access))
        if shadow.whole or shadow.touched(access):
            if self._iterations.open and not (self._launch.cores > 1 and access.buffer is Buffer.shared_hbm):
                self._iterations.reads(inst, access, shadow, shadow.made)
        elif not _may_stay(inst, access):
            self._reads_some(inst, access, shadow)

    def _reads_some(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """Not all of ``access`` is there. If some is, see what comes of the rest."""
        times = shadow.at(access)
        if _buried(times).any() or not (times > 0).any():
            raise self._missing(inst, access, shadow)
        if isinstance(inst, Sendrecv):
            return  # to run it again takes the other core
        if self._trial is None:
            self._trial = Trial(self._machine, inst)
            self._origin = shadow.origin if (times == SPOILT).any() else self._missing(inst, access, shadow)
        undefined = times <= 0
        self._trial.reads(access, np.asarray(undefined if undefined.ndim == access.ndim else undefined.any(axis=-1)))

    def writes(self, access: Access) -> None:
        shadow = self._shadow(access.tensor)
        inst = self._inst
        assert inst is not None
        if isinstance(inst, TensorCopyPredicated) and access is inst.dst and not shadow.touched(access):
            self._writes_some(inst, shadow)
            return
        if self._trial is not None:
            self._trial.writes(access)
        if shadow.reads is not None and getattr(inst, "accumulate", None) is False:
            self._restarts(inst, access, shadow)
        shadow.note(access, self._time)
        if access.buffer is Buffer.shared_hbm and self._several:
            self._written.append((access, self._bytes(access)))  # seen to when it is done
        if shadow.tracked:
            self._places.written(shadow, access, self._time)

    def _bytes(self, access: Access) -> NDArray[np.uint8]:
        """The bytes of ``access``, in its shape and one dimension more."""
        window = np.ascontiguousarray(self._machine.memory.window(access))
        return window.view(np.uint8).reshape(*access.shape, access.dtype.itemsize).copy()

    def looks_up(self, by: Inst | Loop, index: Access) -> None:
        shadow = self._shadow(index.tensor)
        if not shadow.touched(index):
            raise self._missing(by, index, shadow)

    def counts(self, loop: For) -> None:
        self._shadow(loop.register.tensor).note(loop.register, self._log.add(loop))

    def _writes_some(self, inst: TensorCopyPredicated, shadow: Shadow) -> None:
        """A predicated copy to places that were never written: those that the predicate chooses are now."""
        predicate = self._machine.contents(inst, inst.predicate).reshape(inst.dst.shape)
        chosen = (predicate == 0) if inst.reverse_pred else (predicate != 0)
        shadow.note_some(inst.dst, chosen, self._time)

    # Accumulation in PSUM

    def _adds(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """A matmul adds to ``access``: matmuls must have begun that sum."""
        assert shadow.reads is not None
        if not shadow.touched(access):
            times = shadow.at(access)
            if _buried(times).any() or not times.all():
                raise self._missing(inst, access, shadow)
            self._reads_some(inst, access, shadow)
            return
        time = shadow.exact(access)
        written: list[int] = [time] if time else np.unique(shadow.at(access)).tolist()
        if not self._target.matmul_accumulates_foreign_psum:
            foreign = [t for t in written if not self._log.by_tensor_engine(t)]
            if foreign:
                self._foreign(inst, access, shadow, foreign[-1])
        if shadow.reads.last > written[0]:
            self._goes_on(inst, access, shadow)

    def _foreign(self, inst: Inst, access: Access, shadow: Shadow, time: int) -> None:
        """Adding to another engine's zeros comes to the same as overwriting them; other numbers are lost or not."""
        if np.any(self._machine.memory.window(access) != 0):
            raise self._reader(inst, access, shadow).foreign(time, self._target.name)
        by = self._log.said(time, inst.where.span)
        self._warn(
            inst,
            f"adds to dst '{access.name}' {access.shape}, where {by} wrote zeros; on {self._target.name} that is "
            "undefined, only what matmuls wrote can be added to: leave the zeros out",
        )

    def _goes_on(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """Warn where a sum goes on that somebody has read already."""
        assert shadow.reads is not None
        written, read = shadow.at(access), shadow.reads.at(access)
        later = read > written
        if later.any():
            before = self._log.said(int(written[later].max()), inst.where.span)
            reader = self._log.said(int(read[later].max()), inst.where.span)
            self._warn(
                inst,
                f"goes on with the sum in dst '{access.name}' {access.shape} that {before} wrote and {reader} has "
                "read; for a new sum make another tile, or pass accumulate=False",
            )

    def _restarts(self, inst: Inst, access: Access, shadow: Shadow) -> None:
        """A matmul overwrites ``access``: warn where all of it is sums of matmuls that nobody has read."""
        assert shadow.reads is not None
        time = shadow.exact(access)
        if not shadow.last or (time and not self._log.by_matmul(time)):
            return
        if time and shadow.reads.windows.get(key_of(access), 0) > time:
            return
        written = shadow.at(access)
        if (written <= 0).any() or (shadow.reads.at(access) > written).any():
            return
        times: list[int] = np.unique(written).tolist()
        if all(map(self._log.by_matmul, times)):
            by = self._log.said(times[-1], inst.where.span)
            self._warn(
                inst,
                f"overwrites dst '{access.name}' {access.shape}, which {by} wrote and nothing has read; to add to it "
                "pass accumulate=True",
            )

    def _warn(self, inst: Inst, text: str) -> None:
        """Warn at the line of ``inst``, of each kind of thing once."""
        key = (inst.where.frames[:1], text[:8])
        if key not in self._said and inst.where.span is not None:
            self._said.add(key)
            warn_at(inst.where.span, f"{inst.mnemonic}: {text}")

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
        if getattr(by, "accumulate", False) and shadow.reads is not None:
            return reader.unbegun(missing)
        found = self._places.beneath(access.tensor, missing) if shadow.tracked else None
        if found is not None:
            return reader.stale(missing, *found)
        return reader.unwritten(missing, shadow.last, self._program)

    def _reader(self, by: Inst | Loop, access: Access, shadow: Shadow) -> Reader:
        asked = shadow.bytes_of(access, np.ones(shadow.at(access).shape, np.bool_))
        return Reader(by, access, asked, self._log)


def _may_stay(inst: Inst, access: Access) -> bool:
    """Whether ``inst`` may leave ``access`` as it is, and so may find nothing there."""
    if not isinstance(inst, TensorCopyPredicated):
        return False
    return access is inst.dst or (by_elements(inst.dst) and access.tensor is inst.dst.tensor)


def _buried(times: Times) -> NDArray[np.bool_]:
    return (times < 0) & (times != SPOILT)
