"""What a NeuronCore generation is to this project: a row of numbers, each with the place where it was found.

A :class:`Target` is read like any object (``target.partitions`` is an ``int``); ``target.source("partitions")`` says
where the number comes from and ``target.fact("partitions")`` gives value, unit, source and kind together. No logic
belongs here: what follows from a number is decided by the code that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Self, TypeVar, overload

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
    disagree, ``source`` names the one that lost, too.
    """

    value: T
    unit: str
    source: str
    kind: Kind = "docs"


class Known(Generic[T]):
    """A field of :class:`Target`: given as a :class:`Fact`, read as its plain value."""

    name: str

    def __set_name__(self, owner: type[Target], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, target: None, owner: type[Target]) -> Self: ...
    @overload
    def __get__(self, target: Target, owner: type[Target]) -> T: ...
    def __get__(self, target: Target | None, owner: type[Target]) -> Self | T:
        if target is None:
            raise AttributeError(self.name)  # so that the dataclass takes the field for a required one
        return vars(target)[self.name].value

    def __set__(self, target: Target, fact: Fact[T]) -> None:
        vars(target)[self.name] = fact


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Target:
    """One generation. Sizes are bytes, clocks GHz, latencies ns, rates GB/s (10^9 bytes per second, or bytes per ns).

    Cycles are those of the engine that the field names. "Free" sizes count elements per partition.
    """

    name: str
    generation: int
    aliases: tuple[str, ...]
    core: str

    # Memory. "Usable" is what a kernel gets after what the runtime keeps for itself.
    cores_per_chip: Known[int] = Known()
    logical_core_max: Known[int] = Known()
    partitions: Known[int] = Known()
    quadrant_partitions: Known[int] = Known()
    sbuf_partition_bytes: Known[int] = Known()
    sbuf_usable_partition_bytes: Known[int] = Known()
    sbuf_align_bytes: Known[int] = Known()
    psum_partition_bytes: Known[int] = Known()
    psum_banks: Known[int] = Known()
    psum_bank_bytes: Known[int] = Known()
    psum_align_bytes: Known[int] = Known()
    hbm_bytes: Known[int] = Known()

    # What instructions accept. matmul_moving_free_max is keyed by the dtype of the result, which makes its keys the
    # dtypes that a matmul may write; gemm_moving_fmax is the constant of the same purpose that kernels read.
    matmul_dtypes: Known[frozenset[DType]] = Known()
    matmul_stationary_free_max: Known[int] = Known()
    matmul_moving_free_max: Known[Mapping[DType, int]] = Known()
    gemm_moving_fmax: Known[int] = Known()
    matmul_row_tiles: Known[tuple[int, ...]] = Known()
    matmul_transpose_mode: Known[bool] = Known()
    matmul_double_row: Known[bool] = Known()
    matmul_mx: Known[bool] = Known()
    matmul_accumulates_foreign_psum: Known[bool] = Known()
    bn_stats_free_max: Known[int] = Known()
    vector_sbuf_free_max: Known[int] = Known()
    vector_psum_free_max: Known[int] = Known()
    vector_gpsimd_share_sbuf: Known[bool] = Known()
    vector_scalar_share_psum: Known[bool] = Known()
    hardware_dge: Known[bool] = Known()

    # Tensor engine
    tensor_clock_ghz: Known[float] = Known()
    tensor_tflops: Known[Mapping[str, float]] = Known()
    matmul_min_interval_cycles: Known[int] = Known()
    matmul_issue_cycles: Known[int] = Known()
    matmul_fp32_factor: Known[int] = Known()
    matmul_latency_ns: Known[float] = Known()
    stationary_load_speedup: Known[int] = Known()
    tensor_ramp_fraction: Known[float] = Known()
    tensor_ramp_ns: Known[float] = Known()

    # Vector, Scalar and GpSimd engines. Widths are elements per cycle over all partitions.
    vector_clock_ghz: Known[float] = Known()
    scalar_clock_ghz: Known[float] = Known()
    gpsimd_clock_ghz: Known[float] = Known()
    vector_width_16bit: Known[int] = Known()
    vector_width_32bit: Known[int] = Known()
    scalar_width_16bit: Known[int] = Known()
    scalar_width_32bit: Known[int] = Known()
    min_interval_cycles: Known[int] = Known()
    access_start_cycles: Known[int] = Known()
    vector_dependent_cycles: Known[int] = Known()
    scalar_issue_cycles: Known[int] = Known()
    scalar_latency_ns: Known[float] = Known()
    scalar_read_accumulator_cycles: Known[int] = Known()
    activation_table_load_ns: Known[float] = Known()
    gpsimd_issue_cycles: Known[int] = Known()
    semaphore_ns: Known[float] = Known()
    semaphores: Known[int] = Known()

    # DMA and HBM. A transfer costs trigger + start + bytes over rate + completion.
    dma_engines: Known[int] = Known()
    dma_queues_per_engine: Known[int] = Known()
    dma_engine_peak_gbps: Known[float] = Known()
    dma_engine_sustained_gbps: Known[float] = Known()
    dma_packet_bytes: Known[int] = Known()
    dma_trigger_ns: Known[float] = Known()
    dma_start_ns: Known[float] = Known()
    dma_completion_ns: Known[float] = Known()
    dma_accumulate_efficiency: Known[float] = Known()
    dma_transpose_efficiency: Known[float] = Known()
    hbm_chip_gbps: Known[float] = Known()
    hbm_core_gbps: Known[float] = Known()

    def fact(self, field: str) -> Fact[Any]:
        """The fact behind the field of that name; ``KeyError`` when there is none."""
        return self.facts()[field]

    def facts(self) -> dict[str, Fact[Any]]:
        """Every fact of this target by the name of its field, in the order of declaration."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Fact)}

    def source(self, field: str) -> str:
        """Where the number in that field comes from."""
        return self.fact(field).source

    def __repr__(self) -> str:
        return f"Target({self.name})"

    def __str__(self) -> str:
        return self.name
