"""Link a program: for each core a table that native code walks, with one row per instruction.

A row is a routine and the index of its first argument. A loop is a row, too, whose routine walks the rows of its body;
those stand behind the rows of the statements around it. Every operand is an address that :class:`Storage` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nki.analysis.definite_initialization import maybe_uninitialized
from nki.backend.cpu.kernel_ir.nodes import GRANULE
from nki.backend.cpu.native import barrier, library
from nki.backend.cpu.native.frame import ARGS, aligned
from nki.backend.cpu.runtime import region_builder, routines
from nki.backend.cpu.runtime.gather_scatter import Row, StepRows
from nki.backend.cpu.runtime.region_builder import RegionBuilder, rounds_of
from nki.backend.cpu.runtime.routines import Key, Progress, Routine, compile_routines, routine_key
from nki.backend.cpu.runtime.storage import Storage, native_bytes
from nki.base.version import version
from nki.ir.effects import Barrier
from nki.ir.floats.runtime_float import Formula, RuntimeFloat, show
from nki.ir.indirection.gather_compute_scatter import GatherComputeScatter
from nki.ir.indirection.runtime_index import largest_index
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, While, touched, with_numbers
from nki.ir.program import CoreProgram, Program
from nki.ir.rng_state import initial
from nki.ir.types import Access, Tensor


@dataclass(slots=True)
class LinkedCore:
    """The table of one core; it walks the first ``rows``, whose loops walk the rows behind them.

    ``body`` is what runs; rows that fill memory stand before and between its rows. The first ``prologue`` rows fill
    memory that cores share, and are done before any core begins. ``sites`` are the instructions that may trap: by a
    run-time index out of bounds, or because cores do not meet; traps count them from 1.
    ``loops`` are the loops, which launches that are interrupted count from 1, too.
    """

    table: NDArray[np.int64]
    args: NDArray[np.int64]
    prologue: int
    rows: int
    arena: int
    scratch: int
    routines: int
    body: list[Statement]
    sites: list[Inst]
    loops: list[Loop]
    shared_nanoseconds: float
    """The estimated run time of the parallel regions."""
    origins: list[tuple[int, Statement]]
    """The statement of each row: its rows' arguments begin at that index or behind it."""


@dataclass(slots=True)
class LinkedProgram:
    """The tables of all cores, and their shared memory: its bytes, and the offset in it of each shared tensor.

    It begins with the lines of barriers; frames have slots for the shared tensors and for the lines, in this order,
    behind those of inputs, outputs and constants.
    """

    cores: list[LinkedCore]
    shared: list[int]
    shared_bytes: int
    code: list[Routine]
    """The compiled routines that the tables call, which stay in memory as long as these are held."""
    floats: tuple[Formula, ...]
    """The floats of a launch, which every frame has behind all other slots."""


def link(program: Program, progress: Progress | None = None) -> LinkedProgram:
    """Link ``program``, and compile the routines that no kernel of this process has needed before."""
    several = len(program.cores) > 1
    shared = program.shared() if several else []
    needed = _Needed()
    numbers = [list(map(needed.numbers, core.numbered)) for core in program.cores]
    unique = needed.unique
    compiled = compile_routines({key: inst for key, (_, inst) in unique.items()}, progress, library.run)
    scratch = max((routine.scratch for routine in compiled), default=0)
    fills = [maybe_uninitialized(core, program.signature) for core in program.cores]
    common = {*program.outputs, *shared} if several else set[Tensor]()
    whole = common.intersection(*fills)
    cores: list[LinkedCore] = []
    floats: dict[str, Formula] = {}
    for rank, core in enumerate(program.cores):
        storage = Storage(core, program.signature, shared, fills[rank])
        peers = _Peers(rank, len(program.cores), storage.free_slot)
        used = (compiled[parts[0]] if len(parts) == 1 else None for parts in numbers[rank])
        is_long = region_builder.has_work(core.body, used)
        regions = RegionBuilder(core, program.signature, storage) if is_long else None
        table = _Table(storage, compiled, numbers[rank], fills[rank] - common, peers, floats, regions)
        table.add_prologue(sorted(whole, key=lambda t: t.name) if rank == 0 else [])
        table.add_core(core, program.outputs)
        cores.append(table.finish(core, max(scratch, table.scratch), len(unique)))
    offsets: list[int] = []
    size = barrier.lines_bytes(len(cores))
    for tensor in shared:
        offsets.append(size)
        size += aligned(tensor.nbytes)
    return LinkedProgram(cores, offsets, size, compiled, tuple(floats.values()))


