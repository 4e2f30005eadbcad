"""Tables of events: instructions, transfers, what waits for what, and the source lines of instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, wraps
from typing import Any

import numpy as np

from nki.base.source import Span
from nki.base.terms import Cause
from nki.ir.estimate import Dma, Estimate, Matmul
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, basic_blocks
from nki.ir.program import CoreProgram
from nki.ir.types import Access
from nki.isa.tables.opcodes import transposes
from nki.profiling.engine_rows import TITLES, EngineRows
from nki.profiling.events import MEMORIES, Column, CoreEvents
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.summary import GENERATORS, adjusted_flops, operands_in_sbuf

Columns = dict[str, Any]
"""Columns of a table by name: lists or arrays of one length."""


@dataclass
class Rows:
    """The rows of a profile with the identifiers that join its tables: instructions and transfers are numbered from 0
    over all cores.
    """

    profile: PredictedRun
    cores: list[CoreRows] = field(default_factory=list["CoreRows"])

    @classmethod
    def of(cls, profile: PredictedRun) -> Rows:
        rows = cls(profile)
        count = moved = 0
        for core in profile.cores:
            transfers = np.where(core.is_dma, np.cumsum(core.is_dma) - 1 + moved, -1)
            rows.cores.append(CoreRows(core, rows, count, transfers))
            count += len(core)
            moved += int(core.is_dma.sum())
        return rows

    @cached_property
    def frames(self) -> dict[tuple[Span, ...], int]:
        """The identifier of each chain of source positions, outermost first; each begins with its parent."""
        known: dict[tuple[Span, ...], int] = {}
        for core in self.profile.cores:
            for inst in core.instructions:
                chain = chain_of(inst)
                for length in range(1, len(chain) + 1):
                    known.setdefault(chain[:length], len(known))
        return known


@dataclass
class CoreRows(EngineRows):
    """The rows of one core of the ``whole`` profile: the identifier of the ``first`` one, and of the
    transfer of each, -1 for a row that is none.
    """

    whole: Rows
    first: int
    transfers: Column


def joined(parts: Iterable[Columns]) -> Columns:
    """The columns of several parts below each other."""
    parts = list(parts)
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}


def by_core(columns: Callable[[CoreRows], Columns]) -> Callable[[Rows], Columns]:
    """The table that has the ``columns`` of every core."""

    @wraps(columns)
    def table(rows: Rows) -> Columns:
        return joined(map(columns, rows.cores))

    return table


def by_number(core: CoreEvents, values: Sequence[Any]) -> list[Any]:
    """Values by dense number as one value for each row."""
    return [values[number] for number in core.number.tolist()]


def whole(times: Any) -> Any:
    """Times in whole ns."""
    return np.rint(np.asarray(times, np.float64)).astype(np.int64)


def spread(start: Any, end: Any) -> Columns:
    """The columns of intervals."""
    start, end = whole(start), whole(end)
    return {"start_ts": start, "end_ts": end, "duration_ns": end - start}


def chain_of(inst: Inst) -> tuple[Span, ...]:
    """The source positions of an instruction: the calls that led to it, outermost first, and its own."""
    span = inst.where.span
    return inst.where.stack if span is None else (*inst.where.stack, span)


def name_of(core: CoreEvents, number: int) -> str:
    """The name of an instruction, the same in all tables."""
    return f"{core.rank}.{number}.{core.instructions[number].mnemonic}"


@by_core
def instructions(rows: CoreRows) -> Columns:
    """Table ``Instruction``: a row for each instruction that was replayed."""
    core = rows.events
    numbers = range(len(core.instructions))
    places = [_place(core.span(number)) for number in numbers]
    frames = [_frame_ids(rows.whole, inst) for inst in core.instructions]
    adjusted = adjusted_flops(core)
    raw = [e.flops if isinstance(e, Matmul) else 0 for e in core.estimates]
    moves = [e.flops if isinstance(e, Matmul) and e.is_data_movement else 0 for e in core.estimates]
    kinds = ["" if not flops else "TRANSPOSE" if moved else "REGULAR" for flops, moved in zip(raw, moves, strict=True)]
    waits = np.where(core.cause == int(Cause.generator), rows.gaps, 0.0)
    static: Columns = {
        "engine": [TITLES[engine] for engine in rows.engines],
        "timeline_track": [core.queues[queue] for queue in core.timeline.queue_of],
        "opcode": rows.opcodes,
        "operands": [operands(i, e) for i, e in _pairs(core)],
        "compiler_opcode": [inst.mnemonic for inst in core.instructions],
        "bir_instruction_name": [name_of(core, number) for number in numbers],
        "kernel_instruction_name": [name_of(core, number) for number in numbers],
        "nki_source_location": places,
        "bir_debug_info_source_location": places,
        "stack_frame_ids": frames,
        "tensor_instruction_type": kinds,
        "raw_flops": raw,
        "adjusted_flops": adjusted,
        "flops_transpose": moves,
        **_bytes(core),
    }
    trigger = core.is_dma
    return {
        "id": np.arange(len(core), dtype=np.int64) + rows.first,
        "pcore_idx": np.full(len(core), core.rank, np.int64),
        "pc": core.number,
        "bir_id": core.number,
        **spread(core.start, rows.done),
        **{name: by_number(core, values) for name, values in static.items()},
        "evt_wait_time_ns": whole(rows.semaphore_waits),
        "dma_wait_time_ns": whole(waits),
        "dma_trigger_start_ts": np.where(trigger, whole(core.start), 0),
        "dma_trigger_end_ts": np.where(trigger, whole(core.release), 0),
        "executions": core.weight,
        "cause": [Cause(cause).name for cause in core.cause.tolist()],
    }


def _pairs(core: CoreEvents) -> Iterable[tuple[Inst, Estimate]]:
    return zip(core.instructions, core.estimates, strict=True)


def _place(span: Span | None) -> str | None:
    return f"{span.file}:{span.line}" if span else None


def _frame_ids(rows: Rows, inst: Inst) -> str:
    chain = chain_of(inst)
    return ",".join(str(rows.frames[chain[:length]]) for length in range(len(chain), 0, -1))


def _bytes(core: CoreEvents) -> Columns:
    columns: Columns = {}
    for position, memory in enumerate(MEMORIES):
        columns[f"{memory}_read_bytes"] = [traffic.reads[position] for traffic in core.traffic]
        columns[f"{memory}_write_bytes"] = [traffic.writes[position] for traffic in core.traffic]
    return columns


def operands(inst: Inst, estimate: Estimate) -> str:
    """The operands as text. Products end in ``K*M``, and ``src`` counts N first, as readers of profiles expect."""
    writes = [f"dst={_window(access)}" for access in inst.writes()]
    if not isinstance(estimate, Matmul) or not estimate.flops:
        return " ".join([*(f"src={_window(access)}" for access in inst.reads()), *writes])
    dst = inst.writes()[0]
    streamed = operands_in_sbuf(inst)
    moving = streamed[min(1, len(streamed) - 1)]
    source = f"src={moving.dtype}:{moving.name}[1,1,1][{dst.free_elements},1,1]"
    return " ".join([source, *writes, f"{moving.partitions}*{dst.partitions}"])


def _window(access: Access) -> str:
    """Type, tensor, and the steps and counts of a window behind its partitions."""
    return f"{access.dtype}:{access.name}{_extents(access.shape, access.strides)}"


@lru_cache(maxsize=4096)
def _extents(shape: tuple[int, ...], strides: tuple[int, ...]) -> str:
    steps = ",".join([f"{step:d}" for step in strides[1:] or (1,)])
    counts = ",".join([f"{count:d}" for count in shape[1:] or (1,)])
    return f"[{steps}][{counts}]"


def packets(rows: Rows) -> Columns:
    """Table ``DmaPacket``: the same transfers, for the model prices packets together and does not follow each."""
    names = ("id", "pcore_idx", "queue_name", "queue_type", "start_ts", "end_ts", "duration_ns", "transfer_bytes")
    columns = transfers(rows)
    return {name: columns[name] for name in names}


@by_core
def transfers(rows: CoreRows) -> Columns:
    """Table ``DmaPacketAggregated``: a row for each DMA transfer, with the time of its data."""
    core = rows.events
    chosen = np.flatnonzero(core.is_dma)
    by_instruction = {
        number: transfer_columns(inst, estimate)
        for number, (inst, estimate) in enumerate(_pairs(core))
        if isinstance(estimate, Dma)
    }
    static = [by_instruction[number] for number in core.number[chosen].tolist()]
    times = spread(core.data_start[chosen], core.data_end[chosen])
    names = list(_transfer_names())
    moved = np.array([row["transfer_bytes"] for row in static], np.int64)
    return {
        "id": rows.transfers[chosen],
        "pcore_idx": np.full(len(chosen), core.rank, np.int64),
        "queue_idx": core.queue[chosen],
        "queue_name": [core.queues[queue] for queue in core.queue[chosen].tolist()],
        **times,
        **{name: [row[name] for row in static] for name in names},
        "throughput": moved * 1e9 / np.maximum(times["duration_ns"], 1),
        "trigger": whole(core.start[chosen]),
        "completion": whole(core.end[chosen]),
        "executions": core.weight[chosen],
    }


def _transfer_names() -> tuple[str, ...]:
    sides = ("sbuf_partitions", "num_sbuf_partitions", "shape", "offset", "steps")
    fixed = ("op", "variable", "queue_type", "source", "dest", "read_bytes", "write_bytes", "transfer_bytes")
    return (*fixed, "is_transpose_mode", *(f"{side}_{name}" for side in ("read", "write") for name in sides))


def transfer_columns(inst: Inst, estimate: Dma) -> Columns:
    """The columns of a transfer that do not depend on times."""
    reads, writes = inst.reads(), inst.writes()
    source, dest = reads[0] if reads else None, writes[0] if writes else None
    in_hbm = next((a for a in (source, dest) if a is not None and a.buffer.is_hbm), dest or source)
    result: Columns = {
        "op": inst.mnemonic,
        "variable": in_hbm.name if in_hbm else "",
        "queue_type": _queue_type(estimate, source, dest),
        "source": f"[[{_memory(source, 'INPUT')}]]",
        "dest": f"[{_memory(dest, 'OUTPUT')}]",
        "read_bytes": sum(access.nbytes for access in reads),
        "write_bytes": sum(access.nbytes for access in writes),
        "transfer_bytes": estimate.bytes,
        "is_transpose_mode": transposes(inst.mnemonic),
    }
    for side, access in (("read", source), ("write", dest)):
        on_chip = access is not None and access.buffer.on_chip
        first = access.start_partition if access is not None and on_chip else 0
        count = access.partitions if access is not None and on_chip else 0
        result[f"{side}_sbuf_partitions"] = f"{first}-{first + count - 1}" if count else ""
        result[f"{side}_num_sbuf_partitions"] = count
        result[f"{side}_shape"] = str(list(access.shape)) if access else ""
        result[f"{side}_offset"] = access.offset if access else 0
        result[f"{side}_steps"] = str(list(access.strides)) if access else ""
    return result


def _queue_type(estimate: Dma, source: Access | None, dest: Access | None) -> str:
    for kind, generators in GENERATORS.items():
        if estimate.dge and estimate.dge in generators:
            return kind.removesuffix("_dynamic") + "_dynamic"
    if source is not None and source.tensor.role == "input":
        return "input"
    return "output" if dest is not None and dest.tensor.role == "output" else "data"


def _memory(access: Access | None, role: str) -> str:
    """The word for the memory of a transfer's end; tensors of the kernel in HBM are what the vendor calls virtual."""
    if access is None:
        return ""
    if access.buffer.on_chip:
        return "SB" if access.buffer.value == "sbuf" else access.buffer.value.upper()
    if access.tensor.data is not None:
        return "WEIGHT"
    return role if access.tensor.role in ("input", "output") else "VIRTUAL"


