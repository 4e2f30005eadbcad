"""Description of one NeuronCore generation: a row of numbers, each with its source.

A :class:`Target` is read like any object (``target.partitions`` is an ``int``); ``target.source("partitions")`` says
where the number comes from and ``target.fact("partitions")`` gives value, unit, source and kind together. No logic
belongs here: what follows from a number is decided by the code that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, Literal, NoReturn, Self, TypeVar, cast, dataclass_transform, overload

from nki.base.dtype import DType

T = TypeVar("T")

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

Kind = Literal["docs", "measured", "guess"]


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One number about the hardware.

    ``kind`` is ``"docs"`` (a public document states it), ``"measured"`` (somebody published a measurement or a
    profiler trace of it) or ``"guess"`` (nobody published it; ``source`` says what the guess rests on). Where sources
    disagree, ``source`` names the one that lost, too. ``range``: the values that a guess may have, or between which
    measurements scatter; the one that makes kernels faster first.
    """

    value: T
    unit: str
    source: str
    kind: Kind = "docs"
    range: tuple[T, T] | None = None


class FactField(Generic[T]):
    """Field of :class:`Target`: set to a :class:`Fact`, read as its plain value."""

    name: str

    def __set_name__(self, owner: type[Target], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, target: None, owner: type[Target]) -> Self: ...
    @overload
    def __get__(self, target: Target, owner: type[Target]) -> T: ...
    def __get__(self, target: Target | None, owner: type[Target]) -> Self | T:
        if target is None:
            raise AttributeError(self.name)
        return vars(target)[self.name].value

    def __set__(self, target: Target, fact: Fact[T]) -> NoReturn:
        raise AttributeError(f"{self.name} of {target} cannot change")


@dataclass_transform(eq_default=False, kw_only_default=True, frozen_default=True)
class _Row:
    """An immutable object whose fields are its class's annotations, all of them required keywords.

    Replaces ``dataclass``, which needs milliseconds to generate code for so many fields.
    """

    def __init__(self, **values: Any) -> None:
        fields = type(self).__annotations__
        if values.keys() != fields.keys():
            wrong = ", ".join(sorted(values.keys() ^ fields.keys()))
            raise TypeError(f"{type(self).__name__}() has missing or unknown fields: {wrong}")
        vars(self).update({field: values[field] for field in fields})

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{name} of {self} cannot change")


