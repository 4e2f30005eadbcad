"""NeuronCore-v3: trn2."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from nki.base.dtype import bfloat16, float8_e4m3, float8_e5m2, float16, float32, tfloat32
from nki.target.model import GIB, KIB, Fact, Target

_GUIDE: Final = "Trainium2 Architecture Guide for NKI"
_GUIDE2: Final = "Trainium/Inferentia2 Architecture Guide for NKI"
_MATMUL: Final = "NKI reference, nki.isa.nc_matmul"
_KLR: Final = "KLR (public open-source front end for NKI), per-generation constants of tile_size"
_DMA: Final = "Introduction to Direct Memory Access (DMA) with NKI"
_DRIVER: Final = "aws-neuron-driver (public source of the kernel driver)"
_BETA1: Final = "NKI 0.1 reference, nki.isa cost tables"
_TUTORIAL: Final = "Introduction to NKI Kernel Optimization, profiles of fp32 matmuls on trn2"

GEN3: Final = Target(
    name="trn2",
    generation=3,
    aliases=("trn2", "gen3"),
    core="NeuronCore-v3",
    cores_per_chip=Fact(8, "cores", f"{_GUIDE}: introduction"),
    logical_core_max=Fact(2, "cores", "NKI reference, nki.jit: kernels are launched on one or two cores"),
    partitions=Fact(128, "partitions", f"{_GUIDE}: NeuronCore-v3 Compute Engine Updates"),
    quadrant_partitions=Fact(32, "partitions", f"{_GUIDE2}: Cross-partition Data Movement"),
    sbuf_partition_bytes=Fact(224 * KIB, "bytes", f"{_GUIDE}: NeuronCore-v3 Compute Engine Updates"),
    sbuf_usable_partition_bytes=Fact(212984, "bytes", f"{_KLR}: 224 KiB less 16 KiB and 8 bytes reserved"),
    sbuf_align_bytes=Fact(1, "bytes", f"{_KLR}; the reference names the constant and not its value"),
    psum_partition_bytes=Fact(16 * KIB, "bytes", f"{_GUIDE}: NeuronCore-v3 Compute Engine Updates (2 MiB over 128)"),
    psum_banks=Fact(8, "banks", f"{_GUIDE2}: Near-memory accumulation in PSUM; unchanged"),
    psum_bank_bytes=Fact(2 * KIB, "bytes", f"{_GUIDE2}: Near-memory accumulation in PSUM; unchanged"),
    psum_align_bytes=Fact(4, "bytes", f"{_KLR}; the reference names the constant and not its value"),
    hbm_bytes=Fact(96 * GIB, "bytes", f"{_GUIDE}: introduction; per chip"),
    matmul_dtypes=Fact(
        frozenset((float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32, float32)), "dtypes", f"{_MATMUL}: Data types"
    ),
    matmul_stationary_free_max=Fact(128, "elements", f"{_MATMUL}: Tile size"),
    matmul_moving_free_max=Fact(MappingProxyType({float32: 512}), "elements", f"{_MATMUL}: Tile size, Data types"),
    gemm_moving_fmax=Fact(512, "elements", _KLR),
    matmul_row_tiles=Fact((32, 64, 128), "rows", f"{_MATMUL}: Tiling mode"),
    matmul_transpose_mode=Fact(True, "", f"{_GUIDE}: Built-in Transpose Support"),
    matmul_double_row=Fact(True, "", f"{_GUIDE}: Double FP8 Matmul Performance"),
    matmul_mx=Fact(False, "", "Trainium3 Architecture Guide for NKI: MX formats are new there"),
    matmul_accumulates_foreign_psum=Fact(False, "", f"{_MATMUL}: Accumulation mode, note"),
    bn_stats_free_max=Fact(512, "elements", "NKI reference, nki.isa.bn_stats"),
    vector_sbuf_free_max=Fact(65536, "elements", f"{_GUIDE2}: Vector Engine, Layout & Tile Size; unchanged"),
    vector_psum_free_max=Fact(4096, "elements", f"{_GUIDE2}: Vector Engine, Layout & Tile Size; unchanged"),
    vector_gpsimd_share_sbuf=Fact(True, "", f"{_GUIDE}: Data Movement Updates"),
    vector_scalar_share_psum=Fact(True, "", f"{_GUIDE}: Data Movement Updates; full rate on different banks only"),
    hardware_dge=Fact(True, "", f"{_GUIDE}: Descriptor Generation Engine"),
    tensor_clock_ghz=Fact(2.4, "GHz", f"{_GUIDE}: table of compute engines"),
    tensor_tflops=Fact(
        MappingProxyType({"float8": 158.0, "bfloat16": 79.0, "float32": 20.0}), "TFLOPS", f"{_GUIDE}: Tensor Engine"
    ),
    matmul_min_interval_cycles=Fact(64, "cycles", f"{_GUIDE2}: Tensor Engine, Cost Model; assumed unchanged", "guess"),
    matmul_issue_cycles=Fact(
        10,
        "cycles",
        "published sustained rate of 2048 bf16 128x128x512 matmuls (77.2 TFLOPS), weights included",
        "measured",
    ),
    matmul_fp32_factor=Fact(4, "", f"{_TUTORIAL}: two passes of 1030 cycles for 512 columns", "measured"),
    matmul_latency_ns=Fact(160.0, "ns", f"{_TUTORIAL}: 586-595 ns for 1024 cycles", "measured"),
    stationary_load_speedup=Fact(4, "", f"{_GUIDE2}: Fast LoadStationary; assumed unchanged", "guess"),
    tensor_ramp_fraction=Fact(0.5, "", "Neuron Explorer, Overview: the Tensor engine starts near half rate"),
    tensor_ramp_ns=Fact(3000.0, "ns", "Neuron Explorer, Overview: full rate after about 3 us of use"),
    vector_clock_ghz=Fact(0.96, "GHz", f"{_GUIDE}: table of compute engines"),
    scalar_clock_ghz=Fact(1.2, "GHz", f"{_GUIDE}: table of compute engines"),
    gpsimd_clock_ghz=Fact(1.2, "GHz", f"{_GUIDE}: table of compute engines"),
    vector_width_16bit=Fact(512, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_width_32bit=Fact(256, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    scalar_width_16bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    scalar_width_32bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    min_interval_cycles=Fact(64, "cycles", f"{_BETA1}: MIN_II"),
    access_start_cycles=Fact(60, "cycles", f"{_GUIDE2}: Tensor access overhead; assumed unchanged", "guess"),
    vector_dependent_cycles=Fact(100, "cycles", f"{_GUIDE2}: Vector Engine, Cost Model; assumed unchanged", "guess"),
    scalar_issue_cycles=Fact(21, "cycles", "the value of trn1; nothing published", "guess"),
    scalar_latency_ns=Fact(293.0, "ns", f"{_DMA}: profiles of exp over 128 and 4096 elements, beyond N", "measured"),
    scalar_read_accumulator_cycles=Fact(64, "cycles", f"{_GUIDE2}: ActReadAccumulator; assumed unchanged", "guess"),
    activation_table_load_ns=Fact(1325.0, "ns", f"{_DMA}: two profiles", "measured"),
    gpsimd_issue_cycles=Fact(150, "cycles", f"{_BETA1}: affine_select, iota"),
    semaphore_ns=Fact(31.0, "ns", f"{_DMA}: profile, Scalar engine done to DMA trigger, once", "measured"),
    semaphores=Fact(256, "semaphores", f"{_DRIVER}, address map of the third generation; per core"),
    dma_engines=Fact(16, "engines", f"{_DMA}: introduction; per core"),
    dma_queues_per_engine=Fact(16, "queues", f"{_DMA}: DMA Queues"),
    dma_engine_peak_gbps=Fact(27.2, "GB/s", f"{_DMA}: Basic DMA Capabilities"),
    dma_engine_sustained_gbps=Fact(23.0, "GB/s", f"{_DMA}: Performance Considerations"),
    dma_packet_bytes=Fact(4 * KIB, "bytes", "Neuron Runtime documentation, Compute-Communication Overlap: default"),
    dma_trigger_ns=Fact(600.0, "ns", f"{_GUIDE}: Descriptor Generation Engine, Performance Consideration"),
    dma_start_ns=Fact(
        145.0, "ns", f"{_DMA}: profile, 745 ns from trigger to data less 600; 1006 on a static queue", "measured"
    ),
    dma_completion_ns=Fact(310.0, "ns", f"{_DMA}: profiles, last data to consumer 293-328 ns", "measured"),
    dma_accumulate_efficiency=Fact(0.5, "", "Trainium3 Architecture Guide for NKI: SBUF Read-Add-Write, before it"),
    dma_transpose_efficiency=Fact(0.9, "", f"{_GUIDE}: DMA Transpose, HBM to SBUF; 0.5 from SBUF to SBUF"),
    hbm_chip_gbps=Fact(3000.0, "GB/s", f"{_GUIDE}: introduction; the hardware page of trn2 says 2900"),
    hbm_core_gbps=Fact(375.0, "GB/s", f"{_GUIDE}: introduction; an eighth of a chip"),
)
