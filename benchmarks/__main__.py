"""All measurements in one table: ``python -m benchmarks [--runs N] [section ...]``.

Section ``elementary`` has 190 rows of its own, ``collectives`` and ``unseen`` start processes; they are printed only if
they are named.

Ratios are within one run: each pair of times is the median of interleaved runs on one thread, except where a row says
otherwise.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"  # read when the libraries are imported
os.environ["OPEN_NKI_CACHE_DISABLE"] = "1"  # what is compiled here is compiled
os.environ["OPEN_NKI_FIRST_CALL"] = "native"  # what is measured is native code
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import argparse
import sys

import torch

from benchmarks import (
    collectives,
    compiling,
    elementary,
    first_call,
    kernels_whole,
    launching,
    matmul,
    memory,
    primitives,
    profiles_of_text,
    profiling,
    resident_memory,
    scheduling,
    simulating,
)

SECTIONS = {
    "matmul": matmul.rows,
    "primitives": primitives.rows,
    "compiling": compiling.rows,
    "scheduling": scheduling.rows,
    "profiling": profiling.rows,
    "profiles of text": profiles_of_text.rows,
    "simulating": simulating.rows,
    "memory": memory.rows,
    "first call": first_call.rows,
    "launching": launching.rows,
    "kernels_whole": kernels_whole.rows,
    "resident memory": resident_memory.rows,
}
ON_REQUEST = {"elementary": elementary.rows, "collectives": collectives.rows, "unseen": first_call.unseen_rows}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", choices=[*SECTIONS, *ON_REQUEST, []], help="default: all that need not be named"
    )
    parser.add_argument("--runs", type=int, default=40, help="interleaved runs per measurement")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| {'what':<44} | {'ours':>16} | {'theirs':>22} | {'ratio':>14} |")
    print(f"|{'-' * 46}|{'-' * 17}:|{'-' * 23}:|{'-' * 15}:|")
    with torch.inference_mode():
        for name in options.sections or SECTIONS:
            for row in (SECTIONS | ON_REQUEST)[name](options.runs):
                print(f"| {row.what:<44} | {row.ours:>16} | {row.theirs:>22} | {row.ratio:>14} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
