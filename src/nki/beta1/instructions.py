"""Instructions of ``neuronxcc.nki.isa`` where they differ from today's.

Four kinds of differences, by the name of the function: :data:`PREPARED` changes arguments before the result is made,
:data:`COMPUTED` records an instruction over the part that a mask leaves, :data:`EMITTED` all that writes a result, and
:data:`WHOLE` is a function of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.base.beta1_errors import Beta1LaunchError, Beta1MaskError, Beta1OperandError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.beta1 import dtypes, moving
from nki.beta1.beta1_tensor import Pending, Tensor
from nki.beta1.creation import check_size, drop, sizes_of
from nki.beta1.elementwise import combine, fill, predicate, select
from nki.beta1.index import Index, Mask, as_number
from nki.beta1.lowering import (
    alike,
    as_bits,
    at_start,
    check_mutable,
    constant_tile,
    converted,
    elementwise,
    in_dtype,
    in_sbuf,
    into_bits,
    operand_of,
    record,
    reordered,
    scratch,
    tile_of,
    written,
)
from nki.beta1.mask_regions import joined, region
from nki.beta1.operator_names import bit_kind, is_bits
from nki.beta1.reducing import axes_of, fold
from nki.frontend.builder import current
from nki.ir.types import Access, Buffer
from nki.isa import build
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS

_ENGINE = enums.engine


class Operands(SimpleNamespace):
    """The arguments of a call of the function ``what`` by parameter, converted; ``mask`` is None without a mask.

    In what computes an instruction, tensors are the accesses of the part that the mask leaves.
    """

    what: str
    mask: Any


def cut(tile: Tensor, mask: Any, what: str) -> Tensor:
    """The box of ``tile`` that ``mask`` leaves. Raises :class:`Beta1MaskError` if it leaves no box."""
    if mask is None:
        return tile
    over = region(mask, tile.shape)
    if over.box is None or over.array is not None:
        raise Beta1MaskError(f"{what}: its mask is no box", fix="use a mask that bounds each dimension")
    return tile[tuple(slice(a, b) for a, b in over.box)]


# Arguments


def _activation(a: Operands) -> None:
    a.op = OPS["copy"] if a.op is None else a.op
    a.bias = a.bias if isinstance(a.bias, Tensor) or a.bias != 0 else None


def _activation_reduce(a: Operands) -> None:
    _activation(a)
    a.reduce_cmd = enums.reduce_cmd.reset_reduce


def _affine_select(a: Operands) -> None:
    if not isinstance(a.pred, Mask | bool | np.bool_):
        raise Beta1MaskError(
            f"unsupported_expression_in_mask: {a.what}: pred is a {type(a.pred).__name__}, not a comparison of indices",
            fix="write pred=(i_p >= i_f)",
        )


def _dma_transpose(a: Operands) -> None:
    source = a.src.settle()
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(source.ndim)
    if order is None or (a.axes is not None and tuple(a.axes) != order):
        raise Beta1OperandError(
            f"{a.what}: axes={a.axes!r} of '{source.name}' {source.shape}",
            fix="pass (1, 0), (2, 1, 0) or (3, 1, 2, 0) for two, three or four dimensions",
        )
    a.src, a.axes = source, order


def _iota(a: Operands) -> None:
    number = as_number(a.expr)
    a.expr = a.expr if number is None else Index(number, (1, 1), (0, 0))
    if not isinstance(a.expr, Index):
        raise Beta1OperandError(
            f"{a.what}: expr is {a.expr!r:.40} ({type(a.expr).__name__}), not an index",
            fix="pass nl.arange(512)[None, :]",
        )


def _local_gather(a: Operands) -> None:
    a.index, a.mask = converted(a.index, dt.uint16), None
    if a.num_valid_indices is None:
        a.num_valid_indices = math.prod(a.index.shape[1:]) * 16


def _memset(a: Operands) -> None:
    sizes = tuple(int(n) for n in sizes_of(a.shape, a.what))
    a.shape = sizes if len(sizes) > 1 else (*sizes, 1)
    check_size(a.what, "memset", a.shape, dt.of(a.dtype), Buffer.sbuf)


def _select_reduce(a: Operands) -> None:
    if a.predicate.kind is dt.bool_:
        a.predicate = a.predicate.view(np.uint8)


def _tensor_scalar(a: Operands) -> None:
    if a.data.kind is dt.bool_ and a.op0.name == "invert":
        a.op0, a.operand0 = OPS["bitwise_xor"], 1  # not, as of nl.invert


def _of_one_shape(left: str, right: str, *, in_two_memories: bool = False) -> Callable[[Operands], None]:
    """Preparation of two tiles: of one shape, and not both in PSUM."""

    def prepare(a: Operands) -> None:
        one, other = alike(getattr(a, left), getattr(a, right))
        if in_two_memories and one.buffer is Buffer.psum and other.buffer is Buffer.psum:
            other = in_sbuf(other)
        setattr(a, left, one)
        setattr(a, right, other)

    return prepare


PREPARED: Final[dict[str, Callable[[Operands], None]]] = {
    "activation": _activation, "activation_reduce": _activation_reduce, "affine_select": _affine_select,
    "dma_transpose": _dma_transpose, "iota": _iota, "local_gather": _local_gather, "memset": _memset,
    "scalar_tensor_tensor": _of_one_shape("data", "operand1", in_two_memories=True), "select_reduce": _select_reduce,
    "tensor_scalar": _tensor_scalar, "tensor_tensor": _of_one_shape("data1", "data2"),
    "tensor_tensor_scan": _of_one_shape("data0", "data1", in_two_memories=True),
}  # fmt: skip


# Instructions over a part


def _tensor_copy(dst: Access, a: Operands) -> None:
    on_psum = dst.buffer is Buffer.psum or a.src.buffer is Buffer.psum
    if a.engine is _ENGINE.scalar and current("a tile").target.generation == 2:
        isa.activation(dst, OPS["copy"], a.src)  # what a copy on Scalar is there, by way of float32
        return
    isa.tensor_copy(dst, a.src, engine=_ENGINE.unknown if on_psum and a.engine is _ENGINE.gpsimd else a.engine)


def _tensor_scalar_over(dst: Access, a: Operands) -> None:
    engine = _ENGINE.unknown if a.engine is _ENGINE.gpsimd and a.op0.name != "rsqrt" else a.engine
    if not is_bits(a.op0):
        steps = a.op0, a.operand0, a.reverse0, a.op1, a.operand1, a.reverse1, engine
        record(build.tensor_scalar(dst, a.data, *steps))
        return
    source, x, y = (as_bits(n) if isinstance(n, Access) else n for n in (a.data, a.operand0, a.operand1))
    operands = a.op0, x, a.reverse0, a.op1, y, a.reverse1, engine
    numbers = [(op, n.dtype if isinstance(n, Access) else n) for op, n in ((a.op0, a.operand0), (a.op1, a.operand1))]
    truths = all(bit_kind(op, a.data.dtype, n) is dt.bool_ for op, n in numbers if op is not None)
    kind = dt.bool_ if truths else source.dtype
    into_bits(dst, kind, lambda place: record(build.tensor_scalar(place, source, *operands)))


def _tensor_tensor(dst: Access, a: Operands) -> None:
    both_psum = a.data1.buffer is Buffer.psum and a.data2.buffer is Buffer.psum
    if is_bits(a.op) or a.op.name == "power" or a.engine is _ENGINE.unknown or both_psum:
        combine(a.op, dst, a.data1, a.data2)
    else:
        record(build.tensor_tensor(dst, a.data1, a.data2, a.op, a.engine))


COMPUTED: Final[dict[str, Callable[[Access, Operands], None]]] = {
    "dropout": lambda dst, a: drop(dst, a.data, a.prob), "tensor_copy": _tensor_copy,
    "tensor_copy_dynamic_src": _tensor_copy, "tensor_scalar": _tensor_scalar_over, "tensor_tensor": _tensor_tensor,
}  # fmt: skip


# All instructions of a result


def _write_iota(dst: Tensor, a: Operands) -> None:
    steps = a.expr.expanded(dst.ndim)[1]
    into = written(cut(dst, a.mask, a.what))
    counts = [[step, n] for step, n in zip(steps[1:], into.shape[1:], strict=True)]
    at_start(into, lambda place: isa.iota(place, counts, offset=a.expr.start, channel_multiplier=steps[0]))


def _write_selected(dst: Tensor, a: Operands) -> None:
    tile = a.on_true_tile
    comparison = a.pred.comparison if isinstance(a.pred, Mask) else None
    if comparison is None or a.mask is not None or dst.shape != tile.shape:
        chosen = a.pred.array(tile.shape) if isinstance(a.pred, Mask) else np.full(tile.shape, bool(a.pred))
        sources = [constant_tile(chosen.astype(np.uint8)), tile]
        elementwise(dst, sources, a.mask, lambda d, s: select(d, s[0], s[1], a.on_false_value))
        return
    index = comparison.index
    steps = index.expanded(tile.ndim)[1]
    source, into = in_sbuf(tile), written(dst)
    pattern = [[step, n] for step, n in zip(steps[1:], tile.shape[1:], strict=True)]
    more: dict[str, Any] = {"cmp_op": OPS[comparison.name], "offset": index.start}
    at_start(into, lambda dst: isa.affine_select(dst, pattern, steps[0], source.access, a.on_false_value, **more))


def _write_transposed(dst: Tensor, a: Operands) -> None:
    tile = a.src if a.src.buffer.is_hbm else in_sbuf(a.src)
    if tile.buffer.is_hbm or moving.transposes_by_dma(tile.bare(), dst.kind):
        moving.transfer(dst, reordered(tile, a.axes), a.mask, a.axes)
        return
    outside = scratch("outside", tile.shape, tile.kind, Buffer.hbm)
    moving.transfer(outside, tile, None)
    moving.transfer(dst, reordered(outside, a.axes), a.mask)


def _write_reduced(dst: Tensor, a: Operands) -> None:
    axes = axes_of(a.what, a.data, a.axis)
    fold(dst, a.op, a.data, axes, a.mask, keepdims=a.keepdims, negate=a.negate)


EMITTED: Final[dict[str, Callable[[Tensor, Operands], None]]] = {
    "affine_select": _write_selected, "dma_transpose": _write_transposed, "iota": _write_iota,
    "memset": lambda dst, a: fill(dst, a.value, a.mask), "tensor_reduce": _write_reduced,
}  # fmt: skip


# Functions


def _dma_copy(a: Operands) -> None:
    target, source = a.dst.settle(), a.src.settle()
    mask = joined(joined(a.mask, target.mask), source.mask)
    check_mutable(target)
    target, source = moving.at_least_2d(target), moving.at_least_2d(source)
    if source.buffer is Buffer.psum:
        source = in_sbuf(source)
    skips = a.oob_mode is not None and getattr(a.oob_mode, "name", "") == "skip"
    mode = enums.oob_mode.skip if skips else enums.oob_mode.error
    if source.shape != target.shape:
        source = moving.stored(source, target, a.what)
    if a.dst_rmw_op is not None:
        moving.add_to(target, source, mask, mode)
        return
    moving.transfer(target, source, mask, oob_mode=mode)


def _nc_matmul(a: Operands) -> Tensor:
    options: dict[str, Any] = {}
    if a.is_stationary_onezero or a.is_moving_onezero:
        options |= {"is_stationary_onezero": a.is_stationary_onezero, "is_moving_onezero": a.is_moving_onezero}
    if a.is_transpose and math.prod(a.moving.shape[1:]) != a.moving.shape[0]:
        warn_here(
            f"{a.what}: is_transpose has no effect: moving '{a.moving.name}' {a.moving.shape} is no identity, so this "
            "is a product",
            NkiPortabilityWarning,
        )
    elif a.is_transpose:
        options["is_transpose"] = True
    if a.perf_mode is not None and "double_row" in str(getattr(a.perf_mode, "name", a.perf_mode)):
        options["perf_mode"] = enums.matmul_perf_mode.double_row
    if a.tile_position or a.tile_size:
        options |= {"tile_position": tuple(a.tile_position), "tile_size": tuple(a.tile_size)}
    # Published kernels pass tiles of PSUM, for which Beta 1's compiler inserts copies.
    return moving.product(a.stationary, a.moving, a.mask, a.what, **options)


def _nc_stream_shuffle(a: Operands) -> None:
    source, target = in_sbuf(a.src), tile_of(a.dst, a.what, "dst")
    into = written(target, certain=255 not in a.shuffle_mask)
    isa.nc_stream_shuffle(into, source.access, tuple(int(n) for n in a.shuffle_mask))


def _nc_transpose(a: Operands) -> Tensor:
    tile, free = a.data, math.prod(a.data.shape[1:])
    small = tile.shape[0] <= 32 and free <= 32
    if a.engine is _ENGINE.vector and not small:
        warn_here(
            f"{a.what}: '{tile.name}' {tile.shape} is transposed on the Tensor engine; the Vector engine transposes up "
            "to 32 x 32",
            NkiPortabilityWarning,
        )
    elif a.engine is _ENGINE.vector or (a.engine is _ENGINE.unknown and small and tile.buffer is Buffer.psum):

        def emit(dst: Tensor) -> None:
            def turn(place: Access) -> None:
                isa.nc_transpose(place, tile.access, engine=_ENGINE.vector)

            in_dtype(written(dst), tile.kind, "turned", turn)

        return Tensor.wait(Pending((free, tile.shape[0]), dtypes.chosen(a.dtype, tile.kind), emit, name="transposed"))
    return moving.turned(tile, a.dtype, a.mask, a.what)


def _tensor_copy_dynamic_dst(a: Operands) -> None:
    source = a.src if a.src.shape == a.dst.shape else moving.stored(a.src, a.dst, a.what)
    elementwise(a.dst, [source], a.mask, lambda d, s: isa.tensor_copy(d, s[0]))


def _tensor_copy_predicated(a: Operands) -> None:
    given, target = operand_of(a.src, a.what, "src"), a.dst.settle()
    sources = [a.predicate, *([converted(given, target.kind)] if isinstance(given, Tensor) else [])]

    def run(place: Access, s: list[Access]) -> None:
        number = cast("float", given)
        value = s[1] if len(s) > 1 else float(number) if place.dtype.is_float else number
        isa.tensor_copy_predicated(place, value, predicate(s[0]), reverse_pred=a.reverse_pred)

    target.place.before_read(target.bare())
    elementwise(target, sources, a.mask, run)


WHOLE: Final[dict[str, Callable[[Operands], Tensor | None]]] = {
    "dma_copy": _dma_copy, "nc_matmul": _nc_matmul, "nc_stream_shuffle": _nc_stream_shuffle,
    "nc_transpose": _nc_transpose, "tensor_copy_dynamic_dst": _tensor_copy_dynamic_dst,
    "tensor_copy_predicated": _tensor_copy_predicated,
}  # fmt: skip


def builtin_custom_op(*_: Any, **__: Any) -> Any:
    """Refused: code of a user's own for GpSimd."""
    raise Beta1LaunchError(
        "nisa.builtin_custom_op runs a library compiled for GpSimd, which this machine does not have",
        fix="write the operation with other instructions",
    )


__all__ = ["COMPUTED", "EMITTED", "PREPARED", "WHOLE", "Operands", "builtin_custom_op", "cut"]
