"""Functions of elements, operators on tiles, and assignment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.base.beta1_errors import Beta1OperandError, Beta1TensorError
from nki.base.element_types import DType
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.beta1 import dtypes
from nki.beta1.beta1_tensor import Pending, Tensor, flush, operations
from nki.beta1.lowering import (
    Operand,
    as_bits,
    by_way_of,
    copied,
    elementwise,
    into_bits,
    joint_shape,
    operand_of,
    padded,
    record,
    repeats,
    scratch,
    spread_rows,
    tile_of,
)
from nki.beta1.mask_regions import joined
from nki.beta1.operator_names import bit_kind, is_bits
from nki.beta1.recording_place import recorded_at
from nki.beta1.view import describe
from nki.ir.types import Access, Buffer
from nki.isa import build
from nki.isa.tables.alu_operators import TRUTHS
from nki.isa.tables.operators import OPS, Op
from nki.language import elementwise as present
from nki.language.nki_tensor import NkiTensor


def result_kind(name: str, dtype: Any, *sides: Operand) -> DType:
    """The dtype of a result: ``dtype`` if given, bool of comparisons, else what the sides make together."""
    if dtype is not None:
        return dt.of(dtype)
    if name in TRUTHS:
        return dt.bool_
    kind = dtypes.of_sides(*(s.kind if isinstance(s, Tensor) else s for s in sides))
    # A quotient of integers has a fraction: published kernels apply nl.floor to it.
    return dt.float32 if name == "divide" and not kind.is_float else kind


def combine(op: Op, dst: Access, x: Access | float, y: Access | float) -> None:
    """``dst = x op y`` for accesses of one shape and at most one number."""
    if is_bits(op):
        _combine_bits(op, dst, x, y)
    elif isinstance(x, Access) and isinstance(y, Access):
        if y.shape[1:] != x.shape[1:] and y.size == y.shape[0]:
            record(build.tensor_scalar(dst, x, op, y))
            return
        if op.name == "power" or (x.buffer is Buffer.psum and y.buffer is Buffer.psum):
            y = _in_sbuf(y)
        if op.name == "power":
            x = _in_sbuf(x)
        if op.name == "power" and dst.buffer is Buffer.psum:
            by_way_of(dst, "power", dst.dtype, lambda place: record(build.tensor_tensor(place, x, y, op)))
        else:
            record(build.tensor_tensor(dst, x, y, op))
    else:
        _combine_number(op, dst, x, y, float)


def _combine_number(op: Op, dst: Access, x: Access | float, y: Access | float, number: type[float]) -> None:
    """``dst = x op y`` where one side is a number."""
    if isinstance(x, Access):
        record(build.tensor_scalar(dst, x, op, number(cast("float", y))))
    elif isinstance(y, Access):
        record(build.tensor_scalar(dst, y, op, number(x), True))


def _in_sbuf(a: Access) -> Access:
    return a if a.buffer is Buffer.sbuf else copied(a, f"{a.name}_copy").bare()


def _combine_bits(op: Op, dst: Access, x: Access | float, y: Access | float) -> None:
    for side in (x, y):
        if isinstance(side, Access) and side.dtype.is_float:
            raise Beta1OperandError(
                f"nl.{op.name} of {side.dtype}: only integers have bits to combine",
                fix="pass integer tiles, or t.view(np.int32)",
            )
    kind = bit_kind(op, *(side.dtype if isinstance(side, Access) else side for side in (x, y)))
    left, right = (_widened(side, dt.uint8 if kind is dt.bool_ else kind) for side in (x, y))

    def compute(place: Access) -> None:
        if isinstance(left, Access) and isinstance(right, Access):
            record(build.tensor_tensor(place, left, right, op))
        else:
            _combine_number(op, place, left, right, int)

    into_bits(dst, kind, compute)


def _widened(side: Access | float, kind: DType) -> Access | float:
    if not isinstance(side, Access):
        return int(side)
    side = as_bits(side)
    return side if side.dtype.itemsize == kind.itemsize else copied(side, "wide", kind).bare()


def binary(name: str, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, by_operator: bool = False) -> Any:
    """``x name y``: a waiting result; a number for two numbers."""
    what = f"nl.{name}"
    left, right = operand_of(x, what, "x"), operand_of(y, what, "y")
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return getattr(np, name)(left, right).item()
    tiles = [side for side in (left, right) if isinstance(side, Tensor)]
    if name == "floor_divide":
        return unary("floor", binary("divide", left, right, dtype=np.float32, mask=mask), dtype=dtype, mask=mask)
    shape = joint_shape(what, *tiles)
    if by_operator and len({t.shape[0] for t in tiles}) > 1:
        raise Beta1OperandError(
            f"num_partition_mismatch: {' and '.join(f'{t.name!r} {t.shape}' for t in tiles)} have different partitions",
            fix=f"write {what}(x, y), which repeats a partition, or use broadcast_to",
        )
    op = OPS[name]
    kind = result_kind(name, dtype, left, right)
    if is_bits(op) and dtype is None:
        kind = bit_kind(op, *(side.kind if isinstance(side, Tensor) else side for side in (left, right)))

    def emit(dst: Tensor) -> None:
        column = _column(op, kind, *tiles, shape=shape) if len(tiles) == 2 else None
        if column is None:
            elementwise(dst, tiles, mask, lambda d, s: combine(op, d, *_sides([left, right], s)))
            return

        def emit_scalar(d: Access, s: list[Access]) -> None:
            record(build.tensor_scalar(d, s[0], op, s[1], column == 0))

        elementwise(dst, [tiles[column == 0]], mask, emit_scalar, [_as_scalars(tiles[column])])

    return Tensor.wait(Pending(shape, kind, emit, name=name))


def _sides(operands: list[Operand], accesses: list[Access]) -> list[Any]:
    """The numbers of ``operands``, and the accesses of its tiles."""
    rest = iter(accesses)
    return [next(rest) if isinstance(side, Tensor) else side for side in operands]


_LEAST_COLUMNS: Final = 128
"""Least columns of the other operand for which a copy of a column to float32 in SBUF pays."""


def _column(op: Op, kind: DType, *tiles: Tensor, shape: tuple[int, ...]) -> int | None:
    """The number of the operand that is one float for each partition, where the other one has ``shape``.

    Vector takes it as the number of each partition, and streams the other operand alone. Whole numbers that are
    compared are floats, too: only results of 32-bit integers are exact (``nisa.tensor_tensor``), and ``kind`` is bool.
    """
    if is_bits(op) or op.name == "power":
        return None
    for number in (1, 0):
        y, x = tiles[number], tiles[1 - number]
        is_one = y.size == y.shape[0] and y.shape[0] == shape[0] and y.ndim == 2
        if not is_one or x.shape != shape or x.size == x.shape[0]:
            continue
        becomes_float = y.kind in _NARROW or (kind is dt.bool_ and y.kind.is_integer)
        if _is_scalars(y) or (becomes_float and x.size >= _LEAST_COLUMNS * x.shape[0]):
            return number
    return None


_NARROW: Final = (dt.float32, dt.bfloat16, dt.float16)


def _is_scalars(column: Tensor) -> bool:
    return column.kind is dt.float32 and column.buffer is Buffer.sbuf


def _as_scalars(column: Tensor) -> Tensor:
    """``column``, or its values where ``nisa.tensor_scalar`` takes them: float32, in SBUF."""
    if _is_scalars(column):
        return column
    copied = scratch(f"{column.name}_scalars", column.shape, dt.float32)
    elementwise(copied, [column], None, lambda d, s: isa.tensor_copy(d, s[0]))
    return copied


def unary(name: str, x: Any, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """``name(x)``: a waiting result."""
    tile = tile_of(x, f"nl.{name}", "x")
    kind = dt.of(dtype) if dtype is not None else dt.bool_ if name == "logical_not" else tile.kind

    def emit(dst: Tensor) -> None:
        elementwise(dst, [tile], mask, lambda d, s: apply(name, d, s[0]))

    return Tensor.wait(Pending(tile.shape, kind, emit, name=name))


def apply(name: str, dst: Access, x: Access) -> None:
    """``dst = name(x)`` for accesses of one shape."""
    if name == "copy":
        isa.tensor_copy(dst, x)
    elif name == "negative":
        record(build.tensor_scalar(dst, x, OPS["multiply"], -1.0))
    elif name in _COMPOSED:
        _COMPOSED[name](dst, x)
    elif name == "rsqrt":
        isa.activation(dst, OPS["rsqrt"], x)
    elif name == "invert":
        _invert(dst, x)
    else:
        present.apply(NkiTensor(dst), name, NkiTensor(x))


def _invert(dst: Access, x: Access) -> None:
    if x.dtype is dt.bool_:  # not, as NumPy has it, for 254 is as true as 255
        combine(OPS["bitwise_xor"], dst, x, 1)
        return
    into_bits(dst, x.dtype, lambda place: record(build.tensor_scalar(place, x, OPS["invert"], 0)))


def _composed(name: str) -> Any:
    function = getattr(present, name)

    def run(dst: Access, x: Access) -> None:
        isa.tensor_copy(dst, function(NkiTensor(x), dtype=dst.dtype))

    return run


_COMPOSED: Final = {name: _composed(name) for name in ("cos", "tan", "floor", "ceil", "trunc")}


def copy(src: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Any:
    """A copy of a tile in SBUF."""
    return unary("copy", src, dtype=dtype, mask=mask)


setattr(copy, "operator", OPS["copy"])  # noqa: B010  # of a function


def where(condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
    """``x`` where ``condition`` is not 0, else ``y``."""
    what = "nl.where"
    test = tile_of(condition, what, "condition")
    left, right = operand_of(x, what, "x"), operand_of(y, what, "y")
    tiles = [side for side in (left, right) if isinstance(side, Tensor)]
    shape = joint_shape(what, test, *tiles)
    kind = result_kind("where", dtype, left, right)

    def emit(dst: Tensor) -> None:
        elementwise(dst, [test, *tiles], mask, lambda d, s: select(d, *_sides([test, left, right], s)))

    return Tensor.wait(Pending(shape, kind, emit, name="where"))


def select(dst: Access, test: Access, a: Access | float, b: Access | float) -> None:
    """``dst = a`` where ``test`` is not 0, else ``b``."""
    chosen = predicate(test)
    used = {side.tensor for side in (test, a) if isinstance(side, Access)}
    out = (
        dst if dst.tensor not in used and dst.buffer is Buffer.sbuf else scratch("chosen", dst.shape, dst.dtype).bare()
    )
    if isinstance(b, Access):
        isa.tensor_copy(out, b)
    else:
        isa.memset(out, b)
    if isinstance(a, Access):
        if a.dtype is not dst.dtype or a.buffer is Buffer.psum:
            a = copied(a, "same", dst.dtype).bare()
    elif dst.dtype.is_float:
        a = float(a)
    isa.tensor_copy_predicated(out, a, chosen)
    if out is not dst:
        isa.tensor_copy(dst, out)


def predicate(test: Access) -> Access:
    """``test`` as a predicate of ``nisa.tensor_copy_predicated``: unsigned integers, not 0 where it is not 0."""
    if test.dtype.kind in "bu":
        return as_bits(test)
    truth = scratch("truth", test.shape, dt.uint8).bare()
    record(build.tensor_scalar(truth, test, OPS["not_equal"], 0.0))
    return truth


def assign(target: Tensor, value: Any) -> None:
    """``t[…] = value``: a waiting result is recorded with ``t`` as destination, a tile is copied, a number fills."""
    if not target.buffer.is_hbm and target.base.blocks:
        _ = target.place  # says what is wrong
    if isinstance(value, Tensor):
        mask = joined(target.mask, value.mask)
        if mask is None and value.pending is not None and _record_into(target, value):
            return
        flush()  # what waits may read the target
        if value.buffer.is_hbm or target.buffer.is_hbm:
            operations["move"](target, value, mask)
            return
        value.settle()
        fitted = _fitted(target, value.shape)
        into = target if fitted is None else fitted
        _check_repeats(value, into)
        elementwise(into, [value], mask, lambda d, s: isa.tensor_copy(d, s[0]))
        return
    flush()
    number = operand_of(value, "assignment", "value")
    assert not isinstance(number, Tensor)
    if target.buffer.is_hbm:
        operations["store"](target, number)
        return
    fill(target, number, target.mask)


def _check_repeats(value: Tensor, target: Tensor) -> None:
    """Raise unless dimensions of size 1 repeat ``value`` to the shape of ``target``."""
    if not repeats(value.shape, target.shape):
        raise Beta1OperandError(
            f"store_dst_shape_smaller_than_other_shape: assignment: '{value.name}' {value.shape} cannot be repeated to "
            f"'{target.name}' {target.shape}",
            fix="index both sides to one shape",
        )


def fill(target: Tensor, number: float, mask: Any) -> None:
    """Fill the elements of ``target`` where ``mask`` holds with a number."""
    whole = number if target.kind.is_float or target.kind.kind == "b" else int(number)
    elementwise(target, [], mask, lambda d, _: isa.memset(d, whole))


def _record_into(target: Tensor, value: Tensor) -> bool:
    """Record the waiting result ``value`` with ``target`` as destination; False if it needs a tile of its own."""
    pending = value.pending
    assert pending is not None
    direct = target.buffer.on_chip if pending.direct is None else pending.direct(target)
    into = _destination(target, pending) if direct else None
    if into is None:
        return False
    pending = value.take()
    with recorded_at(pending.where):
        pending.emit(into)
    value.become(into)
    return True


def _destination(target: Tensor, pending: Pending) -> Tensor | None:
    """``target`` as the destination of ``pending``: a view of its shape, of a product any with as many elements."""
    into = _fitted(target, pending.shape)
    if into is None and pending.product is not None and target.size == int(np.prod(pending.shape)):
        return target if target.shape[0] == pending.shape[0] else None
    return into


def _fitted(target: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """``target`` as a view of ``shape``, if only dimensions of size 1 differ; None otherwise."""
    if target.shape == shape:
        return target
    if target.size != int(np.prod(shape)) or target.shape[0] != shape[0]:
        return None
    fitted = target.base.fitted(shape)
    if fitted is not None:
        return Tensor(target.storage, replace(fitted, strides=(target.base.strides[0], *fitted.strides[1:])))
    try:
        return target.reshape(shape) if target.buffer.on_chip else None
    except Beta1TensorError:
        return None


def update(name: str, target: Any, value: Any) -> Any:
    """``t op= value`` in place; of a matrix product into PSUM, the sum goes on there."""
    target.settle()
    if target.buffer.is_hbm:
        raise Beta1OperandError(
            f"unsupported_memory: {describe(target.storage.name, target.base)} in {target.buffer.value} is updated in "
            "place",
            fix="load it, compute, and store it; or use nl.atomic_rmw",
        )
    pending = value.pending if isinstance(value, Tensor) else None
    if name == "add" and target.buffer is Buffer.psum and pending is not None and pending.product is not None:
        into = _destination(target, pending)
        if into is not None:
            accumulate(into, value)
            return target
    result = binary(name, Tensor(target.storage, target.base), value, mask=target.mask)
    if result.shape != target.shape:
        return result
    assign(target, result)
    return target


def accumulate(target: Tensor, value: Tensor) -> None:
    """Add the waiting product ``value`` to the PSUM tile ``target``, or start its sum."""
    pending = value.take()
    assert pending.product is not None
    if target.kind is not pending.dtype:
        _add_rounded(target, pending, value)
        return
    with recorded_at(pending.where):
        if pending.product(target):
            value.become(target)
            return
    value.become(Tensor.wait(pending).settle())
    assign(target, binary("add", Tensor(target.storage, target.base), value, mask=target.mask))


def _add_rounded(target: Tensor, pending: Pending, value: Tensor) -> None:
    """Add a product to a PSUM tile of another dtype than the Tensor engine adds in: in its own tile first, for "the
    matmul accumulation and results are always in float32" (reference of nisa.nc_matmul, 2.26.1).
    """
    with recorded_at(pending.where):
        warn_here(
            f"'{target.name}' is {target.kind} in PSUM, where the Tensor engine adds {pending.dtype}: each product is "
            f"added by the Vector engine and rounded; make '{target.name}' {pending.dtype}, and convert the sum",
            NkiPortabilityWarning,
        )
    made = Tensor.wait(pending).settle()
    value.become(made)
    starts = target.mask is None and target.place.starts_sum(target.bare())
    assign(target, made if starts else binary("add", Tensor(target.storage, target.base), made, mask=target.mask))


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """``x`` with dimensions of size 1 repeated: a view, but for the partitions."""
    tile: Tensor = x.settle()
    sizes = tuple(int(n) for n in shape)
    own = padded(tile.shape, len(sizes)) if tile.buffer.on_chip else (*(1,) * (len(sizes) - tile.ndim), *tile.shape)
    if any(have not in (1, want) for have, want in zip(own, sizes, strict=True)):
        raise Beta1OperandError(
            f"broadcast_to: '{tile.name}' {tile.shape} cannot be repeated to {sizes}",
            fix="each dimension keeps its size, unless that is 1",
        )
    if tile.buffer.on_chip and own[0] != sizes[0]:
        tile = spread_rows(tile, sizes[0])
        own = (sizes[0], *own[1:])
    base = tile.base
    more = len(sizes) - tile.ndim
    strides = (
        (*base.strides[:1], *(0,) * more, *base.strides[1:]) if tile.buffer.on_chip else (*(0,) * more, *base.strides)
    )
    kept = tuple(s if n == want else 0 for s, n, want in zip(strides, own, sizes, strict=True))
    return Tensor(tile.storage, replace(base, shape=sizes, strides=kept, bounds=()))


operations.update({
    "assign": assign,
    "binary": binary,
    "broadcast_to": broadcast_to,
    "copy": copy,
    "unary": unary,
    "update": update,
})  # fmt: skip

__all__ = ["accumulate", "apply", "assign", "binary", "broadcast_to", "combine", "copy", "fill", "predicate", "select",
           "unary", "update", "where"]  # fmt: skip
