"""Instructions of ``neuronxcc.nki.isa`` that compute element by element or reduce: each gives a waiting result.

Those that also write to an argument are declared to return ``Any``: a kernel may leave their result unused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from nki import isa
from nki.base import dtype as dt
from nki.base.beta1_errors import Beta1MaskError, Beta1OperandError
from nki.base.dtype import DType
from nki.beta1 import creation, dtypes, reducing
from nki.beta1.elementwise import combine, select
from nki.beta1.index import Index, as_number
from nki.beta1.lowering import (
    alike,
    as_bits,
    at_start,
    constant_tile,
    converted,
    elementwise,
    in_sbuf,
    into_bits,
    joint_shape,
    operand_of,
    record,
    tile_of,
)
from nki.beta1.masks import Mask
from nki.beta1.operators import bit_kind, is_bits, operator_of
from nki.beta1.tensor import Pending, Tensor, flush
from nki.ir.types import Access, Buffer
from nki.isa import build
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS, Op

Shape = tuple[int, ...]
Compute = Callable[[Access, list[Access]], object]


def waiting(
    shape: Shape, kind: DType, sources: Sequence[Tensor], mask: Any, compute: Compute, name: str,
    columns: Sequence[Tensor] = (), direct: Any = None,
) -> Tensor:  # fmt: skip
    """A waiting result of :func:`elementwise`."""
    return Tensor.wait(
        Pending(shape, kind, lambda dst: elementwise(dst, sources, mask, compute, columns), name=name, direct=direct)
    )


def in_sbuf_only(target: Tensor) -> bool:
    """True if ``target`` is in SBUF, which alone the instruction writes."""
    return target.buffer is Buffer.sbuf


def kind_of(dtype: Any, otherwise: DType) -> DType:
    """The compiler's type of ``dtype``, or ``otherwise`` for None."""
    return otherwise if dtype is None else dtypes.of(dtype)


class Columns:
    """The (partitions, 1) operands of a call: numbers stay, tiles come behind the sources."""

    def __init__(self, what: str, first: int) -> None:
        self.what = what
        self.first = first
        self.tiles: list[Tensor] = []

    def take(self, value: Any, name: str, *, as_float: bool = True) -> Callable[[list[Access]], Any]:
        """A function from the accesses of the instruction to the operand."""
        if value is None:
            return lambda _: None
        operand = operand_of(value, self.what, name)
        if not isinstance(operand, Tensor):
            return lambda _: operand
        tile = converted(operand, dt.float32) if as_float and operand.kind is not dt.float32 else operand
        position = self.first + len(self.tiles)
        self.tiles.append(tile.reshape((tile.shape[0], 1)) if tile.ndim != 2 and tile.size == tile.shape[0] else tile)
        return lambda s: s[position]

    def into(self, value: Any, name: str) -> Callable[[list[Access]], Any]:
        """:meth:`take` of a tile that the instruction writes."""
        if value is None:
            return lambda _: None
        tile = tile_of(value, self.what, name)
        position = self.first + len(self.tiles)
        self.tiles.append(tile)

        def written(s: list[Access]) -> Access:
            tile.place.before_write(s[position])
            return s[position]

        return written


def engine_of(value: Any) -> enums.engine:
    """The engine that a call names; unknown for another value."""
    return value if isinstance(value, enums.engine) else enums.engine.unknown


