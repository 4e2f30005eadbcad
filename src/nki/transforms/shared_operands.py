"""Share the tiles that products load again, and lay moving operands out as the matrix product reads them.

A tiled product in the plain way loads each tile of an operand once for every row or column of tiles of the result. On
the chip memory is short; a CPU has more. Loads of one window of an input, or of a constant, into tiles that only
products read become one load, whose tile lives until its last reader. Of such loads those whose readers are nearest to
each other are shared first, as long as all shared tiles together need no more than :data:`_MOST_BYTES` at any time.

A tile that one product reads as its moving operand, and whose window is loaded once, is not loaded at all: the product
reads the window. Another tile that products only take as the moving operand is laid out in panels: blocks of 32
columns, in each the rows one behind the other. The product needs no copy of it, and reads memory in order.

What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Tensor, coalesced, row_major
from nki.target.model import Target
from nki.transforms.copy_elimination import moves_all, plain_copy

_MOST_BYTES: Final = 48 << 20
"""Bytes of shared tiles that live at one time; a launch may take 64 MiB more than tensors and tiles do."""
_PANEL: Final = 32
"""Columns of a panel, as the matrix product of the CPU has them."""


@dataclass(slots=True)
class _Load:
    """A tile that one copy fills and only products read: the position of the copy, those of the readers."""

    tile: Tensor
    source: Access
    position: int
    readers: list[int] = field(default_factory=list[int])
    again: list[_Load] = field(default_factory=list["_Load"])
    """Later loads of the same window."""

    @property
    def last(self) -> int:
        """The position of the last reader, those of later loads included."""
        return max(load.readers[-1] for load in (self, *self.again))


@dataclass(frozen=True)
class ShareOperands(CoreStage):
    """Load operands of products once, in the layout in which the product reads them."""

    name: ClassVar[str] = "share_operands"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with shared operands."""
        return core.with_body(share_operands(core, program.signature))

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Whatever a core reads, something writes or the caller passes; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        for old, core in zip(before.cores, after.cores, strict=True):
            known = {access.tensor for inst in old.instructions() for access in inst.reads()}
            written = {access.tensor for inst in core.instructions() for access in inst.writes()}
            read = {access.tensor for inst in core.instructions() for access in inst.reads()}
            lost = [tensor.name for tensor in read - known - written]
            assert not lost, f"share_operands left nobody to write {lost}"


def share_operands(core: CoreProgram, signature: Signature) -> list[Statement]:
    """The statements of ``core`` with shared operands."""
    loads = _loads(core, {*signature.inputs, *core.constants()}.difference(signature.outputs))
    if not loads:
        return list(core.body)
    groups: dict[tuple[object, ...], _Load] = {}
    for load in loads:
        source, tile = load.source, load.tile
        key = (source.tensor, source.offset, coalesced(source.pattern()), tile.shape, tile.dtype)
        first = groups.setdefault(key, load)
        if first is not load:
            first.again.append(load)
    repeated = sorted((load for load in groups.values() if load.again), key=lambda load: load.last - load.position)
    shared = repeated[: _most_that_fit(repeated, len(core.body))]
    body: list[Statement | None] = list(core.body)
    for load in shared:
        for other in load.again:
            body[other.position] = None
            _redirect(body, other, load.tile)
            load.readers += other.readers
    removed = {id(other) for load in shared for other in load.again}
    repeats = {id(load) for first in groups.values() if first.again for load in (first, *first.again)}
    for load in loads:
        if id(load) not in removed and (id(load) in repeats or not _read_in_place(body, load)):
            _lay_out(body, load)
    return [statement for statement in body if statement is not None]


def _loads(core: CoreProgram, sources: set[Tensor]) -> list[_Load]:
    """The loads of tiles that only products read, in order."""
    loads: dict[Tensor, _Load] = {}
    written: set[Tensor] = set()
    unfit: set[Tensor] = set()
    for position, inst in enumerate(core.body):
        if not isinstance(inst, Inst):
            unfit.update(access.tensor for access in touched(inst))
            continue
        copy = plain_copy(inst)
        accumulation = inst.effects.accumulation
        is_product = accumulation is not None and not accumulation.moves(inst)
        for access in inst.reads():
            if (load := loads.get(access.tensor)) is None:
                continue
            if not is_product or access.dynamic is not None or access.dtype is not load.tile.dtype:
                unfit.add(access.tensor)
            elif not load.readers or load.readers[-1] != position:
                load.readers.append(position)
        unfit.update(access.tensor for access in inst.indexed_by())
        for access in inst.writes():
            tile = access.tensor
            if tile in written or tile.buffer is not Buffer.sbuf:
                unfit.add(tile)
            written.add(tile)
            if copy is not None and copy.src.tensor in sources and moves_all(tile, copy.dst, copy.src):
                loads[tile] = _Load(tile, copy.src, position)
    return [load for tile, load in loads.items() if tile not in unfit and load.readers]


