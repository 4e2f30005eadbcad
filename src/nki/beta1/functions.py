"""The functions of ``neuronxcc.nki.language`` under their public names and signatures."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, Self, cast

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_variable
from nki.base.beta1_errors import Beta1LaunchError
from nki.base.source import here, is_toolchain
from nki.beta1 import creation, dtypes, moving, reducing
from nki.beta1 import elementwise as elements
from nki.beta1.beta1_tensor import Pending, Tensor, flush
from nki.beta1.index import Index, arange, ds, mgrid
from nki.beta1.lowering import check_mutable, converted, in_sbuf, operand_of, record, scratch, tile_of
from nki.beta1.operator_names import operator_of
from nki.beta1.traced_loops import Rounds
from nki.compilation.bridges import untraced
from nki.frontend.builder import current
from nki.ir.types import Buffer
from nki.isa.build import device_print as print_instruction
from nki.isa.tables.operators import OPS
from nki.language import no_reorder
from nki.language.beta1_functions import BINARY, REDUCTIONS, UNARY
from nki.language.creation import par_dim


def _binary(name: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
        return elements.binary(name, x, y, dtype=dtype, mask=mask)

    return _named(function, name, f"``{name}`` of two tiles, or of a tile and a number, element by element.")


def _unary(name: str) -> Callable[..., Any]:
    def function(x: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
        return elements.unary(name, x, dtype=dtype, mask=mask)

    return _named(function, name, f"``{name}`` of each element of a tile.")


def _named(function: Any, name: str, text: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    function.__annotations__["return"] = Tensor.__name__  # so that a call with an unused result is reported
    if name in OPS:
        function.operator = OPS[name]
    return function


def _reduction(name: str, op: str) -> Callable[..., Any]:
    def function(
        x: Any, axis: Any = -1, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **_: Any
    ) -> Any:
        return reducing.reduce(OPS[op], x, axis, f"nl.{name}", dtype=dtype, mask=mask, keepdims=keepdims, name=name)

    result: Any = _named(function, name, f"``{name}`` over free dimensions.")
    result.operator = OPS[op]
    return result


functions: Final[dict[str, Any]] = {
    **{name: _binary(name) for name in BINARY},
    **{name: _unary(name) for name in UNARY},
    **{name: _reduction(name, op) for name, op in REDUCTIONS.items()},
}
"""The functions of elements and the reductions, by name."""


def static_cast(x: Any, dtype: Any, *, mask: Any = None, **_: Any) -> Any:
    """A copy of a tile, or of a NumPy array, with another dtype."""
    if isinstance(x, np.ndarray | np.generic):
        return cast("Any", x).astype(dt.of(dtype).dtype)
    return elements.copy(x, dtype=dtype, mask=mask)


def broadcast_to(src: Any, *args: Any, shape: Any = None, **_: Any) -> Any:
    """A tile with dimensions of size 1 repeated."""
    sizes = args[0] if args else shape
    return elements.broadcast_to(tile_of(src, "nl.broadcast_to", "src"), creation.sizes_of(sizes, "nl.broadcast_to"))


def expand_dims(data: Any, axis: Any, **_: Any) -> Any:
    """A view of a tile with a new dimension of size 1."""
    return data.expand_dims(axis)


def gather_flattened(data: Any, indices: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Any:
    """``data[p, indices[p, i]]``, free dimensions counted as one."""
    what = "nl.gather_flattened"
    tile, places = in_sbuf(tile_of(data, what, "data")), in_sbuf(tile_of(indices, what, "indices"))
    kind = dtypes.chosen(dtype, tile.kind)

    def emit(dst: Tensor) -> None:
        numbers = converted(places, dt.uint32) if places.kind.itemsize != 4 else places.view(np.uint32)
        found = scratch("found", places.shape, tile.kind)
        flat = tile.reshape((tile.shape[0], math.prod(tile.shape[1:])))
        isa.nc_n_gather(found.bare(), flat.access, numbers.access)
        elements.elementwise(dst, [found], mask, lambda d, s: isa.tensor_copy(d, s[0]))

    return Tensor.wait(Pending(places.shape, kind, emit, name="gathered"))


def atomic_rmw(dst: Any, value: Any, op: Any = np.add, *, mask: Any = None, **_: Any) -> None:
    """``dst = dst op value`` in HBM, where ``dst`` may have an index tile."""
    flush()
    operator_of(op, "nl.atomic_rmw")
    check_mutable(dst)
    tile = in_sbuf(tile_of(value, "nl.atomic_rmw", "value"))
    target = moving.at_least_2d(dst)
    moving.add_to(target, moving.stored(tile, target, "nl.atomic_rmw"), mask)


def device_print(prefix: Any, x: Any, *, mask: Any = None, **_: Any) -> None:
    """Print a tensor when the kernel runs."""
    del mask
    flush()
    value = operand_of(x, "nl.device_print", "x") if not isinstance(x, Tensor) else x
    if isinstance(value, Tensor):
        record(print_instruction(str(prefix), value.access))


def all_reduce(x: Any, op: Any, program_axes: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """``x`` of all programs along ``program_axes``, folded with ``op`` in the order of their numbers.

    Programs that run one after the other cannot see each other's tiles; those on cores exchange them.
    """
    what = "nl.all_reduce"
    tile, function, builder = tile_of(x, what, "x"), operator_of(op, what), current(what)
    if num_programs(None if program_ndim() == 1 else program_axes) == 1:
        return elements.copy(tile, dtype=dtype, mask=mask)
    if builder.programs:
        raise Beta1LaunchError(
            f"{what}: the programs of the grid {builder.programs[:-1]} run one after the other, so no program sees "
            "the values of all",
            fix="launch them on cores, kernel[nl.nc(2)](…), or loop over the programs in one kernel",
        )
    own = in_sbuf(tile)
    tiles = [own] * (count := num_programs())
    for step in range(1, count):
        to, source = ((builder.program + n) % count for n in (step, -step))
        tiles[source] = scratch(f"{own.name}_{source}", own.shape, own.kind)
        isa.sendrecv(own.access, tiles[source].bare(), to, source, 0)
    result: Tensor = functools.reduce(lambda total, each: elements.binary(function.name, total, each), tiles)
    return result if dtype is None and mask is None else elements.copy(result, dtype=dtype, mask=mask)


def program_id(axis: Any) -> int:
    """The number of this program on an axis of the grid."""
    builder, axes = current("nl.program_id"), program_ndim()
    number = int(axis)
    if not axes:
        if number == 0:
            return 0
    elif 0 <= number < axes:
        return builder.index[number] if builder.programs else builder.program
    raise Beta1LaunchError(
        f"nl.program_id({axis!r}): the launch grid has {axes} axes", fix="launch the kernel on a grid: kernel[4, 2](…)"
    )


def num_programs(axes: Any = None) -> int:
    """The number of programs on an axis, on several, or on all."""
    builder = current("nl.num_programs")
    grid = builder.programs[:-1] if builder.programs else builder.grid
    if axes is None:
        return math.prod(grid)
    numbers: list[Any] = [axes] if isinstance(axes, int | np.integer) else list(axes)
    if not grid:
        return 1
    return math.prod(grid[int(a)] for a in numbers)


def program_ndim() -> int:
    """The number of axes of the launch grid; 0 without a grid."""
    builder = current("nl.program_ndim")
    return len(builder.programs) - 1 if builder.programs else len(builder.grid)


def affine_range(*args: Any, **_: Any) -> Rounds:
    """Iterations in any order."""
    return Rounds(range(*(int(a) for a in args)))


def sequential_range(*args: Any, **_: Any) -> Rounds:
    """Iterations one after the other."""
    return Rounds(range(*(int(a) for a in args)))


def static_range(*args: Any, **_: Any) -> range:
    """Iterations one after the other, unrolled."""
    return range(*(int(a) for a in args))


def loop_reduce(x: Any, op: Any, loop_indices: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Any:
    """``x`` in the first round of the loops, then ``op`` of the result so far, which has the same name, and ``x``."""
    what = "nl.loop_reduce"
    tile, function = tile_of(x, what, "x"), operator_of(op, what)
    kind = dtypes.chosen(dtype, tile.kind)
    first = all(int(index) == 0 for index in loop_indices)
    name = assigned_variable(here())
    before = _variable(name) if name and not first else None
    if isinstance(before, Tensor):
        return elements.update(function.name, before, tile)

    def emit(dst: Tensor) -> None:
        if first or dst.is_new:
            elements.elementwise(dst, [tile], mask, lambda d, s: isa.tensor_copy(d, s[0]))
        else:
            elements.elementwise(dst, [dst, tile], mask, lambda d, s: elements.combine(function, d, s[0], s[1]))

    return Tensor.wait(Pending(tile.shape, kind, emit, name="total"))


def _variable(name: str) -> Any:
    """The variable of the kernel's running function; None if it has none of that name."""
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # the only way to a caller's variable
    while frame is not None and is_toolchain(frame.f_code):
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get(name)


