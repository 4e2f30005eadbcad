"""Choose a layout for each tile that matrix products use (:mod:`nki.numerics.layouts`).

A product, and what fills its operands, accept more layouts than the dense one. The stage collects for each tile what
all its uses accept, and puts a tile of the best of these layouts in its place. Where an operand of bfloat16 has no such
tile, but several products read one window of it while nothing writes it, the window is copied once in the layout: a
product converts an operand that is not in its layout, each time and in each thread.

What loops or run-time indices touch stays dense, and so does what is read as another dtype.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.analysis.liveness import shortest_that_fit
from nki.analysis.uses import Use, Uses, uses_of, with_effect
from nki.backend.cpu.kernel_ir.nodes import FEW_ROWS
from nki.base import dtype as dt
from nki.base import knobs
from nki.base.dtype import DType
from nki.ir.instruction import Inst
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Form, Tensor
from nki.ir.windows import has_dense_rows, transposed
from nki.isa.build import copy_tile
from nki.isa.tables.enums import engine
from nki.numerics.layouts import BLOCKS, DENSE, MOST_ROWS, PADDED, PAIR_COLUMNS, PAIR_PANELS, PANELS, Layout
from nki.numerics.matmul.contract import BLOCK, FITS_BFLOAT16, GROUP, PANEL
from nki.numerics.matmul.host import has_blocks, has_pairs
from nki.target.model import Target
from nki.transforms.rewriter import Rewriter, RewritingStage, in_other, is_plain, never_written

_CROWDED: Final = 256
"""Elements of float32: rows of a multiple of them share few sets of the first-level cache."""
_LEAST_ROWS: Final = 32
"""Rows of sums from which on they are too many for their sets."""

_MOST_BYTES: Final = 8 << 20
"""Bytes of copies that live at one time, beside the tiles of the program."""
_MOST_TOGETHER: Final = 1 << 20
"""Bytes of copies that follow each other; all but the first stand earlier than they must."""

Layouts = tuple[Layout, ...]
"""The layout in which a product reads or writes each operand fastest."""


@dataclass(frozen=True)
class AssignLayouts(RewritingStage):
    """Give tiles the layouts that matrix products read fastest."""

    name: ClassVar[str] = "layouts"
    about: ClassVar[tuple[str, ...]] = ("moving",)
    has_pairs: Callable[[], bool] = has_pairs
    """True if the processor multiplies bfloat16 in pairs, or in tiles of pairs."""
    has_blocks: Callable[[], bool] = has_blocks
    """True if the register tiles of this processor have whole blocks of rows."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with layouts."""
        products = self._products(core)
        operands: dict[Layout, list[Use]] = {}
        for position, (inst, layouts) in products.items():
            for number, (access, layout) in enumerate(zip(inst.accesses(), layouts, strict=True)):
                if layout is not DENSE:
                    operands.setdefault(layout, []).append((position, number, access))
        if not operands:
            return core
        uses = uses_of(core.body, dict.fromkeys(access.tensor for each in operands.values() for _, _, access in each))
        rewriter = Rewriter(core.body)
        assigned = _assign(rewriter, products, operands, uses)
        fixed = never_written(core, program.signature)
        for layout in (PAIR_PANELS, PAIR_COLUMNS):
            dense = [use for use in operands.get(layout, ()) if use[2].tensor not in assigned]
            _copy_operands(rewriter, layout, dense, uses, fixed)
        return core.with_body(rewriter.statements())

    def check(self, before: Program, after: Program, target: Target) -> None:
        """Tiles with layouts are written, and have steps for all accesses; under ``OPEN_NKI_CHECK_STAGES=1``."""
        super().check(before, after, target)
        for inst in after.instructions() if knobs.check_stages() else ():
            for access in inst.accesses():
                layout = access.tensor.layout
                assert layout is DENSE or _has_steps(access), f"{inst} has elements that {layout} has not"

    def _products(self, core: CoreProgram) -> dict[int, tuple[Inst, Layouts]]:
        """The products of ``core`` by position, with their layouts."""
        products: dict[int, tuple[Inst, Layouts]] = {}
        of_form: dict[Form, Layouts] = {}
        for position, inst in with_effect(core.body, lambda effects: effects.moving):
            form = inst.known_form or inst.form()
            layouts = of_form.get(form)
            if layouts is None:
                layouts = of_form[form] = self._layouts(inst)
            products[position] = inst, layouts
        return products

    def _layouts(self, inst: Inst) -> Layouts:
        """The layouts of a product; what only moves data has one for its result alone."""
        effects, operands = inst.effects, inst.operands()
        if inst.form().has_runtime_index:
            return (DENSE,) * len(operands)
        layouts = dict.fromkeys(inst.write_names, PADDED)
        if effects.accumulation is not None and not effects.accumulation.moves(inst):
            of_name = {parameter.name: access for parameter, access in operands}
            stationary, moving = of_name.get(effects.stationary), of_name[effects.moving]
            layouts[effects.moving] = self._of_moving(stationary, moving)
            if stationary is not None:
                layouts[effects.stationary] = self._of_stationary(stationary, moving)
        return tuple([layouts.get(parameter.name, DENSE) for parameter, _ in operands])

    def _of_moving(self, stationary: Access | None, moving: Access) -> Layout:
        if moving.dtype is dt.bfloat16 and moving.partitions % GROUP == 0 and self.has_pairs():
            fits = stationary is not None and stationary.dtype in FITS_BFLOAT16 and stationary.free_elements > FEW_ROWS
            return PAIR_PANELS if fits else DENSE
        return PANELS

    def _of_stationary(self, stationary: Access, moving: Access) -> Layout:
        if stationary.dtype is dt.bfloat16:
            fits = moving.dtype in FITS_BFLOAT16 and moving.free_elements > 1
            return PAIR_COLUMNS if fits and self.has_pairs() else DENSE
        if stationary.dtype is not dt.float32 or moving.dtype is not dt.float32:
            return DENSE
        is_large = stationary.free_elements > FEW_ROWS and moving.free_elements >= PANEL
        return BLOCKS if is_large and self.has_blocks() else DENSE


