"""Times of the Tensor engine."""

from __future__ import annotations

from nki.target.cited_documents import (
    INF2_TRACES,
    TRN1_GUIDE,
    TRN2_GUIDE,
    TRN2_TRACES,
    TRN3_GUIDE,
    TUTORIAL,
    UNPUBLISHED,
)
from nki.target.fact_rows import SAME, as_trn2, docs, guess, measured, row


class TensorEngine:
    """Its clock is throttled by windows: after one that is busier than ``raise`` it is at full rate, after one that is
    less busy than ``lower`` at ``fraction`` of it. ``idle_rows`` is the part in which idle rows of the array, beside
    rows that work, count as idle; ``idle_columns`` likewise. A transpose beside another instruction costs
    ``background_transpose`` of the shorter time less.
    """

    tensor_clock_ghz = row(
        "GHz",
        docs(2.8, f"{TRN1_GUIDE}: table of compute engines"),
        docs(2.4, f"{TRN2_GUIDE}: table of compute engines"),
        docs(2.4, f"{TRN3_GUIDE}: table of compute engines"),
    )
    matmul_min_interval_cycles = row(
        "cycles",
        docs(64, f"{TRN1_GUIDE}: Tensor Engine, Cost Model (MM_INIT_LATENCY)"),
        guess(64, f"{TRN1_GUIDE}: Tensor Engine, Cost Model; assumed unchanged"),
        as_trn2(),
    )
    matmul_issue_cycles = row(
        "cycles",
        measured(
            10,
            "published profiles: best sustained 128x128x512 on trn1, 212.4 to 213.7 ns, less 512 columns at 7/8 clock. "
            f"{INF2_TRACES}: 189 to 211 ns between matmuls of the same weights, the first ones at the whole clock",
            (6, 20),
        ),
        measured(
            10,
            "published sustained rate of 2048 bf16 128x128x512 matmuls (77.2 TFLOPS), weights included; 6 to 7 in "
            f"each of the two instructions of a float32 one, 859 ns ({TUTORIAL}), 7 to 13 for 128 columns",
            (6, 13),
        ),
        as_trn2((5, 15)),
    )
    matmul_fp32_factor = row(
        "",
        docs(4, f"{TRN1_GUIDE}: Tensor Engine, Cost Model"),
        measured(4, f"{TUTORIAL}: two passes of 1030 cycles for 512 columns"),
        docs(4, f"{TRN3_GUIDE}: Tensor Engine, 79 against 20 TFLOPS"),
    )
    matmul_fp32_instructions = row(
        "instructions",
        docs(
            2,
            "Neuron Explorer, profile schema reference, raw_flops: each FP32 matmul lowers to two FP32_LO_HI "
            "instructions. It names no generation; profiles of trn2 show both. At the fast end the issue of the "
            "second one is hidden",
            (1, 2),
        ),
        docs(
            2,
            "Neuron Explorer, profile schema reference, raw_flops: each FP32 matmul lowers to two FP32_LO_HI "
            f"instructions; {TRN2_TRACES}: with the low, then the high part of the weights",
        ),
        docs(
            2,
            "Neuron Explorer, profile schema reference, raw_flops: each FP32 matmul lowers to two FP32_LO_HI "
            "instructions",
        ),
    )
    matmul_latency_ns = row(
        "ns",
        measured(145.0, f"{INF2_TRACES}: start to done at 8 columns"),
        measured(160.0, f"{TUTORIAL}: 586-595 ns for 1024 cycles"),
        as_trn2((80.0, 240.0)),
    )
    stationary_load_speedup = row(
        "",
        docs(4, f"{TRN1_GUIDE}: Fast LoadStationary"),
        guess(4, f"{TRN1_GUIDE}: Fast LoadStationary; assumed unchanged"),
        as_trn2(),
    )
    stationary_load_cycles = row(
        "cycles",
        measured(
            0,
            f"{INF2_TRACES}: four matmuls of 512 columns and one load of weights begin 189, 203 and 211 ns after each "
            "other. Loads in between take no more: published profiles of trn1 have 212.4 to 213.7 ns with new "
            "weights each time",
            (0, 8),
        ),
        measured(0, "contained in matmul_issue_cycles: the published rate is that of matmuls with new weights"),
        as_trn2(),
    )
    tensor_activity_limit = row(
        "",
        measured(
            0.875,
            f"{INF2_TRACES}: a limit of 7/8 (HAM) from 40 ns after the first matmul on. Later ones of a row begin "
            "after 211 ns and last 349 to 357 instead of 329: 512 columns at 7/8 of the clock. So do the best "
            "sustained ones of trn1 in published profiles. At the fast end there is none, as for the first two of a "
            "row",
            (1.0, 0.875),
        ),
        measured(
            1.0, f"{TRN2_TRACES}: matmuls follow each other at the whole clock; tensor_throttle_fraction lowers it"
        ),
        as_trn2(because="tensor_throttle_fraction lowers the clock"),
    )
    tensor_throttle_fraction = row(
        "",
        guess(1.0, "profiles show no other limit than tensor_activity_limit"),
        measured(0.5, f"{TRN2_TRACES}: 4/8 or 8/8 of the clock, 4/8 at the start; Neuron Explorer: near half rate"),
        docs(0.5, "Neuron Explorer, Overview: the Tensor engine starts near half rate"),
    )
    tensor_throttle_window_cycles = row(
        "cycles",
        as_trn2(because=UNPUBLISHED),
        measured(8192, f"{TRN2_TRACES}: windows of 3413.3 ns; Neuron Explorer: about 3 us"),
        as_trn2((4096, 16384)),
    )
    tensor_throttle_raise = row(
        "",
        as_trn2(because=UNPUBLISHED),
        measured(
            0.75,
            f"{TRN2_TRACES}: busy part of a slow window, 0.74 was too little; three eighths of the cycles at full rate",
        ),
        as_trn2(),
    )
    tensor_throttle_lower = row(
        "",
        as_trn2(because=UNPUBLISHED),
        measured(
            0.375,
            f"{TRN2_TRACES}: of fast windows, 0.32 was too little and 0.41 enough; three eighths of the cycles, which "
            "is what raises the clock of a slow one. Neuron Explorer says 50 %, and does not say of what",
            (0.32, 0.4),
        ),
        as_trn2((0.32, 0.4)),
    )
    tensor_throttle_idle_rows = row(
        "",
        as_trn2((0.0, 1.0), because=UNPUBLISHED),
        guess(
            1.0,
            "published profile of 512 products each with 32 columns that are loaded, 64 that move, 32 rows, and all: "
            "453 us, where a fast clock takes 350 and a slow one for 512 columns adds 111. So either 32 rows or 32 "
            "loaded columns keep the clock slow, not both. Rows are assumed: what moves along them is known where it "
            "enters",
            (0.0, 1.0),
        ),
        as_trn2((0.0, 1.0)),
    )
    tensor_throttle_idle_columns = row(
        "",
        as_trn2((0.0, 1.0), because=UNPUBLISHED),
        guess(0.0, "the other reading of the profile that tensor_throttle_idle_rows names", (0.0, 1.0)),
        as_trn2((0.0, 1.0)),
    )
    tensor_background_transpose = row(
        "",
        docs(0.0, "Trainium3 Architecture Guide for NKI: new on trn3"),
        SAME,
        guess(
            0.9,
            f"{TRN3_GUIDE}: Background Transpose, beside a product or another transpose: close to twice the rate of "
            "chains",
            (1.0, 0.0),
        ),
    )
