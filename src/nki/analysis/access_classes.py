"""Alias classes of every access of a core: two accesses share a byte if, and only if, they have a common class.

Each tensor without an address has classes of its own (:mod:`nki.analysis.alias_classes`). So has each placed tile,
although it shares bytes with tiles before and after it: :mod:`nki.analysis.address_reuse` finds, for each class, the
classes of earlier tiles in its bytes. So the number of classes depends on the accesses of each tile, not on where the
allocator puts tiles. Where accesses to two tiles with common bytes alternate, all tiles that overlap share one set of
classes instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import AccessPattern, AxisPattern, Box, conservative_pattern
from nki.analysis.address_reuse import PlacedTile, TileLayout, reused_addresses, tile_layout
from nki.analysis.alias_classes import alias_classes, boxes_of
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Tensor, TileAddress

LARGE_CLASS_COUNT = 12
"""Alias classes of an access, on the average of a memory's accesses, from which arrays are faster than Python ints."""
LARGE_TILE_CLASS_COUNT = 24
"""The same for a placed tile, where arrays have a price: all tiles of the memory then have common classes."""
LEAST_RANGE = 8
"""Alias classes at equal distances from which slices of lists are faster than their members one by one."""
Classes = tuple[int, ...] | range
ClassIndex = NDArray[np.int64] | slice
Uses = dict[Access, bool]
"""The accesses to a tensor in the order in which instructions come to them, each with True if it is written."""
_Tile = tuple[Tensor, TileAddress, Uses]
_Layout = tuple[TileLayout, list[Classes], bool]
"""The layout of a tile, the classes of each access, and if one has so many that arrays may be faster."""
NO_CLASSES: Classes = ()
"""The classes of an access that has no entry in :attr:`AccessClasses.small`."""


class AccessClasses:
    """The alias classes of the accesses of ``core``, with its tiles at their addresses.

    Accesses that a run-time index moves count as their whole tensor. Class 0 is the world outside: printing, and other
    cores.
    """

    def __init__(self, core: CoreProgram) -> None:
        self.count = 1
        """Number of classes, without large memories."""
        self.small: dict[Access, Classes] = {}
        """The classes of each access, without those in large memories. An access without any has no entry: it is to a
        tensor that is never written, or in a large memory."""
        self.large: dict[Access, tuple[int, ClassIndex]] = {}
        """The large memory of an access, and its classes there, which are numbered from 0."""
        self.large_sizes: list[int] = []
        """Number of classes of each large memory: one in which an access has many classes."""
        self.previous_classes: dict[int, tuple[int, ...]] = {}
        """The classes of earlier tiles that have bytes of a class. Their last accesses come before its first one. Until
        the class is written, its accesses depend on them."""
        self.previous_class: list[int] = []
        """For each class, the only class of earlier tiles that has its bytes, or -1. Such a class is not in
        ``previous_classes``. Either no class of a tile has one, or all have, side by side.
        """
        self.has_runtime_index = False
        _Numbering(core, self)

    def earlier(self, alias_class: int) -> tuple[int, ...]:
        """The classes of earlier tiles that have bytes of a class."""
        previous = self.previous_class[alias_class]
        return (previous,) if previous >= 0 else self.previous_classes.get(alias_class, ())

    def reads(self, inst: Inst) -> list[Access]:
        """The accesses that ``inst`` reads, those that hold its run-time indices included."""
        reads = inst.read_operands()
        return [*reads, *inst.indexed_by()] if self.has_runtime_index else reads