def _assign(
    rewriter: Rewriter,
    products: Mapping[int, tuple[Inst, Layouts]],
    operands: Mapping[Layout, Sequence[Use]],
    uses: Mapping[Tensor, Uses],
) -> set[Tensor]:
    """Put a tile with a layout in the place of each that gains by it, if all its uses take it; the tiles replaced."""
    layout_of = {access.tensor: layout for layout, each in operands.items() for _, _, access in each}
    moved: list[Use] = []
    assigned: set[Tensor] = set()
    for tile, of_tile in uses.items():
        layout, both = layout_of[tile], [*of_tile.writes, *of_tile.reads]
        others = [use for use in both if use[0] not in products]
        if not _suits(layout, tile) or not (others or layout is PADDED):
            continue
        if not all(products[n][1][number] is layout for n, number, _ in both if n in products):
            continue
        if not all(_takes(rewriter.inst(n), access, layout) for n, _, access in others):
            continue
        new = Tensor(tile.name, tile.shape, tile.dtype, tile.buffer, span=tile.span, layout=layout)
        placed = list(in_other(both, new))
        if not all(_fits(access) for access in {id(access): access for _, _, access in placed}.values()):
            continue
        assigned.add(tile)
        if not layout.pairs:
            moved += placed
            continue
        moved += [use for use in placed if use[0] in products]
        for position, _, access in placed:
            if position not in products:
                inst = rewriter.inst(position)
                rewriter.put(position, _filled(access, _rows_moved(inst), inst))
    rewriter.replace(moved)
    return assigned


def _copy_operands(
    rewriter: Rewriter,
    layout: Layout,
    operands: Sequence[Use],
    uses: Mapping[Tensor, Uses],
    fixed: Collection[Tensor],
) -> None:
    """Copy each window that several of ``operands``, of products, read, once in ``layout``, as far as memory allows.

    ``fixed``: tensors that nothing writes. Those whose products are nearest to each other are copied first.
    """
    windows: dict[tuple[object, ...], list[Use]] = {}
    for use in operands:
        position, _, access = use
        of_tensor = uses.get(access.tensor)
        if of_tensor and _is_packable(access) and (access.buffer.on_chip or access.tensor in fixed):
            contents = bisect_left(of_tensor.writes, position, key=lambda write: write[0])
            key = access.tensor, contents, access.offset, access.shape, access.strides
            windows.setdefault(key, []).append(use)
    spans = [((reads[0][0], reads[-1][0], reads[0][2].nbytes), reads) for reads in windows.values() if len(reads) > 1]
    chosen = sorted(shortest_that_fit(spans, len(rewriter.body), _MOST_BYTES), key=lambda each: each[0])
    for begin, reads in _together([reads for _, reads in chosen], fixed):
        access = reads[0][2]
        tensor = Tensor(access.name, access.shape, access.dtype, Buffer.sbuf, span=access.tensor.span, layout=layout)
        tile = Access.whole(tensor)
        rewriter.insert(begin, _filled(tile, access, rewriter.inst(reads[0][0])))
        rewriter.replace((position, number, tile) for position, number, _ in reads)


