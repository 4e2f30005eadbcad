"""``summary-json``: the fields of a profile under the names of the public profiler's summary.

Names and meaning: Neuron documentation, Profile Parquet Schema Reference (schema 7.4.0), table Summary. Times are
seconds, and fields named ``…_percent`` fractions, as in published summaries. What the model has no number for is left
out: collectives, the queues of weights, the MFU of a framework's graph, packets of DMA transposes and of GpSimd's own
DMA, and times of throttling by power.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nki.base.version import version
from nki.cost.dma_costs import Packets, packets
from nki.ir.estimate import Dma, Matmul
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer
from nki.isa.tables.opcodes import activates, transposes
from nki.passes.allocation.spilling import ROLE
from nki.profiling.engine_rows import EngineRows
from nki.profiling.events import CoreEvents
from nki.profiling.predicted_run import PredictedRun

SOURCE = "open-nki model"
"""The mark of predictions in files that tools read."""
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
GENERATORS = {
    "static": ("",),
    "software_dynamic": ("gpsimd",),
    "hardware_dynamic": ("sync", "scalar"),
    "dynamic": ("gpsimd", "sync", "scalar"),
}
"""By kind of transfer, the engines that generate its descriptors."""


def summary(profile: PredictedRun) -> dict[str, Any]:
    """The fields of ``profile``, of all its cores together; shares of time are of the cores' mean."""
    target = profile.target
    rows = [EngineRows(core) for core in profile.cores]
    known = times(rows)
    first, second = profile.interval
    return {
        "source": SOURCE,
        "version": version(),
        "kernel": profile.name,
        "target": target.name,
        "total_time": profile.total_time,
        "total_time_min": profile.total_interval[0],
        "total_time_max": profile.total_interval[1],
        "device_time": profile.device_time,
        "capture_time": profile.capture_time,
        "launch_time": profile.launch_time,
        "latency": profile.latency,
        "latency_min": first,
        "latency_max": second,
        "latency_lower_bound": profile.lower_bound.seconds,
        "latency_lower_bound_resource": profile.lower_bound.resource,
        "spare_loads": profile.spare_loads.instructions if profile.spare_loads else 0,
        "total_active_time": _total_active(rows),
        "total_active_time_percent": _share(_total_active(rows), profile),
        "neuroncore_cycle_count": round(profile.total_time * 1e9 * target.vector_clock_ghz),
        **_counts(profile),
        **_products(profile, rows),
        **_memory(profile),
        **_engines(profile, rows, known),
        **_transfers(profile, rows, known),
    }


def _counts(profile: PredictedRun) -> dict[str, int]:
    """Events of the replayed iterations: each instruction and transfer updates one semaphore at its end."""
    updates = sum(map(len, profile.cores))
    transfers = sum(int(core.is_dma.sum()) for core in profile.cores)
    return {"event_count": updates, "trace_count": updates + transfers + updates}


def _share(seconds: float, profile: PredictedRun) -> float:
    """``seconds`` summed over the cores as a part of the profiler's time of all cores."""
    whole = profile.total_time * len(profile.cores)
    return seconds / whole if whole else 0.0


def _device_part(profile: PredictedRun) -> float:
    """The time on the device as a part of the profiler's."""
    return profile.device_time / profile.total_time if profile.total_time else 0.0


def _total_active(rows: Sequence[EngineRows]) -> float:
    """Seconds in which anything works on the busiest core."""
    return max(each.events.timeline.end - each.idle_ns() for each in rows) * 1e-9


def operands_in_sbuf(inst: Inst) -> list[Access]:
    """The operands that a product streams; the sums that it adds to are in PSUM."""
    return [access for access in inst.reads() if access.buffer is Buffer.sbuf]


def adjusted_flops(core: CoreEvents) -> list[int]:
    """Operations of each instruction by dense number, as operations of 16-bit operands that take the same cycles."""
    return [round(e.flops * e.tensor_passes) if isinstance(e, Matmul) else 0 for e in core.estimates]


def _products(profile: PredictedRun, rows: Sequence[EngineRows]) -> dict[str, Any]:
    target = profile.target
    useful = moves = matmuls = activations = 0
    activation_ns = 0.0
    for each in rows:
        core = each.events
        runs = core.runs.tolist()
        columns = core.instructions, core.estimates, adjusted_flops(core), runs
        for inst, estimate, flops, count in zip(*columns, strict=True):
            if isinstance(estimate, Matmul) and estimate.flops:
                matmuls += count
                moves += flops * count if estimate.is_data_movement else 0
                useful += 0 if estimate.is_data_movement else flops * count
            if activates(inst.mnemonic):
                activations += count
                activation_ns += count * (estimate.latency - target.semaphore_ns)
    capacity = profile.peak_flops_16_bit * profile.total_time
    return {
        "model_flops": profile.flops,
        "hardware_flops": profile.flops + profile.transpose_flops,
        "transpose_flops": profile.transpose_flops,
        "adjusted_hardware_flops": useful + moves,
        "adjusted_transpose_flops": moves,
        "mfu_estimated_percent": profile.mfu * _device_part(profile),
        "hfu_estimated_percent": (useful + moves) / capacity if capacity else 0.0,
        "mm_arithmetic_intensity": profile.intensity,
        "peak_flops_bandwidth_ratio": profile.ridge,
        "matmul_instruction_count": matmuls,
        "activate_instruction_count": activations,
        "activate_instruction_time": activation_ns * 1e-9,
    }


