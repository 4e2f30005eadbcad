"""May-analysis of hazards: tells if a program may read what nothing has written, lose sums, race, or wait for ever.

The analysis sees only access patterns, mostly by look-ups: it costs a small part of compiling, and less than a replay
(``docs/experiments.md``). Its answer "no" is certain. After "yes" the program is replayed
(:mod:`nki.sim.hazards.replay`), which decides; only the writes to some tensors, if the question is about no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.analysis.footprint import Loads
from nki.analysis.may_races import SharedAccesses
from nki.analysis.register_values import MovingPlace, RegisterValues
from nki.analysis.uses import may_keep
from nki.analysis.written_bytes import WriteAnalysis, WrittenBytes
from nki.base.element_types import uint32
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor


@dataclass(frozen=True)
class Suspicion:
    """The questions that a replay has to decide; false if there are none."""

    of_hazards: bool
    """A hazard may be certain."""
    of_writes: frozenset[Tensor] = frozenset()
    """Tensors that two cores write between the same barriers, one of them at a place that depends on data."""

    def __bool__(self) -> bool:
        return self.of_hazards or bool(self.of_writes)


def suspicion_of(program: Program) -> Suspicion:
    """The hazards of ``program`` that may be certain; none of the others is that does not depend on data."""
    shared: dict[Tensor, SharedAccesses] = {}
    cores = [_Core(program, core, shared) for core in program.cores]
    for analysis in cores:
        analysis.visit_body(analysis.core.body)
        if analysis.is_suspicious:
            return Suspicion(of_hazards=True)
    if any(analysis.meetings != cores[0].meetings for analysis in cores):  # a core may wait for ever
        return Suspicion(of_hazards=True)
    in_order = not any(analysis.meets_in_loop for analysis in cores)
    if not _writes_all(program.outputs, cores) or any(each.may_race(in_order=in_order) for each in shared.values()):
        return Suspicion(of_hazards=True)
    both = (tensor for tensor, each in shared.items() if each.both_write_somewhere(in_order=in_order))
    return Suspicion(of_hazards=False, of_writes=frozenset(both))


class _Core(WriteAnalysis):
    """The may analysis of one core: what it reads for certain has to be written on some path."""

    def __init__(self, program: Program, core: CoreProgram, shared: dict[Tensor, SharedAccesses]) -> None:
        super().__init__(set())
        self.core = core
        self.is_suspicious = False
        self.outputs = set(program.outputs)
        self.core_count = len(program.cores)
        self.shared = shared
        """The accesses of all cores to tensors that cores share."""
        self.meetings: list[Any] = []
        self.meets_in_loop = False
        self._sums = _Sums()
        self._epochs: dict[Tensor, int] = {}
        """Number of barriers on each tensor so far."""
        self._registers = RegisterValues()
        self._is_certain = True
        """The statement runs whatever the data are."""
        self._is_again = False
        """This is the second iteration of a loop."""
        self._open: set[Tensor] = set()
        """The registers of the loops around the statement."""
        self._moving: set[tuple[Tensor, Any]] = set()
        """Writes that move with loops, by keys that are equal for the same place in the same iteration."""
        self._moved: list[tuple[frozenset[Tensor], Access]] = []
        """The bytes of these writes in all iterations, with the registers of their loops; some are open."""
        self._state_reads: dict[Any, bool] = {}
        """Answers of :meth:`_reads_state`, which depend on the signature of the instruction alone."""

    def visit_instruction(self, inst: Inst) -> None:
        super().visit_instruction(inst)
        effects = inst.effects
        if effects.external:
            self._meet(inst)
        elif effects.scalar_registers:
            self._registers.execute(inst)

    def visit_loop(self, loop: Loop) -> None:
        """Visit two iterations, as the second one sees the writes of the first; of inner loops only one then."""
        for bound in loop.reads():
            self.visit_index(bound)
        registers, is_certain = self._registers, self._is_certain
        rounds, is_known = registers.rounds(loop), registers.is_known(loop)
        count = None if rounds is None else len(rounds)
        registers.enter(loop)
        if isinstance(loop, For):
            self.record(loop.register)
            self._open.add(loop.register.tensor)
        before, self.meetings = self.meetings, []
        self._is_certain = is_certain and (is_known if count is None else count > 0)
        self.visit_body(loop.body)
        meetings = self.meetings
        if (count is None or count > 1) and not self._is_again:
            self._is_again = True
            self.visit_body(loop.body)
            self._is_again = False
        self.meetings, self._is_certain = before, is_certain
        if meetings and count != 0:
            self.meets_in_loop = True
            # Loops with unequal functions of loops as bounds may differ on the cores; so each is one of its own.
            self.meetings.append((count if count is not None or not is_known else object(), meetings))
        if isinstance(loop, For):
            self._open.discard(loop.register.tensor)
            self._close()

    def visit_index(self, access: Access) -> None:
        self._ask(access)

    def visit_read(self, inst: Inst, access: Access) -> None:
        implicit, tensor = inst.effects.implicit, access.tensor
        if may_keep(inst, access):
            return
        if implicit is not None and access is inst.__dict__[implicit.name] and not self._reads_state(inst, access):
            return
        if tensor.buffer is Buffer.psum:
            self._sums.read(access)
        if access.dynamic is None:
            if self._is_shared(tensor):
                self._share(access, is_write=False, is_certain=self._is_certain)
            else:
                self._ask(access)
        elif not inst.skips_out_of_bounds:
            self._read_somewhere(access)

    def visit_sum(self, access: Access) -> None:
        if access.dynamic is None:
            self._ask(access)
        elif self._registers.index(access) is not None:
            self.is_suspicious = True

    def visit_write(self, inst: Inst, access: Access) -> None:
        buffer, is_shared = access.tensor.buffer, False
        if buffer is Buffer.psum:
            self.is_suspicious |= self._sums.write(inst, access, is_certain=self._is_certain)
        elif is_shared := self._is_shared(access.tensor):
            self._share(access, is_write=True, is_certain=self._is_certain and not inst.may_leave_unwritten())
        if access.dynamic is not None:
            self._write_somewhere(access)
        elif is_shared or buffer is Buffer.psum:
            self.written.add(access)
        else:
            self.record(access)

    def _ask(self, access: Access) -> None:
        """Suspect the program if ``access``, which is read, has bytes that nothing has written."""
        if access.tensor in self.settled_tensors or access in self.settled:
            return
        if _is_ready(access.tensor):
            self._settle(access.tensor)
        elif self._is_certain and not self.written.contains(access):
            self.is_suspicious = True
        elif self._is_certain and self._is_plain(access.tensor):
            self.settled.add(access)

    def _read_somewhere(self, access: Access) -> None:
        """An access that a run-time index moves is read."""
        tensor, whole = access.tensor, Access.whole(access.tensor)
        if self._is_shared(tensor):
            self._share(access, is_write=False, is_certain=self._is_certain)
        elif _is_ready(tensor):
            self._settle(tensor)
        elif self._registers.index(access) is None:  # any of its bytes
            written = self.written.of.get(tensor)
            self.is_suspicious |= self._is_certain and (written is None or not written.intersects(whole))
        elif (place := self._registers.place(access)) is None:
            self._ask(whole)
        elif (tensor, place.now) not in self._moving:
            self._ask(_everywhere(access, place))

    def _write_somewhere(self, access: Access) -> None:
        """An access that a run-time index moves is written; where data decide, it may be any of the tensor."""
        tensor = access.tensor
        if self._registers.index(access) is None:
            self.written.add(Access.whole(tensor))
        elif (place := self._registers.place(access)) is not None:
            self._moving.add((tensor, place.now))
            self._moved.append((place.loops, _everywhere(access, place)))
            self._close()

    def _close(self) -> None:
        """Add the bytes of all iterations of writes with loops that have ended."""
        still_open: list[tuple[frozenset[Tensor], Access]] = []
        for loops, everywhere in self._moved:
            if self._open.isdisjoint(loops):
                self.written.add(everywhere)
            else:
                still_open.append((loops, everywhere))
        self._moved = still_open

    def _settle(self, tensor: Tensor) -> None:
        """Nothing is left to ask of ``tensor``, which holds something from the beginning."""
        if self._is_plain(tensor):
            self.settled_tensors.add(tensor)

    def _is_shared(self, tensor: Tensor) -> bool:
        return self.core_count > 1 and tensor.buffer is Buffer.shared_hbm

    def _is_plain(self, tensor: Tensor) -> bool:
        """True if it is enough to know what is written of ``tensor``: it has no sums, and no other core writes it."""
        return tensor.buffer is not Buffer.psum and not self._is_shared(tensor)

    def _reads_state(self, inst: Inst, access: Access) -> bool:
        """True if ``inst`` reads ``access``, the state of an engine: it may only overwrite it."""
        form = inst.form
        found = self._state_reads.get(form)
        if found is None:
            found = self._state_reads[form] = access.tensor in Loads(inst).tensors
        return found

    def _share(self, access: Access, *, is_write: bool, is_certain: bool) -> None:
        """Record an access to a tensor that cores share."""
        tensor = access.tensor
        if not is_write and _is_ready(tensor) and tensor not in self.outputs:
            return
        shared = self.shared.get(tensor)
        if shared is None:
            shared = self.shared[tensor] = SharedAccesses(tensor, self.core_count, is_ready=_is_ready(tensor))
        if self._registers.index(access) is not None:
            shared.moves_with_loops = True
        if is_write or is_certain:
            event = self._epochs.get(tensor, 0), is_write, access if is_certain else None
            shared.events[self.core.rank][event] = None

    def _meet(self, inst: Inst) -> None:
        """Record a barrier or an exchange."""
        if (barrier := inst.as_barrier()) is not None and len(barrier.cores) > 1:
            tensor = barrier.data.tensor
            self._epochs[tensor] = self._epochs.get(tensor, 0) + 1
            self.meetings.append((tensor, barrier.cores))
        elif (exchange := inst.as_exchange()) is not None and exchange.to != self.core.rank:
            pair = {self.core.rank, exchange.to, exchange.source}
            self.meetings.append((frozenset(pair), exchange.pipe))


class _Sums:
    """The accumulation groups of a core: the time of the last write and the last read of each place in PSUM."""

    def __init__(self) -> None:
        self._time = 0
        self._times: dict[tuple[Tensor, AccessPattern], list[int]] = {}
        """Of each place that one access has written: the times of its last write and of its last read."""
        self._read_otherwise: dict[Tensor, int] = {}
        """By tensor: the last read of a place that no single access has written, or that only a run knows."""

    def read(self, access: Access) -> None:
        """``access`` is read."""
        self._time += 1
        times = None if access.dynamic is not None else self._times.get((access.tensor, pattern_of(access)))
        if times is not None:
            times[1] = self._time
        else:
            self._read_otherwise[access.tensor] = self._time

    def write(self, inst: Inst, access: Access, *, is_certain: bool) -> bool:
        """``inst`` writes ``access``. True if it may go on with a sum that has been read, or lose one that has not."""
        self._time = time = self._time + 1
        tensor = access.tensor
        if access.dynamic is not None:
            self._read_otherwise[tensor] = time  # what comes next loses no sum
            return False
        times = self._times.setdefault((tensor, pattern_of(access)), [0, 0])
        written, read = times
        times[0] = time
        if inst.effects.accumulation is None:
            times[1] = time  # what comes next here loses none, either
            return False
        read = max(read, self._read_otherwise.get(tensor, 0))
        return is_certain and (read > written if inst.accumulates else written > read)


def _everywhere(access: Access, place: MovingPlace) -> Access:
    """The bytes of ``access`` in all iterations of the loops that move it."""
    offset, shape, strides, _ = place.everywhere
    return Access(access.tensor, offset, shape, strides, access.dtype)


def _is_ready(tensor: Tensor) -> bool:
    """True if the tensor holds something before the kernel begins."""
    if tensor.role == "input" or tensor.data is not None:
        return True
    return tensor.buffer is Buffer.register and tensor.dtype is uint32  # the generators of random numbers


def _writes_all(outputs: Iterable[Tensor], cores: Sequence[_Core]) -> bool:
    """True if the cores together may write every byte of ``outputs``."""
    written = WrittenBytes()
    for tensor in outputs:
        if _is_ready(tensor) or any(tensor in core.settled_tensors for core in cores):
            continue
        for core in cores:
            if tensor in core.written.of:
                for part in core.written.of[tensor].patterns.values():
                    written.add(part)
        if not written.contains(Access.whole(tensor)):
            return False
    return True