def _together(windows: Sequence[Sequence[Use]], fixed: Collection[Tensor]) -> Iterator[tuple[int, Sequence[Use]]]:
    """Each window with the position before which its copy stands: that of its first product, or an earlier one.

    Copies of what nothing writes follow each other, up to :data:`_MOST_TOGETHER`: threads meet between a copy and a
    product, and not between copies.
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


def _filled(tile: Access, source: Access, place: Inst) -> Inst:
    """A copy of ``source`` to ``tile``, which has a layout of pairs, at the line of ``place``.

    A partition of the copy is one of the instructions around it: of a stationary operand a column, which is a partition
    of the product's result.
    """
    if tile.tensor.layout is PAIR_COLUMNS:
        tile, source = transposed(tile), transposed(source)
    copy = copy_tile(tile, source)
    copy.where = place.where
    return copy


def _is_packable(access: Access) -> bool:
    """True if a window of a dense tensor can be copied to a tile in a layout of pairs."""
    if access.tensor.layout is not DENSE or not has_dense_rows(access) or access.strides[0] <= 0:
        return False
    return _has_whole_pairs(access.dtype, *access.shape)


def _has_whole_pairs(dtype: DType, rows: int, columns: int) -> bool:
    return dtype is dt.bfloat16 and rows % GROUP == columns % PANEL == 0 and rows <= MOST_ROWS


def _suits(layout: Layout, tile: Tensor) -> bool:
    """True if a tile of this shape and dtype gains by ``layout``."""
    rows, columns = tile.shape[0], tile.free_size
    if layout is PADDED:
        is_sum = tile.buffer is Buffer.psum and tile.dtype is dt.float32
        return is_sum and rows >= _LEAST_ROWS and columns % _CROWDED == 0
    if tile.buffer is not Buffer.sbuf or len(tile.shape) != 2 or tile.dtype.is_packed:
        return False
    if layout.pairs:
        return _has_whole_pairs(tile.dtype, rows, columns)
    if layout is BLOCKS:
        return tile.dtype is dt.float32 and rows > 1 and columns % BLOCK == 0
    return rows > 1 and columns % PANEL == 0 and columns != PANEL


def _fits(access: Access) -> bool:
    """True if an instruction can use a window of a tile with a layout: rows as they are, all of them but for panels.

    What packs pairs, and what reads them, takes whole groups of columns.
    """
    tile, layout = access.tensor, access.tensor.layout
    if layout is not PADDED:
        if len(access.shape) != 2 or access.strides != (tile.free_size, 1):
            return False
        if layout is not PANELS and access.shape[0] != tile.shape[0]:
            return False
        if layout.pairs and access.shape[1] % PANEL | access.offset % PANEL:
            return False
    return _has_steps(access)


def _has_steps(access: Access) -> bool:
    """True if the elements of ``access`` are at regular steps in the layout of its tensor."""
    tile = access.tensor
    if access.dtype is not tile.dtype or access.dynamic is not None:
        return False
    return tile.layout.steps(tile.shape[0], tile.free_size, access.offset, access.pattern()) is not None


def _takes(inst: Inst, access: Access, layout: Layout) -> bool:
    """True if an instruction that is no product can use ``access`` in ``layout``: others than sums, as it fills it."""
    if layout is PADDED:
        return not (inst.known_form or inst.form()).has_runtime_index
    copy = inst.as_copy()
    moved = copy or inst.as_transposition()
    if moved is None or moved.dst is not access or moved.src.tensor is access.tensor or len(moved.src.shape) != 2:
        return False
    if moved.src.dtype is not access.dtype or not is_plain(inst):
        return False
    if layout is BLOCKS:
        return moved.src.strides[1] == 1
    rows = _rows_moved(inst)
    if rows.shape != access.shape:
        return False
    if layout is PAIR_COLUMNS:
        row, column = rows.strides
        return (column == 1 and row > 0) or (row == 1 and column >= rows.shape[0])  # dense rows, or dense columns
    if layout is PAIR_PANELS:
        return copy is not None and rows.strides[1] == 1
    return copy is not None and inst.engines == (engine.dma,) and access.shape == access.tensor.shape


def _rows_moved(inst: Inst) -> Access:
    """The source of a copy or of a transposition, as the rows of its result."""
    copy, turn = inst.as_copy(), inst.as_transposition()
    if copy is not None:
        return copy.src
    assert turn is not None
    return transposed(turn.src)
