"""Reductions: strictly sequential chains side by side, vectors where the order is free, and folds over partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.alu import ANY_ORDER, STARTS, emit_alu, emit_bits
from nki.backend.cpu.codegen.convert import storage_type
from nki.backend.cpu.codegen.elementwise import settle
from nki.backend.cpu.codegen.function import (
    I32,
    I64,
    Builder,
    Leaf,
    Position,
    Routine,
    Value,
    along,
    dims_of,
    leaves_of,
    row_step,
)
from nki.backend.cpu.codegen.inner_loop import Row
from nki.backend.cpu.codegen.loop_nest import Loop, boundaries, joined, nest
from nki.backend.cpu.loop_ir.nodes import Fold
from nki.isa.tables.alu import BITS
from nki.numerics.llvm import constant

LANES_OF_CHAINS: Final = 16
"""Sequential folds that run side by side, so that one addition need not wait for the one before it."""
SIDE_BY_SIDE: Final = 4
"""Vectors of partial results in a fold of free order, for the same reason."""


def fold(r: Routine, s: Fold) -> None:
    """Emit ``s``."""
    if s.across:
        _fold_across(r, s)
        return
    length = s.node.columns // s.groups
    leaves = [*leaves_of(s.node), *([] if s.start is None else [Leaf(s.start, s.start.place)])]
    patterns = [dims_of(leaf, s.node.columns) for leaf in leaves]
    cuts = boundaries(patterns, length)
    if cuts is None:
        settle(r, s.node)
        fold(r, s)
        return
    rows = Loop(s.node.rows, (s.place.row_step, *(row_step(leaf, s.node.rows) for leaf in leaves)))
    at = cuts.index(length)
    outer = nest([((1, s.groups),)], [c // length for c in cuts[at:]]) if s.groups > 1 else []
    inner_nest = nest(patterns, cuts)
    loops = inner_nest[: len(cuts) - 1 - at]
    outer = [Loop(o.count, (*o.steps, *loop.steps)) for o, loop in zip(outer, loops, strict=True)]
    inner = [Loop(loop.count, (0, *loop.steps)) for loop in inner_nest[len(cuts) - 1 - at :]]
    everything = [Leaf(None, s.place), *leaves]
    outside = joined([rows, *outer])
    inside = joined(inner) or [Loop(1, tuple(0 for _ in everything))]
    last = inside[-1]
    if s.op in ANY_ORDER and last.count >= r.lanes and all(step in (0, 1) for step in last.steps[1:]):
        _fold_vectors(r, s, everything, outside, inside)
    else:
        _fold_chains(r, s, everything, outside, inside)


def _fold_chains(r: Routine, s: Fold, leaves: list[Leaf], outside: list[Loop], inside: list[Loop]) -> None:
    """Strictly sequential folds, several of them side by side."""
    outside = sorted(outside, key=lambda loop: loop.count)
    side = outside[-1] if outside else Loop(1, tuple(0 for _ in leaves))

    def block(position: Position) -> None:
        done = 0
        for chains in (LANES_OF_CHAINS, 8, 4, 2, 1):
            whole = (side.count - done) // chains * chains
            if whole:
                _chains(r, s, leaves, inside, side, position, done, whole, chains)
                done += whole

    r.loops(outside[:-1], leaves, block)


def _chains(
    r: Routine,
    s: Fold,
    leaves: list[Leaf],
    inside: list[Loop],
    side: Loop,
    position: Position,
    first: int,
    whole: int,
    chains: int,
) -> None:
    b = r.b
    kind = storage_type(s.place.dtype, 1)

    def group(index: Value) -> None:
        base = b.add(index, ir.Constant(I64, first)) if first else index
        starts: list[Position] = []
        for lane in range(chains):
            at = b.add(base, ir.Constant(I64, lane)) if lane else base
            starts.append({i: r.advance(leaf, p, side.steps[i], at) for i, (leaf, p) in along(leaves, position)})
        totals = [r.variable(kind, _first(r, s, leaves, where)) for where in starts]
        unknown = s.start is None and s.op not in STARTS
        fresh = r.variable(ir.IntType(1), ir.Constant(ir.IntType(1), 1)) if unknown else None

        def element(moves: list[Position]) -> None:
            for total, where in zip(totals, moves, strict=True):
                row = Row(r, leaves, Loop(1, tuple(0 for _ in leaves)), where)
                value = row.value(s.node, ir.Constant(I64, 0), 1)
                held = b.load(total, typ=kind)
                result = _combine(b, s.op, held, value)
                if fresh is not None:
                    result = b.select(b.load(fresh, typ=ir.IntType(1)), value, result)
                b.store(result, total)
            if fresh is not None:
                b.store(ir.Constant(ir.IntType(1), 0), fresh)

        _fold_loops(r, inside, leaves, 0, starts, element)
        for total, where in zip(totals, starts, strict=True):
            b.store(b.load(total, typ=kind), where[0], align=s.place.dtype.itemsize)

    r.count(whole, chains, group)


def _fold_loops(
    r: Routine,
    loops: list[Loop],
    leaves: list[Leaf],
    depth: int,
    moves: list[Position],
    body: Callable[[list[Position]], None],
) -> None:
    """The inner loops of a fold, with the positions of all its chains."""
    if depth == len(loops):
        body(moves)
        return
    loop = loops[depth]

    def inside(index: Value) -> None:
        moved = [
            {i: r.advance(leaf, p, loop.steps[i], index) for i, (leaf, p) in along(leaves, where)} for where in moves
        ]
        _fold_loops(r, loops, leaves, depth + 1, moved, body)

    r.count(loop.count, 1, inside)


def _fold_vectors(r: Routine, s: Fold, leaves: list[Leaf], outside: list[Loop], inside: list[Loop]) -> None:
    """Folds whose order is free: lanes fold separately, then with each other."""
    b = r.b
    kind, wide = storage_type(s.place.dtype, 1), storage_type(s.place.dtype, r.lanes)
    last = inside[-1]
    side = min(SIDE_BY_SIDE, last.count // r.lanes)
    wide_step = side * r.lanes
    whole = last.count // wide_step * wide_step
    vectors = last.count // r.lanes * r.lanes

    def one(position: Position) -> None:
        totals = [r.variable(wide, _fold_start(s.op, wide)) for _ in range(side)]
        rest = r.variable(kind, _first(r, s, leaves, position))

        def line(moves: list[Position]) -> None:
            row = Row(r, leaves, last, moves[0])
            row.prepare(s.node)

            def vector(at: Value, total: Value) -> None:
                b.store(_combine(b, s.op, b.load(total, typ=wide), row.value(s.node, at, r.lanes)), total)

            def chunk(index: Value) -> None:
                for number, total in enumerate(totals):
                    vector(b.add(index, ir.Constant(I64, number * r.lanes)), total)

            r.count(whole, wide_step, chunk)
            for index in range(whole, vectors, r.lanes):
                vector(ir.Constant(I64, index), totals[0])
            for index in range(vectors, last.count):
                value = row.value(s.node, ir.Constant(I64, index), 1)
                b.store(_combine(b, s.op, b.load(rest, typ=kind), value), rest)

        _fold_loops(r, inside[:-1], leaves, 0, [position], line)
        lanes = b.load(totals[0], typ=wide)
        for total in totals[1:]:
            lanes = _combine(b, s.op, lanes, b.load(total, typ=wide))
        result = b.load(rest, typ=kind)
        for lane in range(r.lanes):
            result = _combine(b, s.op, result, b.extract_element(lanes, ir.Constant(I32, lane)))
        b.store(result, position[0], align=s.place.dtype.itemsize)

    r.loops(outside, leaves, one)


def _fold_across(r: Routine, s: Fold) -> None:
    """A fold over partitions: vectors of columns, one partition after the other."""
    leaves = [Leaf(None, s.place), *leaves_of(s.node)]
    patterns = [dims_of(leaf, s.place.columns) for leaf in leaves]
    cuts = boundaries(patterns)
    assert cuts is not None, "a fold over partitions reads one tile, whose pattern nests with a dense one"
    loops = joined(nest(patterns, cuts)) or [Loop(1, tuple(0 for _ in leaves))]
    steps = tuple(row_step(leaf, s.node.rows) if leaf.node is not None else 0 for leaf in leaves)
    across = Loop(s.node.rows, steps)

    def line(position: Position) -> None:
        done, width = 0, r.lanes
        while width >= 1:
            whole = (loops[-1].count - done) // width * width
            if whole:
                _across_chunk(r, s, leaves, loops[-1], across, position, done, whole, width)
                done += whole
            width //= 2

    r.loops(loops[:-1], leaves, line)


def _across_chunk(
    r: Routine,
    s: Fold,
    leaves: list[Leaf],
    loop: Loop,
    across: Loop,
    position: Position,
    first: int,
    whole: int,
    width: int,
) -> None:
    b = r.b
    kind = storage_type(s.place.dtype, width)

    def chunk(index: Value) -> None:
        at = b.add(index, ir.Constant(I64, first)) if first else index
        total = r.variable(kind, _fold_start(s.op, kind))

        def partition(p: Value) -> None:
            moved = {i: r.advance(leaf, q, across.steps[i], p) for i, (leaf, q) in along(leaves, position)}
            value = Row(r, leaves, loop, moved).value(s.node, at, width)
            b.store(_combine(b, s.op, b.load(total, typ=kind), value), total)

        r.count(across.count, 1, partition)
        Row(r, leaves, loop, position).store(s.place, b.load(total, typ=kind), at, width)

    r.count(whole, width, chunk)


def _combine(b: Builder, op: str, held: Value, value: Value) -> Value:
    return emit_bits(b, op, held, value) if op in BITS else emit_alu(b, op, held, value)


def _first(r: Routine, s: Fold, leaves: list[Leaf], where: Position) -> Value:
    """What a fold of single elements starts from; its own start, if it has one, is the last leaf."""
    kind = storage_type(s.place.dtype, 1)
    if s.start is None:
        return _fold_start(s.op, kind)
    return r.b.load(where[len(leaves) - 1], align=s.place.dtype.itemsize, typ=kind)


def _fold_start(op: str, kind: ir.Type) -> ir.Constant:
    return constant(kind, STARTS.get(op, 0.0))
