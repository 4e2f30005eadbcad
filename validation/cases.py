"""Published times of kernels that the project holds, without those that are kept aside to judge the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nki.profiling.shapes import ShapeDtype
from validation import kernels, matmul
from validation.case import Case
from validation.microcases import DMA, INF2, TUTORIAL

AGENTS = "neuron-agentic-development, documents on querying profiles, trn2"
COUNTERS = "pantheonneuron: 8.0 GiB read in 31.463 ms, 273 GB/s at every size"


def _product(
    name: str,
    kernel: Callable[..., Any],
    sizes: tuple[int, int, int],
    dtype: str,
    microseconds: float,
    source: str,
    **options: Any,
) -> Case:
    m, k, n = sizes
    arguments = (ShapeDtype((k, m), dtype), ShapeDtype((k, n), dtype))
    seconds = microseconds * 1e-6
    return Case("trn2 products", name, "trn2", (seconds, seconds), source, kernel, arguments, options)


def _products() -> Iterator[Case]:
    large, square = (4096, 8192, 8192), (4096, 4096, 4096)
    rows = matmul.blocked_rows_and_columns
    yield _product("tutorial, tiled, fp32", matmul.tiled, large, "float32", 39894.938, TUTORIAL)
    yield _product("tutorial, loads hoisted, fp32", rows, large, "float32", 28197.982, TUTORIAL)
    two = {"row_tiles": 2, "column_tiles": 2}
    yield _product("tutorial, rows and columns blocked, fp32", rows, large, "float32", 28414.015, TUTORIAL, **two)
    yield _product("tutorial, the same by single columns", matmul.blocked_rows, large, "float32", 28414.015, TUTORIAL)
    yield _product("tutorial, all blocked, fp32", matmul.blocked, large, "float32", 28301.971, TUTORIAL)
    yield _product("4096^3, tiled, bf16", matmul.tiled, square, "bfloat16", 8602, AGENTS)
    tiles = {"row_tiles": 8, "column_tiles": 2}
    yield _product("4096^3, blocked, bf16", rows, square, "bfloat16", 2451, AGENTS, **tiles)
    long_rows = matmul.blocked_with_long_rows
    yield _product("4096^3, blocked, long rows, bf16", long_rows, square, "bfloat16", 1801, AGENTS)
    middle = (2048, 2048, 2048)
    yield _product("2048^3, tiled, bf16", matmul.tiled, middle, "bfloat16", 608, AGENTS)
    turned = matmul.tiled_and_transposed
    yield _product("2048^3, tiled, transposed on chip, bf16", turned, middle, "bfloat16", 802, AGENTS)
    tile = (128, 128, 512)
    peak = 2048 * 2 * 128 * 128 * 512 / 77.2e6
    yield _product("2048 products of one tile", matmul.repeated, tile, "bfloat16", peak, AGENTS, count=2048)
    shapes = ((128, 32, 512), (128, 128, 64), (32, 128, 512), (128, 128, 512))
    mixed = 512 * 2 * sum(k * m * n for k, m, n in shapes) / 30.8e6
    name = "512 products of four shapes"
    yield _product(name, matmul.repeated, tile, "bfloat16", mixed, AGENTS, shapes=shapes)


def _launches() -> Iterator[Case]:
    """From the first DMA instruction to the wait for the store. An instruction of a software DMA stands in these
    profiles at the end of its descriptors: a store 655 ns after the copy that it waits for, and 648 ns behind
    the one before it if it waits for nothing.
    """
    spans = ((256, 4.29), (512, 5.19), (520, 4.86), (640, 5.16), (768, 5.62), (1024, 6.21))
    for columns, microseconds in spans:
        seconds = (microseconds * 1e-6, microseconds * 1e-6)
        arguments = (ShapeDtype((128, 128), "float16"), ShapeDtype((128, columns), "float16"))
        name = f"torch.matmul 128x128x{columns}, fp16"
        yield Case(
            "inf2 launches", name, "trn1", seconds, INF2, kernels.transposed_product, arguments, span="descriptors"
        )


def _exponentials() -> Iterator[Case]:
    """From the trigger of the load to the semaphore of the store, as the profiles show the parts."""
    parts = ((4, 4096, (1006, 1416, 317, 3709, 31, 899, 1222, 328)), (128, 128, (1501, 400, 882, 615, 290, 328)))
    for rows, columns, nanoseconds in parts:
        seconds = sum(nanoseconds) * 1e-9
        arguments = (ShapeDtype((rows, columns), "bfloat16"),)
        name = f"exp of {rows} x {columns}, bf16"
        yield Case("trn2 launches", name, "trn2", (seconds, seconds), DMA, kernels.exponential, arguments)


def _streams() -> Iterator[Case]:
    size = 64 << 20
    seconds = size / 273e9
    arguments = (ShapeDtype((size // (4 * 4096), 4096), "float32"),)
    yield Case("trn1 streams", "64 MiB read", "trn1", (seconds, seconds), COUNTERS, kernels.read_all, arguments)


CASES: tuple[Case, ...] = (*_products(), *_launches(), *_exponentials(), *_streams())
"""All cases."""
