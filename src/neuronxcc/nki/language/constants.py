"""``neuronxcc.nki.language.constants``."""

from __future__ import annotations

from typing import Any

from nki.base.element_types import of
from nki.beta1.functions import tile_size

__all__ = ["sizeinbytes", "tile_size"]


def sizeinbytes(dtype: Any) -> int:
    """The number of bytes of an element."""
    return of(dtype).itemsize
