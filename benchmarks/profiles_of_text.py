"""A profile of a program that is read from text: the CPU time of its parts for each instruction, by kind of program.

Nothing is known of a program from text but its instructions, on their queues. A row says how many instructions per
second all parts but the parser handle, the time of each part (parser, alias classes, dependence graph, other, estimates
and replay), and the rate with the parser. Times are medians of CPU times of this process; each run parses the text
anew.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.compiling import tiled
from benchmarks.timing import Row
from nki import target as targets
from nki.analysis.dependence import DEPENDENCES, DependenceGraph, GraphBuilder, queue_numbers
from nki.base import gc_pause
from nki.base.warning import NkiWarning
from nki.compilation import pipeline
from nki.ir.loop import all_blocks
from nki.ir.program import Program
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.jit import adapter_for
from nki.sim.timing import TimedProgram

PARTS: Final = ("parser", "classes", "graph", "other", "replay")


@nki.jit
def plain(a: Any, count: int) -> Any:
    """Whole tiles: a load, three instructions and a store for each."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(count):
        rows = slice(i % 8 * 128, i % 8 * 128 + 128)
        tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[rows, :])
        nisa.tensor_tensor(dst=total, data1=tile, data2=tile, op=nl.add)
        for _ in range(8):
            nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=2.0)
            nisa.activation(dst=total, data=total, op=nl.exp)
        nisa.dma_copy(dst=out[rows, :], src=total)
    return out


@nki.jit
def stencil(a: Any, count: int) -> Any:
    """Every second column is the sum of its neighbours, and then every other one."""
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[0:128, 0:512])
    for i in range(count):
        first = 1 + i % 2
        for row in range(0, 128, 32):
            middle = tile[row : row + 32, first : 509 + first : 2]
            left = tile[row : row + 32, first - 1 : 508 + first : 2]
            right = tile[row : row + 32, first + 1 : 510 + first : 2]
            nisa.tensor_tensor(dst=middle, data1=left, data2=right, op=nl.add)
            nisa.tensor_scalar(dst=middle, data=middle, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def image(a: Any, count: int) -> Any:
    """Sums of three rows of an image with its rows side by side, every second column of them."""
    out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 16, 32), dtype=a.dtype, buffer=nl.sbuf)
    sums = nl.ndarray((128, 14, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile.reshape((128, 512)), src=a[0:128, 0:512])
    for _ in range(count):
        for row in range(14):
            mine = sums[:, row, :]
            nisa.tensor_tensor(dst=mine, data1=tile[:, row, 0:32:2], data2=tile[:, row + 1, 0:32:2], op=nl.add)
            nisa.tensor_tensor(dst=mine, data1=mine, data2=tile[:, row + 2, 0:32:2], op=nl.add)
            nisa.tensor_copy(dst=tile[:, row, 1:32:2], src=mine)
    nisa.dma_copy(dst=out, src=tile.reshape((128, 512)))
    return out


def narrow(partitions: int) -> Any:
    """Loads of a tile by transfers of few partitions, one instruction on it, and stores."""

    @nki.jit
    def narrow_transfers(a: Any, count: int) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(count):
            first = i % 8 * 128
            tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            for row in range(0, 32 * partitions, partitions):
                nisa.dma_copy(dst=tile[row : row + partitions, :], src=a[first + row : first + row + partitions, :])
            used = tile[0 : 32 * partitions, :]
            nisa.tensor_scalar(dst=used, data=used, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out[first : first + 32 * partitions, :], src=used)
        return out

    return narrow_transfers


def blocks_of_transfers(width: Callable[[int], int]) -> Any:
    """Transfers of three generators and nothing else, the ``i``-th one of ``width(i)`` partitions."""
    modes = (
        {"dge_mode": nisa.dge_mode.hwdge, "engine": nisa.engine.sync},
        {"dge_mode": nisa.dge_mode.hwdge, "engine": nisa.engine.scalar},
        {"dge_mode": nisa.dge_mode.swdge},
    )

    @nki.jit
    def transfers(a: Any, count: int) -> Any:
        out = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf) for _ in range(16)]
        nisa.dma_copy(dst=tiles[0], src=a[0:128, 0:512])
        for i in range(count):
            size = width(i)
            row = i % (17 - size // 8) * 8
            part = tiles[i % 16][row : row + size, :]
            nisa.dma_copy(dst=part, src=a[row : row + size, 0:512], **modes[i % 3])
        nisa.dma_copy(dst=out, src=tiles[0])
        return out

    return transfers


def views(count_of_views: int, chunks: int) -> Any:
    """A tile written by views of strided columns, and read in ``chunks`` across them; 0: as a whole."""

    @nki.jit
    def transposes(a: Any, count: int) -> Any:
        out = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.shared_hbm)
        source = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=source, src=a[0:128, 0:2048])
        size = 2048 // count_of_views
        for _ in range(count):
            tile = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
            total = nl.ndarray((128, 2048), dtype=a.dtype, buffer=nl.sbuf)
            for i in range(count_of_views):
                nisa.tensor_copy(dst=tile[:, i:2048:count_of_views], src=source[:, i * size : (i + 1) * size])
            width = 2048 // max(1, chunks)
            for i in range(max(1, chunks)):
                part = slice(i * width, (i + 1) * width)
                nisa.tensor_scalar(dst=total[:, part], data=tile[:, part], op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out, src=total)
        return out

    return transposes


