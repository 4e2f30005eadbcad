"""Eliminate copies that only move data between HBM and a tile: compute reads the input, or writes the output, directly.

On the chip a tile must be loaded before an engine can touch it; a CPU reads the caller's array as well. Two kinds of
DMA are redundant there:

- a tile that a copy of an input or a constant (which never change) fills: its readers read the source;
- a tile whose only reader is a copy to an output: its writers write the output, provided that one of them certainly
  writes all of the tile, and that in between no other instruction touches these bytes of the output and no core waits
  for others.

An instruction that writes all of a tile begins its contents anew, also if it reads the old ones: both rules hold for
the contents up to there, or from there on, by themselves.

A copy that converts stays, and so does one that the user has ordered, and one whose access cannot be followed through
the strides of the other side. An instruction keeps its operand if its declaration does not accept the new layout
(:attr:`~nki.ir.effects.Effects.layout`). What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, cast

from nki.base import knobs
from nki.ir.access_overlap import covers_tensor, may_overlap
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions, touched
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Role, Tensor, coalesced, row_major
from nki.isa.tables.enums import engine
from nki.target.model import Target

_FEW_ROWS: Final = 16
"""Rows up to which a product reads its moving operand where it lies."""


class _Uses:
    """The instructions, by position, that write and read one tensor."""

    __slots__ = ("reads", "writes")

    def __init__(self, writes: Sequence[int] = (), reads: Sequence[int] = ()) -> None:
        self.writes = list(writes)
        self.reads = list(reads)


@dataclass(frozen=True)
class EliminateCopies(CoreStage):
    """Remove redundant copies."""

    name: ClassVar[str] = "copy_elimination"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without redundant copies."""
        return core.with_body(eliminate_copies(core, program.signature))

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Every output that is no input is still written; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        written = {access.tensor for inst in after.instructions() for access in inst.writes()}
        lost = [tensor.name for tensor in after.outputs if tensor not in {*written, *after.inputs}]
        assert not lost, f"copy elimination left nobody to write {lost}"


def eliminate_copies(core: CoreProgram, signature: Signature) -> list[Statement]:
    """The statements of ``core`` without redundant copies."""
    body: list[Statement | None] = list(core.body)
    uses: dict[Tensor, _Uses] = {}
    pinned: set[Tensor] = set()
    meetings: list[int] = []
    for position, inst in enumerate(core.body):
        if not isinstance(inst, Inst):
            if any(_meets_cores(inner, core.rank) for inner in instructions(inst.body)):
                meetings.append(position)
            pinned.update(access.tensor for access in touched(inst))
            continue
        if inst.effects.external and _meets_cores(inst, core.rank):
            meetings.append(position)
        _note_uses(inst, position, uses, pinned)
    sources = {*signature.inputs, *core.constants()}.difference(signature.outputs)
    outputs = set(signature.outputs) - pinned - {*signature.inputs}
    for tensor, use in uses.items():
        if tensor.buffer is not Buffer.sbuf or tensor in pinned:
            continue
        if not use.writes or not use.reads:
            continue
        if _forward_load(body, tensor, use, sources):
            continue
        contents = _last_contents(body, tensor, use)
        if contents is not None and not _is_between(contents.writes[0], contents.reads[0], meetings):
            _forward_store(core, body, tensor, contents, outputs, uses)
    return [statement for statement in body if statement is not None]


def _note_uses(inst: Inst, position: int, uses: dict[Tensor, _Uses], pinned: set[Tensor]) -> None:
    """Enter ``inst`` into ``uses``, and what run-time indices touch into ``pinned``."""
    values, read_names, write_names = inst.__dict__, inst.read_names, inst.write_names
    for name in inst.operand_names:
        value = values[name]
        if not isinstance(value, Access | tuple):  # a number, or an operand that the call leaves out
            continue
        for access in (value,) if isinstance(value, Access) else cast("tuple[Access, ...]", value):
            tensor = access.tensor
            use = uses.get(tensor)
            if use is None:
                use = uses[tensor] = _Uses()
            if name in read_names:
                use.reads.append(position)
            if name in write_names:
                use.writes.append(position)
            if access.dynamic is not None:
                pinned.add(tensor)
                pinned.add(access.dynamic.source.tensor)


