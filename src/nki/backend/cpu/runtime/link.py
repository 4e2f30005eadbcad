"""Link a program: for each core a dispatch table that native code walks, with one entry per instruction.

An entry is a routine and the index of its first argument. A loop is an entry, too: its routine walks the entries of
its body; those stand behind the entries of the statements around it. Every operand is an address that :class:`Storage`
gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki.analysis.definite_initialization import maybe_uninitialized
from nki.backend.cpu.kernel_ir.nodes import GRANULE
from nki.backend.cpu.native import library
from nki.backend.cpu.native.frame import ARGS, aligned, barrier_arguments, lines_bytes
from nki.backend.cpu.runtime.native_collectives import CollectiveCall, collective_routine
from nki.backend.cpu.runtime.native_gather_scatter import GatherComputeScatter
from nki.backend.cpu.runtime.regions import Region, rounds_of
from nki.backend.cpu.runtime.routines import (
    Key,
    Progress,
    Routine,
    RoutineNumbers,
    Turns,
    compile_routines,
    found_routines,
    is_indirect,
)
from nki.backend.cpu.runtime.storage import Storage, native_bytes
from nki.ir.effects import Barrier
from nki.ir.floats.runtime_float import Formula, RuntimeFloat, show
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, While, touched, with_numbers
from nki.ir.program import CoreProgram, Program
from nki.ir.rng_state import initial
from nki.ir.types import Access, Tensor
from nki.transforms.rewriter import never_written


@dataclass(slots=True)
class LinkedCore:
    """The dispatch table of one core; it walks the first ``entries``; their loops walk the entries behind them.

    ``body`` is what runs; entries that fill memory stand before and between its entries. The first ``prologue`` entries
    fill memory that cores share, and are done before any core begins. ``traps`` are the instructions that may trap: by
    a run-time index out of bounds, or because cores do not meet; their ids count from 1. ``loops`` are the loops, which
    launches that are interrupted count from 1, too.
    """

    table: NDArray[np.int64]
    args: NDArray[np.int64]
    prologue: int
    entries: int
    arena: int
    scratch: int
    body: list[Statement]
    traps: list[Inst]
    loops: list[Loop]
    shared_nanoseconds: float
    """The estimated run time of the parallel regions."""
    calls: list[CollectiveCall]
    """The functions that entries call, which stay in memory as long as these are held."""
    origins: list[tuple[int, Statement]]
    """The statement of each entry: the arguments of its entries begin at that index or behind it."""


@dataclass(slots=True)
class LinkedProgram:
    """The tables of all cores, and their shared memory: its bytes, and the offset in it of each shared tensor.

    It begins with the lines of barriers; frames have slots for the shared tensors and for the lines, in this order,
    behind inputs, outputs and constants.
    """

    cores: list[LinkedCore]
    shared: list[int]
    shared_bytes: int
    code: list[Routine]
    """The compiled routines that the tables call, which stay in memory as long as these are held."""
    floats: tuple[Formula, ...]
    """The floats of a launch, which every frame has behind all other slots."""


_Steps = tuple[GatherComputeScatter, list[int]]
"""An instruction on indirect views, and the number of the routine of each of its parts."""


@dataclass(slots=True)
class Plan:
    """The routines that the tables of a program call.

    ``numbers``: for each core, by dense number of an instruction, the number of its routine, or its steps.
    """

    numbers: list[list[int | _Steps | None]]
    instructions: dict[Key, Inst]
    """The first instruction of each routine, in the order of the numbers."""
    found: dict[Key, Routine]
    """The routines that need no compilation."""
    floats: tuple[Formula, ...]
    """The floats of a launch, in the order of their first use."""

    @property
    def missing(self) -> int:
        """The number of routines that are to be compiled."""
        return len(self.instructions) - len(self.found)


def plan(program: Program) -> Plan:
    """The routines that ``program`` needs; those in memory and in the user's cache are loaded, none is compiled."""
    needed = RoutineNumbers()
    numbers = [[_plan(inst, needed) for inst in core.numbered] for core in program.cores]
    floats: dict[str, Formula] = {}
    for inst in program.instructions() if program.signature.floats else ():
        for number in inst.immediates():
            if type(number) is RuntimeFloat:
                floats.setdefault(show(number.formula), number.formula)
    return Plan(numbers, needed.instructions, found_routines(needed.instructions), tuple(floats.values()))


def link(
    program: Program, planned: Plan, progress: Progress | None = None, turns: Turns | None = None
) -> LinkedProgram:
    """Link ``program`` as ``planned``, and compile its routines; ``turns`` as of
    :func:`~nki.backend.cpu.runtime.routines.compile_routines`.
    """
    several = len(program.cores) > 1
    shared = program.shared() if several else []
    compiled = compile_routines(planned.instructions, planned.found, progress, turns)
    fills = [maybe_uninitialized(core, program.signature) for core in program.cores]
    common = {*program.outputs, *shared} if several else set[Tensor]()
    whole = sorted(common.intersection(*fills), key=lambda tensor: tensor.name)
    cores: list[LinkedCore] = []
    floats = {show(formula): formula for formula in planned.floats}
    for core, core_fills, numbers in zip(program.cores, fills, planned.numbers, strict=True):
        storage = Storage(core, program.signature, shared, core_fills)
        fixed = never_written(core, program.signature)
        table = _TableBuilder(len(cores), len(program.cores), storage, compiled, numbers, floats, fixed)
        cores.append(table.build(core, program.outputs, [] if cores else whole, core_fills - common))
    offsets: list[int] = []
    size = lines_bytes(len(cores)) if several else 0
    for tensor in shared:
        offsets.append(size)
        size += aligned(tensor.nbytes)
    return LinkedProgram(cores, offsets, size, compiled, planned.floats)


