"""New tensors: ``ndarray`` with block dimensions, filled tiles, constants, random numbers."""

from __future__ import annotations

import functools
import math
import operator
from enum import Enum
from typing import Any, cast

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.beta1_errors import Beta1TensorError
from nki.base.element_types import DType
from nki.base.source import here
from nki.beta1 import dtypes
from nki.beta1.allocation import Allocator
from nki.beta1.beta1_tensor import Pending, Tensor, flush
from nki.beta1.block_storage import Storage
from nki.beta1.lowering import elementwise, in_dtype, operand_of, scratch, tile_of
from nki.frontend.builder import current
from nki.ir.constant import constant as constant_of
from nki.ir.types import Access, Buffer
from nki.isa.tables.operators import OPS
from nki.language.creation import ParDim
from nki.target.memory_spaces import memory_spaces

Shape = tuple[int, ...]


_BUFFERS = {
    "sbuf": Buffer.sbuf, "psum": Buffer.psum, "hbm": Buffer.hbm, "private_hbm": Buffer.hbm,
    "shared_hbm": Buffer.shared_hbm,
}  # fmt: skip


def sizes_of(shape: Any, what: str) -> tuple[Any, ...]:
    """``shape`` as a tuple of integers; one may be a :class:`ParDim`."""
    entries = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple | list) else (shape,)
    try:
        return tuple(n if isinstance(n, ParDim) else int(operator.index(n)) for n in entries)
    except TypeError:
        if all(isinstance(n, float) and n.is_integer() for n in entries if not hasattr(n, "__index__")):
            return tuple(int(n) for n in entries)
        raise Beta1TensorError(
            f"{what}: shape {shape!r:.60} is not made of integers", fix="pass a shape such as (128, 512)"
        ) from None


def buffer_of(buffer: Any, what: str) -> Buffer | Allocator:
    """The memory that ``buffer`` names, or the allocator that it is."""
    if buffer is None:
        return Buffer.sbuf
    if isinstance(buffer, Allocator | Buffer):
        return buffer
    word = buffer.value if isinstance(buffer, Enum) else buffer
    if isinstance(word, str) and word in _BUFFERS:
        return _BUFFERS[word]
    raise Beta1TensorError(
        f"unsupported_memory: {what}: buffer {buffer!r:.40} is no memory",
        fix="use nl.sbuf, nl.psum, nl.hbm or nl.shared_hbm",
    )


def new(what: str, shape: Any, dtype: Any, buffer: Any, name: str, initial: float | None = None) -> Tensor:
    """A new tensor. In HBM block dimensions are dimensions like others."""
    flush()
    where = here()
    sizes, place = sizes_of(shape, what), buffer_of(buffer, what)
    label = name or assigned_name(where, "tensor")
    kind = dt.of(dtype)
    memory = place.buffer if isinstance(place, Allocator) else place
    if memory.is_hbm:
        if initial is not None:
            raise Beta1TensorError(
                f"hbm_tensor_with_init_value: {what}: '{label}' in {memory.value} gets an initial value",
                fix="make it with nl.ndarray and store a tile of that value",
            )
        plain = tuple(int(n) for n in sizes)
        tensor = current(what).tensor(label, plain, kind, memory, where=where)
        return Tensor.around(Access.whole(tensor))
    at = next((i for i, n in enumerate(sizes) if isinstance(n, ParDim)), 0)
    blocks, tile = tuple(int(n) for n in sizes[:at]), tuple(int(n) for n in sizes[at:])
    if len(tile) == 1:
        tile = (*tile, 1)
    check_size(what, label, tile, kind, memory)
    address = place.address_of(tile, kind, len(blocks), label) if isinstance(place, Allocator) else None
    if address is not None and initial is not None and initial != 0:
        raise Beta1TensorError(
            f"tensor_creation_on_scratchpad_with_init_value: {what}: '{label}' has an address and an initial value",
            fix="make it with nl.ndarray, and fill it with nisa.memset",
        )
    return Tensor.whole(Storage(label, blocks, tile, kind, memory, where, address=address, initial=initial))


def check_size(what: str, label: str, tile: Shape, kind: DType, memory: Buffer) -> None:
    """Raise unless ``memory`` has room for a tile of this shape."""
    target = current(what).target
    if tile[0] > target.partitions:
        raise Beta1TensorError(
            f"num_partition_exceed_arch_limit: {what}: '{label}' {tile} has {tile[0]} partitions; a tile has at most "
            f"{target.partitions}",
            fix="split the first dimension: (blocks, nl.par_dim(128), …)",
        )
    space = next(space for space in memory_spaces(target) if space.name == memory.value)
    needed = math.prod(tile[1:]) * kind.itemsize
    if needed > space.usable:
        raise Beta1TensorError(
            f"size_of_dimension_exceed_arch_limit: {what}: '{label}' {tile} {kind} takes {needed} bytes of a "
            f"partition; {memory.value} has {space.usable}",
            fix="split the free dimension into tiles",
        )