def _meets_cores(inst: Inst, rank: int) -> bool:
    """True if ``inst`` waits for another core, which may use what both share."""
    barrier, exchange = inst.as_barrier(), inst.as_exchange()
    return (barrier is not None and barrier.cores != (rank,)) or (exchange is not None and exchange.to != rank)


def plain_copy(inst: Statement | None) -> Copy | None:
    """The DMA copy that a statement is, without run-time indices and without an order that the user has asked for."""
    if not isinstance(inst, Inst) or inst.engines != (engine.dma,) or inst.indexed_by():
        return None
    if inst.label or inst.ordered_after:
        return None
    return inst.as_copy()


def moves_all(tile: Tensor, own: Access, other: Access) -> bool:
    """True if a copy between ``own``, an access to ``tile``, and ``other`` moves all of ``tile`` unchanged."""
    whole = own.tensor is tile and own.size == tile.elements and own.strides == row_major(own.shape)
    return whole and own.dtype is tile.dtype is other.dtype is other.tensor.dtype


def _forward_load(body: list[Statement | None], tile: Tensor, use: _Uses, sources: set[Tensor]) -> bool:
    """Remove the load that fills ``tile`` first, if those who read what it loads can read the source; True if they all
    read nothing else.
    """
    load = use.writes[0]
    copy = plain_copy(body[load])
    if copy is None or not moves_all(tile, copy.dst, copy.src) or copy.src.tensor not in sources:
        return False
    end = use.writes[1] if len(use.writes) > 1 else len(body)
    if use.reads[0] < load or (end < len(body) and not _fills(body[end], tile)):
        return False
    readers = use.reads[: bisect_right(use.reads, end)]
    if not readers or not _redirect(body, readers, tile, copy.src, (end, Role.IN)):
        return False
    body[load] = None
    del use.writes[0], use.reads[: len(readers) - (readers[-1] == end)]
    return not use.writes


def _last_contents(body: list[Statement | None], tile: Tensor, use: _Uses) -> _Uses | None:
    """The writes of the last contents of ``tile``, the first of which fills it, and their only reader; else None."""
    full = next((position for position in reversed(use.writes) if _fills(body[position], tile)), None)
    if full is None:
        return None
    writes = use.writes[bisect_left(use.writes, full) :]
    reads = use.reads[bisect_right(use.reads, full) :]
    return _Uses(writes, reads) if len(reads) == 1 and reads[0] > writes[-1] else None


def _forward_store(
    core: CoreProgram,
    body: list[Statement | None],
    tile: Tensor,
    use: _Uses,
    outputs: set[Tensor],
    uses: dict[Tensor, _Uses],
) -> None:
    """Remove the store of ``tile`` if its writers can write the destination."""
    store = use.reads[0]
    copy = plain_copy(body[store])
    if copy is None or not moves_all(tile, copy.src, copy.dst) or copy.dst.tensor not in outputs:
        return
    target_uses = uses[copy.dst.tensor]
    if any(
        _touches(core.body[position], copy.dst)
        for positions in (target_uses.writes, target_uses.reads)
        for position in positions[bisect_left(positions, use.writes[0]) : bisect_left(positions, store)]
    ):
        return
    if _redirect(body, use.writes, tile, copy.dst, (use.writes[0], Role.OUT)):
        body[store] = None


def _is_between(first: int, end: int, positions: Sequence[int]) -> bool:
    """True if one of ``positions``, which are in order, is at least ``first`` and less than ``end``."""
    index = bisect_left(positions, first)
    return index < len(positions) and positions[index] < end


