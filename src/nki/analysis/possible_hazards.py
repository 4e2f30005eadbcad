"""Possible hazards: a quick search that tells if a program may read what nothing has written, lose sums, or race.

The search sees only access patterns, mostly by dictionary look-ups: its cost is a small part of that of compiling. Its
answer "no" is certain. After "yes" the program is replayed (:mod:`nki.sim.hazards.replay`), which decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nki.analysis.access_pattern import AccessPattern, pattern_of
from nki.analysis.footprint import Loads
from nki.analysis.possible_races import SOMEWHERE, SharedAccesses, pieces_of
from nki.analysis.register_values import MovingPlace, RegisterValues
from nki.analysis.uses import may_keep
from nki.base.dtype import uint32
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor

Question = tuple[AccessPattern, bool]
"""A read pattern, and True if all of its bytes have to be written, False if some have to."""


_NOTHING: Mapping[Question, int] = MappingProxyType({})


class _Written:
    """The patterns of a tensor that a core writes, and the reads that equal none of them."""

    __slots__ = ("anywhere", "asked", "is_plain", "moving", "patterns")

    def __init__(self, tensor: Tensor, *, is_multicore: bool, is_output: bool) -> None:
        buffer = tensor.buffer
        self.anywhere = False
        """Any byte may be read from now on: the caller has written it, or an instruction at a run-time index."""
        self.is_plain = buffer is not Buffer.psum and not (is_multicore and buffer is Buffer.shared_hbm)
        """Its accesses need no other record: it is no PSUM tensor, and no other core writes it."""
        if buffer is not Buffer.sbuf:
            self.anywhere = _is_ready(tensor)
            self.is_plain |= self.anywhere and not is_output
        self.patterns: dict[AccessPattern, None] = {}
        self.moving: set[Any] = set()
        """The places of writes that move with loops: keys of the same iteration."""
        self.asked: Mapping[Question, int] = _NOTHING
        """Number of patterns that were written before the read."""


class _Sum:
    """The accumulation groups in one PSUM tensor: the time of the last write and the last read of each pattern."""

    __slots__ = ("read", "read_otherwise", "written")

    def __init__(self) -> None:
        self.written: dict[AccessPattern, int] = {}
        self.read: dict[AccessPattern, int] = {}
        self.read_otherwise = 0
        """Time of the last read of a pattern that was not written, or is known only at run time."""


class _Search:
    """The search in one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.is_suspicious = False
        self.coverage: dict[Any, bool] = {}
        """Answers of :meth:`_answers`; equal tiles of unrolled loops have equal questions."""
        self.shared: dict[Tensor, SharedAccesses] = {}
        self.used: dict[Any, bool] = {}
        """Answers of :meth:`uses`, which depend on the signature of the instruction alone."""
        self.meetings: list[list[Any]] = []
        self.meets_in_loop = False
        self.is_multicore = len(program.cores) > 1
        self.outputs = {
            tensor: _Written(tensor, is_multicore=self.is_multicore, is_output=True) for tensor in program.outputs
        }

    def run(self) -> bool:
        """True if the program may have a hazard."""
        for core in self.program.cores:
            search = _CoreSearch(self, core)
            search.body(core.body, certain=True)
            search.finish()
            if self.is_suspicious:
                return True
        for tensor, written in self.outputs.items():
            if written.anywhere:
                continue
            written.asked = {(pattern_of(Access.whole(tensor)), True): len(written.patterns)}
            if not self.answers(tensor, written):
                return True
        return self._may_race() or self._may_deadlock()

    def answers(self, tensor: Tensor, written: _Written) -> bool:
        """True if every read in ``written.asked`` finds what it needs."""
        if not written.asked:
            return True
        key = (tensor.shape, tensor.dtype.itemsize, *written.patterns, None, *written.asked.items())
        answer = self.coverage.get(key)
        if answer is None:
            answer = self.coverage[key] = _covers(tensor, written)
        return answer

    def uses(self, inst: Inst, access: Access) -> bool:
        """True if ``inst`` reads ``access``, the state of an engine: it may only overwrite it."""
        form = inst.form()
        used = self.used.get(form)
        if used is None:
            used = self.used[form] = access.tensor in Loads(inst).tensors
        return used

    def _may_race(self) -> bool:
        """True if a core may read bytes that the other core writes between the same two barriers, or no core before."""
        return any(shared.may_race(in_order=not self.meets_in_loop) for shared in self.shared.values())

    def _may_deadlock(self) -> bool:
        return any(meetings != self.meetings[0] for meetings in self.meetings)


