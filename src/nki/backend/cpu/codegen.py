"""Machine code for one instruction signature: every statement becomes a loop nest, innermost on vectors.

A routine is ``void f(i8** bases, i64* args)``. ``args`` holds a pair (index into ``bases``, byte offset) for each
operand, then the instruction's run-time numbers as bits of doubles; ``bases[1]`` is scratch memory. Element addresses
were proved to lie inside their tensors when the access was made, so the code checks nothing.
"""

# llvmlite ships no type information.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from llvmlite import ir

from nki.backend.cpu import gemm, transpose
from nki.backend.cpu.convert import decode, encode, storage_type
from nki.backend.cpu.functions import emit
from nki.backend.cpu.loops import Loop, boundaries, joined, nest
from nki.backend.cpu.nodes import BIT_OPS, SCRATCH, Assign, Fold, Gemm, Lowering, Node, Param, Place
from nki.backend.cpu.operators import (
    ANY_ORDER,
    F64,
    STARTS,
    constant,
    emit_alu,
    emit_bits,
    emit_integer,
)
from nki.base import dtype as dt

I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
ROUTINE: Final = ir.FunctionType(ir.VoidType(), [POINTER, POINTER])
SCRATCH_BASE: Final = 1
LANES_OF_CHAINS: Final = 16
"""Sequential folds that run side by side, so that one addition need not wait for the one before it."""

LEAST_TRANSPOSED: Final = 4
"""Rows and columns from which on a transposition is worth a call."""

Builder = Any
Value = Any


@dataclass(slots=True)
class _Leaf:
    """One pattern of a loop nest: a load, an iota or the target, with its address (or value) so far."""

    node: Node | None
    place: Place | None
    steps: tuple[int | None, ...] = ()
    base: Value = None


