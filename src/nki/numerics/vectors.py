"""Vectors of float32 numbers in registers, as LLVM IR: loads, stores, masks and fused multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from nki.numerics.llvm import F32, I32, VOID, Builder, Value, splat


def declared(module: ir.Module, name: str, result: ir.Type, operands: list[Any]) -> ir.Function:
    """The function of LLVM or of a processor that has this name."""
    found: Any = module.globals.get(name)
    return found or ir.Function(module, ir.FunctionType(result, operands), name)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Loads, stores and arithmetic of vectors of ``lanes`` floats; with a mask, on the masked lanes of memory only."""

    b: Builder
    lanes: int
    mask: Value | None = None
    pairs: bool = False
    """Each element holds two bfloat16 numbers, the one of the smaller k in the upper half."""

    @property
    def type(self) -> ir.VectorType:
        return ir.VectorType(F32, self.lanes)

    @property
    def zero(self) -> ir.Constant:
        return ir.Constant(self.type, [0.0] * self.lanes)

    def load(self, pointer: Value) -> Value:
        if self.mask is None:
            return self.b.load(pointer, typ=self.type, align=4)
        name = f"llvm.masked.load.v{self.lanes}f32.p0"
        operands = [pointer, ir.Constant(I32, 4), self.mask, self.zero]
        return self.b.call(declared(self.b.module, name, self.type, [o.type for o in operands]), operands)

    def store(self, value: Value, pointer: Value) -> None:
        if self.mask is None:
            self.b.store(value, pointer, align=4)
            return
        name = f"llvm.masked.store.v{self.lanes}f32.p0"
        operands = [value, pointer, ir.Constant(I32, 4), self.mask]
        self.b.call(declared(self.b.module, name, VOID, [o.type for o in operands]), operands)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        if self.pairs:
            halves = ir.VectorType(_BFloat(), 2 * self.lanes)
            name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}"
            function = declared(self.b.module, name, self.type, [self.type, halves, halves])
            return self.b.call(function, [z, self.b.bitcast(x, halves), self.b.bitcast(y, halves)])
        name = f"llvm.fma.v{self.lanes}f32"
        return self.b.call(declared(self.b.module, name, self.type, [self.type] * 3), [x, y, z])

    def splat(self, scalar: Value) -> Value:
        return splat(self.b, scalar, self.type)


def mask(b: Builder, lanes: int, count: Value) -> Value:
    """True in the first ``count`` of ``lanes`` lanes."""
    wide = ir.VectorType(I32, lanes)
    one = b.insert_element(ir.Constant(wide, ir.Undefined), b.trunc(count, I32), ir.Constant(I32, 0))
    bound = b.shuffle_vector(one, ir.Constant(wide, ir.Undefined), ir.Constant(wide, [0] * lanes))
    return b.icmp_signed("<", ir.Constant(wide, list(range(lanes))), bound)