def _most_that_fit(loads: Sequence[_Load], statements: int) -> int:
    """The largest number of ``loads``, from the first on, whose tiles fit at every statement if they are shared."""
    low, high = 0, len(loads)
    while low < high:
        middle = (low + high + 1) // 2
        if _peak(loads[:middle], statements) <= _MOST_BYTES:
            low = middle
        else:
            high = middle - 1
    return low


def _peak(loads: Sequence[_Load], statements: int) -> int:
    """The most bytes of the tiles of ``loads`` that live at one time."""
    changes = [0] * (statements + 1)
    for load in loads:
        changes[load.position] += load.tile.nbytes
        changes[load.last + 1] -= load.tile.nbytes
    peak = live = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return peak


def _redirect(body: list[Statement | None], load: _Load, tile: Tensor) -> None:
    """Let the readers of ``load`` read ``tile``, which has the same contents."""
    for position in load.readers:
        inst = body[position]
        assert isinstance(inst, Inst)
        operands = {
            number: Access(tile, access.offset, access.shape, access.strides, access.dtype)
            for number, access in enumerate(inst.accesses())
            if access.tensor is load.tile
        }
        body[position] = inst.with_operands(operands)


def _read_in_place(body: list[Statement | None], load: _Load) -> bool:
    """Let the only product that reads a tile as its moving operand read the source; False, and no change, if it cannot.

    The product converts or packs what it reads anyway; to lay it out before would be one more pass.
    """
    tile, source = load.tile, load.source
    inst = body[load.readers[0]]
    assert isinstance(inst, Inst)
    uses = [(n, f.name, access) for n, (f, access) in enumerate(inst.operands()) if access.tensor is tile]
    if len(load.readers) != 1 or len(uses) != 1 or source.shape != tile.shape or len(tile.shape) != 2:
        return False
    ((number, name, access),) = uses
    is_whole = access.shape == tile.shape and access.strides == row_major(tile.shape)
    if name != inst.effects.moving or not is_whole or source.strides[1] != 1 or tile.dtype.is_packed:
        return False
    changed = inst.with_operands({number: source})
    if not changed.has_supported_layout():
        return False
    body[load.readers[0]], body[load.position] = changed, None
    return True


def _lay_out(body: list[Statement | None], load: _Load) -> None:
    """Lay the tile of ``load`` out in panels, if all its readers can read that."""
    tile, copy = load.tile, body[load.position]
    if len(tile.shape) != 2 or tile.shape[0] == 1 or tile.shape[1] % _PANEL or tile.shape[1] == _PANEL:
        return
    if load.source.shape != tile.shape:
        return
    depth, columns = tile.shape
    panels = Tensor(tile.name, (1, tile.elements), tile.dtype, tile.buffer, span=tile.span)
    changed: dict[int, Inst] = {}
    for position in load.readers:
        inst = body[position]
        assert isinstance(inst, Inst)
        operands: dict[int, Access] = {}
        for number, (field_, access) in enumerate(inst.operands()):
            if access.tensor is not tile:
                continue
            if field_.name != inst.effects.moving or not _in_panels(access, columns):
                return
            operands[number] = _panelled(panels, access, depth, columns)
        changed[position] = inst.with_operands(operands)
    assert isinstance(copy, Inst)
    for position, inst in changed.items():
        body[position] = inst
    shape, (row, step) = (depth, columns // _PANEL, _PANEL), load.source.strides
    source = Access(load.source.tensor, load.source.offset, shape, (row, _PANEL * step, step), tile.dtype)
    whole = _panelled(panels, Access.whole(tile), depth, columns)
    numbers = {True: whole, False: source}
    body[load.position] = copy.with_operands(
        {number: numbers[access.tensor is tile] for number, access in enumerate(copy.accesses())}
    )


def _in_panels(access: Access, columns: int) -> bool:
    """True if ``access``, to a dense tile of so many columns, has rows of whole panels."""
    if len(access.shape) != 2 or access.strides != (columns, 1):
        return False
    return access.shape[1] % _PANEL == 0 and access.offset % columns % _PANEL == 0


def _panelled(panels: Tensor, access: Access, depth: int, columns: int) -> Access:
    """The elements of ``panels`` that are those of ``access`` to the dense tile."""
    row, column = divmod(access.offset, columns)
    offset = row * _PANEL + column * depth
    shape = (access.shape[0], access.shape[1] // _PANEL, _PANEL)
    return Access(panels, offset, shape, (_PANEL, depth * _PANEL, 1), access.dtype)
