"""Stage ``operand_reuse``: let a result take the bytes of an operand that is not read again, where few tiles fit.

The stage ``allocate`` gives every result bytes of its own. Where the tiles are so large that few fit into SBUF, loads
then wait for memory: of a softmax on rows of 32 KiB each row needs four tiles, and with results in the bytes of
operands one. No document says what the vendor's compiler does; authors write in place by hand, which is legal for the
same instructions. So only profiles run this stage, and keep the faster program. Other programs have results in
tiles of operands where tiles do not fit and would spill (:mod:`nki.passes.allocate`). Results are the same either way.

A result takes over the tile of an operand if the instruction streams both element by element
(:attr:`nki.ir.effects.Effects.streamed`), writes and reads whole tiles of one shape and dtype, is the first to use the
one and the last to use the other, and needs the results of all other readers of the operand: it would wait for these
otherwise. Only tiles that no loop on the device uses take part, and no kernel that has addresses for its tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.analysis.liveness import live_ranges
from nki.analysis.uses import StatementUses
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.ir.types import Access, Buffer, Tensor
from nki.passes.renaming import in_other_tiles
from nki.target.memory_spaces import memory_spaces
from nki.target.model import Target

FEW_TILES: Final = 16
"""Tiles of the usual size in SBUF below which loads may wait for memory: a kernel has some four of each iteration."""
_MOST_ANCESTORS: Final = 64
"""Instructions that are looked at for the results that one needs."""


@dataclass(frozen=True)
class ReuseOperands(Stage):
    """Stage ``operand_reuse``. It runs between stages ``order`` and ``allocate``."""

    name: ClassVar[str] = "operand_reuse"

    def run(self, program: Program, target: Target) -> Program:
        """``program`` with results in the bytes of operands; itself if there are none, or many tiles fit."""
        cores = [_with_reuse(core, target) for core in program.cores]
        same = all(new is old for new, old in zip(cores, program.cores, strict=True))
        return program if same else program.with_cores(cores)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Instructions stay, and each read finds what the same instruction has written."""
        for old, new in zip(before.cores, after.cores, strict=True):
            if new is not old:
                check(old, new)


def _with_reuse(core: CoreProgram, target: Target) -> CoreProgram:
    """``core`` with results in the bytes of operands, if few tiles fit."""
    space, _ = memory_spaces(target)
    ranges = live_ranges(core, target)[Buffer[space.name]]
    if not ranges:
        return core
    usual = sum(live.size * live.size for live in ranges) / sum(live.size for live in ranges)  # of most bytes
    return in_place(core) if space.usable < FEW_TILES * usual else core


def in_place(core: CoreProgram) -> CoreProgram:
    """``core`` with results in the bytes of operands; itself if there are none."""
    if any(tensor.address is not None or tensor in core.placement for tensor in core.tensors):
        return core
    uses = StatementUses(core.body)
    tiles: dict[Tensor, Tensor] = {}
    for number, inst in enumerate(core.body):
        if isinstance(inst, Inst) and inst.effects.streamed and (pair := _pair(inst, number, core, uses)) is not None:
            result, operand = pair
            tiles[result] = tiles.get(operand, operand)
    return in_other_tiles(core, tiles) if tiles else core


def _pair(inst: Inst, number: int, core: CoreProgram, uses: StatementUses) -> tuple[Tensor, Tensor] | None:
    """The result of ``inst`` and the operand with the tile that it may take over."""
    dst = inst.writes()[0]
    result = dst.tensor
    if not _is_free(dst, uses) or uses.first(result) != number:
        return None
    for name in inst.effects.streamed:
        source: Access | None = inst.__dict__[name]
        if source is None or not _is_free(source, uses) or uses.last(source.tensor) != number:
            continue
        operand = source.tensor
        alike = operand.shape == result.shape and operand.dtype is result.dtype
        others = [access for access in inst.accesses() if access.tensor is operand and not access.same_place(source)]
        if alike and not others and _needs(core.body, number, uses.readers[operand], uses.first(operand), uses):
            return result, operand
    return None


def _is_free(access: Access, uses: StatementUses) -> bool:
    """Test if ``access`` is all of a tile in SBUF that no loop uses."""
    tensor = access.tensor
    whole = access.same_place(Access.whole(tensor))
    return tensor.buffer is Buffer.sbuf and whole and tensor not in uses.in_loops


def _needs(body: Sequence[Statement], number: int, others: Iterable[int], first: int, uses: StatementUses) -> bool:
    """Test if statement ``number`` needs results of all ``others``, which come after ``first``."""
    missing = set(others) - {number}
    pending, known = [number], {number}
    while missing and pending and len(known) <= _MOST_ANCESTORS:
        for access in touched(body[pending.pop()]):
            for writer in reversed(uses.writers[access.tensor]):
                if writer < first or len(known) > _MOST_ANCESTORS:
                    break
                if writer < number and writer not in known:
                    known.add(writer)
                    missing.discard(writer)
                    pending.append(writer)
    return not missing


def check(before: CoreProgram, after: CoreProgram) -> None:
    """Raise AssertionError unless ``after`` is ``before`` in other tiles, and each read finds the same results."""
    expected: dict[Tensor, int] = {}
    actual: dict[Tensor, int] = {}
    for number, (old, new) in enumerate(zip(before.body, after.body, strict=True)):
        if isinstance(old, Inst) and isinstance(new, Inst):
            assert type(old) is type(new) and old.key() == new.key(), f"core {before.rank}: {new!r} is new"
            for one, other in zip(old.reads(), new.reads(), strict=True):
                same = expected.get(one.tensor) == actual.get(other.tensor) and one.offset == other.offset
                assert same, f"core {before.rank}: {new!r} finds another '{one.name}' in '{other.name}'"
        else:
            assert new is old, f"core {before.rank}: {new!r} is new"
        for one, other in zip(touched(old), touched(new), strict=True):
            if not isinstance(old, Inst) or one.tensor in {access.tensor for access in old.changes()}:
                expected[one.tensor] = actual[other.tensor] = number
