"""Loops, local variables, matrices in memory and vectors in registers, for routines written in LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, TypeAlias

from llvmlite import ir

from nki.numerics.llvm_library import binding

Builder: TypeAlias = Any
"""An ``ir.IRBuilder``. Its methods get their signatures from decorators, which a type checker sees through wrongly."""

Value: TypeAlias = Any
"""An ``ir.Value``: scalar, vector or pointer."""

I1: Final = ir.IntType(1)
I8: Final = ir.IntType(8)
I16: Final = ir.IntType(16)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
F32: Final = ir.FloatType()
F64: Final = ir.DoubleType()
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()


class _BFloat16(ir.Type):
    """LLVM's type of bfloat16 numbers; llvmlite has none."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat16)

    def __hash__(self) -> int:
        return hash(_BFloat16)


BF16: Final = _BFloat16()

LINE: Final = 64
"""Bytes of a cache line."""
AVX512: Final = 16
"""Floats in a vector of AVX-512."""


def taken(value: Any) -> str:
    """The text of a module or a function, which has no instructions any more.

    Instructions, blocks and functions know each other in circles. They would stay until a garbage collection, which is
    late while a kernel is compiled: 25 MiB for causal attention.
    """
    text = str(value)
    functions: Any = value.functions if isinstance(value, ir.Module) else (value,)
    for function in functions:
        for block in function.blocks:
            for instruction in block.instructions:
                instruction.operands = ()
                instruction.incomings = ()  # of a phi
            block.instructions.clear()
            block.terminator = None
        function.blocks.clear()
    return text


def i64(number: int) -> ir.Constant:
    """A 64-bit constant."""
    return ir.Constant(I64, number)


class _Splat(ir.Constant):
    """A vector constant of equal elements in LLVM's short form; written out, sixteen elements are slow to parse."""

    def _get_reference(self) -> str:
        return f"splat ({self.constant[0]})"


def constant(kind: Any, number: float) -> ir.Constant:
    """``number`` of type ``kind``, in every lane if that is a vector."""
    if isinstance(kind, ir.VectorType):
        return _Splat(kind, ir.Constant(kind.element, number))
    return ir.Constant(kind, number)


def splat(b: Builder, scalar: Value, kind: ir.Type) -> Value:
    """``scalar`` in every lane of type ``kind``."""
    if not isinstance(kind, ir.VectorType):
        return scalar
    first = b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
    mask = ir.Constant(ir.VectorType(I32, kind.count), [ir.Constant(I32, 0)] * kind.count)
    return b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)


def either(b: Builder, condition: Value, usual: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    """The value that ``usual`` emits where ``condition``, one truth value, holds, else the value of ``otherwise``.

    Only one of them runs; ``condition`` is expected to hold.
    """
    ways: list[tuple[Value, Value]] = []
    with b.if_else(condition, likely=True) as branches:
        for branch, emit in zip(branches, (usual, otherwise), strict=True):
            with branch:
                ways.append((emit(), b.block))
    result = b.phi(ways[0][0].type)
    for way, block in ways:
        result.add_incoming(way, block)
    return result


def like(value: Value, element: ir.Type) -> ir.Type:
    """``element`` with as many lanes as ``value``."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def call(b: Builder, name: str, result: ir.Type, args: Sequence[Value]) -> Value:
    """A call of LLVM's function ``name``, which a module declares at its first use."""
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), args)


def intrinsic(b: Builder, name: str, kind: ir.Type, args: Sequence[Value]) -> Value:
    """A call of ``llvm.NAME`` overloaded on ``kind``."""
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    return call(b, f"llvm.{name}.{lanes}{'f64' if element == F64 else 'f32'}", kind, args)


@cache
def has_avx512() -> bool:
    """True if code may use AVX-512: vectors of 16 floats alone, which LLVM splits elsewhere, do not tell."""
    return bool(binding.get_host_cpu_features().get("avx512f"))


@cache
def has_avx2() -> bool:
    """True if code may use AVX2."""
    return bool(binding.get_host_cpu_features().get("avx2"))


NAN: Final = 0x01 | 0x80
SUBNORMAL: Final = 0x20
"""Classes of numbers, as ``VFPCLASSPS`` counts them: quiet and signalling NaN, and so on.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VFPCLASSPS.
"""


def in_classes(b: Builder, value: Value, classes: int) -> Value:
    """True in the lanes of ``value``, a vector of AVX-512, that are in one of ``classes``."""
    return call(b, "llvm.x86.avx512.fpclass.ps.512", like(value, I1), [value, ir.Constant(I32, classes)])


