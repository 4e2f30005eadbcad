"""The fields of ``summary-json``: type and meaning of each, with its unit."""

from __future__ import annotations

from typing import Final

from nki.profiling.summary import ENGINES, GENERATORS, SOURCE

Row = tuple[str, type, str]

_HEAD: Final[tuple[Row, ...]] = (
    ("source", str, f"`{SOURCE}`: a prediction, no measurement"),
    ("kernel", str, "the name of the kernel"),
    ("target", str, "`trn1`, `trn2` or `trn3`"),
    ("total_time", float, "what a profiler on the device would show: `device_time` and `capture_time`; s"),
    ("total_time_min", float, "the least of its interval; s"),
    ("total_time_max", float, "the greatest of its interval; s"),
    ("device_time", float, "the time on the device, from the first instruction to the last result; s"),
    ("capture_time", float, "start-up and tear-down of a captured execution beside that; s"),
    ("launch_time", float, "the time of a launch beside `device_time`; s"),
    ("latency", float, "what a benchmark on the device would show: `device_time` and `launch_time`; s"),
    ("latency_min", float, "the least latency of the interval; s"),
    ("latency_max", float, "the greatest latency of the interval; s"),
    ("latency_lower_bound", float, "what no order of these instructions beats; s"),
    ("latency_lower_bound_resource", str, "the engine or resource that says so, or `dependences`"),
    ("spare_loads", int, "loads of rows that SBUF still holds, which a compiler may leave out"),
    ("total_active_time", float, "the time in which anything works on the busiest core; s"),
    ("total_active_time_percent", float, "the same as a part of `total_time` of all cores; of 1"),
    ("neuroncore_cycle_count", int, "`total_time` in cycles of the Vector engine"),
    ("event_count", int, "replayed instructions: each ends with one update of a semaphore"),
    ("trace_count", int, "replayed instructions, transfers and updates of semaphores"),
)
_PRODUCTS: Final[tuple[Row, ...]] = (
    ("model_flops", int, "operations of matrix products, without transposes"),
    ("hardware_flops", int, "operations of the Tensor engine"),
    ("transpose_flops", int, "operations of the Tensor engine that only move data"),
    ("adjusted_hardware_flops", int, "operations as those of 16-bit operands that take the same cycles"),
    ("adjusted_transpose_flops", int, "the same, of transposes"),
    ("mfu_estimated_percent", float, "MFU: operations of products by what the Tensor engines can do; of 1"),
    ("hfu_estimated_percent", float, "adjusted operations by what the Tensor engines do with 16-bit operands; of 1"),
    ("mm_arithmetic_intensity", float, "operations of products per byte to and from HBM"),
    ("peak_flops_bandwidth_ratio", float, "the intensity from which on the Tensor engine is the limit; per byte"),
    ("matmul_instruction_count", int, "executed instructions of the Tensor engine's array"),
    ("activate_instruction_count", int, "executed instructions that apply an activation function"),
    ("activate_instruction_time", float, "their times until their results are there, added up; s"),
)
_BYTES: Final[tuple[Row, ...]] = (
    *(
        (f"{memory}_{way}_bytes", int, f"bytes {text} {memory.upper()}")
        for memory in ("hbm", "sbuf", "psum")
        for way, text in (("read", "read from"), ("write", "written to"))
    ),
    ("spill_save_bytes", int, "bytes that spills store in HBM"),
    ("spill_reload_bytes", int, "bytes that spills load again"),
    ("mbu_estimated_percent", float, "MBU: time that the DMA engines need for all bytes of HBM; of `total_time`"),
    ("weight_size_bytes", int, "bytes of constants in HBM"),
    ("inputs_and_weights_size_bytes", int, "bytes of inputs and constants"),
    ("inputs_outputs_weights_size_bytes", int, "bytes of inputs, outputs and constants"),
)
_ENGINES: Final[tuple[Row, ...]] = tuple(
    row
    for engine in ENGINES
    for row in (
        (
            f"{engine}_engine_active_time",
            float,
            f"the time in which {engine} works on an instruction or more, over all cores; s",
        ),
        (f"{engine}_engine_active_time_percent", float, "the same as a part of `total_time` of all cores; of 1"),
        (
            f"{engine}_engine_instruction_time",
            float,
            "times of its instructions until their results are there, and of DMA triggers, added up; s",
        ),
        (f"{engine}_engine_instruction_count", int, "executed instructions of its queue, DMA triggers included"),
    )
)
_TRANSFERS: Final[tuple[Row, ...]] = (
    ("dma_active_time", float, "the time in which data moves, over all cores; s"),
    ("dma_active_time_percent", float, "the same as a part of `total_time` of all cores; of 1"),
    ("dma_active_cycles", int, "the same in cycles of the Vector engine"),
    ("dma_transfer_time", float, "the times of all transfers, added up; s"),
    ("dma_transfer_count", int, "transfers"),
    ("dma_transfer_total_bytes", int, "their bytes"),
    ("dma_transfer_average_bytes", float, "bytes per transfer"),
    ("dma_queue_count", int, "DMA rings in use"),
    ("dma_packet_time", float, "the times of all packets of copies on all DMA engines, added up; s"),
)
_ABOUT: Final = {
    "static": "transfers with descriptors in HBM",
    "software_dynamic": "transfers with descriptors that GpSimd makes",
    "hardware_dynamic": "transfers with descriptors that Sync's or Scalar's hardware makes",
    "dynamic": "transfers of both dynamic kinds",
}
_GENERATED: Final[tuple[Row, ...]] = tuple(
    row
    for kind in GENERATORS
    for row in (
        (f"{kind}_dma_active_time_percent", float, f"the time in which {_ABOUT[kind]} move; of 1"),
        (f"{kind}_dma_size_percent", float, "their bytes as a part of all; of 1"),
        (f"{kind}_dma_packet_percent", float, "their packets as a part of all, of copies; of 1"),
        *(
            ()
            if kind == "dynamic"
            else (
                (f"{kind}_dma_active_time", float, "s"),
                (f"{kind}_dma_size", int, "their bytes"),
                (f"{kind}_dma_packet_count", int, "their packets, of copies"),
            )
        ),
    )
)
FIELDS: Final[tuple[Row, ...]] = (*_HEAD, *_PRODUCTS, *_BYTES, *_ENGINES, *_TRANSFERS, *_GENERATED)
"""The fields of a summary in order, without ``version``: name, type, meaning with the unit (``of 1``: a fraction)."""
