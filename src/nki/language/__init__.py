"""``nki.language``: tensors, types, ranges, operator names, and short forms of instructions."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

from nki import isa as _isa
from nki import target as _target
from nki.base import element_types as _dtype
from nki.base.assigned_name import assigned_name as _assigned_name
from nki.base.element_types import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
    uint64,
)
from nki.base.errors import ArgumentError as _ArgumentError
from nki.base.errors import MemoryRegionError as _BufferError
from nki.base.errors import ShapeError as _ShapeError
from nki.base.source import here as _here
from nki.base.warning import NkiDeprecationWarning as _NkiDeprecationWarning
from nki.base.warning import warn_here as _warn_here
from nki.frontend.builder import current as _current
from nki.frontend.objects import NKIObject
from nki.ir.recorder import is_recording as _is_recording
from nki.ir.types import Buffer as MemoryRegion
from nki.ir.types import access_of as _access_of
from nki.isa.build import device_print as _device_print
from nki.language import elementwise as _elementwise
from nki.language import moving as _moving
from nki.language import operators as _operators
from nki.language import randomness as _randomness
from nki.language import reducing as _reducing
from nki.language.advice.other_libraries import OTHERS as _OTHERS
from nki.language.buffers import is_hbm, is_on_chip, is_psum, is_sbuf
from nki.language.creation import empty_like, full, ndarray, ones, par_dim, zeros, zeros_like
from nki.language.elementwise import *  # noqa: F403
from nki.language.grids import NkiBlockGrid, NkiGrid, NkiTileGrid, alloc_blocks, alloc_tiles, blocks, tiles
from nki.language.indexing import ds
from nki.language.loops import AffineRange as _AffineRange
from nki.language.loops import dynamic_range, fori_loop, while_loop
from nki.language.moving import *  # noqa: F403
from nki.language.nki_tensor import NkiTensor
from nki.language.operands import in_sbuf as _in_sbuf
from nki.language.operands import lifted as _lifted
from nki.language.operators import *  # noqa: F403
from nki.language.randomness import *  # noqa: F403
from nki.language.reducing import *  # noqa: F403
from nki.language.releases.v0_2 import OF_BETA_1 as _OF_BETA_1
from nki.language.shared_constants import shared_constant, shared_identity_matrix

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
hbm = MemoryRegion.hbm
private_hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm


def load(src: Any, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the contents of the HBM tensor ``src`` (converted to ``dtype`` if given)."""
    if not isinstance(src, NkiTensor) or not src.buffer.is_hbm:
        raise _not_in_hbm("nl.load", "src", src)
    label = _assigned_name(_here(), f"{src.name}_tile")
    shape = src.shape if src.ndim > 1 else (src.shape[0], 1)
    tile = ndarray(shape, src.dtype if dtype is None else dtype, sbuf, label)
    _isa.dma_copy(tile, src)
    return tile


