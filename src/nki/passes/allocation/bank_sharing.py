"""Shared banks: small tiles of PSUM that are live together become parts of one tile.

A tile of PSUM takes whole banks, and there are eight. A kernel may hold more sums at a time, each of a few
columns: they find room within the banks. A sum depends on the bytes that it covers alone, so several fit side by side
into one bank, and none of them leaves it. Matmuls and other engines then slow each other down, which is why only
kernels that do not fit otherwise share banks.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from nki.analysis.liveness import LiveRange, live_ranges
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, declared, loops
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor
from nki.passes.renaming import in_place_of
from nki.target.memory_spaces import MemorySpace, memory_spaces
from nki.target.model import Target

_ALIGN: Final = 4
"""Parts begin at multiples of so many bytes (``nl.tile_size.psum_min_align``)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The bytes of ``bank``, from ``start`` on, that a tile becomes."""

    bank: Tensor
    start: int


@dataclass(slots=True, eq=False, repr=False)
class _Member:
    """A tile, and the byte of a bank at which it begins."""

    live: LiveRange
    start: int = 0


def with_shared_banks(core: CoreProgram, target: Target) -> CoreProgram | None:
    """``core`` with small tiles of PSUM joined that are live where more banks are in use than there are; None: there
    are none.
    """
    space = memory_spaces(target)[1]
    result: CoreProgram | None = None
    banks: set[Tensor] = set()
    while parts := _parts(core, live_ranges(core, target)[Buffer.psum], banks, space):
        result = core = _joined(core, parts)
        banks.update(part.bank for part in parts.values())
    return result


def _parts(
    core: CoreProgram, ranges: Sequence[LiveRange], banks: AbstractSet[Tensor], space: MemorySpace
) -> dict[Tensor, _Part]:
    """The parts of banks that tiles become; ``banks`` are the ones that were made before."""
    full = _full_points(ranges, space.usable)
    if not full:
        return {}
    fixed = {*_moved_otherwise(core), *core.placement, *banks}
    small = [
        live
        for live in ranges
        if bisect_left(full, live.first) < bisect_right(full, live.last)
        and live.tensor.address is None
        and live.tensor not in fixed
        and _size(live.tensor) < space.align
    ]
    parts: dict[Tensor, _Part] = {}
    names = {tensor.name for tensor in core.tensors}
    for group in _groups(small, space.align):
        bank = _bank(names, group)
        parts.update((member.live.tensor, _Part(bank, member.start)) for member in group)
    return parts


def _full_points(ranges: Iterable[LiveRange], usable: int) -> list[int]:
    """The points, in order, at which a live range begins and more than ``usable`` bytes are live."""
    result: list[int] = []
    ends: list[tuple[int, int]] = []
    used = 0
    for live in ranges:
        while ends and ends[0][0] < live.first:
            used -= heapq.heappop(ends)[1]
        heapq.heappush(ends, (live.last, live.size))
        used += live.size
        if used > usable:
            result.append(live.first)
    return result


def _size(tile: Tensor) -> int:
    return tile.bytes_per_partition + -tile.bytes_per_partition % _ALIGN


def _moved_otherwise(core: CoreProgram) -> Iterator[Tensor]:
    """Tensors with an access that is no window of columns, or that a run-time index moves."""
    for inst in core.instructions():
        for access in (*inst.accesses(), *inst.indexed_by()):
            if access.buffer is Buffer.psum and (access.dynamic is not None or access.strides[0] % _pitch(access)):
                yield access.tensor


def _pitch(access: Access) -> int:
    """Elements from one partition to the next."""
    return access.tensor.bytes_per_partition // access.dtype.itemsize


def _groups(ranges: Iterable[LiveRange], bank_bytes: int) -> Iterator[list[_Member]]:
    """Groups of two tiles or more that find room in one bank, large tiles first.

    Tiles that follow each other may have the same bytes. A bank that is empty for a time is two groups.
    """
    banks: list[list[_Member]] = []
    for live in sorted(ranges, key=lambda live: (-live.tensor.bytes_per_partition, live.first)):
        member = _Member(live)
        for bank in banks:
            beside = [m for m in bank if m.live.first <= live.last and live.first <= m.live.last]
            for other in sorted(beside, key=lambda other: other.start):
                if other.start < member.start + _size(live.tensor):
                    member.start = max(member.start, other.start + _size(other.live.tensor))
            if member.start + _size(live.tensor) <= bank_bytes:
                bank.append(member)
                break
            member.start = 0
        else:
            banks.append([member])
    for bank in banks:
        group: list[_Member] = []
        last = -1
        for member in sorted(bank, key=lambda member: member.live.first):
            if member.live.first > last and group:
                yield group
                group = []
            group.append(member)
            last = max(last, member.live.last)
        yield group


def _bank(names: set[str], group: Sequence[_Member]) -> Tensor:
    """The tile that ``group`` becomes, of the widest elements in it."""
    tiles = [member.live.tensor for member in group]
    first = tiles[0]
    dtype = max((tile.dtype for tile in tiles), key=lambda dtype: dtype.itemsize)
    name, number = f"{first.name}.bank", 1
    while name in names:
        number += 1
        name = f"{first.name}.bank{number}"
    names.add(name)
    end = max(member.start + _size(member.live.tensor) for member in group)
    bank = Tensor(name, (max(tile.shape[0] for tile in tiles), end // dtype.itemsize), dtype, Buffer.psum)
    bank.span, bank.site = first.span, first.site
    return bank


def _joined(core: CoreProgram, parts: Mapping[Tensor, _Part]) -> CoreProgram:
    """``core`` with each tile of ``parts`` replaced by its bytes of a bank.

    A loop makes the banks of its own tiles; those that have others, too, are made outside.
    """
    maker = {tensor: number for number, loop in enumerate(loops(core.body)) for tensor in loop.tensors}
    makers: dict[Tensor, set[int | None]] = {}
    for tensor, part in parts.items():
        makers.setdefault(part.bank, set()).add(maker.get(tensor))
    outside = {bank for bank, of_bank in makers.items() if None in of_bank or len(of_bank) > 1}
    body = _in_banks(core.body, parts, outside)
    outer = [tensor for tensor in core.tensors if tensor not in maker and tensor not in parts]
    banks = (bank for bank in makers if bank in outside)
    return replace(core, body=body, tensors=(*outer, *banks, *declared(body)))


def _in_banks(
    body: Iterable[Statement], parts: Mapping[Tensor, _Part], outside: AbstractSet[Tensor]
) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Inst):
            changes = {n: _within(a, parts[a.tensor]) for n, a in enumerate(statement.accesses()) if a.tensor in parts}
            result.append(in_place_of(statement, statement.with_operands(changes)) if changes else statement)
            continue
        own = dict.fromkeys(parts[tensor].bank if tensor in parts else tensor for tensor in statement.tensors)
        tensors = tuple(tensor for tensor in own if tensor not in outside)
        result.append(replace(statement, body=_in_banks(statement.body, parts, outside), tensors=tensors))
    return tuple(result)


def _within(access: Access, part: _Part) -> Access:
    """``access`` of a tile as one of the bytes that the tile became."""
    size, old = access.dtype.itemsize, _pitch(access)
    new = part.bank.bytes_per_partition // size
    row, column = divmod(access.offset, old)
    strides = (access.strides[0] // old * new, *access.strides[1:])
    return Access(part.bank, row * new + part.start // size + column, access.shape, strides, access.dtype)


__all__ = ["with_shared_banks"]