def canonical_nan(b: Builder, value: Value) -> Value:
    """``value``, float32, with the canonical NaN for every NaN.

    Processors pass on the payload of one of several NaN, and which one depends on the instructions that LLVM selects.
    AVX-512 has an instruction for it.
    """
    count = value.type.count if isinstance(value.type, ir.VectorType) else 1
    if has_avx512() and count == AVX512:
        return _without_nan(b, value)
    if has_avx512() and count == 2 * AVX512:
        low, high = (lanes_of(b, value, value, first, AVX512) for first in (0, AVX512))
        return lanes_of(b, _without_nan(b, low), _without_nan(b, high), 0, count)
    return b.select(b.fcmp_unordered("uno", value, value), constant(value.type, float("nan")), value)


def shuffled(b: Builder, left: Value, right: Value, lanes: Sequence[int]) -> Value:
    """These lanes of two vectors side by side."""
    return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def lanes_of(b: Builder, left: Value, right: Value, first: int, count: int) -> Value:
    """``count`` lanes of two vectors side by side, from ``first`` on."""
    return shuffled(b, left, right, range(first, first + count))


def _without_nan(b: Builder, value: Value) -> Value:
    return fixed_up(b, constant(value.type, float("nan")), value, 0x11111100)  # the lowest two classes are NaN


def fixed_up(b: Builder, value: Value, by: Value, table: int) -> Value:
    """``value``, or what ``table`` answers for the class of the float in ``by``: ``VFIXUPIMMPS``, for sixteen floats.

    ``table`` has four bits for each class of numbers, 0 for ``value``, 1 for ``by``.
    Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VFIXUPIMMPS.
    """
    words = ir.VectorType(I32, AVX512)
    arguments = [value, by, constant(words, table), ir.Constant(I32, 0), ir.Constant(I16, -1)]
    arguments.append(ir.Constant(I32, 4))  # the current rounding mode
    return call(b, "llvm.x86.avx512.mask.fixupimm.ps.512", value.type, arguments)


def element(b: Builder, pointer: Value, index: Value | int, kind: ir.Type = F32) -> Value:
    """Pointer to an element of an array."""
    return b.gep(pointer, [i64(index) if isinstance(index, int) else index], source_etype=kind)


def at_least(b: Builder, value: Value, bound: int | Value) -> Value:
    """``value >= bound``, signed."""
    return b.icmp_signed(">=", value, i64(bound) if isinstance(bound, int) else bound)


def smaller(b: Builder, value: Value, bound: int | Value) -> Value:
    """The smaller of two signed 64-bit numbers."""
    limit = i64(bound) if isinstance(bound, int) else bound
    return b.select(b.icmp_signed("<", value, limit), value, limit)


class Variable:
    """A local variable, 64-bit integer or pointer or vector; LLVM turns it into a register."""

    def __init__(self, b: Builder, kind: ir.Type = I64, start: Value | None = None) -> None:
        with b.goto_entry_block():
            self._slot = b.alloca(kind)
        self._b, self._kind = b, kind
        if start is not None:
            self.set(start)

    def get(self) -> Value:
        return self._b.load(self._slot, typ=self._kind)

    def set(self, value: Value) -> None:
        self._b.store(value, self._slot)


@contextmanager
def while_(b: Builder, condition: Callable[[], Value]) -> Generator[None, None, None]:
    """The body runs as long as ``condition``, emitted before it, holds."""
    head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    b.cbranch(condition(), body, after)
    b.position_at_end(body)
    yield
    b.branch(head)
    b.position_at_end(after)


@contextmanager
def steps(b: Builder, stop: Value, step: int, start: Variable | None = None) -> Generator[Value, None, None]:
    """The body runs for 0, ``step``, ... as long as a whole step fits below ``stop``.

    Given ``start``, counts on from its value and leaves there where it ended.
    """
    counter = start or Variable(b)
    if start is None:
        counter.set(i64(0))
    with while_(b, lambda: at_least(b, b.sub(stop, counter.get()), step)):
        here = counter.get()
        yield here
        counter.set(b.add(here, i64(step)))


@contextmanager
def switch(b: Builder, value: Value, cases: Iterable[int]) -> Generator[Iterator[int], None, None]:
    """Iterate over ``cases``: each round emits the code for one; any other ``value`` does nothing."""
    end = b.append_basic_block("end")
    table = b.switch(value, end)

    def rounds() -> Iterator[int]:
        for case in cases:
            block = b.append_basic_block(f"case{case}")
            table.add_case(i64(case), block)
            b.position_at_end(block)
            yield case
            b.branch(end)

    yield rounds()
    b.position_at_end(end)


