"""Pack moving operands once, as words of two numbers in the processor's order, and not in each product.

A tile of bfloat16 that products alone read, as their moving operand, and that copies alone write, becomes a tile of
``bfloat16_words``: panels of 32 columns, in which two rows share a word. The copies pack what they copy; products read
the panels as they are, each of them and each thread. Copies must write all rows of whole panels, products must read
all rows of whole panels. Of other windows that several products read, in tiles or in inputs, a packed copy is made.
What loops or run-time indices touch is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from nki.base import dtype as dt
from nki.base import knobs
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, touched
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import CoreStage
from nki.ir.types import Access, Buffer, Form, Tensor
from nki.isa.build import copy_tile
from nki.target.model import Target
from nki.transforms.shared_operands import most_that_fit

_PANEL: Final = 32
"""Columns of a panel, and rows of a group, as the matrix product of the CPU has them."""
_NOTES: Final = 32
"""Elements behind each panel, in which native code notes the size of its numbers."""
_MOST_ROWS: Final = 512
"""Rows of a panel, of which there is room for notes."""
_FEW_ROWS: Final = 16
"""Rows of a product up to which it reads its moving operand in place, once."""
_NARROW: Final = frozenset({dt.bfloat16, dt.float8_e4m3, dt.float8_e4m3fn, dt.float8_e5m2})
"""Dtypes of stationary operands of products in words."""
_MOST_BYTES: Final = 8 << 20
"""Bytes of packed copies that live at one time, beside the tiles of the program."""
_MOST_TOGETHER: Final = 1 << 20
"""Bytes of copies that follow each other; all but the first stand earlier than they must."""


@dataclass(frozen=True)
class PackOperands(CoreStage):
    """Pack moving operands for a processor that multiplies words."""

    name: ClassVar[str] = "pack_operands"
    has_words: Callable[[], bool] = lambda: False
    """True if the processor multiplies bfloat16 in words of two numbers."""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:  # noqa: ARG002
        """``core`` with packed moving operands."""
        fixed = {*program.signature.inputs, *core.constants()}.difference(program.signature.outputs)
        body = pack_operands(core.body, fixed, self.has_words)
        return core if body is None else core.with_body(body)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Packed tiles have writers and readers; checked under ``OPEN_NKI_CHECK_STAGES=1``."""
        check_packed(after, self.name)


def check_packed(program: Program, stage: str) -> None:
    """Check, under ``OPEN_NKI_CHECK_STAGES=1``, that every packed tile has writers and readers behind that stage."""
    for core in program.cores if knobs.check_stages() else ():
        written = {a.tensor for inst in core.instructions() for a in inst.writes() if a.dtype is dt.bfloat16_words}
        read = {a.tensor for inst in core.instructions() for a in inst.reads() if a.dtype is dt.bfloat16_words}
        assert written == read, f"{stage} left a packed tile without writers or without readers"


@dataclass(slots=True)
class Uses:
    """Positions of what writes a tile, and of the products that read it, with the numbers of operands."""

    writes: list[tuple[int, Access, Access]] = field(default_factory=list[tuple[int, Access, Access]])
    """Position, what is written, and what is copied."""
    reads: list[tuple[int, int, Access]] = field(default_factory=list[tuple[int, int, Access]])


def pack_operands(
    body: Sequence[Statement], fixed: Collection[Tensor], has_words: Callable[[], bool]
) -> list[Statement] | None:
    """The statements with packed moving operands; None if there are none. ``fixed``: tensors that nobody writes."""
    moving = numbers_of(body, _moving)
    narrow = (position for position, number in enumerate(moving) if number is not None and _is_narrow(body[position]))
    if next(narrow, None) is None or not has_words():
        return None
    changed = list(body)
    for tile, each in candidates(body, moving, _copied).items():
        if each.writes and each.reads:
            _pack(changed, tile, each)
            leave_out(moving, each)
    return with_copies(changed, moving, fixed, _is_packable, _packed_copy)


def numbers_of(body: Sequence[Statement], number_in: Callable[[Inst], int | None]) -> list[int | None]:
    """The number of the operand of each product that may be packed, from ``number_in``; None of other statements.

    It depends on the form of the product alone.
    """
    products = {kind for kind in set(map(type, body)) if issubclass(kind, Inst) and kind.effects.moving}
    of_form: dict[Form, int | None] = {}
    numbers: list[int | None] = [None] * len(body)
    for position, inst in enumerate(body) if products else ():
        if inst.__class__ in products and isinstance(inst, Inst):
            form = inst.known_form or inst.form()
            if form not in of_form:
                of_form[form] = number_in(inst)
            numbers[position] = of_form[form]
    return numbers


def _moving(inst: Inst) -> int | None:
    """The number of the moving operand, if ``inst`` is a product in words; None otherwise."""
    accumulation, name = inst.effects.accumulation, inst.effects.stationary
    if accumulation is None or accumulation.moves(inst):
        return None
    operands = inst.operands()
    stationary = [access for parameter, access in operands if parameter.name == name]
    if not all(access.dtype in _NARROW and access.free_elements > _FEW_ROWS for access in stationary):
        return None
    return next(number for number, (parameter, _) in enumerate(operands) if parameter.name == inst.effects.moving)


