"""Eliminate copies that only move data between HBM and a tile: compute reads the input, or writes the output, directly.

On the chip a tile must be loaded before an engine can touch it; a CPU reads the caller's array as well. Two kinds of
DMA are redundant there:

- a tile that a copy of an input or a constant (which never change) fills: its readers read the source;
- a tile whose only reader is a copy to an output: its writers write the output, provided that one of them certainly
  writes all of the tile, and that in between no other instruction touches these bytes of the output and no core waits
  for others.

A tensor in HBM that nobody but the core sees counts as a tile: a row that goes to all partitions passes through one.

An instruction that writes all of a tile begins its contents anew, also if it reads the old ones: both rules hold for
the contents up to there, or from there on, by themselves.

A copy that converts stays, and so does one that the user has ordered, and one whose access cannot be followed through
the strides of the other side. An instruction keeps its operand if its declaration does not accept the new layout
(:attr:`~nki.ir.effects.Effects.layout`). What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Final, TypeGuard, cast

from nki.base import knobs
from nki.ir.access_overlap import covers_tensor, may_overlap
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, instructions, touched
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.stage import CoreStage
from nki.ir.types import Access, AccessForm, Buffer, Form, Role, Tensor, coalesced, row_major
from nki.isa.tables.enums import engine
from nki.target.model import Target

_Uses = tuple[list[int], list[int]]
"""The positions of the instructions that write one tensor, and of those that read it."""
FEW_ROWS: Final = 16
"""Rows of results up to which a product reads its moving operand where it lies."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The operands of an instruction that change, by number: the offset from the first element of the target, and the
    strides there. ``form``: that of the changed instruction.
    """

    places: tuple[tuple[int, int, tuple[int, ...]], ...]
    form: Form


@dataclass(frozen=True)
class EliminateCopies(CoreStage):
    """Remove redundant copies."""

    name: ClassVar[str] = "copy_elimination"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without redundant copies."""
        return eliminate_copies(core, program.signature, program.shared() if len(program.cores) > 1 else ())

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Every output that is no input is still written; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        written = {access.tensor for inst in after.instructions() for access in inst.writes()}
        lost = [tensor.name for tensor in after.outputs if tensor not in {*written, *after.inputs}]
        assert not lost, f"copy elimination left nobody to write {lost}"


def eliminate_copies(core: CoreProgram, signature: Signature, shared: Collection[Tensor]) -> CoreProgram:
    """``core`` without redundant copies; it keeps those that are left for the next stage that asks.

    Other cores use the internal tensors in ``shared``.
    """
    elimination = _Elimination(core, signature, shared)
    if elimination.tiles:
        elimination.run()
    body, copies = elimination.body, elimination.copies
    result = core.with_body([statement for statement in body if statement is not None])
    removed = sorted(elimination.removed)
    result.plain_copies = {p - bisect_left(removed, p): copy for p, copy in copies.items()} if removed else copies
    return result


def _meets_cores(inst: Inst, rank: int) -> bool:
    """True if ``inst`` waits for another core, which may use what both share."""
    barrier, exchange = inst.as_barrier(), inst.as_exchange()
    return (barrier is not None and barrier.cores != (rank,)) or (exchange is not None and exchange.to != rank)


def copies_of(core: CoreProgram) -> dict[int, Copy]:
    """The plain copies of ``core``, by position; they are kept with it and are not to be changed."""
    if core.plain_copies is None:
        core.plain_copies = plain_copies(core.body)
    return core.plain_copies


def plain_copies(body: Sequence[Statement]) -> dict[int, Copy]:
    """DMA copies in ``body`` by position, without run-time indices and without an order that the user has asked for.

    Copies in loops are left out.
    """
    copy_of = {kind: kind.effects.copy for kind in set(map(type, body)) if _copies_by_dma(kind)}
    copies: dict[int, Copy] = {}
    for position, inst in enumerate(cast("Sequence[Inst]", body)) if copy_of else ():
        copy = copy_of.get(inst.__class__)
        if copy is not None and not (inst.label or inst.ordered_after or inst.form().has_runtime_index):
            copies[position] = copy(inst)
    return copies