def _plan(inst: Inst, needed: RoutineNumbers) -> int | _Steps | None:
    """The number of the routine of ``inst``, or its steps; None: other ranks take part, and it has no code."""
    if inst.effects.collective is not None:
        return None
    if not is_indirect(inst):
        return needed.number(inst)
    steps = GatherComputeScatter(inst)
    return steps, [needed.number(part) for part in steps.parts]


class _TableBuilder:
    """Builds the dispatch table of one core and its arguments."""

    def __init__(
        self,
        rank: int,
        cores: int,
        storage: Storage,
        routines: Sequence[Routine],
        plan: Sequence[int | _Steps | None],
        floats: dict[str, Formula],
        never_written: set[Tensor],
    ) -> None:
        self.rank, self.cores = rank, cores
        self.storage = storage
        self.never_written = never_written
        self.region = Region(storage, never_written)
        self.floats = floats
        """The floats of a launch by their text, in the order of their slots."""
        self.routines = routines
        self.plan = plan
        """By dense number of an instruction, the number of its routine, or its steps."""
        self.fills: set[Tensor] = set()
        """Tensors that are still to be filled with poison before their first use."""
        self.entries: list[int] = []
        self.args: list[int] = []
        self.immediates: list[tuple[int, float]] = []
        """The numbers among the arguments, which are bits of a float each, and where they stand."""
        self.traps: list[Inst] = []
        self.loops: list[Loop] = []
        self.calls: list[CollectiveCall] = []
        self.origins: list[tuple[int, Statement]] = []
        self.scratch = max((routine.scratch for routine in routines), default=0)
        self.pending: list[tuple[int, Loop, int, int]] = []
        """Loops with bodies that have no entries yet: the dense number of the first instruction, the loop, the index of
        the arguments that tell the entries, and the rounds of all loops around.
        """
        self.rounds = 1
        """Rounds of the loops around the entries that are added, where they are known."""
        self.apart: list[tuple[int, list[int]]] = []
        """Entries of regions, which stand behind all others, each with the index of the argument that tells where."""
        self.shared_nanoseconds = 0.0

    def build(
        self, core: CoreProgram, outputs: Sequence[Tensor], prologue: Sequence[Tensor], fills: set[Tensor]
    ) -> LinkedCore:
        """The table: entries that fill ``prologue``, then the statements, then the bodies of loops.

        ``fills`` are filled before their first use, outputs at the beginning.
        """
        self.fills = {*fills, *prologue}
        for tensor in prologue:
            self.add_fill(tensor)
        done = len(self)
        for tensor in outputs:
            self.add_fill(tensor)
        self.add_statements(core.body, 0)
        entries = len(self)
        while self.pending:
            start, loop, at, outer = self.pending.pop(0)
            self.rounds = outer * rounds_of(loop)
            first = len(self)
            self.add_statements(loop.body, start)
            self.args[at : at + 2] = [first, len(self) - first]
        for at, region_entries in self.apart:
            self.args[at] = len(self)
            self.entries += region_entries
        args = np.array(self.args, np.int64)
        if self.immediates:
            positions, numbers = zip(*self.immediates, strict=True)
            args[list(positions)] = np.array(numbers, np.float64).view(np.int64)
        return LinkedCore(
            table=np.array(self.entries, np.int64).reshape(-1, 2),
            args=args,
            prologue=done,
            entries=entries,
            arena=self.storage.arena_bytes,
            scratch=self.scratch,
            body=list(core.body),
            traps=self.traps,
            loops=self.loops,
            calls=self.calls,
            shared_nanoseconds=self.shared_nanoseconds,
            origins=self.origins,
        )

    def __len__(self) -> int:
        """The number of entries, without regions."""
        return len(self.entries) // 2

    def add_statements(self, body: Sequence[Statement], start: int) -> None:
        """Add the entries of ``body``; its first instruction has the dense number ``start``."""
        for number, statement in with_numbers(body, start):
            if self.fills:  # a loop touches what its body touches
                for access in touched(statement):
                    self.add_fill(access.tensor)
            self.origins.append((len(self.args), statement))
            if not isinstance(statement, Inst):
                self.add_loop(number, statement)
            elif self.cores > 1 and (meeting := statement.as_barrier()) is not None:
                self.add_barrier(statement, meeting)
            elif isinstance(plan := self.plan[number], int):
                self.add_instruction(statement, self.routines[plan])
            elif plan is None:
                self.add_call(statement)
            else:
                self.add_steps(*plan)
        self.end_region()

    def add_fill(self, tensor: Tensor) -> None:
        """Fill ``tensor`` now if it needs that and was not filled before."""
        if tensor not in self.fills:
            return
        self.fills.discard(tensor)
        base = self.storage.bases[tensor]
        contents = initial(tensor)
        if contents is not None:
            literal = 8 * len(self.args)
            self.args += contents.reshape(-1).view(np.int64).tolist()
            self.add_entry(library.address("copy"), [*base, ARGS, literal, tensor.nbytes])
            return
        pattern = tensor.dtype.poison * (8 // tensor.dtype.itemsize)
        word = int.from_bytes(pattern, "little", signed=True)
        self.add_entry(library.address("fill"), [*base, native_bytes(tensor), word])

    def add_entry(self, routine: int, args: Sequence[int]) -> None:
        """Add an entry with arguments of its own, which ends the open region."""
        self.end_region()
        self.entries += [routine, len(self.args)]
        self.args += args

    def end_region(self) -> None:
        """Add the entry of the open region if it has one, or its entries themselves where they are few and short."""
        region = self.region
        if region.is_worthwhile:
            self.shared_nanoseconds += self.rounds * region.nanoseconds
            self.apart.append((len(self.args), region.entries))
            self.entries += [library.address("region"), len(self.args)]
            self.args += [0, len(region.entries) // 2, region.partitions, region.block, GRANULE]
        else:
            self.entries += region.entries
        if region.entries:
            self.region = Region(self.storage, self.never_written)

    def add_instruction(self, inst: Inst, routine: Routine, in_region: bool = True) -> None:
        """Add the entry of an instruction; ``in_region`` is False if it uses scratch memory that others use, too."""
        operands, args = inst.accesses(), self.args
        places = self.storage.arguments(*operands)
        if not in_region or not routine.partitions:
            self.end_region()  # which has arguments, too
            self.entries += (routine.address, len(args))
        elif not self.region.add(inst, routine, operands, places, len(args)):
            self.end_region()
            self.region.add(inst, routine, operands, places, len(args))
        args += places
        if inst.form.has_runtime_index:
            for access in operands:
                if access.dynamic is not None:
                    args += [*self.storage.arguments(access.dynamic.source), largest_index(access)]
            args.append(self.new_trap(inst))
        if inst.immediate_names:
            for number in inst.immediates():
                if type(number) is RuntimeFloat:
                    args.append(self.slot_of(number))
                else:
                    self.immediates.append((len(args), number))
                    args.append(0)

    def new_trap(self, inst: Inst) -> int:
        """The id of the trap of an instruction."""
        self.traps.append(inst)
        return len(self.traps)

    def slot_of(self, number: RuntimeFloat) -> int:
        """The slot of the frame in which launches pass an immediate, behind the one for the lines of several cores."""
        text = show(number.formula)
        return self.storage.free_slot + (self.cores > 1) + list(self.floats).index(text)

    def add_steps(self, steps: GatherComputeScatter, numbers: Sequence[int]) -> None:
        """Add the entries of an instruction on indirect views: its parts have routines of these numbers."""
        routines = [self.routines[number] for number in numbers]
        scratch = max(routine.scratch for routine in routines)
        before, after, scratch = steps.entries(scratch, self.storage, self.new_trap(steps.inst))
        self.scratch = max(self.scratch, scratch)
        for entry in before:
            self.add_entry(*entry)
        for part, routine in zip(steps.parts, routines, strict=True):
            self.add_instruction(part, routine, in_region=False)
        for entry in after:
            self.add_entry(*entry)

    def add_call(self, inst: Inst) -> None:
        """Add an entry that calls Python, where this rank meets others."""
        self.calls.append(CollectiveCall(inst, self.storage.bases))
        self.add_entry(collective_routine(), [id(self.calls[-1])])

    def add_barrier(self, inst: Inst, meeting: Barrier) -> None:
        """Add an entry at which this core waits for the others that take part."""
        trap = self.new_trap(inst.origin or inst)
        peers = [peer for peer in meeting.cores if peer != self.rank]
        tag, lines = inst.user_name or meeting.data.name, self.storage.free_slot
        self.add_entry(library.address("barrier"), barrier_arguments(lines, tag, trap, self.rank, peers, self.cores))

    def add_loop(self, number: int, loop: Loop) -> None:
        """Add the entry of a loop, and note that its body, which begins with the instruction of that number, has none
        yet.
        """
        self.end_region()
        args = self.storage.arguments(loop.register)
        if not isinstance(loop, While):
            for bound in (loop.start, loop.stop):
                if isinstance(bound, Access):
                    args += self.storage.arguments(bound)
                else:
                    args += [ARGS, 8 * len(self.args)]
                    self.args.append(bound)
            args.append(loop.step)
        self.pending.append((number, loop, len(self.args) + len(args), self.rounds))
        self.loops.append(loop)
        routine = library.address("while" if isinstance(loop, While) else "for")
        self.add_entry(routine, [*args, 0, 0, len(self.loops)])
