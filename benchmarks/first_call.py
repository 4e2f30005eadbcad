"""The first call of a kernel in a new process, with empty caches and with full ones, and ``import nki``."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
from benchmarks.timing import Row
from benchmarks.unseen_kernels import UNSEEN

LENGTH, WIDTH, TILE, BANK = 2048, 128, 128, 512
"""Tokens and features; rows of a tile, and columns of a PSUM bank of float32."""

CALL = """
import time
import numpy as np
imported = time.perf_counter(), time.process_time()
import nki
imported = [now - then for now, then in zip((time.perf_counter(), time.process_time()), imported)]
from benchmarks.first_call import LENGTH, WIDTH, attention
tensors = np.random.default_rng(0).standard_normal((3, LENGTH, WIDTH), dtype=np.float32)
start = time.perf_counter(), time.process_time()
attention(*tensors)
print(*imported, time.perf_counter() - start[0], time.process_time() - start[1])
"""


def _turned(tile: Any) -> Any:
    """``tile`` transposed, in SBUF."""
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(spread, tile)
    result = nl.ndarray(spread.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(result, spread)
    return result


@nki.jit
def attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention of one head, [tokens, features] each: every tile of queries against the keys before its end."""
    length, width = q.shape
    out = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    keys = nl.ndarray((width, length), dtype=q.dtype, buffer=nl.sbuf)
    values = []
    for start in range(0, length, TILE):
        nisa.tensor_copy(keys[:, start : start + TILE], _turned(nl.load(k[start : start + TILE])))
        values.append(nl.load(v[start : start + TILE]))
    for start in range(0, length, TILE):
        queries = _turned(nl.load(q[start : start + TILE]))
        visible = start + TILE
        scores = nl.ndarray((TILE, visible), dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, visible, BANK):
            last = min(first + BANK, visible)
            product = nl.ndarray((TILE, last - first), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, queries, keys[:, first:last])
            nisa.tensor_scalar(scores[:, first:last], product, nl.multiply, width**-0.5)
        diagonal = scores[:, start:visible]
        nisa.affine_select(diagonal, [[-1, TILE]], 1, diagonal, -3e38, cmp_op=nl.greater_equal)
        peak, total = (nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.tensor_reduce(peak, nl.maximum, scores, axis=-1, negate=True)
        weights = nl.ndarray(scores.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(weights, nl.exp, scores, bias=peak, reduce_op=nl.add, reduce_res=total)
        mixed = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.psum)
        for number, first in enumerate(range(0, visible, TILE)):
            nisa.nc_matmul(mixed, _turned(weights[:, first : first + TILE]), values[number])
        nisa.reciprocal(total, total)
        tile = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(tile, mixed, nl.multiply, total)
        nl.store(out[start : start + TILE], tile)
    return out


def rows(runs: int) -> Iterator[Row]:
    """Medians over processes. The ratio compares empty caches with full ones; CPU time adds up threads.

    Bytecode of all modules exists, as after an installation: a first process, not counted, writes it to a folder.
    """
    processes = max(1, min(runs, 5))
    empty, full = [], []
    with tempfile.TemporaryDirectory() as bytecode:
        subprocess.check_call([sys.executable, "-c", "import benchmarks.first_call"], env=_environment(bytecode))
        for _ in range(processes):
            with tempfile.TemporaryDirectory() as folder:
                environment = _environment(bytecode) | {"OPEN_NKI_CACHE": folder}
                empty.append(_times(environment))
                full.append(_times(environment))
    (_, _, cold, cold_cpu), (wall, cpu, warm, warm_cpu) = map(_medians, (empty, full))
    yield Row("import nki", f"{wall * 1e3:.0f} ms", f"{cpu * 1e3:.0f} ms CPU", "")
    what = f"first call, attention {LENGTH} x {WIDTH}"
    yield Row(f"{what}, no cache", f"{cold * 1e3:,.0f} ms", f"{cold_cpu * 1e3:,.0f} ms CPU", "")
    yield Row(f"{what}, disk cache", f"{warm * 1e3:,.0f} ms", f"{warm_cpu * 1e3:,.0f} ms CPU", f"{cold / warm:.1f} x")


UNSEEN_CALL = """
import sys, time
import numpy as np
import nki
from benchmarks.unseen_kernels import UNSEEN
kernel, make = UNSEEN[int(sys.argv[1])]
arguments = make(np.random.default_rng(0))
start = time.perf_counter(), time.process_time()
kernel(*arguments)
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""


def unseen_rows(runs: int) -> Iterator[Row]:
    """First calls of kernels that no cache has seen, each in a new process with an empty cache: median and longest.

    As a user calls them, and with native code at once; the ratio compares medians. Each kernel counts once, whatever
    ``runs`` is.
    """
    del runs
    times: dict[str, list[list[float]]] = {"": [], "native": []}
    with tempfile.TemporaryDirectory() as bytecode:
        subprocess.check_call([sys.executable, "-c", "import benchmarks.unseen_kernels"], env=_environment(bytecode))
        for number in range(-1, len(UNSEEN)):
            for way, column in times.items():
                with tempfile.TemporaryDirectory() as folder:
                    environment = _environment(bytecode) | {"OPEN_NKI_CACHE": folder, "OPEN_NKI_FIRST_CALL": way}
                    took = _times(environment, UNSEEN_CALL, str(max(number, 0)))
                if number >= 0:  # the first process writes bytecode
                    column.append(took)
    for what, column in (("wall", 0), ("CPU", 1)):
        ours, native = ([took[column] for took in each] for each in times.values())
        middle, theirs = statistics.median(ours), statistics.median(native)
        yield Row(
            f"first calls of {len(UNSEEN)} unseen kernels, {what}",
            f"{middle * 1e3:,.0f}, {max(ours) * 1e3:,.0f} ms",
            f"{theirs * 1e3:,.0f}, {max(native) * 1e3:,.0f} ms native",
            f"{theirs / middle:.1f} x",
        )


def _environment(bytecode: str) -> dict[str, str]:
    """Variables and module path of this process, with a cache on disk, and with bytecode in folder ``bytecode``."""
    without = ("OPEN_NKI_CACHE_DISABLE", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    return kept | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}


def _times(environment: dict[str, str], code: str = CALL, *arguments: str) -> list[float]:
    """What ``code`` prints in a new process: wall and CPU seconds of ``import nki``, then of the first call."""
    output = subprocess.check_output(
        [sys.executable, "-W", "ignore", "-c", code, *arguments], env=environment, text=True
    )
    return [float(seconds) for seconds in output.split()]


def _medians(times: list[list[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*times, strict=True)]