def ndarray(shape: Any, dtype: Any = np.float32, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """A new tensor with undefined contents."""
    return new("nl.ndarray", shape, dtype, buffer, name)


def zeros(shape: Any, dtype: Any = np.float32, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """A new tensor of zeros. In PSUM, a product that is added to them overwrites them."""
    return new("nl.zeros", shape, dtype, buffer, name, 0)


def ones(shape: Any, dtype: Any = np.float32, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """A new tensor of ones."""
    return new("nl.ones", shape, dtype, buffer, name, 1)


def full(
    shape: Any, fill_value: Any, dtype: Any = np.float32, *, buffer: Any = None, name: str = "", **_: Any
) -> Tensor:
    """A new tensor filled with ``fill_value``."""
    number = operand_of(fill_value, "nl.full", "fill_value")
    if isinstance(number, Tensor):
        raise Beta1TensorError("nl.full: fill_value is a tile", fix="pass a number, or use nl.broadcast_to")
    kind = dt.of(dtype)
    value = float(number) if kind.is_float else int(number)
    return new("nl.full", shape, dtype, buffer, name, value)


def zeros_like(a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """A new tensor of zeros with the shape of ``a``."""
    return new("nl.zeros_like", _shape_like(a), a.dtype if dtype is None else dtype, buffer or _memory(a), name, 0)


def empty_like(a: Any, dtype: Any = None, *, buffer: Any = None, name: str = "", **_: Any) -> Tensor:
    """A new tensor with undefined contents and the shape of ``a``."""
    return new("nl.empty_like", _shape_like(a), a.dtype if dtype is None else dtype, buffer or _memory(a), name)


def _memory(a: Tensor) -> Buffer:
    return a.buffer if a.buffer.on_chip else Buffer.sbuf


def _shape_like(a: Tensor) -> tuple[Any, ...]:
    if a.pending is not None or not a.buffer.on_chip:
        return a.shape
    blocks = len(a.base.blocks)
    return (*a.shape[:blocks], ParDim(a.shape[blocks]), *a.shape[blocks + 1 :])


def shared_constant(constant: Any, dtype: Any = None, **_: Any) -> Tensor:
    """A tensor in HBM with the contents of a NumPy array."""
    flush()
    where = here()
    array: Any = np.asarray(constant)
    if dtype is None and array.dtype.itemsize == 8:  # Python's numbers
        dtype = np.float32 if array.dtype.kind == "f" else np.int32
    kind = dt.of(array.dtype if dtype is None else dtype)
    data = np.ascontiguousarray(array.astype(kind.dtype))
    label = assigned_name(where, "constant")
    tensor = current("nl.shared_constant").constant(label, data.shape, kind, constant_of(data.tobytes()), where)
    return Tensor.around(Access.whole(tensor))


@functools.lru_cache(maxsize=16)
def _identity(n: int, name: str) -> Any:
    return np.eye(n).astype(dt.of(name).dtype)


def shared_identity_matrix(n: Any, dtype: Any = np.uint8, **_: Any) -> Tensor:
    """A tensor in HBM that holds the identity matrix."""
    return shared_constant(_identity(int(n), dt.of(dtype).name), dtype)


def rand(shape: Any, dtype: Any = np.float32, *, mask: Any = None, **_: Any) -> Tensor:
    """A new tile of random numbers from 0 to 1."""
    sizes, kind = tuple(int(n) for n in sizes_of(shape, "nl.rand")), dt.of(dtype)

    def draw(dst: Access, _sources: list[Access]) -> None:
        bits = scratch("bits", dst.shape, dt.uint32).bare()
        isa.rng(bits)
        isa.tensor_scalar(bits, bits, OPS["right_shift"], 8)
        isa.tensor_scalar(dst, bits, OPS["multiply"], 2.0**-24)

    return Tensor.wait(Pending(sizes, kind, lambda dst: elementwise(dst, [], mask, draw), name="rand"))


def random_seed(seed: Any, **_: Any) -> None:
    """Start the random numbers again."""
    flush()
    value = operand_of(seed, "nl.random_seed", "seed")
    if not isinstance(value, Tensor):
        tile = scratch("seed", (1, 1), dt.int32)
        isa.memset(tile.bare(), int(value))
        value = tile
    isa.set_rng_seed(value.access)


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
    """``x`` with elements replaced by 0, each with the probability ``rate``."""
    what = "nl.dropout"
    tile, chance = tile_of(x, what, "x"), operand_of(rate, what, "rate")
    columns = [chance] if isinstance(chance, Tensor) else []

    def emit(dst: Tensor) -> None:
        elementwise(dst, [tile], mask, lambda d, s: drop(d, s[0], s[1] if columns else chance), columns)

    return Tensor.wait(Pending(tile.shape, dtypes.chosen(dtype, tile.kind), emit, name="dropout"))


def drop(dst: Access, x: Access, rate: Any) -> None:
    """``dst``: ``x`` with elements replaced by 0; numbers are drawn for the elements of ``x`` in its dtype."""
    in_dtype(dst, x.dtype, "kept", lambda place: isa.dropout(place, x, rate))
