"""Choose a layout for each tile that matmuls use, of the rows of a table
(:mod:`nki.backend.cpu.stages.tile_layouts`).

A matmul, and what fills its operands, accept more layouts than the dense one. The stage collects for each tile what
all its uses accept, and puts a tile of the best of these layouts in its place. Where an operand of bfloat16 has no such
tile, but several matmuls read one window of it while nothing writes it, the window is copied once in the layout: a
matmul converts an operand that is not in its layout, each time and in each thread.

What loops or run-time indices touch stays dense, and so does what is read as another dtype.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.analysis.liveness import shortest_that_fit
from nki.analysis.uses import Use, Uses, uses_of, with_effect
from nki.backend.cpu.stages.tile_layouts import TILE_LAYOUTS, TileLayout, rows_moved
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Form, Tensor
from nki.ir.windows import has_dense_rows, transposed
from nki.isa.build import copy_tile
from nki.target.model import Target
from nki.transforms.rewriter import Rewriter, RewritingStage, in_other, never_written

_MOST_BYTES: Final = 8 << 20
"""Bytes of copies that live at one time, beside the tiles of the program."""
_MOST_TOGETHER: Final = 1 << 20
"""Bytes of copies that follow each other; all but the first stand earlier than they must."""

Layouts = tuple[TileLayout | None, ...]
"""The layout in which a matmul reads or writes each operand fastest, None for the dense one."""


@dataclass(frozen=True)
class AssignLayouts(RewritingStage):
    """Give tiles the layouts that matmuls read fastest."""

    name: ClassVar[str] = "layouts"
    about: ClassVar[tuple[str, ...]] = ("moving",)
    table: tuple[TileLayout, ...] = TILE_LAYOUTS

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with layouts."""
        matmuls = self._matmuls(core)
        operands: dict[TileLayout, list[Use]] = {}
        for position, (inst, layouts) in matmuls.items():
            for number, (access, row) in enumerate(zip(inst.accesses(), layouts, strict=True)):
                if row is not None:
                    operands.setdefault(row, []).append((position, number, access))
        if not operands:
            return core
        uses = uses_of(core.body, dict.fromkeys(access.tensor for each in operands.values() for _, _, access in each))
        rewriter = Rewriter(core.body)
        assigned = _assign(rewriter, matmuls, operands, uses)
        fixed = never_written(core, program.signature)
        for row in self.table:
            if row.layout.pairs:
                dense = [use for use in operands.get(row, ()) if use[2].tensor not in assigned]
                _copy_operands(rewriter, row, dense, uses, fixed)
        return core.with_body(rewriter.statements())

    def check(self, before: Program, after: Program, target: Target) -> None:
        """Tiles with layouts are written, and have steps for all accesses; under ``OPEN_NKI_CHECK_STAGES=1``."""
        super().check(before, after, target)
        for inst in after.instructions() if knobs.check_stages() else ():
            for access in inst.accesses():
                layout = access.tensor.layout
                assert layout is DENSE or _has_steps(access), f"{inst} has elements that {layout} has not"

    def _matmuls(self, core: CoreProgram) -> dict[int, tuple[Inst, Layouts]]:
        """The matmuls of ``core`` by position, with their layouts."""
        matmuls: dict[int, tuple[Inst, Layouts]] = {}
        of_form: dict[Form, Layouts] = {}
        for position, inst in with_effect(core.body, lambda effects: effects.moving):
            form = inst.form
            layouts = of_form.get(form)
            if layouts is None:
                layouts = of_form[form] = self._layouts(inst)
            matmuls[position] = inst, layouts
        return matmuls

    def _layouts(self, inst: Inst) -> Layouts:
        """The layouts of a matmul; what only moves data has one for its result alone."""
        effects, operands = inst.effects, inst.operands()
        if inst.form.has_runtime_index:
            return (None,) * len(operands)
        found = {
            parameter.name: self._row("result", access, None)
            for parameter, access in operands
            if parameter.name in inst.write_names
        }
        if effects.accumulation is not None and not effects.accumulation.moves(inst):
            of_name = {parameter.name: access for parameter, access in operands}
            stationary, moving = of_name.get(effects.stationary), of_name[effects.moving]
            found[effects.moving] = self._row("moving", moving, stationary)
            if stationary is not None:
                found[effects.stationary] = self._row("stationary", stationary, moving)
        return tuple([found.get(parameter.name) for parameter, _ in operands])

    def _row(self, operand: str, access: Access, other: Access | None) -> TileLayout | None:
        """The row of the table for an operand that has ``other`` beside it in the matmul."""
        row = next((row for row in self.table if row.operand == operand and row.claims(access) and row.exists()), None)
        return row if row is not None and row.wants(access, other) else None


