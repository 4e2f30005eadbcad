"""Native routine under construction: its arguments, its loops, and the addresses that loops move.

A routine is ``void f(i8** frame, i64* args, i64 first, i64 last)``. It runs partitions ``first`` to ``last`` - 1, both
rounded up to a multiple of :data:`GRANULE` and at most the number of partitions; a routine that must run whole ignores
them. ``args`` holds a pair (slot of the frame, byte offset) for each operand; for each operand with a run-time index
the pair of that index and the largest legal value, then the number of the instruction for the error; then the
instruction's run-time numbers as bits of doubles, or, for a number that the launch passes, its slot of the frame.
Element addresses were proved to lie inside their tensors when the access was made, so the code checks nothing but
run-time indices.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import Any, Final, cast

from llvmlite import ir

from nki.backend.cpu.kernel_ir.loop_nests import (
    CountedLoop,
    Cursors,
    Stream,
    boundaries,
    coalesced,
    loop_nest,
    partition_step,
    pattern_of,
)
from nki.backend.cpu.kernel_ir.lowering_algebra import KernelIRBuilder
from nki.backend.cpu.kernel_ir.nodes import GRANULE, SCRATCH, Expr, MemRef, Param
from nki.backend.cpu.native import frame
from nki.ir.instruction import Inst
from nki.ir.types import LARGE, Buffer, is_row_indexed
from nki.numerics.llvm import AVX512, F64, I8, I32, I64, POINTER, VOID, has_avx512, smaller
from nki.numerics.llvm_jit import engine

ROUTINE: Final = ir.FunctionType(VOID, [POINTER, POINTER, I64, I64])
"""``void routine(frame, args, first, last)``: run partitions ``first`` to ``last`` - 1."""
UNROLLED_SIZE: Final = 72
"""LLVM instructions that an unrolled body of a loop may contain; more take longer to compile and do not run faster."""

Builder = Any
Value = Any


def halvings(width: int) -> list[int]:
    """``width``, a power of two, and ever narrower ones for the rest of a row."""
    return [width >> number for number in range(width.bit_length())]


class ArgumentLayout:
    """Positions of the arguments of an instruction's routine; see the module."""

    def __init__(self, inst: Inst) -> None:
        operands = inst.accesses()
        self._slots = [slot for slot, access in enumerate(operands) if access.dynamic is not None]
        self._first = 2 * len(operands)
        self.dynamic = bool(self._slots)
        self.trap_id = self._first + 3 * len(self._slots)
        self.immediates = self.trap_id + self.dynamic
        self.skips = inst.skips_out_of_bounds
        rows = [a.shape[0] for a in operands if is_row_indexed(a)]
        self.rows = max(rows, default=1)

    def index(self, slot: int) -> int:
        """The first argument of operand ``slot``'s index: a base, an offset, then the largest index that is legal."""
        return self._first + 3 * self._slots.index(slot)

    def index_number(self, slot: int) -> Value:
        """The number of operand ``slot`` among those with a run-time index."""
        return ir.Constant(I64, self._slots.index(slot))


