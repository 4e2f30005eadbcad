"""nki.collectives.rank_id in a launch of one rank."""

from __future__ import annotations

from typing import Any

from .numerics import Array
from .register_move import register
from .vectors import vector


def oracle(dst: Array, **_: Any) -> Array:
    """The one rank has the number 0."""
    return register(0)


VECTORS = [vector(register(0), dst=register(9))]
