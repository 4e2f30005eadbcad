"""Element-wise statements: one expression, one loop nest, innermost on vectors."""

from __future__ import annotations

from typing import Final, cast

from llvmlite import ir

from nki.backend.cpu.codegen.function import I64, Leaf, Position, Routine, Value, leaves_of, nodes_of
from nki.backend.cpu.codegen.inner_loop import Row
from nki.backend.cpu.codegen.loop_nest import Loop
from nki.backend.cpu.loop_ir.nodes import Assign, Node, Place
from nki.numerics import transpose

LEAST_TRANSPOSED: Final = 4
"""Rows and columns from which on a transposition is worth a call."""


def assign(r: Routine, s: Assign) -> None:
    """Emit ``s``."""
    leaves = [Leaf(None, s.place), *leaves_of(s.node)]
    loops = r.nest(leaves, s.place.rows, s.place.columns)
    if loops is None:
        _assign_in_steps(r, s)
        return
    if turned := _transposition(s, loops):
        across, along = turned
        rest = [loop for loop in loops if loop is not across and loop is not along]
        ldo, ldi = across.steps[0], along.steps[1]
        numbers = [ir.Constant(I64, n) for n in (ldo, ldi, along.count, across.count)]
        routine = transpose.address(s.place.dtype.itemsize)
        r.loops(rest, leaves, lambda at: r.call(routine, [at[0], numbers[0], at[1], *numbers[1:]]))
        return
    loops = _vector_last(loops, r.lanes)
    r.loops(loops[:-1], leaves, lambda at: _row(r, s, leaves, loops[-1], at))


def _assign_in_steps(r: Routine, s: Assign) -> None:
    """Patterns that share no loop meet in dense scratch memory."""
    settle(r, s.node)
    if any(n.kind == "iota" and len(n.value[0]) > 1 for n in nodes_of(s.node)) or len(s.place.dims) > 1:
        place = r.scratch_like(s.place)
        assign(r, Assign(place, s.node))
        assign(r, Assign(s.place, Node("load", place.dtype, place.rows, place.columns, place=place)))
    else:
        assign(r, s)


def settle(r: Routine, expression: Node) -> None:
    """Copy what ``expression`` loads with more than one dimension to dense scratch memory, and load it from there."""
    for node in nodes_of(expression):
        if node.kind == "load" and len(cast(Place, node.place).dims) > 1:
            place = r.scratch_like(cast(Place, node.place))
            assign(r, Assign(place, Node("load", node.dtype, node.rows, node.columns, place=node.place)))
            node.place = place


def _row(r: Routine, s: Assign, leaves: list[Leaf], loop: Loop, position: Position) -> None:
    """The innermost loop: whole vectors, then ever narrower ones for what is left."""
    row = Row(r, leaves, loop, position)
    row.prepare(s.node)
    done = 0
    # What is gathered comes element by element anyway, and much shorter code does it in a plain loop.
    width = 1 if any(node.kind == "gather" for node in nodes_of(s.node)) else r.lanes
    while width >= 1:
        whole = (loop.count - done) // width * width
        if whole:
            first = done

            def chunk(index: Value, width: int = width, first: int = first) -> None:
                at = r.b.add(index, ir.Constant(I64, first)) if first else index
                row.store(s.place, row.value(s.node, at, width), at, width)

            r.count(whole, width, chunk)
            done += whole
        width //= 2


def _transposition(s: Assign, loops: list[Loop]) -> tuple[Loop, Loop] | None:
    """The two loops that move elements across: the one that the source, and the one that the target runs along."""
    if s.node.kind != "load":
        return None
    long = [loop for loop in loops if loop.count >= LEAST_TRANSPOSED]
    across = next((loop for loop in long if loop.steps[1] == 1 and loop.steps[0]), None)
    along = next((loop for loop in long if loop.steps[0] == 1 and loop.steps[1]), None)
    return (across, along) if across is not None and along is not None and across is not along else None


def _vector_last(loops: list[Loop], lanes: int) -> list[Loop]:
    """Move the loop that vectors run along to the end: the last one, unless it is short and another is long."""
    longest = max(range(len(loops)), key=lambda i: loops[i].count)
    if loops[-1].count >= min(lanes, 8) or loops[longest].count < 2 * loops[-1].count:
        return loops
    return [*loops[:longest], *loops[longest + 1 :], loops[longest]]