class FunctionBuilder:
    """A native function under construction."""

    def __init__(
        self,
        module: ir.Module,
        name: str,
        kernel_ir: KernelIRBuilder,
        inst: Inst,
        lanes: int,
        partitions: int,
        by_columns: bool = False,
    ) -> None:
        self.function = ir.Function(module, ROUTINE, name)
        self.b: Builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.kernel_ir = kernel_ir
        self.operands = [(a, a.strides[inst.effects.row_dims.get(f.name, 0)]) for f, a in inst.operands()]
        """Each with its step from row to row."""
        self.lanes = lanes
        self.frame, self.args, first, last = self.function.args
        self.partitions = partitions
        """The number of partitions that a call may take a range of; 0 if the routine runs whole."""
        self.by_columns = by_columns
        """True if the range is one of the columns of a matmul's result instead."""
        self.for_all = False
        """True while a statement is emitted that every call runs for all partitions."""
        self.has_passed_caches = False
        """A result has been written around the caches."""
        self.first: Value = self._boundary(first) if partitions else None
        self.last: Value = self._boundary(last) if partitions else None
        self.arguments = ArgumentLayout(inst)
        self.pointers = {slot: self.pointer(slot) for slot in range(len(self.operands))}
        if kernel_ir.scratch_bytes:
            self.pointers[SCRATCH] = self.base(ir.Constant(I64, frame.SCRATCH))

    def _boundary(self, partition: Value) -> Value:
        """A boundary of the routine's range, rounded up to the granule and limited to the number of partitions."""
        count = ir.Constant(I64, self.partitions)
        limited = smaller(self.b, partition, count)
        if self.partitions % GRANULE == 0:
            return self._rounded(limited)
        return smaller(self.b, self._rounded(limited), count)

    def _rounded(self, partition: Value) -> Value:
        return self.b.and_(self.b.add(partition, ir.Constant(I64, GRANULE - 1)), ir.Constant(I64, -GRANULE))

    @contextmanager
    def for_each_row(self) -> Generator[None]:
        """Emit the body for each row if an operand has an index per row, else once; ``pointers`` are moved to the row.

        A row with an index out of bounds is skipped, or the routine records the error and returns.
        """
        b, arguments = self.b, self.arguments
        if not arguments.dynamic:
            yield
            return
        ends = b.append_basic_block("ends")
        head, following = b.append_basic_block("row"), b.append_basic_block("next_row")
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        number = b.phi(I64)
        number.add_incoming(ir.Constant(I64, 0), before)
        unmoved = dict(self.pointers)
        for slot in range(len(self.operands)):
            self.pointers[slot] = self._moved(slot, number, following, ends)
        yield
        b.branch(following)
        b.position_at_end(following)
        after = b.add(number, ir.Constant(I64, 1))
        number.add_incoming(after, b.block)
        b.cbranch(b.icmp_signed("<", after, ir.Constant(I64, arguments.rows)), head, ends)
        b.position_at_end(ends)
        self.pointers.update(unmoved)

    @contextmanager
    def in_blocks(self, block: int) -> Generator[None]:
        """Emit the body in a loop over blocks of ``block`` partitions, a multiple of the granule; 0: just once."""
        if not block or block >= self.partitions:
            yield
            return
        b, whole = self.b, (self.first, self.last)
        before, head, done = b.block, b.append_basic_block("block"), b.append_basic_block("last_block")
        b.branch(head)
        b.position_at_end(head)
        start = b.phi(I64)
        start.add_incoming(whole[0], before)
        following = b.add(start, ir.Constant(I64, block))
        self.first, self.last = start, smaller(b, following, whole[1])
        yield
        start.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, whole[1]), head, done)
        b.position_at_end(done)
        self.first, self.last = whole

    def _moved(self, slot: int, number: Value, following: Value, ends: Value) -> Value:
        """The address of operand ``slot`` in row ``number``, its run-time index applied."""
        access, row_step = self.operands[slot]
        dynamic, b = access.dynamic, self.b
        indexed_by_row = is_row_indexed(access)
        pointer = self.pointers[slot]
        if self.arguments.rows > 1 and not indexed_by_row:
            pointer = self.move(pointer, b.mul(number, ir.Constant(I64, row_step * access.dtype.itemsize)))
        if dynamic is None:
            return pointer
        argument = self.arguments.index(slot)
        source = dynamic.source
        at = self.move(self.base(self.argument(argument)), self.argument(argument + 1))
        if indexed_by_row:
            partitions, steps = ir.Constant(I64, source.shape[0]), (source.strides[0], source.strides[-1])
            for count, step in zip((b.urem(number, partitions), b.udiv(number, partitions)), steps, strict=True):
                at = self.move(at, b.mul(count, ir.Constant(I64, step * source.dtype.itemsize)))
        word = b.load(at, typ=ir.IntType(8 * source.dtype.itemsize), align=source.dtype.itemsize)
        if source.dtype.itemsize < 4:
            word = b.sext(word, I32) if source.dtype.kind == "i" else b.zext(word, I32)
        index = b.zext(word, I64) if source.dtype.itemsize < 8 else word
        fits, outside = b.append_basic_block("fits"), b.append_basic_block("outside")
        small = b.icmp_signed("<=", index, self.argument(argument + 2))
        if source.dtype.itemsize == 8:
            small = b.and_(small, b.icmp_signed(">=", index, ir.Constant(I64, 0)))
        b.cbranch(small, fits, outside)
        b.position_at_end(outside)
        if self.arguments.skips:
            b.branch(following)
        else:
            self._record_error((self.argument(self.arguments.trap_id), self.arguments.index_number(slot), index))
            b.branch(ends)
        b.position_at_end(fits)
        return self.move(pointer, b.mul(index, ir.Constant(I64, dynamic.step * access.dtype.itemsize)))

    def _record_error(self, words: tuple[Value, Value, Value]) -> None:
        """Record ``words`` as the launch's error, unless it has one."""
        b = self.b
        status = self.base(ir.Constant(I64, frame.STATUS))
        first = b.icmp_signed("==", b.load(status, typ=I64, align=8), ir.Constant(I64, 0))
        for offset, value in reversed(list(enumerate(words))):
            word = self.move(status, ir.Constant(I64, 8 * offset))
            b.store(b.select(first, value, b.load(word, typ=I64, align=8)), word, align=8)

    def argument(self, index: int, kind: ir.Type = I64) -> Value:
        """Argument ``index`` of the instruction."""
        address = self.b.gep(self.args, [ir.Constant(I64, 8 * index)], source_etype=I8)
        return self.b.load(address, typ=kind)

    def base(self, index: Value) -> Value:
        """The pointer in slot ``index`` of the frame."""
        return self.slot(index, POINTER)

    def slot(self, index: Value, kind: ir.Type = I64) -> Value:
        """The word in slot ``index`` of the frame."""
        address = self.b.gep(self.frame, [self.b.mul(index, ir.Constant(I64, 8))], source_etype=I8)
        return self.b.load(address, typ=kind)

    def pointer(self, slot: int) -> Value:
        """The address of operand ``slot``, without its run-time index."""
        return self.move(self.base(self.argument(2 * slot)), self.argument(2 * slot + 1))

    def move(self, pointer: Value, nbytes: Value) -> Value:
        """``pointer + nbytes``."""
        return self.b.gep(pointer, [nbytes], source_etype=I8)

    def number(self, value: Any) -> Value:
        """A run-time or compile-time number as a double."""
        if isinstance(value, Param):
            number = self.arguments.immediates + value.index
            return self.slot(self.argument(number), F64) if value.in_frame else self.argument(number, F64)
        return ir.Constant(F64, float(value))

    def integer(self, value: Any) -> Value:
        """A run-time or compile-time number as an i32."""
        if isinstance(value, int):
            return ir.Constant(I32, value)
        return self.b.trunc(self.b.fptosi(self.number(value), I64), I32)

    def address(self, memref: MemRef) -> Value:
        """The address of the first element of ``memref``."""
        return self.move(self.pointers[memref.base], ir.Constant(I64, memref.offset))

    def is_far(self, memref: MemRef) -> bool:
        """True of memory in HBM, which for native code is an array of the caller or as large as one."""
        return memref.base != SCRATCH and self.operands[memref.base][0].buffer.is_hbm

    def passes_caches(self, memref: MemRef) -> bool:
        """True of a result with whole lines that are written around the caches, as their readers come too late.

        Then a line need not be read before it is written. Only AVX-512 writes a line at once. :meth:`end_writes` must
        follow such writes.
        """
        if not (self.lanes == AVX512 and has_avx512()) or memref.base == SCRATCH:
            return False
        tensor = self.operands[memref.base][0].tensor
        return tensor.buffer is Buffer.shared_hbm and tensor.nbytes >= LARGE

    def end_writes(self) -> None:
        """Order what was written around the caches before all that follows, as other stores are by themselves.

        Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, non-temporal stores.
        """
        if self.has_passed_caches:
            name = "llvm.x86.sse.sfence"
            fence = self.b.module.globals.get(name)
            self.b.call(fence or ir.Function(self.b.module, ir.FunctionType(ir.VoidType(), []), name), [])

    def scratch_like(self, like: MemRef) -> MemRef:
        """A new dense tile in scratch memory, of the size and dtype of ``like``."""
        memref = self.kernel_ir.new_scratch(like.rows, like.columns, like.dtype)
        self.need_scratch()
        return memref

    def need_scratch(self) -> None:
        """Get the address of the scratch memory, if nothing has needed it so far."""
        if SCRATCH not in self.pointers:
            self.pointers[SCRATCH] = self.base(ir.Constant(I64, frame.SCRATCH))

    def loop_nest(self, streams: list[Stream], rows: int, columns: int) -> list[CountedLoop] | None:
        """The loops over partitions and elements, outermost first; None if the patterns do not nest."""
        patterns = [pattern_of(stream, columns) for stream in streams]
        cuts = boundaries(patterns)
        if cuts is None:
            return None
        steps = tuple(partition_step(stream, rows) for stream in streams)
        over_rows = CountedLoop(rows, steps, self.per_partition(rows))
        return coalesced([over_rows, *loop_nest(patterns, cuts)]) or [CountedLoop(1, tuple(0 for _ in streams))]

    def emit_loops(self, loops: Sequence[CountedLoop], streams: list[Stream], body: Callable[[Cursors], None]) -> None:
        """Emit ``loops`` around ``body``, which gets the cursor of every stream."""
        self.emit_side_by_side(loops, streams, [self.start(streams)], lambda rows: body(rows[0]))

    def emit_side_by_side(
        self,
        loops: Sequence[CountedLoop],
        streams: list[Stream],
        rows: list[Cursors],
        body: Callable[[list[Cursors]], None],
    ) -> None:
        """Emit ``loops`` around ``body``, which gets the cursors of several ``rows``; they begin with those given."""
        if not loops:
            body(rows)
            return

        def inside(index: Value) -> None:
            moved = [self.advanced(streams, cursors, loops[0], index) for cursors in rows]
            self.emit_side_by_side(loops[1:], streams, moved, body)

        self.counted_loop(loops[0].count, 1, inside, per_partition=loops[0].per_partition)

    def start(self, streams: list[Stream]) -> Cursors:
        """The cursor of every stream before all loops."""
        cursors: Cursors = {}
        for i, stream in enumerate(streams):
            if stream.memref is not None:
                cursors[i] = self.address(stream.memref)
            elif stream.expr is not None:
                cursors[i] = self.integer(stream.expr.value[1])
        return cursors

    def counted_loop(
        self, stop: int, step: int, body: Callable[[Value], None], start: int = 0, per_partition: int = 0
    ) -> None:
        """``for index in range(start, stop, step): body(index)``; ``stop - start`` is a multiple of ``step``.

        If ``per_partition`` is not 0, that many rounds belong to each partition, and only those of the routine's range
        run. A range begins at the first index or a multiple of ``step``, because that divides the granule.
        """
        if stop <= start:
            return
        first, last = ir.Constant(I64, start), ir.Constant(I64, stop)
        if not per_partition:
            self._do_while(first, last, step, body)
            return
        b, rounds = self.b, ir.Constant(I64, per_partition)
        low, high = b.mul(self.first, rounds), b.mul(self.last, rounds)
        low = low if start == 0 else b.select(b.icmp_signed(">", low, first), low, first)
        high = high if stop == self.partitions * per_partition else smaller(b, high, last)
        with b.if_then(b.icmp_signed("<", low, high)):
            if stop - start == step:
                body(first)
            else:
                # Both bounds are multiples of this number, whatever the range is.
                divisor = gcd(GRANULE * per_partition, start, stop)
                self._do_while(low, high, step, body, divisor // step)

    def tiled_loop(
        self,
        count: int,
        sizes: Sequence[int],
        body: Callable[[Value, int], None],
        per_partition: int = 0,
        done: int = 0,
    ) -> int:
        """``body(index, size)`` for ``count`` rounds: as many tiles of the first of ``sizes`` as fit, then of the next.

        The number of rounds that are done, which is all if the last size is 1; some may be ``done`` before.
        ``per_partition``: as in loops.
        """
        for size in sizes:
            stop = done + (count - done) // size * size
            self.counted_loop(stop, size, lambda index, size=size: body(index, size), done, per_partition)
            done = stop
        return done

    def _do_while(self, first: Value, last: Value, step: int, body: Callable[[Value], None], multiple: int = 1) -> None:
        """A loop from ``first`` below ``last``, at least one round; the number of rounds is a multiple of ``multiple``.

        A loop with bounds known at run time only is unrolled here if its body is short; LLVM unrolls the others.
        """
        b = self.b
        if isinstance(last, ir.Constant) and last.constant - first.constant == step:
            body(first)
            return
        before = b.block
        head, done = b.append_basic_block("loop"), b.append_basic_block("done")
        b.branch(head)
        b.position_at_end(head)
        counter = b.phi(I64)
        counter.add_incoming(first, before)
        index = counter if isinstance(last, ir.Constant) else self._opaque(counter)
        body(index)
        copies = self._copies(head, multiple)
        for copy in range(1, copies):
            body(b.add(index, ir.Constant(I64, copy * step)))
        following = b.add(index, ir.Constant(I64, copies * step))
        counter.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, last), head, done)
        b.position_at_end(done)

    def _copies(self, head: Any, multiple: int) -> int:
        """The number of copies of a loop's body, a divisor of ``multiple``; ``head`` contains the first one."""
        is_short = self.b.block is head and 2 * len(head.instructions) <= UNROLLED_SIZE
        return 2 if is_short and multiple % 2 == 0 else 1

    def _opaque(self, number: Value) -> Value:
        """``number``, about which LLVM knows nothing: it then leaves alone the loop with this index.

        Else it compares all accesses of a loop without a constant number of rounds with each other, and looks for
        cheaper ways to count, which takes more time than everything else that it does, and finds nothing.
        """
        return self.b.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [number], False)

    def per_partition(self, rows: int) -> int:
        """1 if a loop over ``rows`` partitions is limited to the routine's range, else 0."""
        return int(self.partitions != 0 and rows == self.partitions and not self.by_columns and not self.for_all)

    def rounds(self, loop: CountedLoop) -> tuple[Value, Value]:
        """The first round of ``loop`` and the number of its rounds, limited to the routine's range."""
        if not loop.per_partition:
            return ir.Constant(I64, 0), ir.Constant(I64, loop.count)
        first, last = (self.b.mul(bound, ir.Constant(I64, loop.per_partition)) for bound in (self.first, self.last))
        return first, self.b.sub(last, first)

    def first_row(self, memref: MemRef) -> Value:
        """The address of the first partition of ``memref`` that the routine's range contains."""
        if not self.per_partition(memref.rows):
            return self.address(memref)
        step = ir.Constant(I64, memref.row_step * memref.dtype.itemsize)
        return self.move(self.address(memref), self.b.mul(self.first, step))

    def advance(self, stream: Stream, cursor: Value, step: int | None, index: Value) -> Value:
        """The cursor of a stream after ``index`` steps."""
        if stream.memref is not None:
            assert step is not None
            width = step * stream.memref.dtype.itemsize
            return self.move(cursor, self.b.mul(index, ir.Constant(I64, width))) if width else cursor
        iota = cast(Expr, stream.expr)
        factor = self.integer(iota.value[2]) if step is None else ir.Constant(I32, step)
        return self.b.add(cursor, self.b.mul(self.b.trunc(index, I32), factor))

    def advanced(self, streams: list[Stream], cursors: Cursors, loop: CountedLoop, index: Value) -> Cursors:
        """The cursors after ``index`` steps of ``loop``."""
        return {i: self.advance(streams[i], cursor, loop.steps[i], index) for i, cursor in cursors.items()}

    def following(self, index: Value, count: int) -> list[Value]:
        """``index`` and the numbers behind it, ``count`` in all."""
        return [self.b.add(index, ir.Constant(I64, number)) if number else index for number in range(count)]

    def call(self, address: int, arguments: list[Value]) -> None:
        """Call a native routine that was compiled before."""
        kind = ir.FunctionType(VOID, [POINTER if a.type == POINTER else I64 for a in arguments])
        self.b.call(engine().declared(self.function.module, address, kind), arguments)

    def local(self, kind: ir.Type, start: Value) -> Value:
        """A local variable; LLVM keeps it in a register."""
        with self.b.goto_entry_block():
            slot = self.b.alloca(kind)
        self.b.store(start, slot)
        return slot
