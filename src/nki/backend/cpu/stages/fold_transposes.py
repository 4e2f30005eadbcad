"""Let transpositions write the stationary operand of matmuls directly, without a copy through PSUM.

The Tensor engine transposes into PSUM, and the operands of matmuls are in SBUF: so a kernel copies what it has
transposed. A CPU has one memory. Without the copy, a partition of what is transposed is a column of the stationary
operand, and a partition of the matmul's result; threads that share partitions need not meet from what is transposed to
the matmul and beyond.

A copy goes if it is the only reader of what transpositions have filled, and if matmuls alone read the tile that it
fills, as their stationary operand. Where several transpositions fill a result side by side, each gets a tile of its
own, if no matmul reads columns of two. What loops or run-time indices touch is not changed.

A processor that multiplies words reads bfloat16 the way it was before the transposition: then that goes, too, if
nothing writes what it reads before the last matmul.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from nki.analysis.uses import Use, Uses, is_matmul, uses_of, with_effect
from nki.base import element_types as dt
from nki.ir.effects import Copy
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Tensor
from nki.ir.windows import Parts, has_dense_rows, is_all, side_by_side, transposed
from nki.numerics.matmul.contract import FITS_BFLOAT16, GROUP, MOST_ROWS
from nki.numerics.matmul.host import has_pairs
from nki.target.model import Target
from nki.transforms.rewriter import Rewriter, RewritingStage, in_place_of, is_plain, never_written


@dataclass(frozen=True)
class FoldTransposes(RewritingStage):
    """Remove copies between transpositions and matmuls."""

    name: ClassVar[str] = "fold_transposes"
    about: ClassVar[tuple[str, ...]] = ("transpose",)
    has_pairs: Callable[[], bool] = has_pairs
    """True if the processor multiplies bfloat16 in pairs, or in tiles of pairs."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` without copies of transposed stationary operands."""
        transposing = with_effect(core.body, lambda effects: effects.transpose is not None)
        transposes = {n: transpose for n, inst in transposing if is_plain(inst) and (transpose := inst.as_transpose())}
        results = {transpose.dst.tensor for transpose in transposes.values()}
        copying = with_effect(core.body, lambda effects: bool(results) and effects.copy is not None)
        copies = [
            (n, copy)
            for n, inst in copying
            if (copy := inst.as_copy()) and copy.src.tensor in results and is_plain(inst)
        ]
        if not copies:
            return core
        tensors = (
            *results,
            *(copy.dst.tensor for _, copy in copies),
            *(transpose.src.tensor for transpose in transposes.values()),
        )
        fixed = never_written(core, program.signature)
        folding = _Folding(Rewriter(core.body), transposes, uses_of(core.body, tensors))
        for position, copy in copies:
            for transposition, reads in folding.write_directly(position, copy):
                if self.has_pairs():
                    folding.read_before_transpose(transposition, reads, fixed)
        return core.with_body(folding.rewriter.statements())


@dataclass(frozen=True)
class _Folding:
    """The rewriting of one core: its transpositions by position, and the uses of the tensors around them."""

    rewriter: Rewriter
    transposes: dict[int, Copy]
    uses: dict[Tensor, Uses]

    def write_directly(self, position: int, copy: Copy) -> Sequence[tuple[int, list[Use]]]:
        """Let the transpositions that fill what ``copy`` moves write what matmuls read, without the copy.

        Gives the position of each, with the operands that read it; nothing, and no change, where that does not hold.
        """
        result, filled = self.uses.get(copy.src.tensor), self.uses.get(copy.dst.tensor)
        if result is None or filled is None or not _moves_all(copy) or len(filled.writes) != 1 or not filled.reads:
            return ()
        writes = result.writes
        if len(result.reads) != 1 or writes[-1][0] > position or any(n not in self.transposes for n, _, _ in writes):
            return ()
        if not all(self._is_stationary(use) for use in filled.reads):
            return ()
        parts = _parts(copy.dst.tensor, [access for _, _, access in writes])
        moved = in_place_of(filled.reads, parts)
        if not moved:
            return ()
        part_of = dict(parts)
        direct: list[Use] = [(n, number, part_of[access.offset]) for n, number, access in writes]
        if not self.rewriter.replace([*moved, *direct]):
            return ()
        self.rewriter.put(position, None)
        return [(n, [read for read in moved if read[2].tensor is part.tensor]) for n, _, part in direct]

    def read_before_transpose(self, position: int, reads: Sequence[Use], fixed: Collection[Tensor]) -> None:
        """Let matmuls read what the transposition at ``position`` reads, without it, if that is still there."""
        source, dtype = self.transposes[position].src, self.transposes[position].dst.dtype
        uses = self.uses.get(source.tensor)
        if uses is None or not reads or not (source.buffer.on_chip or source.tensor in fixed):
            return  # else another core may write it
        if not _fits_tiles(source) or dtype is not source.dtype:
            return
        if any(position < write <= reads[-1][0] for write, _, _ in uses.writes):
            return
        moved = in_place_of(reads, [(0, transposed(source))])
        if moved and all(self._multiplies_pairs(n, access) for n, _, access in moved) and self.rewriter.replace(moved):
            self.rewriter.put(position, None)

    def _is_stationary(self, use: Use) -> bool:
        """True if a matmul reads its stationary operand."""
        inst = self.rewriter.inst(use[0])
        is_usual = is_matmul(inst) and not inst.form.has_runtime_index
        return is_usual and inst.operands()[use[1]][0].name == inst.effects.stationary

    def _multiplies_pairs(self, position: int, stationary: Access) -> bool:
        """True if a matmul can be one of pairs with this operand."""
        inst = self.rewriter.inst(position)
        (moving,) = (access for parameter, access in inst.operands() if parameter.name == inst.effects.moving)
        fits = moving.dtype in FITS_BFLOAT16 and moving.free_elements > 1
        return fits and not any(n % GROUP for n in stationary.shape)


def _moves_all(copy: Copy) -> bool:
    """True if ``copy`` moves all of a tensor to all of one with the same rows, unchanged."""
    one, two = copy.dst.tensor, copy.src.tensor
    return one.dtype is two.dtype and one.shape[0] == two.shape[0] and is_all(copy.dst) and is_all(copy.src)


def _parts(tile: Tensor, windows: Sequence[Access]) -> Parts:
    """A tile for each of the ``windows`` that are columns of their own of what is copied to ``tile``, in order.

    Empty if they are not. If one window is everything, it is ``tile`` itself.
    """
    rows, places = tile.shape[0], list[tuple[Access, Access]]()
    for number, window in enumerate(sorted(windows, key=lambda window: window.offset)):
        shape = rows, window.shape[-1]
        is_whole = shape[1] == tile.free_size
        part = (
            tile if is_whole else Tensor(f"{tile.name} part {number}", shape, tile.dtype, tile.buffer, span=tile.span)
        )
        places.append((window, Access(part, 0, shape, (shape[1], 1), tile.dtype)))
    return side_by_side(places)


def _fits_tiles(source: Access) -> bool:
    """True if matmuls of pairs can read the source of a transposition as their stationary operand."""
    if source.dtype is not dt.bfloat16 or not has_dense_rows(source):
        return False
    return source.shape[0] % GROUP == source.shape[1] % GROUP == 0 and source.shape[1] <= MOST_ROWS
