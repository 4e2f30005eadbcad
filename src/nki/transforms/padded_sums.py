"""Pad the rows of sums of products, whose rows else fight for few sets of the cache.

A bank of PSUM has 2 KiB in each partition, and a product fills it. Memory of a CPU is dense: rows of such a tile are
2 KiB apart, and a line of all rows lies in two of 64 sets of the first-level cache. Products go through the rows of 32
columns at a time, so what they bring to that cache drives each other out of it, and parts of their operands as well.
Rows of a tile in PSUM that products write get a line more if their size is a multiple of 1 KiB. What loops or run-time
indices touch, and what is read as another dtype, is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, AccessForm, Buffer, Tensor
from nki.target.model import Target

_CROWDED: Final = 256
"""Elements: rows of a multiple of them share few sets."""
_APART: Final = 16
"""Elements by which rows become longer: a line."""
_LEAST_ROWS: Final = 32
"""Rows of a tile from which on they are too many for their sets."""


@dataclass(frozen=True)
class PadSums(CoreStage):
    """Pad the rows of sums in PSUM."""

    name: ClassVar[str] = "pad_sums"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with longer rows of sums."""
        body = pad_sums(core.body)
        return core if body is None else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Instructions have as many operands as before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        for old, core in zip(before.cores, after.cores, strict=True):
            for one, other in zip(old.instructions(), core.instructions(), strict=True):
                assert [a.shape for a in one.accesses()] == [a.shape for a in other.accesses()], "pad_sums"


class _Sum:
    """A tile that products write, the tile with longer rows, and who uses it."""

    __slots__ = ("accesses", "new", "uses")

    def __init__(self, tile: Tensor) -> None:
        self.new = Tensor(tile.name, (tile.shape[0], _width(tile) + _APART), tile.dtype, tile.buffer, span=tile.span)
        self.accesses: dict[tuple[int, AccessForm], Access] = {}
        """The replacements of accesses, by offset and form."""
        self.uses: list[tuple[int, int, Access]] = []
        """Position of each instruction, the number of its operand, and what replaces it."""


def pad_sums(body: Sequence[Statement]) -> list[Statement] | None:
    """The statements with longer rows of sums; None if there are none."""
    sums = _sums(body)
    if not sums:
        return None
    _find_uses(body, sums)
    changed = list(body)
    for each in sums.values():
        for position, number, access in each.uses:
            inst = changed[position]
            assert isinstance(inst, Inst)
            changed[position] = inst.with_operand(number, access)
    return changed


def _sums(body: Sequence[Statement]) -> dict[Tensor, _Sum]:
    """The tiles that products write, and whose rows share few sets of the cache."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.moving}
    written = {
        access.tensor: None
        for inst in (body if kinds else ())
        if inst.__class__ in kinds and isinstance(inst, Inst)
        for access in inst.writes()
    }
    return {tile: _Sum(tile) for tile in written if _is_crowded(tile)}


def _is_crowded(tile: Tensor) -> bool:
    return (
        tile.buffer is Buffer.psum
        and tile.dtype is dt.float32
        and tile.shape[0] >= _LEAST_ROWS
        and _width(tile) % _CROWDED == 0
    )


def _width(tile: Tensor) -> int:
    """Elements of a row."""
    return prod(tile.shape[1:])


def _find_uses(body: Sequence[Statement], sums: dict[Tensor, _Sum]) -> None:
    """Note who uses the tiles of ``sums``, and what instead; tiles that cannot be padded are left out of it."""
    for position, inst in enumerate(body):
        if not isinstance(inst, Inst):
            for access in touched(inst):
                sums.pop(access.tensor, None)
            continue
        if (inst.known_form or inst.form()).has_runtime_index:
            for access in (*inst.indexed_by(), *inst.accesses()):
                sums.pop(access.tensor, None)
            continue
        for number, access in enumerate(inst.accesses()):
            each = sums.get(access.tensor)
            if each is None:
                continue
            place = access.offset, access.known_form or access.form
            replacement = each.accesses.get(place) or _with_pitch(access, each.new)
            if replacement is None:
                del sums[access.tensor]
            else:
                each.accesses[place] = replacement
                each.uses.append((position, number, replacement))


def _with_pitch(access: Access, new: Tensor) -> Access | None:
    """The elements of ``access`` in a tile with longer rows; None if the access does not keep to rows."""
    width, pitch = _width(access.tensor), _width(new)
    row, column = divmod(access.offset, width)
    first, *rest = access.strides
    reach = column + sum((count - 1) * step for count, step in zip(access.shape[1:], rest, strict=True))
    if access.dtype is not new.dtype or first % width or min(rest, default=0) < 0 or reach >= width:
        return None
    return Access(new, row * pitch + column, access.shape, (first // width * pitch, *rest), new.dtype)
