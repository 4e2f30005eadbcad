"""Verify one tensor: rank, size, and the address that a kernel asks for, against the memories of a target."""

from __future__ import annotations

import math

from nki.base.dtype import DType
from nki.base.errors import ArgumentError, CapacityError, PartitionError, PsumError, ShapeError
from nki.ir.types import MOST_DIMENSIONS, Buffer
from nki.target.model import Target


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
