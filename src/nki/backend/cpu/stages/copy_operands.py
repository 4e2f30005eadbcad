"""Copy windows that several products read, once, in the layout in which they read them.

A product converts an operand that is not in its layout, each time and in each thread. One copy takes less where two
products or more read the same window while nothing writes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from nki.analysis.uses import Use, Uses
from nki.base import dtype as dt
from nki.ir.instruction import Inst
from nki.ir.layout import DENSE, Layout
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import has_dense_rows, transposed
from nki.isa.build import copy_tile
from nki.numerics.layouts import MOST_ROWS, PAIR_COLUMNS
from nki.numerics.matmul.contract import GROUP, PANEL
from nki.transforms.rewriter import Rewriter

_MOST_BYTES: Final = 8 << 20
"""Bytes of copies that live at one time, beside the tiles of the program."""
_MOST_TOGETHER: Final = 1 << 20
"""Bytes of copies that follow each other; all but the first stand earlier than they must."""

Span = tuple[int, int, int]
"""The positions of the first and of the last statement that a tile is for, and its bytes."""


def copy_operands(
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
    shared = sorted(
        (reads for reads in windows.values() if len(reads) > 1), key=lambda reads: reads[-1][0] - reads[0][0]
    )
    count = most_that_fit([_span(reads) for reads in shared], len(rewriter.body), _MOST_BYTES)
    for begin, reads in _together(sorted(shared[:count], key=_span), fixed):
        access = reads[0][2]
        tensor = Tensor(access.name, access.shape, access.dtype, Buffer.sbuf, span=access.tensor.span, layout=layout)
        tile = Access.whole(tensor)
        rewriter.insert(begin, filled(tile, access, rewriter.inst(reads[0][0])))
        rewriter.replace((position, number, tile) for position, number, _ in reads)


def _span(reads: Sequence[Use]) -> Span:
    return reads[0][0], reads[-1][0], reads[0][2].nbytes


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


def filled(tile: Access, source: Access, place: Inst) -> Inst:
    """A copy of ``source`` to ``tile``, which has a layout of pairs, at the line of ``place``.

    A partition of the copy is one of the instructions around it: of a stationary operand a column, which is a partition
    of the product's result.
    """
    if tile.tensor.layout is PAIR_COLUMNS:
        tile, source = transposed(tile), transposed(source)
    copy = copy_tile(tile, source)
    copy.where = place.where
    return copy


def most_that_fit(tiles: Sequence[Span], statements: int, most: int) -> int:
    """The largest number of ``tiles``, from the first on, that never take more than ``most`` bytes together."""
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


def _is_packable(access: Access) -> bool:
    """True of dense rows of bfloat16, in whole groups and panels, of a dense tensor."""
    if access.dtype is not dt.bfloat16 or access.tensor.layout is not DENSE or not has_dense_rows(access):
        return False
    rows, columns = access.shape
    return rows % GROUP == columns % PANEL == 0 and rows <= MOST_ROWS and access.strides[0] > 0
