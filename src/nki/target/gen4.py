"""NeuronCore-v4: trn3.

Nobody has published a timing of a single instruction or kernel on trn3, so most latencies here are the values of trn2
and marked as guesses.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from nki.base.dtype import bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2, float16, float32, tfloat32
from nki.target.model import GIB, KIB, Fact, Target

_GUIDE: Final = "Trainium3 Architecture Guide for NKI"
_GUIDE3: Final = "Trainium2 Architecture Guide for NKI"
_GUIDE2: Final = "Trainium/Inferentia2 Architecture Guide for NKI"
_MATMUL: Final = "NKI reference, nki.isa.nc_matmul"
_KLR: Final = "KLR (public open-source front end for NKI), per-generation constants of tile_size"
_DMA: Final = "Introduction to Direct Memory Access (DMA) with NKI"
_DRIVER: Final = "aws-neuron-driver (public source of the kernel driver)"
_AS_TRN2: Final = "the value of trn2; nothing published"

GEN4: Final = Target(
    name="trn3",
    generation=4,
    aliases=("trn3", "gen4"),
    core="NeuronCore-v4",
    cores_per_chip=Fact(8, "cores", f"{_GUIDE}: introduction"),
    logical_core_max=Fact(2, "cores", "NKI reference, nki.jit: kernels are launched on one or two cores"),
    partitions=Fact(128, "partitions", f"{_GUIDE}: SBUF holds tensors of 128 partitions"),
    quadrant_partitions=Fact(32, "partitions", f"{_GUIDE}: Quad-MXFP8/MXFP4 Matmul Performance, scale layout"),
    start_partitions=Fact(
        ((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,))), "partitions", f"{_GUIDE2}: SBUF and PSUM access; unchanged"
    ),
    gpsimd_core_partitions=Fact(16, "partitions", "NKI reference, nki.isa.local_gather"),
    sbuf_partition_bytes=Fact(256 * KIB, "bytes", f"{_GUIDE}: NeuronCore-v4 Compute Engine Updates (32 MiB over 128)"),
    sbuf_usable_partition_bytes=Fact(245752, "bytes", f"{_KLR}: 256 KiB less 16 KiB and 8 bytes reserved"),
    sbuf_align_bytes=Fact(1, "bytes", f"{_KLR}; the reference names the constant and not its value"),
    psum_partition_bytes=Fact(16 * KIB, "bytes", f"{_GUIDE}: NeuronCore-v4 Compute Engine Updates (2 MiB over 128)"),
    psum_banks=Fact(8, "banks", f"{_MATMUL}: Tile size (8 banks are the entire PSUM)"),
    psum_bank_bytes=Fact(2 * KIB, "bytes", f"{_GUIDE2}: Near-memory accumulation in PSUM; unchanged"),
    psum_align_bytes=Fact(4, "bytes", f"{_KLR}; the reference names the constant and not its value"),
    hbm_bytes=Fact(144 * GIB, "bytes", f"{_GUIDE}: introduction; per chip"),
    matmul_dtypes=Fact(
        frozenset((float8_e4m3, float8_e4m3fn, float8_e5m2, bfloat16, float16, tfloat32, float32)),
        "dtypes",
        f"{_MATMUL}: Data types",
    ),
    matmul_stationary_free_max=Fact(128, "elements", f"{_MATMUL}: Tile size"),
    matmul_moving_free_max=Fact(
        MappingProxyType({float32: 4096, bfloat16: 8192}),
        "elements",
        f"{_MATMUL}: Tile size; {_GUIDE}: BF16 Matmul Results in PSUM",
    ),
    gemm_moving_fmax=Fact(512, "elements", f"{_KLR}: 512 for every generation"),
    matmul_row_tiles=Fact((32, 64, 128), "rows", f"{_MATMUL}: Tiling mode"),
    matmul_transpose_mode=Fact(True, "", f"{_GUIDE3}: Built-in Transpose Support"),
    matmul_accumulates_foreign_psum=Fact(True, "", f"{_MATMUL}: Accumulation mode, note (limits v2 and v3 only)"),
    bn_stats_free_max=Fact(512, "elements", "NKI reference, nki.isa.bn_stats"),
    access_pattern_dims=Fact(5, "dimensions", "NKI access-pattern guide; on chip, the partitions among them"),
    vector_transpose_max=Fact(32, "elements", "NKI reference, nki.isa.nc_transpose; and partitions"),
    vector_rng_words=Fact(24, "words", "NKI reference, nki.isa.rand_set_state; four generators of six words a lane"),
    max8_free_max=Fact(16384, "elements", "NKI reference, nki.isa.max8"),
    local_gather_runs=Fact((1, 2, 4, 8, 16, 32), "elements", "NKI reference, nki.isa.local_gather"),
    local_gather_indices_max=Fact(4096, "indices", "NKI reference, nki.isa.local_gather; per GpSimd core"),
    topk_numbers_min=Fact(8, "numbers", "NKI reference, nki.isa.topk"),
    topk_numbers_max=Fact(65535, "numbers", "NKI reference, nki.isa.topk"),
    topk_results_max=Fact(32767, "numbers", "NKI reference, nki.isa.topk"),
    offset_group_partitions=Fact(16, "partitions", "NKI reference, NkiTensor.indirect"),
    tensor_offset_group_partitions=Fact(32, "partitions", "NKI reference, NkiTensor.indirect"),
    mx_scale_partitions=Fact(8, "partitions", "MXFP Matrix Multiplication with NKI on AWS Neuron, Scale Tensor"),
    mx_scale_shifts=Fact(
        (0, 4, 8, 12), "partitions", "MXFP Matrix Multiplication with NKI on AWS Neuron, Packing Scale Values"
    ),
    dma_sources_max=Fact(16, "tensors", "NKI reference, nki.isa.dma_compute"),
    dma_priorities=Fact(4, "levels", "NKI reference, nki.isa.dma_copy: 0 to 3"),
    dma_transpose_block_rows=Fact(16, "rows", "NKI reference, nki.isa.dma_transpose, direct and indirect transpose"),
    gpsimd_dma_elements=Fact(256, "elements", "NKI reference, nki.isa.sendrecv: 1024 bytes of a 32-bit dtype"),
    vector_gpsimd_share_sbuf=Fact(True, "", f"{_GUIDE3}: Data Movement Updates; unchanged"),
    vector_scalar_share_psum=Fact(True, "", f"{_GUIDE3}: Data Movement Updates; unchanged"),
    memory_handover=Fact(0.0, "", f"{_GUIDE3}: Data Movement Updates; engines share both memories"),
    tensor_clock_ghz=Fact(2.4, "GHz", f"{_GUIDE}: table of compute engines"),
    matmul_min_interval_cycles=Fact(64, "cycles", _AS_TRN2, "guess"),
    matmul_issue_cycles=Fact(10, "cycles", _AS_TRN2, "guess", (5, 15)),
    matmul_fp32_factor=Fact(4, "", f"{_GUIDE}: Tensor Engine, 79 against 20 TFLOPS"),
    matmul_fp32_instructions=Fact(
        2,
        "instructions",
        "Neuron Explorer, profile schema reference, raw_flops: each FP32 matmul lowers to two FP32_LO_HI instructions",
    ),
    matmul_latency_ns=Fact(160.0, "ns", _AS_TRN2, "guess", (80.0, 240.0)),
    stationary_load_speedup=Fact(4, "", _AS_TRN2, "guess"),
    stationary_load_cycles=Fact(0, "cycles", _AS_TRN2, "guess"),
    tensor_activity_limit=Fact(1.0, "", "the value of trn2; tensor_throttle_fraction lowers the clock", "guess"),
    tensor_throttle_fraction=Fact(0.5, "", "Neuron Explorer, Overview: the Tensor engine starts near half rate"),
    tensor_throttle_window_cycles=Fact(8192, "cycles", _AS_TRN2, "guess", (4096, 16384)),
    tensor_throttle_raise=Fact(0.75, "", _AS_TRN2, "guess"),
    tensor_throttle_lower=Fact(0.375, "", _AS_TRN2, "guess", (0.32, 0.4)),
    tensor_throttle_idle_rows=Fact(1.0, "", _AS_TRN2, "guess", (0.0, 1.0)),
    tensor_throttle_idle_columns=Fact(0.0, "", _AS_TRN2, "guess", (0.0, 1.0)),
    tensor_background_transpose=Fact(
        0.9,
        "",
        f"{_GUIDE}: Background Transpose, beside a product or another transpose: close to twice the rate of chains",
        "guess",
        (1.0, 0.0),
    ),
    vector_clock_ghz=Fact(1.2, "GHz", f"{_GUIDE}: table of compute engines"),
    scalar_clock_ghz=Fact(1.2, "GHz", f"{_GUIDE}: table of compute engines"),
    gpsimd_clock_ghz=Fact(1.2, "GHz", f"{_GUIDE}: table of compute engines"),
    strided_access_bytes=Fact(16, "bytes", f"{_GUIDE2}: Performance Consideration, Access pattern; assumed unchanged"),
    strided_access_ns=Fact(
        1.43,
        "ns",
        f"{_GUIDE2}: Performance Consideration, Access pattern; assumed unchanged. Slower with the base clock of trn2",
        "guess",
        (0.83, 1.67),
    ),
    strided_matmul_cycles=Fact(2.0, "cycles", _AS_TRN2, "guess", (1.0, 4.0)),
    vector_gpsimd_bus_part=Fact(0.5, "", _AS_TRN2, "guess", (0.0, 1.0)),
    dynamic_offset_cycles=Fact(600.0, "cycles", _AS_TRN2, "guess", (300, 900)),
    performance_dtypes=Fact(
        frozenset((bfloat16, float16, float8_e4m3, float8_e4m3fn, float8_e5m2)),
        "dtypes",
        f"{_GUIDE}: table of compute engines",
    ),
    vector_width_16bit=Fact(512, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_width_32bit=Fact(256, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_two_tiles_cycles=Fact(1.0, "cycles", _AS_TRN2, "guess", (1.0, 2.0)),
    vector_two_narrow_tiles_cycles=Fact(0.5, "cycles", _AS_TRN2, "guess", (0.5, 1.0)),
    scalar_width_16bit=Fact(256, "elements/cycle", f"{_GUIDE}: table of compute engines; 8-bit floats too"),
    scalar_width_32bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    min_interval_cycles=Fact(64, "cycles", _AS_TRN2, "guess", (38, 82)),
    vector_issue_cycles=Fact(62, "cycles", _AS_TRN2, "guess", (31, 93)),
    vector_column_operand_cycles=Fact(62, "cycles", _AS_TRN2, "guess", (31, 93)),
    vector_latency_ns=Fact(150.0, "ns", _AS_TRN2, "guess", (75.0, 225.0)),
    vector_dependent_cycles=Fact(114, "cycles", _AS_TRN2, "guess", (57, 171)),
    vector_exponentials_per_cycle=Fact(4, "elements/lane", f"{_GUIDE}: Fast Exponential Evaluation"),
    vector_random_per_cycle=Fact(4, "elements/lane", f"{_GUIDE}: random numbers, 4 of 32 bits a lane and cycle"),
    reciprocal_cycles=Fact(6, "cycles", _AS_TRN2, "guess", (3, 9)),
    divisor_cycles=Fact(
        6.0,
        "cycles",
        "reciprocals of a division, on Vector, which has the better precision. The table of operators of release "
        "2.26.1 has them on Scalar, too, where one takes a cycle; nobody says which engine the compiler takes",
        "guess",
        (1.0, 8.0),
    ),
    scalar_issue_cycles=Fact(55, "cycles", _AS_TRN2, "guess", (27, 82)),
    scalar_latency_ns=Fact(158.0, "ns", _AS_TRN2, "guess", (79.0, 237.0)),
    scalar_dependent_ns=Fact(147.0, "ns", _AS_TRN2, "guess", (73.5, 220.5)),
    activation_issue_cycles=Fact(197, "cycles", _AS_TRN2, "guess", (98, 296)),
    activation_latency_ns=Fact(270.0, "ns", _AS_TRN2, "guess", (135.0, 405.0)),
    scalar_read_accumulator_cycles=Fact(64, "cycles", _AS_TRN2, "guess", (32, 96)),
    activation_table_load_ns=Fact(1283.0, "ns", _AS_TRN2, "guess", (368.0, 1925.0)),
    activation_table_swap_ns=Fact(
        642.0,
        "ns",
        "functions are in sets (Neuron Runtime, Work with NEFF files), of which four have published names: the middle "
        "of nothing and a load where others are concerned",
        "guess",
        (0.0, 1283.0),
    ),
    gpsimd_issue_cycles=Fact(150, "cycles", _AS_TRN2, "guess", (75, 225)),
    gpsimd_elements_per_start=Fact(512, "elements", "as GpSimd's iota", "guess", (1024, 256)),
    gpsimd_partition_reduce_cycles=Fact(
        8, "cycles", "two of the 16 partitions of a processor at a time", "guess", (4, 16)
    ),
    gpsimd_power_cycles=Fact(
        4.0,
        "cycles",
        "that of the reverse square root, a quarter of Scalar's throughput (NKI ISA API Common Fields); a power has no "
        "published cost",
        "guess",
        (1.0, 8.0),
    ),
    gpsimd_dma_gbps=Fact(153.0, "GB/s", _AS_TRN2, "guess", (307.0, 76.0)),
    gpsimd_dma_latency_ns=Fact(
        300.0,
        "ns",
        "the reference calls it low; between two semaphores and a transfer of the DMA engines",
        "guess",
        (70.0, 1300.0),
    ),
    register_load_ns=Fact(530.0, "ns", _AS_TRN2, "guess", (265.0, 795.0)),
    register_store_ns=Fact(95.0, "ns", _AS_TRN2, "guess", (47.5, 142.5)),
    sequencer_ns=Fact(50.0, "ns", _AS_TRN2, "guess", (25.0, 75.0)),
    semaphore_ns=Fact(35.0, "ns", _AS_TRN2, "guess", (17.5, 52.5)),
    remote_semaphore_ns=Fact(
        240.0,
        "ns",
        _AS_TRN2,
        "guess",
        (35.0, 1300.0),
    ),
    semaphores=Fact(256, "semaphores", f"{_DRIVER}: 256 per core on trn1 and trn2; it has no map of trn3 yet", "guess"),
    launch_ns=Fact(7720.0, "ns", _AS_TRN2, "guess", (5000.0, 12000.0)),
    unpublished_cost=Fact(1.0, "", "factor on cycles that no document gives", "guess", (0.5, 2.0)),
    dma_hardware_descriptors=Fact(True, "", "Trainium2 Architecture Guide for NKI: DGE; unchanged"),
    dma_engines=Fact(16, "engines", f"{_DMA}: introduction; per core"),
    dma_queues_per_engine=Fact(16, "queues", f"{_DMA}: DMA Queues"),
    dma_engine_by_partition=Fact(
        1.0,
        "",
        f"{_DMA}: an engine is typically responsible for eight partitions; rows of four of them go through one engine, "
        "there and back. Not said: if other engines ever help",
        "docs",
        (0.0, 1.0),
    ),
    dma_engine_peak_gbps=Fact(38.4, "GB/s", f"{_DMA}: Basic DMA Capabilities"),
    dma_engine_sustained_gbps=Fact(33.0, "GB/s", f"{_DMA}: Performance Considerations"),
    dma_engine_store_gbps=Fact(
        33.0,
        "GB/s",
        "the rate of loads; on trn1 and trn2 stores are faster, up to the peak of an engine",
        "guess",
        (38.4, 33.0),
    ),
    dma_packet_bytes=Fact(4 * KIB, "bytes", "Neuron Runtime documentation, Compute-Communication Overlap: default"),
    dma_packet_overhead_ns=Fact(16.0, "ns", _AS_TRN2, "guess", (5.0, 26.0)),
    dma_store_overhead_ns=Fact(5.0, "ns", _AS_TRN2, "guess", (2.0, 26.0)),
    dma_cast_packet_bytes=Fact(512, "bytes", _AS_TRN2, "guess", (4096, 512)),
    dma_cast_overhead_ns=Fact(21.0, "ns", _AS_TRN2, "guess", (5.0, 26.0)),
    dma_trigger_ns=Fact(565.0, "ns", _AS_TRN2, "guess", (283.0, 848.0)),
    dma_start_ns=Fact(441.0, "ns", _AS_TRN2, "guess", (59.0, 1155.0)),
    dma_hardware_trigger_ns=Fact(565.0, "ns", _AS_TRN2, "guess", (283.0, 848.0)),
    dma_hardware_start_ns=Fact(770.0, "ns", _AS_TRN2, "guess", (385.0, 1155.0)),
    dma_software_trigger_ns=Fact(587.0, "ns", _AS_TRN2, "guess", (294.0, 880.0)),
    dma_software_start_ns=Fact(45.0, "ns", _AS_TRN2, "guess", (22.0, 214.0)),
    dma_row_indices_ns=Fact(0.0, "ns", _AS_TRN2, "guess", (0.0, 587.0)),
    dma_static_start_ns=Fact(956.0, "ns", _AS_TRN2, "guess", (478.0, 1434.0)),
    dma_spread_ns=Fact(430.0, "ns", _AS_TRN2, "guess", (215.0, 645.0)),
    dma_second_load_ns=Fact(
        0.0,
        "ns",
        "no profile of this generation shows the second load of a launch apart; trn1 has 453",
        "guess",
        (0.0, 453.0),
    ),
    dma_completion_ns=Fact(386.0, "ns", _AS_TRN2, "guess", (193.0, 579.0)),
    dma_accumulate_efficiency=Fact(
        0.5,
        "",
        f"{_GUIDE}: SBUF Read-Add-Write: half of the rate where DMA engines compute, as before this generation; "
        "the new way has all of it, and no nki.isa instruction yet",
        "guess",
        (1.0, 0.5),
    ),
    dma_transpose_efficiency=Fact(0.9, "", f"{_GUIDE3}: DMA Transpose; unchanged"),
    dma_transpose_sbuf_efficiency=Fact(0.5, "", f"{_GUIDE3}: DMA Transpose; unchanged"),
    hbm_chip_gbps=Fact(4700.0, "GB/s", f"{_GUIDE}: introduction; the hardware page of trn3 says 4900"),
)
