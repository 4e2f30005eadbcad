"""Rules shared by several instructions, as functions of the names of the fields that they check."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from nki.base.element_types import DType
from nki.base.errors import (
    DTypeError,
    EngineError,
    GenerationError,
    MemoryRegionError,
    OperatorError,
    PartitionError,
    ShapeError,
)
from nki.ir.instruction import Inst, Rule
from nki.ir.types import Access, Buffer
from nki.isa.tables.enums import engine
from nki.target.memory_spaces import start_partitions
from nki.target.model import Target

REFERENCE = "NKI reference, nki.isa."


def rule(code: str, text: str, ok: Callable[[Any, Target], bool], src: str, **more: Any) -> Rule:
    """A rule of one instruction; see :class:`Rule` for the rest."""
    return Rule(code, text, ok, src, **more)


def _tile(i: Inst, name: str) -> Access | None:
    value = getattr(i, name)
    return value if isinstance(value, Access) else None


def tiles(*names: str, any_dtype: bool = False, any_width: bool = False) -> tuple[Rule, ...]:
    """Each named operand is on chip, has partitions that the machine has, starts where an engine can start, and has a
    dtype that computes, unless the instruction takes ``any_dtype`` of up to 32 bits, or of ``any_width``.
    """
    rules = [_tile_rules(name, any_dtype) for name in names]
    return tuple(r for those in rules for r in those if r.code != "TL05" or not any_width)


_ARCH = "Trainium/Inferentia2 architecture guide, SBUF and PSUM access"


def _about(name: str, ok: Callable[[Access, Target], bool]) -> Callable[[Any, Target], bool]:
    """``ok`` of the operand ``name``, where it is a tile."""

    def check(i: Any, t: Target) -> bool:
        tile = _tile(i, name)
        return tile is None or ok(tile, t)

    return check


@cache
def _tile_rules(name: str, any_dtype: bool) -> tuple[Rule, ...]:
    i = "{i." + name
    return (
        Rule(
            "TL01",
            f"{name} '{i}.name}}' is in {i}.buffer.value}}; compute engines see only sbuf and psum",
            _about(name, lambda tile, t: tile.buffer.on_chip),
            _ARCH,
            MemoryRegionError,
            "copy it to an SBUF tile with nisa.dma_copy first (and back afterwards, for a result)",
        ),
        Rule(
            "TL02",
            f"{name} '{i}.name}}' has {i}.partitions}} partitions; the machine has {{t.partitions}}",
            _about(name, lambda tile, t: tile.partitions <= t.partitions),
            _ARCH,
            PartitionError,
            "tile dimension 0 by {t.partitions}",
        ),
        Rule(
            "TL03",
            f"{name} '{i}.name}}' starts at partition {i}.start_partition}} and has {i}.partitions}} partitions: "
            "up to 32 may start at 0, 32, 64 or 96, up to 64 at 0 or 64, more only at 0",
            _about(name, lambda tile, t: tile.start_partition in start_partitions(t, tile.partitions)),
            _ARCH,
            PartitionError,
            "move the tile to an allowed start partition, or split it",
        ),
        Rule(
            "TL04",
            f"{name} '{i}.name}}' steps {i}.strides[0]}} elements between partitions; its tensor has "
            f"{i}.partition_step}}: an engine reads neighbouring partitions",
            _about(name, lambda tile, t: tile.partitions == 1 or tile.strides[0] == tile.partition_step),
            _ARCH,
            PartitionError,
            "use nisa.dma_copy or nisa.nc_transpose to rearrange partitions",
        ),
        Rule(
            "TL05",
            f"{name} '{i}.name}}' is {i}.dtype}}, which no compute instruction takes",
            _about(name, lambda tile, t: tile.dtype.computes or (any_dtype and tile.dtype.itemsize <= 4)),
            "NKI reference, nki.isa.scalar_load (0.7)" if any_dtype else "NKI reference, Supported Data Types",
            DTypeError,
            "move it with nisa.dma_copy, or as words of 32 bits: t.view(nl.int32)"
            if any_dtype
            else "use a plain float or integer dtype of up to 32 bits",
        ),
    )


def converts(code: str, source: str) -> Rule:
    """Packed elements and integers of 64 bits are copied as they are; other dtypes are converted into each other."""
    return Rule(
        code,
        "cannot convert {i.src.dtype} to {i.dst.dtype}",
        lambda i, t: i.dst.dtype is i.src.dtype or (_converts(i.dst.dtype) and _converts(i.src.dtype)),
        source,
        DTypeError,
        "copy between tensors of one dtype",
    )


def _converts(dtype: DType) -> bool:
    return not dtype.is_packed and dtype.itemsize <= 4


_LARGEST = 1 << 53
"""Up to here a float64, the form of a number in native code, holds every whole number."""


def holds(dtype: DType, value: float) -> bool:
    """True if a tile of ``dtype`` can be filled with ``value``: an integer is whole and in range."""
    if not dtype.is_integer:
        return True
    if dtype.itemsize == 8:
        return value == value and (0 if dtype.kind == "u" else -_LARGEST) <= value <= _LARGEST and value == int(value)
    low = -dtype.largest - 1 if dtype.kind == "i" else 0
    return value == value and low <= value <= dtype.largest and value == int(value)


def same_partitions(first: str, *others: str) -> Rule:
    """All named tiles have as many partitions."""

    def ok(i: Inst, t: Target) -> bool:
        want = _tile(i, first)
        tiles = [tile for name in others if (tile := _tile(i, name)) is not None]
        return want is None or all(tile.partitions == want.partitions for tile in tiles)

    return Rule(
        "SP01",
        _listed("partitions differ:", (first, *others)),
        ok,
        "NKI reference, the instructions' Layout and Tile size sections",
        fix="slice the tiles to the same number of partitions",
    )


def same_elements(first: str, *others: str) -> Rule:
    """All named tiles have as many elements per partition."""

    def ok(i: Inst, t: Target) -> bool:
        want = _tile(i, first)
        tiles = [tile for name in others if (tile := _tile(i, name)) is not None]
        return want is None or all(tile.free_elements == want.free_elements for tile in tiles)

    return Rule(
        "SE01",
        _listed("elements per partition differ:", (first, *others)),
        ok,
        "NKI reference, the instructions' Tile size sections",
        fix="slice the tiles to the same free size; to repeat a (P, 1) column use nisa.tensor_scalar",
    )


def _listed(head: str, names: tuple[str, ...]) -> str:
    return f"{head} {_each(names)}"


def _each(names: tuple[str, ...]) -> str:
    return ", ".join(f"{n} is {{o[{n}]}}" for n in names)


def column(name: str, like: str) -> Rule:
    """A vector operand: one element per partition, as many partitions as ``like``."""

    def ok(i: Inst, t: Target) -> bool:
        tile, other = _tile(i, name), _tile(i, like)
        return tile is None or other is None or (tile.free_elements == 1 and tile.partitions == other.partitions)

    return Rule(
        "CO01",
        f"{name} is {{o[{name}]}}; a vector operand has the shape ({{i.{like}.partitions}}, 1) of {like} {{o[{like}]}}",
        ok,
        "NKI reference, the instructions' Layout sections",
        fix=f"pass a number, or a tile of shape ({{i.{like}.partitions}}, 1)",
    )


def buffer(name: str, *allowed: Buffer) -> Rule:
    """The operand lives in one of these memories."""
    words = " or ".join(b.value for b in allowed)

    def ok(i: Inst, t: Target) -> bool:
        tile = _tile(i, name)
        return tile is None or tile.buffer in allowed

    return Rule(
        "BU01",
        f"{name} '{{i.{name}.name}}' is in {{i.{name}.buffer.value}}; it must be in {words}",
        ok,
        "NKI reference, the instructions' Memory types sections",
        MemoryRegionError,
        f"allocate it with buffer=nl.{allowed[0].value}, or copy it there",
    )


def not_both_psum(first: str, second: str) -> Rule:
    """Two inputs may not both come from PSUM."""

    def ok(i: Inst, t: Target) -> bool:
        one, two = _tile(i, first), _tile(i, second)
        return one is None or two is None or one.buffer is not Buffer.psum or two.buffer is not Buffer.psum

    return Rule(
        "BU02",
        f"{first} '{{i.{first}.name}}' and {second} '{{i.{second}.name}}' are both in psum; only one may be",
        ok,
        "NKI reference, nki.isa.tensor_tensor",
        MemoryRegionError,
        f"copy {second} to SBUF with nisa.tensor_copy first",
    )


def engines(*allowed: engine) -> tuple[Rule, ...]:
    """The ``engine`` argument names an engine that runs the instruction; GpSimd cannot reach PSUM."""
    words = ", ".join(f"nisa.engine.{e.name}" for e in allowed)

    def ok(i: Any, t: Target) -> bool:
        return i.engine is engine.unknown or i.engine in allowed

    def reach(i: Any, t: Target) -> bool:
        return i.engine is not engine.gpsimd or all(a.buffer is not Buffer.psum for a in i.accesses())

    can_run = Rule(
        "EN01",
        "engine {i.engine.name} cannot run this instruction",
        ok,
        "NKI reference, the instructions' engine parameter",
        EngineError,
        f"use {words}, or leave engine out",
    )
    reaches = Rule(
        "EN02",
        "the GpSimd engine cannot reach psum, where it would find {o[in psum]}",
        reach,
        "NKI reference, nki.isa.tensor_copy",
        EngineError,
        "use nisa.engine.vector, or copy the operand to SBUF first",
    )
    return (can_run, reaches) if engine.gpsimd in allowed else (can_run,)


def alu_op(name: str, *, arithmetic: bool = False) -> tuple[Rule, ...]:
    """The operator is in the ALU table and the target has it; ``arithmetic`` refuses bit operators."""

    def known(i: Inst, t: Target) -> bool:
        op = getattr(i, name)
        return op is None or (op.alu is not None and not (arithmetic and op.alu.bits))

    def has(i: Inst, t: Target) -> bool:
        op = getattr(i, name)
        return op is None or op.alu is None or t.generation >= op.alu.since

    what = "an arithmetic operator of the ALU table" if arithmetic else "an operator of the ALU table"
    return (
        Rule(
            "OP01",
            f"{name}={{i.{name}}} is not {what}",
            known,
            "NKI reference, Supported Math Operators",
            OperatorError,
            "use one of those operators, or nisa.activation for an activation function",
        ),
        Rule(
            "OP02",
            f"{name}={{i.{name}}} does not exist on {{t.name}}",
            has,
            "NKI reference, nki.language.abs_max; release notes of NKI 0.4 (nl.square, nl.relu)",
            GenerationError,
            "target trn3",
        ),
    )


def bit_types(op: str, *names: str) -> Rule:
    """A bit operator sees integers of one width."""

    def ok(i: Inst, t: Target) -> bool:
        operator = getattr(i, op)
        if operator is None or operator.alu is None or not operator.alu.bits:
            return True
        types = [tile.dtype for name in names if (tile := _tile(i, name)) is not None]
        return all(d.is_integer and d.itemsize == types[0].itemsize for d in types)

    return Rule(
        "DT01",
        f"{op}={{i.{op}}} works on bit patterns of one width: {_each(names)}",
        ok,
        "NKI reference, the instructions' Data types sections",
        DTypeError,
        "use int/uint tiles of one width, or view the tile as an integer dtype",
    )


def bits_on_vector(code: str, op: str, source: str) -> Rule:
    """A bit operator runs on the Vector engine, named or chosen."""

    def ok(i: Any, t: Target) -> bool:
        alu = getattr(i, op).alu
        return alu is None or not alu.bits or i.engine in (engine.unknown, engine.vector)

    return Rule(
        code,
        "bit operators run on the Vector engine only, not on {i.engine.name}",
        ok,
        source,
        EngineError,
        "leave engine out",
    )


def is_float32(name: str, source: str) -> Rule:
    """The operand, where it is a tile, is float32."""

    def ok(i: Inst, t: Target) -> bool:
        tile = _tile(i, name)
        return tile is None or tile.dtype.name == "float32"

    return Rule(
        "DT03",
        f"{name} '{{i.{name}.name}}' is {{i.{name}.dtype}}; it must be float32",
        ok,
        source,
        DTypeError,
        "copy it to a float32 tile with nisa.tensor_copy",
    )


def exists_from(generation: int, source: str) -> Rule:
    """Earlier generations do not have the instruction."""
    return Rule(
        "GE01",
        "{t.name} does not have this instruction",
        lambda i, t: False,
        source,
        GenerationError,
        f"target trn{generation - 1} or later",
        until=generation - 1,
    )


def elements(name: str, least: int, most: int, source: str) -> Rule:
    """The tile has from ``least`` to ``most`` elements per partition."""
    count = f"exactly {least}" if least == most else f"{least} to {most}"
    return elements_within(name, lambda t: range(least, most + 1), count, source)


def elements_within(name: str, allowed: Callable[[Target], range], count: str, source: str) -> Rule:
    """The tile has a number of elements per partition that the target allows; ``count`` says it in an error text."""

    def ok(i: Inst, t: Target) -> bool:
        tile = _tile(i, name)
        return tile is None or tile.free_elements in allowed(t)

    return Rule(
        "EL01",
        f"{name} '{{i.{name}.name}}' {{i.{name}.shape}} has {{i.{name}.free_elements}} elements per partition; it must "
        f"have {count}",
        ok,
        source,
        fix="slice it, or pad it with a value that cannot matter",
    )


def dimensions(name: str, least: int, most: int, source: str) -> Rule:
    """The tile has from ``least`` to ``most`` dimensions, the partitions included."""

    def ok(i: Inst, t: Target) -> bool:
        tile = _tile(i, name)
        return tile is None or least <= tile.ndim <= most

    count = f"{least}" if least == most else f"at most {most}"
    return Rule(
        "DI01",
        f"{name} '{{i.{name}.name}}' {{i.{name}.shape}} has {{i.{name}.ndim}} dimensions; it must have {count}",
        ok,
        source,
        fix="reshape it: how a partition's elements are arranged means nothing here",
    )


def one_element(name: str, size: tuple[str, str], place: tuple[str, str], source: str) -> tuple[Rule, ...]:
    """The operand ``name``, with which a register or scalar exchanges its value, is one element in SBUF or HBM.

    ``size`` and ``place``: the code of each rule, and what its message says about registers or scalars.
    """
    return (
        Rule(
            size[0],
            f"{name} is {{o[{name}]}}; {size[1]}",
            lambda i, t: getattr(i, name).size == 1,
            source,
            ShapeError,
            fix="slice one element, such as tile[0:1, 0:1]",
        ),
        Rule(
            place[0],
            f"{name} is {{o[{name}]}} in {{i.{name}.buffer.value}}; {place[1]}",
            lambda i, t: getattr(i, name).buffer not in (Buffer.psum, Buffer.register),
            source,
            MemoryRegionError,
            fix="copy it to SBUF first",
        ),
    )


def float_operand(name: str, op: str) -> Rule:
    """A vector operand of an arithmetic operator is float32."""

    def ok(i: Inst, t: Target) -> bool:
        tile, operator = _tile(i, name), getattr(i, op)
        return (
            tile is None
            or operator is None
            or operator.alu is None
            or operator.alu.bits
            or tile.dtype.name == "float32"
        )

    return Rule(
        "DT02",
        f"{name} '{{i.{name}.name}}' is {{i.{name}.dtype}}; with an arithmetic operator it must be float32",
        ok,
        "NKI reference, nki.isa.tensor_scalar",
        DTypeError,
        "copy it to a float32 tile with nisa.tensor_copy",
    )


def same_dtype(first: str, *others: str) -> Rule:
    """All named tiles have one dtype: the instruction moves elements as they are."""

    def ok(i: Inst, t: Target) -> bool:
        types = {tile.dtype for name in (first, *others) if (tile := _tile(i, name)) is not None}
        return len(types) < 2

    return Rule(
        "DT05",
        _listed("dtypes differ:", (first, *others)),
        ok,
        "NKI reference, the instructions' Data types sections",
        DTypeError,
        "allocate {i." + first + ".name} with the dtype of the data, and convert with nisa.tensor_copy",
    )


def dtypes(name: str, *allowed: DType) -> Rule:
    """The operand has one of these dtypes."""
    words = " or ".join(map(str, allowed))

    def ok(i: Inst, t: Target) -> bool:
        tile = _tile(i, name)
        return tile is None or tile.dtype in allowed

    return Rule(
        "DT04",
        f"{name} '{{i.{name}.name}}' is {{i.{name}.dtype}}; it must be {words}",
        ok,
        "NKI reference, the instructions' Data types sections",
        DTypeError,
        f"convert it to {allowed[0]} with nisa.tensor_copy, or view it as that dtype",
    )
