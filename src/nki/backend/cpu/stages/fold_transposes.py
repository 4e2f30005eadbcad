"""Let transpositions write the stationary operand of products directly, without a copy through PSUM.

The Tensor engine transposes into PSUM, and the operands of products are in SBUF: so a kernel copies what it has
transposed. A CPU has one memory. Without the copy, a partition of what is transposed is a column of the stationary
operand, and a partition of the product's result; threads that share partitions need not meet from what is transposed to
the product and beyond.

A copy goes if it is the only reader of the transposition's result, and if products alone read the tile that it fills,
as their stationary operand. Several transpositions may fill a result side by side, which one copy moves: then each gets
a tile of its own, if no product reads columns of two. What loops or run-time indices touch is not changed.

A processor that multiplies words reads bfloat16 the way it was before the transposition: then that goes, too, if
nothing writes what it reads before the last product.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Tensor, row_major
from nki.numerics.layouts import MOST_ROWS
from nki.numerics.matmul.contract import FITS_BFLOAT16, GROUP
from nki.numerics.matmul.host import has_pairs
from nki.target.model import Target


@dataclass(slots=True)
class _Uses:
    """Positions of the instructions that write and that read a tensor, each as often as it does."""

    writes: list[int] = field(default_factory=list[int])
    reads: list[int] = field(default_factory=list[int])


@dataclass(frozen=True)
class FoldTransposes(CoreStage):
    """Remove copies between transpositions and products."""

    name: ClassVar[str] = "fold_transposes"
    has_pairs: Callable[[], bool] = has_pairs
    """True if the processor multiplies bfloat16 in pairs, or in tiles of pairs."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without copies of transposed stationary operands."""
        fixed = {*program.signature.inputs, *core.constants()}.difference(program.signature.outputs)
        body = fold_transposes(core.body, fixed, self.has_pairs)
        return core if body is None else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Whatever a core reads, something writes as before; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        for old, core in zip(before.cores, after.cores, strict=True):
            lost = {access.tensor for inst in old.instructions() for access in inst.writes()}
            lost -= {access.tensor for inst in core.instructions() for access in inst.writes()}
            unread = [t.name for inst in core.instructions() for access in inst.reads() if (t := access.tensor) in lost]
            assert not unread, f"fold_transposes left unwritten {unread}"


def fold_transposes(
    body: Sequence[Statement], fixed: Collection[Tensor] = (), has_pairs: Callable[[], bool] = has_pairs
) -> list[Statement] | None:
    """The statements without the copies; None if there is no transposition. ``fixed``: tensors that nobody writes."""
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.transpose is not None}
    turns = [n for n, inst in enumerate(body) if inst.__class__ in kinds] if kinds else []
    if not turns:
        return None
    uses = _uses_of(_results_and_copies(body, turns) | _sources(body, turns), body)
    changed: list[Statement | None] = list(body)
    for position in turns:
        for place, written in _write_directly(changed, position, uses) or _write_parts(changed, position, uses):
            if not _fits_tiles(written) or not has_pairs():
                continue
            if written.src.buffer.on_chip or written.src.tensor in fixed:  # else another core may write it
                _read_unturned(changed, place, written, uses)
    return [statement for statement in changed if statement is not None]


def _results_and_copies(body: Sequence[Statement], turns: Sequence[int]) -> set[Tensor]:
    """The tensors that the transpositions at ``turns`` write, and those to which instructions copy these."""
    results: set[Tensor] = set()
    for position in turns:
        inst = body[position]
        turn = inst.as_transposition() if isinstance(inst, Inst) else None
        if turn is not None:
            results.add(turn.dst.tensor)
    kinds = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.copy is not None}
    tiles: set[Tensor] = set()
    for inst in body:
        if inst.__class__ in kinds and isinstance(inst, Inst):
            copy = inst.as_copy()
            if copy is not None and copy.src.tensor in results:
                tiles.add(copy.dst.tensor)
    return results | tiles


def _sources(body: Sequence[Statement], turns: Sequence[int]) -> set[Tensor]:
    """The tensors of bfloat16 that the transpositions at ``turns`` read."""
    found = (inst.as_transposition() for n in turns if isinstance(inst := body[n], Inst))
    return {turn.src.tensor for turn in found if turn is not None and turn.src.dtype is dt.bfloat16}


