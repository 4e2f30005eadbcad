"""The frame of a native routine: its arguments, and loop nests that move one address per access pattern.

A routine is ``void f(i8** bases, i64* args)``. ``args`` holds a pair (index into ``bases``, byte offset) for each
operand; for each operand with a run-time index the pair of that index and the largest legal value, then the number of
the instruction for the error; then the instruction's run-time numbers as bits of doubles. Element addresses were proved
to lie inside their tensors when the access was made, so the code checks nothing but run-time indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

from llvmlite import ir

from nki.backend.cpu.codegen.alu import F64
from nki.backend.cpu.codegen.loop_nest import Loop, boundaries, joined, nest
from nki.backend.cpu.loop_ir.nodes import SCRATCH, Lowering, Node, Param, Place
from nki.backend.cpu.runtime import dispatch
from nki.ir.instruction import Inst
from nki.ir.types import has_rows

I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
ROUTINE: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER])

Builder = Any
Value = Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """One pattern of a loop nest: a load, an iota (without a place) or the target (without a node)."""

    node: Node | None
    place: Place | None


Position = dict[int, Value]
"""Where the leaves of a nest are, by their index: an address; for an iota, its value so far."""


class Addressing:
    """Where the arguments of an instruction's routine stand, and how its operands move from row to row."""

    def __init__(self, inst: Inst) -> None:
        operands = inst.accesses()
        self._slots = [slot for slot, access in enumerate(operands) if access.dynamic is not None]
        self._first = 2 * len(operands)
        self.dynamic = bool(self._slots)
        self.site = self._first + 3 * len(self._slots)
        self.immediates = self.site + self.dynamic
        self.skips = inst.skips_out_of_bounds
        rows = [a.shape[0] for a in operands if has_rows(a)]
        self.rows = max(rows, default=1)

    def place(self, slot: int) -> int:
        """The first argument of operand ``slot``'s index: a base, an offset, then the largest index that is legal."""
        return self._first + 3 * self._slots.index(slot)

    def order(self, slot: int) -> Value:
        """The number of operand ``slot`` among those with a run-time index."""
        return ir.Constant(I64, self._slots.index(slot))


