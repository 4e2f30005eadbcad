"""The layouts of tiles that native code reads faster than dense ones, one row each.

============  =========================================================================================================
padded        sums of a product: rows of a power of two bytes apart would share few sets of the cache
panels        a moving operand, as register tiles of a product read it: 32 columns side by side
blocks        a stationary operand of float32, as register tiles read it: four columns side by side
pair_panels   a moving operand of bfloat16 for a matrix unit that multiplies pairs: two rows side by side in each word
pair_columns  a stationary operand of bfloat16 for the same: each column by itself
============  =========================================================================================================

Behind each block of pairs there is room for the subnormal guard of :mod:`nki.numerics.matmul.conversions`. The order in
the matrix unit says which rows are paired (:mod:`nki.numerics.matmul.units`).
"""

from __future__ import annotations

from typing import Final

from nki.base.element_types import bfloat16, float32
from nki.ir.layout import DENSE, Layout
from nki.numerics.llvm import LINE
from nki.numerics.matmul.contract import BLOCK, CHAIN, PANEL

_LINE: Final = LINE // float32.itemsize
"""Elements of a cache line: the gap that brings neighbours to other sets of the cache."""
_GUARD: Final = LINE // bfloat16.itemsize
"""Numbers in the subnormal guard of a block of pairs, one for each :data:`CHAIN` rows."""
MOST_ROWS: Final = _GUARD * CHAIN
"""Rows of an operand in pairs, for which there is room in the guard."""

PADDED: Final = Layout("padded", pad=_LINE)
PANELS: Final = Layout("panels", PANEL)
BLOCKS: Final = Layout("blocks", BLOCK, gap=_LINE)
PAIR_PANELS: Final = Layout("pair_panels", PANEL, gap=_GUARD, pairs=True)
PAIR_COLUMNS: Final = Layout("pair_columns", 1, gap=_GUARD, pairs=True)

__all__ = ["BLOCKS", "DENSE", "MOST_ROWS", "PADDED", "PAIR_COLUMNS", "PAIR_PANELS", "PANELS", "Layout"]
