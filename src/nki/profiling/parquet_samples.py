"""Tables of sums and samples: opcodes, active times, memory and bandwidth over time, tiles and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nki.ir.estimate import Dma
from nki.ir.types import Buffer, Tensor
from nki.profiling.engine_rows import TITLES, EngineRows, merged
from nki.profiling.events import Column, CoreEvents
from nki.profiling.metrics import repeat
from nki.profiling.parquet_events import Columns, CoreRows, Rows, by_core, joined, spread, whole

QUARTERS = (0, 32, 64, 96)
"""Partitions that are sampled for the use of SBUF."""


def opcodes(rows: Rows) -> Columns:
    """Table ``OpcodeSummary``: executions and times by engine and opcode, over all cores."""
    sums: dict[tuple[str, str], list[float]] = {}
    for each in rows.cores:
        core = each.events
        for (engine, opcode), chosen in _by_opcode(each).items():
            row = sums.setdefault((engine, opcode), [0, 0.0, 0.0])
            row[0] += int(core.weight[chosen].sum())
            row[1] += each.instruction_ns(chosen)
            row[2] += each.joined_ns(chosen)
    total = rows.profile.timeline.ns * len(rows.cores) or 1.0
    return {
        "engine": [TITLES[engine] for engine, _ in sums],
        "opcode": [opcode for _, opcode in sums],
        "instruction_count": [int(row[0]) for row in sums.values()],
        "instruction_time_ns": whole([row[1] for row in sums.values()]),
        "active_time_ns": whole([row[2] for row in sums.values()]),
        "active_time_percent": [min(1.0, row[2] / total) for row in sums.values()],
    }


def _by_opcode(rows: EngineRows) -> dict[tuple[str, str], Column]:
    names = list(zip(rows.engines, rows.opcodes, strict=True))
    kinds = {name: kind for kind, name in enumerate(dict.fromkeys(names))}
    of_row = np.array([kinds[name] for name in names], np.int64)[rows.events.number]
    return {name: np.flatnonzero(of_row == kind) for name, kind in kinds.items()}


def active_times(rows: Rows) -> Columns:
    """Table ``ActiveTime``: the times in which each engine works, merged; the names of engines in lower case."""
    return joined(_active(each, engine) for each in rows.cores for engine in TITLES)


def _active(rows: EngineRows, engine: str) -> Columns:
    begins, ends = rows.active(engine)
    return {
        **spread(begins, ends),
        "engine": np.full(len(begins), engine),
        "pcore_idx": np.full(len(begins), rows.events.rank, np.int64),
    }


@by_core
def throttled(rows: CoreRows) -> Columns:
    """Table ``Throttle``: the times in which a slower clock held the Tensor engine up."""
    core = rows.events
    slow = np.flatnonzero(core.throttled > 1e-6)
    begins, ends = merged(core.start[slow], core.release[slow])
    return {**spread(begins, ends), "pcore_idx": np.full(len(begins), core.rank, np.int64)}


def steps(changes: Sequence[tuple[float, float]]) -> tuple[Column, Column]:
    """A quantity over time from its changes at times: times without repetition, and the value from each of them on."""
    if not changes:
        return np.zeros(0), np.zeros(0)
    times, amounts = (np.array(column) for column in zip(*changes, strict=True))
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(amounts[order])
    last = np.concatenate((times[1:] > times[:-1], [True]))
    return times[last], values[last]


def _placed(core: CoreEvents, buffer: Buffer) -> Iterator[tuple[Tensor, int, int, float, float]]:
    """The tiles of a memory: tensor, first partition, first byte, begin and end of its use."""
    placement = core.timeline.core.placement
    for tensor, begin, end in core.tiles():
        if tensor.buffer is buffer and tensor in placement:
            address = placement[tensor]
            yield tensor, address[0], address[1], begin, end


def _sampled(core: CoreEvents, series: dict[str, list[tuple[float, float]]]) -> Columns:
    """Several quantities at the times at which any of them changes; each is a part of 1."""
    stepped: dict[str, tuple[list[float], list[float]]] = {}
    for name, changes in series.items():
        own, values = (column.tolist() for column in steps(changes))
        repeat(core, own, values)
        stepped[name] = own, values
    times = np.unique([time for own, _ in stepped.values() for time in own])
    columns: Columns = {"timestamp": whole(times), "pcore_idx": np.full(len(times), core.rank, np.int64)}
    for name, (own, values) in stepped.items():
        index = np.searchsorted(own, times, side="right") - 1
        at_times = np.where(index >= 0, np.array(values)[index], 0.0) if own else np.zeros(len(times))
        columns[name] = np.clip(np.where(np.abs(at_times) < 1e-12, 0.0, at_times), 0.0, 1.0)  # sums leave a rest
    return columns


@by_core
def sbuf_usage(rows: CoreRows) -> Columns:
    """Table ``SbufUsage``: the part of SBUF that tiles take, on the average and on four partitions."""
    core, target = rows.events, rows.whole.profile.target
    series: dict[str, list[tuple[float, float]]] = {"avg_util_percent": []}
    series |= {f"partition_{quarter}_util_percent": [] for quarter in QUARTERS}
    for tensor, first, _, begin, end in _placed(core, Buffer.sbuf):
        part = tensor.bytes_per_partition / target.sbuf_partition_bytes
        average = part * tensor.shape[0] / target.partitions
        series["avg_util_percent"] += [(begin, average), (end, -average)]
        for quarter in QUARTERS:
            if first <= quarter < first + tensor.shape[0]:
                series[f"partition_{quarter}_util_percent"] += [(begin, part), (end, -part)]
    return _sampled(core, series)


@by_core
def psum_usage(rows: CoreRows) -> Columns:
    """Table ``PsumUsage``: the part of PSUM that tiles take, on the average and by bank."""
    core, target = rows.events, rows.whole.profile.target
    bank_bytes = target.psum_bank_bytes
    series: dict[str, list[tuple[float, float]]] = {"avg_util_percent": []}
    series |= {f"bank_{bank}_util_percent": [] for bank in range(target.psum_banks)}
    for tensor, _, byte, begin, end in _placed(core, Buffer.psum):
        share = tensor.shape[0] / target.partitions
        average = share * tensor.bytes_per_partition / target.psum_partition_bytes
        series["avg_util_percent"] += [(begin, average), (end, -average)]
        for bank in range(target.psum_banks):
            own = min(byte + tensor.bytes_per_partition, (bank + 1) * bank_bytes) - max(byte, bank * bank_bytes)
            if own > 0:
                part = share * own / bank_bytes
                series[f"bank_{bank}_util_percent"] += [(begin, part), (end, -part)]
    return _sampled(core, series)


@by_core
def hbm_usage(rows: CoreRows) -> Columns:
    """Table ``HbmUsage``: bytes per second to and from HBM, and the bytes so far."""
    core = rows.events
    times, rates = throughput(core)
    moved = np.concatenate(([0.0], np.cumsum(rates[:-1] * np.diff(times)))) if len(times) else times
    return {
        "timestamp": whole(times),
        "current_throughput": rates * 1e9,
        "total_transfer_bytes": np.rint(moved).astype(np.int64),
        "pcore_idx": np.full(len(times), core.rank, np.int64),
    }


def throughput(core: CoreEvents) -> tuple[Column, Column]:
    """Bytes per ns between HBM and the core over time, each transfer at its mean rate."""
    moved = np.array([traffic.reads[0] + traffic.writes[0] for traffic in core.traffic], np.float64)
    rows = np.flatnonzero(core.is_dma & (core.data_end > core.data_start))
    begins, ends = core.data_start[rows], core.data_end[rows]
    rates = moved[core.number[rows]] / (ends - begins)
    changes = [*zip(begins.tolist(), rates.tolist(), strict=True), *zip(ends.tolist(), (-rates).tolist(), strict=True)]
    runs = np.ones(len(core), np.int64)
    for skip in core.timeline.skips:  # at their mean rate
        in_loop = rows[(rows >= skip.first) & (rows < skip.last)]
        rate = float((moved[core.number[in_loop]] * runs[in_loop]).sum()) * skip.iterations / skip.ns
        runs[skip.first : skip.last] *= 1 + skip.iterations
        changes += [(skip.begin, rate), (skip.end, -rate)]
    times, values = steps(changes)
    return times, np.where(np.abs(values) < 1e-9, 0.0, values)


def allocations(rows: Rows) -> Columns:
    """Table ``SbufAllocation``: each tile in SBUF, its address on a partition, and the time of its use."""
    names = ("start_ts", "end_ts", "start_address", "end_address", "partition", "num_partitions", "tensor_name")
    result: Columns = {name: [] for name in (*names, "pcore_idx")}
    for core in rows.profile.cores:
        for tensor, first, byte, begin, end in _placed(core, Buffer.sbuf):
            values = (round(begin), round(end), byte, byte + tensor.bytes_per_partition, first, tensor.shape[0])
            for name, value in zip(result, (*values, tensor.name, core.rank), strict=True):
                result[name].append(value)
    return result


def tensors(rows: Rows) -> Columns:
    """Table ``TensorInfo``: inputs, outputs and constants, and how often each is loaded."""
    signature = rows.profile.program.signature
    kinds = [(tensor, "IN") for tensor in signature.inputs] + [(tensor, "OUT") for tensor in signature.outputs]
    kinds += [(tensor, "WEIGHT") for core in rows.profile.program.cores[:1] for tensor in core.constants()]
    loads = _loads(rows)
    result: Columns = {name: [] for name in ("variable_name", "type", "format", "shape", "size")}
    loaded = ("avg_size_bytes", "total_size_bytes", "dma_count", "repeat_factor")
    result |= {f"load_to_sbuf_{name}": [] for name in loaded}
    for tensor, kind in kinds:
        count, moved = loads.get(tensor, (0, 0)) if kind != "OUT" else (0, 0)
        values = (tensor.name, kind, tensor.dtype.name, str(list(tensor.shape)), tensor.nbytes)
        average, repeats = moved / count if count else 0.0, moved / tensor.nbytes if tensor.nbytes else 0.0
        for name, value in zip(result, (*values, average, moved, count, repeats), strict=True):
            result[name].append(value)
    return result


def _loads(rows: Rows) -> dict[Tensor, tuple[int, int]]:
    """Transfers out of each tensor in HBM, and their bytes, over all cores."""
    loads: dict[Tensor, tuple[int, int]] = {}
    for core in rows.profile.cores:
        pairs = zip(core.instructions, core.estimates, core.runs.tolist(), strict=True)
        for inst, estimate, runs in pairs:
            for access in inst.reads() if isinstance(estimate, Dma) else ():
                if access.buffer.is_hbm:
                    count, moved = loads.get(access.tensor, (0, 0))
                    loads[access.tensor] = count + runs, moved + access.nbytes * runs
    return loads