@by_core
def flows(rows: CoreRows) -> Columns:
    """Table ``Flow``: the transfer of each trigger, and for each instruction that waited, what it waited for."""
    core, first, moved = rows.events, rows.first, rows.transfers
    triggers = np.flatnonzero(moved >= 0)
    waiting = np.flatnonzero((core.blocker >= 0) & (core.cause != int(Cause.queue)))
    blockers = core.blocker[waiting]
    is_data = moved[blockers] >= 0
    started = core.data_start[triggers] - core.release[triggers]
    meetings = list(core.waiting_meetings())
    firsts = {each.events.rank: each.first for each in rows.whole.cores}
    met = np.array([firsts[meeting.last.core] + meeting.last.record for _, meeting in meetings], np.int64)
    waited = np.array([row + first for row, _ in meetings], np.int64)
    gaps = np.concatenate((started, core.start[waiting] - core.end[blockers], np.zeros(len(met))))
    return {
        "in_id": np.concatenate((triggers + first, np.where(is_data, moved[blockers], blockers + first), met)),
        "in_table": ["Instruction"] * len(triggers)
        + ["DmaPacketAggregated" if data else "Instruction" for data in is_data.tolist()]
        + ["Instruction"] * len(met),
        "out_id": np.concatenate((moved[triggers], waiting + first, waited)),
        "out_table": ["DmaPacketAggregated"] * len(triggers) + ["Instruction"] * (len(waiting) + len(met)),
        "dependency_type": ["DGE_TRIGGER"] * len(triggers)
        + [Cause(cause).name.upper() for cause in core.cause[waiting].tolist()]
        + [Cause.meeting.name.upper()] * len(met),
        "gap_time": whole(np.maximum(gaps, 0.0)),
    }