def _is_own(tensor: Tensor, shared: Collection[Tensor]) -> bool:
    """True for an internal tensor in HBM that is not ``shared``: nobody but the core can see it."""
    return tensor.buffer.is_hbm and not tensor.role and tensor.data is None and tensor not in shared


def _copies_by_dma(kind: type[Statement]) -> TypeGuard[type[Inst]]:
    return issubclass(kind, Inst) and kind.effects.copy is not None and kind.engines == (engine.dma,)


def moves_all(tile: Tensor, own: Access, other: Access) -> bool:
    """True if a copy between ``own``, an access to ``tile``, and ``other`` moves all of ``tile`` unchanged."""
    if own.tensor is not tile or own.dtype is not tile.dtype or own.dtype is not other.dtype:
        return False
    if other.dtype is not other.tensor.dtype or own.strides != row_major(own.shape):
        return False
    return own.shape == tile.shape or own.size == tile.elements


class _Elimination:
    """The elimination of copies in one core; ``body`` is changed step by step, ``None`` stands for what is removed."""

    def __init__(self, core: CoreProgram, signature: Signature, shared: Collection[Tensor]) -> None:
        self.core = core
        self.body: list[Statement | None] = list(core.body)
        self.copies = plain_copies(core.body)
        """The plain copies in ``body``, by position."""
        self.removed: list[int] = []
        """The positions of the copies that are removed."""
        copied = {access.tensor for access in chain.from_iterable(self.copies.values())}
        self.tiles = {tensor for tensor in copied if tensor.buffer is Buffer.sbuf or _is_own(tensor, shared)}
        """The tiles, and the core's own tensors in HBM, that plain copies fill or read: no other one can change."""
        self.sources = {*signature.inputs, *core.constants()}.difference(signature.outputs)
        self.outputs = set(signature.outputs).difference(signature.inputs)
        self.uses: dict[Tensor, _Uses] = {}
        """The uses of tiles and outputs, in the order of first uses."""
        self.pinned: set[Tensor] = set()
        """Tensors that loops or run-time indices touch."""
        self._plans: dict[tuple[object, ...], _Plan | None] = {}
        """The result of :meth:`_plan_of` by form of the instruction, and by what else it depends on."""
        self._refused: dict[tuple[Form, AccessForm], list[tuple[str, int]]] = {}
        """Operands that cannot follow a tile to the source of its load, by form and by the source's form: their names,
        and their offsets in the tile. Most loads of products are refused, so these are found at once.
        """
        self.meetings: list[int] = []
        """Positions at which cores wait for others."""

    def run(self) -> None:
        """Eliminate what can be."""
        self._find_uses()
        self.outputs -= self.pinned
        for tensor, (writes, reads) in self.uses.items():
            if not writes or not reads or tensor not in self.tiles or tensor in self.pinned:
                continue
            if not self._forward_load(tensor, writes, reads) and reads and reads[-1] in self.copies:
                self._forward_store(tensor, writes, reads)

    def _find_uses(self) -> None:
        rank, pinned, uses, copies = self.core.rank, self.pinned, self.uses, self.copies
        wanted = self.tiles | self.outputs
        for position, inst in enumerate(self.core.body):
            copy = copies.get(position)
            if copy is not None:  # as most instructions are in many programs; it has two operands and nothing else
                written, read = copy.dst.tensor, copy.src.tensor
                if written in wanted:
                    uses.setdefault(written, ([], []))[0].append(position)
                if read in wanted:
                    uses.setdefault(read, ([], []))[1].append(position)
                continue
            if not isinstance(inst, Inst):
                if any(_meets_cores(inner, rank) for inner in instructions(inst.body)):
                    self.meetings.append(position)
                pinned.update(access.tensor for access in touched(inst))
                continue
            if inst.effects.external and _meets_cores(inst, rank):
                self.meetings.append(position)
            for access, reads, writes in inst.uses():
                tensor = access.tensor
                if tensor in wanted:
                    use = uses.get(tensor)
                    if use is None:
                        use = uses[tensor] = ([], [])
                    if writes:
                        use[0].append(position)
                    if reads:
                        use[1].append(position)
                if access.dynamic is not None:
                    pinned.update((tensor, access.dynamic.source.tensor))

    def _forward_load(self, tile: Tensor, writes: list[int], reads: list[int]) -> bool:
        """Remove the load that fills ``tile`` first, if those who read what it loads can read the source; True if they
        all read nothing else.
        """
        load, body = writes[0], self.body
        copy = self.copies.get(load)
        if copy is None or copy.src.tensor not in self.sources:
            return False
        end = writes[1] if len(writes) > 1 else len(body)
        reader = body[reads[0]]
        if reads[0] < end and isinstance(reader, Inst) and self._refuses(reader, tile, copy.src):
            return False  # as for most loads of products, so this comes first
        if not moves_all(tile, copy.dst, copy.src):
            return False
        if reads[0] < load or (end < len(body) and not _fills(body[end], tile)):
            return False
        readers = reads[: bisect_right(reads, end)]
        if not readers or not self._redirect(readers, tile, copy.src, (end, Role.IN)):
            return False
        self._remove(load)
        del writes[0], reads[: len(readers) - (readers[-1] == end)]
        return not writes

    def _forward_store(self, tile: Tensor, writes: list[int], reads: list[int]) -> None:
        """Remove the store that alone reads the last contents of ``tile``, if their writers can write its target."""
        store = reads[-1]
        copy = self.copies[store]
        if copy.dst.tensor not in self.outputs or not moves_all(tile, copy.src, copy.dst):
            return
        writers = self._last_writers(tile, writes, reads)
        if not writers or _is_between(writers[0], store, self.meetings):
            return
        if any(
            _touches(self.core.body[position], copy.dst)
            for positions in self.uses[copy.dst.tensor]
            for position in positions[bisect_left(positions, writers[0]) : bisect_left(positions, store)]
        ):
            return
        if self._redirect(writers, tile, copy.dst, (writers[0], Role.OUT)):
            self._remove(store)

    def _last_writers(self, tile: Tensor, writes: list[int], reads: list[int]) -> list[int]:
        """The writes of the last contents of ``tile``, the first of which fills it; empty if these contents have other
        readers than the last one.
        """
        earliest = reads[-2] if len(reads) > 1 else 0  # these contents do not begin before
        if writes[-1] >= reads[-1]:
            return []
        for number in range(len(writes) - 1, -1, -1):
            position = writes[number]
            if position < earliest:
                break
            if _fills(self.body[position], tile):
                return writes[number:]
        return []

    def _redirect(self, positions: list[int], tile: Tensor, target: Access, border: tuple[int, Role]) -> bool:
        """Let the instructions at ``positions`` use ``target`` instead of ``tile``; False and no change if one cannot.

        The instruction at the ``border`` does so with operands of that role only: the others belong to other contents.
        """
        redirected: dict[int, Inst] = {}
        for position in dict.fromkeys(positions):
            inst = self.body[position]
            if not isinstance(inst, Inst):
                return False
            changed = self._redirected(inst, tile, target, border[1] if position == border[0] else None)
            if changed is None:
                return False
            redirected[position] = changed
        for position, inst in redirected.items():
            self.body[position] = inst
            if position in self.copies and (copy := inst.as_copy()) is not None:
                self.copies[position] = copy
        return True

    def _refuses(self, inst: Inst, tile: Tensor, target: Access) -> bool:
        """True if an operand of ``inst`` cannot use ``target`` in place of ``tile``."""
        key = inst.known_form or inst.form(), target.known_form or target.form
        for name, offset in self._refused.get(key, ()):
            access = inst.__dict__[name]
            if access.tensor is tile and access.offset == offset:
                return True
        if self._redirected(inst, tile, target, None) is not None:
            return False
        for number, access in enumerate(inst.accesses() if inst.has_simple_operands else ()):
            if access.tensor is tile and access.dtype is tile.dtype and _followed(inst, number, access, target) is None:
                self._refused.setdefault(key, []).append((inst.operand_names[number], access.offset))
        return True

    def _redirected(self, inst: Inst, tile: Tensor, target: Access, only: Role | None) -> Inst | None:
        """``inst`` with ``target`` in place of ``tile``; None if an operand cannot be there.

        ``only``: operands of this role, the others stay.
        """
        accesses = inst.accesses()
        numbers: list[int] = []
        for number, access in enumerate(accesses):
            if access.tensor is tile:
                if access.dtype is not tile.dtype and only is None:
                    return None
                numbers += number, access.offset
        key = (inst.form(), target.form, only, id(tile.dtype), *numbers)
        try:
            plan = self._plans[key]
        except KeyError:
            plan = self._plans[key] = _plan_of(inst, tile, target, only)
        if plan is None:
            return None
        operands: dict[int, Access] = {}
        for number, offset, strides in plan.places:
            access = accesses[number]
            operands[number] = Access(target.tensor, target.offset + offset, access.shape, strides, access.dtype)
        return inst.with_operands(operands, plan.form)

    def _remove(self, position: int) -> None:
        self.body[position] = None
        self.removed.append(position)
        del self.copies[position]