def _uses_of(tensors: AbstractSet[Tensor], body: Sequence[Statement]) -> dict[Tensor, _Uses]:
    """The uses of those ``tensors`` that neither loops nor run-time indices touch."""
    uses = {tensor: _Uses() for tensor in tensors}
    pinned: set[Tensor] = set()
    for position, inst in enumerate(body):
        if not isinstance(inst, Inst) or inst.form().has_runtime_index:
            pinned.update(access.tensor for access in touched(inst))
            continue
        for access, reads, writes in inst.uses():
            if access.tensor in tensors:
                use = uses[access.tensor]
                if writes:
                    use.writes.append(position)
                if reads:
                    use.reads.append(position)
    return {tensor: each for tensor, each in uses.items() if tensor not in pinned}


_Placed = list[tuple[int, Copy]]
"""Transpositions that write tiles directly, each with its position."""


def _write_directly(body: list[Statement | None], position: int, uses: dict[Tensor, _Uses]) -> _Placed:
    """Let the transposition at ``position`` write the tile to which its result is copied, if products read that.

    Gives the new transposition; nothing, and no change, where that does not hold.
    """
    inst = body[position]
    assert isinstance(inst, Inst)
    turn = inst.as_transposition()
    result = None if turn is None else uses.get(turn.dst.tensor)
    if turn is None or result is None or not _is_whole(turn.dst) or len(result.writes) != 1 or not _is_free(inst):
        return []
    copy = _copy_to_operand(body, result, uses)
    if copy is None or copy.dst.shape != turn.dst.shape:
        return []
    body[result.reads[0]] = None
    return [_with_result(body, position, copy.dst.tensor)]


def _copy_to_operand(body: Sequence[Statement | None], result: _Uses, uses: dict[Tensor, _Uses]) -> Copy | None:
    """The only reader of a result, if it copies all of that to all of a tile that products alone read."""
    reader = body[result.reads[0]] if len(result.reads) == 1 else None
    if not isinstance(reader, Inst) or (copy := reader.as_copy()) is None or not _is_free(reader):
        return None
    tile = uses.get(copy.dst.tensor)
    if tile is None or len(tile.writes) != 1 or not _is_whole(copy.dst) or copy.dst.dtype is not copy.src.dtype:
        return None
    if not _is_whole(copy.src) or not tile.reads:
        return None
    return copy if all(_is_stationary(body[read], copy.dst.tensor) for read in tile.reads) else None


def _with_result(body: list[Statement | None], position: int, tile: Tensor) -> tuple[int, Copy]:
    """Let the transposition at ``position`` write all of ``tile``."""
    inst = body[position]
    assert isinstance(inst, Inst)
    turn = inst.as_transposition()
    assert turn is not None
    number = next(n for n, access in enumerate(inst.accesses()) if access.tensor is turn.dst.tensor)
    changed = body[position] = inst.with_operands({number: Access.whole(tile)})
    turn = changed.as_transposition()
    assert turn is not None
    return position, turn


def _write_parts(body: list[Statement | None], position: int, uses: dict[Tensor, _Uses]) -> _Placed:
    """Let the transpositions that fill one result with that at ``position`` write a tile each, if products read that.

    Gives the new transpositions; nothing, and no change, where that does not hold.
    """
    inst = body[position]
    assert isinstance(inst, Inst)
    turn = inst.as_transposition()
    result = None if turn is None else uses.get(turn.dst.tensor)
    if turn is None or result is None or position != result.writes[-1] or len(result.writes) == 1:
        return []
    copy = _copy_to_operand(body, result, uses)
    if copy is None or position > result.reads[0] or copy.dst.shape[0] != copy.src.shape[0]:
        return []
    windows = [_window_of_turn(body[write]) for write in result.writes]
    bounds = sorted(window for window in windows if window is not None)
    if len(bounds) < len(windows) or any(one[1] > two[0] for one, two in pairwise(bounds)):
        return []
    tile, parts = copy.dst.tensor, dict[tuple[int, int], Tensor]()
    for number, (first, end) in enumerate(bounds):
        name, shape = f"{tile.name} part {number}", (tile.shape[0], end - first)
        parts[first, end] = Tensor(name, shape, tile.dtype, tile.buffer, span=tile.span)
    if not _read_parts(body, tile, parts, uses):
        return []
    body[result.reads[0]] = None
    placed: _Placed = []
    for write, window in zip(result.writes, windows, strict=True):
        assert window is not None
        uses[parts[window]].writes.append(write)
        placed.append(_with_result(body, write, parts[window]))
    return placed


