"""Verify one tensor (rank, size, address) and one instruction (argument types, write overlap, its declared rules)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from types import FunctionType
from typing import Any, cast

from nki.base.element_types import DType
from nki.base.errors import (
    ArgumentError,
    CapacityError,
    DynamicIndexError,
    MemoryRegionError,
    PartitionError,
    PsumError,
    ShapeError,
    WriteOverlapError,
)
from nki.ir.instruction import Field, Inst, Rule
from nki.ir.loop import is_scalar_register
from nki.ir.scalars import NkiScalar
from nki.ir.types import MOST_DIMENSIONS, Access, Buffer, access_of, is_element_indexed, is_row_indexed
from nki.ir.windows import repeats
from nki.target.model import Target


def check_types(inst: Inst) -> None:
    """Raise :class:`ArgumentError` when a field holds a value of a kind that it does not take."""
    for f in inst.fields:
        value = getattr(inst, f.name)
        if value is None and f.optional:
            continue
        wrong_bool = isinstance(value, bool) and bool not in f.types
        if not isinstance(value, f.types) or wrong_bool:
            expected = " or ".join(sorted({_words(t) for t in f.types})) + (" or None" if f.optional else "")
            raise ArgumentError(
                f"{inst.mnemonic}: {f.name} must be {expected}, not {_describe(value)}", fix=_hint(f, value)
            )
        if isinstance(value, tuple) and not _made_of(cast(tuple[Any, ...], value), f.items):
            parts = "tensors" if f.several else "numbers" if float in f.items else "integers"
            raise ArgumentError(
                f"{inst.mnemonic}: {f.name}={_describe(value)} is not made of {parts}", fix=_hint(f, value)
            )


def _made_of(items: tuple[Any, ...], kinds: tuple[type[Any], ...]) -> bool:
    """True if all leaves are of these types; a truth value is no integer."""
    return all(
        _made_of(cast(tuple[Any, ...], n), kinds)
        if isinstance(n, tuple)
        else isinstance(n, kinds) and not isinstance(n, bool)
        for n in items
    )


def _words(kind: type[Any]) -> str:
    names = {Access: "a tensor", float: "a number", int: "a number", bool: "True or False", tuple: "a tuple"}
    return names.get(kind, "an operator (nl.add, nl.exp, …)" if kind.__name__ == "Op" else f"nisa.{kind.__name__}")


def _describe(value: Any) -> str:
    if isinstance(value, FunctionType) and value.__name__ != "<lambda>":
        return f"the function {value.__name__}"
    access = access_of(value)
    if isinstance(access, Access) and access.buffer.word != "register":
        return f"tensor '{access.name}' {access.shape}"  # its text would hold values in a simulated run
    return f"{value!r} ({type(value).__name__})" if len(repr(value)) < 60 else f"a {type(value).__name__}"


def _hint(f: Field, value: Any) -> str:
    if f.role is not None and hasattr(value, "__array__"):
        return "pass the array as an argument of the kernel and copy it to SBUF with nisa.dma_copy"
    if f.role is not None and hasattr(value, "is_data_representable"):  # a grid of tiles
        return "pass its .data, the tensor that it selects"
    if type(value).__name__ == "ufunc":
        return f"use nl.{getattr(value, '__name__', 'add')} instead of np.{getattr(value, '__name__', 'add')}"
    if f.immediate and isinstance(value, str):
        return "pass a Python number"
    if f.several or tuple in f.types:
        return "pass a tuple of tensors" if f.several else f"pass a tuple of {_leaves(f)}, such as (1, 2)"
    if f.role is not None:
        return "pass a tensor: a tile of nl.load or nl.ndarray, or an argument of the kernel"
    if f.symbol is not None and issubclass(f.symbol, Enum):
        members = ", ".join(f"nisa.{f.symbol.__name__}.{member.name}" for member in f.symbol)
        return f"pass one of {members}"
    if f.symbol is not None:
        return "pass an operator, such as nl.add or nl.exp"
    return f"pass {' or '.join(sorted({_words(kind) for kind in f.types}))}"


def _leaves(f: Field) -> str:
    return "numbers" if float in f.items else "integers"


def check_indexed(inst: Inst) -> None:
    """Raise if an operand is a scalar register, row-indexed or element-indexed, and ``inst`` takes none.

    The operands that may be element-indexed are a rule of each instruction.
    """
    for f, access in inst.operands():
        if is_scalar_register(access) and f.name not in inst.effects.scalar_registers:
            kind = "scalar" if isinstance(access, NkiScalar) else "register"
            raise MemoryRegionError(
                f"{inst.mnemonic}: {f.name} is {kind} '{access.name}', which only loops, indices and "
                f"nisa.{kind}_… read",
                fix=f"store it to a (1, 1) tile with nisa.{kind}_store",
            )
        if is_row_indexed(access) and not inst.effects.row_indexed:
            raise DynamicIndexError(
                f"{inst.mnemonic}: {f.name} '{access.name}' {access.shape} has an index for each row, which only DMA "
                "follows",
                fix="gather the rows into a tile with nisa.dma_copy first",
            )
        if is_element_indexed(access) and not inst.effects.element_indexed:
            raise DynamicIndexError(
                f"{inst.mnemonic}: {f.name} '{access.name}' {access.shape} is an indirect view, which this instruction "
                "does not take",
                fix="gather into a tile with nisa.tensor_copy(dst=tile, src=view), or scatter from one, and use that",
            )


def _check_written(inst: Inst) -> None:
    """Raise :class:`WriteOverlapError` if ``inst`` writes an element twice: the value that remains is undefined."""
    for written in inst.writes():
        if repeats(written) and not (written.one_place() and written.partitions_apart()):
            raise WriteOverlapError(
                f"{inst.mnemonic}: writes '{written.name}' through a view of shape {written.shape} with steps "
                f"{written.strides}, which names an element more than once",
                fix="write through a view without broadcast dimensions or overlapping steps, and repeat elements where "
                "they are read",
            )


def verify(inst: Inst, target: Target, known: dict[object, Sequence[Rule]], release: str = "") -> None:
    """Check types, generation and rules of ``inst`` in a kernel for ``release`` ("": for the newest).

    Forms in ``known`` (which grows) passed before: of these, it holds the rules that each instruction has to pass.
    Raises the broken rule's error.
    """
    try:
        form = inst.form
        again = known.get(form)
    except (AttributeError, TypeError):  # an operand of a wrong kind, or an unhashable argument
        check_types(inst)
        raise ArgumentError(
            f"{inst.mnemonic}: an argument cannot be used at compile time", fix="pass plain values"
        ) from None
    rules = again
    if rules is None:
        check_types(inst)
        check_indexed(inst)
        _check_written(inst)
        rules = [rule for rule in inst.rules if rule.applies_to(target, release)]
    for rule in rules:
        if not rule.ok(inst, target):
            raise rule.broken(inst, target)
    if again is None:
        known[form] = [rule for rule in rules if rule.looks_at_values(inst)]


def check_tensor(
    name: str,
    shape: tuple[int, ...],
    dtype: DType,
    buffer: Buffer,
    address: tuple[int, int] | None,
    target: Target,
) -> None:
    """Raise unless a tensor of this shape can exist in ``buffer`` of ``target``, at ``address`` if there is one."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
        raise ArgumentError(f"the name of a tensor is {name!r}, which is no string", fix="pass a string, or nothing")
    _check_shape(name, shape)
    if not buffer.on_chip:
        if math.prod(shape) * dtype.itemsize > target.hbm_bytes:
            raise CapacityError(
                f"tensor '{name}' of shape {shape} {dtype} takes {math.prod(shape) * dtype.itemsize} bytes of HBM; a "
                f"chip of {target.name} has {target.hbm_bytes}",
                fix="process the data in pieces",
            )
        return
    if len(shape) < 2:
        raise ShapeError(
            f"tensor '{name}' of shape {shape} in {buffer.value} needs at least 2 dimensions: (partitions, free…)",
            fix=f"make it ({', '.join(map(str, shape))}, 1)",
        )
    if shape[0] > target.partitions:
        raise PartitionError(
            f"tensor '{name}' of shape {shape} in {buffer.value} has {shape[0]} partitions; "
            f"{target.name} has {target.partitions}",
            fix=f"tile dimension 0 by {target.partitions}, or put what exceeds it into the free dimensions",
        )
    if buffer is Buffer.register:
        limit = 4 * target.vector_rng_words  # the largest state that a lane of an engine keeps
    else:
        limit = target.sbuf_partition_bytes if buffer is Buffer.sbuf else target.psum_partition_bytes
    size = dtype.itemsize
    for n in shape[1:]:
        size *= n
    if size > limit:
        raise CapacityError(
            f"tensor '{name}' of shape {shape} {dtype} takes {size} bytes per partition of {buffer.value}; "
            f"{target.name} has {limit}",
            fix="split the free dimension into smaller tiles",
        )
    if address is not None:
        _check_address(name, shape, size, limit, address, target)
        if buffer is Buffer.psum and address[1] % target.psum_bank_bytes:
            raise PsumError(
                f"address={address!r} of tensor '{name}' {shape} is no beginning of a PSUM bank: the offset "
                f"must be a multiple of {target.psum_bank_bytes} bytes",
                fix=f"place it at ({address[0]}, {address[1] // target.psum_bank_bytes * target.psum_bank_bytes}), or "
                "leave address out",
            )


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if not shape or any(size < 1 for size in shape):
        raise ShapeError(
            f"tensor '{name}' has shape {shape}: every dimension must be at least 1",
            fix="skip the work for an empty piece with an if",
        )
    if len(shape) > MOST_DIMENSIONS:
        raise ShapeError(
            f"tensor '{name}' has {len(shape)} dimensions; a tensor has at most {MOST_DIMENSIONS}",
            fix="join dimensions that belong together",
        )


def _check_address(
    name: str, shape: tuple[int, ...], size: int, limit: int, address: tuple[int, int], target: Target
) -> None:
    """``address`` is (first partition, byte offset) and leaves room for ``size`` bytes of ``limit`` per partition."""
    whole = isinstance(address, tuple) and len(address) == 2 and all(type(n) is int and n >= 0 for n in address)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not whole or address[0] + shape[0] > target.partitions or address[1] + size > limit:
        raise ArgumentError(
            f"address={address!r} of tensor '{name}' {shape} is not (first partition, byte offset) of a place with "
            f"{shape[0]} partitions and {size} free bytes; {target.name} has {target.partitions} and {limit}",
            fix="leave address out, or choose one that lies inside the memory",
        )
