"""Let products read an input or a constant itself instead of a tile that copies fill part by part.

Weights with more rows than there are partitions are loaded so: a copy for each 128 rows, side by side in one tile.
Native code needs no such tile; a product makes the copy of an operand that it wants, of what it reads and at the time.

All parts must be columns of their own from the first partition on, products must be the only readers, and each must
read within one part that is there by then. What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.types import Access, Buffer, Tensor

_DIMENSIONS: Final = 2


@dataclass(slots=True)
class _Parts:
    """The parts of a tile by their first columns, in order."""

    starts: list[int] = field(default_factory=list[int])
    sources: list[Access] = field(default_factory=list[Access])
    positions: list[int] = field(default_factory=list[int])
    """The positions of the copies."""
    reads: list[tuple[int, int, Access]] = field(default_factory=list[tuple[int, int, Access]])
    """For each operand that reads the tile: position of the product, number of the operand, what it should read."""


def read_parts_in_place(
    body: Sequence[Statement], copies: Mapping[int, Copy], sources: Collection[Tensor]
) -> list[Statement] | None:
    """The statements of ``body`` without such tiles; None if it has none.

    ``copies``: its plain copies, by position; ``sources``: the tensors that no statement changes.
    """
    parts = _tiles_of_parts(copies, sources)
    if not parts:
        return None
    _note_reads(body, parts)
    changed: list[Statement | None] = list(body)
    for tile in parts.values():
        replaced = list(_replaced(changed, tile.reads))
        if replaced and all(inst.has_supported_layout() for _, inst in replaced):
            for position, inst in replaced:
                changed[position] = inst
            for position in tile.positions:
                changed[position] = None
    return [statement for statement in changed if statement is not None]


def _row(tile: Tensor) -> int:
    """Elements from row to row."""
    return tile.elements // tile.shape[0]


def _tiles_of_parts(copies: Mapping[int, Copy], sources: Collection[Tensor]) -> dict[Tensor, _Parts]:
    """The tiles that several copies of parts of ``sources`` fill."""
    by_tile: dict[Tensor, list[tuple[int, Access, int]]] = {}
    for position, (own, source) in copies.items():
        tile = own.tensor
        if own.shape == tile.shape:
            continue
        if tile.buffer is Buffer.sbuf and source.tensor in sources and _is_part(own, source):
            by_tile.setdefault(tile, []).append((own.offset, source, position))
    found: dict[Tensor, _Parts] = {}
    for tile, filled in by_tile.items():
        filled.sort(key=lambda part: part[0])
        ends = [start + source.shape[1] for start, source, _ in filled]
        following = [*(start for start, _, _ in filled[1:]), _row(tile)]
        if len(filled) > 1 and all(end <= start for end, start in zip(ends, following, strict=True)):
            starts, accesses, positions = map(list, zip(*filled, strict=True))
            found[tile] = _Parts(starts, accesses, positions)
    return found


def _is_part(own: Access, source: Access) -> bool:
    tile = own.tensor
    if not (own.dtype is tile.dtype is source.dtype is source.tensor.dtype) or tile.dtype.is_packed:
        return False
    if not len(own.shape) == len(source.shape) == _DIMENSIONS or own.shape != source.shape:
        return False
    return own.strides == (_row(tile), 1) and source.strides[1] == 1 and own.offset < _row(tile)


def _note_reads(body: Sequence[Statement], parts: dict[Tensor, _Parts]) -> None:
    """Note who reads ``parts``; leave out those of which something else is made."""
    for position, inst in enumerate(body):
        if not isinstance(inst, Inst):
            for access in touched(inst):
                parts.pop(access.tensor, None)
            continue
        accumulation = inst.effects.accumulation
        is_product = accumulation is not None and not accumulation.moves(inst)
        for number, (access, reads, writes) in enumerate(inst.uses()):
            if access.dynamic is not None:
                parts.pop(access.dynamic.source.tensor, None)
            tile = parts.get(access.tensor)
            if tile is None or (writes and not reads and position in tile.positions):
                continue
            own = _in_source(access, tile, position) if is_product and not writes else None
            if own is None:
                del parts[access.tensor]
            else:
                tile.reads.append((position, number, own))


def _in_source(access: Access, tile: _Parts, position: int) -> Access | None:
    """The part of a copied tensor that ``access`` at ``position`` reads; None: it is not in one part."""
    width = _row(access.tensor)
    if len(access.shape) != _DIMENSIONS or access.strides != (width, 1) or access.dtype is not access.tensor.dtype:
        return None
    row, column = divmod(access.offset, width)
    number = bisect_right(tile.starts, column) - 1
    if access.dynamic is not None or number < 0 or tile.positions[number] > position:
        return None
    source, column = tile.sources[number], column - tile.starts[number]
    if row + access.shape[0] > source.shape[0] or column + access.shape[1] > source.shape[1]:
        return None
    offset = source.offset + row * source.strides[0] + column
    return Access(source.tensor, offset, access.shape, source.strides, access.dtype)


def _replaced(body: Sequence[Statement | None], reads: Sequence[tuple[int, int, Access]]) -> Iterator[tuple[int, Inst]]:
    """The products with other operands, and their positions."""
    changes: dict[int, dict[int, Access]] = {}
    for position, number, access in reads:
        changes.setdefault(position, {})[number] = access
    for position, operands in changes.items():
        inst = body[position]
        assert isinstance(inst, Inst)
        yield position, inst.with_operands(operands)
