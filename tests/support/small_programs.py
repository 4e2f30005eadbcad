"""Small random programs: a few instructions on a few tiles; operations, views, dtypes, aliases and uses vary.

The operations are what rules and stages look for, with all else that may come in between. What two executors, or
native code with and without a rule, make of a program must be the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from nki.ir.program import Program
from tests.support.instruction_bench import source
from tests.support.kernel_parts import like
from tests.support.small_products import PRODUCTS
from tests.support.small_tiles import (
    GROUPS,
    VIEWS,
    Memory,
    Step,
    by_groups,
    each,
    function_of,
    is_whole,
    operator_of,
    part,
    same_dtype,
    width_of,
)

TILES, KEPT = 4, 160
DTYPES = {
    "float32": nl.float32,
    "bfloat16": nl.bfloat16,
    "float16": nl.float16,
    "float8_e5m2": nl.float8_e5m2,
    "int32": nl.int32,
}
SPECIAL = np.array(
    [0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 0x000116C2, 0xFFC00000, 0x7FFFFFFF, 0x7FA50001, 0xC2AF0000],
    np.uint32,
)
"""NaN of several payloads, infinities, -0, a subnormal number, and -87.5 with a subnormal exponential."""


# Element by element

ELEMENTS = (
    "both", "number", "two", "column", "repeated", "activation", "function", "three", "copy", "reciprocal", "choice",
    "triangle", "fill", "positions",
)  # fmt: skip


def element(m, step):
    """An instruction that computes element by element, of several kinds."""
    source = step.source_view if is_whole(step.source_view) == is_whole(step.view) else step.view
    dst, a, b = part(m.tiles[step.to], step.view), part(m.tiles[step.one], source), part(m.tiles[step.two], step.view)
    operator, column, function = operator_of(step), m.columns[step.number % 2], function_of(step)
    count, whole = width_of(m.tiles[0]), is_whole(step.view) and is_whole(source)
    if step.kind == "both":
        nisa.tensor_tensor(dst, a, b, operator)
    elif step.kind == "number":
        nisa.tensor_scalar(dst, a, operator, 0.5 + step.number)
    elif step.kind == "two":
        nisa.tensor_scalar(dst, a, nl.multiply, 0.75, op1=operator, operand1=column, reverse1=step.number % 3 == 0)
    elif step.kind == "column":
        nisa.tensor_scalar(dst, a, operator, column)
    elif step.kind == "repeated":
        nisa.tensor_tensor(dst, a, column.ap([[1, dst.shape[0]], [0, count if whole else count // 2]]), operator)
    elif step.kind == "activation":
        nisa.activation(dst, function, a, bias=column, scale=-0.25)
    elif step.kind == "function":
        nisa.activation(dst, function, a)
    elif step.kind == "three":
        nisa.scalar_tensor_tensor(dst, a, operator, column, nl.add, b)
    elif step.kind == "reciprocal":
        nisa.reciprocal(dst, a)
    elif step.kind == "choice" and len(dst.shape) == 2:
        where = like(dst, nl.uint8 if step.number % 3 else nl.uint16)
        nisa.tensor_scalar(where, b, nl.greater, 0.25)
        nisa.tensor_copy_predicated(dst, same_dtype(dst, a), where, reverse_pred=step.number % 2 == 0)
    elif step.kind == "triangle" and whole and dst.dtype == nl.float32 and a.dtype == nl.float32:
        nisa.affine_select(dst, [[-1, count]], step.number - 8, a, -3.5, cmp_op=nl.greater_equal)
    elif step.kind == "fill":
        nisa.memset(dst, step.number)
    elif step.kind == "positions" and whole and dst.dtype == nl.int32:
        nisa.iota(dst, [[1, count]], offset=step.number, channel_multiplier=3)
    else:
        nisa.tensor_copy(dst, a)


# Sums, and what takes them


def summed(m, step):
    """A result and its sum by row, or a product by row."""
    dst, a, b = (part(m.tiles[tile], step.view) for tile in (step.to, step.one, step.two))
    nisa.tensor_tensor(dst, a, b, operator_of(step))
    source = dst if step.number % 7 else a
    op = nl.multiply if step.number % 5 == 0 else nl.add
    axes = tuple(range(1, len(source.shape)))
    nisa.tensor_reduce(m.columns[step.number % 2], op, source, axis=axes, negate=step.number % 3 == 0)


def extreme(m, step):
    a = part(m.tiles[step.one], step.source_view)
    op = nl.maximum if step.number % 3 else nl.minimum
    nisa.tensor_reduce(m.columns[step.number % 2], op, a, axis=tuple(range(1, len(a.shape))))


def masked(m, step):
    """A choice by two comparisons, and its maximum by row, in one instruction."""
    a, wide, chosen = m.tiles[step.one], like(m.tiles[step.one], nl.float32), like(m.tiles[step.one], nl.float32)
    nisa.tensor_copy(wide, a)
    bounds = 2.0 + step.number % 3, 20.0 + step.number
    top, command = m.columns[step.number % 2], nisa.reduce_cmd.reset_reduce
    nisa.range_select(chosen, wide, nl.greater_equal, nl.less, *bounds, reduce_cmd=command, reduce_res=top)
    nisa.tensor_scalar(m.tiles[step.to], chosen, nl.maximum, -8.0)


def of_a_column(m, step):
    """A column alone changes."""
    nisa.tensor_scalar(m.columns[step.number % 2], m.columns[step.to % 2], operator_of(step), 0.5)


def softmax(m, step):
    """Maximum, difference, exponentials and their sum; between the two uses of the difference others may stand."""
    a, b, c = m.tiles[step.one], m.tiles[step.two], m.tiles[step.to]
    top, total, difference = m.columns[0], m.columns[1], like(a, nl.float32)
    nisa.tensor_reduce(top, nl.maximum, a, axis=1)
    nisa.tensor_scalar(difference, a, nl.subtract, top)
    nisa.activation(c, nl.exp, difference)
    nisa.tensor_reduce(total, nl.add, c, axis=1, negate=step.number % 2 == 0)
    if step.number % 3 == 0:
        nisa.tensor_scalar(top, top, nl.multiply, 2.0)
    if step.number % 5 == 0:
        nisa.tensor_scalar(a, c, nl.multiply, 2.0)
    nisa.scalar_tensor_tensor(b, difference, nl.multiply, total, nl.add, c)


def two_sums(m, step):
    """Sums of two products, with a mean between; the second may depend on the first."""
    a, b, c = m.tiles[step.one], m.tiles[step.two], m.tiles[step.to]
    one, two = like(a, nl.float32), like(a, nl.float32)
    nisa.tensor_tensor(one, a, b, nl.multiply)
    nisa.tensor_reduce(m.columns[0], nl.add, one, axis=1)
    if step.number % 2:
        nisa.tensor_scalar(m.columns[0], m.columns[0], nl.multiply, 0.5)
    if step.number % 3 == 0:
        nisa.tensor_scalar(two, one, nl.subtract, m.columns[0])
    elif step.number % 5 == 0:
        nisa.tensor_tensor(one, one, b, nl.add)
        two = one
    else:
        nisa.tensor_tensor(two, one, b, nl.subtract)
    nisa.tensor_reduce(m.columns[1], nl.add, two, axis=1)
    nisa.scalar_tensor_tensor(c, one, nl.multiply, m.columns[1], nl.add, two)


def accumulated(m, step):
    """A function and its sum in one instruction, in place or elsewhere."""
    view = "left" if step.view == "blocks" else step.view
    dst, a = part(m.tiles[step.to], view), part(m.tiles[step.one], view)
    scale = (1.0, 0.5, m.columns[step.two % 2])[step.number % 3]
    nisa.activation_reduce(dst, function_of(step), a, nl.add, m.columns[step.number % 2], bias=None, scale=scale)


def statistics(m, step):
    """Statistics of rows; others then take the mean."""
    a, dst = m.tiles[step.one], m.tiles[step.to]
    six = nl.ndarray((a.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    if a.dtype == nl.int32:
        return
    nisa.bn_stats(six, a if step.number % 2 else a[:, 1:])
    nisa.tensor_scalar(dst, a, operator_of(step), six[:, 1 + step.number % 5 : 2 + step.number % 5])


def of_groups(m, step):
    """What groups of columns give, with their sums or extremes, and numbers of groups with their elements."""
    dst, a, numbers = by_groups(m.tiles[step.to]), by_groups(m.tiles[step.one]), m.groups[step.number % 2]
    count = width_of(m.tiles[0]) // GROUPS
    nisa.tensor_tensor(dst, a, each(m.groups[step.two % 2], count), nl.subtract if step.number % 3 else nl.add)
    op = nl.maximum if step.number % 5 == 0 else nl.add
    nisa.tensor_reduce(numbers, op, dst if step.number % 4 else a, axis=2)
    if step.number % 2:
        square, dst2 = like(m.tiles[step.to], nl.float32), by_groups(m.tiles[step.two])
        nisa.activation(by_groups(square), nl.square, dst)
        nisa.tensor_reduce(m.groups[0], nl.add, by_groups(square), axis=2)
        nisa.tensor_tensor(dst2, dst, each(m.groups[0], count), nl.multiply)


def running(m, step):
    a, b = m.tiles[step.one], m.tiles[step.two]
    nisa.tensor_tensor_scan(m.tiles[step.to], a, b, 0.0, nl.multiply, nl.add)


def across(m, step):
    """A sum over partitions, which goes to all of them by way of HBM."""
    a, dst = m.tiles[step.one], m.tiles[step.to]
    width, row = width_of(a), step.number
    line = nl.ndarray((1, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(line, nl.add, a)
    nisa.dma_copy(m.kept[row : row + 1, 0:width], line)
    spread = like(dst, nl.float32)
    nisa.dma_copy(spread, m.kept[row : row + 1, 0:width].ap([[0, dst.shape[0]], [1, width]]))
    nisa.tensor_tensor(dst, spread, dst, operator_of(step))


# Memory


def spill(m, step):
    a = m.tiles[step.one]
    tile = same_dtype(m.columns[0], a)
    nisa.dma_copy(m.kept[step.number : step.number + a.shape[0], 0 : width_of(a)], tile)


def reload(m, step):
    dst = m.tiles[step.to]
    tile = like(dst, nl.float32)
    nisa.dma_copy(tile, m.kept[step.number : step.number + dst.shape[0], 0 : width_of(dst)])
    nisa.tensor_copy(dst, tile)


def down(m, step):
    """Partitions move by 32: one tile is read and written."""
    a = m.tiles[step.to]
    if a.shape[0] > 64:
        nisa.tensor_copy(a[32:64], a[0:32])
        nisa.tensor_copy(a[64 : a.shape[0]], a[32 : a.shape[0] - 32] if a.shape[0] == 96 else a[64 : a.shape[0]])


def gather(m, step):
    dst = m.tiles[step.to]
    tile, rows = like(dst, nl.float32), dst.shape[0]
    place = m.kept.ap([[m.kept.shape[1], rows], [1, width_of(dst)]], 0, vector_offset=m.index[0:rows], indirect_dim=0)
    nisa.dma_copy(tile, place)
    nisa.tensor_tensor(dst, tile, dst, nl.add)


def scatter(m, step):
    """Rows are written onto each other."""
    a = same_dtype(m.columns[0], m.tiles[step.one])
    rows = a.shape[0]
    place = m.kept.ap([[m.kept.shape[1], rows], [1, width_of(a)]], 0, vector_offset=m.index[0:rows], indirect_dim=0)
    if step.number % 2:
        nisa.dma_copy(place, a)
    else:
        nisa.dma_compute(place, [place, a], nl.add)


def chosen_elements(m, step):
    """Elements that offsets choose when the program runs, in whole groups of partitions."""
    a, rows = m.tiles[step.one], m.tiles[0].shape[0] // 16 * 16
    if rows:
        chosen = a[0:rows].indirect(m.places[0:rows], num_elem=24)
        nisa.activation(m.tiles[step.to][0:rows, 0:24], function_of(step), chosen, scale=0.25)


def other_indices(m, step):
    nisa.tensor_scalar(m.index, m.index, nl.bitwise_xor, step.number % 8)


def sum_in_place(m, step):
    """A sum by DMA; its result is an operand, too."""
    a, b = m.tiles[step.to], same_dtype(m.tiles[step.to], m.tiles[step.one])
    if a.dtype == nl.float32:
        rows, first = a.shape[0], step.number
        nisa.dma_compute(a, [a, b, m.kept[first : first + rows, 0 : width_of(a)]], nl.add)


def shuffle(m, step):
    a, mask = m.tiles[step.to], [(5 * lane + step.number) % 32 for lane in range(32)]
    b = same_dtype(a, m.tiles[step.one])
    if a.shape[0] >= 64:
        nisa.nc_stream_shuffle(a[0:32], b[32:64], shuffle_mask=mask)


def registers(m, step):
    """A sum goes on in the next instruction, with another instruction between."""
    a, b, total = m.tiles[step.to], m.tiles[step.one], m.columns[step.number % 2]
    reset, goes_on = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce
    nisa.tensor_scalar_reduce(a, b, nl.multiply, 0.5, nl.add, total, reduce_cmd=reset)
    nisa.tensor_scalar(b, b, nl.minimum, 2.0)
    nisa.tensor_scalar_reduce(a, b, nl.add, 0.25, nl.add, total, reduce_cmd=goes_on)


def largest(m, step):
    a = m.tiles[step.to]
    b, top = same_dtype(a, m.tiles[step.one]), nl.ndarray((a.shape[0], 8), dtype=a.dtype, buffer=nl.sbuf)
    if a.dtype == nl.float32 or a.dtype == nl.bfloat16:
        nisa.max8(top, b)
        nisa.nc_match_replace8(a, b, top, -1.0)


def noise(m, step):
    """Random numbers, with a generator that may be set before."""
    a = m.tiles[step.to]
    if step.number % 2:
        nisa.set_rng_seed(nl.full((1, 1), 1 + step.number, dtype=nl.uint32))
    random = like(a, nl.float32)
    nisa.rand2(random, -1.0, 1.0)
    nisa.tensor_tensor(a, a, random, nl.add)
    if step.number % 3 == 0 and a.dtype == nl.float32:
        nisa.dropout(a, same_dtype(a, m.tiles[step.one]), 0.3)


def exchange(m, step):
    """Both cores, if there are two, send a tile to each other."""
    if m.other >= 0:
        a = m.tiles[step.one]
        received = like(a)
        nisa.sendrecv(a, received, m.other, m.other, 0)
        nisa.tensor_copy(m.tiles[step.to], received)


def loop(m, step):
    """A loop on the device; its rounds read what the round before has written."""
    a, b = m.tiles[step.to], m.tiles[step.one]

    def body(_):
        nisa.tensor_reduce(m.columns[step.number % 2], nl.maximum, a, axis=1)
        nisa.tensor_scalar(b, b, nl.subtract, m.columns[step.number % 2])
        nisa.activation(a, nl.tanh, b)
        element(m, step)

    nl.fori_loop(0, 1 + step.number % 3, body)


SUMS = (
    summed, extreme, masked, of_a_column, softmax, two_sums, accumulated, accumulated, statistics, of_groups,
    running, across,
)  # fmt: skip
MOVES = (
    spill, reload, down, gather, scatter, other_indices, sum_in_place, shuffle, registers, largest, noise, exchange,
    exchange, chosen_elements, chosen_elements, loop,
)  # fmt: skip
OPERATIONS = {operation.__name__: operation for operation in (*SUMS, *MOVES, *PRODUCTS)}
OPERATIONS |= dict.fromkeys(ELEMENTS, element)


@nki.jit
def program_of(x, narrow, y, rows, steps, dtypes, width, stored, cores):
    """Run ``steps`` on tiles [p, width] that begin as parts of ``x``; those in ``stored`` are results, and columns."""
    partitions, rank = y.shape[0], nl.program_id(0) if cores == 2 else 0
    columns_of_all = TILES * width + 2 + 2 * GROUPS
    outs = nl.ndarray((cores, partitions, columns_of_all), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    out = outs[rank]
    all_kept = nl.ndarray((cores * KEPT, width), dtype=nl.float32, buffer=nl.shared_hbm, name="kept")
    kept = all_kept if cores == 1 else nl.ndarray((KEPT, width), dtype=nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(kept, x[0:KEPT, 0:width])
    columns = [nl.load(y[:, 0:1]), nl.load(y[:, 1:2])]
    groups = [nl.load(y[:, 2 : 2 + GROUPS]), nl.load(y[:, 2 + GROUPS : 2 + 2 * GROUPS])]
    tiles = []
    for number in range(TILES):
        tile = nl.load(x[0:partitions, number * width : (number + 1) * width])
        if dtypes[number] != "float32":
            tile = same_dtype(nl.ndarray((1, 1), dtype=DTYPES[dtypes[number]], buffer=nl.sbuf), tile)
        tiles.append(tile)
    m = Memory(
        tiles=tiles,
        columns=columns,
        groups=groups,
        inputs=[x, narrow],
        kept=kept,
        index=nl.load(rows[:, 0:1]),
        places=nl.load(rows[0:partitions, 1:3]),
        other=1 - rank if cores == 2 else -1,
    )
    for step in steps:
        OPERATIONS[step.kind](m, step)
    for number in range(TILES):
        target = out[:, number * width : (number + 1) * width]
        if number in stored:
            nl.store(target, same_dtype(columns[0], tiles[number]))
        else:
            nl.store(target, nl.zeros((partitions, width), dtype=nl.float32))
    for number in range(2):
        at = TILES * width + number
        nl.store(out[:, at : at + 1], columns[number])
        at = TILES * width + 2 + GROUPS * number
        nl.store(out[:, at : at + GROUPS], groups[number])
    if cores == 2:
        nisa.dma_copy(all_kept[rank * KEPT : (rank + 1) * KEPT], kept)
    return outs, all_kept


@dataclass(frozen=True)
class Example:
    """A program, and the seed of its arguments."""

    steps: tuple[Step, ...]
    dtypes: tuple[str, ...]
    stored: tuple[int, ...]
    rows: int
    width: int
    seed: int
    cores: int = 1

    def arrays(self) -> list[Any]:
        """Normal numbers; in some examples special ones among them, or all of them small."""
        random = np.random.default_rng(self.seed)
        x = random.normal(size=(KEPT + 32, TILES * self.width)).astype(np.float32)
        y = random.normal(size=(self.rows, 2 + 2 * GROUPS)).astype(np.float32)
        if self.seed % 3 == 0:
            x.flat[random.integers(0, x.size, 300)] = np.resize(SPECIAL.view(np.float32), 300)
        if self.seed % 4 == 0:
            y.flat[random.integers(0, y.size, 8)] = random.choice(SPECIAL, 8).view(np.float32)
        if self.seed % 5 == 0:
            with np.errstate(all="ignore"):
                x[:, :: 1 + self.seed % 2] *= np.float32(2.0 ** -(20 * (self.seed % 7)))
        index = random.integers(0, KEPT, (128, 3)).astype(np.uint32)
        index[:, 1:] %= 33
        with np.errstate(all="ignore"):
            return [x, x.astype(ml_dtypes.bfloat16), y, index]

    def program(self) -> Program:
        kernel = program_of[2] if self.cores == 2 else program_of
        return kernel.compile(*self.arrays(), self.steps, self.dtypes, self.width, self.stored, self.cores).kernel


KINDS: dict[str, list[Any]] = {
    "elements": [ELEMENTS],
    "sums": [SUMS, SUMS, ELEMENTS],
    "products": [PRODUCTS, PRODUCTS, ELEMENTS, SUMS],
    "moves": [MOVES, MOVES, ELEMENTS, SUMS, PRODUCTS],
}
"""Kinds of examples, and the operations of their steps, some more often than others."""


def example(kind: str, number: int) -> Example:
    """An example of a kind of :data:`KINDS`; ``NKI_TEST_SEED`` gives others."""
    draw = source("small programs", kind, number)

    def step() -> Step:
        operation: Any = draw.choice(draw.choice(KINDS[kind]))
        name = operation if isinstance(operation, str) else operation.__name__
        to, one, two = (draw.randrange(TILES) for _ in range(3))
        view, other = (draw.choice(("whole",) * 6 + VIEWS) for _ in range(2))
        return Step(kind=name, to=to, one=one, two=two, view=view, source_view=other, number=draw.randrange(21))

    mixed = [draw.choice(("float32", "float32", "float32", *DTYPES)) for _ in range(TILES)]
    return Example(
        steps=tuple(step() for _ in range(draw.randrange(2, 11))),
        dtypes=tuple(draw.choice((mixed, ["float32"] * TILES, ["bfloat16"] * TILES))),
        stored=tuple(sorted(draw.sample(range(TILES), draw.randrange(1, TILES + 1)))),
        rows=draw.choice((128, 96, 64, 33, 16, 5)),
        width=draw.choice((96, 64, 40, 96, 33, 130, 300)),
        seed=draw.randrange(100),
        cores=draw.choice((1, 2)) if kind == "moves" else 1,
    )