def _memory(profile: PredictedRun) -> dict[str, Any]:
    signature = profile.program.signature
    inputs = sum(tensor.nbytes for tensor in signature.inputs)
    outputs = sum(tensor.nbytes for tensor in signature.outputs)
    constants = {tensor.name: tensor.nbytes for core in profile.program.cores for tensor in core.constants()}
    weights = sum(constants.values())
    moved = {f"{name}_bytes": count for name, count in profile.bytes.items()}
    return {
        **moved,
        **_spills(profile),
        "mbu_estimated_percent": profile.mbu * _device_part(profile),
        "weight_size_bytes": weights,
        "inputs_and_weights_size_bytes": inputs + weights,
        "inputs_outputs_weights_size_bytes": inputs + outputs + weights,
    }


def _spills(profile: PredictedRun) -> dict[str, int]:
    """Bytes that the compiler's spills store in HBM and load again."""
    saved = loaded = 0
    for core in profile.cores:
        for inst, runs in zip(core.instructions, core.runs.tolist(), strict=True):
            if (copy := inst.as_copy()) is not None:
                saved += copy.dst.nbytes * runs * (copy.dst.tensor.role == ROLE)
                loaded += copy.src.nbytes * runs * (copy.src.tensor.role == ROLE)
    return {"spill_save_bytes": saved, "spill_reload_bytes": loaded}


def times(rows: Sequence[EngineRows]) -> dict[str, float]:
    """The fields that are times of engines and of transfers, over all cores; seconds."""
    result: dict[str, float] = {}
    for engine in ENGINES:
        result[f"{engine}_engine_active_time"] = sum(each.active_ns(engine) for each in rows) * 1e-9
        ns = sum(each.instruction_ns(each.rows(engine)) for each in rows)
        result[f"{engine}_engine_instruction_time"] = ns * 1e-9
    result["dma_active_time"] = sum(each.active_ns("dma") for each in rows) * 1e-9
    moved = [(core.weight * core.busy)[core.is_dma].sum() for core in (each.events for each in rows)]
    result["dma_transfer_time"] = float(sum(moved)) * 1e-9
    for kind, generators in GENERATORS.items():
        if kind != "dynamic":  # of both kinds together the schema has shares only
            result[f"{kind}_dma_active_time"] = sum(each.transfer_ns(generators) for each in rows) * 1e-9
    return result


def _engines(profile: PredictedRun, rows: Sequence[EngineRows], known: Mapping[str, float]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for engine in ENGINES:
        active = known[f"{engine}_engine_active_time"]
        count = sum(int(each.events.weight[each.rows(engine)].sum()) for each in rows)
        result[f"{engine}_engine_active_time"] = active
        result[f"{engine}_engine_active_time_percent"] = _share(active, profile)
        result[f"{engine}_engine_instruction_time"] = known[f"{engine}_engine_instruction_time"]
        result[f"{engine}_engine_instruction_count"] = count
    return result


def _transfers(profile: PredictedRun, rows: Sequence[EngineRows], known: Mapping[str, float]) -> dict[str, Any]:
    active = known["dma_active_time"]
    count = sum(size.count for size in profile.transfers)
    moved = sum(size.bytes for size in profile.transfers)
    result: dict[str, Any] = {
        "dma_active_time": active,
        "dma_active_time_percent": _share(active, profile),
        "dma_active_cycles": round(active * profile.target.vector_clock_ghz * 1e9),
        "dma_transfer_time": known["dma_transfer_time"],
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": moved,
        "dma_transfer_average_bytes": moved / count if count else 0.0,
        "dma_queue_count": sum(queue.startswith("dma") for each in rows for queue in each.events.queues),
    }
    by_generator = _packets(profile)
    number = sum(each.number for each in by_generator.values())
    result["dma_packet_time"] = sum(each.ns for each in by_generator.values()) * 1e-9
    for kind, generators in GENERATORS.items():
        size = 0
        for each in rows:
            pairs = zip(each.events.estimates, each.events.runs.tolist(), strict=True)
            size += sum(e.bytes * runs for e, runs in pairs if isinstance(e, Dma) and e.dge in generators)
        time = sum(each.transfer_ns(generators) for each in rows) * 1e-9
        result[f"{kind}_dma_active_time_percent"] = _share(time, profile)
        result[f"{kind}_dma_size_percent"] = size / moved if moved else 0.0
        own = sum(by_generator[generator].number for generator in generators)
        result[f"{kind}_dma_packet_percent"] = own / number if number else 0.0
        if kind != "dynamic":
            result[f"{kind}_dma_active_time"] = time
            result[f"{kind}_dma_size"] = size
            result[f"{kind}_dma_packet_count"] = own
    return result


def _packets(profile: PredictedRun) -> dict[str, Packets]:
    """The packets of all copies by the engine that generates their descriptors ("": none does)."""
    result = dict.fromkeys(("", *GENERATORS["dynamic"]), Packets(0, 0.0))
    known: dict[object, list[Packets]] = {}
    for core in profile.cores:
        for inst, estimate, runs in zip(core.instructions, core.estimates, core.runs.tolist(), strict=True):
            if not isinstance(estimate, Dma) or not estimate.occupancy or transposes(inst.mnemonic):
                continue
            if inst.form not in known:
                sides = [(dst, src) for dst in inst.writes() for src in inst.reads() if dst.size == src.size]
                known[inst.form] = [packets(dst, src, profile.target) for dst, src in sides]
            before = result[estimate.dge]
            count = sum(each.number for each in known[inst.form])
            ns = sum(each.ns for each in known[inst.form])
            result[estimate.dge] = Packets(before.number + count * runs, before.ns + ns * runs)
    return result
