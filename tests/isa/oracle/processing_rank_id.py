"""nki.collectives.collective_permute_implicit_current_processing_rank_id in a launch of one rank."""

from __future__ import annotations

from typing import Any

from .among_one import ONE
from .numerics import Array
from .register_move import register
from .vectors import vector


def oracle(dst: Array, **_: Any) -> Array:
    """Whatever the step of the ring, all data are from the one rank."""
    return register(0)


VECTORS = [
    vector(register(0), dst=register(9), iteration=3, groups=ONE),
    vector(register(0), dst=register(9), iteration=register(5), groups=ONE),
]
