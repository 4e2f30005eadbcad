"""A kernel as a table that native code walks: one routine per instruction signature, one row per instruction.

A loop is a row, too, whose routine walks the rows of its body; those stand behind the rows of what surrounds it.
Memory on chip and internal HBM become one arena; tensors whose lives do not meet share its bytes, which also keeps a
long unrolled loop in the processor's cache.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from nki.analysis.definite_initialization import maybe_uninitialized
from nki.backend.cpu.codegen.routine import EmittedRoutine, emit_routine
from nki.backend.cpu.loop_ir.lower import Aliases
from nki.backend.cpu.runtime.barrier import LINE, Meetings, met, outboxes
from nki.backend.cpu.runtime.barrier import address as meeting_address
from nki.backend.cpu.runtime.dispatch import (
    ARENA,
    ARGS,
    FIRST_IO,
    SCRATCH,
    copy_address,
    fill_address,
    for_address,
    while_address,
)
from nki.backend.cpu.runtime.gather_scatter import Staged, staged
from nki.base.version import version
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, While, instructions, touched
from nki.ir.program import Program
from nki.ir.rng_state import initial
from nki.ir.runtime_index import largest_index
from nki.ir.types import Access, Role, Tensor
from nki.numerics.jit import engine
from nki.transforms.copy_elimination import forwarded

ALIGN = 64
Progress = Callable[[int, int], None]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A routine in memory: its address, the scratch bytes that it needs, and the partitions that it may be split over.

    ``partitions`` is 0 if the routine must run whole; see :class:`~nki.backend.cpu.codegen.routine.EmittedRoutine`.
    """

    address: int
    scratch: int
    partitions: int


_routines: dict[Key, Compiled] = {}
_lock = threading.Lock()
BATCH = 24
"""Routines per LLVM module: fewer modules compile faster, smaller ones show progress."""


@dataclass(slots=True)
class Plan:
    """What a core needs: rows of ``table`` are (routine, index of its first argument); it walks the first ``rows``.

    ``body`` is what runs; rows that fill memory stand before and between its rows. The first ``before`` of them fill
    what cores share, and are done before any core begins. ``sites`` are the instructions that may fail: by a run-time
    index out of bounds, or because another core does not meet this one.
    """

    table: NDArray[np.int64]
    args: NDArray[np.int64]
    before: int
    rows: int
    arena: int
    scratch: int
    routines: int
    body: list[Statement]
    sites: list[Inst]


@dataclass(slots=True)
class Layout:
    """The plans of all cores, and the memory that they share: its bytes, and where in it each shared tensor is."""

    cores: list[Plan]
    shared: list[int]
    shared_bytes: int


@dataclass(slots=True)
class Shared:
    """What the cores of a kernel share besides inputs, outputs and constants."""

    tensors: list[Tensor]
    meetings: list[Meetings]

    @classmethod
    def of(cls, kernel: Program) -> Shared:
        """Nothing for a kernel on one core."""
        if not kernel.others:
            return cls([], [])
        boxes = outboxes(kernel)
        return cls([*kernel.shared(), *boxes], [Meetings(boxes) for _ in kernel.cores])


