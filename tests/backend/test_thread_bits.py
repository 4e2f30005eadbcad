"""Launches on 1, 2 and 3 threads give the bits of the simulator: the corpus of kernels, and random programs."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor
from nki.target import ENVIRONMENT
from tests.kernels.test_corpus import CASES
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]
PROGRAMS = max(12, int(os.environ.get("NKI_TEST_EXAMPLES", "50")) // 2)
WIDTH = 128
TILES = 3


@pytest.mark.parametrize("name", CASES)
def test_kernels_of_the_corpus(name: str, shared: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    shared.setenv(ENVIRONMENT, case.targets[-1])
    arguments = case.arguments()
    program = case.kernel.compile(*arguments).kernel
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    expected = [np.ascontiguousarray(output).tobytes() for output in executor.run(program, arrays)]
    for outputs in launched(program, arrays, shared):
        assert outputs == expected


def some_rows(source: random.Random) -> tuple[int, int]:
    """First partition and number of partitions of a legal slice."""
    first = source.choice((0, 0, 0, 32, 64, 96))
    largest = {0: 128, 32: 32, 64: 64, 96: 32}[first]
    return first, source.choice((largest, largest, max(1, largest - source.randrange(largest))))


def some_steps(source: random.Random) -> tuple[tuple[Any, ...], ...]:
    """Steps of a program: an operation, tiles, rows, and a number."""
    names = (
        "add",
        "scale",
        "act",
        "centre",
        "turn",
        "product",
        "few rows",
        "one column",
        "spill",
        "shift",
        "columns",
        "total",
        "loop",
        "broadcast",
    )
    return tuple(
        (
            source.choice(names),
            source.randrange(TILES),
            source.randrange(TILES),
            some_rows(source),
            source.randrange(0, 129),
        )
        for _ in range(source.randrange(6, 24))
    )


@nki.jit
def program_of(x, steps):
    """Run ``steps`` on tiles of 128 x 128 that begin as parts of ``x``, and return the tiles and what was spilled."""
    spilled = nl.ndarray((2 * WIDTH, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((TILES * WIDTH, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(spilled, x[0 : 2 * WIDTH])
    tiles = []
    for number in range(TILES):
        tile = nl.ndarray((WIDTH, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[number * WIDTH : (number + 1) * WIDTH])
        tiles.append(tile)
    for name, to, source, (first, count), number in steps:
        a, b = tiles[to], tiles[source]
        rows = slice(first, first + count)
        if name == "add":
            nisa.tensor_tensor(a[rows], b[rows], a[rows], nl.add)
        elif name == "scale":
            nisa.tensor_scalar(a[rows], b[rows], nl.multiply, 0.5, op1=nl.add, operand1=float(number))
        elif name == "act":
            nisa.activation(a, nl.tanh, b)
        elif name == "centre":
            top = nl.ndarray((WIDTH, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(top, nl.maximum, b, axis=1)
            nisa.tensor_scalar(a, b, nl.subtract, top)
        elif name == "turn":
            turned = nl.ndarray((WIDTH, WIDTH), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(turned, b)
            nisa.tensor_copy(a, turned)
        elif name == "product":
            total = nl.ndarray((WIDTH, WIDTH), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, a, b)
            nisa.tensor_scalar(a, total, nl.multiply, 0.01)
        elif name == "few rows":
            few = 1 + number % 16
            total = nl.ndarray((few, WIDTH), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, a[:, 0:few], b)
            nisa.nc_matmul(total, b[:, 0:few], a)
            nisa.tensor_scalar(a[0:few], total, nl.multiply, 0.01)
        elif name == "one column":
            total = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(total, a[:, 0:count], b[:, 0:1])
            nisa.tensor_scalar(a[0:count], b[0:count], nl.add, total)
        elif name == "spill":
            nisa.dma_copy(spilled[number : number + WIDTH], a)
        elif name == "shift":
            nisa.dma_copy(a, spilled[number : number + WIDTH])
        elif name == "columns":
            half = WIDTH // 2
            nisa.tensor_tensor(a[:, 0:half], b[:, half:WIDTH], a[:, 0:half], nl.maximum)
        elif name == "total":
            line = nl.ndarray((1, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_partition_reduce(line, nl.add, b)
            nisa.dma_copy(spilled[number : number + 1], line)
        elif name == "broadcast":
            nisa.dma_copy(a, spilled[number : number + 1].ap([[0, WIDTH], [1, WIDTH]]))
        else:

            def body(i, a=a, b=b, rows=rows):
                nisa.tensor_tensor(a[rows], a[rows], b[rows], nl.add)
                nisa.dma_copy(spilled[0:WIDTH], a)
                nisa.dma_copy(b, spilled[1 : 1 + WIDTH])

            nl.fori_loop(0, 3, body)
    for number in range(TILES):
        nisa.dma_copy(out[number * WIDTH : (number + 1) * WIDTH], tiles[number])
    return out, spilled


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed: int, shared: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(seed).normal(size=(3 * WIDTH, WIDTH)).astype(np.float32)
    program = program_of.compile(x, some_steps(random.Random(f"threads {seed}"))).kernel
    expected = [np.ascontiguousarray(output).tobytes() for output in executor.run(program, [x])]
    for outputs in launched(program, [x], shared):
        assert outputs == expected


@nki.jit
def rounded(x):
    rows, columns = x.shape
    tile = nl.load(x)
    result = nl.ndarray((rows, columns), nl.bfloat16, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(result, nl.copy, tile, nl.add, total)
    out = nl.ndarray((2, rows, columns), nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out[0], result)
    nisa.tensor_copy(result, tile)
    nl.store(out[1], result)
    return out


@pytest.mark.parametrize("rows", [33, 48, 127, 128])
@pytest.mark.parametrize("columns", [1, 3, 6, 32, 33, 51])
def test_ranges_of_rounded_rows(rows: int, columns: int, shared: pytest.MonkeyPatch) -> None:
    """Copies are rounded two vectors at a time; a range of partitions may end in the middle of two."""
    bits = np.random.default_rng(rows * columns).integers(0, 1 << 32, (rows, columns), np.uint32)
    x = bits.view(np.float32)
    program = rounded.compile(x).kernel
    (expected,) = (np.ascontiguousarray(output).tobytes() for output in executor.run(program, [x]))
    for outputs in launched(program, [x], shared):
        assert outputs == [expected]
