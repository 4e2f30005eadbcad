"""An instruction's meaning as a short list of loops over expressions, ready to become machine code.

Running ``semantics`` with :class:`Lowering` instead of arrays yields expression nodes. Stores, folds and matrix
products become statements; everything element-wise in between stays one expression, so that it becomes one loop.
What a statement cannot read directly (a fold's input, a pattern that fits no loop) goes through scratch memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from nki.base import dtype as dt
from nki.base.dtype import DType
from nki.ir.algebra import Step, column_of, last_of
from nki.ir.types import Access, coalesced
from nki.isa.tables.alu import BITS

SCRATCH: Final = -1
Dims = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where elements are: ``base`` is an operand of the routine or :data:`SCRATCH`, ``start`` a byte offset from it.

    ``row_step`` leads from partition to partition, ``dims`` are ``(step, count)`` within one, both in elements.
    """

    base: int
    start: int
    rows: int
    row_step: int
    dims: Dims
    dtype: DType

    @property
    def columns(self) -> int:
        return math.prod(count for _, count in self.dims)

    @property
    def dense_rows(self) -> bool:
        """Whether each partition's elements lie next to each other."""
        return len(self.dims) == 1 and (self.dims[0][0] == 1 or self.dims[0][1] == 1)


@dataclass(frozen=True, slots=True)
class Param:
    """An instruction's run-time number: entry ``index`` of its immediates."""

    index: int


@dataclass(eq=False, slots=True)
class Node:
    """An expression over a tile of ``rows`` partitions and ``columns`` elements (1 repeats)."""

    kind: str  # load, value, iota, cast, narrow, alu, integer, act, select, gather, matmul, bits, unpack, pack
    dtype: DType
    rows: int
    columns: int
    args: tuple[Node, ...] = ()
    op: str = ""
    place: Place | None = None
    value: Any = None
    """``value``: the number or :class:`Param`; ``iota``: (dims, offset, channel multiplier); ``unpack``: which part;
    ``gather``: the step and number of the elements to choose from, the first of which is at ``place``.
    """


@dataclass(slots=True)
class Assign:
    """``place[...] = node``."""

    place: Place
    node: Node


@dataclass(slots=True)
class Fold:
    """``place[p, g] = op over r of node[p, g, r]``; with ``across`` over partitions instead, ``place[0, c]``."""

    place: Place
    node: Node
    op: str
    groups: int
    across: bool
    start: Node | None = None
    """What comes before the first element: one element per partition."""


@dataclass(slots=True)
class Gemm:
    """``place (+)= left.T @ right`` on float32 panels."""

    place: Place
    left: Place
    right: Place
    accumulate: bool


@dataclass(slots=True)
class Show:
    """Print the dense elements at ``place`` as a tensor of ``shape``."""

    place: Place
    prefix: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class Scan:
    """``place[p, i]`` = the state after elements ``i`` of all ``sources`` changed it, on float32 panels."""

    place: Place
    sources: tuple[Place, ...]
    start: Place
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Top8:
    """``place[p]`` = the eight largest elements of a float32 panel's row."""

    place: Place
    source: Place


@dataclass(slots=True)
class Find:
    """``place[p]`` = where in ``source[p]`` the eight elements of ``wanted[p]`` are, on float32 panels."""

    place: Place
    source: Place
    wanted: Place
    last_first: bool


@dataclass(slots=True)
class Put:
    """``place[p, n] = value`` for every ``n`` in ``numbers[p]`` that is smaller than the place has columns."""

    place: Place
    numbers: Place
    value: Place


RowRoutine = Literal["nonzero", "ranked", "xorwow"]


@dataclass(slots=True)
class ByRow:
    """What ``routine`` makes of each row of ``source``; ``more`` are further results, or memory to work in."""

    routine: RowRoutine
    place: Place
    source: Place
    more: tuple[Place, ...] = ()


Statement = Assign | Fold | Gemm | Scan | Top8 | Find | Put | ByRow | Show


