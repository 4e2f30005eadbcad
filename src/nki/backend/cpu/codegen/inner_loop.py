"""The expressions of one innermost loop, on vectors and on single elements alike."""

from __future__ import annotations

from typing import cast

from llvmlite import ir

from nki.backend.cpu.codegen.alu import emit_alu, emit_bits, emit_integer
from nki.backend.cpu.codegen.convert import decode, decode_part, encode, encode_parts, storage_type
from nki.backend.cpu.codegen.function import I8, I32, I64, Builder, Leaf, Position, Routine, Value
from nki.backend.cpu.codegen.loop_nest import Loop
from nki.backend.cpu.loop_ir.nodes import Node, Place
from nki.base import dtype as dt
from nki.isa.tables.alu import BITS
from nki.numerics.activations import emit
from nki.numerics.llvm import constant


class Row:
    """The expressions of one innermost loop. What does not change along it is computed once, before it."""

    def __init__(self, routine: Routine, leaves: list[Leaf], loop: Loop, position: Position) -> None:
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
        if id(node) in self.place_of and self.loop.steps[self.place_of[id(node)]] != 0:
            return False
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
            case "alu" if node.op in BITS:
                return emit_bits(b, node.op, args[0], args[1] if len(args) > 1 else None)
            case "alu":
                return emit_alu(b, node.op, args[0], args[1] if len(args) > 1 else None)
            case "integer":
                signed = (node.args[0].dtype.kind == "i", node.args[1].dtype.kind == "i")
                return emit_integer(b, node.op, args[0], args[1], signed)
            case "act":
                return emit(b, node.op, *args)
            case "bits":
                return b.bitcast(args[0], storage_type(node.dtype, width))
            case "unpack":
                return decode_part(b, args[0], node.args[0].dtype, node.value)
            case "pack":
                return encode_parts(b, args, node.dtype)
            case "select":
                chosen = b.fcmp_unordered("!=", args[0], constant(args[0].type, 0.0))
                return b.select(chosen, args[1], args[2])
            case "gather":
                assert width == 1, "statements that gather go element by element"
                return self._gather(node, index, args[0])
            case _:
                raise AssertionError(node.kind)

    def _literal(self, node: Node) -> Value:
        b = self.b
        number = self.r.number(node.value)
        if node.dtype.is_integer or node.dtype.is_packed:
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

    def _gather(self, node: Node, index: Value, chosen: Value) -> Value:
        """One element. A number that leads outside the row reads the row's first element and gives poison."""
        b = self.b
        leaf, place = self.place_of[id(node)], cast(Place, node.place)
        step, count = node.value
        size = place.dtype.itemsize
        word = ir.IntType(8 * size)
        number = (b.sext if node.args[0].dtype.kind == "i" else b.zext)(chosen, I64)
        inside = b.icmp_unsigned("<", number, ir.Constant(I64, count))
        moved = b.mul(b.select(inside, number, ir.Constant(I64, 0)), ir.Constant(I64, step * size))
        at = b.gep(self._address(leaf, place, index), [moved], source_etype=I8)
        poison = ir.Constant(word, int.from_bytes(place.dtype.poison, "little"))
        element = b.select(inside, b.load(at, align=size, typ=word), poison)
        return b.bitcast(element, storage_type(place.dtype, 1))

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
        factor = self.r.integer(node.value[2]) if step is None else ir.Constant(I32, step)
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