def prefetch(b: Builder, pointer: Value, level: int = 1) -> None:
    """Ask for the cache line at ``pointer``, which need not be readable, up to a ``level`` of caches."""
    numbers = [ir.Constant(I32, number) for number in (0, 4 - level, 1)]  # to read; data
    call(b, "llvm.prefetch.p0", VOID, [pointer, *numbers])


def scratch(b: Builder, count: int) -> Value:
    """Pointer to ``count`` floats on the stack, at the start of a cache line."""
    with b.goto_entry_block():
        slot = b.alloca(ir.ArrayType(F32, count))
    slot.align = 64
    slot.type = POINTER  # llvmlite gives it a typed pointer, which would not match others
    return slot


def internal(module: ir.Module, name: str, arguments: Sequence[ir.Type]) -> tuple[ir.Function, Builder]:
    """A function of this module only, and a builder at its start; it is not inlined, to keep register use local."""
    function = ir.Function(module, ir.FunctionType(VOID, arguments), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function, ir.IRBuilder(function.append_basic_block())


@dataclass(frozen=True, slots=True)
class Matrix:
    """A row-major matrix in memory: ``pointer`` to its first element, ``stride`` elements from row to row."""

    pointer: Value
    stride: Value
    element: Any = F32

    def at(self, b: Builder, row: Value, column: Value) -> Value:
        """Pointer to an element."""
        return b.gep(self.pointer, [b.add(b.mul(row, self.stride), column)], source_etype=self.element)

    def row(self, b: Builder, row: Value) -> Matrix:
        """The rows from one on."""
        return replace(self, pointer=self.at(b, row, i64(0)))


class Cursor:
    """A row of a matrix, and then the next one."""

    def __init__(self, b: Builder, matrix: Matrix) -> None:
        self._b, self._matrix, self._row = b, matrix, Variable(b, POINTER, matrix.pointer)

    def at(self, column: Value | int) -> Value:
        """Pointer to an element of the row."""
        return element(self._b, self._row.get(), column, self._matrix.element)

    def move(self) -> None:
        """Go on to the next row."""
        self._row.set(self.at(self._matrix.stride))


@dataclass(frozen=True, slots=True)
class Vectors:
    """Loads, stores and arithmetic of vectors of ``lanes`` floats; with a mask, on the masked lanes of memory only."""

    b: Builder
    lanes: int
    mask: Value | None = None
    pairs: bool = False
    """Each element holds two bfloat16 numbers, the one of the smaller k in the upper half."""

    @property
    def type(self) -> ir.Type:
        return ir.VectorType(F32, self.lanes) if self.lanes > 1 else F32

    @property
    def zero(self) -> ir.Constant:
        return constant(self.type, 0.0)

    def load(self, pointer: Value) -> Value:
        if self.mask is None:
            return self.b.load(pointer, typ=self.type, align=4)
        operands = [pointer, ir.Constant(I32, 4), self.mask, self.zero]
        return call(self.b, f"llvm.masked.load.v{self.lanes}f32.p0", self.type, operands)

    def store(self, value: Value, pointer: Value) -> None:
        if self.mask is None:
            self.b.store(value, pointer, align=4)
            return
        operands = [value, pointer, ir.Constant(I32, 4), self.mask]
        call(self.b, f"llvm.masked.store.v{self.lanes}f32.p0", VOID, operands)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        if not self.pairs:
            return intrinsic(self.b, "fma", self.type, [x, y, z])
        halves = [self.b.bitcast(value, ir.VectorType(BF16, 2 * self.lanes)) for value in (x, y)]
        return call(self.b, f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}", self.type, [z, *halves])

    def splat(self, scalar: Value) -> Value:
        return splat(self.b, scalar, self.type)


def mask(b: Builder, lanes: int, count: Value) -> Value:
    """True in the first ``count`` of ``lanes`` lanes."""
    wide = ir.VectorType(I32, lanes)
    return b.icmp_signed("<", ir.Constant(wide, list(range(lanes))), splat(b, b.trunc(count, I32), wide))


def write_sums(b: Builder, adds: Value, sums: Sequence[tuple[Vectors, Value, Value]]) -> None:
    """Store sums, each with its vectors and its place; they are added to what is there if ``adds`` holds."""
    with b.if_else(adds) as (then, otherwise):
        with then:
            for v, total, place in sums:
                v.store(canonical_nan(b, b.fadd(v.load(place), total)), place)
        with otherwise:
            for v, total, place in sums:
                v.store(canonical_nan(b, total), place)
