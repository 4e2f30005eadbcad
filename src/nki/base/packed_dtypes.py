"""The packed element types of NKI as NumPy scalars: four small numbers in one word, the lowest bits the first.

NumPy counts such types among its structures: ``str(dtype)`` and ``dtype.name`` say more than the name, which
``dtype.type.__name__`` is. Their one field, called like the type of the four numbers, is the word as an integer.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np


class float8_e4m3fn_x4(np.void):  # noqa: N801  # its name is what NumPy shows and what other libraries look for
    """Four float8_e4m3fn in 32 bits."""


class float8_e5m2_x4(np.void):  # noqa: N801
    """Four float8_e5m2 in 32 bits."""


class float4_e2m1fn_x4(np.void):  # noqa: N801
    """Four float4_e2m1fn in 16 bits."""


SCALARS: Final[dict[str, type[np.void]]] = {
    kind.__name__: kind for kind in (float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4)
}


def dtype(name: str, word: np.dtype[Any]) -> np.dtype[Any]:
    """The NumPy dtype of packed elements in ``word``, which ``np.dtype(name)`` will find unless the name is taken."""
    # The field makes two packed types different ones: NumPy compares structures by their fields.
    packed: np.dtype[Any] = np.dtype((SCALARS[name], [(name.removesuffix("_x4"), word)]))
    cast("dict[str, Any]", np.sctypeDict).setdefault(name, packed)  # where ml_dtypes puts bfloat16, too
    return packed


__all__ = ["SCALARS", "dtype", "float4_e2m1fn_x4", "float8_e4m3fn_x4", "float8_e5m2_x4"]