def _assign(
    rewriter: Rewriter,
    matmuls: Mapping[int, tuple[Inst, Layouts]],
    operands: Mapping[TileLayout, Sequence[Use]],
    uses: Mapping[Tensor, Uses],
) -> set[Tensor]:
    """Replace each tile that gains by a layout, if all its uses take it; the tiles replaced."""
    row_of = {access.tensor: row for row, each in operands.items() for _, _, access in each}
    moved: list[Use] = []
    assigned: set[Tensor] = set()
    for tile, of_tile in uses.items():
        row, both = row_of[tile], [*of_tile.writes, *of_tile.reads]
        others = [use for use in both if use[0] not in matmuls]
        if not _suits(row, tile) or not (others or row.operand == "result"):
            continue
        if not all(matmuls[n][1][number] is row for n, number, _ in both if n in matmuls):
            continue
        if not all(row.takes(rewriter.inst(n), access) for n, _, access in others):
            continue
        new = Tensor(tile.name, tile.shape, tile.dtype, tile.buffer, span=tile.span, layout=row.layout)
        placed = list(in_other(both, new))
        windows = {id(access): access for _, _, access in placed}.values()
        if not all(row.fits(access) and _has_steps(access) for access in windows):
            continue
        assigned.add(tile)
        if not row.layout.pairs:
            moved += placed
            continue
        moved += [use for use in placed if use[0] in matmuls]
        for position, _, access in placed:
            if position not in matmuls:
                inst = rewriter.inst(position)
                source = rows_moved(inst)
                assert source is not None, "layouts of pairs take what copies and transpositions move"
                rewriter.put(position, _filled(row, access, source, inst))
    rewriter.replace(moved)
    return assigned


def _copy_operands(
    rewriter: Rewriter,
    row: TileLayout,
    operands: Sequence[Use],
    uses: Mapping[Tensor, Uses],
    fixed: Collection[Tensor],
) -> None:
    """Copy each window that several of ``operands``, of matmuls, read, once in its layout, while memory allows it.

    ``fixed``: tensors that nothing writes. Windows with the nearest matmuls are copied first.
    """
    windows: dict[tuple[object, ...], list[Use]] = {}
    for use in operands:
        position, _, access = use
        of_tensor = uses.get(access.tensor)
        if of_tensor and _is_packable(row, access) and (access.buffer.on_chip or access.tensor in fixed):
            contents = bisect_left(of_tensor.writes, position, key=lambda write: write[0])
            key = access.tensor, contents, access.offset, access.shape, access.strides
            windows.setdefault(key, []).append(use)
    spans = [((reads[0][0], reads[-1][0], reads[0][2].nbytes), reads) for reads in windows.values() if len(reads) > 1]
    chosen = sorted(shortest_that_fit(spans, len(rewriter.body), _MOST_BYTES), key=lambda each: each[0])
    for begin, reads in _together([reads for _, reads in chosen], fixed):
        access, layout = reads[0][2], row.layout
        tensor = Tensor(access.name, access.shape, access.dtype, Buffer.sbuf, span=access.tensor.span, layout=layout)
        tile = Access.whole(tensor)
        rewriter.insert(begin, _filled(row, tile, access, rewriter.inst(reads[0][0])))
        rewriter.replace((position, number, tile) for position, number, _ in reads)


def _together(windows: Sequence[Sequence[Use]], fixed: Collection[Tensor]) -> Iterator[tuple[int, Sequence[Use]]]:
    """Each window with the position before which its copy stands: its first matmul, or earlier.

    Copies of what nothing writes follow each other, up to :data:`_MOST_TOGETHER`: threads meet between a copy and a
    matmul, and not between copies.
    """
    first, nbytes = -1, 0
    for reads in windows:
        position, _, access = reads[0]
        if access.tensor not in fixed:
            yield position, reads
            continue
        nbytes += access.nbytes
        if first < 0 or nbytes > _MOST_TOGETHER:
            first, nbytes = position, access.nbytes
        yield first, reads


def _filled(row: TileLayout, tile: Access, source: Access, place: Inst) -> Inst:
    """A copy of ``source`` to ``tile``, which has a layout of pairs, at the line of ``place``.

    A partition of the copy is one of the instructions around it: of a stationary operand a column, which is a partition
    of the matmul's result.
    """
    if row.operand == "stationary":
        tile, source = transposed(tile), transposed(source)
    copy = copy_tile(tile, source)
    copy.where = place.where
    return copy


def _is_packable(row: TileLayout, access: Access) -> bool:
    """True if a window of a dense tensor can be copied to a tile in a layout of pairs."""
    if access.tensor.layout is not DENSE or not has_dense_rows(access) or access.strides[0] <= 0:
        return False
    return row.suits(access.dtype, *access.shape)


def _suits(row: TileLayout, tile: Tensor) -> bool:
    """True if a tile of this shape and dtype gains by the layout of ``row``; operands have two dimensions."""
    if tile.buffer is not row.buffer or tile.dtype.is_packed or (row.operand != "result" and len(tile.shape) != 2):
        return False
    return row.suits(tile.dtype, tile.shape[0], tile.free_size)


def _has_steps(access: Access) -> bool:
    """True if the elements of ``access`` are at regular steps in the layout of its tensor."""
    tile = access.tensor
    if access.dtype is not tile.dtype or access.dynamic is not None:
        return False
    return tile.layout.steps(tile.shape[0], tile.free_size, access.offset, access.pattern()) is not None