def _read_parts(
    body: list[Statement | None], tile: Tensor, parts: dict[tuple[int, int], Tensor], uses: dict[Tensor, _Uses]
) -> bool:
    """Let the readers of ``tile`` read its ``parts``, by columns; False, and no change, if one reads two of them."""
    changed: dict[int, Inst] = {}
    new = {part: _Uses() for part in parts.values()}
    windows = list(parts)
    starts = [first for first, _ in windows]
    for read in uses[tile].reads:
        inst = body[read]
        assert isinstance(inst, Inst)
        operands: dict[int, Access] = {}
        for number, access in enumerate(inst.accesses()):
            if access.tensor is not tile:
                continue
            row, column = divmod(access.offset, tile.free_size)
            place = bisect_right(starts, column) - 1
            first, end = windows[place] if place >= 0 else (0, 0)
            if access.dtype is not tile.dtype or len(access.shape) != 2 or access.strides != (tile.free_size, 1):
                return False
            if column + access.shape[1] > end:
                return False
            part, width = parts[first, end], end - first
            operands[number] = Access(part, row * width + column - first, access.shape, (width, 1), tile.dtype)
            new[part].reads.append(read)
        changed[read] = inst.with_operands(operands)
    for read, inst in changed.items():
        body[read] = inst
    uses.update(new)
    return True


def _window_of_turn(statement: Statement | None) -> tuple[int, int] | None:
    """The first column that a transposition writes, in all partitions of its result, and the one behind the last."""
    if not isinstance(statement, Inst) or (turn := statement.as_transposition()) is None or not _is_free(statement):
        return None
    access, tensor = turn.dst, turn.dst.tensor
    if len(access.shape) != 2 or access.shape[0] != tensor.shape[0] or access.strides != (tensor.free_size, 1):
        return None
    if access.dtype is not tensor.dtype or access.offset >= tensor.free_size:
        return None
    return access.offset, access.offset + access.shape[1]


def _fits_tiles(turn: Copy) -> bool:
    """True if products in words can read the source of a transposition as their stationary operand."""
    source = turn.src
    if source.dtype is not dt.bfloat16 or len(source.shape) != 2 or source.strides[1] != 1:
        return False
    return source.shape[0] % GROUP == 0 and source.shape[1] % GROUP == 0 and source.shape[1] <= MOST_ROWS


def _read_unturned(body: list[Statement | None], position: int, turn: Copy, uses: dict[Tensor, _Uses]) -> None:
    """Let products read what the transposition at ``position`` reads, without it, if that is still there."""
    tile, source = turn.dst.tensor, uses.get(turn.src.tensor)
    readers = uses[tile].reads
    if source is None or any(position < write <= readers[-1] for write in source.writes):
        return
    changed: dict[int, Inst] = {}
    for reader in readers:
        inst = body[reader]
        assert isinstance(inst, Inst)
        moving = inst.effects.moving
        operands: dict[int, Access] = {}
        for number, (parameter, access) in enumerate(inst.operands()):
            if access.tensor is tile and (unturned := _unturned(access, turn)) is not None:
                operands[number] = unturned
            elif access.tensor is tile or (parameter.name == moving and not _is_moving(access)):
                return
        changed[reader] = inst.with_operands(operands)
    if all(inst.has_supported_layout() for inst in changed.values()):
        for reader, inst in changed.items():
            body[reader] = inst
        body[position] = None


def _unturned(access: Access, turn: Copy) -> Access | None:
    """The elements of ``access``, to the tile that a transposition fills, in its source; None if they fit no tiles."""
    width = turn.dst.shape[1]
    row, column = divmod(access.offset, width)
    if access.dtype is not turn.src.dtype or len(access.shape) != 2 or access.strides != (width, 1):
        return None
    if any(n % GROUP for n in access.shape):
        return None
    step = turn.src.strides[0]
    return Access(turn.src.tensor, turn.src.offset + column * step + row, access.shape, (1, step), turn.src.dtype)


def _is_moving(access: Access) -> bool:
    """True of a moving operand of a product in words."""
    return access.dtype in FITS_BFLOAT16 and access.free_elements > 1


def _is_free(inst: Inst) -> bool:
    """True if nobody asked for an order of ``inst``."""
    return not inst.label and not inst.ordered_after


def _is_whole(access: Access) -> bool:
    """True if ``access`` is all of its tensor, in order."""
    tensor = access.tensor
    return access.shape == tensor.shape and access.strides == row_major(access.shape) and access.dtype is tensor.dtype


def _is_stationary(statement: Statement | None, tile: Tensor) -> bool:
    """True of a product that reads ``tile`` as its stationary operand and nothing else."""
    if not isinstance(statement, Inst) or (accumulation := statement.effects.accumulation) is None:
        return False
    name = statement.effects.stationary
    return not accumulation.moves(statement) and all(
        parameter.name == name for parameter, access in statement.operands() if access.tensor is tile
    )
