"""The options of ``nki profile``, beside the kernel, its arguments and targets."""

from __future__ import annotations

import argparse


def add_to(profiling: argparse.ArgumentParser) -> None:
    """Add the options to the parser of the command."""
    profiling.add_argument("--seed", type=int, default=0, help="seed of random arguments (default 0)")
    profiling.add_argument(
        "--step",
        choices=("torch", "jax"),
        help="the name is of a function of PyTorch or JAX that calls kernels: predict them together, in one report",
    )
    profiling.add_argument("--compare", metavar="KERNEL", help="show another kernel with the same arguments beside it")
    profiling.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="show beside it the kernel on hardware with another number, such as dma_bandwidth=2.0 or semaphore_ns=20",
    )
    profiling.add_argument(
        "--against",
        metavar="CAPTURE",
        help="lay a capture of the kernel on a device beside it, and name the fact that explains the difference: a "
        "folder of Parquet tables, or a summary-json",
    )
    profiling.add_argument("--calibrate", metavar="FILE", help="write the facts that the capture supports, as JSON")
    profiling.add_argument(
        "--facts", metavar="FILE", help="calibrated facts in place of the target's (default: the file in NKI_FACTS)"
    )
    profiling.add_argument("--order", choices=("list", "program"), help="order of each engine; the range holds both")
    profiling.add_argument(
        "--trips",
        metavar="N|N:M",
        help="iterations of loops that depend on data; of a range, N counts for the interval",
    )
    profiling.add_argument(
        "--lines", metavar="N|all", help="number of source lines in the text (default 8); JSON and the page have all"
    )
    profiling.add_argument(
        "--json", action="store_true", help="print everything as one JSON object: a session for each target"
    )
    profiling.add_argument("--html", metavar="FILE", help="write the report for a browser, one file")
    profiling.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto")
    profiling.add_argument("--parquet", metavar="FOLDER", help="write the profiler's tables as Parquet files")
    profiling.add_argument("--open", action="store_true", help="show the report in a browser, from this machine")
