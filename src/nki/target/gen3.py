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
_AS_TRN1: Final = "the value of trn1; nothing published for this generation"
_TRACES: Final = "public hardware profiles of ten kernels on trn2.3xlarge, 2026-03"

GEN3: Final = Target(
    name="trn2",
    generation=3,
    aliases=("trn2", "gen3"),
    core="NeuronCore-v3",
    cores_per_chip=Fact(8, "cores", f"{_GUIDE}: introduction"),
    logical_core_max=Fact(2, "cores", "NKI reference, nki.jit: kernels are launched on one or two cores"),
    partitions=Fact(128, "partitions", f"{_GUIDE}: NeuronCore-v3 Compute Engine Updates"),
    quadrant_partitions=Fact(32, "partitions", f"{_GUIDE2}: Cross-partition Data Movement"),
    start_partitions=Fact(
        ((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,))), "partitions", f"{_GUIDE2}: SBUF and PSUM access; unchanged"
    ),
    gpsimd_core_partitions=Fact(16, "partitions", "NKI reference, nki.isa.local_gather"),
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
    matmul_accumulates_foreign_psum=Fact(False, "", f"{_MATMUL}: Accumulation mode, note"),
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
    offset_group_partitions=Fact(
        16, "partitions", "the value of trn3; no earlier generation has tensor indirection", "guess"
    ),
    tensor_offset_group_partitions=Fact(
        32, "partitions", "the value of trn3; no earlier generation has tensor indirection", "guess"
    ),
    mx_scale_partitions=Fact(8, "partitions", "the value of trn3; no earlier generation has MX formats", "guess"),
    mx_scale_shifts=Fact(
        (0, 4, 8, 12), "partitions", "the value of trn3; no earlier generation has MX formats", "guess"
    ),
    dma_sources_max=Fact(16, "tensors", "NKI reference, nki.isa.dma_compute"),
    dma_priorities=Fact(4, "levels", "the value of trn3; no earlier generation has DMA priorities", "guess"),
    dma_transpose_block_rows=Fact(16, "rows", "NKI reference, nki.isa.dma_transpose, direct and indirect transpose"),
    gpsimd_dma_elements=Fact(256, "elements", "NKI reference, nki.isa.sendrecv: 1024 bytes of a 32-bit dtype"),
    vector_gpsimd_share_sbuf=Fact(True, "", f"{_GUIDE}: Data Movement Updates"),
    vector_scalar_share_psum=Fact(True, "", f"{_GUIDE}: Data Movement Updates; full rate on different banks only"),
    memory_handover=Fact(0.0, "", f"{_GUIDE}: Data Movement Updates; engines share both memories"),
    tensor_clock_ghz=Fact(2.4, "GHz", f"{_GUIDE}: table of compute engines"),
    matmul_min_interval_cycles=Fact(64, "cycles", f"{_GUIDE2}: Tensor Engine, Cost Model; assumed unchanged", "guess"),
    matmul_issue_cycles=Fact(
        10,
        "cycles",
        "published sustained rate of 2048 bf16 128x128x512 matmuls (77.2 TFLOPS), weights included; 6 to 7 in each of "
        f"the two instructions of a float32 one, 859 ns ({_TUTORIAL}), 7 to 13 for 128 columns",
        "measured",
        (6, 13),
    ),
    matmul_fp32_factor=Fact(4, "", f"{_TUTORIAL}: two passes of 1030 cycles for 512 columns", "measured"),
    matmul_fp32_instructions=Fact(
        2,
        "instructions",
        "Neuron Explorer, profile schema reference, raw_flops: each FP32 matmul lowers to two FP32_LO_HI instructions; "
        f"{_TRACES}: with the low, then the high part of the weights",
    ),
    matmul_latency_ns=Fact(160.0, "ns", f"{_TUTORIAL}: 586-595 ns for 1024 cycles", "measured"),
    stationary_load_speedup=Fact(4, "", f"{_GUIDE2}: Fast LoadStationary; assumed unchanged", "guess"),
    stationary_load_cycles=Fact(
        0,
        "cycles",
        "contained in matmul_issue_cycles: the published rate is that of matmuls with new weights",
        "measured",
    ),
    tensor_activity_limit=Fact(
        1.0,
        "",
        f"{_TRACES}: matmuls follow each other at the whole clock; tensor_throttle_fraction lowers it",
        "measured",
    ),
    tensor_throttle_fraction=Fact(
        0.5, "", f"{_TRACES}: 4/8 or 8/8 of the clock, 4/8 at the start; Neuron Explorer: near half rate", "measured"
    ),
    tensor_throttle_window_cycles=Fact(
        8192, "cycles", f"{_TRACES}: windows of 3413.3 ns; Neuron Explorer: about 3 us", "measured"
    ),
    tensor_throttle_raise=Fact(
        0.75,
        "",
        f"{_TRACES}: busy part of a slow window, 0.74 was too little; three eighths of the cycles at full rate",
        "measured",
    ),
    tensor_throttle_lower=Fact(
        0.375,
        "",
        f"{_TRACES}: of fast windows, 0.32 was too little and 0.41 enough; three eighths of the cycles, which is what "
        "raises the clock of a slow one. Neuron Explorer says 50 %, and does not say of what",
        "measured",
        (0.32, 0.4),
    ),
    tensor_throttle_idle_rows=Fact(
        1.0,
        "",
        "published profile of 512 products each with 32 columns that are loaded, 64 that move, 32 rows, and all: 453 "
        "us, where a fast clock takes 350 and a slow one for 512 columns adds 111. So either 32 rows or 32 loaded "
        "columns keep the clock slow, not both. Rows are assumed: what moves along them is known where it enters",
        "guess",
        (0.0, 1.0),
    ),
    tensor_throttle_idle_columns=Fact(
        0.0, "", "the other reading of the profile that tensor_throttle_idle_rows names", "guess", (0.0, 1.0)
    ),
    tensor_background_transpose=Fact(0.0, "", "Trainium3 Architecture Guide for NKI: new on trn3"),
    vector_clock_ghz=Fact(0.96, "GHz", f"{_GUIDE}: table of compute engines"),
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
    strided_matmul_cycles=Fact(
        2.0,
        "cycles",
        f"{_GUIDE2}: Performance Consideration, Access pattern: half of the rate of each interface; assumed unchanged. "
        "The peak that it names, 128 elements per cycle of 1.4 GHz, is below what operands of 16 bits need, so they "
        "may be slower; or have more to spare",
        "guess",
        (1.0, 4.0),
    ),
    vector_gpsimd_bus_part=Fact(
        0.5,
        "",
        f"{_GUIDE}: Data Movement Updates: Vector's performance mode uses a bus that GpSimd has too, between which the "
        "hardware arbitrates. Not said: how. Between no conflict at all and one instruction at a time",
        "guess",
        (0.0, 1.0),
    ),
    dynamic_offset_cycles=Fact(
        600.0,
        "cycles",
        f"{_BETA1}: tensor_copy_dynamic_src, tensor_copy_dynamic_dst; assumed unchanged",
        "guess",
        (370, 650),
    ),
    performance_dtypes=Fact(frozenset((bfloat16, float16)), "dtypes", f"{_GUIDE}: Vector Engine Performance Mode"),
    vector_width_16bit=Fact(512, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_width_32bit=Fact(256, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_two_tiles_cycles=Fact(
        1.0,
        "cycles",
        f"{_GUIDE}: the engine reads 256 elements of 32 bits a cycle, as many as two tiles of 16 bits need, and twice "
        f"those of trn1; {_TRACES}: an element of one float32 tile takes half a cycle. No profile shows two tiles",
        "guess",
        (1.0, 2.0),
    ),
    vector_two_narrow_tiles_cycles=Fact(
        0.5,
        "cycles",
        f"{_GUIDE}, Vector Engine Performance Mode: twice the throughput of NeuronCore-v2, which takes one cycle "
        f"({_BETA1}); and 512 elements a cycle are two pairs for each lane. One cycle if twice means the general rule "
        "of that engine, two cycles for two tiles. No profile shows two tiles",
        "guess",
        (0.5, 1.0),
    ),
    scalar_width_16bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    scalar_width_32bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    min_interval_cycles=Fact(
        64,
        "cycles",
        f"{_BETA1}: MIN_II. With the issue overhead between the 100 cycles of a short instruction in {_GUIDE2}, and "
        "the 144 that nki-library counts for each",
        "docs",
        (38, 82),
    ),
    vector_issue_cycles=Fact(62, "cycles", f"{_TRACES}: 65 ns between copies or reductions beyond N/0.96", "measured"),
    vector_column_operand_cycles=Fact(
        62, "cycles", f"{_TRACES}: tensor_scalar with a column as operand takes 64 ns more", "measured"
    ),
    vector_latency_ns=Fact(150.0, "ns", f"{_TRACES}: 148 (reductions) to 157 ns (copies) beyond N/0.96", "measured"),
    vector_dependent_cycles=Fact(
        114,
        "cycles",
        f"{_TRACES}: latency of 150 ns and 35 to the next start, less the interval; the guide says 100",
        "measured",
    ),
    vector_exponentials_per_cycle=Fact(1, "elements/lane", "the instruction is new on trn3", "guess"),
    vector_random_per_cycle=Fact(1, "elements/lane", "trn3 makes 4; others are not told", "guess"),
    reciprocal_cycles=Fact(6, "cycles", f"{_TRACES}: 178 ns for 4 elements, 202 for 8; reference: 8", "measured"),
    divisor_cycles=Fact(
        6.0,
        "cycles",
        "reciprocals of a division, on Vector, which has the better precision. The table of operators of release "
        "2.26.1 has them on Scalar, too, where one takes a cycle; nobody says which engine the compiler takes",
        "guess",
        (1.0, 8.0),
    ),
    scalar_issue_cycles=Fact(55, "cycles", f"{_TRACES}: copies, 38-55 ns beyond N/1.2", "measured", (46, 66)),
    scalar_latency_ns=Fact(158.0, "ns", f"{_TRACES}: copies, beyond N/1.2", "measured"),
    scalar_dependent_ns=Fact(
        147.0, "ns", f"{_TRACES}: latency of 158 ns and 35 to the next start, less the interval", "measured"
    ),
    activation_issue_cycles=Fact(
        197, "cycles", f"{_TRACES}: exp with a bias tile, 143-185 ns beyond N/1.2", "measured", (172, 222)
    ),
    activation_latency_ns=Fact(
        280.0, "ns", f"{_TRACES}: exp with a bias tile, 260-280 ns beyond N/1.2; older profiles 293", "measured"
    ),
    scalar_read_accumulator_cycles=Fact(
        64, "cycles", f"{_GUIDE2}: ActReadAccumulator; assumed unchanged", "guess", (0, 128)
    ),
    activation_table_load_ns=Fact(1283.0, "ns", f"{_TRACES}; 1325 in older profiles", "measured"),
    activation_table_swap_ns=Fact(
        642.0,
        "ns",
        "functions are in sets (Neuron Runtime, Work with NEFF files), of which four have published names: the middle "
        "of nothing and a load where others are concerned",
        "guess",
        (0.0, 1283.0),
    ),
    gpsimd_issue_cycles=Fact(150, "cycles", f"{_BETA1}: affine_select, iota"),
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
    gpsimd_dma_gbps=Fact(153.0, "GB/s", f"{_GUIDE}: GpSimd Engine, integrated DMA, one direction"),
    gpsimd_dma_latency_ns=Fact(
        300.0,
        "ns",
        "the reference calls it low; between two semaphores and a transfer of the DMA engines",
        "guess",
        (70.0, 1300.0),
    ),
    register_load_ns=Fact(530.0, "ns", _AS_TRN1, "guess", (389.0, 671.0)),
    register_store_ns=Fact(95.0, "ns", _AS_TRN1, "guess", (48.0, 190.0)),
    sequencer_ns=Fact(50.0, "ns", _AS_TRN1, "guess", (37.0, 91.0)),
    semaphore_ns=Fact(35.0, "ns", f"{_TRACES}: engine done to waiting engine, 34-37 ns", "measured"),
    remote_semaphore_ns=Fact(
        240.0,
        "ns",
        "as a semaphore that a DMA engine writes: on inf2, 238-250 ns from the last of 16 writes to the reader; "
        "between a semaphore within a core and the 1300 ns across engines of the guide to DMA bandwidth",
        "guess",
        (35.0, 1300.0),
    ),
    semaphores=Fact(256, "semaphores", f"{_DRIVER}, address map of the third generation; per core"),
    launch_ns=Fact(
        7720.0,
        "ns",
        "public counters of an attention kernel on trn2: mean of the benchmark 17.79 us, execution 10.07 us",
        "measured",
        (5000.0, 10000.0),
    ),
    unpublished_cost=Fact(1.0, "", "factor on cycles that no document gives", "guess", (0.5, 2.0)),
    dma_hardware_descriptors=Fact(True, "", f"{_GUIDE}: DGE; the compiler's choice where a kernel leaves it open"),
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
    dma_engine_peak_gbps=Fact(27.2, "GB/s", f"{_DMA}: Basic DMA Capabilities"),
    dma_engine_sustained_gbps=Fact(
        23.0,
        "GB/s",
        f"{_DMA}: Performance Considerations. {_TRACES}: 128 rows of 4 KiB at 376 and 343 GB/s on 16 engines",
        "docs",
        (23.5, 21.4),
    ),
    dma_engine_store_gbps=Fact(
        26.8,
        "GB/s",
        f"{_DMA}, profile: a store of 32 KiB on one engine in 1,222 ns, where the load takes 1,416",
        "measured",
        (26.8, 23.0),
    ),
    dma_packet_bytes=Fact(4 * KIB, "bytes", "Neuron Runtime documentation, Compute-Communication Overlap: default"),
    dma_packet_overhead_ns=Fact(
        16.0,
        "ns",
        f"{_TUTORIAL}: all packets take 519.58 and 402.07 ms, so 35 ns for 512 bytes and 89 for 2 KiB, of which "
        f"27.2 GB/s explains 19 and 75; alone ({_TRACES}) 24-27 and 81-83, and rows of 1 KiB at 259 GB/s 63",
        "measured",
        (5.0, 26.0),
    ),
    dma_store_overhead_ns=Fact(
        5.0,
        "ns",
        f"{_TRACES}: packets alone take 2-7 ns beside their bytes; {_DMA}, profile: eight of 4 KiB in 1,222 ns. The "
        "kernels that show more load nearly all that they move",
        "measured",
        (2.0, 16.0),
    ),
    dma_cast_packet_bytes=Fact(
        512,
        "bytes",
        f"{_TRACES}: stores of 128 rows and 131-262 KB that convert float32 have packets of 256 bytes of bfloat16",
        "measured",
    ),
    dma_cast_overhead_ns=Fact(
        21.0,
        "ns",
        f"{_TRACES}: packets of a store that converts 512 bytes of float32 take 39-41 ns, 19 of them at 27.2 GB/s",
        "measured",
        (20.0, 22.0),
    ),
    dma_trigger_ns=Fact(
        565.0,
        "ns",
        f"that of hardware descriptors, and about that of software. {_TUTORIAL}: all transfers are dynamic, and GpSimd "
        "triggers those of the tiled kernel, one every 606 ns. neuron-agentic-development says the same of all kernels "
        f"(dynamic DMA path). One profile, of {_DMA}, has a static queue, whose trigger takes 50",
        "measured",
        (517.0, 606.0),
    ),
    dma_start_ns=Fact(
        441.0,
        "ns",
        f"the compiler's choice is not published and its profiles differ: first data 1006 ns after a static trigger "
        f"({_DMA}), 624-743 after software, 1326-1345 after hardware ({_TRACES}); the middle, less 565",
        "measured",
        (59.0, 780.0),
    ),
    dma_hardware_trigger_ns=Fact(
        565.0,
        "ns",
        f"{_TRACES}: a hardware DMA holds its queue 540-550 ns (517-601), the next one begins after 576-590; the guide "
        "says 600",
        "measured",
        (517.0, 601.0),
    ),
    dma_hardware_start_ns=Fact(
        770.0, "ns", f"{_TRACES}: first packet 1326-1345 ns after the trigger, less 565", "measured"
    ),
    dma_software_trigger_ns=Fact(587.0, "ns", f"{_TRACES}: 576-598 ns between software DMAs", "measured"),
    dma_software_start_ns=Fact(45.0, "ns", f"{_TRACES}: first packet 624-640 ns after the instruction", "measured"),
    dma_row_indices_ns=Fact(
        0.0,
        "ns",
        "no profile of loads or stores by indices is published: between nothing (other transfers have a descriptor for "
        "each row, too) and as long as their descriptors take",
        "guess",
        (0.0, 587.0),
    ),
    dma_static_start_ns=Fact(956.0, "ns", f"{_DMA}, profile: 1006 ns from a static trigger to data", "measured"),
    dma_spread_ns=Fact(
        430.0,
        "ns",
        f"{_TRACES}: rows of 512 bytes, 417-641 ns from the first data to the last",
        "measured",
        (417.0, 641.0),
    ),
    dma_second_load_ns=Fact(
        0.0,
        "ns",
        "no profile of this generation shows the second load of a launch apart; trn1 has 453",
        "guess",
        (0.0, 453.0),
    ),
    dma_completion_ns=Fact(
        386.0, "ns", f"{_TRACES}: last data to waiting instruction, 374-398 ns", "measured", (293.0, 450.0)
    ),
    dma_accumulate_efficiency=Fact(0.5, "", "Trainium3 Architecture Guide for NKI: SBUF Read-Add-Write, before it"),
    dma_transpose_efficiency=Fact(0.9, "", f"{_GUIDE}: DMA Transpose, HBM to SBUF"),
    dma_transpose_sbuf_efficiency=Fact(0.5, "", f"{_GUIDE}: DMA Transpose, SBUF to SBUF"),
    hbm_chip_gbps=Fact(3000.0, "GB/s", f"{_GUIDE}: introduction; the hardware page of trn2 says 2900"),
)