def _touches(inst: Statement, target: Access) -> bool:
    """True if ``inst`` may read or write a byte of ``target``."""
    return any(may_overlap(access, target) for access in touched(inst))


def _fills(inst: Statement | None, tile: Tensor) -> bool:
    """True if a write of ``inst`` certainly writes every byte of ``tile``."""
    if not isinstance(inst, Inst) or inst.may_leave_unwritten() or inst.effects.predicate is not None:
        return False
    return any(a.tensor is tile and covers_tensor(a) for a in inst.writes())


def _redirect(
    body: list[Statement | None], positions: list[int], tile: Tensor, target: Access, border: tuple[int, Role]
) -> bool:
    """Let the instructions at ``positions`` use ``target`` instead of ``tile``; False, and no change, if one cannot.

    The instruction at the ``border`` does so with operands of that role only: the others belong to other contents.
    """
    redirected: dict[int, Inst] = {}
    for position in dict.fromkeys(positions):
        inst = body[position]
        if not isinstance(inst, Inst):
            return False
        operands: dict[int, Access] = {}
        for number, (parameter, access) in enumerate(inst.operands()):
            if access.tensor is tile:
                if position == border[0] and parameter.role is not border[1]:
                    if parameter.role is Role.INOUT:
                        return False
                    continue
                followed = _followed(target, access)
                if (
                    followed is None
                    or access.dtype is not tile.dtype
                    or not _suits(inst, parameter.name, access, followed)
                ):
                    return False
                operands[number] = followed
        changed = inst.with_operands(operands)
        if not changed.has_supported_layout():
            return False
        redirected[position] = changed
    for position, inst in redirected.items():
        body[position] = inst
    return True


def _suits(inst: Inst, name: str, before: Access, after: Access) -> bool:
    """False if the copy of an operand of a matrix product pays.

    The product is tuned for tiles: rows that lie far apart in the caller's array cost more than the copy. A product of
    few rows reads its moving operand once, one of a single column its stationary one, so that the copy costs more.
    """
    if inst.effects.accumulation is None or before.strides == after.strides:
        return True
    is_plain = len(after.shape) == 2 and after.strides[1] == 1 and not after.dtype.is_packed
    if name == inst.effects.moving:
        return is_plain and all(to.partitions <= _FEW_ROWS for to in inst.writes())
    return is_plain and name == inst.effects.stationary and all(to.free_elements == 1 for to in inst.writes())


def _followed(target: Access, access: Access) -> Access | None:
    """The elements of ``target`` that are those of ``access`` in a dense tile, element number by element number."""
    place = _place(target.shape, target.strides, access.offset, access.shape, access.strides)
    if place is None:
        return None
    return Access(target.tensor, target.offset + place[0], access.shape, place[1], access.dtype)


@lru_cache(maxsize=1 << 12)
def _place(
    target_shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> tuple[int, tuple[int, ...]] | None:
    """Offset from the first element of the target, and strides there, of an access to a dense tile of its elements."""
    dims = coalesced(zip(target_strides, target_shape, strict=True))
    blocks: list[tuple[int, int, int]] = []  # size of the block, step in the target, count; innermost first
    size = 1
    for step, count in reversed(dims):
        blocks.append((size, step, count))
        size *= count
    digits = [offset // block % count for block, _, count in blocks]
    highest = list(digits)
    steps: list[int] = []
    for stride, count in zip(strides, shape, strict=True):
        if count == 1 or stride == 0:
            steps.append(0 if stride == 0 else 1)
            continue
        level = max((i for i, (block, _, _) in enumerate(blocks) if block <= stride), default=-1)
        if level < 0 or stride % blocks[level][0]:
            return None
        factor = stride // blocks[level][0]
        highest[level] += factor * (count - 1)
        steps.append(factor * blocks[level][1])
    if any(digit >= count for digit, (_, _, count) in zip(highest, blocks, strict=True)):
        return None
    return sum(d * step for d, (_, step, _) in zip(digits, blocks, strict=True)), tuple(steps)
