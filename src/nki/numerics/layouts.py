"""The layouts of tiles that native code reads faster than dense ones, one row each.

============  =========================================================================================================
padded        sums of a product: rows of a power of two bytes apart would share few sets of the cache
panels        a moving operand, as register tiles of a product read it: 32 columns side by side
blocks        a stationary operand of float32, as register tiles read it: four columns side by side
pair_panels   a moving operand of bfloat16 for a processor that multiplies pairs, or tiles of them; behind each panel
              are the notes of :mod:`nki.numerics.words.operands`
pair_columns  a stationary operand of bfloat16 for the same: each column by itself, with its notes behind it
============  =========================================================================================================
"""

from __future__ import annotations

from typing import Final

from nki.base.dtype import bfloat16, float32
from nki.ir.layout import DENSE, Layout
from nki.numerics.llvm import LINE
from nki.numerics.matmul import BLOCK, PANEL
from nki.numerics.words.operands import NOTES

_LINE: Final = LINE // float32.itemsize
"""Elements of a cache line: the gap that brings neighbours to other sets of the cache."""
_NOTES: Final = NOTES // bfloat16.itemsize

PADDED: Final = Layout("padded", pad=_LINE)
PANELS: Final = Layout("panels", PANEL)
BLOCKS: Final = Layout("blocks", BLOCK, gap=_LINE)
PAIR_PANELS: Final = Layout("pair_panels", PANEL, gap=_NOTES, pairs=True)
PAIR_COLUMNS: Final = Layout("pair_columns", 1, gap=_NOTES, pairs=True)

__all__ = ["BLOCKS", "DENSE", "PADDED", "PAIR_COLUMNS", "PAIR_PANELS", "PANELS"]
