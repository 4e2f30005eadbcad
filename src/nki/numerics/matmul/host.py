"""Matrix products on this processor: of arrays, which every executor without native code calls, and its matrix unit.

The unit for bfloat16 exists, keeps the contract, and is faster than float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.numerics.llvm_jit import engine
from nki.numerics.matmul import f32_microkernel
from nki.numerics.matmul.contract import BLOCK, PANEL
from nki.numerics.matmul.units import FLOAT32_BY_GROUPS, UNITS, MatrixUnit, float32_unit

Float32Array = NDArray[np.float32]
_MICRO_KERNEL: Final = ctypes.CFUNCTYPE(
    None, *[ctypes.c_void_p, ctypes.c_int64] * 3, *[ctypes.c_int64] * 4
)  # pointer and step of the result and of both operands, then sizes
TRIALS: Final = 20
"""Calls of a product; the fastest counts."""


def matmul(
    stationary: Float32Array, moving: Float32Array, out: Float32Array, accumulate: bool, by_groups: bool = False
) -> None:
    """``out = stationary.T @ moving``, or ``out += stationary.T @ moving`` if ``accumulate``.

    Shapes: stationary [K, M], moving [K, N], out [M, N]; all float32, of any strides; ``out`` must not overlap the
    operands. ``by_groups``: as for operands that fit bfloat16. The order of additions, and so every bit, is fixed: see
    :mod:`nki.numerics.matmul.contract`. The first call compiles, which takes about half a second. Raises ``ValueError``
    for shapes or dtypes that do not fit.
    """
    (depth, rows), (depth_moving, columns) = stationary.shape, moving.shape
    if depth != depth_moving or out.shape != (rows, columns):
        raise ValueError(f"matmul of {stationary.shape} and {moving.shape} into {out.shape}: shapes do not fit")
    if not stationary.dtype == moving.dtype == out.dtype == np.float32:
        raise ValueError(f"matmul of {stationary.dtype} and {moving.dtype} into {out.dtype}: all must be float32")
    stationary, moving = _dense_rows(stationary), _dense_rows(moving)
    target = _dense_rows(out)
    routine(by_groups)(
        target.ctypes.data, target.strides[0] // 4,
        stationary.ctypes.data, stationary.strides[0] // 4, columns_of_block(),
        moving.ctypes.data, moving.strides[0] // 4, PANEL, rows, columns, depth, int(accumulate),
    )  # fmt: skip
    if target is not out:
        out[...] = target


def _dense_rows(array: Float32Array) -> Float32Array:
    """``array``, or a copy if the elements of a row are not neighbours."""
    fits = array.flags.aligned and (array.strides[1] == 4 or array.shape[1] == 1) and array.strides[0] % 4 == 0
    return array if fits else np.ascontiguousarray(array)


@cache
def routine(by_groups: bool = False) -> Callable[..., Any]:
    """The micro-kernel of float32 numbers, on addresses."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, pointer, size, pointer, size, size, pointer, *[size] * 6)
    return prototype(float32_unit(by_groups).address())


@cache
def bf16_unit() -> MatrixUnit | None:
    """The first unit of the table that multiplies bfloat16 and that this processor has, with the contract, and fast."""
    return next((unit for unit in UNITS if unit.takes_pairs and keeps_contract(unit) and pays(unit)), None)


def has_pairs() -> bool:
    """True if the processor multiplies bfloat16."""
    return bf16_unit() is not None


def columns_of_block() -> int:
    """Columns of a block of a stationary operand of float32, as register tiles read it."""
    return f32_microkernel.columns_of_block(engine().vector_width)


def has_blocks() -> bool:
    """True if the register tiles of this processor have whole blocks of :data:`~nki.numerics.matmul.contract.BLOCK`."""
    return columns_of_block() == BLOCK


@cache
def keeps_contract(unit: MatrixUnit) -> bool:
    """True if the processor has ``unit``, and its product has the bits of :func:`matmul`.

    They are compared once, on numbers that tell orders and roundings apart: processors document their order, not all of
    them the same way.
    """
    if not unit.exists():
        return False
    with engine().ahead([unit.module, FLOAT32_BY_GROUPS.module]):
        return _has_bits(unit)


def _has_bits(unit: MatrixUnit) -> bool:
    rows, columns, depth = 48, PANEL, 128
    generator = np.random.default_rng(0)
    bits = [generator.integers(0x3000, 0x5000, (depth, count), np.uint32) for count in (rows, columns)]
    for operand in bits:  # signs, equal magnitudes that cancel, zeros, large numbers, infinities and NaN
        operand[generator.random(operand.shape) < 0.3] = 0x3F80
        operand[generator.random(operand.shape) < 0.1] = 0
        operand |= generator.integers(0, 2, operand.shape, np.uint32) << 15
        operand[:, 0] |= 0x7F00
        places = generator.integers(0, depth, 3), generator.integers(0, operand.shape[1], 3)
        operand[places] = (0x7F80, 0x7FC0, 0xFF80)
    expected, result = (np.empty((rows, columns), np.float32) for _ in range(2))
    stationary, moving = ((operand << 16).view(np.float32) for operand in bits)
    matmul(stationary, moving, expected, False, by_groups=True)
    left, right = (_in_pairs(operand, unit.half) for operand in bits)
    left = np.ascontiguousarray(left.T)
    sizes = rows, columns, unit.depth(depth), 0
    with configured(unit):
        places = [array.ctypes.data for array in (result, left, right)]
        _MICRO_KERNEL(unit.address())(places[0], columns, places[1], left.shape[1], places[2], columns, *sizes)
    return expected.tobytes() == result.tobytes()


def _in_pairs(operand: NDArray[np.uint32], half: int) -> NDArray[np.uint32]:
    """The rows of an operand, bits of bfloat16, two by two in this order."""
    halves = operand.reshape(-1, 2, 1 << half, operand.shape[1])
    words = np.left_shift(halves[:, 0], 16, dtype=np.uint32) | halves[:, 1]
    return words.reshape(-1, operand.shape[1])


@contextmanager
def configured(unit: MatrixUnit) -> Generator[None]:
    """Prepare this thread for products of ``unit`` meanwhile."""
    begin, end = (unit.address(f"nki_{unit.name}_{when}") for when in ("begin", "end"))
    nothing = ctypes.CFUNCTYPE(None)
    if begin:
        nothing(begin)()
    yield
    if end:
        nothing(end)()


@cache
def pays(unit: MatrixUnit) -> bool:
    """True if bfloat16 is multiplied faster by ``unit`` than as float32; bits are equal.

    Each is timed once in a process, in the cache, if processors differ in that.
    """
    if not unit.is_timed:
        return True
    rows, depth = 96, 256
    pairs = _MICRO_KERNEL(unit.address())
    left, right, out = (np.zeros(shape, np.float32) for shape in ((rows, depth), (depth, PANEL), (rows, PANEL)))
    places = [array.ctypes.data for array in (out, left, right)]

    def time(call: Callable[[], None]) -> int:
        """Nanoseconds of the fastest of some calls."""
        times: list[int] = []
        for _ in range(TRIALS):
            start = perf_counter_ns()
            call()
            times.append(perf_counter_ns() - start)
        return min(times)

    words = depth // 2, places[2], PANEL, rows, PANEL, unit.depth(depth), 0
    as_pairs = time(lambda: pairs(places[0], PANEL, places[1], *words))
    floats, block = routine(by_groups=True), columns_of_block()
    sizes = PANEL, PANEL, rows, PANEL, depth, 0
    return as_pairs < time(lambda: floats(places[0], PANEL, places[1], rows, block, places[2], *sizes))