class _Needed:
    """The routines that a program needs, each once."""

    def __init__(self) -> None:
        self.unique: dict[Key, tuple[int, Inst]] = {}
        """Number and first instruction of each routine."""
        self._by_form: dict[object, list[int]] = {}
        """Numbers by the form of an instruction, and by :func:`_sharing` if operands share memory."""

    def numbers(self, inst: Inst) -> list[int]:
        """The number of the routine of each part of ``inst``; the list is not to be changed."""
        if inst.expansion is not None:
            return [self._number(part) for part in inst.expansion.parts]
        form, sharing = inst.form(), _sharing(inst)
        key = (form, sharing) if sharing else form
        numbers = self._by_form.get(key)
        if numbers is None:
            numbers = self._by_form[key] = [self._number(inst)]
        return numbers

    def _number(self, part: Inst) -> int:
        return self.unique.setdefault(routine_key(part), (len(self.unique), part))[0]


def _sharing(inst: Inst) -> tuple[int, ...]:
    """Everything but the signature that :func:`~nki.backend.cpu.kernel_ir.accesses.aliases` depends on.

    The first operand on the tensor of each operand, and how many elements this begins behind that one; nothing where no
    two operands are on one tensor.
    """
    accesses = inst.accesses()
    if len(accesses) == 2:
        if accesses[0].tensor is not accesses[1].tensor:
            return ()
    elif len(accesses) == 3:
        one, two, three = accesses[0].tensor, accesses[1].tensor, accesses[2].tensor
        if one is not two and one is not three and two is not three:
            return ()
    elif len({access.tensor for access in accesses}) == len(accesses):
        return ()
    first: dict[Tensor, tuple[int, int]] = {}
    sharing: list[int] = []
    for number, access in enumerate(accesses):
        other, offset = first.setdefault(access.tensor, (number, access.offset))
        sharing += other, access.offset - offset
    return tuple(sharing)


def _parts(core: CoreProgram) -> list[Inst]:
    """The instructions of ``core`` that need routines."""
    parts: list[Inst] = []
    for inst in core.instructions():
        parts.extend((inst,) if inst.expansion is None else inst.expansion.parts)
    return parts


@dataclass(frozen=True, slots=True)
class _Peers:
    """The core whose table is built, the number of cores, and the slot of the lines of barriers, the first free one."""

    rank: int
    cores: int
    lines: int