class Routine:
    """A native function under construction."""

    def __init__(self, module: ir.Module, name: str, lowering: Lowering, inst: Inst, lanes: int) -> None:
        self.function = ir.Function(module, ROUTINE, name)
        self.b: Builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.lowering = lowering
        self.operands = [(a, a.strides[inst.effects.row_dims.get(f.name, 0)]) for f, a in inst.operands()]
        """Each with its step from row to row."""
        self.lanes = lanes
        self.bases, self.args = self.function.args
        self.addressing = Addressing(inst)
        self.pointers = {slot: self.pointer(slot) for slot in range(len(self.operands))}
        if lowering.scratch:
            self.pointers[SCRATCH] = self.base(ir.Constant(I64, dispatch.SCRATCH))

    @contextmanager
    def rows(self) -> Generator[None]:
        """Code for each row of an instruction that goes row by row, else for all of it, with ``pointers`` moved there.

        Where an index leads out of bounds, the row is skipped, or the routine notes that and ends.
        """
        b, addressing = self.b, self.addressing
        if not addressing.dynamic:
            yield
            return
        ends = b.append_basic_block("ends")
        head, following = b.append_basic_block("row"), b.append_basic_block("next_row")
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(I64)
        number.add_incoming(ir.Constant(I64, 0), before)
        still = dict(self.pointers)
        for slot in range(len(self.operands)):
            self.pointers[slot] = self._moved(slot, number, following, ends)
        yield
        b.branch(following)
        b.position_at_end(following)
        after = b.add(number, ir.Constant(I64, 1))
        number.add_incoming(after, b.block)
        b.cbranch(b.icmp_signed("<", after, ir.Constant(I64, addressing.rows)), head, ends)
        b.position_at_end(ends)
        self.pointers.update(still)

    def _moved(self, slot: int, number: Value, following: Value, ends: Value) -> Value:
        """Where operand ``slot`` is in row ``number``, its run-time index included."""
        access, row_step = self.operands[slot]
        dynamic, b = access.dynamic, self.b
        own = has_rows(access)
        pointer = self.pointers[slot]
        if self.addressing.rows > 1 and not own:
            pointer = self.move(pointer, b.mul(number, ir.Constant(I64, row_step * access.dtype.itemsize)))
        if dynamic is None:
            return pointer
        place = self.addressing.place(slot)
        source = dynamic.source
        at = self.move(self.base(self.argument(place)), self.argument(place + 1))
        if own:
            partitions, steps = ir.Constant(I64, source.shape[0]), (source.strides[0], source.strides[-1])
            for count, step in zip((b.urem(number, partitions), b.udiv(number, partitions)), steps, strict=True):
                at = self.move(at, b.mul(count, ir.Constant(I64, step * source.dtype.itemsize)))
        word = b.load(at, typ=ir.IntType(8 * source.dtype.itemsize), align=source.dtype.itemsize)
        if source.dtype.itemsize < 4:
            word = b.sext(word, I32) if source.dtype.kind == "i" else b.zext(word, I32)
        index = b.zext(word, I64)
        fits, outside = b.append_basic_block("fits"), b.append_basic_block("outside")
        b.cbranch(b.icmp_signed("<=", index, self.argument(place + 2)), fits, outside)
        b.position_at_end(outside)
        if self.addressing.skips:
            b.branch(following)
        else:
            self._note_outside((self.argument(self.addressing.site), self.addressing.order(slot), index))
            b.branch(ends)
        b.position_at_end(fits)
        return self.move(pointer, b.mul(index, ir.Constant(I64, dynamic.step * access.dtype.itemsize)))

    def _note_outside(self, words: tuple[Value, Value, Value]) -> None:
        """Keep ``words`` as the launch's error, unless it has one."""
        b = self.b
        status = self.base(ir.Constant(I64, dispatch.STATUS))
        first = b.icmp_signed("==", b.load(status, typ=I64, align=8), ir.Constant(I64, 0))
        for offset, value in reversed(list(enumerate(words))):
            place = self.move(status, ir.Constant(I64, 8 * offset))
            b.store(b.select(first, value, b.load(place, typ=I64, align=8)), place, align=8)

    def argument(self, index: int, kind: ir.Type = I64) -> Value:
        place = self.b.gep(self.args, [ir.Constant(I64, 8 * index)], source_etype=I8)
        return self.b.load(place, typ=kind)

    def base(self, index: Value) -> Value:
        place = self.b.gep(self.bases, [self.b.mul(index, ir.Constant(I64, 8))], source_etype=I8)
        return self.b.load(place, typ=POINTER)

    def pointer(self, slot: int) -> Value:
        return self.move(self.base(self.argument(2 * slot)), self.argument(2 * slot + 1))

    def move(self, pointer: Value, count: Value) -> Value:
        return self.b.gep(pointer, [count], source_etype=I8)

    def number(self, value: Any) -> Value:
        """A run-time or compile-time number as a double."""
        if isinstance(value, Param):
            return self.argument(self.addressing.immediates + value.index, F64)
        return ir.Constant(F64, float(value))

    def integer(self, value: Any) -> Value:
        if isinstance(value, int):
            return ir.Constant(I32, value)
        return self.b.trunc(self.b.fptosi(self.number(value), I64), I32)

    def start(self, place: Place) -> Value:
        return self.move(self.pointers[place.base], ir.Constant(I64, place.start))

    def scratch_like(self, like: Place) -> Place:
        place = self.lowering.new_place(like.rows, like.columns, like.dtype)
        if SCRATCH not in self.pointers:
            self.pointers[SCRATCH] = self.base(ir.Constant(I64, dispatch.SCRATCH))
        return place

    def nest(self, leaves: list[Leaf], rows: int, columns: int) -> list[Loop] | None:
        """The loops over partitions and elements; None when the patterns do not nest."""
        patterns = [dims_of(leaf, columns) for leaf in leaves]
        cuts = boundaries(patterns)
        if cuts is None:
            return None
        row = Loop(rows, tuple(row_step(leaf, rows) for leaf in leaves))
        return joined([row, *nest(patterns, cuts)]) or [Loop(1, tuple(0 for _ in leaves))]

    def loops(self, loops: Sequence[Loop], leaves: list[Leaf], body: Callable[[Position], None]) -> None:
        """Run ``body`` inside ``loops`` with the address (for iota: the value) of every leaf."""
        start: Position = {}
        for i, leaf in enumerate(leaves):
            if leaf.place is not None:
                start[i] = self.start(leaf.place)
            elif leaf.node is not None:
                start[i] = self.integer(leaf.node.value[1])
        self._loop(list(loops), leaves, 0, start, body)

    def _loop(
        self,
        loops: list[Loop],
        leaves: list[Leaf],
        depth: int,
        position: Position,
        body: Callable[[Position], None],
    ) -> None:
        if depth == len(loops):
            body(position)
            return
        loop = loops[depth]

        def inside(index: Value) -> None:
            moved = {i: self.advance(leaf, p, loop.steps[i], index) for i, (leaf, p) in along(leaves, position)}
            self._loop(loops, leaves, depth + 1, moved, body)

        self.count(loop.count, 1, inside)

    def count(self, stop: int, step: int, body: Callable[[Value], None]) -> None:
        """``for index in range(0, stop, step): body(index)``; ``stop`` is a multiple of ``step``."""
        if stop <= step:
            if stop == step:
                body(ir.Constant(I64, 0))
            return
        b = self.b
        before = b.block
        head, done = b.append_basic_block("loop"), b.append_basic_block("done")
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(ir.Constant(I64, 0), before)
        body(index)
        following = b.add(index, ir.Constant(I64, step))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, ir.Constant(I64, stop)), head, done)
        b.position_at_end(done)

    def advance(self, leaf: Leaf, position: Value, step: int | None, index: Value) -> Value:
        """Where a leaf is after ``index`` steps."""
        if leaf.place is not None:
            assert step is not None
            width = step * leaf.place.dtype.itemsize
            return self.move(position, self.b.mul(index, ir.Constant(I64, width))) if width else position
        node = cast(Node, leaf.node)
        factor = self.integer(node.value[2]) if step is None else ir.Constant(I32, step)
        return self.b.add(position, self.b.mul(self.b.trunc(index, I32), factor))

    def call(self, address: int, arguments: list[Value]) -> None:
        """Call a native routine that was compiled before."""
        kind = ir.FunctionType(ir.VoidType(), [POINTER if a.type == POINTER else I64 for a in arguments])
        self.b.call(self.b.inttoptr(ir.Constant(I64, address), kind.as_pointer()), arguments)

    def variable(self, kind: ir.Type, start: Value) -> Value:
        """A local variable; LLVM keeps it in a register."""
        with self.b.goto_entry_block():
            slot = self.b.alloca(kind)
        self.b.store(start, slot)
        return slot


