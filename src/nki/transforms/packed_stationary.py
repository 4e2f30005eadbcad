"""Pack stationary operands once, as words of two numbers in the processor's order, and not in each product.

A tile of bfloat16 that products alone read, as their stationary operand, and that copies and transpositions alone
write, becomes a tile of ``bfloat16_words`` in which the words of a column lie side by side
(:mod:`nki.numerics.words.stationary`). Writers pack what they move: all rows of columns in multiples of 32. Products
read as much. Of other windows with dense rows that several products read, in tiles or in inputs, a packed copy is made.
Partitions of what packs are columns of the operand, as partitions of the product's result are, so threads need not meet
between them.

What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.build import copy_tile
from nki.target.model import Target
from nki.transforms.packed_operands import Uses, candidates, check_packed, leave_out, numbers_of, with_copies

_GROUP: Final = 32
"""Rows and columns of such an operand come in multiples of this."""
_NOTES: Final = 32
"""Elements behind each column, in which native code notes the size of its numbers."""
_MOST_ROWS: Final = 512
"""Rows of an operand, of which there is room for notes."""
_NARROW: Final = frozenset({dt.bfloat16, dt.bfloat16_words, dt.float8_e4m3, dt.float8_e4m3fn, dt.float8_e5m2})
"""Dtypes of moving operands of products in words."""


@dataclass(frozen=True)
class PackStationary(CoreStage):
    """Pack stationary operands for a processor that multiplies words."""

    name: ClassVar[str] = "pack_stationary"
    has_words: Callable[[], bool] = lambda: False
    """True if the processor multiplies bfloat16 in words of two numbers."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with packed stationary operands."""
        fixed = {*program.signature.inputs, *core.constants()}.difference(program.signature.outputs)
        body = pack_stationary(core.body, fixed, self.has_words)
        return core if body is None else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Packed tiles have writers and readers; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        check_packed(after, self.name)


def pack_stationary(
    body: Sequence[Statement], fixed: Collection[Tensor], has_words: Callable[[], bool]
) -> list[Statement] | None:
    """The statements with packed stationary operands; None if there are none. ``fixed``: tensors that nobody writes."""
    numbers = numbers_of(body, _stationary)
    if all(number is None for number in numbers) or not has_words():
        return None
    changed = list(body)
    for tile, each in candidates(body, numbers, _moved).items():
        if each.writes and each.reads:
            _pack(changed, tile, each)
            leave_out(numbers, each)
    return with_copies(changed, numbers, fixed, _is_packable, _packed_copy)


def _stationary(inst: Inst) -> int | None:
    """The number of the stationary operand, if ``inst`` is a product that reads packed ones; None otherwise."""
    effects, accumulation = inst.effects, inst.effects.accumulation
    if accumulation is None or accumulation.moves(inst) or not effects.stationary or not effects.moving:
        return None
    accesses = {parameter.name: access for parameter, access in inst.operands()}
    stationary, moving = accesses[effects.stationary], accesses[effects.moving]
    if stationary.dtype is not dt.bfloat16 or moving.dtype not in _NARROW or moving.free_elements == 1:
        return None
    return next(n for n, (parameter, _) in enumerate(inst.operands()) if parameter.name == effects.stationary)


def _moved(inst: Inst, access: Access) -> Access | None:
    """The source of ``inst``, as rows, if it copies or transposes that to ``access``; None if it does anything else."""
    copy, is_turned = inst.as_copy(), False
    if copy is None:
        copy, is_turned = inst.as_transposition(), True
    if copy is None or access is not copy.dst or copy.src.dtype is not dt.bfloat16 or len(copy.src.shape) != 2:
        return None
    source = _turned(copy.src) if is_turned else copy.src
    return source if source.shape == access.shape and _is_dense(source) else None


def _is_dense(access: Access) -> bool:
    """True of dense rows, or of dense columns."""
    row, column = access.strides
    return (column == 1 and row > 0) or (row == 1 and column >= access.shape[0])


def _turned(access: Access) -> Access:
    """The elements of ``access`` with rows and columns exchanged."""
    return Access(access.tensor, access.offset, access.shape[::-1], access.strides[::-1], access.dtype)


def _is_packable(access: Access) -> bool:
    """True of dense rows of bfloat16, in whole groups; products pack dense columns as fast as they read them packed."""
    if access.dtype is not dt.bfloat16 or access.dynamic is not None or len(access.shape) != 2:
        return False
    rows, columns = access.shape
    return (
        rows % _GROUP == 0
        and columns % _GROUP == 0
        and rows <= _MOST_ROWS
        and access.strides[1] == 1
        and access.strides[0] > 0
    )


def _packed_copy(access: Access, place: Inst) -> tuple[Access, Inst]:
    """Packed columns in place of ``access``, and the copy that fills them."""
    rows, columns = access.shape
    packed = _columns(_like(access.tensor, rows, columns), rows, 0, columns)
    return packed, _copy(packed, access, place)


def _like(tile: Tensor, rows: int, columns: int) -> Tensor:
    """A new packed tile in place of ``tile``, or of a part of it."""
    return Tensor(tile.name, (1, columns * (rows + _NOTES)), dt.bfloat16_words, Buffer.sbuf, span=tile.span)


def _columns(packed: Tensor, rows: int, first: int, count: int) -> Access:
    """``count`` columns from ``first`` on."""
    step = rows + _NOTES
    return Access(packed, first * step, (rows, count), (1, step), dt.bfloat16_words)


def _copy(packed: Access, source: Access, place: Inst) -> Inst:
    """Pack ``source``; partitions are columns. The copy is at the line of ``place``."""
    copy = copy_tile(_turned(packed), _turned(source))
    copy.where = place.where
    return copy


def _pack(body: list[Statement], tile: Tensor, uses: Uses) -> None:
    """Let products and what writes ``tile`` use a packed tile in its place."""
    rows, columns = tile.shape
    packed = _like(tile, rows, columns)
    for position, access, source in uses.writes:
        inst = body[position]
        assert isinstance(inst, Inst)
        body[position] = _copy(_columns(packed, rows, access.offset, access.shape[1]), source, inst)
    places: dict[tuple[int, int], Access] = {}
    for position, number, access in uses.reads:
        inst = body[position]
        assert isinstance(inst, Inst)
        place = access.offset, access.shape[1]
        if place not in places:
            places[place] = _columns(packed, rows, *place)
        body[position] = inst.with_operand(number, places[place])