def load_transpose2d(src: Any, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the HBM matrix ``src`` transposed (converted to ``dtype`` if given).

    ``src``: (rows, columns), at most 128 columns, which become the partitions (``nisa.dma_transpose``).
    """
    if not isinstance(src, NkiTensor) or not src.buffer.is_hbm:
        raise _not_in_hbm("nl.load_transpose2d", "src", src, "nisa.nc_transpose")
    if src.ndim != 2:
        raise _ShapeError(
            f"nl.load_transpose2d: src '{src.name}' {src.shape} has {src.ndim} dimensions, not 2",
            fix="reshape it to (rows, columns), or use nisa.dma_transpose for up to 4 dimensions",
        )
    label = _assigned_name(_here(), f"{src.name}_tile")
    same = dtype is None or _dtype.of(dtype) is src.dtype
    tile = ndarray(src.shape[::-1], src.dtype, sbuf, label if same else f"{src.name}_transposed")
    _isa.dma_transpose(tile, src)
    if same:
        return tile
    converted = ndarray(tile.shape, dtype, sbuf, label)
    _isa.tensor_copy(converted, tile)
    return converted


def store(dst: Any, value: NkiTensor) -> None:
    """Copy the tile ``value`` to the HBM tensor ``dst``: ``nisa.dma_copy``.

    A tile in PSUM is copied to SBUF first (``nisa.tensor_copy``), with a :class:`NkiPortabilityWarning`.
    """
    if not isinstance(dst, NkiTensor) or not dst.buffer.is_hbm:
        raise _not_in_hbm("nl.store", "dst", dst)
    if isinstance(value, NkiTensor) and value.buffer is psum:  # pyright: ignore[reportUnnecessaryIsInstance]  # users write it
        _lifted("nl.store of a tile in PSUM: NKI's own takes SBUF only (known issues of NKI 0.3); write nl.copy first")
        value = _in_sbuf(value)
    _isa.dma_copy(dst, value)


def device_print(print_prefix: str, tensor: Any) -> None:
    """Print ``tensor``, in SBUF or HBM, or a register, whenever the kernel gets here; in a loop, every round.

    A line with the prefix, the core and the number of the print goes to standard output, then the values. With
    ``NEURON_RT_DEBUG_OUTPUT_DIR`` set, ``<folder>/<prefix>/core_<core>/<iteration>/tensor.npy`` is written as well.
    """
    _current("nl.device_print").emit(_device_print(print_prefix, _access_of(tensor)))


def _not_in_hbm(what: str, parameter: str, value: Any, instead: str = "nisa.tensor_copy") -> _BufferError:
    _current(what)  # outside a kernel, this is what is wrong
    if isinstance(value, NkiTensor):
        described, fix = f"'{value.name}' is in {value.buffer.value}", f"use {instead} within the chip"
    else:
        described, fix = f"is a {type(value).__name__}", "pass an argument of the kernel, or a tensor of nl.ndarray"
    return _BufferError(f"{what}: {parameter} {described}, not a tensor in HBM", fix=fix)


def affine_range(start: int, stop: int | None = None, step: int = 1) -> _AffineRange:
    """``range``, for iterations that do not depend on each other. Deprecated since NKI 0.3: use ``range``.

    The simulator warns where they do depend on each other.
    """
    return _AffineRange(_unrolled(start, stop, step))


def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """``range``, for iterations that may depend on each other. Deprecated since NKI 0.3: use ``range``."""
    return _unrolled(start, stop, step)


def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """``range``: all loops over it are unrolled. Deprecated since NKI 0.4: use ``range``."""
    return _unrolled(start, stop, step)


def _unrolled(start: int, stop: int | None, step: int) -> range:
    return range(start) if stop is None else range(start, stop, step)


range = range
"""Python's own: real kernels write ``nl.range``."""
bool = bool_
"""The name by which some kernels call ``nl.bool_``."""


class no_reorder:
    """``with nl.no_reorder():`` runs the instructions of the block one after the other, in program order.

    So it does with the loops of functions that the block calls. Run-time loops are not allowed inside: the block would
    have to hold them together across iterations (NKI API reference of ``no_reorder``).
    """

    def __enter__(self) -> None:
        _current("nl.no_reorder").begin_order()

    def __exit__(self, *exc: object) -> None:
        _current("nl.no_reorder").end_order()


def program_id(axis: int = 0) -> int:
    """The index of this program on an axis of the launch grid."""
    builder = _current("nl.program_id")
    _check_axis("nl.program_id", axis, len(builder.programs))
    return builder.index[axis] if builder.programs else builder.program


def num_programs(axes: int | None = 0) -> int:
    """The number of programs on an axis of the launch grid; 1 without a grid."""
    builder = _current("nl.num_programs")
    if axes is None:
        message = "nl.num_programs(None) is of an older NKI: write `nl.num_programs()`"
        _warn_here(message, _NkiDeprecationWarning, since="0.3")
        return _math.prod(builder.programs or builder.grid)
    _check_axis("nl.num_programs", axes, len(builder.programs))
    return (builder.programs or builder.grid or (1,))[axes]


def program_ndim() -> int:
    """The number of axes of the launch grid: 0 without a grid, 1 on cores."""
    builder = _current("nl.program_ndim")
    return len(builder.programs or builder.grid)


def _check_axis(what: str, axis: int, axes: int) -> None:
    if axes > 1 and not 0 <= axis < axes:
        raise _ArgumentError(
            f"{what}: axis {axis!r} does not exist: this launch grid has {axes} axes", fix=f"pass 0 to {axes - 1}"
        )
    if axes <= 1 and axis != 0:
        raise _ArgumentError(
            f"{what}: axis {axis!r} does not exist: a launch grid has one axis, the cores; in NKI Beta 1 it had more",
            fix=f"write `{what}(0)`, and replace other axes by loops inside the kernel, `for i in range(n):`",
        )


class _TileSize:
    """Limits of tiles on the target of the running kernel; outside a kernel, on the default target."""

    @property
    def _now(self) -> _target.Target:
        return _current("nl.tile_size").target if _is_recording() else _target.default()

    @property
    def pmax(self) -> int:
        """Partitions."""
        return self._now.partitions

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements per partition of a PSUM bank."""
        return self._now.psum_bank_bytes // 4

    @property
    def psum_fmax(self) -> int:
        """The same as ``psum_bank_fmax``, under its older name."""
        return self.psum_bank_fmax

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes per partition of a PSUM bank."""
        return self._now.psum_bank_bytes

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks per partition."""
        return self._now.psum_banks

    @property
    def gemm_stationary_fmax(self) -> int:
        """Columns of a stationary matmul operand."""
        return self._now.matmul_stationary_free_max

    @property
    def gemm_moving_fmax(self) -> int:
        """Columns of a moving matmul operand."""
        return self._now.gemm_moving_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Elements per partition that ``nisa.bn_stats`` takes."""
        return self._now.bn_stats_free_max

    @property
    def psum_min_align(self) -> int:
        """Bytes to which a PSUM address is aligned."""
        return self._now.psum_align_bytes

    @property
    def sbuf_min_align(self) -> int:
        """Bytes to which an SBUF address is aligned."""
        return self._now.sbuf_align_bytes

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Usable bytes per SBUF partition."""
        return self._now.sbuf_usable_partition_bytes

    @property
    def sbuf_fmax(self) -> int:
        """Usable float32 elements per SBUF partition."""
        return self.sbuf_fmax_bytes // 4

    @property
    def sbuf_size_bytes(self) -> int:
        """Usable bytes of SBUF."""
        return self.sbuf_fmax_bytes * self.pmax

    @property
    def total_available_sbuf_size(self) -> int:
        """The same as ``sbuf_fmax_bytes``, under its older name."""
        return self.sbuf_fmax_bytes


tile_size = _TileSize()

if not TYPE_CHECKING:  # type checkers refuse unknown names by themselves

    def __getattr__(name: str) -> Any:
        fix = _OF_BETA_1.names.get(f"nki.language.{name}")
        text = f", which is of NKI Beta 1: {fix}" if fix is not None else ""
        text = f": {_OTHERS[name]}" if name in _OTHERS else text
        raise AttributeError(f"module 'nki.language' has no attribute {name!r}{text}")


__all__ = [
    "DType",
    "MemoryRegion",
    "NKIObject",
    "NkiBlockGrid",
    "NkiGrid",
    "NkiTensor",
    "NkiTileGrid",
    "affine_range",
    "alloc_blocks",
    "alloc_tiles",
    "bfloat16",
    "blocks",
    "bool",
    "bool_",
    "device_print",
    "ds",
    "dynamic_range",
    "empty_like",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "fori_loop",
    "full",
    "hbm",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "load",
    "load_transpose2d",
    "ndarray",
    "no_reorder",
    "num_programs",
    "ones",
    "par_dim",
    "private_hbm",
    "program_id",
    "program_ndim",
    "psum",
    "range",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "static_range",
    "store",
    "tfloat32",
    "tile_size",
    "tiles",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "while_loop",
    "zeros",
    "zeros_like",
]  # fmt: skip
__all__ += _elementwise.__all__
__all__ += _moving.__all__
__all__ += _operators.__all__
__all__ += _randomness.__all__
__all__ += _reducing.__all__
