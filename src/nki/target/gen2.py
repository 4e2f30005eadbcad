"""NeuronCore-v2: trn1 and inf2."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from nki.base.dtype import bfloat16, float8_e4m3, float8_e5m2, float16, float32, tfloat32
from nki.target.model import GIB, KIB, Fact, Target

_GUIDE: Final = "Trainium/Inferentia2 Architecture Guide for NKI"
_MATMUL: Final = "NKI reference, nki.isa.nc_matmul"
_KLR: Final = "KLR (public open-source front end for NKI), per-generation constants of tile_size"
_DMA: Final = "Introduction to Direct Memory Access (DMA) with NKI"
_DRIVER: Final = "aws-neuron-driver (public source of the kernel driver)"
_BETA1: Final = "NKI 0.1 reference, nki.isa cost tables"
_TRACES: Final = "npu_profiling_code by AnchovyPark (public profiles of fp16 matmuls on inf2.xlarge)"
_AS_TRN2: Final = "the value of trn2; nothing published for this generation"

GEN2: Final = Target(
    name="trn1",
    generation=2,
    aliases=("trn1", "trn1n", "inf2", "gen2"),
    core="NeuronCore-v2",
    cores_per_chip=Fact(2, "cores", f"{_GUIDE}: introduction"),
    logical_core_max=Fact(1, "cores", "no document offers logical cores of two for this generation", "guess"),
    partitions=Fact(128, "partitions", f"{_GUIDE}: NeuronCore-v2 Compute Engines"),
    quadrant_partitions=Fact(32, "partitions", f"{_GUIDE}: Cross-partition Data Movement"),
    start_partitions=Fact(
        ((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,))), "partitions", f"{_GUIDE}: SBUF and PSUM access"
    ),
    gpsimd_core_partitions=Fact(16, "partitions", "NKI reference, nki.isa.local_gather"),
    sbuf_partition_bytes=Fact(192 * KIB, "bytes", f"{_GUIDE}: NeuronCore-v2 Compute Engines (24 MiB over 128)"),
    sbuf_usable_partition_bytes=Fact(180224, "bytes", f"{_KLR}: 192 KiB less 16 KiB reserved"),
    sbuf_align_bytes=Fact(1, "bytes", f"{_KLR}; the reference names the constant and not its value"),
    psum_partition_bytes=Fact(16 * KIB, "bytes", f"{_GUIDE}: NeuronCore-v2 Compute Engines (2 MiB over 128)"),
    psum_banks=Fact(8, "banks", f"{_GUIDE}: Near-memory accumulation in PSUM"),
    psum_bank_bytes=Fact(2 * KIB, "bytes", f"{_GUIDE}: Near-memory accumulation in PSUM (512 words of 32 bits)"),
    psum_align_bytes=Fact(4, "bytes", f"{_KLR}; the reference names the constant and not its value"),
    hbm_bytes=Fact(32 * GIB, "bytes", f"{_GUIDE}: introduction; per chip"),
    matmul_dtypes=Fact(
        frozenset((float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32, float32)), "dtypes", f"{_MATMUL}: Data types"
    ),
    matmul_stationary_free_max=Fact(128, "elements", f"{_GUIDE}: Tensor Engine, Tile Size"),
    matmul_moving_free_max=Fact(MappingProxyType({float32: 512}), "elements", f"{_MATMUL}: Tile size, Data types"),
    gemm_moving_fmax=Fact(512, "elements", f"{_KLR}; {_GUIDE}: Tensor Engine, Tile Size"),
    matmul_row_tiles=Fact((64, 128), "rows", f"{_MATMUL}: Tiling mode"),
    matmul_transpose_mode=Fact(False, "", f"{_MATMUL}: Transpose mode; is_transpose only marks the profile"),
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
    dma_transpose_block_rows=Fact(16, "rows", "the value of trn2, the first that has hardware descriptors", "guess"),
    gpsimd_dma_elements=Fact(256, "elements", "the value of trn2, the first that has nki.isa.sendrecv", "guess"),
    vector_gpsimd_share_sbuf=Fact(False, "", f"{_GUIDE}: Concurrent SBUF/PSUM accesses by engines"),
    vector_scalar_share_psum=Fact(False, "", f"{_GUIDE}: Concurrent SBUF/PSUM accesses by engines"),
    memory_handover=Fact(
        0.5,
        "",
        f"{_GUIDE}, Data Movement: the compiler serializes instructions of two engines that cannot share a memory. The "
        "only documented means of an order between engines is a semaphore at the end of an instruction. Not said: if "
        "the next one may begin as soon as the engine is free. The middle of both",
        "guess",
        (0.0, 1.0),
    ),
    tensor_clock_ghz=Fact(2.8, "GHz", f"{_GUIDE}: table of compute engines"),
    matmul_min_interval_cycles=Fact(64, "cycles", f"{_GUIDE}: Tensor Engine, Cost Model (MM_INIT_LATENCY)"),
    matmul_issue_cycles=Fact(
        10,
        "cycles",
        "published profiles: best sustained 128x128x512 on trn1, 212.4 to 213.7 ns, less 512 columns at 7/8 clock. "
        f"{_TRACES}: 189 to 211 ns between matmuls of the same weights, the first ones at the whole clock",
        "measured",
        (6, 20),
    ),
    matmul_fp32_factor=Fact(4, "", f"{_GUIDE}: Tensor Engine, Cost Model"),
    matmul_fp32_instructions=Fact(
        2,
        "instructions",
        "Neuron Explorer, profile schema reference, raw_flops: each FP32 matmul lowers to two FP32_LO_HI instructions. "
        "It names no generation; profiles of trn2 show both. At the fast end the issue of the second one is hidden",
        "docs",
        (1, 2),
    ),
    matmul_latency_ns=Fact(145.0, "ns", f"{_TRACES}: start to done at 8 columns", "measured"),
    stationary_load_speedup=Fact(4, "", f"{_GUIDE}: Fast LoadStationary"),
    stationary_load_cycles=Fact(
        0,
        "cycles",
        f"{_TRACES}: four matmuls of 512 columns and one load of weights begin 189, 203 and 211 ns after each other. "
        "Loads in between take no more: published profiles of trn1 have 212.4 to 213.7 ns with new weights each time",
        "measured",
        (0, 8),
    ),
    tensor_activity_limit=Fact(
        0.875,
        "",
        f"{_TRACES}: a limit of 7/8 (HAM) from 40 ns after the first matmul on. Later ones of a row begin after 211 ns "
        "and last 349 to 357 instead of 329: 512 columns at 7/8 of the clock. So do the best sustained ones of trn1 in "
        "published profiles. At the fast end there is none, as for the first two of a row",
        "measured",
        (1.0, 0.875),
    ),
    tensor_throttle_fraction=Fact(1.0, "", "profiles show no other limit than tensor_activity_limit", "guess"),
    tensor_throttle_window_cycles=Fact(8192, "cycles", _AS_TRN2, "guess"),
    tensor_throttle_raise=Fact(0.75, "", _AS_TRN2, "guess"),
    tensor_throttle_lower=Fact(0.375, "", _AS_TRN2, "guess"),
    tensor_throttle_idle_rows=Fact(1.0, "", _AS_TRN2, "guess", (0.0, 1.0)),
    tensor_throttle_idle_columns=Fact(0.0, "", _AS_TRN2, "guess", (0.0, 1.0)),
    tensor_background_transpose=Fact(0.0, "", "Trainium3 Architecture Guide for NKI: new on trn3"),
    vector_clock_ghz=Fact(1.12, "GHz", f"{_GUIDE}: table of compute engines"),
    scalar_clock_ghz=Fact(1.4, "GHz", f"{_GUIDE}: table of compute engines"),
    gpsimd_clock_ghz=Fact(1.4, "GHz", f"{_GUIDE}: table of compute engines"),
    strided_access_bytes=Fact(16, "bytes", f"{_GUIDE}: Performance Consideration, Access pattern"),
    strided_access_ns=Fact(
        1.43, "ns", f"{_GUIDE}: Performance Consideration, Access pattern; half of an element per cycle at 1.4 GHz"
    ),
    strided_matmul_cycles=Fact(
        2.0,
        "cycles",
        f"{_GUIDE}: Performance Consideration, Access pattern: half of the rate of each interface. "
        "The peak that it names, 128 elements per cycle of 1.4 GHz, is below what operands of 16 bits need, so they "
        "may be slower; or have more to spare",
        "guess",
        (1.0, 4.0),
    ),
    vector_gpsimd_bus_part=Fact(1.0, "", f"{_GUIDE}: Concurrent SBUF/PSUM accesses by engines: never both"),
    dynamic_offset_cycles=Fact(600.0, "cycles", f"{_BETA1}: tensor_copy_dynamic_src, tensor_copy_dynamic_dst"),
    performance_dtypes=Fact(frozenset((bfloat16,)), "dtypes", f"{_BETA1}: tensor_tensor, tensor_reduce"),
    vector_width_16bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_width_32bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    vector_two_tiles_cycles=Fact(
        2.0, "cycles", f"{_GUIDE}: Vector Engine, Cost Model; {_BETA1}: tensor_tensor, scalar_tensor_tensor"
    ),
    vector_two_narrow_tiles_cycles=Fact(1.0, "cycles", f"{_BETA1}: tensor_tensor, scalar_tensor_tensor of bfloat16"),
    scalar_width_16bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    scalar_width_32bit=Fact(128, "elements/cycle", f"{_GUIDE}: table of compute engines"),
    min_interval_cycles=Fact(
        64,
        "cycles",
        f"{_BETA1}: MIN_II. With the issue overhead between those 64 cycles and the 100 of a short instruction in "
        f"{_GUIDE}: Vector Engine, Cost Model",
        "docs",
        (45, 81),
    ),
    vector_issue_cycles=Fact(
        19,
        "cycles",
        "mamba tutorial, profile on trn1: 931 ns per tensor_tensor of 512, 914 by the cost model",
        "measured",
    ),
    vector_column_operand_cycles=Fact(62, "cycles", _AS_TRN2, "guess", (0, 80)),
    vector_latency_ns=Fact(
        150.0, "ns", f"{_AS_TRN2}; 350 measured at 8192 elements, of which 2 % are of the rate", "guess", (100.0, 350.0)
    ),
    vector_dependent_cycles=Fact(
        100, "cycles", f"{_GUIDE}: Vector Engine, Cost Model; short or dependent instructions"
    ),
    vector_exponentials_per_cycle=Fact(1, "elements/lane", "the instruction is new on trn3", "guess"),
    vector_random_per_cycle=Fact(1, "elements/lane", "trn3 makes 4; others are not told", "guess"),
    reciprocal_cycles=Fact(8, "cycles", f"{_BETA1}: reciprocal"),
    divisor_cycles=Fact(
        8.0,
        "cycles",
        "reciprocals of a division, on Vector, which has the better precision. The table of operators of release "
        "2.26.1 has them on Scalar, too, where one takes a cycle; nobody says which engine the compiler takes",
        "guess",
        (1.0, 8.0),
    ),
    scalar_issue_cycles=Fact(21, "cycles", f"{_TRACES}: completion to completion, 15.0 ns beyond N", "measured"),
    scalar_latency_ns=Fact(157.0, "ns", f"{_TRACES}: first ACTIVATE of a burst, beyond N", "measured"),
    scalar_dependent_ns=Fact(
        173.0,
        "ns",
        "NKI performance guide, profile: 189 ns between dependent ACTIVATEs of one element, less 16",
        "measured",
    ),
    activation_issue_cycles=Fact(
        21, "cycles", f"{_TRACES}: ACTIVATE as a copy; functions not measured", "guess", (21, 197)
    ),
    activation_latency_ns=Fact(
        165.0, "ns", "NKI performance guide, profiles: 159 ns for one element, 6.04 us for 8192", "measured"
    ),
    scalar_read_accumulator_cycles=Fact(64, "cycles", f"{_GUIDE}: Scalar Engine, ActReadAccumulator"),
    activation_table_load_ns=Fact(368.0, "ns", f"{_TRACES}: all 117 traces", "measured"),
    activation_table_swap_ns=Fact(
        184.0,
        "ns",
        "functions are in sets (Neuron Runtime, Work with NEFF files), of which four have published names: the middle "
        "of nothing and a load where others are concerned",
        "guess",
        (0.0, 368.0),
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
    gpsimd_dma_gbps=Fact(153.0, "GB/s", "the value of trn2; trn1 has none", "guess"),
    gpsimd_dma_latency_ns=Fact(
        300.0,
        "ns",
        "the reference calls it low; between two semaphores and a transfer of the DMA engines",
        "guess",
        (70.0, 1300.0),
    ),
    register_load_ns=Fact(530.0, "ns", f"{_TRACES}: TENSOR_LOAD 389-671 ns, middle", "measured"),
    register_store_ns=Fact(95.0, "ns", f"{_TRACES}: TENSOR_STORE", "measured"),
    sequencer_ns=Fact(50.0, "ns", f"{_TRACES}: WRITE 37-64 ns, middle", "measured"),
    semaphore_ns=Fact(38.0, "ns", f"{_TRACES}: Tensor engine done to Scalar engine start, median", "measured"),
    remote_semaphore_ns=Fact(
        240.0,
        "ns",
        "the value of trn2; trn1 has no instruction of this kind",
        "guess",
        (35.0, 1300.0),
    ),
    semaphores=Fact(256, "semaphores", f"{_DRIVER}, address map of the second generation; per core"),
    launch_ns=Fact(
        8000.0,
        "ns",
        "triton-viz, comments of its NKI cost model: about 8 us beyond the timeline on inf2",
        "measured",
        (5000.0, 10000.0),
    ),
    unpublished_cost=Fact(1.0, "", "factor on cycles that no document gives", "guess", (0.5, 2.0)),
    dma_hardware_descriptors=Fact(False, "", "Trainium2 Architecture Guide for NKI: DGE is new with trn2"),
    dma_engines=Fact(16, "engines", f"{_GUIDE}: Data movement between HBM and SBUF using DMAs; per core"),
    dma_queues_per_engine=Fact(16, "queues", f"{_DMA}: DMA Queues"),
    dma_engine_by_partition=Fact(
        1.0,
        "",
        f"{_DMA}: an engine is typically responsible for eight partitions; rows of four of them go through one engine, "
        "there and back. Not said: if other engines ever help",
        "docs",
        (0.0, 1.0),
    ),
    dma_engine_peak_gbps=Fact(27.2, "GB/s", f"{_DMA}: Basic DMA Capabilities; the architecture guide says 27 GiB/s"),
    dma_engine_sustained_gbps=Fact(
        16.5,
        "GB/s",
        "the middle of four published rates: 17.0, "
        f"{_DMA}: Performance Considerations; 17.1, reads of GiB at 273 GB/s; 15.5 to 15.9, 4 MiB alone in 16,955 to "
        "16,500 ns; 16.1, 32 KiB on each engine every 2,030 ns (both profiles are in the NKI performance guide)",
        "measured",
        (17.2, 15.5),
    ),
    dma_engine_store_gbps=Fact(
        19.0,
        "GB/s",
        "NKI performance guide, profile of large transfers (Opt #9): 32 KiB of a store in 1,810 ns beside loads, 1,480 "
        f"without, where a load takes 2,000; all together 68 % of the peak. {_TRACES}: stores of 139 to 262 KB at 299 "
        "to 359 GB/s on 16 engines. pantheonneuron: writes of 4 GiB at 254 GB/s. The middle of these",
        "measured",
        (22.4, 15.9),
    ),
    dma_packet_bytes=Fact(4 * KIB, "bytes", "Neuron Runtime documentation, Compute-Communication Overlap: default"),
    dma_packet_overhead_ns=Fact(
        7.0,
        "ns",
        f"{_TRACES}: 81 ns for 2 KiB, 121 for 3, 158 for 4, 205 for 5.25",
        "measured",
        (5.0, 26.0),
    ),
    dma_store_overhead_ns=Fact(
        7.0,
        "ns",
        f"that of all packets; {_TRACES} show no difference",
        "measured",
        (2.0, 26.0),
    ),
    dma_cast_packet_bytes=Fact(
        4 * KIB,
        "bytes",
        f"{_TRACES}: a packet per row of up to 2 KiB in a store that converts; assumed to be as long as others",
        "measured",
    ),
    dma_cast_overhead_ns=Fact(
        2.3,
        "ns",
        f"{_TRACES}: a store that converts float32 to float16 has packets of 512, 1024 and 2048 bytes every 21, 40 and "
        "77.5 ns, less those bytes at 27.2 GB/s",
        "measured",
    ),
    dma_trigger_ns=Fact(
        648.0,
        "ns",
        f"{_TRACES}: GpSimd writes the descriptors of inputs and outputs, one transfer after the other. So does a "
        "compilation for trn1 in the RMSNorm tutorial (its log: DGE is on for io). A profile in the NKI performance "
        "guide has a static queue for them; the page on profiles recommends to switch DGE off (--disable-dge)",
        "measured",
        (50.0, 648.0),
    ),
    dma_start_ns=Fact(
        214.0, "ns", f"{_TRACES}: instruction to first packet, middle of the medians 188-240", "measured"
    ),
    dma_hardware_trigger_ns=Fact(565.0, "ns", f"{_AS_TRN2}; it has no hardware generator", "guess"),
    dma_hardware_start_ns=Fact(770.0, "ns", f"{_AS_TRN2}; it has no hardware generator", "guess"),
    dma_software_trigger_ns=Fact(
        648.0,
        "ns",
        f"{_TRACES}: 648-649 between consecutive ones, 651-658 behind a semaphore, for loads and stores of 128 rows, "
        "with and without conversion, rows of 256 to 2048 bytes, 16 to 128 packets",
        "measured",
    ),
    dma_software_start_ns=Fact(
        214.0, "ns", f"{_TRACES}: instruction to first packet, middle of the medians 188-240", "measured"
    ),
    dma_row_indices_ns=Fact(
        0.0,
        "ns",
        "no profile of loads or stores by indices is published: between nothing (other transfers have a descriptor for "
        "each row, too) and as long as their descriptors take",
        "guess",
        (0.0, 648.0),
    ),
    dma_static_start_ns=Fact(
        331.0,
        "ns",
        f"{_TRACES}: the first packet of a load of 32 KiB comes 368 ns after Sync begins the write that triggers it "
        "(234-581), 37 of them for the write",
        "measured",
        (197.0, 544.0),
    ),
    dma_spread_ns=Fact(
        279.0,
        "ns",
        f"{_TRACES}: 204-758 ns from the first data to the last of 128 rows of 256 bytes, median of 234 loads",
        "measured",
        (204.0, 758.0),
    ),
    dma_second_load_ns=Fact(
        453.0,
        "ns",
        f"{_TRACES}: the first packets of the second load of a launch stand still. From its descriptors to its reader "
        "it takes 114-703 ns more than its bytes and the other facts tell, median of 112 launches; the first load 22. "
        "Nobody says why",
        "measured",
        (114.0, 703.0),
    ),
    dma_completion_ns=Fact(345.0, "ns", f"{_TRACES}: semaphore write ~105 ns, then waiting engine ~240 ns", "measured"),
    dma_accumulate_efficiency=Fact(0.5, "", "Trainium3 Architecture Guide for NKI: SBUF Read-Add-Write, before it"),
    dma_transpose_efficiency=Fact(
        0.15,
        "",
        "NKI performance guide, Opt #10: the DMA engines have a transpose mode, at a much lower bandwidth than loads. "
        "Its profile has one transfer of 4.81 us in that mode: 0.05 of an engine's rate if it is a packet of 4 KiB, "
        "0.4 for 32 KiB, as loads have in the same guide. In the middle",
        "guess",
        (0.4, 0.05),
    ),
    dma_transpose_sbuf_efficiency=Fact(
        0.5, "", "Trainium2 Architecture Guide for NKI: DMA Transpose, SBUF to SBUF", "guess"
    ),
    hbm_chip_gbps=Fact(820.0, "GB/s", f"{_GUIDE}: introduction"),
)
