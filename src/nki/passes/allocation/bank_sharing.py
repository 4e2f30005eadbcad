"""Shared banks: small tiles of PSUM that are live together become parts of one tile.

A tile of PSUM takes whole banks, of which there are eight. A kernel of Beta 1 may hold more sums at a time, each of a
few columns: its compiler found room for them within the banks. A sum depends on the bytes that it covers alone, so
several fit side by side into one bank; matmuls and other engines then slow each other down, which is why only kernels
that do not fit otherwise share banks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nki.analysis.liveness import LiveRange, live_ranges, peak_pressure
from nki.base.dtype import DType
from nki.ir.instruction import Inst
from nki.ir.loop import changed, declared
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Buffer, Tensor
from nki.target.memory_spaces import memory_spaces
from nki.target.model import Target


@dataclass(frozen=True, slots=True)
class _Part:
    """The columns of ``bank``, from ``column`` on, that a tile becomes."""

    bank: Tensor
    column: int


def with_shared_banks(core: CoreProgram, target: Target) -> CoreProgram | None:
    """``core`` with tiles of PSUM that are live at its fullest point joined, as few as possible; None: it is no use.

    Tiles of one height and dtype are joined, in the order in which their live ranges end.
    """
    space = memory_spaces(target)[1]
    ranges = live_ranges(core, target)[Buffer.psum]
    pressure, point = peak_pressure(ranges) if ranges else (0, 0)
    if pressure <= space.usable:
        return None
    fixed = {*_viewed_otherwise(core), *declared(core.body), *core.placement}
    small = [
        live
        for live in ranges
        if live.first <= point <= live.last
        and live.tensor.address is None
        and live.tensor not in fixed
        and 2 * live.tensor.bytes_per_partition <= space.align
    ]
    parts: dict[Tensor, _Part] = {}
    for group in _groups(small, space.align):
        bank = _bank(core, [live.tensor for live in group], len(parts))
        column = 0
        for live in group:
            parts[live.tensor] = _Part(bank, column)
            column += live.tensor.free_size
    return _joined(core, parts) if parts else None


def _viewed_otherwise(core: CoreProgram) -> Iterator[Tensor]:
    """Tensors with an access that is no window of columns: another element size, or a run-time index."""
    for inst in core.instructions():
        for access in (*inst.accesses(), *inst.indexed_by()):
            tensor = access.tensor
            plain = access.dtype.itemsize == tensor.dtype.itemsize and access.dynamic is None
            if tensor.buffer is Buffer.psum and not (plain and access.strides[0] % tensor.free_size == 0):
                yield tensor


def _groups(ranges: Iterable[LiveRange], bank_bytes: int) -> Iterator[list[LiveRange]]:
    """Groups of two tiles or more that fit into one bank."""
    kinds: dict[tuple[int, DType], list[LiveRange]] = {}
    for live in sorted(ranges, key=lambda live: live.last):
        kinds.setdefault((live.tensor.shape[0], live.tensor.dtype), []).append(live)
    for alike in kinds.values():
        group: list[LiveRange] = []
        taken = 0
        for live in alike:
            size = live.tensor.bytes_per_partition
            if taken + size > bank_bytes:
                yield group
                group, taken = [], 0
            group.append(live)
            taken += size
        if len(group) > 1:
            yield group


def _bank(core: CoreProgram, tiles: Sequence[Tensor], number: int) -> Tensor:
    first = tiles[0]
    names = {tensor.name for tensor in core.tensors}
    name = f"{first.name}.bank"
    while name in names:
        number += 1
        name = f"{first.name}.bank{number}"
    columns = sum(tile.free_size for tile in tiles)
    return Tensor(name, (first.shape[0], columns), first.dtype, Buffer.psum, span=first.span)


def _joined(core: CoreProgram, parts: dict[Tensor, _Part]) -> CoreProgram:
    """``core`` with each tile of ``parts`` replaced by its columns."""

    def moved(inst: Inst) -> list[Inst]:
        changes = {n: _within(a, parts[a.tensor]) for n, a in enumerate(inst.accesses()) if a.tensor in parts}
        return [inst.with_operands(changes) if changes else inst]

    seen: dict[Tensor, None] = {}
    for tensor in core.tensors:
        seen[parts[tensor].bank if tensor in parts else tensor] = None
    return replace(core, body=changed(core.body, moved), tensors=tuple(seen))


def _within(access: Access, part: _Part) -> Access:
    """``access`` of a tile as one of the columns that the tile became."""
    old, new = access.tensor.free_size, part.bank.free_size
    row, column = divmod(access.offset, old)
    strides = (access.strides[0] // old * new, *access.strides[1:])
    return Access(part.bank, row * new + part.column + column, access.shape, strides, access.dtype)


__all__ = ["with_shared_banks"]
