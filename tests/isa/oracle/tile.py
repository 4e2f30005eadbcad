"""How an engine walks a tile: axis 0 is the partition, the other axes are one row of elements in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import numerics
from .numerics import Array


def rows(tile: Array) -> Array:
    """The tile as (partitions, elements per partition). Operands may shape their free axes differently."""
    return tile.reshape(tile.shape[0], -1)


def column(operand: Any, partitions: int) -> Array:
    """A scalar operand, or one of shape (partitions, 1), as one float32 number per partition."""
    if isinstance(operand, np.ndarray) and operand.size > 1:
        return numerics.read(operand).reshape(partitions)
    return np.full(partitions, float(numerics.read(np.asarray(operand)).reshape(())))


def broadcast(operand: Any, like: Array) -> Array:
    """:func:`column` repeated along the rows of ``like`` (partitions, elements)."""
    return np.repeat(column(operand, like.shape[0])[:, None], like.shape[1], axis=1)
