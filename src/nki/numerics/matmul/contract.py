"""The order of the sums of a matrix product, which every matrix unit keeps, and the layouts that units read.

Every output element starts at +0.0 and takes ``fma(stationary[k, m], moving[k, n], acc)`` for k = 0, 1, ..., K-1 in
that order; accumulation into the output is one more addition at the end; a NaN is written as the canonical one. So the
bits depend on neither the tiling nor the vector width, and one implementation serves every executor.

Where both operands fit bfloat16 (:func:`adds_by_groups`), the chain is cut as the processors' tile instructions cut it:
k goes in groups of :data:`GROUP`; each half of a group is a chain that starts at +0.0, and the sum of both is added to
the sum of the groups before, which starts at +0.0.

No sum is -0.0, so rows of zeros at the end of both operands change nothing.

============  =========================================================================================================
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

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.layout import Layout
from nki.numerics.llvm import LINE

CHAIN: Final = 16
"""Products in each of the two chains of a group, where products go by groups."""
GROUP: Final = 2 * CHAIN
"""Products in a group."""
PANEL: Final = 32
"""Columns of a panel of the moving operand: two of the widest vectors."""
BLOCK: Final = 4
"""Columns of a block of the stationary operand, where the rows of a register tile are a multiple of that."""
_GUARD: Final = LINE // dt.bfloat16.itemsize
"""Numbers in the subnormal guard of a block of pairs, one for each :data:`CHAIN` rows."""
MOST_ROWS: Final = _GUARD * CHAIN
"""Rows of an operand in pairs, for which there is room in the guard."""

PANELS: Final = Layout("panels", PANEL)
BLOCKS: Final = Layout("blocks", BLOCK, gap=LINE // dt.float32.itemsize)  # neighbours in other sets of the cache
PAIR_PANELS: Final = Layout("pair_panels", PANEL, gap=_GUARD, pairs=True)
PAIR_COLUMNS: Final = Layout("pair_columns", 1, gap=_GUARD, pairs=True)

FITS_BFLOAT16: Final = frozenset({dt.bfloat16, dt.float8_e4m3, dt.float8_e4m3fn, dt.float8_e5m2})
"""Dtypes with numbers that are all numbers of bfloat16: operands of products by groups, and of pairs."""


def adds_by_groups(stationary: DType, moving: DType) -> bool:
    """True if the product of operands of these dtypes is summed in groups."""
    return stationary in FITS_BFLOAT16 and moving in FITS_BFLOAT16
