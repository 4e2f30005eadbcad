"""Lay stationary operands of float32 products out once as register tiles read them, and not in each product.

A tile of float32 that products alone read, as their stationary operand, and that copies and transpositions alone write,
becomes a tile of blocks: four columns side by side, the rows of a block behind each other. Writers must write all rows
of whole blocks, products must read all rows of whole blocks. What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Form, Tensor
from nki.target.model import Target

_BLOCK: Final = 4
"""Columns of a block, as the matrix product of the CPU has them."""
_APART: Final = 16
"""Elements between blocks, so that their beginnings are in different sets of a cache."""
_LEAST_COLUMNS: Final = 17
"""Columns of a stationary operand, which are rows of the product, from which on the product reads blocks."""
_LEAST_MOVING: Final = 32
"""Columns of such a product: a panel."""


@dataclass(frozen=True)
class BlockOperands(CoreStage):
    """Lay stationary operands out in blocks."""

    name: ClassVar[str] = "block_operands"
    has_blocks: Callable[[], bool] = lambda: False
    """True if the register tiles of this processor have whole blocks of rows."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with stationary operands in blocks."""
        body = block_operands(core.body, self.has_blocks)
        return core if body is None else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Tiles of blocks have writers and readers; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        for old, core in zip(before.cores, after.cores, strict=True):
            known = {access.tensor for inst in old.instructions() for access in inst.accesses()}
            new = {access.tensor for inst in core.instructions() for access in inst.accesses()} - known
            written = {access.tensor for inst in core.instructions() for access in inst.writes()}
            read = {access.tensor for inst in core.instructions() for access in inst.reads()}
            assert new <= written & read, "block_operands left a tile without writers or without readers"


@dataclass(slots=True)
class _Uses:
    """Position, number of the operand and access of each use of a tile: by products, and by what fills it."""

    reads: list[tuple[int, int, Access]] = field(default_factory=list[tuple[int, int, Access]])
    writes: list[tuple[int, int, Access]] = field(default_factory=list[tuple[int, int, Access]])


def block_operands(body: Sequence[Statement], has_blocks: Callable[[], bool]) -> list[Statement] | None:
    """The statements with stationary operands in blocks; None if there are none."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.accumulation is not None}
    if not kinds or not has_blocks():
        return None
    uses = _stationary_operands(body, kinds)
    _find_writers(body, kinds, uses)
    changed: list[Statement] | None = None
    for tile, each in uses.items():
        if each.writes:
            changed = changed or list(body)
            _lay_out(changed, tile, each)
    return changed


def _stationary_operands(body: Sequence[Statement], kinds: set[type[Inst]]) -> dict[Tensor, _Uses]:
    """The tiles that products read in whole blocks as their stationary operand."""
    uses: dict[Tensor, _Uses] = {}
    unfit: set[Tensor] = set()
    number_of: dict[Form, int | None] = {}
    for position, inst in enumerate(body):
        if inst.__class__ not in kinds:
            continue
        assert isinstance(inst, Inst)
        form = inst.form()
        if form not in number_of:
            number_of[form] = _stationary(inst)
        number, accesses = number_of[form], inst.accesses()
        for other, access in enumerate(accesses):
            if other != number:
                unfit.add(access.tensor)
            elif number is not None and _has_blocks(access):
                each = uses.get(access.tensor)
                if each is None:
                    each = uses[access.tensor] = _Uses()
                each.reads.append((position, number, access))
            else:
                unfit.add(access.tensor)
    return {tile: each for tile, each in uses.items() if tile not in unfit}


def _stationary(inst: Inst) -> int | None:
    """The number of the stationary operand, if ``inst`` is a product that reads blocks; None otherwise."""
    effects, accumulation = inst.effects, inst.effects.accumulation
    if accumulation is None or accumulation.moves(inst) or not effects.stationary or not effects.moving:
        return None
    operands = {parameter.name: access for parameter, access in inst.operands()}
    stationary, moving = operands[effects.stationary], operands[effects.moving]
    if stationary.dtype is not dt.float32 or moving.dtype is not dt.float32 or inst.form().has_runtime_index:
        return None
    if stationary.free_elements < _LEAST_COLUMNS or moving.free_elements < _LEAST_MOVING:
        return None
    return next(n for n, (parameter, _) in enumerate(inst.operands()) if parameter.name == effects.stationary)


def _has_blocks(access: Access) -> bool:
    """True if ``access`` has all rows of whole blocks of a tile that can lie in blocks."""
    tile = access.tensor
    if tile.buffer is not Buffer.sbuf or access.dtype is not dt.float32 or tile.dtype is not dt.float32:
        return False
    if len(tile.shape) != 2 or len(access.shape) != 2 or access.dynamic is not None:
        return False
    rows, columns = tile.shape
    if rows == 1 or columns % _BLOCK or access.shape[0] != rows or access.strides != (columns, 1):
        return False
    return access.shape[1] % _BLOCK == access.offset % _BLOCK == 0 and access.offset < columns


def _find_writers(body: Sequence[Statement], products: set[type[Inst]], uses: dict[Tensor, _Uses]) -> None:
    """Note what writes the tiles of ``uses``; tiles with other readers or writers are left out of it."""
    for position, inst in enumerate(body) if uses else ():
        if not isinstance(inst, Inst):
            for access in touched(inst):
                uses.pop(access.tensor, None)
        elif inst.__class__ not in products:
            for number, access in enumerate(inst.accesses()):
                each = uses.get(access.tensor)
                if each is None:
                    continue
                if _fills(inst, access):
                    each.writes.append((position, number, access))
                else:
                    del uses[access.tensor]


def _fills(inst: Inst, access: Access) -> bool:
    """True if ``inst`` does nothing but to fill ``access``, whole blocks of a tile, with numbers from elsewhere."""
    if inst.form().has_runtime_index or not _has_blocks(access):
        return False
    copy = inst.as_copy() or inst.as_transposition()
    if copy is None or copy.dst is not access or copy.src.tensor is access.tensor or copy.src.dtype is not dt.float32:
        return False
    return len(copy.src.shape) == 2 and copy.src.strides[1] == 1


def _lay_out(body: list[Statement], tile: Tensor, uses: _Uses) -> None:
    """Let all instructions use a tile of blocks in place of ``tile``."""
    rows, columns = tile.shape
    step = rows * _BLOCK + _APART
    blocks = Tensor(tile.name, (1, columns // _BLOCK * step), tile.dtype, tile.buffer, span=tile.span)
    for position, number, access in (*uses.writes, *uses.reads):
        inst = body[position]
        assert isinstance(inst, Inst)
        shape = rows, access.shape[1] // _BLOCK, _BLOCK
        place = Access(blocks, access.offset // _BLOCK * step, shape, (_BLOCK, step, 1), tile.dtype)
        body[position] = inst.with_operand(number, place)
