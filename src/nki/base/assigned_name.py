"""The variable that a call's result is assigned to, or loops in, read from the bytecode after the call."""

from __future__ import annotations

import dis
from types import CodeType

from nki.base.source import Where

_LOOPS = ("GET_ITER", "FOR_ITER")  # between the call in `for name in call():` and its name
_STORES = ("STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL")
_PAIRS = ("STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST")
"""Two instructions in one, since Python 3.13: the first of the two names receives the result."""


def _targets(code: CodeType) -> dict[int, str]:
    """Variable names by the offset of the call whose result goes straight into them."""
    names: dict[int, str] = {}
    call = -1
    for instruction in dis.get_instructions(code):
        paired = instruction.opname in _PAIRS
        if call >= 0 and (paired or instruction.opname in _STORES):
            # While a call runs, the frame points somewhere between the call and its last cache entry.
            name = str(instruction.argval[0] if paired else instruction.argval)
            names.update(dict.fromkeys(range(call, instruction.offset, 2), name))
        if instruction.opname in _LOOPS:
            continue
        call = instruction.offset if instruction.opname.startswith("CALL") else -1
    return names


def assigned_name(where: Where, otherwise: str) -> str:
    """The name of the variable that the user's current call fills, or ``otherwise`` when it fills none."""
    name = where.assigned
    if name is None:
        name = where.assigned = _assigned(where) if where.frames else ""
    return name or otherwise


def _assigned(where: Where) -> str:
    code, offset = where.frames[0]
    known = _by_id.get(id(code))
    if known is None:
        if len(_by_id) >= _MOST_CODES:
            _by_id.clear()
        known = _by_id[id(code)] = code, _targets(code)
    return known[1].get(offset, "")


_by_id: dict[int, tuple[CodeType, dict[int, str]]] = {}
"""The names of :func:`_targets` by the id of the code, which stays alive: its hash takes as long as the rest."""
_MOST_CODES = 1 << 12