@by_core
def semaphores(rows: CoreRows) -> Columns:
    """Table ``SemaphoreUpdate``: each queue's semaphore counts the instructions of a basic block that are complete."""
    core = rows.events
    values: list[int] = []
    _count(core.timeline.core, core.timeline.core.body, values)
    return {
        "timestamp": whole(core.end),
        "id": core.queue,
        "value": by_number(core, values),
        "update_source": by_number(core, [TITLES[engine] for engine in rows.engines]),
        "update_operation_type": ["increment"] * len(core),
        "pcore_idx": np.full(len(core), core.rank, np.int64),
    }


def _count(core: CoreProgram, body: Iterable[Statement], values: list[int]) -> None:
    """Append the number of every instruction on its queue within its basic block."""
    for block in basic_blocks(body):
        if not isinstance(block, list):
            _count(core, block.body, values)
            continue
        counts: dict[str, int] = {}
        for inst in block:
            counts[inst.queue] = counts.get(inst.queue, 0) + 1
            values.append(counts[inst.queue])


@by_core
def barriers(rows: CoreRows) -> Columns:
    """Table ``CoreBarriers``: the time of each core at each barrier, from its arrival on."""
    core = rows.events
    meetings = [inst.as_barrier() for inst in core.instructions]
    is_barrier = np.array([barrier is not None for barrier in meetings], bool)
    chosen = np.flatnonzero(is_barrier[core.number])
    numbers: list[int] = core.number[chosen].tolist()
    starts: list[float] = core.start[chosen].tolist()
    known = [core.meetings.get(row) for row in chosen.tolist()]
    arrivals = [meeting.time if meeting else start for meeting, start in zip(known, starts, strict=True)]
    return {
        **spread(arrivals, core.release[chosen]),
        "id": chosen + rows.first,
        "engine_name": [TITLES[rows.engines[number]] for number in numbers],
        "compiler_pc": core.number[chosen],
        "compiler_opcode": [core.instructions[number].mnemonic for number in numbers],
        "compiler_operands": [barrier.data.name for number in numbers if (barrier := meetings[number])],
        "pcore_idx": np.full(len(chosen), core.rank, np.int64),
    }


