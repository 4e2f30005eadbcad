"""Copies of operands from layout to layout, as LLVM IR, made from the index maps of both.

A copy goes tile by tile. Each bit of an element's row and column in the tile is a bit of its index in memory, or, in a
word of two rows, the opposite of that. Vectors are loaded as they lie in the source, shuffled until their lanes have
the bits in the order of the target, and stored (:func:`rearranged`).

*Subnormal guard.* Matrix units take subnormal numbers for 0. Behind each block of pairs there are the least magnitudes
of its numbers that are not 0, as bits, minus one (65535 if all are 0): of a panel one for each 16 rows, of columns one
for 16 of them, behind the first. :func:`add_least_magnitude` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from llvmlite import ir

from nki.ir.layout import DENSE, Layout
from nki.numerics.llvm import (
    F32,
    I16,
    I32,
    I64,
    LINE,
    POINTER,
    VOID,
    Builder,
    Matrix,
    Value,
    Variable,
    call,
    constant,
    i64,
    prefetch,
    shuffled,
    steps,
)
from nki.numerics.matmul.contract import BLOCKS, CHAIN, GROUP, PAIR_COLUMNS, PAIR_PANELS

VNNI: Final = 0
"""The order of pairs: rows 2 k and 2 k + 1 share a word."""
BY_CHAIN: Final = CHAIN.bit_length() - 1
"""The order of pairs: rows k and k + 16 share a word, one of each chain of a group.

Both are the bit of a row's number that is 0 for the row in the upper half of a word, and 1 in the lower half.
"""
COLUMNS: Final = Layout("columns", 1)
"""Each column by itself: an operand that was not transposed."""
_NEAR: Final = 4
"""Lines of a tile that processors reach from one pointer."""
_MAGNITUDE: Final = 0x7FFF
_ARGUMENTS: Final = [POINTER, I64, POINTER, I64, I64, I64, I64, I64, I64]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A copy from one layout to another, tile by tile, in tiles of these rows and columns, those at the end smaller.

    ``widens``: numbers of bfloat16 become float32. Columns are whole tiles, but in ``BLOCKS``.
    """

    name: str
    source: Layout
    target: Layout
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    is_narrow: bool = False
    widens: bool = False
    fetched: int = 0
    """The level of caches to which the lines that come later are fetched; 0: none are."""


ROWS_TO_BLOCKS: Final = Conversion("nki_rows_to_blocks", DENSE, BLOCKS, (4, 1), (16, 4, 1), fetched=2)
ROWS_TO_ROWS: Final = Conversion("nki_rows_to_rows", DENSE, DENSE, (1,), (16, 1))
COLUMNS_TO_BLOCKS: Final = Conversion("nki_columns_to_blocks", COLUMNS, BLOCKS, (16, 1), (4,))
TO_PAIRS: Final = (
    Conversion("nki_rows_to_pair_panels", DENSE, PAIR_PANELS, (32,), (32,), is_narrow=True, fetched=1),
    Conversion("nki_rows_to_pair_columns", DENSE, PAIR_COLUMNS, (32,), (16,), is_narrow=True, fetched=2),
    Conversion("nki_columns_to_pair_columns", COLUMNS, PAIR_COLUMNS, (32,), (1,), is_narrow=True),
)
TO_FLOAT32: Final = (
    Conversion("nki_rows_to_float32", DENSE, DENSE, (1,), (32, 16), is_narrow=True, widens=True),
    Conversion("nki_columns_to_float32", COLUMNS, DENSE, (32,), (16,), is_narrow=True, widens=True),
    Conversion("nki_pair_panels_to_float32", PAIR_PANELS, DENSE, (32,), (32,), is_narrow=True, widens=True),
    Conversion("nki_pair_columns_to_float32", PAIR_COLUMNS, DENSE, (32,), (16,), is_narrow=True, widens=True),
)


