"""Load the operands of products once.

A tiled product in the plain way loads each tile of an operand once for every row or column of tiles of the result. On
the chip memory is short; a CPU has more. Loads of one window of an input, or of a constant, into tiles that only
products read become one load, whose tile lives until its last reader. Of such loads those whose readers are nearest to
each other are shared first, as long as all shared tiles together need no more than :data:`_MOST_BYTES` at any time.

A tile that one product reads as its moving operand, and whose window is loaded once, is not loaded at all: the product
reads the window.

Loads of shared tiles follow each other, some at a time: threads meet between a load and a product, not between loads.

What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nki.backend.cpu.stages.copy_operands import most_that_fit
from nki.backend.cpu.stages.partial_loads import read_parts_in_place
from nki.base import knobs
from nki.ir.effects import Copy
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program, Signature
from nki.ir.stage import CoreStage
from nki.ir.types import Access, AccessForm, Buffer, Form, Tensor, TensorForm, coalesced, row_major
from nki.target.model import Target
from nki.transforms.copy_elimination import copies_of, moves_all, plain_copies

_MOST_BYTES: Final = 48 << 20
"""Bytes of shared tiles that live at one time; a launch may take 64 MiB more than tensors and tiles do."""
_MOST_TOGETHER: Final = 1 << 20
"""Bytes of the tiles of loads in turn: half of the second-level cache of a present core."""
_MOST_APART: Final = 128
"""Statements by which a load comes earlier at most, so that its tile does not live much longer."""


class _Load:
    """A tile that one copy fills and only products read: the position of the copy, those of the readers."""

    __slots__ = ("is_repeated", "last", "position", "readers", "source", "tile")

    def __init__(self, tile: Tensor, source: Access, position: int) -> None:
        self.tile = tile
        self.source = source
        self.position = position
        self.readers: list[int] = []
        self.last = position
        """The position of the last reader, those of later loads of the same window included."""
        self.is_repeated = False
        """Another load has the same window."""


@dataclass(frozen=True)
class ShareLoads(CoreStage):
    """Load operands of products once."""

    name: ClassVar[str] = "share_loads"

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with shared loads."""
        return core.with_body(share_loads(core, program.signature))

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Whatever a core reads, something writes or the caller passes; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        if not knobs.check_stages():
            return
        for old, core in zip(before.cores, after.cores, strict=True):
            known = {access.tensor for inst in old.instructions() for access in inst.reads()}
            written = {access.tensor for inst in core.instructions() for access in inst.writes()}
            read = {access.tensor for inst in core.instructions() for access in inst.reads()}
            lost = [tensor.name for tensor in read - known - written]
            assert not lost, f"share_loads left unwritten {lost}"


def share_loads(core: CoreProgram, signature: Signature) -> list[Statement]:
    """The statements of ``core`` with shared loads."""
    if not any(_is_product(kind) for kind in set(map(type, core.body))):
        return list(core.body)
    sources = {*signature.inputs, *core.constants()}.difference(signature.outputs)
    copies = copies_of(core)
    in_place = read_parts_in_place(core.body, copies, sources)
    if in_place is not None:
        core, copies = core.with_body(in_place), plain_copies(in_place)
    loads = _loads(core, copies, sources)
    windows = _by_window(loads)
    repeated = {of_window[0]: of_window[1:] for of_window in windows if len(of_window) > 1}
    for load, again in repeated.items():
        for each in (load, *again):
            each.is_repeated = True
            load.last = max(load.last, each.readers[-1])
    nearest = sorted(repeated, key=lambda load: load.last - load.position)
    body: list[Statement | None] = list(core.body)
    shared_tile: dict[Tensor, Tensor] = {}
    """The tile that replaces the tile of each load that is left out."""
    spans = [(load.position, load.last, load.tile.nbytes) for load in nearest]
    for load in nearest[: most_that_fit(spans, len(core.body), _MOST_BYTES)]:
        for other in repeated[load]:
            body[other.position] = None
            shared_tile[other.tile] = load.tile
            load.readers += other.readers
    for load in loads:
        if load.tile not in shared_tile and not load.is_repeated:
            _read_in_place(body, load)
    _redirect(body, shared_tile)
    _gather(body, [load for load in loads if load.tile not in shared_tile and repeated.get(load)])
    return [statement for statement in body if statement is not None]


def _gather(body: list[Statement | None], loads: Sequence[_Load]) -> None:
    """Let loads of shared tiles follow each other, as long as what they fill fits :data:`_MOST_TOGETHER`.

    Between a load and a product that reads its tile threads meet, as partitions cross; so they meet less often. The
    source is never written, and the tile has no other contents, so a load may come earlier.
    """
    first, nbytes = -1, 0
    moved: dict[int, list[Statement]] = {}
    for load in sorted(loads, key=lambda load: load.position):
        position, statement = load.position, body[load.position]
        assert statement is not None
        if first < 0 or position - first > _MOST_APART or nbytes + load.tile.nbytes > _MOST_TOGETHER:
            first, nbytes = position, load.tile.nbytes
            moved[first] = [statement]
        else:
            nbytes += load.tile.nbytes
            moved[first].append(statement)
            body[position] = None
    gathered: list[Statement | None] = []
    for position, statement in enumerate(body):
        if position in moved:
            gathered += moved[position]
        else:
            gathered.append(statement)
    body[:] = gathered


