"""Choose a layout for each tile that matrix products use (:mod:`nki.numerics.layouts`).

A product, and what fills its operands, accept more layouts than the dense one. The stage collects for each tile what
all its uses accept, and puts a tile of the best of these layouts in its place. Where an operand of bfloat16 has no such
tile, but several products read one window of it, the window is copied once in the layout
(:mod:`~nki.backend.cpu.stages.copy_operands`).

What loops or run-time indices touch stays dense, and so does what is read as another dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.backend.cpu.kernel_ir.nodes import FEW_ROWS
from nki.backend.cpu.stages.copy_operands import copy_operands, filled
from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, AccessForm, Buffer, Form, Tensor
from nki.isa.tables.enums import engine
from nki.numerics.layouts import BLOCKS, DENSE, PADDED, PAIR_COLUMNS, PAIR_PANELS, PANELS, Layout
from nki.numerics.matmul import BLOCK, FITS_BFLOAT16, PANEL
from nki.numerics.matmul_entry import has_blocks, has_pairs
from nki.numerics.words.operands import GROUP, MOST_ROWS
from nki.target.model import Target

_CROWDED: Final = 256
"""Elements of float32: rows of a multiple of them share few sets of the first-level cache."""
_LEAST_ROWS: Final = 32
"""Rows of sums from which on they are too many for their sets."""

Layouts = tuple[Layout, ...]
"""Layouts beside the dense one, the best first."""


@dataclass(frozen=True)
class AssignLayouts(CoreStage):
    """Give tiles the layouts that matrix products read fastest."""

    name: ClassVar[str] = "layouts"
    has_pairs: Callable[[], bool] = has_pairs
    """True if the processor multiplies bfloat16 in pairs, or in tiles of pairs."""
    has_blocks: Callable[[], bool] = has_blocks
    """True if the register tiles of this processor have whole blocks of rows."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with layouts."""
        kinds = {kind for kind in set(map(type, core.body)) if issubclass(kind, Inst) and kind.effects.moving}
        if not kinds:
            return core
        operands = _Operands(core.body, kinds, self)
        body = _assigned(core.body, operands)
        fixed = {*program.signature.inputs, *core.constants()}.difference(program.signature.outputs)
        body = copy_operands(body, {each: operands.numbers_in(each) for each in (PAIR_PANELS, PAIR_COLUMNS)}, fixed)
        return core if body is core.body else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Tiles with layouts have writers and readers, and steps for all accesses; under ``OPEN_NKI_CHECK_STAGES=1``.

        Sums of a product, which are padded, may have no reader.
        """
        for core in after.cores if knobs.check_stages() else ():
            read, written = set[Tensor](), set[Tensor]()
            for inst in core.instructions():
                for access, reads, writes in inst.uses():
                    tile = access.tensor
                    if tile.layout is not DENSE:
                        read |= {tile} if reads or tile.layout is PADDED else set()
                        written |= {tile} if writes else set()
                        assert _has_steps(tile.layout, access), f"{inst} reaches elements that {tile.layout} has not"
            assert read == written, f"{self.name} left a tile without writers or without readers"


class _Operands:
    """The operands of the products of one core, and the layouts that they accept, by form."""

    def __init__(self, body: Sequence[Statement], kinds: set[type[Inst]], host: AssignLayouts) -> None:
        self._host = host
        self._of_form: dict[Form, tuple[Layouts, ...]] = {}
        self.kinds = kinds
        self.products: list[tuple[int, Inst, tuple[Layouts, ...]]] = []
        """Position of each product, itself, and the layouts that each of its operands accepts."""
        self.length = len(body)
        for position, inst in enumerate(body):
            if inst.__class__ in kinds and isinstance(inst, Inst):
                form = inst.known_form or inst.form()
                accepted = self._of_form.get(form)
                if accepted is None:
                    accepted = self._of_form[form] = self._accepted(inst)
                self.products.append((position, inst, accepted))

    def numbers_in(self, layout: Layout) -> list[int | None]:
        """For each statement, the number of the operand that accepts ``layout``."""
        numbers: list[int | None] = [None] * self.length
        of_accepted: dict[int, int | None] = {}
        for position, _, accepted in self.products:
            if id(accepted) not in of_accepted:
                of_accepted[id(accepted)] = next((n for n, each in enumerate(accepted) if layout in each), None)
            numbers[position] = of_accepted[id(accepted)]
        return numbers

    def _accepted(self, inst: Inst) -> tuple[Layouts, ...]:
        """The layouts of each operand of a product; of one that only moves data, its result alone has some."""
        effects, operands = inst.effects, inst.operands()
        if inst.form().has_runtime_index:
            return ((),) * len(operands)
        layouts: dict[str, Layouts] = dict.fromkeys(inst.write_names, (PADDED,))
        if effects.accumulation is not None and not effects.accumulation.moves(inst):
            of_name = {parameter.name: access for parameter, access in operands}
            stationary, moving = of_name.get(effects.stationary), of_name[effects.moving]
            layouts[effects.moving] = self._of_moving(stationary, moving)
            if stationary is not None:
                layouts[effects.stationary] = self._of_stationary(stationary, moving)
        return tuple([layouts.get(parameter.name, ()) for parameter, _ in operands])

    def _of_moving(self, stationary: Access | None, moving: Access) -> Layouts:
        if moving.dtype is dt.bfloat16 and moving.partitions % GROUP == 0 and self._host.has_pairs():
            fits = stationary is not None and stationary.dtype in FITS_BFLOAT16 and stationary.free_elements > FEW_ROWS
            return (PAIR_PANELS,) if fits else ()
        return (PANELS,)

    def _of_stationary(self, stationary: Access, moving: Access) -> Layouts:
        if stationary.dtype is dt.bfloat16:
            fits = moving.dtype in FITS_BFLOAT16 and moving.free_elements > 1
            return (PAIR_COLUMNS,) if fits and self._host.has_pairs() else ()
        if stationary.dtype is not dt.float32 or moving.dtype is not dt.float32:
            return ()
        is_large = stationary.free_elements > FEW_ROWS and moving.free_elements >= PANEL
        return (BLOCKS,) if is_large and self._host.has_blocks() else ()


def _suits(layout: Layout, tile: Tensor) -> bool:
    """True if a tile of this shape and dtype gains by ``layout``."""
    rows, columns = tile.shape[0], tile.free_size
    if layout is PADDED:
        is_sum = tile.buffer is Buffer.psum and tile.dtype is dt.float32
        return is_sum and rows >= _LEAST_ROWS and columns % _CROWDED == 0
    if tile.buffer is not Buffer.sbuf or len(tile.shape) != 2 or tile.dtype.is_packed:
        return False
    if layout.pairs:
        return tile.dtype is dt.bfloat16 and rows % GROUP == columns % PANEL == 0 and rows <= MOST_ROWS
    if layout is BLOCKS:
        return tile.dtype is dt.float32 and rows > 1 and columns % BLOCK == 0
    return rows > 1 and columns % PANEL == 0 and columns != PANEL


def _has_steps(layout: Layout, access: Access) -> bool:
    """True if the elements of ``access`` are at regular steps in ``layout``."""
    tile = access.tensor
    if access.dtype is not tile.dtype or access.dynamic is not None:
        return False
    return layout.steps(tile.shape[0], tile.free_size, access.offset, access.pattern()) is not None


class _Tile:
    """A tile that products use: the layouts that all uses so far accept, and the uses."""

    __slots__ = ("_known", "accepted", "fills", "uses")

    def __init__(self, tile: Tensor, layouts: Layouts) -> None:
        self.accepted = tuple([layout for layout in layouts if _suits(layout, tile)])
        self.uses: list[tuple[int, int, Access]] = []
        """Position, number of the operand, and access."""
        self.fills: set[int] = set()
        """The positions of what fills it, others than products."""
        self._known: set[tuple[Layouts, int, AccessForm]] = set()

    def use(self, position: int, number: int, access: Access, layouts: Layouts) -> None:
        """Add a use that accepts ``layouts``."""
        key = layouts, access.offset, access.known_form or access.form
        if key not in self._known:
            self._known.add(key)
            self.accepted = tuple([layout for layout in self.accepted if layout in layouts and _fits(layout, access)])
        self.uses.append((position, number, access))


def _fits(layout: Layout, access: Access) -> bool:
    """True if an instruction can use ``access`` in ``layout``: rows as they are, all of them but for panels.

    What packs pairs, and what reads them, takes whole groups of columns.
    """
    if layout is not PADDED:
        tile = access.tensor
        if len(access.shape) != 2 or access.strides != (tile.free_size, 1):
            return False
        if layout is not PANELS and access.shape[0] != tile.shape[0]:
            return False
        if layout.pairs and access.shape[1] % PANEL | access.offset % PANEL:
            return False
    return _has_steps(layout, access)


def _assigned(body: tuple[Statement, ...], operands: _Operands) -> Sequence[Statement]:
    """``body`` with layouts; the same object if no tile gets one."""
    tiles = _tiles(operands)
    if tiles:
        _add_others(body, operands.kinds, tiles)
    edits: dict[int, dict[int, Access]] = {}
    pairs: set[int] = set()
    for tile, each in tiles.items():
        if not each.accepted or not (each.fills or each.accepted[0] is PADDED):
            continue
        layout = each.accepted[0]
        new = Tensor(tile.name, tile.shape, tile.dtype, tile.buffer, span=tile.span, layout=layout)
        places: dict[tuple[int, AccessForm], Access] = {}
        for position, number, access in each.uses:
            place = access.offset, access.known_form or access.form
            if place not in places:
                places[place] = Access(new, access.offset, access.shape, access.strides, access.dtype)
            edits.setdefault(position, {})[number] = places[place]
        if layout.pairs:
            pairs |= each.fills
    if not edits:
        return body
    changed = list(body)
    for position, accesses in edits.items():
        inst = changed[position]
        assert isinstance(inst, Inst)
        if position in pairs:
            (target,) = accesses.values()
            changed[position] = filled(target, _rows_moved(inst), inst)
        else:
            changed[position] = inst.with_operands(accesses)
    return changed


def _tiles(operands: _Operands) -> dict[Tensor, _Tile]:
    """The tiles that products use and that have a layout so far."""
    tiles: dict[Tensor, _Tile] = {}
    dense: set[Tensor] = set()
    for position, inst, accepted in operands.products:
        for number, (access, layouts) in enumerate(zip(inst.accesses(), accepted, strict=True)):
            tile = access.tensor
            each = tiles.get(tile)
            if each is None:
                each = None if tile in dense else _Tile(tile, layouts)
                if each is None or not each.accepted:
                    dense.add(tile)
                    continue
                tiles[tile] = each
            each.use(position, number, access, layouts)
    return {tile: each for tile, each in tiles.items() if each.accepted}


def _add_others(body: Sequence[Statement], products: set[type[Inst]], tiles: dict[Tensor, _Tile]) -> None:
    """Add what other statements than products do with ``tiles``; those without a layout are left out."""
    for position, inst in enumerate(body):
        if inst.__class__ in products:
            continue
        if not isinstance(inst, Inst) or (inst.known_form or inst.form()).has_runtime_index:
            for access in touched(inst):
                tiles.pop(access.tensor, None)
            continue
        for number, access in enumerate(inst.accesses()):
            each = tiles.get(access.tensor)
            if each is None:
                continue
            layouts = _filling(inst, access)
            each.use(position, number, access, layouts)
            if not each.accepted:
                del tiles[access.tensor]
            elif layouts != (PADDED,):
                each.fills.add(position)


def _filling(inst: Inst, access: Access) -> Layouts:
    """The layouts in which an instruction that is no product takes ``access``."""
    copy = inst.as_copy()
    moved = copy or inst.as_transposition()
    if moved is None or moved.dst is not access or moved.src.tensor is access.tensor or len(moved.src.shape) != 2:
        return (PADDED,)
    if moved.src.dtype is not access.dtype or inst.label or inst.ordered_after:
        return (PADDED,)
    found: list[Layout] = [PADDED]
    rows = _rows_moved(inst)
    if rows.shape == access.shape:
        found += [PAIR_PANELS] if copy is not None and rows.strides[1] == 1 else []
        found += [PAIR_COLUMNS] if _is_dense(rows) else []
        if copy is not None and inst.engines == (engine.dma,) and access.shape == access.tensor.shape:
            found.append(PANELS)
    if moved.src.strides[1] == 1:
        found.append(BLOCKS)
    return tuple(found)


def _rows_moved(inst: Inst) -> Access:
    """The source of a copy or of a transposition, as the rows of its result."""
    copy = inst.as_copy()
    moved = copy or inst.as_transposition()
    assert moved is not None
    return moved.src if copy is not None else _transposed(moved)


def _transposed(moved: Copy) -> Access:
    source = moved.src
    return Access(source.tensor, source.offset, source.shape[::-1], source.strides[::-1], source.dtype)


def _is_dense(access: Access) -> bool:
    """True of dense rows, or of dense columns."""
    row, column = access.strides
    return (column == 1 and row > 0) or (row == 1 and column >= access.shape[0])