class _TileSize:
    """``nl.tile_size``: limits of tiles (NKI 2.26.1, nki.language)."""

    pmax = 128
    psum_fmax = 512
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    psum_min_align = 4
    sbuf_min_align = 1
    total_available_sbuf_size = 192 * 1024 - 16 * 1024


tile_size: Final = _TileSize()


def gemm_grid() -> Any:
    """Indices of a moving tile of the largest size."""
    return mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_moving_fmax]


def gemm_stationary_grid() -> Any:
    """Indices of a stationary tile of the largest size."""
    return mgrid[0 : tile_size.pmax, 0 : tile_size.gemm_stationary_fmax]


class Axis(int):
    """An axis of a launch grid with programs that ``cores`` share: ``stride`` that follow each other have the same
    core.
    """

    cores: int
    stride: int
    parts: tuple[str, int, int, int]
    """``"nl.nc"``, size, cores and stride: the axis as constants of Python."""

    def __new__(cls, size: int, cores: int, stride: int = 1) -> Self:
        axis = super().__new__(cls, size)
        axis.cores, axis.stride = cores, stride
        axis.parts = ("nl.nc", size, cores, stride)
        return axis

    def __mul__(self, inner: Any) -> Axis:
        return _joined(self, inner)

    def __rmul__(self, outer: Any) -> Axis:
        return _joined(outer, self)


