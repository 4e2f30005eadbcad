"""Random programs of what is hard to share among threads: the bits of the simulator on 1, 2, 3, 5 and 8 threads.

Tiles of 1, 3, 33 and 127 partitions, rows that scatter onto each other, sums by DMA, random numbers, reduction
registers that go on from one instruction to the next, loops that change what they read.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime import launch
from nki.backend.numpy import executor
from nki.compilation.executable import Executable
from nki.ir.program import Program
from tests.support.shared_launches import at_once, launched, shared

__all__ = ["shared"]
PROGRAMS = max(25, int(os.environ.get("NKI_TEST_EXAMPLES", "50")) // 2)
THREADS = (1, 2, 3, 5, 8)
PARTITIONS, WIDTH, TILES, KEPT = 128, 72, 4, 160
SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 1e-40, -3e38)
SIZES = (1, 3, 31, 33, 127, 128)


def same_dtype(a, b):
    """``b``, or a copy of it in the dtype of ``a``."""
    if a.dtype == b.dtype:
        return b
    converted = nl.ndarray(b.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(converted, b)
    return converted


def scatter(tiles, kept, index, count, step):
    a, rows = tiles[step.to], step.rows
    nisa.dma_copy(kept.ap([[WIDTH, rows], [1, WIDTH]], 0, vector_offset=index[0:rows], indirect_dim=0), a[0:rows])


def scatter_sum(tiles, kept, index, count, step):
    a, rows = tiles[step.to], step.rows
    place = kept.ap([[WIDTH, rows], [1, WIDTH]], 0, vector_offset=index[0:rows], indirect_dim=0)
    nisa.dma_compute(place, [place, a[0:rows]], nl.add)


def gather(tiles, kept, index, count, step):
    a, rows = tiles[step.to], step.rows
    nisa.dma_copy(a[0:rows], kept.ap([[WIDTH, rows], [1, WIDTH]], 0, vector_offset=index[0:rows], indirect_dim=0))


def gather_sum(tiles, kept, index, count, step):
    a, rows = tiles[step.to], step.rows
    place = kept.ap([[WIDTH, rows], [1, WIDTH]], 0, vector_offset=index[0:rows], indirect_dim=0)
    nisa.dma_compute(a[0:rows], [place, a[0:rows]], nl.add)


def other_indices(tiles, kept, index, count, step):
    nisa.tensor_scalar(index, index, nl.bitwise_xor, step.number % 8)


def sum_in_place(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    first = step.number % 32
    nisa.dma_compute(a[0:rows], [a[0:rows], b[0:rows], kept[first : first + rows]], nl.add)


def spill(tiles, kept, index, count, step):
    first = step.number % 32
    nisa.dma_copy(kept[first : first + step.rows], tiles[step.to][0 : step.rows])


def shift(tiles, kept, index, count, step):
    first = step.number % 32
    nisa.dma_copy(tiles[step.to][0 : step.rows], kept[first : first + step.rows])


def down_a_quarter(tiles, kept, index, count, step):
    a, rows = tiles[step.to], min(step.rows, 32)
    for quarter in (3, 2, 1):
        nisa.tensor_copy(a[32 * quarter : 32 * quarter + rows], a[32 * (quarter - 1) : 32 * (quarter - 1) + rows])


def down_some(tiles, kept, index, count, step):
    a = tiles[step.to]
    rows = min(step.rows, 63)
    nisa.dma_copy(a[64 : 64 + rows], a[1 : 1 + rows])


def shuffle(tiles, kept, index, count, step):
    a = tiles[step.to]
    b = same_dtype(a, tiles[step.source])
    mask = [(5 * lane + step.number) % 32 for lane in range(32)]
    nisa.nc_stream_shuffle(a[0:32], b[0:32], shuffle_mask=mask)
    nisa.nc_stream_shuffle(a[96:128], b[32:64], shuffle_mask=mask)


def turn(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    turned = nl.ndarray((WIDTH, rows), dtype=b.dtype, buffer=nl.psum)
    nisa.nc_transpose(turned, b[0:rows])
    few = min(rows, WIDTH)
    nisa.tensor_tensor(a[0:WIDTH, 0:few], a[0:WIDTH, 0:few], turned[:, 0:few], nl.add)


def product(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    total = nl.ndarray((WIDTH, WIDTH), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, b[0:rows], b[0:rows])
    nisa.activation(a[0:WIDTH], nl.tanh, total, scale=0.125)


def chain(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    column = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(column, b[0:rows, 3:4])
    nisa.tensor_scalar(a[0:rows], b[0:rows], nl.multiply, 0.75, op1=nl.add, operand1=column)
    nisa.activation(a[0:rows], nl.gelu, a[0:rows])
    nisa.tensor_tensor(a[0:rows, 1:WIDTH], a[0:rows, 0 : WIDTH - 1], a[0:rows, 1:WIDTH], nl.subtract)


def registers(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    commands = nisa.reduce_cmd
    nisa.tensor_scalar_reduce(a[0:rows], b[0:rows], nl.multiply, 0.5, nl.add, total, reduce_cmd=commands.reset_reduce)
    nisa.tensor_scalar(b[0:rows], b[0:rows], nl.minimum, 2.0)
    nisa.tensor_scalar_reduce(a[0:rows], b[0:rows], nl.add, 0.25, nl.add, total, reduce_cmd=commands.reduce)
    nisa.tensor_scalar(a[0:rows], a[0:rows], nl.multiply, total)


def running(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    nisa.tensor_tensor_scan(a[0:rows], b[0:rows], b[0:rows], 0.0, nl.multiply, nl.add)
    nisa.tensor_scalar_cumulative(a[0:rows], a[0:rows], nl.minimum, nl.maximum, 1.5)


def largest(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows
    values = same_dtype(a, b)[0:rows]
    top = nl.ndarray((rows, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.max8(top, values)
    nisa.nc_match_replace8(a[0:rows], values, top, -1.0)


def across(tiles, kept, index, count, step):
    line = nl.ndarray((1, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(line, nl.add, tiles[step.source][0 : step.rows])
    first = step.number % KEPT
    nisa.dma_copy(kept[first : first + 1], line)
    nisa.dma_copy(tiles[step.to][0 : step.rows], kept[first : first + 1].ap([[0, step.rows], [1, WIDTH]]))


def seed(tiles, kept, index, count, step):
    number = nl.full((1, 1), 1 + step.number, dtype=nl.uint32)
    nisa.set_rng_seed(number)


def noise(tiles, kept, index, count, step):
    rows = step.rows
    numbers = nl.ndarray((rows, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.rand2(numbers, -1.0, 1.0)
    nisa.tensor_tensor(tiles[step.to][0:rows], tiles[step.to][0:rows], numbers, nl.add)


def drop(tiles, kept, index, count, step):
    a = tiles[step.to]
    nisa.dropout(a[0 : step.rows], same_dtype(a, tiles[step.source])[0 : step.rows], 0.3)


def loop(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows

    def body(i):
        nisa.tensor_tensor(a[0:rows], a[0:rows], b[0:rows], nl.add)
        nisa.dma_copy(kept[nl.ds(i, 1)], a[0:1])
        nisa.dma_copy(b[0:rows], kept[1 : 1 + rows])
        nisa.tensor_scalar(b, b, nl.multiply, 0.5)

    nl.fori_loop(0, count, body)


def loop_of_scatters(tiles, kept, index, count, step):
    a, rows = tiles[step.to], step.rows

    def body(i):
        place = kept.ap([[WIDTH, rows], [1, WIDTH]], 0, vector_offset=index[0:rows], indirect_dim=0)
        nisa.dma_compute(place, [place, a[0:rows]], nl.add)
        nisa.dma_copy(a[0:rows], kept[nl.ds(i, rows)])
        nisa.tensor_scalar(index, index, nl.bitwise_xor, 1)

    nl.fori_loop(0, count, body)


def loop_of_shifts(tiles, kept, index, count, step):
    a, b, rows = tiles[step.to], tiles[step.source], step.rows

    def body(i):
        nisa.dma_copy(kept[0:rows], a[0:rows])
        nisa.dma_copy(b[0:rows], kept[nl.ds(i, rows)])
        nisa.dma_copy(kept[nl.ds(i, rows)], a[0:rows])
        nisa.tensor_tensor(a[0:rows], a[0:rows], b[0:rows], nl.maximum)
        nisa.dma_copy(a[0:rows], kept[1 : 1 + rows])

    nl.fori_loop(0, count, body)


OPERATIONS = {
    operation.__name__: operation
    for operation in (
        scatter,
        scatter_sum,
        gather,
        gather_sum,
        other_indices,
        sum_in_place,
        spill,
        shift,
        down_a_quarter,
        down_some,
        shuffle,
        turn,
        product,
        chain,
        registers,
        running,
        largest,
        across,
        seed,
        noise,
        drop,
        loop,
        loop_of_scatters,
        loop_of_shifts,
    )
}


class Step(nl.NKIObject):
    """One operation of a program, its tiles, its number of partitions, and a number."""

    operation: str
    to: int
    source: int
    rows: int
    number: int


def some_steps(source: random.Random) -> tuple[Step, ...]:
    """A program of 8 to 23 steps."""
    names = list(OPERATIONS)
    return tuple(
        Step(
            operation=source.choice(names),
            to=source.randrange(TILES),
            source=source.randrange(TILES),
            rows=source.choice(SIZES),
            number=source.randrange(256),
        )
        for _ in range(source.randrange(8, 24))
    )


@nki.jit
def hostile(x, rows, rounds, steps, halves):
    """Run ``steps`` on tiles that begin as parts of ``x``; the tiles, and the memory that they share."""
    kept = nl.ndarray((KEPT, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((TILES * PARTITIONS, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(kept, x[0:KEPT])
    index = nl.load(rows)
    count = nisa.register_alloc(nl.load(rounds))
    tiles = []
    for number in range(TILES):
        dtype = nl.bfloat16 if number in halves else nl.float32
        tile = nl.ndarray((PARTITIONS, WIDTH), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[number * PARTITIONS : (number + 1) * PARTITIONS])
        tiles.append(tile)
    for step in steps:
        OPERATIONS[step.operation](tiles, kept, index, count, step)
    for number in range(TILES):
        nisa.dma_copy(out[number * PARTITIONS : (number + 1) * PARTITIONS], tiles[number])
    return out, kept


def arguments(seed: int) -> tuple[Sequence[np.ndarray[Any, Any]], tuple[Step, ...], tuple[int, ...]]:
    """Arrays, steps, and the tiles in bfloat16. Indices repeat: rows are written in an order that counts."""
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(TILES * PARTITIONS, WIDTH)).astype(np.float32)
    if seed % 2:
        x.flat[numbers.integers(0, x.size, 100)] = numbers.choice(np.array(SPECIALS, np.float32), 100)
    rows = numbers.integers(0, 40, size=(PARTITIONS, 1)).astype(np.uint32)
    rounds = np.array([[seed % 4]], np.int32)
    source = random.Random(f"hostile {seed}")
    halves = tuple(number for number in range(TILES) if source.random() < 0.3)
    return (x, rows, rounds), some_steps(source), halves


def program_of(seed: int) -> tuple[Program, Sequence[np.ndarray[Any, Any]], list[bytes]]:
    """A program, its arrays, and its outputs in the simulator."""
    arrays, steps, halves = arguments(seed)
    program = hostile.compile(*arrays, steps, halves).kernel
    return program, arrays, [np.ascontiguousarray(output).tobytes() for output in executor.run(program, list(arrays))]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_hostile_programs(seed: int, shared: pytest.MonkeyPatch) -> None:
    program, arrays, expected = program_of(seed)
    for outputs in launched(program, arrays, shared, THREADS):
        assert outputs == expected, [step.operation for step in arguments(seed)[1]]


@pytest.mark.parametrize("from_torch", [False, True])
def test_hostile_programs_at_once(from_torch: bool, shared: pytest.MonkeyPatch) -> None:
    """Five Python threads with a program each, on the pool's threads, or on those of PyTorch."""
    if from_torch:
        torch = pytest.importorskip("torch")
        shared.setattr(launch, "torch_threads", lambda: 3)
        assert torch.ones(1 << 17).exp().sum() > 0
    shared.setenv("NKI_NUM_THREADS", "3")
    cases = [program_of(1000 + number) for number in range(5)]
    executables = [Executable(program) for program, _, _ in cases]
    wrong: list[int] = []

    def work(number: int) -> None:
        _, arrays, expected = cases[number]
        executable = executables[number]
        for _ in range(20):
            inputs = [array.copy() for array in arrays]
            outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
            executable.launch([array.ctypes.data for array in (*inputs, *outputs)], from_torch=from_torch)
            if [output.tobytes() for output in outputs] != expected:
                wrong.append(number)

    at_once(work)
    assert not wrong