@dataclass(frozen=True, slots=True)
class _Map:
    """The index map of tiles of ``rows`` and ``columns`` in a layout with pairs in the order ``half``."""

    layout: Layout
    rows: int
    columns: int
    half: int

    @property
    def width(self) -> int:
        """Columns of a block in a tile."""
        return min(self.layout.width or self.columns, self.columns)

    @property
    def bits(self) -> list[str]:
        """The bits of an element's index in memory, lowest first: of its row, its column, or ``~`` the opposite."""
        rows = [f"r{n}" for n in range(_bits(self.rows))]
        columns = [f"c{n}" for n in range(_bits(self.columns))]
        halves = [f"~{rows.pop(self.half)}"] if self.layout.pairs else []
        inner = _bits(self.width)
        return [*halves, *columns[:inner], *rows, *columns[inner:]]

    @property
    def run(self) -> int:
        """Elements that lie one behind the other."""
        return self.width * (self.rows if self.width == self.layout.width else 1)

    def steps(self, index: int) -> tuple[int, int]:
        """The steps of the operand, and the elements behind these, to an element of the tile."""
        if not self.layout.width:
            return divmod(index, self.columns)
        block, rest = divmod(index, self.width * self.rows)
        return block, rest // self.width * self.layout.width + rest % self.width

    def further(self, b: Builder, origin: Matrix, rows: Value | int, columns: int = 0) -> Matrix:
        """``origin`` moved by ``rows``, and by ``columns``, which are whole blocks or stay in one."""
        width, count = self.layout.width, i64(rows) if isinstance(rows, int) else rows
        blocks, rest = divmod(columns, width) if width else (0, columns)
        offset = b.add(b.mul(i64(blocks), origin.stride), i64(rest))
        offset = b.add(offset, b.mul(count, i64(width) if width else origin.stride))
        return replace(origin, pointer=b.gep(origin.pointer, [offset], source_etype=origin.element))


def _bits(count: int) -> int:
    return count.bit_length() - 1