def plan(kernel: Program, progress: Progress | None = None) -> Layout:
    """Lay out ``kernel``, core by core, and compile the routines that no kernel of this process has needed before."""
    shared = Shared.of(kernel)
    cores = list(kernel.cores)
    if kernel.others:
        cores = [core.with_body(met(core, meetings)) for core, meetings in zip(cores, shared.meetings, strict=True)]
    cores = [core.with_body(forwarded(core)) for core in cores]
    unique: dict[Key, Inst] = {}
    keys: dict[int, Key] = {}
    views: dict[int, Staged] = {}
    for core in cores:
        for inst in core.instructions():
            stage = staged(inst)
            if stage is not None:
                views[id(inst)] = stage
            for part in (inst,) if stage is None else stage.parts():
                key = keys[id(part)] = (part.key(), aliases(part))
                unique.setdefault(key, part)
    _compile({k: i for k, i in unique.items() if k not in _routines}, progress)
    scratch = max((_routines[key].scratch for key in unique), default=0)
    for stage in views.values():
        stage.lay_out(max(_routines[keys[id(part)]].scratch for part in stage.parts()))
    scratch = max([scratch, *(stage.size for stage in views.values())])
    fills = [maybe_uninitialized(core) for core in cores]
    common = {*kernel.outputs, *shared.tensors} if kernel.others else set[Tensor]()
    whole = common.intersection(*fills)
    plans: list[Plan] = []
    for number, core in enumerate(cores):
        places, arena = _places(core, shared.tensors)
        meetings = shared.meetings[number] if kernel.others else None
        layout = _Layout(places, keys, fills[number] - common, meetings, views)
        layout.before(sorted(whole, key=lambda t: t.name) if number == 0 else [])
        layout.main(core)
        table = np.array(layout.rows, np.int64).reshape(-1, 2)
        args = np.array(layout.args, np.int64)
        made = Plan(table, args, layout.begin, layout.first, arena, scratch, len(unique), list(core.body), layout.sites)
        plans.append(made)
    offsets: list[int] = []
    size = LINE * len(cores)
    for tensor in shared.tensors:
        offsets.append(size)
        size += -(-tensor.nbytes // ALIGN) * ALIGN
    return Layout(plans, offsets, size)


class _Layout:
    """Writes the rows of a table and their arguments."""

    def __init__(
        self,
        places: dict[Tensor, tuple[int, int]],
        keys: dict[int, Key],
        fills: set[Tensor],
        meetings: Meetings | None,
        views: dict[int, Staged],
    ) -> None:
        self.places = places
        self.keys = keys
        self.fills = fills
        self.meetings = meetings
        self.views = views
        """Of instructions on indirect views, by id, how they run."""
        self.begin = 0
        self.rows: list[int] = []
        self.args: list[int] = []
        self.sites: list[Inst] = []
        self.first = 0
        self.waiting: list[tuple[Loop, int]] = []
        """Loops whose bodies are still to be laid out, and where their arguments say so."""

    def before(self, tensors: Sequence[Tensor]) -> None:
        """Rows that fill ``tensors``."""
        self.fills.update(tensors)
        for tensor in tensors:
            self.fill(tensor)
        self.begin = len(self.rows) // 2

    def main(self, kernel: Program) -> None:
        """All rows: those of the kernel's own statements first, then those of loops' bodies."""
        for tensor in kernel.outputs:
            self.fill(tensor)
        for statement in kernel.body:
            if self.fills:
                for access in touched(statement):
                    self.fill(access.tensor)
            self.statement(statement)
        self.first = len(self.rows) // 2
        while self.waiting:
            loop, at = self.waiting.pop(0)
            begin = len(self.rows) // 2
            for statement in loop.body:
                self.statement(statement)
            self.args[at : at + 2] = [begin, len(self.rows) // 2 - begin]

    def fill(self, tensor: Tensor) -> None:
        """Fill ``tensor`` now if it needs it and was not yet."""
        if tensor in self.fills:
            self.fills.discard(tensor)
            first = initial(tensor)
            if first is not None:
                literal = 8 * len(self.args)
                self.args += first.reshape(-1).view(np.int64).tolist()
                self.rows += [copy_address(), len(self.args)]
                self.args += [*self.places[tensor], ARGS, literal, tensor.nbytes]
                return
            pattern = tensor.dtype.poison * (8 // tensor.dtype.itemsize)
            self.rows += [fill_address(), len(self.args)]
            self.args += [*self.places[tensor], tensor.nbytes, int.from_bytes(pattern, "little", signed=True)]

    def statement(self, statement: Statement) -> None:
        if isinstance(statement, Inst):
            self.instruction(statement)
        else:
            self.loop(statement)

    def instruction(self, inst: Inst) -> None:
        args = self.args
        if self.meetings is not None and id(inst) in self.meetings.about:
            self.meeting(*self.meetings.about[id(inst)])
            return
        stage = self.views.get(id(inst))
        if stage is not None:
            self.staged(stage)
            return
        self.rows.append(_routines[self.keys[id(inst)]].address)
        self.rows.append(len(args))
        operands = inst.accesses()
        dynamic = False
        for access in operands:
            base, start = self.places[access.tensor]
            args.append(base)
            args.append(start + access.offset * access.dtype.itemsize)
            dynamic = dynamic or access.dynamic is not None
        if dynamic:
            for access in operands:
                if access.dynamic is not None:
                    args += [*self.place(access.dynamic.source), largest_index(access)]
            self.sites.append(inst)
            args.append(len(self.sites))
        args.extend(_bits(float(number)) for number in inst.immediates())

    def staged(self, stage: Staged) -> None:
        """The rows of an instruction on indirect views."""
        self.sites.append(stage.inst)
        self.places.update({tensor: (SCRATCH, start) for tensor, start in stage.places.items()})
        self.routines(stage.before(len(self.sites), self.place))
        for part in stage.parts():
            self.instruction(part)
        self.routines(stage.behind(self.place))

    def routines(self, rows: Sequence[tuple[int, list[int]]]) -> None:
        """Rows that are no instruction's."""
        for address, args in rows:
            self.rows += [address, len(self.args)]
            self.args += args

    def meeting(self, subject: int, inst: Inst) -> None:
        """A row at which this core waits for the other: see :func:`nki.backend.cpu.runtime.barrier.address`."""
        last = max(base for base, _ in self.places.values())
        self.sites.append(inst)
        self.rows += [meeting_address(), len(self.args)]
        self.args += [last + 1, last + 2, last + 3, subject, len(self.sites)]

    def loop(self, loop: Loop) -> None:
        literal = len(self.args)
        self.args += [] if isinstance(loop, While) else [b for b in (loop.start, loop.stop) if isinstance(b, int)]
        self.rows += [while_address() if isinstance(loop, While) else for_address(), len(self.args)]
        self.args += self.place(loop.register)
        if not isinstance(loop, While):
            for bound in (loop.start, loop.stop):
                if isinstance(bound, Access):
                    self.args += self.place(bound)
                else:
                    self.args += [ARGS, 8 * literal]
                    literal += 1
            self.args.append(loop.step)
        self.waiting.append((loop, len(self.args)))
        self.args += [0, 0]

    def place(self, access: Access) -> list[int]:
        base, start = self.places[access.tensor]
        return [base, start + access.offset * access.dtype.itemsize]


def _bits(number: float) -> int:
    return struct.unpack("<q", struct.pack("<d", number))[0]


def aliases(inst: Inst) -> Aliases:
    """The pairs of operands, one of them written, that may share memory."""
    operands = inst.operands()  # by field: one window may stand in several of them, here written and there read
    found: list[tuple[int, int, bool]] = []
    for w, (f, target) in enumerate(operands):
        if f.role not in (Role.OUT, Role.INOUT):
            continue
        for r, (_, source) in enumerate(operands):
            if r != w and source.tensor is target.tensor and _overlap(target, source):
                found.append((w, r, target.same_place(source)))
    return tuple(found)


def _overlap(one: Access, two: Access) -> bool:
    """Whether two windows of one tensor may share an element: judged by partitions and by the bytes within them."""
    if one.dynamic is not None or two.dynamic is not None:
        return True
    if one.buffer.is_hbm:
        return _meets(_span(one, 0, one.offset), _span(two, 0, two.offset))
    first, second = divmod(one.offset, one.partition_step), divmod(two.offset, two.partition_step)
    if first[0] > _last_partition(two, second[0]) or second[0] > _last_partition(one, first[0]):
        return False
    return _meets(_span(one, 1, first[1]), _span(two, 1, second[1]))


def _last_partition(a: Access, first: int) -> int:
    """DMA may step over partitions."""
    return first + (a.shape[0] - 1) * a.strides[0] // a.partition_step


def _span(a: Access, dim: int, start: int) -> tuple[int, int]:
    """The first and last byte that the dimensions from ``dim`` on touch, counted from element ``start``."""
    low = high = start
    for n, step in zip(a.shape[dim:], a.strides[dim:], strict=True):
        if step > 0:
            high += (n - 1) * step
        else:
            low += (n - 1) * step
    size = a.dtype.itemsize
    return low * size, high * size + size - 1


def _meets(one: tuple[int, int], two: tuple[int, int]) -> bool:
    return one[0] <= two[1] and two[0] <= one[1]


def build(module: ir.Module, name: str, inst: Inst) -> EmittedRoutine:
    """Emit the routine of ``inst`` into ``module``."""
    return emit_routine(module, name, inst, aliases(inst), engine().vector_width)


def _compile(missing: dict[Key, Inst], progress: Progress | None) -> None:
    items = list(missing.items())
    if progress is not None and items:
        progress(0, len(items))
    for first in range(0, len(items), BATCH):
        batch = items[first : first + BATCH]
        module = ir.Module("nki_kernel")
        emitted = [build(module, f"r{n}_{inst.mnemonic}", inst) for n, (_, inst) in enumerate(batch)]
        addresses = engine().compile(module)
        with _lock:
            for n, (key, inst) in enumerate(batch):
                address = addresses[f"r{n}_{inst.mnemonic}"]
                _routines[key] = Compiled(address, emitted[n].scratch, emitted[n].partitions)
        if progress is not None:
            progress(first + len(batch), len(items))


@dataclass(slots=True)
class _Arena:
    """Hands out blocks and takes them back; a block is reused for tensors of its own size."""

    size: int = 0
    free: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def take(self, nbytes: int) -> tuple[int, int]:
        rounded = -(-nbytes // ALIGN) * ALIGN
        blocks = self.free.get(rounded)
        if blocks:
            return blocks.pop(), rounded
        start = self.size
        self.size += rounded
        return start, rounded

    def give(self, block: tuple[int, int]) -> None:
        self.free.setdefault(block[1], []).append(block[0])


def _places(kernel: Program, shared: Sequence[Tensor]) -> tuple[dict[Tensor, tuple[int, int]], int]:
    """(base, byte offset) of every tensor that is used, and the size of the arena."""
    places: dict[Tensor, tuple[int, int]] = {}
    for slot, tensor in enumerate((*kernel.inputs, *kernel.outputs, *kernel.constants(), *shared)):
        places.setdefault(tensor, (FIRST_IO + slot, 0))
    last: dict[Tensor, int] = {}
    for index, statement in enumerate(kernel.body):
        for access in touched(statement):
            last[access.tensor] = index
    arena = _Arena()
    blocks: dict[Tensor, tuple[int, int]] = {}
    for index, statement in enumerate(kernel.body):
        tensors = {access.tensor: None for access in touched(statement)}
        for tensor in tensors:
            if tensor not in places:
                blocks[tensor] = arena.take(tensor.nbytes)
                places[tensor] = (ARENA, blocks[tensor][0])
        for tensor in tensors:
            if last[tensor] == index and tensor in blocks:
                arena.give(blocks.pop(tensor))
    return places, arena.size


def listing(kernel: Program, assembly: bool) -> str:
    """The optimised LLVM IR, or the host's assembly, of every routine that ``kernel`` uses, each once."""
    module = ir.Module("nki_kernel")
    seen: set[Key] = set()
    for inst in (inst for core in kernel.cores for inst in instructions(forwarded(core))):
        stage = staged(inst)
        for part in (inst,) if stage is None else stage.parts():
            key = (part.key(), aliases(part))
            if key not in seen:
                build(module, f"r{len(seen)}_{part.mnemonic}", part)
                seen.add(key)
    text = engine().assembly(module) if assembly else engine().optimised_ir(module)
    return f"{'#' if assembly else ';'} open-nki {version()}, kernel {kernel.name}\n{text}"