@dataclass
class Lowering:
    """The algebra over expressions. ``copied`` names operands to copy before anything is written."""

    copied: frozenset[int] = frozenset()
    statements: list[Statement] = field(default_factory=list[Statement])
    scratch: int = 0

    # Primitives

    def load(self, source: Access | float | Param) -> Node:
        if not isinstance(source, Access):
            return self.const(source, dt.float32)
        place = self._place(source)
        return self._loaded(Node("load", source.dtype, place.rows, place.columns, place=place))

    def const(self, value: Any, dtype: DType) -> Node:
        return Node("value", dtype, 1, 1, value=value)

    def flat(self, source: Access) -> Node:
        place = self._flat_place(source)
        return self._loaded(Node("load", source.dtype, 1, place.columns, place=place))

    def store(self, target: Access, value: Node) -> None:
        if target.one_place():
            whole = value.rows == 1 and value.columns == target.size
            value = self.reshape(value, target.partitions) if whole else value
            target, value = last_of(target), self.strided(value, value.columns - 1, 1, 1)
        rows, columns = target.partitions, target.free_elements
        flat = value.rows == 1 and rows > 1 and value.columns == target.size
        place = self._flat_place(target) if flat else self._place(target)
        if place.dtype is dt.float32 and place.dense_rows and (product := _product(value, place)):
            left, right = (self._panel(arg) for arg in product.args)
            self.statements.append(Gemm(place, left, right, product is not value))
            return
        assert flat or (value.rows in (1, rows) and value.columns in (1, columns))
        self.statements.append(Assign(place, self._settled(value)))

    def cast(self, value: Node, dtype: DType) -> Node:
        if value.dtype is dtype:
            return value
        return Node("cast", dtype, value.rows, value.columns, (value,))

    def narrow(self, value: Node, dtype: DType) -> Node:
        if not dtype.is_integer:
            return self.cast(value, dtype)
        return Node("narrow", dtype, value.rows, value.columns, (value,))

    def alu(self, op: str, left: Node, right: Node | None = None) -> Node:
        given = (left,) if right is None else (left, right)
        args = given if op in BITS else tuple(self.cast(a, dt.float32) for a in given)
        return _wide("alu", left.dtype if op in BITS else dt.float32, args, op)

    def integer(self, op: str, left: Node, right: Node, dtype: DType) -> Node:
        return _wide("integer", dtype, (left, right), op)

    def act(self, function: str, value: Node, parameter: Node | None = None) -> Node:
        given = (value,) if parameter is None else (value, parameter)
        return _wide("act", dt.float32, tuple(self.cast(a, dt.float32) for a in given), function)

    def reduce(self, op: str, value: Node, groups: int = 1, start: Node | None = None) -> Node:
        return self._fold(op, value, groups, False, start)

    def reduce_partitions(self, op: str, value: Node) -> Node:
        return self._fold(op, value, 1, True)

    def scan(self, steps: tuple[Step, ...], values: tuple[Node, ...], start: Node) -> Node:
        sources = tuple(self._panel(self.cast(value, dt.float32)) for value in values)
        first = self._panel(self.cast(start, dt.float32))
        place = self.new_place(max(p.rows for p in sources), max(p.columns for p in sources), dt.float32)
        self.statements.append(Scan(place, sources, first, steps))
        return _kept(place)

    def top8(self, value: Node) -> Node:
        source = self._panel(self.cast(value, dt.float32))
        place = self.new_place(source.rows, 8, dt.float32)
        self.statements.append(Top8(place, source))
        return _kept(place)

    def find(self, value: Node, wanted: Node, last_first: bool) -> Node:
        source, looked_for = (self._panel(self.cast(node, dt.float32)) for node in (value, wanted))
        place = self.new_place(source.rows, looked_for.columns, dt.uint32)
        self.statements.append(Find(place, source, looked_for, last_first))
        return _kept(place)

    def put(self, target: Access, places: Node, value: Node) -> None:
        self.statements.append(Put(self._place(target), self._panel(places), self._place_of(self.real(value))))

    def matmul(self, stationary: Node, moving: Node) -> Node:
        args = (self.cast(stationary, dt.float32), self.cast(moving, dt.float32))
        return Node("matmul", dt.float32, stationary.columns, moving.columns, args)

    def transpose(self, value: Node) -> Node:
        place = self._simple(value)
        step, count = place.dims[0]
        turned = Place(
            place.base, place.start, count, step, coalesced(iter([(place.row_step, place.rows)])), place.dtype
        )
        return Node("load", value.dtype, count, place.rows, place=turned)

    def iota(self, pattern: Dims, offset: Any, channel_multiplier: Any, partitions: int) -> Node:
        columns = math.prod(count for _, count in pattern)
        dims = coalesced(iter(pattern))
        return Node("iota", dt.int32, partitions, columns, value=(dims, offset, channel_multiplier))

    def select(self, condition: Node, yes: Node, no: Node) -> Node:
        return _wide("select", yes.dtype, (self.cast(condition, dt.float32), yes, no))

    def strided(self, value: Node, start: int, step: int, count: int | None = None) -> Node:
        if value.kind == "cast":
            return self.cast(self.strided(value.args[0], start, step, count), value.dtype)
        place = self._simple(value)
        inner, whole = place.dims[0]
        kept = count or (whole - start + step - 1) // step
        first = place.start + start * inner * place.dtype.itemsize
        cut = Place(place.base, first, place.rows, place.row_step, ((inner * step, kept),), place.dtype)
        return Node("load", value.dtype, place.rows, kept, place=cut)

    def bits(self, value: Node, dtype: DType) -> Node:
        return Node("bits", dtype, value.rows, value.columns, (value,))

    def unpack(self, value: Node, index: int) -> Node:
        return Node("unpack", dt.float32, value.rows, value.columns, (value,), value=index)

    def pack(self, values: Sequence[Node], dtype: DType) -> Node:
        return _wide("pack", dtype, tuple(values))

    def stack(self, values: Sequence[Node], partitions: int) -> Node:
        columns = sum(v.rows * v.columns for v in values) // partitions
        place = self.new_place(partitions, columns, values[0].dtype)
        start = place.start
        for value in values:
            part = Place(SCRATCH, start, value.rows, value.columns, ((1, value.columns),), place.dtype)
            self.statements.append(Assign(part, self._settled(value)))
            start += value.rows * value.columns * place.dtype.itemsize
        return Node("load", place.dtype, partitions, columns, place=place)

    def show(self, prefix: str, value: Node, shape: tuple[int, ...]) -> None:
        self.statements.append(Show(self._place_of(self.real(value, copy=True)), prefix, shape))

    def reshape(self, value: Node, partitions: int) -> Node:
        place = self._place_of(self.real(value, copy=True))
        columns = value.rows * value.columns // partitions
        again = replace(place, rows=partitions, row_step=columns, dims=((1, columns),))
        return Node("load", value.dtype, partitions, columns, place=again)

    def gather(self, value: Node, index: Node) -> Node:
        place = self._simple(value)
        first = replace(place, dims=((1, 1),))
        rows = max(value.rows, index.rows)
        return Node("gather", value.dtype, rows, index.columns, (index,), place=first, value=place.dims[0])

    def nonzero(self, value: Node) -> Node:
        return self._by_row("nonzero", value, self.new_place(value.rows, value.columns + 1, dt.int32))

    def ranked(self, value: Node, count: int) -> Node:
        place = self.new_place(value.rows, count, dt.int32)
        pairs = self.new_place(2, 2 * value.columns, dt.uint32)  # of key and position, before and after a pass
        return self._by_row("ranked", value, place, pairs, self.new_place(1, 256, dt.uint32))

    def xorwow(self, state: Node, count: int) -> tuple[Node, Node]:
        generators = state.columns // 6
        place = self.new_place(state.rows, -(-count // generators) * generators, dt.uint32)
        after = self.new_place(state.rows, state.columns, dt.uint32)
        self._by_row("xorwow", state, place, after)
        kept = replace(place, dims=((1, count),))
        return (
            Node("load", dt.uint32, state.rows, count, place=kept),
            Node("load", dt.uint32, state.rows, state.columns, place=after),
        )

    def column(self, target: Access, index: int) -> Access:
        return column_of(target, index)

    # Helpers

    def _by_row(self, routine: RowRoutine, value: Node, place: Place, *more: Place) -> Node:
        self.statements.append(ByRow(routine, place, self._simple(value), more))
        return Node("load", place.dtype, place.rows, place.columns, place=place)

    def _place(self, access: Access) -> Place:
        dims = coalesced(zip(access.strides[1:], access.shape[1:], strict=True))
        start = access.offset * access.dtype.itemsize
        return Place(int(access.tensor.name), start, access.partitions, access.strides[0], dims, access.dtype)

    def _flat_place(self, access: Access) -> Place:
        start = access.offset * access.dtype.itemsize
        return Place(int(access.tensor.name), start, 1, 0, coalesced(access.pattern()), access.dtype)

    def _loaded(self, node: Node) -> Node:
        assert node.place is not None
        return self.real(node, copy=True) if node.place.base in self.copied else node

    def new_place(self, rows: int, columns: int, dtype: DType) -> Place:
        """Room for a dense tile in scratch memory."""
        place = Place(SCRATCH, self.scratch, rows, columns, ((1, columns),), dtype)
        self.scratch += -(-rows * columns * dtype.itemsize // 64) * 64
        return place

    def real(self, node: Node, copy: bool = False) -> Node:
        """The node itself, turned into a load: what it stands for is computed now and kept in scratch memory."""
        if node.kind != "load" or copy:
            settled = self._settled(node)
            kept = replace(settled)
            place = self.new_place(node.rows, node.columns, node.dtype)
            self.statements.append(Assign(place, kept))
            node.kind, node.args, node.place = "load", (), place
        return node

    def _settled(self, node: Node) -> Node:
        """The node with every matrix product in it computed into scratch memory."""
        if node.kind == "matmul":
            left, right = (self._panel(arg) for arg in node.args)
            place = self.new_place(node.rows, node.columns, dt.float32)
            self.statements.append(Gemm(place, left, right, False))
            node.kind, node.args, node.place = "load", (), place
        for arg in node.args:
            self._settled(arg)
        return node

    def _panel(self, node: Node) -> Place:
        """A float32 operand of the matrix product whose rows are dense; tfloat32 is stored as float32."""
        inner = node.args[0] if node.kind == "cast" and node.args[0].dtype is dt.tfloat32 else node
        if inner.kind == "load" and inner.place is not None and inner.place.dense_rows:
            return inner.place
        place = self.real(node).place
        assert place is not None
        return place if place.dense_rows else self._place_of(self.real(node, copy=True))

    def _place_of(self, node: Node) -> Place:
        assert node.place is not None
        return node.place

    def _simple(self, node: Node) -> Place:
        """Where the node's elements are, with one dimension per partition."""
        place = self._place_of(self.real(node))
        return place if len(place.dims) == 1 else self._place_of(self.real(node, copy=True))

    def exchange(self, value: Node, to: int, source: int, pipe: int) -> Node:  # noqa: ARG002  # see below
        """A core and itself; what two cores exchange is copies and meetings before it comes here."""
        return value

    def meet(self, cores: tuple[int, ...], about: str) -> None:
        """A core that meets itself."""

    def _fold(self, op: str, value: Node, groups: int, across: bool, start: Node | None = None) -> Node:
        start = None if start is None else self.real(self.cast(start, dt.float32))
        value = value if op in BITS else self.cast(value, dt.float32)
        # An expression is worth a vector loop of its own; a fold over partitions is one itself.
        inner = value.args[0] if value.kind == "cast" else value
        if inner.kind != "load" and (not across or any(node.kind == "gather" for node in loads(value))):
            value = self.real(value)
        rows, columns = (1, value.columns) if across else (value.rows, groups)
        place = self.new_place(rows, columns, value.dtype)
        self.statements.append(Fold(place, self._settled(value), op, groups, across, start))
        return _kept(place)


def _kept(place: Place) -> Node:
    """What was computed into scratch memory."""
    return Node("load", place.dtype, place.rows, place.columns, place=place)


def _wide(kind: str, dtype: DType, args: tuple[Node, ...], op: str = "") -> Node:
    return Node(kind, dtype, max(a.rows for a in args), max(a.columns for a in args), args, op)


def _product(value: Node, place: Place) -> Node | None:
    """The matrix product that can be written, or added, to ``place`` directly."""
    if value.kind == "matmul":
        return value
    if value.kind == "alu" and value.op == "add" and value.args[1].kind == "matmul" and value.args[0].place == place:
        return value.args[1]
    return None


def loads(node: Node) -> Iterator[Node]:
    """What an expression reads from memory."""
    if node.kind in ("load", "gather"):
        yield node
    for arg in node.args:
        yield from loads(arg)