class _Table:
    """Builds the rows of one core and their arguments."""

    def __init__(
        self,
        storage: Storage,
        routines: Sequence[Routine],
        numbers: Sequence[Sequence[int]],
        fills: set[Tensor],
        peers: _Peers,
        floats: dict[str, Formula],
        regions: RegionBuilder | None,
    ) -> None:
        self.storage = storage
        self.regions = regions
        self.floats = floats
        """The floats of a launch by their text, in the order of their slots; it grows."""
        self.first_float = peers.lines + (peers.cores > 1)
        self.routines = routines
        self.numbers = numbers
        """By dense number of an instruction, the number of the routine of each part."""
        self.fills = fills
        """Tensors that are still to be filled with poison before their first use."""
        self.peers = peers
        self.rows: list[int] = []
        self.args: list[int] = []
        self.immediates: list[tuple[int, float]] = []
        """The numbers among the arguments, which are bits of a float each, and where they stand."""
        self.sites: list[Inst] = []
        self.loops: list[Loop] = []
        self.origins: list[tuple[int, Statement]] = []
        self.prologue = 0
        self.main_rows = 0
        self.scratch = 0
        self.pending: list[tuple[int, Loop, int, int]] = []
        """Loops whose bodies have no rows yet: the dense number of the first instruction, the loop, the index of the
        arguments that tell the rows, and the rounds of all loops around.
        """
        self.rounds = 1
        """Rounds of the loops around the rows that are added, as far as they are known."""
        self.apart: list[tuple[int, list[int]]] = []
        """The rows of regions, which stand behind all others, each with the index of the argument that tells where."""
        self.shared_nanoseconds = 0.0

    def finish(self, core: CoreProgram, scratch: int, routines: int) -> LinkedCore:
        """The finished table."""
        for at, region_rows in self.apart:
            self.args[at] = len(self.rows) // 2
            self.rows += region_rows
        table = np.array(self.rows, np.int64).reshape(-1, 2)
        args = np.array(self.args, np.int64)
        if self.immediates:
            positions, numbers = zip(*self.immediates, strict=True)
            args[list(positions)] = np.array(numbers, np.float64).view(np.int64)
        arena, body = self.storage.arena_bytes, list(core.body)
        rows, prologue = self.main_rows, self.prologue
        sites, loops, origins, shared = self.sites, self.loops, self.origins, self.shared_nanoseconds
        return LinkedCore(table, args, prologue, rows, arena, scratch, routines, body, sites, loops, shared, origins)

    def add_prologue(self, tensors: Sequence[Tensor]) -> None:
        """Add rows that fill ``tensors``."""
        self.fills.update(tensors)
        for tensor in tensors:
            self.add_fill(tensor)
        self.prologue = len(self.rows) // 2

    def add_core(self, core: CoreProgram, outputs: Sequence[Tensor]) -> None:
        """Add all rows: first those of the statements of ``core``, then those of the bodies of loops."""
        for tensor in outputs:
            self.add_fill(tensor)
        for number, statement in with_numbers(core.body):
            if self.fills:
                for access in touched(statement):
                    self.add_fill(access.tensor)
            self.add_statement(number, statement)
        self.end_region()
        self.main_rows = len(self.rows) // 2
        while self.pending:
            start, loop, at, outer = self.pending.pop(0)
            self.rounds = outer * rounds_of(loop)
            first = len(self.rows) // 2
            for number, statement in with_numbers(loop.body, start):
                self.add_statement(number, statement)
            self.end_region()
            self.args[at : at + 2] = [first, len(self.rows) // 2 - first]

    def add_fill(self, tensor: Tensor) -> None:
        """Fill ``tensor`` now if it needs that and was not filled before."""
        if tensor not in self.fills:
            return
        self.fills.discard(tensor)
        base = self.storage.base(tensor)
        contents = initial(tensor)
        if contents is not None:
            literal = 8 * len(self.args)
            self.args += contents.reshape(-1).view(np.int64).tolist()
            self.add_row(library.address("copy"), [*base, ARGS, literal, tensor.nbytes])
            return
        pattern = tensor.dtype.poison * (8 // tensor.dtype.itemsize)
        word = int.from_bytes(pattern, "little", signed=True)
        self.add_row(library.address("fill"), [*base, native_bytes(tensor), word])

    def add_row(self, routine: int, args: Sequence[int]) -> None:
        """Add a row with arguments of its own, which ends the open region."""
        self.end_region()
        self.rows += [routine, len(self.args)]
        self.args += args

    def end_region(self) -> None:
        """Add the row of the open region if it has one, or its rows themselves where they are few and short."""
        if self.regions is None:
            return
        region = self.regions.region
        if region.is_worthwhile:
            self.shared_nanoseconds += self.rounds * region.nanoseconds
            self.apart.append((len(self.args), region.rows))
            self.rows += [library.address("region"), len(self.args)]
            self.args += [0, len(region.rows) // 2, region.partitions, region.block, GRANULE]
        else:
            self.rows += region.rows
        if region.rows:
            self.regions.start()

    def add_statement(self, number: int, statement: Statement) -> None:
        """Add the rows of a statement, whose first instruction has that dense number."""
        self.origins.append((len(self.args), statement))
        if not isinstance(statement, Inst):
            self.add_loop(number, statement)
        elif self.peers.cores > 1 and (meeting := statement.as_barrier()) is not None:
            self.add_barrier(statement, meeting)
        elif statement.expansion is not None:
            self.add_steps(statement.expansion, [self.routines[n] for n in self.numbers[number]])
        else:
            self.add_instruction(statement, self.routines[self.numbers[number][0]])

    def add_instruction(self, inst: Inst, routine: Routine, in_region: bool = True) -> None:
        """Add the row of an instruction; ``in_region`` is False if it uses scratch memory that other rows use, too."""
        operands, regions, args = inst.accesses(), self.regions, self.args
        places = self.storage.arguments(operands)
        if not in_region or regions is None or not routine.partitions:
            self.end_region()  # which has arguments, too
            self.rows += (routine.address, len(args))
        elif not regions.add(inst, routine, operands, places, (routine.address, len(args))):
            self.end_region()
            regions.add(inst, routine, operands, places, (routine.address, len(args)))
        args += places
        if inst.form().has_runtime_index:
            self.add_indices(inst, operands)
        if inst.immediate_names:
            for number in inst.immediates():
                if type(number) is RuntimeFloat:
                    args.append(self.slot_of(number))
                else:
                    self.immediates.append((len(args), number))
                    args.append(0)

    def add_indices(self, inst: Inst, operands: Sequence[Access]) -> None:
        """Add the arguments of the run-time indices of an instruction."""
        args = self.args
        for access in operands:
            if access.dynamic is not None:
                args += [*self.storage.locate(access.dynamic.source), largest_index(access)]
        self.sites.append(inst)
        args.append(len(self.sites))

    def slot_of(self, number: RuntimeFloat) -> int:
        """The slot of the frame in which launches pass an immediate."""
        self.floats.setdefault(show(number.formula), number.formula)
        return self.first_float + list(self.floats).index(show(number.formula))

    def add_steps(self, steps: GatherComputeScatter, part_routines: Sequence[Routine]) -> None:
        """Add the rows of an instruction on indirect views."""
        self.sites.append(steps.inst)
        scratch = max(routine.scratch for routine in part_routines)
        rows = StepRows(steps, scratch, self.storage)
        self.scratch = max(self.scratch, rows.scratch)
        self.add_rows(rows.gather(len(self.sites)))
        for part, routine in zip(steps.parts, part_routines, strict=True):
            self.add_instruction(part, routine, in_region=False)
        self.add_rows(rows.scatter())

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Add rows of routines that no instruction owns."""
        for routine, args in rows:
            self.add_row(routine, args)

    def add_barrier(self, inst: Inst, meeting: Barrier) -> None:
        """Add a row at which this core waits for the others that take part."""
        rank, cores, lines = self.peers.rank, self.peers.cores, self.peers.lines
        self.sites.append(inst.origin or inst)
        peers = [peer for peer in meeting.cores if peer != rank]
        tag = inst.user_name or meeting.data.name
        args = barrier.arguments(lines, tag, len(self.sites), rank, peers, cores)
        self.add_row(library.address("barrier"), args)

    def add_loop(self, number: int, loop: Loop) -> None:
        """Add the row of a loop, and note that its body, whose first instruction has that number, has no rows yet."""
        self.end_region()
        locate = self.storage.locate
        if isinstance(loop, While):
            args = [*locate(loop.register)]
            routine = library.address("while")
        else:
            args = [*locate(loop.register)]
            for bound in (loop.start, loop.stop):
                if isinstance(bound, Access):
                    args += locate(bound)
                else:
                    args += [ARGS, 8 * len(self.args)]
                    self.args.append(bound)
            args.append(loop.step)
            routine = library.address("for")
        self.pending.append((number, loop, len(self.args) + len(args), self.rounds))
        self.loops.append(loop)
        self.add_row(routine, [*args, 0, 0, len(self.loops)])


def loop_listing(program: Program) -> str:
    """The kernel IR of every routine that ``program`` uses, each once."""
    return routines.loops(part for core in program.cores for part in _parts(core))


def listing(program: Program, assembly: bool) -> str:
    """The optimised LLVM IR, or the host's assembly, of every routine that ``program`` uses, each once."""
    parts = (part for core in program.cores for part in _parts(core))
    heading = f"{'#' if assembly else ';'} open-nki {version()}, kernel {program.name}\n"
    return heading + routines.listing(parts, assembly)