class _Numbering:
    """Finds the classes of all accesses of a core."""

    def __init__(self, core: CoreProgram, classes: AccessClasses) -> None:
        self.core = core
        self.classes = classes
        self.addresses: Mapping[Tensor, TileAddress] = core.placement
        self.tensors: dict[Tensor, Uses] = {}
        """The accesses to each tensor, which come in the order of their first ones."""
        self.first: list[int] = []
        """The first instruction that has each tensor, in that order."""
        self.last: dict[Tensor, int] = {}
        """The last instruction that has each tensor."""
        self.patterns: dict[object, tuple[TileLayout, dict[AccessPattern, Classes]]] = {}
        """The layout of a tile and the classes of each pattern, by its windows, whatever their order: for an access its
        place in the tile, its form, and whether anything writes it.
        """
        self.layouts: dict[object, _Layout] = {}
        """The same with the classes of each access, by the windows in the order of the accesses."""
        self.runs: list[tuple[int, int, int]] = []
        """:attr:`AddressReuse.runs` of all memories."""
        self.classes_of: dict[object, tuple[int, list[NDArray[np.int64]]]] = {}
        forms = {inst.form for inst in core.numbered}
        classes.has_runtime_index = any(form.has_runtime_index for form in forms)
        self._collect()
        self._number()

    def _collect(self) -> None:
        """Find all accesses, those that are written, and the first and last instruction of each tensor."""
        tensors, first, last = self.tensors, self.first, self.last
        classes, with_indices = self.classes, self.classes.has_runtime_index
        for number, inst in enumerate(self.core.numbered):
            for access in classes.reads(inst) if with_indices else inst.read_operands():
                tensor = access.tensor
                uses = tensors.get(tensor)
                if uses is None:
                    tensors[tensor] = {access: False}
                    first.append(number)
                elif access not in uses:
                    uses[access] = False
                last[tensor] = number
            for access in inst.changes():
                tensor = access.tensor
                uses = tensors.get(tensor)
                if uses is None:
                    tensors[tensor] = {access: True}
                    first.append(number)
                else:
                    uses[access] = True
                last[tensor] = number

    def _number(self) -> None:
        addresses, classes = self.addresses, self.classes
        placed: dict[str, list[_Tile]] = {}
        spans: dict[str, list[tuple[int, int]]] = {}
        last = self.last
        for (tensor, uses), first in zip(self.tensors.items(), self.first, strict=True):
            buffer = tensor.buffer
            address = (addresses.get(tensor) or tensor.address) if buffer.on_chip else None
            if address is not None:
                word = buffer.word
                tiles = placed.get(word)
                if tiles is None:
                    tiles = placed[word] = []
                    spans[word] = []
                tiles.append((tensor, address, uses))
                spans[word].append((first, last[tensor]))
            elif True in uses.values():  # else its readers depend on no writer
                if len({conservative_pattern(access) for access in uses}) == 1:  # as of most tiles
                    classes.small.update(dict.fromkeys(uses, (classes.count,)))
                    classes.count += 1
                    continue
                accesses = list(uses)
                self._memory(accesses, *self._alone(tensor, accesses))
        for word, tiles in placed.items():
            if not self._in_succession(tiles, spans[word]):
                self._overlapping(tiles)
        previous_class = classes.previous_class = [-1] * classes.count
        for first, count, earlier in self.runs:
            previous_class[first : first + count] = range(earlier, earlier + count)

    def _in_succession(self, placed: Sequence[_Tile], spans: Iterable[tuple[int, int]]) -> bool:
        """Give each tile of a memory classes of its own; False, and no classes, where that does not tell overlaps.

        ``spans``: the first and the last instruction that has each tile.
        """
        classes = self.classes
        tiles: list[PlacedTile] = []
        small: dict[Access, Classes] = {}
        count = classes.count
        for (tensor, (partition, byte), uses), (first, last) in zip(placed, spans, strict=True):
            layout = self._layout(tensor, uses, small, count)
            if layout is None:
                return False
            (top, bottom), (left, right) = layout.rows, layout.columns
            tiles.append((layout, partition + top, partition + bottom, byte + left, byte + right, count, first, last))
            count += layout.count
        reuse = reused_addresses(tiles)
        if reuse is None:
            return False
        classes.count = count
        classes.small.update(small)
        classes.previous_classes.update(reuse.by_class)
        self.runs += reuse.runs
        return True

    def _layout(self, tensor: Tensor, uses: Uses, small: dict[Access, Classes], first: int) -> TileLayout | None:
        """The layout of a tile; its classes, from ``first`` on, are entered. None if they are none or too many."""
        length, whole = tensor.bytes_per_partition, tensor.nbytes
        # All of a tile for an access with a run-time index; no window starts behind it.
        windows = [(a.offset, a.form, w) if a.dynamic is None else (whole, None, w) for a, w in uses.items()]
        key = length, *windows
        known = self.layouts.get(key)
        if known is None:
            same = length, frozenset(windows)
            patterns = self.patterns.get(same)
            if patterns is None:
                patterns = self.patterns[same] = self._new_layout(tensor, uses)
            known = self.layouts[key] = self._in_order(patterns, uses)
        layout, own, is_large = known
        if not own:
            return None
        if layout.count == 1:
            classes = (first,)
            for access in uses:
                small[access] = classes
            return layout
        if is_large:
            counts = [_weight(one) for one in own]
            if self._prefers_arrays(uses, counts, LARGE_TILE_CLASS_COUNT):
                return None
        shifted = [(first + one[0],) if len(one) == 1 else _shifted(one, first) for one in own]
        small.update(zip(uses, shifted, strict=True))
        return layout

    def _new_layout(self, tensor: Tensor, uses: Uses) -> tuple[TileLayout, dict[AccessPattern, Classes]]:
        """The layout of a tile with these accesses, and the classes of each pattern."""
        patterns: dict[AccessPattern, bool] = {}
        for access, written in uses.items():
            pattern = conservative_pattern(access)
            patterns[pattern] = patterns.get(pattern, False) or written
        layout = tile_layout(tensor, patterns)
        return layout, {pattern: _run(classes) for pattern, classes in layout.classes.items()}

    def _in_order(self, known: tuple[TileLayout, dict[AccessPattern, Classes]], uses: Uses) -> _Layout:
        """A layout with the classes of each access to a tile."""
        layout, classes = known
        own = [classes[conservative_pattern(access)] for access in uses] if classes else []
        return layout, own, any(_weight(one) > LARGE_TILE_CLASS_COUNT for one in own)

    def _alone(self, tensor: Tensor, accesses: Sequence[Access]) -> tuple[int, list[NDArray[np.int64]]]:
        """Class count and classes of each access to a tensor that shares no memory; one result for equal tensors."""
        patterns: dict[AccessPattern, int] = {}
        numbers = [patterns.setdefault(conservative_pattern(access), len(patterns)) for access in accesses]
        key = (tensor.shape, tensor.dtype.itemsize, tensor.buffer.on_chip, *patterns)
        known = self.classes_of.get(key)
        if known is None:
            known = self.classes_of[key] = alias_classes(boxes_of(tensor, list(patterns)))
        count, members = known
        return count, [members[number] for number in numbers]

    def _overlapping(self, placed: Iterable[_Tile]) -> None:
        """Give the tiles of a memory that overlap, directly or through others, common classes."""
        groups: list[list[_Tile]] = []
        end = -1
        for tile in sorted(placed, key=_first_byte):
            tensor, (_, byte), _ = tile
            if byte >= end:
                groups.append([])
            groups[-1].append(tile)
            end = max(end, byte + tensor.bytes_per_partition)
        for group in groups:
            if not any(True in uses.values() for _, _, uses in group):
                continue
            accesses = [access for _, _, uses in group for access in uses]
            at: dict[tuple[int, TileAddress], tuple[Tensor, dict[AccessPattern, int]]] = {}
            numbers: list[int] = []
            count = 0
            for tensor, address, uses in group:
                _, patterns = at.setdefault((tensor.bytes_per_partition, address), (tensor, {}))
                for access in uses:
                    number = patterns.setdefault(conservative_pattern(access), count)
                    count += number == count
                    numbers.append(number)
            boxes: dict[int, Box] = {}
            for (_, address), (tensor, patterns) in at.items():
                moved = _moved_boxes(boxes_of(tensor, list(patterns)), address)
                boxes.update(zip(patterns.values(), moved, strict=True))
            count, members = alias_classes([boxes[number] for number in range(count)])
            self._memory(accesses, count, [members[number] for number in numbers])

    def _memory(self, accesses: Sequence[Access], count: int, members: Sequence[NDArray[np.int64]]) -> None:
        """Give each access its classes, ``members``, out of the ``count`` new classes of one memory."""
        classes = self.classes
        if count >= LARGE_CLASS_COUNT and self._prefers_arrays(accesses, list(map(len, members)), LARGE_CLASS_COUNT):
            memory = len(classes.large_sizes)
            classes.large_sizes.append(count)
            compact = {id(own): _compact(own) for own in members}
            for access, own in zip(accesses, members, strict=True):
                classes.large[access] = (memory, compact[id(own)])
            return
        first = classes.count
        for access, own in zip(accesses, members, strict=True):
            classes.small[access] = (first + int(own[0]),) if len(own) == 1 else tuple((own + first).tolist())
        classes.count += count

    def _prefers_arrays(self, accesses: Iterable[Access], counts: Sequence[int], least: int) -> bool:
        """True if accesses of that many classes have more than ``least`` on the average of their uses."""
        if max(counts) <= least:
            return False
        uses = self.uses
        return sum(uses[access] * (count - least) for access, count in zip(accesses, counts, strict=True)) > 0

    @cached_property
    def uses(self) -> Counter[Access]:
        """The number of instructions that read, and that write, each access; counted on demand."""
        reads = self.classes.reads
        return Counter(chain.from_iterable(chain(reads(inst), inst.changes()) for inst in self.core.numbered))


