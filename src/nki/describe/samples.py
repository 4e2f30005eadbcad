"""A short legal call of each instruction, derived from the samples that its declaration draws."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, cast

from nki import isa, target
from nki.base import element_types as dt
from nki.base.errors import NkiError
from nki.base.warning import collecting
from nki.frontend.builder import Builder
from nki.ir.instruction import NOWHERE, Field, Inst
from nki.ir.loop import VirtualRegister, is_scalar_register
from nki.ir.recorder import recording
from nki.ir.sample import Draw
from nki.ir.scalars import NkiScalar
from nki.ir.types import Access, Tensor
from nki.isa.api import visible
from nki.isa.tables.operators import Op
from nki.target import Target

_SAMPLES = 100
_ODD = {dt.float32: 0, dt.bfloat16: 5, dt.int32: 40, dt.uint32: 40}
_LINE = 100


@dataclass(slots=True)
class Call:
    """A call of a public instruction: its text and the recorded instruction."""

    text: str
    inst: Inst


def generations(cls: type[Inst]) -> list[Target]:
    """The targets that have the instruction."""
    lacking = [r for r in cls.rules if r.code == "GE01"]
    return [t for t in target.GENERATIONS if not any(r.since <= t.generation <= r.until for r in lacking)]


def example(cls: type[Inst]) -> Call:
    """The plainest of the legal calls: short, tiles of everyday dtypes."""
    return samples(cls)[0]


@cache
def samples(cls: type[Inst]) -> list[Call]:
    """Legal calls of a public instruction on the newest target, the plainest first; the same in every process.

    Every operand is a whole tensor with the name of the parameter. If some call is legal on every
    target with the instruction, the first call is one.
    """
    targets = generations(cls)
    draw = Draw(random.Random(cls.mnemonic), targets[-1])
    drawn = [values for _ in range(_SAMPLES) if (values := _values(cls.sample(draw))) is not None]
    candidates = sorted([*drawn, *map(_plain, drawn)], key=lambda values: _oddness(cls, values))
    calls: list[Call] = []
    portable: int | None = None
    for values in candidates:
        if (inst := _recorded(cls, values, targets[-1])) is None:
            continue
        if portable is None and all(_recorded(cls, values, t) is not None for t in targets[:-1]):
            portable = len(calls)
        calls.append(Call(_text(cls, values), inst))
    return [calls.pop(portable or 0), *calls]


def _values(inst: Inst) -> dict[str, Any] | None:
    """The arguments of ``inst`` with every operand a whole tensor; None where that would be another instruction."""
    if inst.indexed_by() or any(a.offset < 0 or 0 in a.strides for a in inst.accesses()):
        return None
    values: dict[str, Any] = {}
    for f in visible(type(inst)):
        value = getattr(inst, f.name)
        if isinstance(value, Access):
            values[f.name] = _whole(f.name, value)
        elif f.several:
            values[f.name] = tuple(_whole(f"{f.name}{n}", tile) for n, tile in enumerate(value))
        elif isinstance(value, float):
            if not math.isfinite(value):
                return None
            values[f.name] = round(value, 1)
        elif value is not f.default and value != f.default:
            values[f.name] = value
    return values


def _whole(name: str, access: Access) -> Access:
    tensor = Tensor(name, access.shape, access.dtype, access.buffer)
    if is_scalar_register(access):
        return NkiScalar(tensor) if isinstance(access, NkiScalar) else VirtualRegister(tensor)
    return Access.whole(tensor)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """The same in float32 and without more dimensions on chip than two, which need not be legal."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(plain(item) for item in cast("tuple[Any, ...]", value))
        if not isinstance(value, Access) or is_scalar_register(value):
            return value
        shape = (value.partitions, value.free_elements) if value.buffer.on_chip else value.shape
        return Access.whole(Tensor(value.name, shape, dt.float32, value.buffer))

    return {name: plain(value) for name, value in values.items()}


def _recorded(cls: type[Inst], values: dict[str, Any], on: Target) -> Inst | None:
    """The instruction that the public function records for these arguments; None if ``on`` refuses them or warns."""
    with recording(Builder("example", on)) as builder, collecting(aside=True) as warned:
        try:
            getattr(isa, cls.mnemonic)(**values)
        except NkiError:
            return None
    if warned:
        return None
    inst = cast("Inst", builder.body[-1])
    inst.where = NOWHERE
    return inst


def _oddness(cls: type[Inst], values: dict[str, Any]) -> float:
    tiles = list(_tiles(values.values()))
    kinds = sum(_ODD.get(tile.dtype, 80) for tile in tiles)
    sizes = sum(20 * (tile.ndim - 2) + _small(tile.partitions, 32) + _small(tile.free_elements, 15) for tile in tiles)
    return len(_text(cls, values)) + kinds + sizes


def _small(count: int, usual: int) -> int:
    return 30 if count == 1 else 10 if count < usual else 0


def _tiles(values: Any) -> Iterator[Access]:
    for value in values:
        if isinstance(value, Access):
            yield value
        elif isinstance(value, tuple):
            yield from _tiles(cast("tuple[Any, ...]", value))


def _text(cls: type[Inst], values: dict[str, Any]) -> str:
    """The call as a kernel writes it, behind the tensors that it needs."""
    lines = [_declared(tile) for tile in _tiles(values.values())]
    arguments = [f"{f.name}={_argument(f, values[f.name])}" for f in cls.fields if f.name in values]
    line = f"nisa.{cls.mnemonic}({', '.join(arguments)})"
    if len(line) > _LINE:
        line = "\n".join([f"nisa.{cls.mnemonic}(", *(f"    {argument}," for argument in arguments), ")"])
    return "\n".join([*lines, line])


def _declared(tile: Access) -> str:
    if isinstance(tile, NkiScalar):
        return f"{tile.name} = nisa.scalar_load(nl.zeros((1, 1), nl.{tile.dtype}))"
    if is_scalar_register(tile):
        return f"{tile.name} = nisa.register_alloc(0)"
    return f"{tile.name} = nl.ndarray({tile.shape}, dtype=nl.{tile.dtype}, buffer=nl.{tile.buffer.name})"


def _argument(f: Field, value: Any) -> str:
    if isinstance(value, Access):
        return value.name
    if f.several:
        return f"[{', '.join(tile.name for tile in value)}]"
    if isinstance(value, Enum):
        return f"nisa.{type(value).__name__}.{value.name}"
    return f"nl.{value.name}" if isinstance(value, Op) else repr(value)