class _CoreSearch:
    """The search in the program of one core, in program order."""

    def __init__(self, search: _Search, core: CoreProgram) -> None:
        self.search = search
        self.core = core
        self.is_multicore = search.is_multicore
        self.defined: set[Tensor] = set()
        """Tensors with no further questions: all of an SBUF tile has been written, or the caller has written it."""
        self.readable: set[int] = set()
        """Ids of the values whose reads need no question: accesses stay alive as long as their instructions."""
        self.recorded: set[int] = set()
        """Ids of the accesses whose writes are recorded."""
        self.tensors: dict[Tensor, _Written] = {}
        self.sums: dict[Tensor, _Sum] = {}
        self.epochs: dict[Tensor, int] = {}
        self.meetings: list[Any] = []
        self.registers = RegisterValues()
        self.open: set[Tensor] = set()
        """The registers of the loops around the statement."""
        self.moved: list[tuple[_Written, MovingPlace]] = []
        """Writes that move with loops of which some are still open."""
        self.time = 0
        self.is_again = False

    def body(self, statements: Sequence[Statement], *, certain: bool) -> None:
        """Visit statements; ``certain``: they run whatever the data are."""
        defined, readable, recorded, tensors = self.defined, self.readable, self.recorded, self.tensors
        for statement in statements:
            if not isinstance(statement, Inst):
                self.loop(statement, certain)
                continue
            values = statement.__dict__
            for name in statement.read_names:
                value = values[name]
                if value.__class__ is Access and value.dynamic is None:
                    tensor = value.tensor
                    if tensor in defined or id(value) in readable:
                        continue
                    written = tensors.get(tensor)
                    if written is not None and written.is_plain:
                        if written.anywhere:
                            defined.add(tensor)
                            continue
                        pattern = (value.offset, value.shape, value.strides, value.dtype.itemsize)  # pattern_of
                        if pattern in written.patterns:
                            readable.add(id(value))
                            continue
                elif id(value) in readable:
                    continue
                self.read_operand(statement, value, certain)
            for name in statement.write_names:
                value = values[name]
                if value.__class__ is Access and value.dynamic is None:
                    tensor = value.tensor
                    if tensor in defined or id(value) in recorded:
                        continue
                    if tensor.buffer is Buffer.psum:
                        self.write_psum(statement, value, certain)
                        continue
                    if tensor.buffer is Buffer.sbuf and value.is_whole():
                        defined.add(tensor)
                        continue
                    written = tensors.get(tensor) or self.state(tensor)
                    if written.is_plain:
                        pattern = (value.offset, value.shape, value.strides, value.dtype.itemsize)
                        written.patterns[pattern] = None
                        recorded.add(id(value))
                        readable.add(id(value))
                        continue
                self.write_operand(statement, value, certain)
            effects = statement.effects
            if effects.external:
                self.meet(statement)
            elif effects.scalar_registers:
                self.registers.execute(statement)

    def loop(self, loop: Loop, certain: bool) -> None:
        for bound in loop.reads():
            self.read(bound, certain, whole=True)
        rounds, is_known = self.registers.rounds(loop), self.registers.is_known(loop)
        count = len(rounds) if rounds is not None else None
        self.registers.enter(loop)
        if isinstance(loop, For):
            self.write(loop.register)
            self.open.add(loop.register.tensor)
        before, self.meetings = self.meetings, []
        runs = certain and (is_known if count is None else count > 0)
        self.body(loop.body, certain=runs)
        meetings = self.meetings
        if (count is None or count > 1) and not self.is_again:
            self.is_again = True  # in the second iteration, only the first one of inner loops
            self.body(loop.body, certain=runs)
            self.is_again = False
        self.meetings = before
        if meetings and count != 0:
            self.search.meets_in_loop = True
            # Loops whose iterations are other functions of loops may differ on the cores; so each is one of its own.
            self.meetings.append((count if count is not None or not is_known else object(), meetings))
        if isinstance(loop, For):
            self.open.discard(loop.register.tensor)
            self.close()

    def close(self) -> None:
        """Add the bytes of all iterations of writes whose loops have ended."""
        still_open: list[tuple[_Written, MovingPlace]] = []
        for written, place in self.moved:
            if self.open.isdisjoint(place.loops):
                written.patterns[place.everywhere] = None
            else:
                still_open.append((written, place))
        self.moved = still_open

    def read_operand(self, inst: Inst, value: Any, certain: bool) -> None:
        if isinstance(value, tuple):
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                self.read_operand(inst, each, certain)
        elif not isinstance(value, Access):
            self.readable.add(id(value))
        elif may_keep(inst, value):
            return
        elif inst.effects.implicit is not None and value is inst.__dict__[inst.effects.implicit.name]:
            if self.search.uses(inst, value):
                self.read(value, certain, whole=True)
        elif value.tensor.buffer is Buffer.psum:
            self.read_psum(inst, value, certain)
        elif value.dynamic is not None:
            self.read_dynamic(inst, value, certain)
        elif self.is_multicore and value.tensor.buffer is Buffer.shared_hbm:
            self.share(value, is_write=False, certain=certain)
        else:
            self.read(value, certain, whole=True)

    def write_operand(self, inst: Inst, value: Any, certain: bool) -> None:
        if isinstance(value, tuple):
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                self.write_operand(inst, each, certain)
        elif isinstance(value, Access):
            tensor = value.tensor
            if value.dynamic is not None:
                self.read(value.dynamic.source, certain, whole=True)
                self.write_dynamic(inst, value)
            if tensor.buffer is Buffer.psum:
                self.write_psum(inst, value, certain)
                return
            if self.is_multicore and tensor.buffer is Buffer.shared_hbm:
                self.share(value, is_write=True, certain=certain and not inst.may_leave_unwritten())
            if value.dynamic is None:
                self.write(value)

    def read(self, access: Access, certain: bool, *, whole: bool) -> None:
        """Ask if ``access`` is written, ``whole``: all of it; later, unless the answer is known."""
        if access.tensor in self.defined:
            return
        if self.ask(self.state(access.tensor), pattern_of(access), certain, whole=whole):
            self.readable.add(id(access))

    def ask(self, written: _Written, pattern: AccessPattern, certain: bool, *, whole: bool) -> bool:
        """Ask if ``pattern`` is written; False if a later access has to ask again."""
        if not written.anywhere and pattern not in written.patterns:
            if not certain:
                return False
            if written.asked is _NOTHING:  # most tensors have no questions, so no dictionary of their own
                written.asked = {}
            assert isinstance(written.asked, dict)
            written.asked.setdefault((pattern, whole), len(written.patterns))
        return True

    def read_dynamic(self, inst: Inst, access: Access, certain: bool) -> None:
        assert access.dynamic is not None
        self.read(access.dynamic.source, certain, whole=True)
        if inst.skips_out_of_bounds:
            return
        if self.is_multicore and access.tensor.buffer is Buffer.shared_hbm:
            self.share(access, is_write=False, certain=certain)
        elif self.registers.index(access) is None:
            self.read(Access.whole(access.tensor), certain, whole=False)
        elif access.tensor not in self.defined:
            place, written = self.registers.place(access), self.state(access.tensor)
            if place is None:
                self.read(Access.whole(access.tensor), certain, whole=True)
            elif place.now not in written.moving:
                self.ask(written, place.everywhere, certain, whole=True)

    def write_dynamic(self, inst: Inst, access: Access) -> None:
        written = self.state(access.tensor)
        if self.registers.index(access) is None:
            written.anywhere = True
            return
        if inst.accumulates:
            self.search.is_suspicious = True
        place = self.registers.place(access)
        if place is not None:
            written.moving.add(place.now)
            self.moved.append((written, place))
            if not self.open:
                self.close()

    def write(self, access: Access) -> None:
        written = self.state(access.tensor)
        written.patterns[pattern_of(access)] = None
        if written.is_plain:
            self.recorded.add(id(access))
            self.readable.add(id(access))

    def read_psum(self, inst: Inst, access: Access, certain: bool) -> None:
        """Record a read of PSUM."""
        if access.dynamic is not None:
            self.read_dynamic(inst, access, certain)
        else:
            self.read(access, certain, whole=True)
            self.readable.discard(id(access))
        sums, pattern = self.sum_of(access.tensor), pattern_of(access)
        self.time += 1
        if pattern in sums.written and access.dynamic is None:
            sums.read[pattern] = self.time
        else:
            sums.read_otherwise = self.time

    def write_psum(self, inst: Inst, access: Access, certain: bool) -> None:
        """Record a write to PSUM.

        A sum that goes on needs a start, and no reader before; a new sum is not to overwrite one of a matmul that
        nothing has read.
        """
        tensor = access.tensor
        sums = self.sums.get(tensor) or self.sum_of(tensor)
        pattern = (access.offset, access.shape, access.strides, access.dtype.itemsize)  # pattern_of
        self.time = time = self.time + 1
        if access.dynamic is not None:
            sums.read_otherwise = time  # what comes next overwrites no sum that nothing has read
            return
        written = self.tensors.get(tensor) or self.state(tensor)
        if inst.effects.accumulation is None:
            sums.read[pattern] = sums.written[pattern] = time  # the same holds of this pattern
        else:
            if certain:
                last, read = sums.written.get(pattern, 0), sums.read.get(pattern, 0)
                if read < sums.read_otherwise:
                    read = sums.read_otherwise
                adds = inst.accumulates
                if adds and not (written.anywhere or pattern in written.patterns):
                    self.read(access, certain, whole=True)
                    self.readable.discard(id(access))
                if (read > last) if adds else (last > read):
                    self.search.is_suspicious = True
            sums.written[pattern] = time
        written.patterns[pattern] = None

    def sum_of(self, tensor: Tensor) -> _Sum:
        sums = self.sums.get(tensor)
        if sums is None:
            sums = self.sums[tensor] = _Sum()
        return sums

    def share(self, access: Access, *, is_write: bool, certain: bool) -> None:
        """Record an access to shared memory."""
        tensor = access.tensor
        if not is_write and _is_ready(tensor) and tensor not in self.search.outputs:
            self.readable.add(id(access))
            return
        shared = self.search.shared.get(tensor)
        if shared is None:
            shared = self.search.shared[tensor] = SharedAccesses(
                tensor, len(self.search.program.cores), is_ready=_is_ready(tensor)
            )
        if access.dynamic is not None and self.registers.index(access) is not None:
            shared.moves_with_loops = True
        if not is_write and not certain:
            return
        pattern = None if not certain else pattern_of(access) if access.dynamic is None else SOMEWHERE
        shared.events[self.core.rank][self.epochs.get(tensor, 0), is_write, pattern] = None

    def meet(self, inst: Inst) -> None:
        """Record a barrier or an exchange."""
        if (barrier := inst.as_barrier()) is not None and len(barrier.cores) > 1:
            tensor = barrier.data.tensor
            self.epochs[tensor] = self.epochs.get(tensor, 0) + 1
            self.meetings.append((tensor, barrier.cores))
        elif (exchange := inst.as_exchange()) is not None and exchange.to != self.core.rank:
            pair = {self.core.rank, exchange.to, exchange.source}
            self.meetings.append((frozenset(pair), exchange.pipe))

    def state(self, tensor: Tensor) -> _Written:
        written = self.tensors.get(tensor)
        if written is None:
            written = self.search.outputs.get(tensor)
            self.tensors[tensor] = written = written or _Written(
                tensor, is_multicore=self.is_multicore, is_output=False
            )
        return written

    def finish(self) -> None:
        """Answer all questions about tensors of this core alone."""
        search = self.search
        search.meetings.append(self.meetings)
        for tensor, written in self.tensors.items():
            if written.asked and not search.answers(tensor, written):
                search.is_suspicious = True
                return


def _is_ready(tensor: Tensor) -> bool:
    """True if the tensor holds something before the kernel begins."""
    if tensor.role == "input" or tensor.data is not None:
        return True
    return tensor.buffer is Buffer.register and tensor.dtype is uint32  # the generators of random numbers


def _covers(tensor: Tensor, written: _Written) -> bool:
    """True if each read in ``written.asked`` shares a byte with the writes before it, or has no other bytes."""
    patterns = list(written.patterns)
    if not patterns:
        return False
    questions = sorted(written.asked.items(), key=_position)
    pieces = pieces_of(tensor, [*patterns, *(pattern for (pattern, _), _ in questions)])
    defined, count = set[int](), 0
    for ((_, whole), before), wanted in zip(questions, pieces[len(patterns) :], strict=True):
        defined.update(*pieces[count:before])
        count = max(count, before)
        if not (defined.issuperset(wanted) if whole else not defined.isdisjoint(wanted)):
            return False
    return True


def _position(question: tuple[Question, int]) -> int:
    return question[1]


def may_have_hazards(program: Program) -> bool:
    """True if a hazard of ``program`` may be certain; False if none is that does not depend on data."""
    return _Search(program).run()
