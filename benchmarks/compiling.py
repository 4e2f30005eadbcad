"""Compiling: instructions per second of an unrolled loop, artifacts, the cache on disk, and checking a file."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row
from nki import target as targets
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.text import artifact
from nki.jit import adapter_for


@nki.jit
def unrolled(a: Any, count: int) -> Any:
    """``count`` additions on quarters of one tile."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    for i in range(count):
        j = i % 4
        piece = tile[:, j * 128 : (j + 1) * 128]
        nisa.tensor_tensor(dst=piece, data1=piece, data2=tile[:, 0:128], op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def tiled(lhs_t: Any, rhs: Any) -> Any:
    """``lhs_t.T @ rhs`` by tiles: a load of each operand for every product, so that all of SBUF is in use."""
    depth, rows = lhs_t.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(0, rows, 128):
        for n in range(0, columns, 512):
            block = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, 128):
                left = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[k : k + 128, m : m + 128])
                nisa.dma_copy(dst=right, src=rhs[k : k + 128, n : n + 512])
                nisa.nc_matmul(dst=block, stationary=left, moving=right)
            result = nl.ndarray((128, 512), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=block)
            nisa.dma_copy(dst=out[m : m + 128, n : n + 512], src=result)
    return out


def rows(runs: int) -> Iterator[Row]:
    """1k, 10k and 100k instructions: source to verified IR, and on to native code, in CPU time of this process."""
    a = np.zeros((128, 512), np.float32)
    unrolled.compile(a, 16)  # routines and caches that are not about the loop
    per_instruction: dict[int, float] = {}
    last = pipeline.NATIVE_STOP
    for count in (1_000, 10_000, 100_000):
        best_ir = best = float("inf")
        for _ in range(max(1, min(runs, 100_000 // count, 5))):
            start = time.process_time()
            reached: dict[str, float] = {}
            unrolled.compile(a, count, observe=lambda stage, _, at=reached: at.update({stage: time.process_time()}))
            best = min(best, time.process_time() - start)
            best_ir = min(best_ir, reached[last] - start)
        per_instruction[count] = best / count
        growth = per_instruction[count] / per_instruction[1_000]
        yield Row(
            f"compile {count:,} instructions",
            f"{count / best_ir:,.0f}/s to IR",
            f"{count / best:,.0f}/s to native",
            f"{growth:.2f} x time each",
        )
    yield dense(runs)
    yield from scheduling(runs)
    yield from artifacts(a, runs)
    yield from cold(runs)
    yield checking(runs)


def dense(runs: int) -> Row:
    """A tiled product from source to native code, in CPU time of this process."""
    operands = [np.zeros(shape, ml_dtypes.bfloat16) for shape in ((3072, 4096), (3072, 2048))]
    best = best_ir = float("inf")
    count = 0
    for _ in range(max(1, min(runs, 5))):
        reached: dict[str, float] = {}
        start = time.process_time()
        executable = tiled.compile(
            *operands, observe=lambda stage, _, at=reached: at.update({stage: time.process_time()})
        )
        best = min(best, time.process_time() - start)
        best_ir = min(best_ir, reached[pipeline.NATIVE_STOP] - start)
        count = executable.kernel.size
    return Row(
        f"compile tiled matmul, {count:,} instructions", f"{count / best_ir:,.0f}/s to IR",
        f"{count / best:,.0f}/s to native", "",
    )  # fmt: skip


def scheduling(runs: int) -> Iterator[Row]:
    """All stages from ``verify`` to ``sync``, and of these ``order``, ``schedule`` and ``sync`` together.

    CPU time of this process, medians of runs in turns; the ratio is the time for each instruction from
    ``verify`` to ``sync`` over the same time of 10,000 unrolled instructions.
    """
    a = np.zeros((128, 512), np.float32)
    left, right = (np.zeros(shape, ml_dtypes.bfloat16) for shape in ((3072, 4096), (3072, 2048)))
    cases = {f"unrolled, {count:,}": _specialised(unrolled, a, count) for count in (1_000, 10_000, 100_000)}
    dense = _specialised(tiled, left, right)
    cases[f"tiled matmul, {dense.size:,}"] = dense
    times: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for _ in range(max(1, min(runs, 5))):
        for name, kernel in cases.items():
            for _ in range(max(1, 5_000 // kernel.size)):
                times[name].append(_stages(kernel))
    names = [stage.name for stage in pipeline.STAGES]
    medians = {
        name: {stage: statistics.median(took[stage] for took in its) / cases[name].size for stage in names}
        for name, its in times.items()
    }
    base = sum(medians["unrolled, 10,000"].values())
    for name, each in medians.items():
        yield Row(
            f"schedule {name} instructions",
            f"{1 / sum(each.values()):,.0f}/s verify to sync",
            f"{1 / sum(each[stage] for stage in ('order', 'schedule', 'sync')):,.0f}/s order to sync",
            f"{sum(each.values()) / base:.2f} x time each",
        )


def _specialised(kernel: Any, *arguments: Any) -> Program:
    """The kernel's instructions as they are recorded."""
    specs = kernel.specs(kernel.bind(arguments, {}), adapter_for(arguments, {}))
    return pipeline.compile(kernel.func, specs, kernel.chosen_target(), stop="specialise")


def _stages(kernel: Program) -> dict[str, float]:
    """Seconds of CPU time in each stage, with its check."""
    took: dict[str, float] = {}
    last = time.process_time()

    def note(stage: str, _: object) -> None:
        nonlocal last
        took[stage], last = time.process_time() - last, time.process_time()

    pipeline.compile(None, {}, targets.find(kernel.target), start=kernel, observe=note)
    return took


def artifacts(a: Any, runs: int) -> Iterator[Row]:
    """Reading an artifact and verifying it, against specialising and verifying the source."""
    for count in (10_000, 100_000):
        best = {"source": float("inf"), "artifact": float("inf")}
        made = unrolled.compile(a, count).kernel
        data, target = artifact.dumps(made), targets.find(made.target)
        specs = {"a": made.signature.input_specs()[0], "count": count}
        ways: dict[str, Callable[[], object]] = {
            "source": lambda specs=specs, target=target: pipeline.compile(unrolled.func, specs, target),
            "artifact": lambda d=data, t=target: pipeline.compile(None, {}, t, start=artifact.loads(d)),
        }
        for _ in range(max(1, min(runs, 200_000 // count, 5))):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                best[name] = min(best[name], time.perf_counter() - start)
        yield Row(
            f"artifact of {count:,} instructions to IR",
            f"{count / best['artifact']:,.0f}/s",
            f"{count / best['source']:,.0f}/s from source",
            f"{best['source'] / best['artifact']:.2f} x",
        )


COLD = """
import time
import numpy as np
from nki.compilation import pipeline
from nki.jit import adapter_for
from examples.minilm.kernels import feed_forward_block as kernel
a = [np.zeros(s, np.float32) for s in ((1536, 384), (384, 1536), 1536, (1536, 384), 384, 384, 384)]
specs = kernel.specs(kernel.bind(tuple(a), {}), adapter_for(tuple(a), {}))
start = time.perf_counter()
kernel._program(specs, pipeline.ignore)
print(time.perf_counter() - start)
"""


def cold(runs: int) -> Iterator[Row]:
    """A process's first compilation of a real kernel, to IR: kept on disk by an earlier process, and not."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPEN_NKI")}
        environment |= {"OPEN_NKI_CACHE": folder, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
        times: dict[str, list[float]] = {"": [], "1": []}
        for _ in range(1 + min(runs, 7)):
            for disabled, its in times.items():
                command = [sys.executable, "-c", COLD]
                its.append(
                    float(subprocess.check_output(command, env=environment | {"OPEN_NKI_CACHE_DISABLE": disabled}))
                )
    hit, miss = (statistics.median(its[1:]) for its in times.values())  # the first one has filled the cache
    yield Row(
        "cold process, feed-forward block to IR",
        f"{hit * 1e3:.1f} ms kept",
        f"{miss * 1e3:.1f} ms anew",
        f"{miss / hit:.2f} x",
    )


PART = """

def scaled_{n}(tile, factor, offset=0.0):
    for column in range(0, tile.shape[1], 128):
        piece = tile[:, column : min(column + 128, tile.shape[1])]
        nisa.tensor_scalar(dst=piece, data=piece, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=offset)


@nki.jit
def kernel_{n}(x, y, factor=2.0):
    rows, columns = x.shape
    assert rows <= nl.tile_size.pmax, f"{{rows}} rows"
    left = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=y)
    scaled_{n}(left, factor)
    scaled_{n}(right, factor, offset=1.0)
    total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    if columns > 1:
        sums = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=total, axis=1)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=sums)
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out
"""


def checking(runs: int) -> Row:
    """``nki check`` of a file of 3,000 lines, in a process of its own, against starting the command."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.py"
        head = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
        file.write_text(head + "".join(PART.format(n=n) for n in range(111)), encoding="utf-8")
        lines = len(file.read_text(encoding="utf-8").splitlines())
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
        times: dict[str, list[float]] = {"check": [], "--version": []}
        for _ in range(1 + min(runs, 7)):
            for name, its in times.items():
                arguments = [sys.executable, "-m", "nki", name, *([str(file)] if name == "check" else [])]
                start = time.perf_counter()
                subprocess.run(arguments, env=environment, check=True, stdout=subprocess.DEVNULL)
                its.append(time.perf_counter() - start)
    check, version = (statistics.median(its[1:]) for its in times.values())
    return Row(
        f"nki check, {lines:,} lines, 111 kernels",
        f"{check * 1e3:.0f} ms",
        f"{version * 1e3:.0f} ms nki --version",
        f"{lines / check:,.0f} lines/s",
    )
