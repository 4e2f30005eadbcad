"""Sizes of memories, and what instructions accept."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nki.base.element_types import DType, bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2, float16, float32, tfloat32
from nki.target.cited_documents import KLR, MATMUL, TRN1_GUIDE, TRN2_GUIDE, TRN3_GUIDE
from nki.target.fact_rows import GIB, KIB, SAME, Row, as_trn3, docs, guess, row


class Limits:
    """Memories, and what instructions accept. "Usable" is the part that the runtime leaves to a kernel.
    ``start_partitions``: for tiles of up to so many partitions, the partitions at which they may start.
    ``matmul_moving_free_max`` is keyed by the dtype of the result, which makes its keys the dtypes that a matmul may
    write; ``gemm_moving_fmax`` is the constant of the same purpose that kernels read.
    """

    cores_per_chip = row(
        "cores",
        docs(2, f"{TRN1_GUIDE}: introduction"),
        docs(8, f"{TRN2_GUIDE}: introduction"),
        docs(8, f"{TRN3_GUIDE}: introduction"),
    )
    logical_core_max = row(
        "cores",
        guess(1, "no document offers logical cores of two for this generation"),
        docs(2, "NKI reference, nki.jit: kernels are launched on one or two cores"),
        SAME,
    )
    partitions = row(
        "partitions",
        docs(128, f"{TRN1_GUIDE}: NeuronCore-v2 Compute Engines"),
        docs(128, f"{TRN2_GUIDE}: NeuronCore-v3 Compute Engine Updates"),
        docs(128, f"{TRN3_GUIDE}: SBUF holds tensors of 128 partitions"),
    )
    quadrant_partitions = row(
        "partitions",
        docs(32, f"{TRN1_GUIDE}: Cross-partition Data Movement"),
        SAME,
        docs(32, f"{TRN3_GUIDE}: Quad-MXFP8/MXFP4 Matmul Performance, scale layout"),
    )
    start_partitions: Row[tuple[tuple[int, tuple[int, ...]], ...]] = row(
        "partitions",
        docs(((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,))), f"{TRN1_GUIDE}: SBUF and PSUM access"),
        docs(((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,))), f"{TRN1_GUIDE}: SBUF and PSUM access; unchanged"),
        SAME,
    )
    gpsimd_core_partitions = row("partitions", docs(16, "NKI reference, nki.isa.local_gather"))
    sbuf_partition_bytes = row(
        "bytes",
        docs(192 * KIB, f"{TRN1_GUIDE}: NeuronCore-v2 Compute Engines (24 MiB over 128)"),
        docs(224 * KIB, f"{TRN2_GUIDE}: NeuronCore-v3 Compute Engine Updates"),
        docs(256 * KIB, f"{TRN3_GUIDE}: NeuronCore-v4 Compute Engine Updates (32 MiB over 128)"),
    )
    sbuf_usable_partition_bytes = row(
        "bytes",
        docs(180224, f"{KLR}: 192 KiB less 16 KiB reserved"),
        docs(212984, f"{KLR}: 224 KiB less 16 KiB and 8 bytes reserved"),
        docs(245752, f"{KLR}: 256 KiB less 16 KiB and 8 bytes reserved"),
    )
    sbuf_align_bytes = row("bytes", docs(1, f"{KLR}; the reference names the constant and not its value"))
    psum_partition_bytes = row(
        "bytes",
        docs(16 * KIB, f"{TRN1_GUIDE}: NeuronCore-v2 Compute Engines (2 MiB over 128)"),
        docs(16 * KIB, f"{TRN2_GUIDE}: NeuronCore-v3 Compute Engine Updates (2 MiB over 128)"),
        docs(16 * KIB, f"{TRN3_GUIDE}: NeuronCore-v4 Compute Engine Updates (2 MiB over 128)"),
    )
    psum_banks = row(
        "banks",
        docs(8, f"{TRN1_GUIDE}: Near-memory accumulation in PSUM"),
        docs(8, f"{TRN1_GUIDE}: Near-memory accumulation in PSUM; unchanged"),
        docs(8, f"{MATMUL}: Tile size (8 banks are the entire PSUM)"),
    )
    psum_bank_bytes = row(
        "bytes",
        docs(2 * KIB, f"{TRN1_GUIDE}: Near-memory accumulation in PSUM (512 words of 32 bits)"),
        docs(2 * KIB, f"{TRN1_GUIDE}: Near-memory accumulation in PSUM; unchanged"),
        SAME,
    )
    psum_align_bytes = row("bytes", docs(4, f"{KLR}; the reference names the constant and not its value"))
    hbm_bytes = row(
        "bytes",
        docs(32 * GIB, f"{TRN1_GUIDE}: introduction; per chip"),
        docs(96 * GIB, f"{TRN2_GUIDE}: introduction; per chip"),
        docs(144 * GIB, f"{TRN3_GUIDE}: introduction; per chip"),
    )
    matmul_dtypes: Row[frozenset[DType]] = row(
        "dtypes",
        docs(frozenset((float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32, float32)), f"{MATMUL}: Data types"),
        SAME,
        docs(
            frozenset((float8_e4m3, float8_e4m3fn, float8_e5m2, bfloat16, float16, tfloat32, float32)),
            f"{MATMUL}: Data types",
        ),
    )
    matmul_stationary_free_max = row(
        "elements", docs(128, f"{TRN1_GUIDE}: Tensor Engine, Tile Size"), docs(128, f"{MATMUL}: Tile size"), SAME
    )
    matmul_moving_free_max: Row[Mapping[DType, int]] = row(
        "elements",
        docs(MappingProxyType({float32: 512}), f"{MATMUL}: Tile size, Data types"),
        SAME,
        docs(
            MappingProxyType({float32: 4096, bfloat16: 8192}),
            f"{MATMUL}: Tile size; {TRN3_GUIDE}: BF16 Matmul Results in PSUM",
        ),
    )
    gemm_moving_fmax = row(
        "elements",
        docs(512, f"{KLR}; {TRN1_GUIDE}: Tensor Engine, Tile Size"),
        docs(512, KLR),
        docs(512, f"{KLR}: 512 for every generation"),
    )
    matmul_row_tiles: Row[tuple[int, ...]] = row(
        "rows", docs((64, 128), f"{MATMUL}: Tiling mode"), docs((32, 64, 128), f"{MATMUL}: Tiling mode"), SAME
    )
    matmul_transpose_mode = row(
        "",
        docs(False, f"{MATMUL}: Transpose mode; is_transpose only marks the profile"),
        docs(True, f"{TRN2_GUIDE}: Built-in Transpose Support"),
        SAME,
    )
    matmul_accumulates_foreign_psum = row(
        "",
        docs(False, f"{MATMUL}: Accumulation mode, note"),
        SAME,
        docs(True, f"{MATMUL}: Accumulation mode, note (limits v2 and v3 only)"),
    )
    bn_stats_free_max = row("elements", docs(512, "NKI reference, nki.isa.bn_stats"))
    access_pattern_dims = row("dimensions", docs(5, "NKI access-pattern guide; on chip, the partitions among them"))
    vector_transpose_max = row("elements", docs(32, "NKI reference, nki.isa.nc_transpose; and partitions"))
    vector_rng_words = row(
        "words", docs(24, "NKI reference, nki.isa.rand_set_state; four generators of six words a lane")
    )
    max8_free_max = row("elements", docs(16384, "NKI reference, nki.isa.max8"))
    local_gather_runs: Row[tuple[int, ...]] = row(
        "elements", docs((1, 2, 4, 8, 16, 32), "NKI reference, nki.isa.local_gather")
    )
    local_gather_indices_max = row("indices", docs(4096, "NKI reference, nki.isa.local_gather; per GpSimd core"))
    topk_numbers_min = row("numbers", docs(8, "NKI reference, nki.isa.topk"))
    topk_numbers_max = row("numbers", docs(65535, "NKI reference, nki.isa.topk"))
    topk_results_max = row("numbers", docs(32767, "NKI reference, nki.isa.topk"))
    offset_group_partitions = row(
        "partitions",
        as_trn3(because="no earlier generation has tensor indirection"),
        SAME,
        docs(16, "NKI reference, NkiTensor.indirect"),
    )
    tensor_offset_group_partitions = row(
        "partitions",
        as_trn3(because="no earlier generation has tensor indirection"),
        SAME,
        docs(32, "NKI reference, NkiTensor.indirect"),
    )
    mx_scale_partitions = row(
        "partitions",
        as_trn3(because="no earlier generation has MX formats"),
        SAME,
        docs(8, "MXFP Matrix Multiplication with NKI on AWS Neuron, Scale Tensor"),
    )
    mx_scale_shifts: Row[tuple[int, ...]] = row(
        "partitions",
        as_trn3(because="no earlier generation has MX formats"),
        SAME,
        docs((0, 4, 8, 12), "MXFP Matrix Multiplication with NKI on AWS Neuron, Packing Scale Values"),
    )
    dma_sources_max = row("tensors", docs(16, "NKI reference, nki.isa.dma_compute"))
    dma_priorities = row(
        "levels",
        as_trn3(because="no earlier generation has DMA priorities"),
        SAME,
        docs(4, "NKI reference, nki.isa.dma_copy: 0 to 3"),
    )
    dma_transpose_block_rows = row(
        "rows",
        guess(16, "the value of trn2, the first that has hardware descriptors"),
        docs(16, "NKI reference, nki.isa.dma_transpose, direct and indirect transpose"),
        SAME,
    )
    gpsimd_dma_elements = row(
        "elements",
        guess(256, "the value of trn2, the first that has nki.isa.sendrecv"),
        docs(256, "NKI reference, nki.isa.sendrecv: 1024 bytes of a 32-bit dtype"),
        SAME,
    )
    vector_gpsimd_share_sbuf = row(
        "",
        docs(False, f"{TRN1_GUIDE}: Concurrent SBUF/PSUM accesses by engines"),
        docs(True, f"{TRN2_GUIDE}: Data Movement Updates"),
        docs(True, f"{TRN2_GUIDE}: Data Movement Updates; unchanged"),
    )
    vector_scalar_share_psum = row(
        "",
        docs(False, f"{TRN1_GUIDE}: Concurrent SBUF/PSUM accesses by engines"),
        docs(True, f"{TRN2_GUIDE}: Data Movement Updates; full rate on different banks only"),
        docs(True, f"{TRN2_GUIDE}: Data Movement Updates; unchanged"),
    )
    memory_handover = row(
        "",
        guess(
            0.5,
            f"{TRN1_GUIDE}, Data Movement: the compiler serializes instructions of two engines that cannot share a "
            "memory. The only documented means of an order between engines is a semaphore at the end of an "
            "instruction. Not said: if the next one may begin as soon as the engine is free. The middle of both",
            (0.0, 1.0),
        ),
        docs(0.0, f"{TRN2_GUIDE}: Data Movement Updates; engines share both memories"),
        SAME,
    )
