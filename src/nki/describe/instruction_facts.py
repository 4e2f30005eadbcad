"""Facts about an instruction, derived from its declaration: signature, operands, cost, executors."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nki.backend.cpu.kernel_ir.lower import lower
from nki.backend.cpu.kernel_ir.nodes import Print
from nki.backend.numpy.executor import Reference
from nki.backend.numpy.memory import Memory
from nki.base.element_types import ALL, DType
from nki.base.errors import NkiError
from nki.describe.samples import generations, samples
from nki.ir.estimate import Estimate
from nki.ir.indirection.runtime_index import split_rows
from nki.ir.instruction import REGISTRY, Field, Inst
from nki.ir.sample import COMPUTING, FLOATS, INTEGERS, Draw
from nki.ir.types import Access, Buffer, Role, Tensor
from nki.ir.verifier import verify
from nki.isa.api import visible
from nki.isa.tables.operators import Op
from nki.target import Target

_BUFFERS = (Buffer.sbuf, Buffer.psum, Buffer.hbm, Buffer.shared_hbm)
_ASKED = 8
"""Samples that are tried with other dtypes and buffers, and executed."""
_GROUPS = {
    "every dtype": ALL,
    "every dtype of up to 32 bits": tuple(d for d in ALL if d.itemsize <= 4),
    "every dtype that computes": COMPUTING,
    "floats and integers": (*FLOATS, *INTEGERS),
    "floats": FLOATS,
    "integers": INTEGERS,
}


def signature(cls: type[Inst]) -> str:
    """The public call with its defaults."""
    parameters = [
        f.name if f.default is inspect.Parameter.empty else f"{f.name}={_default(f.default)}" for f in visible(cls)
    ]
    return f"nisa.{cls.mnemonic}({', '.join(parameters)})"


def _default(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


# Operands


@dataclass(slots=True)
class Operand:
    """A tensor operand: its role, and the memories and dtypes of some legal call."""

    name: str
    role: Role
    buffers: str
    dtypes: str
    otherwise: str
    """Values that may replace the tensor: "a number", "nothing"."""


def operands(cls: type[Inst]) -> list[Operand]:
    """The tensor operands that a caller passes.

    Buffers and dtypes are those with which one of the samples, changed in this operand or in all that are alike,
    passes the rules. An operand may depend on others, so not every combination is legal.
    """
    on = generations(cls)[-1]
    return [_operand(cls, f, f.role, on) for f in visible(cls) if f.role is not None]


def _operand(cls: type[Inst], f: Field, role: Role, on: Target) -> Operand:
    numbered = ((call.inst, _number(call.inst, f.name)) for call in samples(cls))
    pairs = [(inst, number) for inst, number in numbered if number is not None]
    tiles = [inst.accesses()[number] for inst, number in pairs]
    register = tiles[0].buffer is Buffer.register
    asked = pairs[:: 1 + len(pairs) // _ASKED]  # of all kinds: the plainest are much alike
    drawn = {tile.buffer for tile in tiles}, {tile.dtype for tile in tiles}
    buffers = [b.name for b in _BUFFERS if b in drawn[0] or any(_accepts(i, n, on, buffer=b) for i, n in asked)]
    kinds = [d for d in ALL if d in drawn[1] or any(_accepts(i, n, on, dtype=d) for i, n in asked)]
    otherwise = [*(["a number"] if f.immediate or float in f.types else []), *(["nothing"] if f.optional else [])]
    return Operand(
        f.name,
        role,
        "register" if register else ", ".join(buffers),
        named([d for d in ALL if d in drawn[1]] if register else kinds),
        " or ".join(otherwise),
    )


def _number(inst: Inst, name: str) -> int | None:
    """Index of operand ``name`` among the accesses of ``inst``."""
    names = [f.name for f, _ in inst.operands()]
    return names.index(name) if name in names else None


def _accepts(inst: Inst, number: int, on: Target, **change: Any) -> bool:
    """True if this operand, or all operands of its buffer and dtype, may change so."""
    tiles = inst.accesses()
    own = tiles[number]
    alike = [n for n, tile in enumerate(tiles) if (tile.buffer, tile.dtype) == (own.buffer, own.dtype)]
    return any(
        _legal(inst.with_operands({n: _other(tiles[n], **change) for n in changed}), on)
        for changed in ([number], alike)
    )


def _other(tile: Access, dtype: DType | None = None, buffer: Buffer | None = None) -> Access:
    return Access.whole(Tensor(tile.name, tile.shape, dtype or tile.dtype, buffer or tile.buffer))


def named(kinds: Sequence[DType]) -> str:
    """These dtypes in few words."""
    left = list(kinds)
    words: list[str] = []
    for word, group in _GROUPS.items():
        if set(group) <= set(left):
            words.append(word)
            left = [d for d in left if d not in group]
    return ", ".join([*words, *map(str, left)])


# Cost


def costs(estimates: Sequence[tuple[Target, Estimate]]) -> list[str]:
    """Estimates of one instruction in words, a line for the targets that agree."""
    agreeing: dict[tuple[str, str, str], list[str]] = {}
    for on, cost in estimates:
        times = f"{cost.occupancy:.4g} ns of {cost.resource}, complete after {cost.latency:.4g} ns"
        agreeing.setdefault((times, cost.kind, cost.source), []).append(on.name)
    return [f"{times}, on {', '.join(on)} [{kind}: {source}]" for (times, kind, source), on in agreeing.items()]


def formula(cls: type[Inst]) -> str:
    """Formula of the occupancy, from the declaration."""
    return inspect.getdoc(cls.cost) or ""


# Operators


def accepting(op: Op) -> list[str]:
    """The parameters that take ``op`` in some legal call, as ``activation(op=)``."""
    places = [(cls, f) for cls in REGISTRY.values() if cls.public for f in visible(cls) if f.symbol is Op]
    return [f"{cls.mnemonic}({f.name}=)" for cls, f in places if _takes(cls, f.name, op)]


def _takes(cls: type[Inst], name: str, op: Op) -> bool:
    on = generations(cls)[-1]
    # Asking only these first is ten times as fast: most operators are refused by the rule that names the parameter.
    naming = [r for r in cls.rules if f"{{i.{name}}}" in r.text and r.since <= on.generation <= r.until]
    changed = (call.inst.replace(**{name: op}) for call in samples(cls))
    return any(_legal(inst, on) for inst in changed if all(rule.ok(inst, on) for rule in naming))


def _legal(inst: Inst, on: Target) -> bool:
    try:
        verify(inst, on, {})
    except NkiError:
        return False
    return True


# Execution


def simulated(cls: type[Inst]) -> bool:
    """True if the NumPy executor runs the example; raises if it cannot."""
    Reference(Memory()).execute(_asked(cls)[0])
    return True


def calls_python(cls: type[Inst]) -> bool:
    """True if native code for some sample calls back into Python; raises if there is no native code."""
    if cls.effects.collective is not None:
        return True
    lowered = (lower(next(split_rows(inst)), ()) for inst in _asked(cls))
    return any(isinstance(statement, Print) for lowering in lowered for statement in lowering.statements)


def _asked(cls: type[Inst]) -> list[Inst]:
    """Samples, for hidden instructions too."""
    if cls.public:
        return [call.inst for call in samples(cls)[:: 1 + len(samples(cls)) // _ASKED]]
    draw = Draw(random.Random(cls.mnemonic), generations(cls)[-1])
    return [cls.sample(draw) for _ in range(_ASKED)]