def _joined(outer: Any, inner: Any) -> Axis:
    """The axis of ``outer`` times ``inner`` programs; cores may share one of both."""
    size = int(outer) * int(inner)
    if isinstance(inner, Axis) and inner.cores > 1:
        if isinstance(outer, Axis) and outer.cores > 1:
            raise Beta1LaunchError("an axis of a launch grid has nl.nc twice", fix="write nl.nc once")
        return Axis(size, inner.cores, inner.stride)
    if isinstance(outer, Axis):
        return Axis(size, outer.cores, outer.stride * int(inner))
    return Axis(size, 1)


@untraced
def nc(count: Any) -> Axis:
    """``count`` physical cores as an axis of a launch grid."""
    return Axis(int(count), int(count))


@untraced
def spmd_dim(*sizes: Any) -> Axis:
    """An axis of a launch grid that is split between cores and programs, the outer ones first."""
    return functools.reduce(_joined, sizes, Axis(1, 1))


sbuf, psum, hbm, private_hbm, shared_hbm = (
    Buffer.sbuf, Buffer.psum, Buffer.hbm, Buffer.private_hbm, Buffer.shared_hbm,
)  # fmt: skip

NAMES: Final[dict[str, Any]] = {
    **functions,
    **{
        f.__name__: f
        for f in (
            reducing.mean, reducing.var, reducing.softmax, reducing.rms_norm, moving.load, moving.store,
            moving.load_transpose2d, elements.copy, static_cast, moving.transpose, moving.matmul, elements.where,
            broadcast_to, expand_dims, creation.dropout, gather_flattened, atomic_rmw, device_print, all_reduce,
            program_id,
            num_programs, program_ndim, affine_range, sequential_range, static_range, loop_reduce, gemm_grid,
            gemm_stationary_grid, nc, spmd_dim, arange, ds, par_dim, creation.ndarray, creation.zeros,
            creation.ones, creation.full, creation.zeros_like, creation.empty_like, creation.shared_constant,
            creation.shared_identity_matrix, creation.rand, creation.random_seed, dtypes.finfo,
        )
    },
    "no_reorder": no_reorder,
    "mgrid": mgrid,
    "tile_size": tile_size,
    "tensor": Tensor,
    "sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": private_hbm, "shared_hbm": shared_hbm,
    "fp32": dtypes.fp32, "bfp16": dtypes.bfp16, "fp16": dtypes.fp16,
    "bool_": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "float16": np.float16, "float32": np.float32, "bfloat16": dtypes.bfloat16, "tfloat32": dtypes.tfloat32,
    "float8_e4m3": dtypes.float8_e4m3, "float8_e5m2": dtypes.float8_e5m2,
    "range": range,
    "Index": Index,
    "constants": SimpleNamespace(tile_size=tile_size),
}  # fmt: skip
"""Everything that ``neuronxcc.nki.language`` shows."""
