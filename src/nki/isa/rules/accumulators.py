"""Reduction registers of the Scalar and the Vector engine, and rules of the arguments that control them.

Each engine has one float32 register a lane, in which instructions leave a sum or an extreme of their results for later
ones. The builder supplies the registers as an operand, so that they are read and written like any tile.
"""

from __future__ import annotations

import math
from typing import Any, Final

from nki.base.element_types import float32
from nki.base.errors import ArgumentError, DTypeError, OperatorError
from nki.ir.algebra import Algebra
from nki.ir.effects import EngineState, ImplicitOperand
from nki.ir.instruction import Rule
from nki.ir.types import Access
from nki.isa.rules.operand_rules import rule
from nki.isa.tables.enums import reduce_cmd
from nki.target.memory_spaces import LANES

SCALAR: Final = "scalar.reduce"
"""The Scalar engine's registers, which ``activation``, ``activation_reduce`` and ``activate2`` share."""
VECTOR: Final = "vector.reduce"
"""The Vector engine's registers, which all its instructions with a ``reduce_cmd`` share."""

STARTS: Final = {
    "add": 0.0,
    "subtract": 0.0,
    "multiply": 1.0,
    "maximum": -math.inf,
    "minimum": math.inf,
    "abs_max": 0.0,
    "abs_min": math.inf,
}
"""Contents of the registers after a reset, for each operator that reduces into them."""
ADDING: Final = (reduce_cmd.reduce, reduce_cmd.reset_reduce, reduce_cmd.load_reduce)
"""The commands under which an instruction's results go into the registers."""


def implicit(register: str) -> ImplicitOperand:
    """The registers of the lanes of ``dst``, where the instruction ``uses_registers``."""

    def supply(i: Any, state: EngineState) -> Access | None:
        if not i.uses_registers:
            return None
        lanes = i.dst.partitions if isinstance(i.dst, Access) else 1  # verify refuses anything else
        return state(register, float32, min(lanes, LANES), 1, 0)

    return ImplicitOperand("registers", supply)


def before(i: Any, m: Algebra[Any], op: str, loaded: Any = None) -> Any:
    """Contents of the registers before the results are reduced: under ``load_reduce``, ``loaded``."""
    if i.reduce_cmd in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        return m.const(STARTS[op], float32)
    return m.load(loaded if i.reduce_cmd is reduce_cmd.load_reduce else i.registers)


def total(i: Any, m: Algebra[Any], op: str, results: Any, loaded: Any = None) -> Any:
    """Contents of the registers after ``i``: each lane's results are reduced into them, one after the other."""
    start = before(i, m, op, loaded)
    return m.reduce(op, results, start=start) if i.reduce_cmd in ADDING else start


def total_or_unknown(i: Any, m: Algebra[Any], op: str, results: Any, loaded: Any = None) -> Any:
    """As :func:`total`, for an instruction that may change the registers under ``idle``, too, to an unknown value."""
    return m.const(math.nan, float32) if i.reduce_cmd is reduce_cmd.idle else total(i, m, op, results, loaded)


def keep(i: Any, m: Algebra[Any], held: Any, *, negate: bool = False) -> None:
    """Write the registers and, if it is an operand, ``reduce_res``."""
    m.store(i.registers, held)
    if i.reduce_res is not None:
        shown = m.alu("multiply", held, m.const(-1.0, float32)) if negate else held
        m.store(i.reduce_res, m.cast(shown, i.reduce_res.dtype))


def commands(source: str, *allowed: reduce_cmd) -> Rule:
    """``reduce_cmd`` is one of these."""
    words = ", ".join(command.name for command in allowed)
    return rule(
        "RC01",
        "reduce_cmd={i.reduce_cmd.name} does not exist for this instruction",
        lambda i, t: i.reduce_cmd in allowed,
        source,
        error=ArgumentError,
        fix=f"use {words}",
    )


def operator(source: str, name: str, *allowed: str) -> Rule:
    """The operator that folds into the registers is one of these, or left out."""
    words = ", ".join(f"nl.{op}" for op in allowed)
    return rule(
        "RC02",
        f"{name}={{i.{name}}} is not one that this instruction reduces with",
        lambda i, t: getattr(i, name) is None or getattr(i, name).name in allowed,
        source,
        error=OperatorError,
        fix=f"use {words}",
    )


def registers(own: bool = True) -> Rule:
    """The builder supplies registers exactly where the instruction uses them; ``own`` False: or never."""

    def ok(i: Any, t: Any) -> bool:
        held = i.registers
        if held is None:
            return not (own and i.uses_registers)
        return i.uses_registers and held.shape == (i.dst.partitions, 1) and held.offset == 0 and held.dtype is float32

    return rule(
        "RC03",
        "registers={o[registers]} are not the float32 registers, one a partition of dst, that the arguments call for",
        ok,
        "this project: the builder supplies them, and a kernel in text form may have lost them",
        error=ArgumentError,
        fix="compare with the output of `nki dump`",
    )


def loaded(source: str, name: str) -> Rule:
    """``load_reduce`` has a value to load."""
    return rule(
        "RC04",
        f"reduce_cmd=load_reduce needs {name}",
        lambda i, t: i.reduce_cmd is not reduce_cmd.load_reduce or getattr(i, name) is not None,
        source,
        error=ArgumentError,
        fix=f"pass {name}, a number or a float32 tile of one element per partition; or use reset_reduce",
    )


def result_is_float(source: str) -> Rule:
    """``reduce_res`` is of a float dtype."""
    return rule(
        "RC05",
        "reduce_res '{i.reduce_res.name}' is {i.reduce_res.dtype}; it must be of a float dtype",
        lambda i, t: not isinstance(i.reduce_res, Access) or i.reduce_res.dtype.is_float,
        source,
        error=DTypeError,
        fix="allocate it as float32",
    )