def kernel_instructions(rows: Rows) -> Columns:
    """Table ``KernelInstructions``: the source positions of each instruction; depth 0 is its own."""
    result: Columns = {name: [] for name in ("kernel_instruction_name", "stack_frame_id", "stack_frame_depth")}
    result |= {"file_path": [], "line_number": []}
    for core in rows.profile.cores:
        for number, inst in enumerate(core.instructions):
            chain = chain_of(inst)
            for depth in range(len(chain)):
                span = chain[len(chain) - 1 - depth]
                result["kernel_instruction_name"].append(name_of(core, number))
                result["stack_frame_id"].append(rows.frames[chain[: len(chain) - depth]])
                result["stack_frame_depth"].append(depth)
                result["file_path"].append(span.file)
                result["line_number"].append(span.line)
    return result


def stack_frames(rows: Rows) -> Columns:
    """Table ``KernelStackFrames``: each source position with the call that led to it; -1: the kernel itself."""
    chains = list(rows.frames)
    return {
        "stack_frame_id": list(rows.frames.values()),
        "fully_qualified_function_name": [chain[-1].function for chain in chains],
        "parent_stack_frame_id": [rows.frames[chain[:-1]] if len(chain) > 1 else -1 for chain in chains],
        "file_path": [chain[-1].file for chain in chains],
        "line_number": [chain[-1].line for chain in chains],
    }
