"""Copy windows that several products read, once, in the layout in which they read them.

A product converts an operand that is not in its layout, each time and in each thread. One copy takes less where two
products or more read the same window while nothing writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE, Layout
from nki.ir.loop import Statement
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.build import copy_tile
from nki.numerics.layouts import MOST_ROWS, PAIR_COLUMNS
from nki.numerics.matmul.contract import GROUP, PANEL

_MOST_BYTES: Final = 8 << 20
"""Bytes of copies that live at one time, beside the tiles of the program."""
_MOST_TOGETHER: Final = 1 << 20
"""Bytes of copies that follow each other; all but the first stand earlier than they must."""


@dataclass(slots=True)
class _Window:
    """A window that products read while nothing writes its tensor: who reads it."""

    access: Access
    reads: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Position of each product, and the number of the operand."""

    @property
    def span(self) -> tuple[int, int, int]:
        """The positions of the first and of the last product, and the bytes of the window."""
        return self.reads[0][0], self.reads[-1][0], self.access.nbytes


def copy_operands(
    body: Sequence[Statement], operands: Mapping[Layout, Sequence[int | None]], fixed: Collection[Tensor]
) -> Sequence[Statement]:
    """``body`` with a copy of each window that several products read, as far as memory allows; the same object if none.

    ``operands``: by layout, for each statement the number of the operand that it reads in that layout. ``fixed``:
    tensors that nothing writes.
    """
    changed = list(body)
    copies: dict[int, list[Inst]] = {}
    for layout, numbers in operands.items():
        for begin, window in _gathered(_chosen(body, numbers, fixed), fixed):
            access, first = window.access, body[window.span[0]]
            assert isinstance(first, Inst)
            tensor, shape = access.tensor, access.shape
            tile = Access.whole(Tensor(tensor.name, shape, access.dtype, Buffer.sbuf, span=tensor.span, layout=layout))
            copies.setdefault(begin, []).append(filled(tile, access, first))
            for position, number in window.reads:
                inst = changed[position]
                assert isinstance(inst, Inst)
                changed[position] = inst.with_operand(number, tile)
    if not copies:
        return body
    return [each for position, inst in enumerate(changed) for each in (*copies.get(position, ()), inst)]


def _chosen(body: Sequence[Statement], numbers: Sequence[int | None], fixed: Collection[Tensor]) -> Sequence[_Window]:
    """The windows that several products read, those that live shortest first, as many as memory has room for."""
    if all(number is None for number in numbers):
        return ()
    windows = [window for window in _windows(body, numbers, fixed) if len(window.reads) > 1]
    windows.sort(key=lambda window: window.span[1] - window.span[0])
    return windows[: most_that_fit([window.span for window in windows], len(body), _MOST_BYTES)]


def filled(tile: Access, source: Access, place: Inst) -> Inst:
    """A copy of ``source`` to ``tile``, which has a layout of pairs, at the line of ``place``.

    A partition of the copy is one of the instructions around it: of a stationary operand a column, which is a partition
    of the product's result.
    """
    if tile.tensor.layout is PAIR_COLUMNS:
        tile, source = (Access(a.tensor, a.offset, a.shape[::-1], a.strides[::-1], a.dtype) for a in (tile, source))
    copy = copy_tile(tile, source)
    copy.where = place.where
    return copy


def most_that_fit(tiles: Sequence[tuple[int, int, int]], statements: int, most: int) -> int:
    """The largest number of ``tiles``, from the first on, that never take more than ``most`` bytes together.

    Each is the positions of its first and of its last statement, and its bytes.
    """
    begins, lasts, sizes = np.array(tiles, np.int64).reshape(-1, 3).T
    ends = lasts + 1
    low, high = 0, len(tiles)
    while low < high:
        middle = (low + high + 1) // 2
        changes = np.zeros(statements + 1, np.int64)
        np.add.at(changes, begins[:middle], sizes[:middle])
        np.subtract.at(changes, ends[:middle], sizes[:middle])
        if changes.cumsum().max() <= most:
            low = middle
        else:
            high = middle - 1
    return low


def _gathered(windows: Sequence[_Window], fixed: Collection[Tensor]) -> Iterator[tuple[int, _Window]]:
    """The windows in order, each with the position of the first product, before which its copy stands.

    Copies of what nothing writes follow each other, up to :data:`_MOST_TOGETHER`: threads meet between a copy and a
    product, and not between copies.
    """
    first, nbytes = -1, 0
    for window in sorted(windows, key=lambda window: window.span[0]):
        position = window.span[0]
        if window.access.tensor not in fixed:
            yield position, window
            continue
        nbytes += window.access.nbytes
        if first < 0 or nbytes > _MOST_TOGETHER:
            first, nbytes = position, window.access.nbytes
        yield first, window


def _windows(body: Sequence[Statement], numbers: Sequence[int | None], fixed: Collection[Tensor]) -> list[_Window]:
    """The windows that may be copied, each as long as its contents stay: others than those on chip must be ``fixed``,
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
            if _is_packable(access) and (access.buffer.on_chip or access.tensor in fixed):
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
    """True of dense rows of bfloat16, in whole groups and panels, of a dense tensor."""
    if access.dtype is not dt.bfloat16 or access.dynamic is not None or len(access.shape) != 2:
        return False
    rows, columns = access.shape
    fits = rows % GROUP == 0 and columns % PANEL == 0 and rows <= MOST_ROWS
    return fits and access.strides[1] == 1 and access.strides[0] > 0 and access.tensor.layout is DENSE
