"""Vectors of float32 numbers in registers, as LLVM IR: loads, stores, masks and fused multiply-adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from nki.numerics.llvm import BF16, F32, I32, VOID, Builder, Value, call, canonical_nan, constant, intrinsic, splat


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