def nodes_of(node: Node) -> list[Node]:
    """An expression and all its parts."""
    found = [node]
    for arg in node.args:
        found.extend(nodes_of(arg))
    return found


def leaves_of(node: Node) -> list[Leaf]:
    """The loads, gathers and iotas of an expression, each once."""
    unique = {id(n): n for n in nodes_of(node) if n.kind in ("load", "iota", "gather")}
    return [Leaf(n, n.place) for n in unique.values()]


def dims_of(leaf: Leaf, columns: int) -> tuple[tuple[int, int], ...]:
    """A leaf's pattern over the elements of a partition; one element stands for all of them."""
    dims = leaf.place.dims if leaf.place is not None else cast(Node, leaf.node).value[0]
    count = math.prod(n for _, n in dims)
    return dims if count == columns else ((0, columns),)


def row_step(leaf: Leaf, rows: int) -> int | None:
    """A leaf's step from partition to partition."""
    if leaf.place is None:
        return None
    return leaf.place.row_step if leaf.place.rows == rows and rows > 1 else 0


def along(leaves: list[Leaf], position: Position) -> list[tuple[int, tuple[Leaf, Value]]]:
    """Each leaf that has a position, with its index and where it is."""
    return [(i, (leaves[i], where)) for i, where in position.items()]
