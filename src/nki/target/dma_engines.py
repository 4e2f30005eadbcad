"""Times of DMA transfers, and the rate of HBM."""

from __future__ import annotations

from nki.target.cited_documents import (
    DMA,
    INF2_TRACES,
    TRN1_GUIDE,
    TRN2_GUIDE,
    TRN2_PAGE,
    TRN2_TRACES,
    TRN3_GUIDE,
    TUTORIAL,
)
from nki.target.fact_rows import KIB, SAME, as_trn2, docs, guess, measured, row


class DmaEngines:
    """A transfer takes trigger + start + bytes over rate + completion. The trigger keeps the queue and the generator of
    its descriptors: hardware of the Sync or Scalar engine, or software on GpSimd; static descriptors have none.
    ``dma_trigger_ns`` and ``dma_start_ns`` hold where the kernel leaves the choice open. Before software writes the
    descriptors of rows that indices name, it reads the indices (``row_indices``). The bytes keep the DMA engines, which
    all queues of a core share; the descriptors of one transfer reach the engines one after the other (``spread``). The
    data of the second load of a launch stands still at first (``second_load``). ``dma_engine_by_partition`` is the part
    of a transfer that the engines of its partitions move alone. A packet takes its bytes, of the wider dtype, at the
    peak rate and an overhead; one that converts has its own. Stores, from SBUF to HBM, wait for no data of HBM: they
    have an overhead and a sustained rate of their own.
    """

    dma_hardware_descriptors = row(
        "",
        docs(False, "Trainium2 Architecture Guide for NKI: DGE is new with trn2"),
        docs(True, f"{TRN2_GUIDE}: DGE; the compiler's choice where a kernel leaves it open"),
        docs(True, "Trainium2 Architecture Guide for NKI: DGE; unchanged"),
    )
    dma_open_descriptors = row(
        "",
        measured(
            "software",
            f"{INF2_TRACES}: GpSimd writes the descriptors of inputs and outputs; so does a compilation for trn1 in "
            "the RMSNorm tutorial (its log: DGE is on for io). A profile in the NKI performance guide has a static "
            "queue for them, and the page on profiles recommends to switch DGE off (--disable-dge): a named "
            "assumption of each profile. Hardware: the DGE reference gives it to NeuronCore-v3 and later alone",
        ),
        docs("hardware", f"{TRN2_GUIDE}: DGE; the compiler's choice, with times between those of all ways"),
        docs("hardware", f"{TRN2_GUIDE}: DGE; unchanged"),
    )
    dma_engines = row(
        "engines",
        docs(16, f"{TRN1_GUIDE}: Data movement between HBM and SBUF using DMAs; per core"),
        docs(16, f"{DMA}: introduction; per core"),
        SAME,
    )
    dma_queues_per_engine = row("queues", docs(16, f"{DMA}: DMA Queues"))
    dma_engine_by_partition = row(
        "",
        docs(
            1.0,
            f"{DMA}: an engine is typically responsible for eight partitions; rows of four of them go through one "
            "engine, there and back. The same page: by default up to 16 engines share a transfer, depending on its "
            "shape. At the fast end they share each",
            (0.0, 1.0),
        ),
    )
    dma_engine_peak_gbps = row(
        "GB/s",
        docs(27.2, f"{DMA}: Basic DMA Capabilities; the architecture guide says 27 GiB/s"),
        docs(27.2, f"{DMA}: Basic DMA Capabilities"),
        docs(38.4, f"{DMA}: Basic DMA Capabilities"),
    )
    dma_engine_sustained_gbps = row(
        "GB/s",
        measured(
            16.5,
            f"the middle of four published rates: 17.0, {DMA}: Performance Considerations; 17.1, reads of GiB at 273 "
            "GB/s; 15.5 to 15.9, 4 MiB alone in 16,955 to 16,500 ns; 16.1, 32 KiB on each engine every 2,030 ns "
            "(both profiles are in the NKI performance guide)",
            (17.2, 15.5),
        ),
        measured(
            23.5,
            f"the mean of seven published rates: {DMA}, 23.0 of Performance Considerations, 23.1 of its profile, 354 "
            f"GB/s of 16 engines; {TRN2_TRACES}: 128 rows of 4 KiB at 376 and 343 GB/s, at 404-418 while one queue "
            "alone has data, and 415 over 10 us of loads and stores",
            (26.1, 21.4),
        ),
        docs(
            33.0,
            f"{DMA}: Performance Considerations. Of trn2 the same page says 23, and profiles show 21.4 to 26.1: the "
            "same parts of 33",
            (37.4, 30.7),
        ),
    )
    dma_engine_store_gbps = row(
        "GB/s",
        measured(
            19.0,
            "NKI performance guide, profile of large transfers (Opt #9): 32 KiB of a store in 1,810 ns beside loads, "
            f"1,480 without, where a load takes 2,000; all together 68 % of the peak. {INF2_TRACES}: stores of 139 to "
            "262 KB at 299 to 359 GB/s on 16 engines. pantheonneuron: writes of 4 GiB at 254 GB/s. The middle of "
            "these",
            (22.4, 15.9),
        ),
        measured(
            26.8,
            f"{DMA}, profile: a store of 32 KiB on one engine in 1,222 ns, where the load takes 1,416",
            (26.8, 23.0),
        ),
        guess(33.0, "the rate of loads; on trn1 and trn2 stores are faster, up to the peak of an engine", (38.4, 33.0)),
    )
    dma_packet_bytes = row(
        "bytes", docs(4 * KIB, "Neuron Runtime documentation, Compute-Communication Overlap: default")
    )
    dma_packet_overhead_ns = row(
        "ns",
        measured(7.0, f"{INF2_TRACES}: 81 ns for 2 KiB, 121 for 3, 158 for 4, 205 for 5.25", (5.0, 26.0)),
        measured(
            16.0,
            f"{TUTORIAL}: all packets take 519.58 and 402.07 ms, so 35 ns for 512 bytes and 89 for 2 KiB, of which "
            f"27.2 GB/s explains 19 and 75; alone ({TRN2_TRACES}) 24-27 and 81-83, and rows of 1 KiB at 259 GB/s 63",
            (5.0, 26.0),
        ),
        as_trn2((5.0, 26.0)),
    )
    dma_adjacent_overhead_ns = row(
        "ns",
        measured(
            7.0, f"{INF2_TRACES}: that of all packets; its rows lie side by side in HBM, except for few", (5.0, 26.0)
        ),
        measured(
            5.0,
            f"{TRN2_TRACES}: 128 loaded rows side by side in HBM, one queue with data: a packet every 156 ns for 4 "
            "KiB, 80 for 2 KiB, 23 for 512 bytes, 14 for 256, so 4-6 beside 27.2 GB/s; 24-27 and 81-83 elsewhere",
            (4.0, 8.0),
        ),
        as_trn2((4.0, 16.0)),
    )
    dma_store_overhead_ns = row(
        "ns",
        measured(7.0, f"that of all packets; {INF2_TRACES} show no difference", (2.0, 26.0)),
        measured(
            5.0,
            f"{TRN2_TRACES}: packets alone take 2-7 ns beside their bytes; {DMA}, profile: eight of 4 KiB in 1,222 "
            "ns. The kernels that show more load nearly all that they move",
            (2.0, 16.0),
        ),
        as_trn2((2.0, 26.0)),
    )
    dma_cast_packet_bytes = row(
        "bytes",
        measured(
            4 * KIB,
            f"{INF2_TRACES}: a packet per row of up to 2 KiB in a store that converts; assumed to be as long as others",
        ),
        measured(
            512,
            f"{TRN2_TRACES}: stores of 128 rows and 131-262 KB that convert float32 have packets of 256 bytes of "
            "bfloat16",
        ),
        as_trn2((4096, 512)),
    )
    dma_cast_overhead_ns = row(
        "ns",
        measured(
            2.3,
            f"{INF2_TRACES}: a store that converts float32 to float16 has packets of 512, 1024 and 2048 bytes every "
            "21, 40 and 77.5 ns, less those bytes at 27.2 GB/s",
        ),
        measured(
            21.0,
            f"{TRN2_TRACES}: packets of a store that converts 512 bytes of float32 take 39-41 ns, 19 of them at 27.2 "
            "GB/s",
            (20.0, 22.0),
        ),
        as_trn2((5.0, 26.0)),
    )
    dma_trigger_ns = row(
        "ns",
        measured(648.0, f"{INF2_TRACES}: GpSimd writes the descriptors, one transfer after the other"),
        measured(
            565.0,
            f"that of hardware descriptors, and about that of software. {TUTORIAL}: all transfers are dynamic, and "
            "GpSimd triggers those of the tiled kernel, one every 606 ns. neuron-agentic-development says the same "
            f"of all kernels (dynamic DMA path). One profile, of {DMA}, has a static queue, whose trigger takes 50",
            (517.0, 606.0),
        ),
        as_trn2((283.0, 848.0)),
    )
    dma_start_ns = row(
        "ns",
        measured(214.0, f"{INF2_TRACES}: instruction to first packet, middle of the medians 188-240"),
        measured(
            441.0,
            "the compiler's choice is not published and its profiles differ: first data 1006 ns after a static "
            f"trigger ({DMA}), 624-743 after software, 1326-1345 after hardware ({TRN2_TRACES}); the middle, less 565",
            (59.0, 780.0),
        ),
        as_trn2((59.0, 1155.0)),
    )
    dma_hardware_trigger_ns = row(
        "ns",
        as_trn2(because="nothing published for this generation; it has no hardware generator"),
        measured(
            565.0,
            f"{TRN2_TRACES}: a hardware DMA holds its queue 540-550 ns (517-601), the next one begins after 576-590; "
            "the guide says 600",
            (517.0, 601.0),
        ),
        as_trn2((283.0, 848.0)),
    )
    dma_hardware_start_ns = row(
        "ns",
        as_trn2(because="nothing published for this generation; it has no hardware generator"),
        measured(770.0, f"{TRN2_TRACES}: first packet 1326-1345 ns after the trigger, less 565"),
        as_trn2((385.0, 1155.0)),
    )
    dma_one_descriptor_part = row(
        "",
        guess(1.0, "trn1 has no hardware generator"),
        guess(
            1.0,
            f"the part of a hardware trigger that a single run of bytes takes. {TRN2_TRACES} have 517-601 ns with 128 "
            "rows alone; the guide says 600 for each instruction, whatever it moves. At the fast end the trigger takes "
            "as long as the write of a static one, 50 ns",
            (0.1, 1.0),
        ),
        as_trn2((0.1, 1.0)),
    )
    dma_software_trigger_ns = row(
        "ns",
        measured(
            648.0,
            f"{INF2_TRACES}: 648-649 between consecutive ones, 651-658 behind a semaphore, for loads and stores of "
            "128 rows, with and without conversion, rows of 256 to 2048 bytes, 16 to 128 packets",
        ),
        measured(587.0, f"{TRN2_TRACES}: 576-598 ns between software DMAs"),
        as_trn2((294.0, 880.0)),
    )
    dma_software_start_ns = row(
        "ns",
        measured(214.0, f"{INF2_TRACES}: instruction to first packet, middle of the medians 188-240"),
        measured(45.0, f"{TRN2_TRACES}: first packet 624-640 ns after the instruction"),
        as_trn2((22.0, 214.0)),
    )
    dma_row_indices_ns = row(
        "ns",
        guess(
            0.0,
            "no profile of loads or stores by indices is published: between nothing (other transfers have a "
            "descriptor for each row, too) and as long as their descriptors take",
            (0.0, 648.0),
        ),
        guess(
            0.0,
            "no profile of loads or stores by indices is published: between nothing (other transfers have a "
            "descriptor for each row, too) and as long as their descriptors take",
            (0.0, 587.0),
        ),
        as_trn2((0.0, 587.0)),
    )
    dma_static_start_ns = row(
        "ns",
        measured(
            331.0,
            f"{INF2_TRACES}: the first packet of a load of 32 KiB comes 368 ns after Sync begins the write that "
            "triggers it (234-581), 37 of them for the write",
            (197.0, 544.0),
        ),
        measured(956.0, f"{DMA}, profile: 1006 ns from a static trigger to data"),
        as_trn2((478.0, 1434.0)),
    )
    dma_spread_ns = row(
        "ns",
        measured(
            279.0,
            f"{INF2_TRACES}: 204-758 ns from the first data to the last of 128 rows of 256 bytes, median of 234 loads",
            (204.0, 758.0),
        ),
        measured(
            430.0, f"{TRN2_TRACES}: rows of 512 bytes, 417-641 ns from the first data to the last", (417.0, 641.0)
        ),
        as_trn2((215.0, 645.0)),
    )
    dma_second_load_ns = row(
        "ns",
        measured(
            453.0,
            f"{INF2_TRACES}: the first packets of the second load of a launch stand still. From its descriptors to "
            "its reader it takes 114-703 ns more than its bytes and the other facts tell, median of 112 launches; "
            "the first load 22. Nobody says why",
            (114.0, 703.0),
        ),
        guess(0.0, "no profile of this generation shows the second load of a launch apart; trn1 has 453", (0.0, 453.0)),
        SAME,
    )
    dma_completion_ns = row(
        "ns",
        measured(345.0, f"{INF2_TRACES}: semaphore write ~105 ns, then waiting engine ~240 ns"),
        measured(386.0, f"{TRN2_TRACES}: last data to waiting instruction, 374-398 ns", (293.0, 450.0)),
        as_trn2((193.0, 579.0)),
    )
    dma_accumulate_efficiency = row(
        "",
        docs(0.5, "Trainium3 Architecture Guide for NKI: SBUF Read-Add-Write, before it"),
        SAME,
        guess(
            0.5,
            f"{TRN3_GUIDE}: SBUF Read-Add-Write: half of the rate where DMA engines compute, as before this "
            "generation; the new way has all of it, and no nki.isa instruction yet",
            (1.0, 0.5),
        ),
    )
    dma_transpose_efficiency = row(
        "",
        guess(
            0.15,
            "NKI performance guide, Opt #10: the DMA engines have a transpose mode, at a much lower bandwidth than "
            "loads. Its profile has one transfer of 4.81 us in that mode: 0.05 of an engine's rate if it is a packet "
            "of 4 KiB, 0.4 for 32 KiB, as loads have in the same guide. In the middle",
            (0.4, 0.05),
        ),
        docs(0.9, f"{TRN2_GUIDE}: DMA Transpose, HBM to SBUF"),
        docs(0.9, f"{TRN2_GUIDE}: DMA Transpose; unchanged"),
    )
    dma_transpose_sbuf_efficiency = row(
        "",
        guess(0.5, "Trainium2 Architecture Guide for NKI: DMA Transpose, SBUF to SBUF"),
        docs(0.5, f"{TRN2_GUIDE}: DMA Transpose, SBUF to SBUF"),
        docs(0.5, f"{TRN2_GUIDE}: DMA Transpose; unchanged"),
    )
    hbm_chip_gbps = row(
        "GB/s",
        docs(820.0, f"{TRN1_GUIDE}: introduction"),
        docs(3000.0, f"{TRN2_GUIDE}: introduction; the hardware page of trn2 says 2900"),
        docs(4700.0, f"{TRN3_GUIDE}: introduction; the hardware page of trn3 says 4900"),
    )
    hbm_stack_gbps = row(
        "GB/s",
        docs(410.0, f"{TRN1_GUIDE}: introduction; a half of the chip's, as each core has a stack"),
        measured(
            716.0,
            f"{TRN2_TRACES}: what their metadata say for two physical cores; a fourth of the chip's 2900 to 3000 is "
            "725 to 750",
            (750.0, 716.0),
        ),
        guess(1175.0, "a fourth of the chip's, as on trn2", (1225.0, 1120.0)),
    )
    hbm_stack_cores = row(
        "cores",
        docs(1, f"{TRN1_GUIDE}: introduction; two cores and two stacks"),
        measured(2, f"{TRN2_TRACES}: their metadata; {TRN2_PAGE}: eight cores and four stacks"),
        as_trn2(),
    )
