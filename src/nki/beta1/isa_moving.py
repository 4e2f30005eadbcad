"""Instructions of ``neuronxcc.nki.isa`` that move data, and the matrix product."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

from nki import isa
from nki.base import dtype as dt
from nki.base.beta1_errors import Beta1LaunchError, Beta1OperandError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.beta1 import moving as moving_of
from nki.beta1.elementwise import predicate as predicate_of
from nki.beta1.isa_elements import engine_of, in_sbuf_only, kind_of, waiting
from nki.beta1.lowering import converted, elementwise, in_sbuf, operand_of, scratch, tile_of
from nki.beta1.masks import joined
from nki.beta1.tensor import Pending, Tensor, flush
from nki.frontend.builder import current
from nki.ir.types import Access, Buffer
from nki.isa.tables import enums
from nki.isa.tables.operators import OPS


def nc_matmul(
    stationary: Any, moving: Any, *, is_stationary_onezero: bool = False, is_moving_onezero: bool = False,
    is_transpose: bool = False, tile_position: Any = (), tile_size: Any = (), mask: Any = None, perf_mode: Any = None,
    **_: Any,
) -> Tensor:  # fmt: skip
    """``stationary.T @ moving`` in PSUM."""
    what = "nisa.nc_matmul"
    left = tile_of(stationary, what, "stationary")
    right = tile_of(moving, what, "moving")
    options: dict[str, Any] = {}
    if is_stationary_onezero or is_moving_onezero:
        options |= {"is_stationary_onezero": bool(is_stationary_onezero), "is_moving_onezero": bool(is_moving_onezero)}
    if is_transpose and math.prod(right.shape[1:]) != right.shape[0]:
        warn_here(
            f"{what}: is_transpose has no effect: moving '{right.name}' {right.shape} is no identity, so this is a "
            "product",
            NkiPortabilityWarning,
        )
    elif is_transpose:
        options["is_transpose"] = True
    if perf_mode is not None and "double_row" in str(getattr(perf_mode, "name", perf_mode)):
        options["perf_mode"] = enums.matmul_perf_mode.double_row
    if tile_position or tile_size:
        options |= {"tile_position": tuple(tile_position), "tile_size": tuple(tile_size)}
    # Published kernels pass tiles of PSUM, for which Beta 1's compiler inserts copies.
    return moving_of.product(left, right, mask, what, **options)


def nc_transpose(data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **_: Any) -> Tensor:
    """``data`` transposed: on the Tensor engine into PSUM, on the Vector engine up to 32 x 32."""
    what = "nisa.nc_transpose"
    tile = tile_of(data, what, "data")
    free = math.prod(tile.shape[1:])
    chosen = engine_of(engine)
    small = tile.shape[0] <= 32 and free <= 32
    if chosen is enums.engine.vector and not small:
        warn_here(
            f"{what}: '{tile.name}' {tile.shape} is transposed on the Tensor engine; the Vector engine transposes up "
            "to 32 x 32",
            NkiPortabilityWarning,
        )
    elif chosen is enums.engine.vector or (chosen is enums.engine.unknown and small and tile.buffer is Buffer.psum):

        def emit(dst: Tensor) -> None:
            into = dst.bare()
            dst.place.before_write(into)
            turned = into if into.dtype is tile.kind else scratch("turned", into.shape, tile.kind).bare()
            isa.nc_transpose(turned, tile.access, engine=enums.engine.vector)
            if turned is not into:
                isa.tensor_copy(into, turned)

        return Tensor.wait(Pending((free, tile.shape[0]), kind_of(dtype, tile.kind), emit, name="transposed"))
    return moving_of.turned(tile, dtype, mask, what)


def tensor_copy(src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **_: Any) -> Tensor:
    """A copy of a tile."""
    tile = tile_of(src, "nisa.tensor_copy", "src")
    chosen = engine_of(engine)

    def run(dst: Access, s: list[Access]) -> None:
        on_psum = dst.buffer is Buffer.psum or s[0].buffer is Buffer.psum
        if chosen is enums.engine.scalar and current("a tile").target.generation == 2:
            isa.activation(dst, OPS["copy"], s[0])  # what a copy on Scalar is there, by way of float32
            return
        isa.tensor_copy(dst, s[0], engine=enums.engine.unknown if on_psum and chosen is enums.engine.gpsimd else chosen)

    return waiting(tile.shape, kind_of(dtype, tile.kind), [tile], mask, run, "copied")


def tensor_copy_dynamic_src(src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **_: Any) -> Tensor:
    """A copy of a tile one of whose free indices is known at run time."""
    return tensor_copy(src, mask=mask, dtype=dtype, engine=engine)


def tensor_copy_dynamic_dst(*, dst: Any, src: Any, mask: Any = None, engine: Any = None, **_: Any) -> None:
    """A copy into a tile one of whose free indices is known at run time."""
    del engine
    flush()
    source = tile_of(src, "nisa.tensor_copy_dynamic_dst", "src")
    target = dst
    if source.shape != target.shape:
        source = moving_of.stored(source, target, "nisa.tensor_copy_dynamic_dst")
    elementwise(target, [source], mask, lambda d, s: isa.tensor_copy(d, s[0]))


def tensor_copy_predicated(
    *, src: Any, dst: Any, predicate: Any, mask: Any = None, dtype: Any = None, reverse_pred: bool = False, **_: Any
) -> None:
    """Copy ``src`` into ``dst`` where ``predicate`` is not 0."""
    del dtype
    flush()
    what = "nisa.tensor_copy_predicated"
    test, given = tile_of(predicate, what, "predicate"), operand_of(src, what, "src")
    target = dst.settle()
    sources = [test, *([converted(given, target.kind)] if isinstance(given, Tensor) else [])]

    def run(place: Access, s: list[Access]) -> None:
        number = cast("float", given)
        value = s[1] if len(s) > 1 else float(number) if place.dtype.is_float else number
        isa.tensor_copy_predicated(place, value, predicate_of(s[0]), reverse_pred=bool(reverse_pred))

    target.place.before_read(target.bare())
    elementwise(target, sources, mask, run)


def dma_copy(
    dst: Any, src: Any, *, mask: Any = None, dst_rmw_op: Any = None, oob_mode: Any = None, dge_mode: Any = None,
    **_: Any,
) -> None:  # fmt: skip
    """A copy between HBM and SBUF, or within either, with indices known at run time on either side.

    Beta 1 takes keywords alone; the migration guide of the vendor passes both tensors by position.
    """
    flush()
    target, source = dst.settle(), src.settle()
    mask = joined(joined(mask, target.mask), source.mask)
    moving_of.check_mutable(target)
    target, source = moving_of.at_least_2d(target), moving_of.at_least_2d(source)
    if source.buffer is Buffer.psum:
        source = in_sbuf(source)
    skips = oob_mode is not None and getattr(oob_mode, "name", "") == "skip"
    mode = enums.oob_mode.skip if skips else enums.oob_mode.error
    if source.shape != target.shape:
        source = moving_of.stored(source, target, "nisa.dma_copy")
    if dst_rmw_op is not None:
        moving_of.add_to(target, source, mask, mode)
        return
    del dge_mode
    moving_of.transfer(target, source, mask, oob_mode=mode)


def dma_transpose(src: Any, *, axes: Any = None, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """``src`` with its first and last dimensions exchanged, as a tile in SBUF."""
    source = src.settle()
    ndim = source.ndim
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(ndim)
    if order is None or (axes is not None and tuple(axes) != order):
        raise Beta1OperandError(
            f"nisa.dma_transpose: axes={axes!r} of '{source.name}' {source.shape}",
            fix="pass (1, 0), (2, 1, 0) or (3, 1, 2, 0) for two, three or four dimensions",
        )
    base = source.base
    turned = Tensor(
        source.storage,
        replace(
            base, shape=tuple(base.shape[a] for a in order), strides=tuple(base.strides[a] for a in order),
            bounds=tuple(replace(b, steps=tuple(b.steps[a] for a in order)) for b in base.bounds),
        ),
    )  # fmt: skip
    if source.buffer.is_hbm:
        return Tensor.wait(
            Pending(turned.base.shape, kind_of(dtype, source.kind),
                    lambda dst: moving_of.transfer(dst, turned, mask, order), name="transposed", direct=in_sbuf_only)
        )  # fmt: skip

    def emit(dst: Tensor) -> None:
        tile = in_sbuf(source)
        if moving_of.transposes_by_dma(tile.bare(), dst.kind):
            steps = tile.base.strides
            view = replace(tile.base, shape=turned.base.shape, strides=tuple(steps[a] for a in order), bounds=())
            moving_of.transfer(dst, Tensor(tile.storage, view), mask, order)
            return
        outside = scratch("outside", source.shape, source.kind, Buffer.hbm)
        moving_of.transfer(outside, tile, None)
        steps = outside.base.strides
        view = replace(outside.base, shape=turned.base.shape, strides=tuple(steps[a] for a in order))
        moving_of.transfer(dst, Tensor(outside.storage, view), mask)

    return Tensor.wait(
        Pending(turned.base.shape, kind_of(dtype, source.kind), emit, name="transposed", direct=in_sbuf_only)
    )


def nc_stream_shuffle(src: Any, dst: Any, shuffle_mask: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> None:
    """Copy partitions of ``src`` to those of ``dst`` within quadrants of 32."""
    del dtype
    flush()
    what = "nisa.nc_stream_shuffle"
    source, target = in_sbuf(tile_of(src, what, "src")), tile_of(dst, what, "dst")
    del mask
    into = target.bare()
    target.place.before_write(into, certain=255 not in shuffle_mask)
    isa.nc_stream_shuffle(into, source.access, tuple(int(n) for n in shuffle_mask))


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: Any = 1, num_valid_indices: Any = None, *, mask: Any = None, **_: Any
) -> Tensor:
    """For each group of 16 partitions, the elements at its list of indices."""
    del mask
    what = "nisa.local_gather"
    source, numbers = in_sbuf(tile_of(src_buffer, what, "src_buffer")), in_sbuf(tile_of(index, what, "index"))
    numbers = converted(numbers, dt.uint16)
    each = int(num_elem_per_idx)
    count = math.prod(numbers.shape[1:]) * 16 if num_valid_indices is None else int(num_valid_indices)
    shape = (source.shape[0], count * each) if each == 1 else (source.shape[0], count, each)

    def emit(dst: Tensor) -> None:
        into = dst.bare()
        dst.place.before_write(into)
        isa.local_gather(into, source.access, numbers.access, num_elem_per_idx=each, num_valid_indices=count)

    return Tensor.wait(Pending(shape, source.kind, emit, name="gathered", direct=in_sbuf_only))


def builtin_custom_op(*_: Any, **__: Any) -> Any:
    """Refused: code of a user's own for GpSimd."""
    raise Beta1LaunchError(
        "nisa.builtin_custom_op runs a library compiled for GpSimd, which this machine does not have",
        fix="write the operation with other instructions",
    )


def get_nc_version() -> Any:
    """The generation that the kernel is compiled for."""
    return isa.get_nc_version()


__all__ = [
    "builtin_custom_op", "dma_copy", "dma_transpose", "get_nc_version", "local_gather", "nc_matmul",
    "nc_stream_shuffle", "nc_transpose", "tensor_copy", "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
]  # fmt: skip
