"""Times of the Vector, Scalar and GpSimd engines, of the sequencers and of semaphores."""

from __future__ import annotations

from nki.base.element_types import DType, bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2, float16
from nki.target.cited_documents import (
    BETA1,
    DMA,
    DRIVER,
    INF2_TRACES,
    TRN1_GUIDE,
    TRN2_GUIDE,
    TRN2_TRACES,
    TRN3_GUIDE,
    UNPUBLISHED,
)
from nki.target.fact_rows import SAME, Row, as_trn1, as_trn2, docs, guess, measured, row


class ComputeEngines:
    """Widths are elements per cycle over all partitions, for the dtypes of the performance mode (16bit) and for all
    others; ``two_tiles`` are Vector's cycles per element if it reads two tiles of those others in SBUF, and
    ``two_narrow_tiles`` for the dtypes of the mode. An element keeps an interface of SBUF or PSUM for
    ``strided_access_ns`` if its neighbour is more than ``strided_access_bytes`` away, and an operand of a product takes
    ``strided_matmul_cycles`` of the Tensor engine for each column of it. GpSimd's own DMA moves data in one direction
    at ``gpsimd_dma_gbps``, beside the DMA engines; its latency is for a transfer without bytes. Vector's performance
    mode and GpSimd have a bus in common, which an instruction keeps for ``vector_gpsimd_bus_part`` of its time. One
    that reads the offset of an operand from a tile takes at least ``dynamic_offset_cycles``. A division takes
    ``divisor_cycles`` for each element of the divisor beside its product.
    """

    vector_clock_ghz = row(
        "GHz",
        docs(1.12, f"{TRN1_GUIDE}: table of compute engines"),
        docs(0.96, f"{TRN2_GUIDE}: table of compute engines"),
        docs(1.2, f"{TRN3_GUIDE}: table of compute engines"),
    )
    scalar_clock_ghz = row(
        "GHz",
        docs(1.4, f"{TRN1_GUIDE}: table of compute engines"),
        docs(1.2, f"{TRN2_GUIDE}: table of compute engines"),
        docs(1.2, f"{TRN3_GUIDE}: table of compute engines"),
    )
    gpsimd_clock_ghz = row(
        "GHz",
        docs(1.4, f"{TRN1_GUIDE}: table of compute engines"),
        docs(1.2, f"{TRN2_GUIDE}: table of compute engines"),
        docs(1.2, f"{TRN3_GUIDE}: table of compute engines"),
    )
    strided_access_bytes = row(
        "bytes",
        docs(16, f"{TRN1_GUIDE}: Performance Consideration, Access pattern"),
        docs(16, f"{TRN1_GUIDE}: Performance Consideration, Access pattern; assumed unchanged"),
        SAME,
    )
    strided_access_ns = row(
        "ns",
        docs(1.43, f"{TRN1_GUIDE}: Performance Consideration, Access pattern; half of an element per cycle at 1.4 GHz"),
        guess(
            1.43,
            f"{TRN1_GUIDE}: Performance Consideration, Access pattern; assumed unchanged. Slower with the base clock "
            "of trn2",
            (0.83, 1.67),
        ),
        SAME,
    )
    strided_matmul_cycles = row(
        "cycles",
        guess(
            2.0,
            f"{TRN1_GUIDE}: Performance Consideration, Access pattern: half of the rate of each interface. The peak "
            "that it names, 128 elements per cycle of 1.4 GHz, is below what operands of 16 bits need, so they may "
            "be slower; or have more to spare",
            (1.0, 4.0),
        ),
        guess(
            2.0,
            f"{TRN1_GUIDE}: Performance Consideration, Access pattern: half of the rate of each interface; assumed "
            "unchanged. The peak that it names, 128 elements per cycle of 1.4 GHz, is below what operands of 16 bits "
            "need, so they may be slower; or have more to spare",
            (1.0, 4.0),
        ),
        as_trn2((1.0, 4.0)),
    )
    vector_gpsimd_bus_part = row(
        "",
        docs(1.0, f"{TRN1_GUIDE}: Concurrent SBUF/PSUM accesses by engines: never both"),
        guess(
            0.5,
            f"{TRN2_GUIDE}: Data Movement Updates: Vector's performance mode uses a bus that GpSimd has too, between "
            "which the hardware arbitrates. Not said: how. Between no conflict at all and one instruction at a time",
            (0.0, 1.0),
        ),
        as_trn2((0.0, 1.0)),
    )
    dynamic_offset_cycles = row(
        "cycles",
        docs(600.0, f"{BETA1}: tensor_copy_dynamic_src, tensor_copy_dynamic_dst"),
        guess(600.0, f"{BETA1}: tensor_copy_dynamic_src, tensor_copy_dynamic_dst; assumed unchanged", (370, 650)),
        as_trn2((300, 900)),
    )
    performance_dtypes: Row[frozenset[DType]] = row(
        "dtypes",
        docs(frozenset((bfloat16,)), f"{BETA1}: tensor_tensor, tensor_reduce"),
        docs(frozenset((bfloat16, float16)), f"{TRN2_GUIDE}: Vector Engine Performance Mode"),
        docs(
            frozenset((bfloat16, float16, float8_e4m3, float8_e4m3fn, float8_e5m2)),
            f"{TRN3_GUIDE}: table of compute engines",
        ),
    )
    vector_width_16bit = row(
        "elements/cycle",
        docs(128, f"{TRN1_GUIDE}: table of compute engines"),
        docs(512, f"{TRN2_GUIDE}: table of compute engines"),
        docs(512, f"{TRN3_GUIDE}: table of compute engines"),
    )
    vector_width_32bit = row(
        "elements/cycle",
        docs(128, f"{TRN1_GUIDE}: table of compute engines"),
        docs(256, f"{TRN2_GUIDE}: table of compute engines"),
        docs(256, f"{TRN3_GUIDE}: table of compute engines"),
    )
    vector_two_tiles_cycles = row(
        "cycles",
        docs(2.0, f"{TRN1_GUIDE}: Vector Engine, Cost Model; {BETA1}: tensor_tensor, scalar_tensor_tensor"),
        guess(
            1.0,
            f"{TRN2_GUIDE}: the engine reads 256 elements of 32 bits a cycle, as many as two tiles of 16 bits need, "
            f"and twice those of trn1; {TRN2_TRACES}: an element of one float32 tile takes half a cycle. No profile "
            "shows two tiles",
            (1.0, 2.0),
        ),
        as_trn2((1.0, 2.0)),
    )
    vector_two_narrow_tiles_cycles = row(
        "cycles",
        docs(1.0, f"{BETA1}: tensor_tensor, scalar_tensor_tensor of bfloat16"),
        guess(
            0.5,
            f"{TRN2_GUIDE}, Vector Engine Performance Mode: twice the throughput of NeuronCore-v2, which takes one "
            f"cycle ({BETA1}); and 512 elements a cycle are two pairs for each lane. One cycle if twice means the "
            "general rule of that engine, two cycles for two tiles. No profile shows two tiles",
            (0.5, 1.0),
        ),
        as_trn2((0.5, 1.0)),
    )
    scalar_width_16bit = row(
        "elements/cycle",
        docs(128, f"{TRN1_GUIDE}: table of compute engines"),
        docs(128, f"{TRN2_GUIDE}: table of compute engines"),
        docs(256, f"{TRN3_GUIDE}: table of compute engines; 8-bit floats too"),
    )
    scalar_width_32bit = row(
        "elements/cycle",
        docs(128, f"{TRN1_GUIDE}: table of compute engines"),
        docs(128, f"{TRN2_GUIDE}: table of compute engines"),
        docs(128, f"{TRN3_GUIDE}: table of compute engines"),
    )
    min_interval_cycles = row(
        "cycles",
        docs(
            64,
            f"{BETA1}: MIN_II. With the issue overhead between those 64 cycles and the 100 of a short instruction in "
            f"{TRN1_GUIDE}: Vector Engine, Cost Model",
            (45, 81),
        ),
        docs(
            64,
            f"{BETA1}: MIN_II. With the issue overhead between the 100 cycles of a short instruction in {TRN1_GUIDE}, "
            "and the 144 that nki-library counts for each",
            (38, 82),
        ),
        as_trn2((38, 82)),
    )
    vector_issue_cycles = row(
        "cycles",
        measured(19, "mamba tutorial, profile on trn1: 931 ns per tensor_tensor of 512, 914 by the cost model"),
        measured(62, f"{TRN2_TRACES}: 65 ns between copies or reductions beyond N/0.96"),
        as_trn2((31, 93)),
    )
    vector_column_operand_cycles = row(
        "cycles",
        as_trn2((0, 80), because=UNPUBLISHED),
        measured(62, f"{TRN2_TRACES}: tensor_scalar with a column as operand takes 64 ns more"),
        as_trn2((31, 93)),
    )
    vector_latency_ns = row(
        "ns",
        as_trn2(
            (100.0, 350.0),
            because=f"{UNPUBLISHED}; 350 measured at 8192 elements, of which 2 % are of the rate",
        ),
        measured(150.0, f"{TRN2_TRACES}: 148 (reductions) to 157 ns (copies) beyond N/0.96"),
        as_trn2((75.0, 225.0)),
    )
    vector_dependent_cycles = row(
        "cycles",
        docs(100, f"{TRN1_GUIDE}: Vector Engine, Cost Model; short or dependent instructions"),
        measured(
            114, f"{TRN2_TRACES}: latency of 150 ns and 35 to the next start, less the interval; the guide says 100"
        ),
        as_trn2((57, 171)),
    )
    vector_exponentials_per_cycle = row(
        "elements/lane",
        guess(1, "the instruction is new on trn3"),
        SAME,
        docs(4, f"{TRN3_GUIDE}: Fast Exponential Evaluation"),
    )
    vector_random_per_cycle = row(
        "elements/lane",
        guess(1, "trn3 makes 4; others are not told"),
        SAME,
        docs(4, f"{TRN3_GUIDE}: random numbers, 4 of 32 bits a lane and cycle"),
    )
    reciprocal_cycles = row(
        "cycles",
        docs(8, f"{BETA1}: reciprocal"),
        measured(6, f"{TRN2_TRACES}: 178 ns for 4 elements, 202 for 8; reference: 8"),
        as_trn2((3, 9)),
    )
    divisor_cycles = row(
        "cycles",
        guess(
            8.0,
            "reciprocals of a division, on Vector, which has the better precision. The table of operators of release "
            "2.26.1 has them on Scalar, too, where one takes a cycle; nobody says which engine the compiler takes",
            (1.0, 8.0),
        ),
        guess(
            6.0,
            "reciprocals of a division, on Vector, which has the better precision. The table of operators of release "
            "2.26.1 has them on Scalar, too, where one takes a cycle; nobody says which engine the compiler takes",
            (1.0, 8.0),
        ),
        SAME,
    )
    scalar_issue_cycles = row(
        "cycles",
        measured(21, f"{INF2_TRACES}: completion to completion, 15.0 ns beyond N"),
        measured(55, f"{TRN2_TRACES}: copies, 38-55 ns beyond N/1.2", (46, 66)),
        as_trn2((27, 82)),
    )
    scalar_latency_ns = row(
        "ns",
        measured(157.0, f"{INF2_TRACES}: first ACTIVATE of a burst, beyond N"),
        measured(158.0, f"{TRN2_TRACES}: copies, beyond N/1.2"),
        as_trn2((79.0, 237.0)),
    )
    scalar_dependent_ns = row(
        "ns",
        measured(173.0, "NKI performance guide, profile: 189 ns between dependent ACTIVATEs of one element, less 16"),
        measured(147.0, f"{TRN2_TRACES}: latency of 158 ns and 35 to the next start, less the interval"),
        as_trn2((73.5, 220.5)),
    )
    activation_issue_cycles = row(
        "cycles",
        guess(21, f"{INF2_TRACES}: ACTIVATE as a copy; functions not measured", (21, 197)),
        measured(197, f"{TRN2_TRACES}: exp with a bias tile, 143-185 ns beyond N/1.2", (172, 222)),
        as_trn2((98, 296)),
    )
    activation_latency_ns = row(
        "ns",
        measured(165.0, "NKI performance guide, profiles: 159 ns for one element, 6.04 us for 8192"),
        measured(280.0, f"{TRN2_TRACES}: exp with a bias tile, 260-280 ns beyond N/1.2; older profiles 293"),
        guess(270.0, "that of trn2, the middle of its profiles; nothing published", (135.0, 405.0)),
    )
    scalar_read_accumulator_cycles = row(
        "cycles",
        docs(64, f"{TRN1_GUIDE}: Scalar Engine, ActReadAccumulator"),
        guess(64, f"{TRN1_GUIDE}: ActReadAccumulator; assumed unchanged", (0, 128)),
        as_trn2((32, 96)),
    )
    activation_table_load_ns = row(
        "ns",
        measured(368.0, f"{INF2_TRACES}: all 117 traces"),
        measured(1283.0, f"{TRN2_TRACES}; 1325 in older profiles"),
        as_trn2((368.0, 1925.0)),
    )
    activation_table_swap_ns = row(
        "ns",
        guess(
            184.0,
            "functions are in sets (Neuron Runtime, Work with NEFF files), of which four have published names: the "
            "middle of nothing and a load where others are concerned",
            (0.0, 368.0),
        ),
        guess(
            642.0,
            "functions are in sets (Neuron Runtime, Work with NEFF files), of which four have published names: the "
            "middle of nothing and a load where others are concerned",
            (0.0, 1283.0),
        ),
        SAME,
    )
    gpsimd_issue_cycles = row("cycles", docs(150, f"{BETA1}: affine_select, iota"), SAME, as_trn2((75, 225)))
    gpsimd_elements_per_start = row("elements", guess(512, "as GpSimd's iota", (1024, 256)))
    gpsimd_partition_reduce_cycles = row(
        "cycles", guess(8, "two of the 16 partitions of a processor at a time", (4, 16))
    )
    gpsimd_power_cycles = row(
        "cycles",
        guess(
            4.0,
            "that of the reverse square root, a quarter of Scalar's throughput (NKI ISA API Common Fields); a power "
            "has no published cost",
            (1.0, 8.0),
        ),
    )
    gpsimd_dma_gbps = row(
        "GB/s",
        as_trn2(because="trn1 has none"),
        docs(153.0, f"{TRN2_GUIDE}: GpSimd Engine, integrated DMA, one direction"),
        as_trn2((307.0, 76.0)),
    )
    gpsimd_dma_latency_ns = row(
        "ns",
        guess(
            300.0,
            "the reference calls it low; between two semaphores and a transfer of the DMA engines",
            (70.0, 1300.0),
        ),
    )
    register_load_ns = row(
        "ns",
        measured(530.0, f"{INF2_TRACES}: TENSOR_LOAD 389-671 ns, middle"),
        as_trn1((389.0, 671.0), because=UNPUBLISHED),
        as_trn2((265.0, 795.0)),
    )
    register_store_ns = row(
        "ns",
        measured(95.0, f"{INF2_TRACES}: TENSOR_STORE"),
        as_trn1((48.0, 190.0), because=UNPUBLISHED),
        as_trn2((47.5, 142.5)),
    )
    sequencer_ns = row(
        "ns",
        measured(50.0, f"{INF2_TRACES}: WRITE 37-64 ns, middle"),
        as_trn1((37.0, 91.0), because=UNPUBLISHED),
        as_trn2((25.0, 75.0)),
    )
    semaphore_ns = row(
        "ns",
        measured(38.0, f"{INF2_TRACES}: Tensor engine done to Scalar engine start, median"),
        measured(35.0, f"{TRN2_TRACES}: engine done to waiting engine, 34-37 ns"),
        as_trn2((17.5, 52.5)),
    )
    remote_semaphore_ns = row(
        "ns",
        as_trn2((35.0, 1300.0), because="trn1 has no instruction of this kind"),
        guess(
            240.0,
            "as a semaphore that a DMA engine writes: on inf2, 238-250 ns from the last of 16 writes to the reader; "
            "between a semaphore within a core and the 1300 ns across engines of the guide to DMA bandwidth",
            (35.0, 1300.0),
        ),
        as_trn2((35.0, 1300.0)),
    )
    semaphores = row(
        "semaphores",
        docs(256, f"{DRIVER}, address map of the second generation; per core"),
        docs(256, f"{DRIVER}, address map of the third generation; per core"),
        guess(256, f"{DRIVER}: 256 per core on trn1 and trn2; it has no map of trn3 yet"),
    )
    launch_ns = row(
        "ns",
        measured(
            8000.0,
            "triton-viz, comments of its NKI cost model: about 8 us beyond the timeline on inf2",
            (5000.0, 10000.0),
        ),
        measured(
            7720.0,
            "public counters of an attention kernel on trn2: mean of the benchmark 17.79 us, execution 10.07 us",
            (5000.0, 10000.0),
        ),
        as_trn2((5000.0, 12000.0)),
    )
    capture_ns = row(
        "ns",
        as_trn2((6500.0, 52500.0)),
        measured(
            15600.0,
            f"{TRN2_TRACES}: in eight of them 13.2 to 14.0 us pass before the first DMA instruction (handshakes, loads "
            "of registers, fetch of instructions), and 2.07 to 2.22 us behind the last data. Profiles of "
            f"{DMA} have their first triggers at 22.3 and 33.3 us. The tutorial on fused Mamba: every NEFF execution "
            "involves certain start-up and tear-down overhead",
            (13000.0, 35000.0),
        ),
        as_trn2((6500.0, 52500.0)),
    )
    unpublished_cost = row("", guess(1.0, "factor on cycles that no document gives", (0.5, 2.0)))