def _run(classes: tuple[int, ...]) -> Classes:
    """The classes as a range, which takes less time than a tuple, where they are many at equal distances."""
    if len(classes) < LEAST_RANGE:
        return classes
    run = range(classes[0], classes[-1] + 1, classes[1] - classes[0])
    return run if len(run) == len(classes) and tuple(run) == classes else classes


def _shifted(classes: Classes, first: int) -> Classes:
    """The classes of a layout for a tile with ``first`` as its first class."""
    if isinstance(classes, range):
        return range(first + classes.start, first + classes.stop, classes.step)
    return tuple([first + each for each in classes])


def _weight(classes: Classes) -> int:
    """The classes of a tuple that take as long as these."""
    return len(classes) if isinstance(classes, tuple) else LEAST_RANGE + len(classes) // 8


def _compact(classes: NDArray[np.int64]) -> ClassIndex:
    """The classes as a slice, which is faster, where the classes are neighbours."""
    first, last = int(classes[0]), int(classes[-1])
    if last - first + 1 == len(classes) and bool((np.diff(classes) == 1).all()):
        return slice(first, last + 1)
    return classes


def _moved_boxes(boxes: Iterable[Box], address: TileAddress) -> list[Box]:
    """The boxes of a tile, moved to its address."""
    down, right = address
    return [(AxisPattern(r[0] + down, r[1], r[2]), AxisPattern(c[0] + right, c[1], c[2])) for r, c in boxes]


def _first_byte(tile: _Tile) -> int:
    return tile[1][1]