def add_conversion(module: ir.Module, conversion: Conversion, half: int = VNNI) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void NAME(void *target, i64 ldt, const void *source, i64 lds, i64 first, i64 last, i64 columns, i64 depth,
                  i64 ahead)

    Rows ``first`` to ``last`` - 1 and the first ``columns`` of an operand of ``depth`` rows go to the layout of the
    target, its pairs in the order ``half``. ``ldt`` and ``lds`` count elements from row to row of dense rows, and from
    block to block of others. Of pairs, ``depth`` is whole groups, and ``first`` and ``last`` are multiples of 16: a
    half of a word may be written without the other one, which keeps its contents. The elements ``ahead`` of the source,
    which need not exist, are fetched meanwhile.
    """
    function = ir.Function(module, ir.FunctionType(VOID, _ARGUMENTS), conversion.name)
    _Copy(conversion, half, function).emit()
    return function


Places = tuple[Matrix, Matrix]
"""A place in the target, and the one in the source: pointers with the steps of the operand."""


class _Copy:
    """The body of a copy."""

    def __init__(self, conversion: Conversion, half: int, function: ir.Function) -> None:
        target, ldt, source, lds, self.first, self.last, self.columns, self.depth, self.ahead = function.args
        self.b: Builder = ir.IRBuilder(function.append_basic_block())
        self.conversion = conversion
        self.layouts, self.half = (conversion.target, conversion.source), half
        element = I16 if conversion.is_narrow else F32
        self.places = Matrix(target, ldt, I32 if conversion.widens else element), Matrix(source, lds, element)
        self.size = 2 if conversion.is_narrow else 4
        has_halves = conversion.target is PAIR_PANELS and half == BY_CHAIN
        self.guards = [
            Guard(self.b, LINE // self.size) for _ in range(1 + has_halves if conversion.target.pairs else 0)
        ]
        """Of all rows of a tile, or of each half."""

    def emit(self) -> None:
        """Emit the loops over tiles."""
        target, zero = self.conversion.target, i64(0)
        if not target.pairs:
            self._tiles(self.places, self.first, self.last, self.columns)
        elif target is PAIR_PANELS:
            for width, panel in self._over(self.conversion.columns, zero, self.columns, self.places):
                self._panel(panel, width)
        else:
            for width, block in self._over((GROUP, CHAIN), zero, self.columns, self.places):
                self.guards[0].clear()
                self._tiles(block, zero, self.depth, i64(width))
                for column in range(0, width, CHAIN):
                    self._store_guards(self._further(block, 0, column), zero, (0,))
        self.b.ret_void()

    def _tiles(self, places: Places, first: Value, last: Value, columns: Value) -> None:
        """All tiles of a range of rows, in the inner loop along the lines of the source."""
        each = self.conversion
        axes = (each.columns, i64(0), columns), (each.rows, first, last)
        outer, inner = axes if each.source.width else axes[::-1]
        for size, line in self._over(*outer, places, by_rows=outer is axes[1]):
            for other, tile in self._over(*inner, line, by_rows=inner is axes[1]):
                width, height = (size, other) if each.source.width else (other, size)
                self._tile(tile, height, width)

    def _over(
        self, sizes: Sequence[int], first: Value, last: Value, places: Places, by_rows: bool = False
    ) -> Iterator[tuple[int, Places]]:
        """Emit loops over an axis in steps of each of ``sizes``: each takes what the sizes before have left.

        Each round has its number of rows or columns, and the places where they begin.
        """
        b, here = self.b, Variable(self.b)
        here.set(first)
        pointers = [Variable(b, POINTER) for _ in places]

        def move(to: Places) -> None:
            for pointer, place in zip(pointers, to, strict=True):
                pointer.set(place.pointer)

        move(self._further(places, first) if by_rows else places)
        for size in sizes:
            with steps(b, last, size, here):
                target, source = (replace(place, pointer=at.get()) for at, place in zip(pointers, places, strict=True))
                yield size, (target, source)
                move(self._further((target, source), size if by_rows else 0, 0 if by_rows else size))

    def _further(self, places: Places, rows: Value | int, columns: int = 0) -> Places:
        """``places`` moved by ``rows`` and ``columns``."""
        target, source = (
            _Map(layout, 1, 1, 0).further(self.b, place, rows, columns)
            for layout, place in zip(self.layouts, places, strict=True)
        )
        return target, source

    def _panel(self, panel: Places, width: int) -> None:
        """A range of rows of a panel, which may begin and end with a half of words."""
        b, row = self.b, Variable(self.b)
        if self.half == VNNI:
            with steps(b, b.sub(self.last, self.first), CHAIN) as here:
                self._rows(panel, b.add(self.first, here), CHAIN, width)
            return
        with b.if_then(b.icmp_signed("!=", b.and_(self.first, i64(CHAIN)), i64(0))):
            self._rows(panel, b.sub(self.first, i64(CHAIN)), GROUP, width, (1,))
        row.set(b.and_(b.add(self.first, i64(CHAIN)), i64(-GROUP)))
        with steps(b, self.last, GROUP, row) as here:
            self._rows(panel, here, GROUP, width, (0, 1))
        with b.if_then(b.icmp_signed("!=", b.and_(self.last, i64(CHAIN)), i64(0))):
            self._rows(panel, b.sub(self.last, i64(CHAIN)), GROUP, width, (0,))

    def _rows(self, panel: Places, row: Value, count: int, width: int, halves: tuple[int, ...] = (0,)) -> None:
        """Rows of a panel, or of a group those in some ``halves`` of words, with their guards."""
        for guard in self.guards:
            guard.clear()
        self._tile(self._further(panel, row), count, width, halves)
        self._store_guards(panel, self.b.udiv(row, i64(CHAIN)), halves)

    def _store_guards(self, block: Places, number: Value, halves: tuple[int, ...]) -> None:
        """Store guards behind the elements of a block, from the guard of ``number`` on."""
        b, target = self.b, block[0]
        start = b.add(b.mul(self.depth, i64(self.conversion.target.width)), number)
        for half in halves:
            b.store(self.guards[half].get(), target.at(b, i64(0), b.add(start, i64(half))), align=2)

    def _tile(self, places: Places, rows: int, columns: int, halves: tuple[int, ...] = (0,)) -> None:
        """A tile that begins at ``places``; of a group in a panel, the rows in some ``halves`` of words alone.

        Bits that are in the number of a vector both before and after the copy are counted by a loop.
        """
        b, lanes = self.b, min(LINE // self.size, rows * columns)
        maps = [_Map(layout, rows, columns, self.half) for layout in self.layouts]
        orders = [each.bits for each in maps]
        apart = [bit for bit in orders[0][_bits(lanes) :] if bit in orders[1][_bits(lanes) :]]
        with steps(b, i64(1 << len(apart)), 1) as round_:
            here = [
                self._round(each, order.index(apart[0]), place, round_) if apart else place
                for each, order, place in zip(maps, orders, places, strict=True)
            ]
            kept = [[bit for bit in order if bit not in apart] for order in orders]
            numbers = [
                [n for n in range(0, rows * columns, lanes) if not any(n >> order.index(bit) & 1 for bit in apart)]
                for order in orders
            ]
            vectors = self._load(maps[1], here[1], numbers[1], lanes, halves)
            mask = [lane % 2 != halves[0] for lane in range(lanes)] if len(halves) < len(self.guards) else None
            vectors = rearranged(b, vectors, kept[1], kept[0])
            self._store(maps[0], here[0], dict(zip(numbers[0], vectors, strict=True)), mask)

    def _round(self, each: _Map, bit: int, place: Matrix, number: Value) -> Matrix:
        """The part of a tile that has this ``number`` in the bits from ``bit`` on."""
        b, (step, offset) = self.b, each.steps(1 << bit)
        size = b.add(b.mul(place.stride, i64(step)), i64(offset))
        return replace(place, pointer=b.gep(place.pointer, [b.mul(size, number)], source_etype=place.element))

    def _load(self, each: _Map, tile: Matrix, numbers: list[int], lanes: int, halves: tuple[int, ...]) -> list[Value]:
        """The vectors of elements from each of ``numbers`` on; if there is one of the ``halves`` only, twice that."""
        b, run = self.b, min(each.run, lanes)
        lines = _Lines(b, tile)
        vectors: list[Value] = []
        for place, number in enumerate(numbers):
            if len(halves) < len(self.guards) and place not in halves:
                continue
            parts: list[Value] = []
            for start in range(number, number + lanes, run):
                pointer = lines.at(*each.steps(start))
                if self.conversion.fetched:
                    ahead = b.gep(pointer, [self.ahead], source_etype=tile.element)
                    prefetch(b, ahead, self.conversion.fetched)
                parts.append(b.load(pointer, typ=ir.VectorType(tile.element, run), align=self.size))
            while len(parts) > 1:
                both = range(2 * parts[0].type.count)
                parts = [shuffled(b, *pair, both) for pair in zip(parts[::2], parts[1::2], strict=True)]
            if self.guards:
                self.guards[place % len(self.guards)].add(parts[0])
            vectors += parts
        return vectors * (len(numbers) // len(vectors))

    def _store(self, each: _Map, tile: Matrix, vectors: dict[int, Value], mask: list[bool] | None) -> None:
        """Store vectors, each from an element on, or of them the lanes in ``mask``."""
        b, lines = self.b, _Lines(self.b, tile)
        for number, vector in vectors.items():
            lanes = vector.type.count
            run = min(each.run, lanes)
            for first in range(0, lanes, run):
                part = vector if run == lanes else shuffled(b, vector, vector, range(first, first + run))
                pointer = lines.at(*each.steps(number + first))
                if mask is not None:
                    _masked_store(b, part, pointer, mask)
                elif self.conversion.widens:
                    words = ir.VectorType(I32, run)
                    b.store(b.shl(b.zext(part, words), constant(words, 16)), pointer, align=4)
                else:
                    b.store(part, pointer, align=self.size)


class _Lines:
    """The places in a tile, in memory: in a loop LLVM would keep a pointer for each.

    It sees one in :data:`_NEAR` lines; the processor adds the steps from there.
    """

    def __init__(self, b: Builder, tile: Matrix) -> None:
        self._b, self._tile, self._known = b, tile, {0: tile.pointer}

    def at(self, line: int, offset: int) -> Value:
        """The address of the element ``offset`` elements behind the start of a line."""
        b, near = self._b, line // _NEAR * _NEAR
        for known in range(_NEAR, near + 1, _NEAR):
            if known not in self._known:
                before = replace(self._tile, pointer=self._known[known - _NEAR])
                self._known[known] = _opaque(b, before.at(b, i64(_NEAR), i64(0)))
        return replace(self._tile, pointer=self._known[near]).at(b, i64(line - near), i64(offset))


def _opaque(b: Builder, pointer: Value) -> Value:
    """``pointer``, about which LLVM knows nothing."""
    return b.asm(ir.FunctionType(POINTER, [POINTER]), "", "=r,0", [pointer], False)


def rearranged(b: Builder, vectors: list[Value], bits: list[str], wanted: list[str]) -> list[Value]:
    """The elements of ``vectors`` in another order.

    Both orders name the bits of an element's index, lowest first: the bits of its lane, then those of the number of its
    vector; ``~`` is the opposite of a bit. A bit of the lane changes places with one of the number by one shuffle for
    each vector; each of these brings all bits that remain to their places.
    """
    count = vectors[0].type.count
    depth = _bits(count)
    opposite = sum(1 << place for place, bit in enumerate(bits) if bit not in wanted)
    bits = [next(name for name in wanted if name.strip("~") == bit.strip("~")) for bit in bits]
    vectors = [vectors[number ^ opposite >> depth] for number in range(len(vectors))]
    lanes, numbers, opposite = bits[:depth], bits[depth:], opposite % count
    entering = [bit for bit in wanted[:depth] if bit in numbers]
    leaving = [bit for bit in lanes if bit in wanted[depth:]]
    for enters, leaves in zip(entering, leaving, strict=True):
        staying = iter([bit for bit in lanes if bit not in wanted[:depth] and bit != leaves])
        after = [bit if bit in lanes or bit == enters else next(staying) for bit in wanted[:depth]]
        order = [_moved(lane, [*after, leaves], [*lanes, enters]) ^ opposite for lane in range(2 * count)]
        here = 1 << numbers.index(enters)
        for low in (number for number in range(len(vectors)) if not number & here):
            pair = vectors[low], vectors[low | here]
            vectors[low], vectors[low | here] = (shuffled(b, *pair, half) for half in (order[:count], order[count:]))
        lanes, numbers, opposite = after, [leaves if bit == enters else bit for bit in numbers], 0
    if lanes != wanted[:depth] or opposite:
        order = [_moved(lane, wanted[:depth], lanes) ^ opposite for lane in range(count)]
        vectors = [shuffled(b, vector, vector, order) for vector in vectors]
    return [vectors[_moved(number, wanted[depth:], numbers)] for number in range(len(vectors))]


def _moved(index: int, bits: list[str], to: list[str]) -> int:
    """``index``, which has these ``bits``, with its bits in another order."""
    return sum((index >> bits.index(bit) & 1) << place for place, bit in enumerate(to))


def add_least_magnitude(module: ir.Module) -> ir.Function:
    """Add to ``module`` and return this function.

    ::

        void nki_least_magnitude(i16 *result, const i16 *guards, i64 step, i64 blocks, i64 count)

    The least of the ``count`` guards of each of some blocks, ``step`` numbers from one to the next.
    """
    kind = ir.FunctionType(VOID, [POINTER, POINTER, I64, I64, I64])
    function = ir.Function(module, kind, "nki_least_magnitude")
    result, pointer, step, blocks, count = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    guards, least = Matrix(pointer, step, I16), Guard(b, 1)
    with steps(b, blocks, 1) as block, steps(b, count, 1) as number:
        least.add_least(b.load(guards.at(b, block, number), typ=ir.VectorType(I16, 1), align=2))
    b.store(least.get(), result, align=2)
    b.ret_void()
    return function


class Guard:
    """The least magnitude but 0 of all bfloat16 numbers that were added, ``lanes`` at a time, as bits, minus one."""

    def __init__(self, b: Builder, lanes: int) -> None:
        self._b, self._kind = b, ir.VectorType(I16, lanes)
        self._least = Variable(b, self._kind)
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._least.set(constant(self._kind, -1))

    def add(self, numbers: Value) -> None:
        """Add the bits of numbers."""
        b = self._b
        self.add_least(b.sub(b.and_(numbers, constant(self._kind, _MAGNITUDE)), constant(self._kind, 1)))

    def add_least(self, guards: Value) -> None:
        """Add guards of other numbers."""
        least = self._least.get()
        self._least.set(self._b.select(self._b.icmp_unsigned("<", guards, least), guards, least))

    def get(self) -> Value:
        """The guard."""
        name = f"llvm.vector.reduce.umin.v{self._kind.count}i16"
        return call(self._b, name, I16, [self._least.get()])


def _masked_store(b: Builder, value: Value, place: Value, mask: list[bool]) -> None:
    lanes = ir.Constant(ir.VectorType(ir.IntType(1), len(mask)), [int(lane) for lane in mask])
    call(b, f"llvm.masked.store.v{len(mask)}i16.p0", VOID, [value, place, ir.Constant(I32, 2), lanes])