class Routine:
    """Emits one routine into ``module``."""

    def __init__(self, module: ir.Module, name: str, lowering: Lowering, operands: int, lanes: int) -> None:
        self.function = ir.Function(module, ROUTINE, name)
        self.b: Builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.lowering = lowering
        self.operands = operands
        self.lanes = lanes
        self.bases, self.args = self.function.args
        self.pointers = {slot: self._pointer(slot) for slot in range(operands)}
        if lowering.scratch:
            self.pointers[SCRATCH] = self._base(ir.Constant(I64, SCRATCH_BASE))

    def emit(self) -> None:
        """All statements, then the return."""
        for statement in self.lowering.statements:
            if isinstance(statement, Gemm):
                self._gemm(statement)
            elif isinstance(statement, Fold):
                self._fold(statement)
            else:
                self._assign(statement)
        self.b.ret_void()

    # Arguments

    def _argument(self, index: int, kind: ir.Type = I64) -> Value:
        place = self.b.gep(self.args, [ir.Constant(I64, 8 * index)], source_etype=I8)
        return self.b.load(place, typ=kind)

    def _base(self, index: Value) -> Value:
        place = self.b.gep(self.bases, [self.b.mul(index, ir.Constant(I64, 8))], source_etype=I8)
        return self.b.load(place, typ=POINTER)

    def _pointer(self, slot: int) -> Value:
        return self._move(self._base(self._argument(2 * slot)), self._argument(2 * slot + 1))

    def _move(self, pointer: Value, count: Value) -> Value:
        return self.b.gep(pointer, [count], source_etype=I8)

    def _number(self, value: Any) -> Value:
        """A run-time or compile-time number as a double."""
        if isinstance(value, Param):
            return self._argument(2 * self.operands + value.index, F64)
        return ir.Constant(F64, float(value))

    def _start(self, place: Place) -> Value:
        return self._move(self.pointers[place.base], ir.Constant(I64, place.start))

    # Statements

    def _gemm(self, s: Gemm) -> None:
        width = {id(p): (p.row_step if p.rows > 1 else p.columns) for p in (s.place, s.left, s.right)}
        numbers = [s.left.columns, s.right.columns, s.left.rows, int(s.accumulate)]
        m, n, k, accumulate = (ir.Constant(I64, v) for v in numbers)
        strides = [ir.Constant(I64, width[id(p)]) for p in (s.place, s.left, s.right)]
        out, left, right = (self._start(p) for p in (s.place, s.left, s.right))
        call = [out, strides[0], left, strides[1], right, strides[2], m, n, k, accumulate]
        self._call(gemm.address(), call)

    def _call(self, address: int, arguments: list[Value]) -> None:
        """Call a native routine that was compiled before."""
        kind = ir.FunctionType(ir.VoidType(), [POINTER if a.type == POINTER else I64 for a in arguments])
        self.b.call(self.b.inttoptr(ir.Constant(I64, address), kind.as_pointer()), arguments)

    def _assign(self, s: Assign) -> None:
        leaves = [_Leaf(None, s.place), *_leaves(s.node)]
        loops = self._nest(leaves, s.place.rows, s.place.columns)
        if loops is None:
            self._assign_in_steps(s)
            return
        loops = _vector_last(loops, self.lanes)
        for i, leaf in enumerate(leaves):
            leaf.steps = tuple(loop.steps[i] for loop in loops)

        if turned := _transposition(s, loops):
            ldo, ldi, rows, columns = (ir.Constant(I64, n) for n in turned)
            routine = transpose.address(s.place.dtype.itemsize)
            self._loops(loops[:-2], leaves, lambda at: self._call(routine, [at[0], ldo, at[1], ldi, rows, columns]))
            return
        self._loops(loops[:-1], leaves, lambda at: self._row(s, leaves, loops[-1], at))

    def _assign_in_steps(self, s: Assign) -> None:
        """Patterns that share no loop meet in dense scratch memory."""
        flat = s.place.rows == 1
        for node in _nodes(s.node):
            if node.kind == "load" and len(cast(Place, node.place).dims) > 1:
                place = self._scratch(cast(Place, node.place))
                copy = Node("load", node.dtype, node.rows, node.columns, place=node.place)
                self._assign(Assign(place, copy))
                node.place = place
        if any(n.kind == "iota" and len(n.value[0]) > 1 for n in _nodes(s.node)) or len(s.place.dims) > 1:
            place = self._scratch(s.place)
            self._assign(Assign(place, s.node))
            rows, columns = (1, s.place.columns) if flat else (s.place.rows, s.place.columns)
            self._assign(Assign(s.place, Node("load", place.dtype, rows, columns, place=place)))
        else:
            self._assign(s)

    def _scratch(self, like: Place) -> Place:
        place = self.lowering.new_place(like.rows, like.columns, like.dtype)
        if SCRATCH not in self.pointers:
            self.pointers[SCRATCH] = self._base(ir.Constant(I64, SCRATCH_BASE))
        return place

    def _nest(self, leaves: list[_Leaf], rows: int, columns: int, extra: int = 1) -> list[Loop] | None:
        """The loops over partitions and elements; None when the patterns do not nest."""
        patterns = [_dims(leaf, columns) for leaf in leaves]
        cuts = boundaries(patterns, extra)
        if cuts is None or cuts[-1] != columns:
            return None if cuts is None or cuts[-1] > columns else [Loop(1, ())]
        row = Loop(rows, tuple(_row_step(leaf, rows) for leaf in leaves))
        return joined([row, *nest(patterns, cuts)]) or [Loop(1, tuple(0 for _ in leaves))]

    def _loops(self, loops: Sequence[Loop], leaves: list[_Leaf], body: Callable[[dict[int, Value]], None]) -> None:
        """Run ``body`` inside ``loops`` with the address (for iota: the value) of every leaf."""
        start: dict[int, Value] = {}
        for i, leaf in enumerate(leaves):
            if leaf.place is not None:
                start[i] = self._start(leaf.place)
            elif leaf.node is not None:
                start[i] = self._integer(leaf.node.value[1])
        self._loop(list(loops), leaves, 0, start, body)

    def _loop(
        self,
        loops: list[Loop],
        leaves: list[_Leaf],
        depth: int,
        position: dict[int, Value],
        body: Callable[[dict[int, Value]], None],
    ) -> None:
        if depth == len(loops):
            body(position)
            return
        loop = loops[depth]

        def inside(index: Value) -> None:
            moved = {i: self._advance(leaf, p, loop.steps[i], index) for i, (leaf, p) in _zip(leaves, position)}
            self._loop(loops, leaves, depth + 1, moved, body)

        self._count(loop.count, 1, inside)

    def _count(self, stop: int, step: int, body: Callable[[Value], None]) -> None:
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

    def _advance(self, leaf: _Leaf, position: Value, step: int | None, index: Value) -> Value:
        """Where a leaf is after ``index`` steps."""
        if leaf.place is not None:
            assert step is not None
            width = step * leaf.place.dtype.itemsize
            return self._move(position, self.b.mul(index, ir.Constant(I64, width))) if width else position
        node = cast(Node, leaf.node)
        factor = self._integer(node.value[2]) if step is None else ir.Constant(I32, step)
        return self.b.add(position, self.b.mul(self.b.trunc(index, I32), factor))

    def _integer(self, value: Any) -> Value:
        if isinstance(value, int):
            return ir.Constant(I32, value)
        return self.b.trunc(self.b.fptosi(self._number(value), I64), I32)

    # One innermost loop of an assignment

    def _row(self, s: Assign, leaves: list[_Leaf], loop: Loop, position: dict[int, Value]) -> None:
        row = _Row(self, leaves, loop, position)
        row.prepare(s.node)
        done = 0
        width = self.lanes
        while width >= 1:
            whole = (loop.count - done) // width * width
            if whole:
                first = done

                def chunk(index: Value, width: int = width, first: int = first) -> None:
                    at = self.b.add(index, ir.Constant(I64, first)) if first else index
                    row.store(s.place, row.value(s.node, at, width), at, width)

                self._count(whole, width, chunk)
                done += whole
            width //= 2

    # Folds

    def _fold(self, s: Fold) -> None:
        if s.across:
            self._fold_across(s)
            return
        length = s.node.columns // s.groups
        leaves = _leaves(s.node)
        patterns = [_dims(leaf, s.node.columns) for leaf in leaves]
        cuts = boundaries(patterns, length)
        if cuts is None:
            for node in _nodes(s.node):
                if node.kind == "load" and len(cast(Place, node.place).dims) > 1:
                    place = self._scratch(cast(Place, node.place))
                    self._assign(Assign(place, Node("load", node.dtype, node.rows, node.columns, place=node.place)))
                    node.place = place
            self._fold(s)
            return
        rows = Loop(s.node.rows, (s.place.row_step, *(_row_step(leaf, s.node.rows) for leaf in leaves)))
        at = cuts.index(length)
        outer = nest([((1, s.groups),)], [c // length for c in cuts[at:]]) if s.groups > 1 else []
        inner_nest = nest(patterns, cuts)
        loops = inner_nest[: len(cuts) - 1 - at]
        outer = [Loop(o.count, (*o.steps, *loop.steps)) for o, loop in zip(outer, loops, strict=True)]
        inner = [Loop(loop.count, (0, *loop.steps)) for loop in inner_nest[len(cuts) - 1 - at :]]
        everything = [_Leaf(None, s.place), *leaves]
        outside = joined([rows, *outer])
        inside = joined(inner) or [Loop(1, tuple(0 for _ in everything))]
        last = inside[-1]
        if s.op in ANY_ORDER and last.count >= self.lanes and all(step in (0, 1) for step in last.steps[1:]):
            self._fold_vectors(s, everything, outside, inside)
        else:
            self._fold_chains(s, everything, outside, inside)

    def _fold_chains(self, s: Fold, leaves: list[_Leaf], outside: list[Loop], inside: list[Loop]) -> None:
        """Strictly sequential folds, several of them side by side."""
        outside = sorted(outside, key=lambda loop: loop.count)
        side = outside[-1] if outside else Loop(1, tuple(0 for _ in leaves))
        for i, leaf in enumerate(leaves):
            leaf.steps = tuple(loop.steps[i] for loop in [*outside[:-1], side])

        def block(position: dict[int, Value]) -> None:
            done = 0
            for chains in (LANES_OF_CHAINS, 8, 4, 2, 1):
                whole = (side.count - done) // chains * chains
                if whole:
                    self._chains(s, leaves, inside, side, position, done, whole, chains)
                    done += whole

        self._loops(outside[:-1], leaves, block)

    def _chains(
        self,
        s: Fold,
        leaves: list[_Leaf],
        inside: list[Loop],
        side: Loop,
        position: dict[int, Value],
        first: int,
        whole: int,
        chains: int,
    ) -> None:
        b = self.b
        kind = storage_type(s.place.dtype, 1)

        def group(index: Value) -> None:
            base = b.add(index, ir.Constant(I64, first)) if first else index
            starts: list[dict[int, Value]] = []
            for lane in range(chains):
                at = b.add(base, ir.Constant(I64, lane)) if lane else base
                starts.append({i: self._advance(leaf, p, side.steps[i], at) for i, (leaf, p) in _zip(leaves, position)})
            totals = [self._variable(kind, _fold_start(s.op, kind)) for _ in range(chains)]
            fresh = self._variable(ir.IntType(1), ir.Constant(ir.IntType(1), 1)) if s.op not in STARTS else None

            def element(moves: list[dict[int, Value]]) -> None:
                for total, where in zip(totals, moves, strict=True):
                    row = _Row(self, leaves, Loop(1, tuple(0 for _ in leaves)), where)
                    value = row.value(s.node, ir.Constant(I64, 0), 1)
                    held = b.load(total, typ=kind)
                    result = self._combine(s.op, held, value)
                    if fresh is not None:
                        result = b.select(b.load(fresh, typ=ir.IntType(1)), value, result)
                    b.store(result, total)
                if fresh is not None:
                    b.store(ir.Constant(ir.IntType(1), 0), fresh)

            self._fold_loops(inside, leaves, 0, starts, element)
            for total, where in zip(totals, starts, strict=True):
                b.store(b.load(total, typ=kind), where[0], align=s.place.dtype.itemsize)

        self._count(whole, chains, group)

    def _fold_loops(
        self,
        loops: list[Loop],
        leaves: list[_Leaf],
        depth: int,
        moves: list[dict[int, Value]],
        body: Callable[[list[dict[int, Value]]], None],
    ) -> None:
        """The inner loops of a fold, with the positions of all its chains."""
        if depth == len(loops):
            body(moves)
            return
        loop = loops[depth]

        def inside(index: Value) -> None:
            moved = [
                {i: self._advance(leaf, p, loop.steps[i], index) for i, (leaf, p) in _zip(leaves, where)}
                for where in moves
            ]
            self._fold_loops(loops, leaves, depth + 1, moved, body)

        self._count(loop.count, 1, inside)

    def _fold_vectors(self, s: Fold, leaves: list[_Leaf], outside: list[Loop], inside: list[Loop]) -> None:
        """Folds whose order is free: lanes fold separately, then with each other."""
        b = self.b
        kind, wide = storage_type(s.place.dtype, 1), storage_type(s.place.dtype, self.lanes)
        last = inside[-1]
        whole = last.count // self.lanes * self.lanes

        def one(position: dict[int, Value]) -> None:
            total = self._variable(wide, _fold_start(s.op, wide))
            rest = self._variable(kind, _fold_start(s.op, kind))

            def line(moves: list[dict[int, Value]]) -> None:
                row = _Row(self, leaves, last, moves[0])
                row.prepare(s.node)

                def chunk(index: Value) -> None:
                    b.store(self._combine(s.op, b.load(total, typ=wide), row.value(s.node, index, self.lanes)), total)

                self._count(whole, self.lanes, chunk)
                for index in range(whole, last.count):
                    value = row.value(s.node, ir.Constant(I64, index), 1)
                    b.store(self._combine(s.op, b.load(rest, typ=kind), value), rest)

            self._fold_loops(inside[:-1], leaves, 0, [position], line)
            result, lanes = b.load(rest, typ=kind), b.load(total, typ=wide)
            for lane in range(self.lanes):
                result = self._combine(s.op, result, b.extract_element(lanes, ir.Constant(I32, lane)))
            b.store(result, position[0], align=s.place.dtype.itemsize)

        self._loops(outside, leaves, one)

    def _fold_across(self, s: Fold) -> None:
        """A fold over partitions: vectors of columns, one partition after the other."""
        leaves = [_Leaf(None, s.place), *_leaves(s.node)]
        patterns = [_dims(leaf, s.place.columns) for leaf in leaves]
        cuts = boundaries(patterns)
        if cuts is None:
            raise AssertionError("a fold over partitions reads one settled tile")
        loops = joined(nest(patterns, cuts)) or [Loop(1, tuple(0 for _ in leaves))]
        steps = tuple(_row_step(leaf, s.node.rows) if leaf.node is not None else 0 for leaf in leaves)
        across = Loop(s.node.rows, steps)
        b = self.b

        def line(position: dict[int, Value]) -> None:
            done, width = 0, self.lanes
            while width >= 1:
                whole = (loops[-1].count - done) // width * width
                if whole:
                    self._across_chunk(s, leaves, loops[-1], across, position, done, whole, width)
                    done += whole
                width //= 2

        self._loops(loops[:-1], leaves, line)
        del b

    def _across_chunk(
        self,
        s: Fold,
        leaves: list[_Leaf],
        loop: Loop,
        across: Loop,
        position: dict[int, Value],
        first: int,
        whole: int,
        width: int,
    ) -> None:
        b = self.b
        kind = storage_type(s.place.dtype, width)

        def chunk(index: Value) -> None:
            at = b.add(index, ir.Constant(I64, first)) if first else index
            total = self._variable(kind, _fold_start(s.op, kind))

            def partition(p: Value) -> None:
                moved = {i: self._advance(leaf, q, across.steps[i], p) for i, (leaf, q) in _zip(leaves, position)}
                value = _Row(self, leaves, loop, moved).value(s.node, at, width)
                b.store(self._combine(s.op, b.load(total, typ=kind), value), total)

            self._count(across.count, 1, partition)
            _Row(self, leaves, loop, position).store(s.place, b.load(total, typ=kind), at, width)

        self._count(whole, width, chunk)

    def _variable(self, kind: ir.Type, start: Value) -> Value:
        """A local variable; LLVM keeps it in a register."""
        with self.b.goto_entry_block():
            slot = self.b.alloca(kind)
        self.b.store(start, slot)
        return slot

    def _combine(self, op: str, held: Value, value: Value) -> Value:
        return emit_bits(self.b, op, held, value) if op in BIT_OPS else emit_alu(self.b, op, held, value)


class _Row:
    """The expressions of one innermost loop. What does not change along it is computed once, before it."""

    def __init__(self, routine: Routine, leaves: list[_Leaf], loop: Loop, position: dict[int, Value]) -> None:
        self.r = routine
        self.b = routine.b
        self.place_of = {id(leaf.node): i for i, leaf in enumerate(leaves) if leaf.node is not None}
        self.loop = loop
        self.position = position
        self.fixed: dict[int, Value] = {}

    def prepare(self, node: Node) -> None:
        """Compute the parts of ``node`` that stay the same along the row."""
        if node.kind == "value" or self._constant(node):
            if id(node) not in self.fixed:
                self.fixed[id(node)] = self._compute(node, ir.Constant(I64, 0), 1, {})
            return
        for arg in node.args:
            self.prepare(arg)

    def _constant(self, node: Node) -> bool:
        if node.kind in ("load", "iota"):
            return self.loop.steps[self.place_of[id(node)]] == 0
        return node.kind == "value" or all(self._constant(arg) for arg in node.args)

    def value(self, node: Node, index: Value, width: int) -> Value:
        """``node`` at elements ``index`` … ``index + width - 1`` of the row."""
        return self._get(node, index, width, {})

    def _get(self, node: Node, index: Value, width: int, known: dict[int, Value]) -> Value:
        found = known.get(id(node))
        if found is None:
            fixed = self.fixed.get(id(node))
            found = self._compute(node, index, width, known) if fixed is None else self._splat(fixed, width)
            known[id(node)] = found
        return found

    def _splat(self, scalar: Value, width: int) -> Value:
        if width == 1:
            return scalar
        kind = ir.VectorType(scalar.type, width)
        first = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
        mask = ir.Constant(ir.VectorType(I32, width), [ir.Constant(I32, 0)] * width)
        return self.b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)

    def _compute(self, node: Node, index: Value, width: int, known: dict[int, Value]) -> Value:
        b = self.b
        match node.kind:
            case "load":
                return self._load(node, index, width)
            case "value":
                return self._splat(self._literal(node), width)
            case "iota":
                return self._iota(node, index, width)
            case _:
                args = [self._get(a, index, width, known) for a in node.args]
        match node.kind:
            case "cast":
                return encode(b, decode(b, args[0], node.args[0].dtype), node.dtype)
            case "narrow":
                return _narrow(b, args[0], node.dtype)
            case "alu" if node.op in BIT_OPS:
                return emit_bits(b, node.op, args[0], args[1] if len(args) > 1 else None)
            case "alu":
                return emit_alu(b, node.op, args[0], args[1] if len(args) > 1 else None)
            case "integer":
                signed = (node.args[0].dtype.kind == "i", node.args[1].dtype.kind == "i")
                return emit_integer(b, node.op, args[0], args[1], signed)
            case "act":
                return emit(b, node.op, args[0])
            case "select":
                chosen = b.fcmp_unordered("!=", args[0], constant(args[0].type, 0.0))
                return b.select(chosen, args[1], args[2])
            case _:
                raise AssertionError(node.kind)

    def _literal(self, node: Node) -> Value:
        b = self.b
        number = self.r._number(node.value)  # pyright: ignore[reportPrivateUsage]  # one code generator in two classes
        if node.dtype.is_integer:
            return b.trunc(b.fptosi(number, I64), storage_type(node.dtype, 1))
        return encode(b, b.fptrunc(number, ir.FloatType()), node.dtype)

    def _address(self, leaf: int, place: Place, index: Value) -> Value:
        step = cast(int, self.loop.steps[leaf]) * place.dtype.itemsize
        moved = self.b.mul(index, ir.Constant(I64, step))
        return self.b.gep(self.position[leaf], [moved], source_etype=I8)

    def _load(self, node: Node, index: Value, width: int) -> Value:
        leaf, place = self.place_of[id(node)], cast(Place, node.place)
        step, size = self.loop.steps[leaf], place.dtype.itemsize
        kind = storage_type(place.dtype, 1)
        if step == 0 or width == 1:
            return self._splat(self.b.load(self._address(leaf, place, index), align=size, typ=kind), width)
        if step == 1:
            wide = storage_type(place.dtype, width)
            return self.b.load(self._address(leaf, place, index), align=size, typ=wide)
        result = ir.Constant(ir.VectorType(kind, width), ir.Undefined)
        for lane in range(width):
            at = self._address(leaf, place, self.b.add(index, ir.Constant(I64, lane)))
            element = self.b.load(at, align=size, typ=kind)
            result = self.b.insert_element(result, element, ir.Constant(I32, lane))
        return result

    def store(self, place: Place, value: Value, index: Value, width: int) -> None:
        """Write ``width`` elements of the target, which is leaf 0."""
        step, size = self.loop.steps[0], place.dtype.itemsize
        if step == 1 or width == 1:
            self.b.store(value, self._address(0, place, index), align=size)
            return
        for lane in range(width):
            at = self._address(0, place, self.b.add(index, ir.Constant(I64, lane)))
            self.b.store(self.b.extract_element(value, ir.Constant(I32, lane)), at, align=size)

    def _iota(self, node: Node, index: Value, width: int) -> Value:
        b = self.b
        leaf = self.place_of[id(node)]
        step = self.loop.steps[leaf]
        factor = self.r._integer(node.value[2]) if step is None else ir.Constant(I32, step)  # pyright: ignore[reportPrivateUsage]
        first = b.add(self.position[leaf], b.mul(b.trunc(index, I32), factor))
        if width == 1:
            return first
        lanes = ir.Constant(ir.VectorType(I32, width), [ir.Constant(I32, lane) for lane in range(width)])
        return b.add(self._splat(first, width), b.mul(lanes, self._splat(factor, width)))


def _narrow(b: Builder, value: Value, dtype: dt.DType) -> Value:
    """int32 to another integer dtype, saturated."""
    if dtype is dt.int32:
        return value
    low, high = (0, int(dtype.largest)) if dtype.kind == "u" else (-int(dtype.largest) - 1, int(dtype.largest))
    bounds = [(">", min(high, 0x7FFFFFFF)), ("<", low)]
    for relation, bound in bounds:
        limit = constant(value.type, bound)
        value = b.select(b.icmp_signed(relation, value, limit), limit, value)
    lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
    kind = storage_type(dtype, lanes)
    return value if dtype.itemsize == 4 else b.trunc(value, kind)


def _fold_start(op: str, kind: ir.Type) -> ir.Constant:
    return constant(kind, STARTS.get(op, 0.0))


def _nodes(node: Node) -> list[Node]:
    found = [node]
    for arg in node.args:
        found.extend(_nodes(arg))
    return found


def _leaves(node: Node) -> list[_Leaf]:
    """The loads and iotas of an expression, each once."""
    unique = {id(n): n for n in _nodes(node) if n.kind in ("load", "iota")}
    return [_Leaf(n, n.place if n.kind == "load" else None) for n in unique.values()]


def _dims(leaf: _Leaf, columns: int) -> tuple[tuple[int, int], ...]:
    """A leaf's pattern over the elements of a partition; one element stands for all of them."""
    dims = leaf.place.dims if leaf.place is not None else cast(Node, leaf.node).value[0]
    count = math.prod(n for _, n in dims)
    return dims if count == columns else ((0, columns),)


def _row_step(leaf: _Leaf, rows: int) -> int | None:
    """A leaf's step from partition to partition."""
    if leaf.place is None:
        return None
    return leaf.place.row_step if leaf.place.rows == rows and rows > 1 else 0


def _zip(leaves: list[_Leaf], position: dict[int, Value]) -> list[tuple[int, tuple[_Leaf, Value]]]:
    return [(i, (leaves[i], where)) for i, where in position.items()]


def _transposition(s: Assign, loops: list[Loop]) -> tuple[int, int, int, int] | None:
    """When the two inner loops move elements across: the row steps of target and source, rows and columns there."""
    if s.node.kind != "load" or len(loops) < 2 or min(loops[-1].count, loops[-2].count) < LEAST_TRANSPOSED:
        return None
    for across, along in ((loops[-2], loops[-1]), (loops[-1], loops[-2])):
        (out_across, in_across), (out_along, in_along) = across.steps, along.steps
        if out_along == 1 and in_across == 1 and out_across and in_along:
            return out_across, in_along, along.count, across.count
    return None


def _vector_last(loops: list[Loop], lanes: int) -> list[Loop]:
    """Move the loop that vectors run along to the end: the last one, unless it is short and another is long."""
    longest = max(range(len(loops)), key=lambda i: loops[i].count)
    if loops[-1].count >= min(lanes, 8) or loops[longest].count < 2 * loops[-1].count:
        return loops
    return [*loops[:longest], *loops[longest + 1 :], loops[longest]]