def _by_window(loads: Sequence[_Load]) -> list[list[_Load]]:
    """The loads of each window into tiles of one shape and dtype, in the order of first loads."""
    windows: dict[tuple[Tensor, int, int], list[_Load]] = {}
    numbers: dict[tuple[object, ...], int] = {}
    number_of: dict[tuple[AccessForm, TensorForm], int] = {}
    """Number of the steps with the tile's shape and dtype, by the forms of source and tile."""
    for load in loads:
        source, tile = load.source, load.tile
        form = source.known_form or source.form, tile.form
        number = number_of.get(form)
        if number is None:
            steps = coalesced(zip(source.strides, source.shape, strict=True))
            number = number_of[form] = numbers.setdefault((steps, tile.dtype.name, *tile.shape), len(numbers))
        of_window = windows.get((source.tensor, source.offset, number))
        if of_window is None:
            windows[source.tensor, source.offset, number] = [load]
        else:
            of_window.append(load)
    return list(windows.values())


def _is_product(kind: type[Statement | None]) -> bool:
    return issubclass(kind, Inst) and kind.effects.accumulation is not None


def _loads(core: CoreProgram, copies: Mapping[int, Copy], sources: set[Tensor]) -> list[_Load]:
    """The loads of tiles that only products read, in order; ``copies``: the plain copies of ``core``."""
    loads: dict[Tensor, _Load] = {}
    unfit: set[Tensor] = set()
    for position, (tile_access, source) in copies.items():
        tile = tile_access.tensor
        if source.tensor in loads:  # this reader multiplies nothing
            unfit.add(source.tensor)
        if tile not in loads and source.tensor in sources and _is_load(tile_access, source):
            loads[tile] = _Load(tile, source, position)
        else:  # another one writes the tile
            unfit.add(tile)
    multiplies: dict[Form, bool] = {}
    for position, inst in enumerate(core.body) if loads else ():
        if position in copies:  # as most instructions are
            continue
        if not isinstance(inst, Inst):
            unfit.update(access.tensor for access in touched(inst))
            continue
        form = inst.form()
        if form.has_runtime_index:
            indexed = [access for access in inst.accesses() if access.dynamic is not None]
            unfit.update(access.tensor for access in (*indexed, *inst.indexed_by()))
        for access, reads, writes in inst.uses():
            load = loads.get(access.tensor)
            if load is None:
                continue
            if writes and load.position != position:
                unfit.add(load.tile)
            if reads and position > load.position:
                readers = load.readers
                is_product = multiplies.get(form)
                if is_product is None:
                    is_product = multiplies[form] = _multiplies(inst)
                if not is_product or access.dtype is not load.tile.dtype:
                    unfit.add(load.tile)
                elif not readers or readers[-1] != position:
                    readers.append(position)
    return [load for tile, load in loads.items() if tile not in unfit and load.readers]


def _is_load(own: Access, source: Access) -> bool:
    """True if a copy from ``source`` to ``own`` fills a tile."""
    return own.buffer is Buffer.sbuf and moves_all(own.tensor, own, source)


def _multiplies(inst: Inst) -> bool:
    """True of a product, as which an instruction may also move data."""
    accumulation = inst.effects.accumulation
    return accumulation is not None and not accumulation.moves(inst)


def _redirect(body: list[Statement | None], shared: Mapping[Tensor, Tensor]) -> None:
    """Let every product read the tile that replaces the one of a load that is left out."""
    places: dict[Tensor, dict[tuple[int, AccessForm], Access]] = {tile: {} for tile in shared.values()}
    kinds = {kind for kind in set(map(type, body)) if _is_product(kind)}
    for position, inst in enumerate(body) if shared else ():
        if inst.__class__ in kinds and isinstance(inst, Inst):
            operands: dict[int, Access] = {}
            has_same_form = True
            for number, access in enumerate(inst.accesses()):
                tile = shared.get(access.tensor)
                if tile is None:
                    continue
                of_tile, form = places[tile], access.known_form or access.form
                new = of_tile.get((access.offset, form))
                if new is None:
                    new = Access(tile, access.offset, access.shape, access.strides, access.dtype)
                    of_tile[access.offset, form] = new
                operands[number] = new
                has_same_form = has_same_form and (new.known_form or new.form) is form
            if operands:
                body[position] = inst.with_operands(operands, inst.form() if has_same_form else None)


def _read_in_place(body: list[Statement | None], load: _Load) -> None:
    """Let the only product that reads a tile as its moving operand read the source, if it can.

    The product converts or packs what it reads anyway; to lay it out before would be one more pass.
    """
    tile, source = load.tile, load.source
    inst = body[load.readers[0]]
    assert isinstance(inst, Inst)
    uses = [(n, f.name, access) for n, (f, access) in enumerate(inst.operands()) if access.tensor is tile]
    if len(load.readers) != 1 or len(uses) != 1 or source.shape != tile.shape or len(tile.shape) != 2:
        return
    ((number, name, access),) = uses
    is_whole = access.shape == tile.shape and access.strides == row_major(tile.shape)
    if name != inst.effects.moving or not is_whole or source.strides[1] != 1 or tile.dtype.is_packed:
        return
    changed = inst.with_operands({number: source})
    if changed.has_supported_layout():
        body[load.readers[0]], body[load.position] = changed, None
