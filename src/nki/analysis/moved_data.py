"""Instructions that move the elements of a tile as they are, by whichever declaration."""

from __future__ import annotations

from nki.ir.instruction import Inst
from nki.ir.types import Access


def moves_data(inst: Inst) -> tuple[Access, Access] | None:
    """Destination and source of a copy on chip, by whichever instruction."""
    if (copy := inst.as_copy()) is not None:
        return copy.dst, copy.src
    scaling = inst.effects.combining.scaling(inst)
    return None if scaling is None or scaling.steps else (scaling.dst, scaling.data)