def _plan_of(inst: Inst, tile: Tensor, target: Access, only: Role | None) -> _Plan | None:
    """The way to let ``inst`` use ``target`` in place of ``tile``, with operands of the role ``only`` if that is given.

    It depends on form, offsets in the tile and the signature of the target alone. None: there is none.
    """
    operands: dict[int, Access] = {}
    for number, (f, access) in enumerate(inst.operands()):
        if access.tensor is not tile:
            continue
        if only is not None and f.role is not only:
            if f.role is Role.INOUT:
                return None
            continue
        followed = _followed(inst, number, access, target) if access.dtype is tile.dtype else None
        if followed is None:
            return None
        operands[number] = followed
    changed = inst.with_operands(operands)
    if not changed.has_supported_layout():
        return None
    places = tuple([(number, access.offset - target.offset, access.strides) for number, access in operands.items()])
    return _Plan(places, changed.form())


def _followed(inst: Inst, number: int, access: Access, target: Access) -> Access | None:
    """The elements of ``target`` that operand ``number`` of ``inst`` takes of a tile with the same elements.

    None if the operand cannot be there.
    """
    is_product = inst.effects.accumulation is not None
    # The matrix product is tuned for tiles: rows that lie far apart in the caller's array cost more than the copy.
    same_strides = is_product and not _is_read_once(inst, number)
    place = _place(target, access)
    if place is None or (same_strides and place[1] != access.strides):
        return None
    followed = Access(target.tensor, target.offset + place[0], access.shape, place[1], access.dtype)
    if is_product and not _is_plain(followed) and followed.strides != access.strides:
        return None
    return followed


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


def _is_read_once(inst: Inst, number: int) -> bool:
    """True if a product reads the operand once: the moving one for few rows, the stationary one for a single column.

    Then its copy costs more than rows that lie far apart.
    """
    name = inst.operands()[number][0].name
    if name == inst.effects.moving:
        return all(to.partitions <= FEW_ROWS for to in inst.writes())
    return name == inst.effects.stationary and all(to.free_elements == 1 for to in inst.writes())


def _is_plain(access: Access) -> bool:
    """True if its rows are dense, whatever lies between them."""
    return len(access.shape) == 2 and access.strides[1] == 1 and not access.dtype.is_packed


def _place(target: Access, access: Access) -> tuple[int, tuple[int, ...]] | None:
    """Offset from the first element of ``target``, and strides there, of an access to a dense tile of its elements.

    Both have the same elements, element number by element number. None if strides cannot say where they are.
    """
    offset, shape, strides = access.offset, access.shape, access.strides
    dims = coalesced(zip(target.strides, target.shape, strict=True))
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