def activation(
    op: Any, data: Any, *, bias: Any = None, scale: Any = 1.0, reduce_op: Any = None, reduce_res: Any = None,
    reduce_cmd: Any = enums.reduce_cmd.idle, dtype: Any = None, mask: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """``op(data * scale + bias)`` on the Scalar engine."""
    what = "nisa.activation"
    tile = tile_of(data, what, "data")
    function = OPS["copy"] if op is None else operator_of(op, what)
    columns = Columns(what, 1)
    bias_of, scale_of = columns.take(bias, "bias", as_float=False), columns.take(scale, "scale")
    result_of = columns.into(reduce_res, "reduce_res")
    fold = None if reduce_op is None else operator_of(reduce_op, what, "reduce_op")

    def run(dst: Access, s: list[Access]) -> None:
        number = bias_of(s)
        isa.activation(
            dst, function, s[0], bias=number if number != 0 or isinstance(number, Access) else None,
            scale=_float(scale_of(s)), reduce_op=fold, reduce_res=result_of(s), reduce_cmd=reduce_cmd,
        )  # fmt: skip

    return waiting(tile.shape, kind_of(dtype, tile.kind), [tile], mask, run, "activated", columns.tiles)


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def activation_reduce(
    op: Any, data: Any, *, reduce_op: Any, reduce_res: Any, bias: Any = None, scale: Any = 1.0, dtype: Any = None,
    mask: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """``activation`` and the sum of its results in ``reduce_res``."""
    return activation(
        op, data, bias=bias, scale=scale, reduce_op=reduce_op, reduce_res=reduce_res,
        reduce_cmd=enums.reduce_cmd.reset_reduce, dtype=dtype, mask=mask,
    )  # fmt: skip


def tensor_scalar(
    data: Any, op0: Any, operand0: Any, reverse0: bool = False, op1: Any = None, operand1: Any = None,
    reverse1: bool = False, *, dtype: Any = None, mask: Any = None, engine: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """``(data op0 operand0) op1 operand1`` with numbers or (partitions, 1) operands."""
    what = "nisa.tensor_scalar"
    tile = tile_of(data, what, "data")
    first, second = operator_of(op0, what, "op0"), None if op1 is None else operator_of(op1, what, "op1")
    if tile.kind is dt.bool_ and first.name == "invert":
        first, operand0 = OPS["bitwise_xor"], 1  # not, as of nl.invert
    bits = is_bits(first)
    columns = Columns(what, 1)
    a, b = (columns.take(v, n, as_float=not bits) for v, n in ((operand0, "operand0"), (operand1, "operand1")))
    kind = kind_of(dtype, tile.kind)

    def run(dst: Access, s: list[Access]) -> None:
        x, y = a(s), b(s)
        by = _engine(engine, first)
        if not bits:
            x, y = _float(x), _float(y)
            record(build.tensor_scalar(dst, s[0], first, x, bool(reverse0), second, y, bool(reverse1), by))
            return
        source, *numbers = (as_bits(n) if isinstance(n, Access) else n for n in (s[0], x, y))

        def compute(place: Access) -> None:
            operands = first, numbers[0], bool(reverse0), second, numbers[1], bool(reverse1), by
            record(build.tensor_scalar(place, source, *operands))

        steps = [(op, n.dtype if isinstance(n, Access) else n) for op, n in ((first, x), (second, y)) if op is not None]
        truths = all(bit_kind(op, s[0].dtype, n) is dt.bool_ for op, n in steps)
        into_bits(dst, dt.bool_ if truths else source.dtype, compute)

    return waiting(tile.shape, kind, [tile], mask, run, "scaled", columns.tiles)


def _engine(engine: Any, op: Op) -> enums.engine:
    chosen = engine_of(engine)
    return enums.engine.unknown if chosen is enums.engine.gpsimd and op.name != "rsqrt" else chosen


def tensor_tensor(
    data1: Any, data2: Any, op: Any, *, dtype: Any = None, mask: Any = None, engine: Any = None, **_: Any
) -> Tensor:
    """``data1 op data2``, element by element."""
    what = "nisa.tensor_tensor"
    left, right = alike(tile_of(data1, what, "data1"), tile_of(data2, what, "data2"))
    function = operator_of(op, what)
    shape = joint_shape(what, left, right)
    bits = is_bits(function)
    joint = bit_kind(function, left.kind, right.kind) if bits else dtypes.of_sides(left.kind, right.kind)
    kind = kind_of(dtype, joint)

    def run(dst: Access, s: list[Access]) -> None:
        chosen = engine_of(engine)
        if bits or function.name == "power" or chosen is enums.engine.unknown or _both_psum(s):
            combine(function, dst, s[0], s[1])
        else:
            record(build.tensor_tensor(dst, s[0], s[1], function, chosen))

    return waiting(shape, kind, [left, right], mask, run, "combined")


def _both_psum(s: list[Access]) -> bool:
    return s[0].buffer is Buffer.psum and s[1].buffer is Buffer.psum


def scalar_tensor_tensor(
    *, data: Any, op0: Any, operand0: Any, op1: Any, operand1: Any, reverse0: bool = False, reverse1: bool = False,
    dtype: Any = None, mask: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """``(data op0 operand0) op1 operand1`` with a number or column, then a tile."""
    what = "nisa.scalar_tensor_tensor"
    left, right = alike(tile_of(data, what, "data"), tile_of(operand1, what, "operand1"))
    if left.buffer is Buffer.psum and right.buffer is Buffer.psum:
        right = in_sbuf(right)
    first, second = operator_of(op0, what, "op0"), operator_of(op1, what, "op1")
    columns = Columns(what, 2)
    number = columns.take(operand0, "operand0")

    def run(dst: Access, s: list[Access]) -> None:
        record(
            build.scalar_tensor_tensor(
                dst, s[0], first, _float(number(s)), second, s[1], bool(reverse0), bool(reverse1)
            )
        )

    kind = kind_of(dtype, dtypes.of_sides(left.kind, right.kind))
    return waiting(joint_shape(what, left, right), kind, [left, right], mask, run, "combined", columns.tiles)


def tensor_scalar_reduce(
    *, data: Any, op0: Any, operand0: Any, reduce_op: Any, reduce_res: Any, reverse0: bool = False, dtype: Any = None,
    mask: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """``data op0 operand0``, and its fold in ``reduce_res``."""
    what = "nisa.tensor_scalar_reduce"
    tile = tile_of(data, what, "data")
    first, fold = operator_of(op0, what, "op0"), operator_of(reduce_op, what, "reduce_op")
    columns = Columns(what, 1)
    number, into = columns.take(operand0, "operand0"), columns.into(reduce_res, "reduce_res")

    def run(dst: Access, s: list[Access]) -> None:
        isa.tensor_scalar_reduce(dst, s[0], first, _float(number(s)), fold, into(s), reverse0=bool(reverse0))

    return waiting(tile.shape, kind_of(dtype, tile.kind), [tile], mask, run, "scaled", columns.tiles)


def tensor_tensor_scan(
    data0: Any, data1: Any, initial: Any, op0: Any, op1: Any, reverse0: bool = False, reverse1: bool = False, *,
    dtype: Any = None, mask: Any = None, **_: Any,
) -> Tensor:  # fmt: skip
    """``r = op1(op0(data0, r), data1)`` along the free dimension."""
    what = "nisa.tensor_tensor_scan"
    left, right = alike(tile_of(data0, what, "data0"), tile_of(data1, what, "data1"))
    if left.buffer is Buffer.psum and right.buffer is Buffer.psum:
        right = in_sbuf(right)
    first, second = operator_of(op0, what, "op0"), operator_of(op1, what, "op1")
    columns = Columns(what, 2)
    start = columns.take(initial, "initial", as_float=False)

    def run(dst: Access, s: list[Access]) -> None:
        isa.tensor_tensor_scan(
            dst, s[0], s[1], _float(start(s)), first, second, reverse0=bool(reverse0), reverse1=bool(reverse1)
        )

    kind = kind_of(dtype, dtypes.of_sides(left.kind, right.kind))
    return waiting(joint_shape(what, left, right), kind, [left, right], mask, run, "scanned", columns.tiles)


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """``1 / data``."""
    tile = tile_of(data, "nisa.reciprocal", "data")
    return waiting(
        tile.shape, kind_of(dtype, tile.kind), [tile], mask, lambda d, s: isa.reciprocal(d, s[0]), "reciprocal"
    )


def tensor_reduce(
    op: Any, data: Any, axis: Any, *, mask: Any = None, dtype: Any = None, negate: bool = False,
    keepdims: bool = False, **_: Any,
) -> Tensor:  # fmt: skip
    """``data`` folded over its last dimensions."""
    what = "nisa.tensor_reduce"
    return reducing.reduce(
        operator_of(op, what), data, axis, what, dtype=dtype, mask=mask, keepdims=keepdims, negate=bool(negate)
    )


def tensor_partition_reduce(op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """``data`` folded over its partitions."""
    what = "nisa.tensor_partition_reduce"
    tile = in_sbuf(tile_of(data, what, "data"))
    function = operator_of(op, what)

    def emit(dst: Tensor) -> None:
        source = tile if mask is None else tile[_box(mask, tile.shape, what)]
        place = dst.bare()
        dst.place.before_write(place)
        at_start(place, lambda into: isa.tensor_partition_reduce(into, function, source.access))

    shape = (1, *tile.shape[1:])
    return Tensor.wait(
        Pending(shape, kind_of(dtype, tile.kind), emit, name="reduced", direct=lambda t: t.buffer is Buffer.sbuf)
    )


def _box(mask: Any, shape: Shape, what: str) -> tuple[slice, ...]:
    over = reducing.region(mask, shape)
    if over.box is None or over.array is not None:
        raise Beta1MaskError(f"{what}: its mask is no box", fix="use a mask that bounds each dimension")
    return tuple(slice(a, b) for a, b in over.box)


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """``on_true_tile`` where the comparison of indices ``pred`` holds, else a number."""
    what = "nisa.affine_select"
    tile = tile_of(on_true_tile, what, "on_true_tile")
    if not isinstance(pred, Mask | bool | np.bool_):
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: {what}: pred is a {type(pred).__name__}, not a comparison of indices",
            fix="write pred=(i_p >= i_f)",
        )
    number = float(on_false_value)
    kind = kind_of(dtype, tile.kind)
    affine = pred.affine if isinstance(pred, Mask) else None
    chosen = pred.array(tile.shape) if isinstance(pred, Mask) else np.full(tile.shape, bool(cast("bool", pred)))

    def emit(dst: Tensor) -> None:
        if affine is None or mask is not None or dst.shape != tile.shape:
            sources = [constant_tile(chosen.astype(np.uint8)), tile]
            elementwise(dst, sources, mask, lambda d, s: select(d, s[0], s[1], number))
            return
        index, name = affine
        steps = index.expanded(len(tile.shape))[1]
        source = in_sbuf(tile)
        into = dst.bare()
        dst.place.before_write(into)
        pattern = [[step, n] for step, n in zip(steps[1:], tile.shape[1:], strict=True)]
        more: dict[str, Any] = {"cmp_op": OPS[name], "offset": index.start}
        at_start(into, lambda dst: isa.affine_select(dst, pattern, steps[0], source.access, number, **more))

    return Tensor.wait(Pending(tile.shape, kind, emit, name="selected", direct=in_sbuf_only))


def iota(expr: Any, dtype: Any, *, mask: Any = None, **_: Any) -> Tensor:
    """The integers of an index expression as a tile; a number, such as a program's, is a tile of one element."""
    number = as_number(expr)
    if number is not None:
        expr = Index(number, (1, 1), (0, 0))
    if not isinstance(expr, Index):
        raise Beta1OperandError(
            f"nisa.iota: expr is {expr!r:.40} ({type(expr).__name__}), not an index", fix="pass nl.arange(512)[None, :]"
        )
    shape = expr.shape if expr.ndim > 1 else (1, *expr.shape)
    steps = expr.expanded(len(shape))[1]

    def emit(dst: Tensor) -> None:
        pattern = [[step, n] for step, n in zip(steps[1:], shape[1:], strict=True)]
        into = dst.bare() if mask is None else dst[_box(mask, shape, "nisa.iota")].bare()
        dst.place.before_write(into)
        counts = [[step, n] for (step, _), n in zip(pattern, into.shape[1:], strict=True)]
        at_start(into, lambda place: isa.iota(place, counts, offset=expr.start, channel_multiplier=steps[0]))

    return Tensor.wait(Pending(shape, dtypes.of(dtype), emit, name="iota", direct=in_sbuf_only))


def memset(shape: Any, value: Any, dtype: Any, *, mask: Any = None, engine: Any = None, **_: Any) -> Tensor:
    """A tile filled with a number."""
    del engine
    return creation.memset(shape, value, dtype, mask)


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Count, mean and count times variance of the even elements, then of the odd ones."""
    return _statistics("bn_stats", isa.bn_stats, data, 6, mask, dtype)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Mean and variance of the triples of ``bn_stats``."""
    return _statistics("bn_aggr", isa.bn_aggr, data, 2, mask, dtype)


def _statistics(name: str, function: Any, data: Any, count: int, mask: Any, dtype: Any) -> Tensor:
    what = f"nisa.{name}"
    tile = tile_of(data, what, "data")

    def emit(dst: Tensor) -> None:
        source = tile if mask is None else tile[_box(mask, tile.shape, what)]
        into = dst[0 : source.shape[0]].bare()
        dst.place.before_write(into)
        at_start(into, lambda place: function(place, source.access))

    return Tensor.wait(Pending((tile.shape[0], count), kind_of(dtype, tile.kind), emit, name=name))


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """The eight largest elements of each partition."""
    return _statistics("max8", isa.max8, src, 8, mask, dtype)


def nc_find_index8(*, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """The first positions of eight values."""
    what = "nisa.nc_find_index8"
    values = tile_of(vals, what, "vals")

    def find(into: Access, source: Access) -> None:
        isa.nc_find_index8(into, source, values[0 : source.shape[0]].access)

    return _statistics("nc_find_index8", find, data, 8, mask, np.uint32 if dtype is None else dtype)


def nc_match_replace8(
    *, data: Any, vals: Any, imm: Any, dst_idx: Any = None, mask: Any = None, dtype: Any = None, **_: Any
) -> Any:
    """``data`` with the first occurrence of each of eight values replaced by ``imm``."""
    what = "nisa.nc_match_replace8"
    tile, values = tile_of(data, what, "data"), tile_of(vals, what, "vals")

    def run(dst: Access, s: list[Access]) -> None:
        rows = s[0].shape[0]
        places = None
        if dst_idx is not None:
            places = dst_idx[0:rows].bare()
            dst_idx.place.before_write(places)
        isa.nc_match_replace8(dst, s[0], values[0:rows].access, float(imm), dst_idx=places)

    return waiting(tile.shape, kind_of(dtype, tile.kind), [tile], mask, run, "replaced")


def range_select(
    *, on_true_tile: Any, comp_op0: Any, comp_op1: Any, bound0: Any, bound1: Any,
    reduce_cmd: Any = enums.reduce_cmd.idle, reduce_res: Any = None, reduce_op: Any = np.amax,
    range_start: Any = 0, on_false_value: Any = None, mask: Any = None, dtype: Any = None, **_: Any,
) -> Any:  # fmt: skip
    """``on_true_tile`` where the position is within two bounds, else the smallest float32."""
    del on_false_value, reduce_op
    what = "nisa.range_select"
    tile = tile_of(on_true_tile, what, "on_true_tile")
    first, second = operator_of(comp_op0, what, "comp_op0"), operator_of(comp_op1, what, "comp_op1")
    columns = Columns(what, 1)
    low, high = columns.take(bound0, "bound0"), columns.take(bound1, "bound1")
    into = columns.into(reduce_res, "reduce_res")

    def run(dst: Access, s: list[Access]) -> None:
        isa.range_select(
            dst, s[0], first, second, low(s), high(s), reduce_cmd=reduce_cmd, reduce_res=into(s),
            range_start=int(range_start),
        )  # fmt: skip

    return waiting(tile.shape, kind_of(dtype, tile.kind), [tile], mask, run, "selected", columns.tiles)


def select_reduce(
    *, dst: Any, predicate: Any, on_true: Any, on_false: Any, reduce_res: Any = None,
    reduce_cmd: Any = enums.reduce_cmd.idle, reduce_op: Any = np.amax, reverse_pred: bool = False, mask: Any = None,
    **_: Any,
) -> None:  # fmt: skip
    """``dst = on_true`` where ``predicate``, else ``on_false``; and the maximum of these."""
    del reduce_op
    flush()
    what = "nisa.select_reduce"
    test, tile = tile_of(predicate, what, "predicate"), tile_of(on_true, what, "on_true")
    columns = Columns(what, 2)
    other, into = columns.take(on_false, "on_false"), columns.into(reduce_res, "reduce_res")

    def run(place: Access, s: list[Access]) -> None:
        chosen = s[0]
        if chosen.dtype.kind == "b":
            chosen = Access(chosen.tensor, chosen.offset, chosen.shape, chosen.strides, dt.uint8)
        isa.select_reduce(
            place, chosen, s[1], _float(other(s)), reduce_res=into(s), reduce_cmd=reduce_cmd,
            reverse_pred=bool(reverse_pred),
        )  # fmt: skip

    elementwise(dst.settle(), [test, tile], mask, run, columns.tiles)


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, **_: Any) -> Tensor:
    """Start and exclusive end of each element's segment."""
    tile = in_sbuf(tile_of(segment_ids, "nisa.sequence_bounds", "segment_ids"))
    shape = (1, 2, math.prod(tile.shape[1:]))

    def emit(dst: Tensor) -> None:
        into = dst.bare()
        dst.place.before_write(into)
        isa.sequence_bounds(into, tile.access)

    return Tensor.wait(Pending(shape, kind_of(dtype, tile.kind), emit, name="bounds", direct=in_sbuf_only))


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """``data`` with elements replaced by 0, each with the probability ``prob``."""
    return creation.dropout(data, prob, dtype=dtype, mask=mask, what="nisa.dropout")
