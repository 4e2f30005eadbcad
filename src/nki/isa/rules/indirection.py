"""Rules of tensor indirection: the operands that may be indirect views, their engines and start partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nki.base.errors import (
    ArgumentError,
    DTypeError,
    DynamicIndexError,
    EngineError,
    GenerationError,
    MemoryRegionError,
    PartitionError,
    ShapeError,
)
from nki.ir.indirection.gather_offsets import capacity, group_of
from nki.ir.instruction import Inst, Rule
from nki.ir.types import Access, Buffer, is_element_indexed
from nki.isa.tables.enums import engine
from nki.target.model import Target

SINCE: Final = 4
_TENSOR_FLOATS: Final = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn")
_SECTIONS: Final = "NKI reference, the instructions' Tensor indirection sections"
Check = Callable[[Any, Target], bool]


def views(inst: Inst) -> list[str]:
    """The operands of ``inst`` that are indirect views."""
    return [f.name for f, a in inst.operands() if is_element_indexed(a)]


def indirect(value: Any) -> bool:
    """True if an argument is an indirect view."""
    return isinstance(value, Access) and is_element_indexed(value)


def _index(value: Access) -> Access:
    assert value.dynamic is not None
    return value.dynamic.source


_EXISTS: Final = Rule(
    "TI01",
    "{o[by elements]}: {t.name} has no tensor indirection",
    lambda i, t: not views(i),
    _SECTIONS,
    GenerationError,
    f"target trn{SINCE - 1} or later, or gather with nisa.local_gather first",
    until=SINCE - 1,
)


def indirection(
    dst: str, *read: str, scales: tuple[str, ...] = (), others: bool = True, older: bool = True
) -> tuple[Rule, ...]:
    """``dst``, the operands ``read`` and the ``scales`` of these may be indirect views.

    The first of ``read`` is the one with which the index of ``dst`` starts. ``others``: the instruction has operands
    that may not. ``older``: earlier generations have it, too.
    """
    names = (dst, *read, *scales)
    rules = [_EXISTS] if older else []
    rules += [_others(names)] if others else []
    rules += [r for name in names for r in (_lists(name), _quadrant(name))]
    rules += [_starts(name) for name in read]
    return (*rules, _scattered(dst, read[0]))


def _others(names: tuple[str, ...]) -> Rule:
    return Rule(
        "TI02",
        "{o[by elements]}: of the operands only " + " and ".join(names) + " may be indirect views",
        lambda i, t: set(views(i)) <= set(names),
        _SECTIONS,
        DynamicIndexError,
        "gather it into a tile with nisa.tensor_copy first",
    )


def _about(name: str, ok: Callable[[Any, Access, Target], bool]) -> Check:
    """``ok`` of the operand ``name``, where it is an indirect view."""

    def check(i: Any, t: Target) -> bool:
        value = getattr(i, name)
        return not indirect(value) or ok(i, value, t)

    return check


def _lists(name: str) -> Rule:
    def ok(i: Inst, view: Access, t: Target) -> bool:
        group = group_of(i)
        return view.partitions % group == 0 and view.shape[1] <= capacity(view, group)

    return Rule(
        "TI03",
        f"{name} '{{i.{name}.name}}' takes {{i.{name}.shape[1]}} offsets from '{{i.{name}.dynamic.source.name}}' "
        f"{{i.{name}.dynamic.source.shape}}, which has 16 in each column for every group of 16 partitions (on the "
        "Tensor engine 32 for 32)",
        _about(name, ok),
        "NKI reference, NkiTensor.indirect",
        ShapeError,
        "use whole groups of partitions, and at most 16 (Tensor engine: 32) offsets for each column of the index",
    )


def _quadrant(name: str) -> Rule:
    return Rule(
        "TI04",
        f"{name} '{{i.{name}.name}}' has offsets '{{i.{name}.dynamic.source.name}}' from partition "
        f"{{i.{name}.dynamic.source.start_partition}} on, which begins no quadrant of {{t.quadrant_partitions}}",
        _about(name, lambda i, view, t: _index(view).start_partition % t.quadrant_partitions == 0),
        _SECTIONS,
        PartitionError,
        "place the index at partition 0, 32, 64 or 96",
    )


def _starts(name: str) -> Rule:
    return Rule(
        "TI05",
        f"{name} '{{i.{name}.name}}' starts at partition {{i.{name}.start_partition}}, its offsets "
        f"'{{i.{name}.dynamic.source.name}}' at {{i.{name}.dynamic.source.start_partition}}",
        _about(name, lambda i, view, t: _index(view).start_partition == view.start_partition),
        _SECTIONS,
        PartitionError,
        "let both start at the same partition",
    )


def _scattered(dst: str, first: str) -> Rule:
    """The offsets of ``dst`` start with ``first`` if that is in SBUF, else with its offsets if it has any."""

    def ok(i: Any, view: Access, t: Target) -> bool:
        other: Access = getattr(i, first)
        if other.buffer is Buffer.psum:
            return not indirect(other) or _index(other).start_partition == _index(view).start_partition
        return other.start_partition == _index(view).start_partition

    return Rule(
        "TI06",
        f"the offsets '{{i.{dst}.dynamic.source.name}}' of {dst} '{{i.{dst}.name}}' start at partition "
        f"{{i.{dst}.dynamic.source.start_partition}}, and {first} '{{i.{first}.name}}', or its offsets, elsewhere",
        _about(dst, ok),
        _SECTIONS,
        PartitionError,
        f"let them start at the partition of {first} (in psum: of its offsets)",
    )


def scalar_not_in_psum(*, always: bool = False) -> Rule:
    """The Scalar engine, which may be chosen or (``always``) the only one, scatters to SBUF."""

    def ok(i: Any, t: Target) -> bool:
        scalar = always or i.engine is engine.scalar
        return not (scalar and indirect(i.dst) and i.dst.buffer is Buffer.psum)

    return Rule(
        "TI07",
        "the Scalar engine cannot scatter to dst '{i.dst.name}' in psum",
        ok,
        _SECTIONS,
        MemoryRegionError,
        "scatter to a tile in SBUF" + ("" if always else ", or use nisa.engine.vector"),
    )


def not_on(wrong: engine) -> Rule:
    """An engine that runs the instruction, but not on indirect views."""
    return Rule(
        "TI08",
        f"the engine {wrong.name} cannot run this on {{o[by elements]}}",
        lambda i, t: i.engine is not wrong or not views(i),
        _SECTIONS,
        EngineError,
        "leave engine out",
    )


def no_addresses() -> Rule:
    """Arithmetic on 32-bit integers from ``data`` to ``dst`` computes addresses."""

    def ok(i: Any, t: Target) -> bool:
        words = {"int32", "uint32"}
        plain = i.op0.alu is not None and not i.op0.alu.bits
        return not (views(i) and plain and {i.dst.dtype.name, i.data.dtype.name} <= words)

    return Rule(
        "TI09",
        "{o[by elements]}: arithmetic on int32 or uint32, from data {o[data]} to dst {o[dst]}, computes addresses, "
        "and such arithmetic takes no indirect views",
        ok,
        _SECTIONS,
        DTypeError,
        "gather into a tile with nisa.tensor_copy first",
    )


def on_tensor_engine() -> Rule:
    """The Tensor engine follows offsets over the whole array only."""
    return Rule(
        "TI10",
        "tile_position={i.tile_position} with {o[by elements]}: only the whole array follows offsets",
        lambda i, t: not views(i) or not i.tile_position or not any(i.tile_position),
        _SECTIONS,
        ArgumentError,
        "leave tile_position and tile_size out",
    )


def transposes_plainly() -> Rule:
    """Of a transposition only the data may be an indirect view."""
    return Rule(
        "TI11",
        "is_transpose with moving {o[moving]} as an indirect view",
        lambda i, t: not (i.is_transpose and indirect(i.moving)),
        _SECTIONS,
        DynamicIndexError,
        "pass the identity as a plain tile",
    )


def tensor_floats(name: str) -> Rule:
    """The Tensor engine gathers and scatters narrow floats."""
    return Rule(
        "TI12",
        f"{name} '{{i.{name}.name}}' is an indirect view of {{i.{name}.dtype}}; such operands are "
        + ", ".join(_TENSOR_FLOATS),
        _about(name, lambda i, view, t: view.dtype.name in _TENSOR_FLOATS),
        _SECTIONS,
        DTypeError,
        "use nl.bfloat16",
    )


def same_index(data: str, scale: str) -> Rule:
    """Packed data and their scales are one logical tensor: both have the same offsets, or none."""

    def ok(i: Any, t: Target) -> bool:
        one, two = getattr(i, data), getattr(i, scale)
        if not (indirect(one) and indirect(two)):
            return indirect(one) == indirect(two)
        return one.shape[1] == two.shape[1] and _index(one).equals(_index(two))

    return Rule(
        "TI13",
        f"{data} {{o[{data}]}} and {scale} {{o[{scale}]}} are not gathered by the same offsets",
        ok,
        _SECTIONS,
        ArgumentError,
        f"pass {data}.indirect(index) with {scale}.indirect(index), or neither",
        by_value=True,
    )