def convolution(taps: int) -> Any:
    """Rows of an image of 96 channels by ``taps`` weights: a small tile for each shifted row of the image."""

    @nki.jit
    def convolve(a: Any, count: int) -> Any:
        out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        weights = nl.ndarray((96, 64 * taps), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weights, src=a[0:96, 0 : 64 * taps])
        for i in range(count):
            sums = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
            for tap in range(taps):
                shifted = nl.ndarray((96, 128), dtype=a.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=shifted, src=a[0:96, i % 8 * 128 + tap : i % 8 * 128 + tap + 128])
                weight = weights[:, tap * 64 : tap * 64 + 64]
                nisa.nc_matmul(dst=sums, stationary=weight, moving=shifted)
            result = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=sums)
            nisa.dma_copy(dst=out[:, i % 4 * 128 : i % 4 * 128 + 128], src=result)
        return out

    return convolve


LARGE: Final = np.zeros((1024, 2048), np.float32)
SMALL: Final = np.zeros((1024, 512), np.float32)
SHORT: Final = np.zeros((128, 2048), ml_dtypes.bfloat16)

PROGRAMS: Final[dict[str, tuple[Any, tuple[Any, ...], int]]] = {
    "plain tiles": (plain, (SMALL,), 500),
    "three-point stencil, strided columns": (stencil, (SMALL,), 1000),
    "sums of image rows, every second column": (image, (SMALL,), 200),
    "transfers of 4 partitions": (narrow(4), (SMALL,), 250),
    "transfers of 1 partition": (narrow(1), (SMALL,), 250),
    "transposes by strided views": (views(4, 0), (LARGE,), 1500),
    "32 views, 8 chunks": (views(32, 8), (LARGE,), 200),
    "32 views, 32 chunks": (views(32, 32), (LARGE,), 150),
    "128 views, 32 chunks": (views(128, 32), (LARGE,), 60),
    "convolution, 3 taps": (convolution(3), (SHORT,), 900),
    "convolution, 7 taps": (convolution(7), (SHORT,), 500),
    "transfers alone, one engine each": (blocks_of_transfers(lambda _: 8), (SMALL,), 8000),
    "transfers alone, one to eight engines": (blocks_of_transfers(lambda i: 8 + i % 8 * 8), (SMALL,), 8000),
    "half of them on all engines": (blocks_of_transfers(lambda i: 128 if i % 2 else 8), (SMALL,), 8000),
    "nine in ten on all engines": (blocks_of_transfers(lambda i: 128 if i % 10 else 8), (SMALL,), 8000),
    "tiled matmul": (
        tiled,
        (np.zeros((3072, 4096), ml_dtypes.bfloat16), np.zeros((3072, 2048), ml_dtypes.bfloat16)),
        0,
    ),
}
"""Each kernel, its arguments, and a number of blocks that gives about 8,000 instructions."""
GROWING: Final = ("plain tiles", "transfers of 4 partitions", "128 views, 32 chunks", "convolution, 7 taps")


def rows(runs: int) -> Iterator[Row]:
    """A row for each program, and one of some programs with ten times as many instructions."""
    warnings.simplefilter("ignore", NkiWarning)
    for name in PROGRAMS:
        for factor in (1, 10) if name in GROWING else (1,):
            text = text_of(name, factor)
            measured(text)  # tables that are about no program
            times = [measured(text) for _ in range(max(1, min(runs, 7)))]
            count = parse(text).size
            yield row(f"{name}, {count:,}", {part: statistics.median(t[part] for t in times) / count for part in PARTS})


def text_of(name: str, factor: int = 1) -> str:
    """The text of a program, ready to run on trn2, with ``factor`` times the usual number of blocks."""
    kernel, arguments, blocks = PROGRAMS[name]
    return show(scheduled(kernel, *arguments, *([blocks * factor] if blocks else [])))


def scheduled(kernel: Any, *arguments: Any) -> Program:
    """The program of a call after the last stage."""
    specs = kernel.specs(kernel.bind(arguments, {}), adapter_for(arguments, {}))
    return pipeline.compile(kernel.func, specs, targets.find("trn2"))


def measured(text: str) -> dict[str, float]:
    """Seconds of CPU time of each part."""
    target = targets.find("trn2")
    times = [time.process_time()]

    def done() -> None:
        times.append(time.process_time())

    with gc_pause.paused():
        program = parse(text)
        done()
        (core,) = program.cores
        _, queues = queue_numbers(core)
        done()
        builder = GraphBuilder(core)
        done()
        first, graphs = 0, list[DependenceGraph]()
        for block in all_blocks(core.body):
            graphs.append(builder.graph(block, queues[first : first + len(block)]))
            first += len(block)
        core.keep(DEPENDENCES, graphs)
        done()
        timed = TimedProgram(program)
        done()
        timed.run(target)
        done()
    parser, numbers, classes, graph, other, replay = (end - start for start, end in pairwise(times))
    return dict(zip(PARTS, (parser, classes, graph, numbers + other, replay), strict=True))


def row(what: str, parts: dict[str, float]) -> Row:
    """The row of a program: its parts take so many seconds for each instruction."""
    whole = sum(parts.values())
    return Row(
        what,
        f"{1 / (whole - parts['parser']):,.0f}/s",
        " ".join(f"{part * 1e6:.1f}" for part in parts.values()) + " µs",
        f"{1 / whole:,.0f}/s with parser",
    )