class Target(_Row):
    """One generation. Sizes are bytes, clocks GHz, latencies ns, rates GB/s (10^9 bytes per second, or bytes per ns).

    Cycles are those of the engine that the field names. "Free" sizes count elements per partition.
    """

    name: str
    generation: int
    aliases: tuple[str, ...]
    core: str

    # Memory. "Usable" is the part that the runtime leaves to a kernel. start_partitions: for tiles of up to so many
    # partitions, the partitions at which they may start.
    cores_per_chip: FactField[int] = FactField()
    logical_core_max: FactField[int] = FactField()
    partitions: FactField[int] = FactField()
    quadrant_partitions: FactField[int] = FactField()
    start_partitions: FactField[tuple[tuple[int, tuple[int, ...]], ...]] = FactField()
    gpsimd_core_partitions: FactField[int] = FactField()
    sbuf_partition_bytes: FactField[int] = FactField()
    sbuf_usable_partition_bytes: FactField[int] = FactField()
    sbuf_align_bytes: FactField[int] = FactField()
    psum_partition_bytes: FactField[int] = FactField()
    psum_banks: FactField[int] = FactField()
    psum_bank_bytes: FactField[int] = FactField()
    psum_align_bytes: FactField[int] = FactField()
    hbm_bytes: FactField[int] = FactField()

    # What instructions accept. matmul_moving_free_max is keyed by the dtype of the result, which makes its keys the
    # dtypes that a matmul may write; gemm_moving_fmax is the constant of the same purpose that kernels read.
    matmul_dtypes: FactField[frozenset[DType]] = FactField()
    matmul_stationary_free_max: FactField[int] = FactField()
    matmul_moving_free_max: FactField[Mapping[DType, int]] = FactField()
    gemm_moving_fmax: FactField[int] = FactField()
    matmul_row_tiles: FactField[tuple[int, ...]] = FactField()
    matmul_transpose_mode: FactField[bool] = FactField()
    matmul_accumulates_foreign_psum: FactField[bool] = FactField()
    bn_stats_free_max: FactField[int] = FactField()
    access_pattern_dims: FactField[int] = FactField()
    vector_transpose_max: FactField[int] = FactField()
    vector_rng_words: FactField[int] = FactField()
    max8_free_max: FactField[int] = FactField()
    local_gather_runs: FactField[tuple[int, ...]] = FactField()
    local_gather_indices_max: FactField[int] = FactField()
    topk_numbers_min: FactField[int] = FactField()
    topk_numbers_max: FactField[int] = FactField()
    topk_results_max: FactField[int] = FactField()
    offset_group_partitions: FactField[int] = FactField()
    tensor_offset_group_partitions: FactField[int] = FactField()
    mx_scale_partitions: FactField[int] = FactField()
    mx_scale_shifts: FactField[tuple[int, ...]] = FactField()
    dma_sources_max: FactField[int] = FactField()
    dma_priorities: FactField[int] = FactField()
    dma_transpose_block_rows: FactField[int] = FactField()
    gpsimd_dma_elements: FactField[int] = FactField()
    vector_gpsimd_share_sbuf: FactField[bool] = FactField()
    vector_scalar_share_psum: FactField[bool] = FactField()
    memory_handover: FactField[float] = FactField()

    # Tensor engine. Its clock is throttled by windows: after one that is busier than ``raise`` it is at full rate,
    # after one that is less busy than ``lower`` at ``fraction`` of it. ``idle_rows`` is the part in which idle rows of
    # the array, beside rows that work, count as idle; ``idle_columns`` likewise. A transpose beside another instruction
    # costs ``background_transpose`` of the shorter time less.
    tensor_clock_ghz: FactField[float] = FactField()
    matmul_min_interval_cycles: FactField[int] = FactField()
    matmul_issue_cycles: FactField[int] = FactField()
    matmul_fp32_factor: FactField[int] = FactField()
    matmul_fp32_instructions: FactField[int] = FactField()
    matmul_latency_ns: FactField[float] = FactField()
    stationary_load_speedup: FactField[int] = FactField()
    stationary_load_cycles: FactField[int] = FactField()
    tensor_activity_limit: FactField[float] = FactField()
    tensor_throttle_fraction: FactField[float] = FactField()
    tensor_throttle_window_cycles: FactField[int] = FactField()
    tensor_throttle_raise: FactField[float] = FactField()
    tensor_throttle_lower: FactField[float] = FactField()
    tensor_throttle_idle_rows: FactField[float] = FactField()
    tensor_throttle_idle_columns: FactField[float] = FactField()
    tensor_background_transpose: FactField[float] = FactField()

    # Vector, Scalar and GpSimd engines. Widths are elements per cycle over all partitions, for the dtypes of the
    # performance mode (16bit) and for all others; ``two_tiles`` are Vector's cycles per element if it reads two tiles
    # of those others in SBUF, and ``two_narrow_tiles`` those of the mode. An element keeps an interface of SBUF or PSUM
    # for ``strided_access_ns`` if its neighbour is more than ``strided_access_bytes`` away, and an operand of a product
    # takes ``strided_matmul_cycles`` of the Tensor engine for each column of it. GpSimd's own DMA moves data in one
    # direction at ``gpsimd_dma_gbps``, beside the DMA engines; its latency is that of a transfer without bytes.
    # Vector's performance mode and GpSimd have a bus in common, which an instruction keeps for
    # ``vector_gpsimd_bus_part`` of its time. One that reads the offset of an operand from a tile takes at least
    # ``dynamic_offset_cycles``. A division takes ``divisor_cycles`` for each element of the divisor beside its product.
    vector_clock_ghz: FactField[float] = FactField()
    scalar_clock_ghz: FactField[float] = FactField()
    gpsimd_clock_ghz: FactField[float] = FactField()
    strided_access_bytes: FactField[int] = FactField()
    strided_access_ns: FactField[float] = FactField()
    strided_matmul_cycles: FactField[float] = FactField()
    vector_gpsimd_bus_part: FactField[float] = FactField()
    dynamic_offset_cycles: FactField[float] = FactField()
    performance_dtypes: FactField[frozenset[DType]] = FactField()
    vector_width_16bit: FactField[int] = FactField()
    vector_width_32bit: FactField[int] = FactField()
    vector_two_tiles_cycles: FactField[float] = FactField()
    vector_two_narrow_tiles_cycles: FactField[float] = FactField()
    scalar_width_16bit: FactField[int] = FactField()
    scalar_width_32bit: FactField[int] = FactField()
    min_interval_cycles: FactField[int] = FactField()
    vector_issue_cycles: FactField[int] = FactField()
    vector_column_operand_cycles: FactField[int] = FactField()
    vector_latency_ns: FactField[float] = FactField()
    vector_dependent_cycles: FactField[int] = FactField()
    vector_exponentials_per_cycle: FactField[int] = FactField()
    vector_random_per_cycle: FactField[int] = FactField()
    reciprocal_cycles: FactField[int] = FactField()
    divisor_cycles: FactField[float] = FactField()
    scalar_issue_cycles: FactField[int] = FactField()
    scalar_latency_ns: FactField[float] = FactField()
    scalar_dependent_ns: FactField[float] = FactField()
    activation_issue_cycles: FactField[int] = FactField()
    activation_latency_ns: FactField[float] = FactField()
    scalar_read_accumulator_cycles: FactField[int] = FactField()
    activation_table_load_ns: FactField[float] = FactField()
    activation_table_swap_ns: FactField[float] = FactField()
    gpsimd_issue_cycles: FactField[int] = FactField()
    gpsimd_elements_per_start: FactField[int] = FactField()
    gpsimd_partition_reduce_cycles: FactField[int] = FactField()
    gpsimd_power_cycles: FactField[float] = FactField()
    gpsimd_dma_gbps: FactField[float] = FactField()
    gpsimd_dma_latency_ns: FactField[float] = FactField()
    register_load_ns: FactField[float] = FactField()
    register_store_ns: FactField[float] = FactField()
    sequencer_ns: FactField[float] = FactField()
    semaphore_ns: FactField[float] = FactField()
    remote_semaphore_ns: FactField[float] = FactField()
    semaphores: FactField[int] = FactField()
    launch_ns: FactField[float] = FactField()
    unpublished_cost: FactField[float] = FactField()

    # DMA and HBM. A transfer takes trigger + start + bytes over rate + completion. The trigger keeps the queue and the
    # generator of its descriptors: hardware of the Sync or Scalar engine, or software on GpSimd; static descriptors
    # have none. dma_trigger_ns and dma_start_ns hold where the kernel leaves the choice open. Before software writes
    # the descriptors of rows that indices name, it reads the indices (row_indices). The bytes keep the DMA engines,
    # which all queues of a core share; the descriptors of one transfer reach the engines one after the other (spread).
    # The data of the second load of a launch stands still at first (second_load).
    # dma_engine_by_partition is the part of a transfer that the engines of its partitions move alone.
    # A packet takes its bytes, of the wider dtype, at the peak rate and an overhead; one that converts has its own.
    # Stores, from SBUF to HBM, wait for no data of HBM: they have an overhead and a sustained rate of their own.
    dma_hardware_descriptors: FactField[bool] = FactField()
    dma_engines: FactField[int] = FactField()
    dma_queues_per_engine: FactField[int] = FactField()
    dma_engine_by_partition: FactField[float] = FactField()
    dma_engine_peak_gbps: FactField[float] = FactField()
    dma_engine_sustained_gbps: FactField[float] = FactField()
    dma_engine_store_gbps: FactField[float] = FactField()
    dma_packet_bytes: FactField[int] = FactField()
    dma_packet_overhead_ns: FactField[float] = FactField()
    dma_store_overhead_ns: FactField[float] = FactField()
    dma_cast_packet_bytes: FactField[int] = FactField()
    dma_cast_overhead_ns: FactField[float] = FactField()
    dma_trigger_ns: FactField[float] = FactField()
    dma_start_ns: FactField[float] = FactField()
    dma_hardware_trigger_ns: FactField[float] = FactField()
    dma_hardware_start_ns: FactField[float] = FactField()
    dma_software_trigger_ns: FactField[float] = FactField()
    dma_software_start_ns: FactField[float] = FactField()
    dma_row_indices_ns: FactField[float] = FactField()
    dma_static_start_ns: FactField[float] = FactField()
    dma_spread_ns: FactField[float] = FactField()
    dma_second_load_ns: FactField[float] = FactField()
    dma_completion_ns: FactField[float] = FactField()
    dma_accumulate_efficiency: FactField[float] = FactField()
    dma_transpose_efficiency: FactField[float] = FactField()
    dma_transpose_sbuf_efficiency: FactField[float] = FactField()
    hbm_chip_gbps: FactField[float] = FactField()

    def fact(self, field: str) -> Fact[Any]:
        """The fact behind the field of that name; ``KeyError`` when there is none."""
        return self.facts()[field]

    def facts(self) -> dict[str, Fact[Any]]:
        """Every fact of this target by the name of its field, in the order of declaration."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Fact)}

    def source(self, field: str) -> str:
        """Source of the fact in that field."""
        return self.fact(field).source

    def origin(self, field: str) -> tuple[Kind, str]:
        """Kind and source of the fact in that field."""
        fact = self.fact(field)
        return fact.kind, fact.source

    def with_facts(self, facts: Mapping[str, Fact[Any]]) -> Target:
        """The same target with other ``facts``, by the names of their fields."""
        values: dict[str, Any] = {**vars(self), **facts}
        return Target(**values)

    def bound(self, end: Literal[0, 1]) -> Target:
        """The same target with every fact that has a range at the faster end (0) of it, or at the slower (1)."""
        ranged = {name: fact for name, fact in self.facts().items() if fact.range is not None}
        return self.with_facts(
            {name: replace(fact, value=cast("Any", fact.range)[end]) for name, fact in ranged.items()}
        )

    def __repr__(self) -> str:
        return f"Target({self.name})"

    def __str__(self) -> str:
        return self.name