def _is_narrow(inst: Statement) -> bool:
    """True if an operand is bfloat16."""
    return isinstance(inst, Inst) and any(access.dtype is dt.bfloat16 for access in inst.accesses())


def candidates(
    body: Sequence[Statement], numbers: Sequence[int | None], source_in: Callable[[Inst, Access], Access | None]
) -> dict[Tensor, Uses]:
    """The uses of tiles that may be packed, by products whose operand has one of ``numbers``.

    ``source_in`` gives what an instruction copies to an access of its, as rows of the same shape; None if it does
    anything else.
    """
    uses, unfit = _reads(body, numbers)
    for position, inst in enumerate(body) if uses else ():
        if not isinstance(inst, Inst):
            unfit.update(access.tensor for access in touched(inst))
            continue
        if (inst.known_form or inst.form()).has_runtime_index:
            unfit.update(access.tensor for access in (*inst.indexed_by(), *inst.accesses()))
            continue
        own = numbers[position]
        for number, access in enumerate(inst.accesses()):
            tile = access.tensor
            if tile not in uses or number == own or tile in unfit:
                continue
            is_free = not inst.label and not inst.ordered_after
            source = source_in(inst, access) if is_free and _has_panels(tile, access) else None
            if source is not None:
                uses[tile].writes.append((position, access, source))
            else:
                unfit.add(tile)
    return {tile: each for tile, each in uses.items() if tile not in unfit}


def _reads(body: Sequence[Statement], numbers: Sequence[int | None]) -> tuple[dict[Tensor, Uses], set[Tensor]]:
    """The reads of tiles by products whose operand has whole panels, and the tiles of other such operands."""
    uses: dict[Tensor, Uses] = {}
    unfit: set[Tensor] = set()
    fits: dict[Access, bool] = {}  # products that read one window of a shared tile have one access
    for position, number in enumerate(numbers):
        if number is None:
            continue
        inst = body[position]
        assert isinstance(inst, Inst)
        access = inst.accesses()[number]
        tile = access.tensor
        fit = fits.get(access)
        if fit is None:
            fit = fits[access] = _has_panels(tile, access)
        if not fit:
            unfit.add(tile)
            continue
        of_tile = uses.get(tile)
        if of_tile is None:
            of_tile = uses[tile] = Uses()
        of_tile.reads.append((position, number, access))
    return uses, unfit


def _has_panels(tile: Tensor, access: Access) -> bool:
    """True if ``access`` has all rows of whole panels of a tile that can be packed."""
    if tile.buffer is not Buffer.sbuf or access.dtype is not dt.bfloat16 or len(tile.shape) != 2:
        return False
    rows, columns = tile.shape
    if rows % _PANEL or columns % _PANEL or rows > _MOST_ROWS or access.offset % _PANEL or len(access.shape) != 2:
        return False
    return access.shape[0] == rows and access.shape[1] % _PANEL == 0 and access.strides == (columns, 1)


def _copied(inst: Inst, access: Access) -> Access | None:
    """The dense rows of the same shape that ``inst`` copies to ``access``; None if it does not."""
    copy = inst.as_copy()
    if copy is None or access is not copy.dst or copy.src.dtype is not dt.bfloat16:
        return None
    return copy.src if copy.src.shape == access.shape and copy.src.strides[1] == 1 else None


