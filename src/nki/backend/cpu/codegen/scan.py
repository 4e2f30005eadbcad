"""Scans: the elements of a partition one after the other, a few partitions side by side."""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from nki.backend.cpu.codegen.alu import emit_alu
from nki.backend.cpu.codegen.function import I64, Routine, Value
from nki.backend.cpu.loop_ir.nodes import Place, Scan
from nki.numerics.llvm import F32

_CHAINS: Final = 4
"""Partitions side by side, so that an operation need not wait for the one before it. More of them would not help: rows
of a power of two elements share one set of the cache.
"""
_LONG: Final = frozenset({"power", "mod", "fmod"})
"""Operators of so many instructions that there is nothing to wait for."""


def scan(r: Routine, s: Scan) -> None:
    """Emit ``s``."""
    chains = 1 if any(step.op in _LONG for step in s.steps) else _CHAINS
    done = 0
    for count in dict.fromkeys((chains, 1)):
        whole = (s.place.rows - done) // count * count
        if whole:
            first = ir.Constant(I64, done)
            r.count(whole, count, lambda row, first=first, count=count: _rows(r, s, r.b.add(row, first), count))
            done += whole


def _rows(r: Routine, s: Scan, first: Value, count: int) -> None:
    """The states of ``count`` partitions from ``first`` on."""
    b = r.b
    rows = [b.add(first, ir.Constant(I64, number)) for number in range(count)]
    out, start, *sources = ([_row(r, place, row) for row in rows] for place in (s.place, s.start, *s.sources))
    states = [r.variable(F32, b.load(pointer, typ=F32, align=4)) for pointer in start]

    def element(index: Value) -> None:
        for number, state in enumerate(states):
            held = b.load(state, typ=F32)
            for step, place, pointers in zip(s.steps, s.sources, sources, strict=True):
                at = _element(r, pointers[number], index) if place.columns > 1 else pointers[number]
                value = b.load(at, typ=F32, align=4)
                held = emit_alu(b, step.op, *((held, value) if step.state_first else (value, held)))
            b.store(held, state)
            b.store(held, _element(r, out[number], index), align=4)

    r.count(s.place.columns, 1, element)


def _row(r: Routine, place: Place, row: Value) -> Value:
    """Where partition ``row`` begins; the only one serves all."""
    step = place.row_step * place.dtype.itemsize if place.rows > 1 else 0
    return r.move(r.start(place), r.b.mul(row, ir.Constant(I64, step)))


def _element(r: Routine, pointer: Value, index: Value) -> Value:
    return r.move(pointer, r.b.mul(index, ir.Constant(I64, 4)))