@dataclass(frozen=True, slots=True)
class _Packed:
    """A packed tile of so many rows and columns."""

    tensor: Tensor
    rows: int

    @staticmethod
    def like(tile: Tensor, rows: int, columns: int) -> _Packed:
        """A new one in place of ``tile``, or of a part of it."""
        elements = columns // _PANEL * (rows * _PANEL + _NOTES)
        return _Packed(Tensor(tile.name, (1, elements), dt.bfloat16_words, Buffer.sbuf, span=tile.span), rows)

    def panels(self, first: int, columns: int) -> Access:
        """``columns`` columns from ``first`` on."""
        step = self.rows * _PANEL + _NOTES
        shape = self.rows, columns // _PANEL, _PANEL
        return Access(self.tensor, first // _PANEL * step, shape, (_PANEL, step, 1), dt.bfloat16_words)


def _pack(body: list[Statement], tile: Tensor, uses: Uses) -> None:
    """Let products and copies use a packed tile in place of ``tile``."""
    packed = _Packed.like(tile, *tile.shape)
    for position, access, source in uses.writes:
        inst = body[position]
        assert isinstance(inst, Inst)
        body[position] = _copy(packed.panels(access.offset, access.shape[1]), source, inst)
    panels: dict[tuple[int, int], Access] = {}
    for position, number, access in uses.reads:
        inst = body[position]
        assert isinstance(inst, Inst)
        place = access.offset, access.shape[1]
        if place not in panels:
            panels[place] = packed.panels(*place)
        body[position] = inst.with_operand(number, panels[place])


def _copy(target: Access, source: Access, place: Inst) -> Inst:
    """Pack dense rows; the copy is at the line of ``place``."""
    rows, columns = source.shape
    strides = source.strides[0], _PANEL, 1
    panels = Access(source.tensor, source.offset, (rows, columns // _PANEL, _PANEL), strides, source.dtype)
    copy = copy_tile(target, panels)
    copy.where = place.where
    return copy


def leave_out(numbers: list[int | None], uses: Uses) -> None:
    """Forget the operands of products that read a tile with these uses."""
    for position, _, _ in uses.reads:
        numbers[position] = None


@dataclass(slots=True)
class _Window:
    """A window that products read as one of their operands, while nothing writes its tensor: who reads it."""

    access: Access
    reads: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Position of each product, and the number of the operand."""


def with_copies(
    body: list[Statement],
    numbers: Sequence[int | None],
    fixed: Collection[Tensor],
    fits: Callable[[Access], bool],
    packed_copy: Callable[[Access, Inst], tuple[Access, Inst]],
) -> list[Statement]:
    """The statements with a packed copy of each window that several products read, as far as memory allows.

    ``numbers`` tell the operands of products, ``fits`` the windows that can be packed. ``packed_copy`` gives what
    products read in place of a window, and the instruction that writes it, at the line of another one.
    """
    if all(number is None for number in numbers):
        return body
    windows = [window for window in _windows(body, numbers, fixed, fits) if len(window.reads) > 1]
    windows.sort(key=lambda window: window.reads[-1][0] - window.reads[0][0])
    spans = [(window.reads[0][0], window.reads[-1][0], window.access.nbytes) for window in windows]
    copies: dict[int, list[Inst]] = {}
    chosen = windows[: most_that_fit(spans, len(body), _MOST_BYTES)] if windows else []
    for begin, window in _gathered(chosen, fixed):
        first = body[window.reads[0][0]]
        assert isinstance(first, Inst)
        packed, copy = packed_copy(window.access, first)
        copies.setdefault(begin, []).append(copy)
        for position, number in window.reads:
            inst = body[position]
            assert isinstance(inst, Inst)
            body[position] = inst.with_operand(number, packed)
    if not copies:
        return body
    return [each for position, inst in enumerate(body) for each in (*copies.get(position, ()), inst)]


def _gathered(windows: Sequence[_Window], fixed: Collection[Tensor]) -> Iterator[tuple[int, _Window]]:
    """The windows in order, each with the position before which its copy stands: that of the first product.

    Copies of what nobody writes follow each other, up to :data:`_MOST_TOGETHER`: threads meet between a copy and a
    product, and not between copies.
    """
    first, nbytes = -1, 0
    for window in sorted(windows, key=lambda window: window.reads[0][0]):
        position = window.reads[0][0]
        if window.access.tensor not in fixed:
            yield position, window
            continue
        nbytes += window.access.nbytes
        if first < 0 or nbytes > _MOST_TOGETHER:
            first, nbytes = position, window.access.nbytes
        yield first, window


def _packed_copy(access: Access, place: Inst) -> tuple[Access, Inst]:
    """Panels in place of ``access``, and the copy that fills them."""
    packed = _Packed.like(access.tensor, *access.shape).panels(0, access.shape[1])
    return packed, _copy(packed, access, place)


def _windows(
    body: Sequence[Statement],
    numbers: Sequence[int | None],
    fixed: Collection[Tensor],
    fits: Callable[[Access], bool],
) -> list[_Window]:
    """The windows that may be packed, each as long as its contents stay: others than those on chip must be ``fixed``,
    since another core may write them.
    """
    windows: list[_Window] = []
    current: dict[Tensor, dict[tuple[int, tuple[int, ...], tuple[int, ...]], _Window]] = {}
    for position, inst in enumerate(body):
        if not isinstance(inst, Inst):
            current.clear()
            continue
        number = numbers[position]
        if number is not None:
            access = inst.accesses()[number]
            if fits(access) and (access.buffer.on_chip or access.tensor in fixed):
                of_tensor = current.setdefault(access.tensor, {})
                key = access.offset, access.shape, access.strides
                if key not in of_tensor:
                    of_tensor[key] = _Window(access)
                    windows.append(of_tensor[key])
                of_tensor[key].reads.append((position, number))
        if current:
            for access in inst.writes():
                current.pop(access.tensor, None)
    return windows


def _is_packable(access: Access) -> bool:
    """True of dense rows of bfloat16, in whole groups and panels."""
    if access.dtype is not dt.bfloat16 or access.dynamic is not None or len(access.shape) != 2:
        return False
    rows, columns = access.shape
    fits = rows % _PANEL == 0 and columns % _PANEL == 0 and rows <= _MOST_ROWS
    return fits and access.strides[1] == 1 and access.strides[0] > 0
