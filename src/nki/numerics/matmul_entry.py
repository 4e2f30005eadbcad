"""The native matrix product, for arrays: the one implementation that every executor calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from time import perf_counter_ns
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from nki.numerics import matmul as matmul_ir
from nki.numerics.jit import engine
from nki.numerics.llvm import taken
from nki.numerics.matmul import BLOCK, PANEL, add_matmul
from nki.numerics.packing import add_blocks_of_columns
from nki.numerics.words.amx_matmul import add_amx_matmul, add_begin_and_end
from nki.numerics.words.operands import PAIRS, TILES, WordOrder, add_least, add_pack_panels, add_unpack, add_widen
from nki.numerics.words.pair_matmul import add_pair_matmul
from nki.numerics.words.stationary import add_least_columns, add_pack_columns, add_pack_rows

Float32Array = NDArray[np.float32]
_WORDS_PRODUCT: Final = ctypes.CFUNCTYPE(
    None, *[ctypes.c_void_p, ctypes.c_int64] * 3, *[ctypes.c_int64] * 4
)  # pointer and step of the result and of both operands, then sizes
TRIALS: Final = 20
"""Calls of a product of which the fastest counts."""


def matmul(
    stationary: Float32Array, moving: Float32Array, out: Float32Array, accumulate: bool, by_groups: bool = False
) -> None:
    """``out = stationary.T @ moving``, or ``out += stationary.T @ moving`` if ``accumulate``.

    Shapes: stationary [K, M], moving [K, N], out [M, N]; all float32, of any strides; ``out`` must not overlap the
    operands. ``by_groups``: as for operands that fit bfloat16. The order of additions, and so every bit, is fixed: see
    :mod:`nki.numerics.matmul`. The first call compiles, which takes about half a second. Raises ``ValueError`` for
    shapes or dtypes that do not fit.
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
    """The compiled routine of :mod:`nki.numerics.matmul`, on addresses."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, pointer, size, pointer, size, size, pointer, *[size] * 6)
    return prototype(_addresses(by_groups)["nki_matmul"])


@cache
def _addresses(by_groups: bool) -> dict[str, int]:
    ((name, make),) = _product(by_groups).items()
    return engine().fixed(name, make)


def _product(by_groups: bool) -> dict[str, Callable[[], str]]:
    """The function that makes the IR of the product, by its name."""

    def make() -> str:
        module = ir.Module("nki_gemm")
        add_matmul(module, engine().vector_width, by_groups)
        return taken(module)

    return {"nki_gemm_by_groups" if by_groups else "nki_gemm": make}


def compiled_ahead(by_groups: bool) -> AbstractContextManager[None]:
    """Inside, the product is compiled in another thread, so that :func:`address` waits less."""
    return engine().ahead(_product(by_groups))


def blocks_of_rows_address() -> int:
    """Address of :func:`nki.numerics.packing.add_blocks_of_rows`, for blocks of :func:`columns_of_block` columns."""
    return _addresses(False)["nki_blocks_of_rows"]


@cache
def blocks_of_columns_address() -> int:
    """Address of :func:`nki.numerics.packing.add_blocks_of_columns`."""
    module = ir.Module("nki_blocks")
    add_blocks_of_columns(module)
    return engine().compile(module)["nki_blocks_of_columns"]


def columns_of_block() -> int:
    """Columns of a block of a stationary operand; see :func:`nki.numerics.matmul.add_matmul`."""
    return matmul_ir.columns_of_block(engine().vector_width)


def has_blocks() -> bool:
    """True if the register tiles of this processor have whole blocks of :data:`~nki.numerics.matmul.BLOCK` rows."""
    return columns_of_block() == BLOCK


def has_pairs() -> bool:
    """True if the processor multiplies bfloat16 in pairs; see :func:`word_routines`."""
    return word_routines() is not None


@cache
def address(by_groups: bool = False) -> int:
    """Address of the compiled routine, for code that calls it directly."""
    return ctypes.cast(cast(Any, routine(by_groups)), ctypes.c_void_p).value or 0


@dataclass(frozen=True)
class WordRoutines:
    """Addresses of compiled routines: the product of words, in tile registers or in pairs, what comes before and after
    products (0: nothing), and the packing of operands; see :mod:`nki.numerics.words.amx_matmul`,
    :mod:`nki.numerics.words.pair_matmul`, :mod:`nki.numerics.words.operands` and :mod:`nki.numerics.words.stationary`.
    """

    order: WordOrder
    product: int
    begin: int
    end: int
    pack_panels: int
    pack_rows: int
    pack_columns: int
    least: int
    least_columns: int
    widen: int
    unpack: int


@cache
def word_routines() -> WordRoutines | None:
    """The routines of AMX, or of pairs where these pay; None if the processor has neither that keeps the contract.

    The results of both are compared with the contract once, on numbers that tell orders and roundings apart: processors
    document their order, not all of them the same way.
    """
    tiles = amx_routines()
    if tiles is not None:
        return tiles
    return pair_routines() if pairs_pay() else None


@cache
def amx_routines() -> WordRoutines | None:
    """The routines of tile registers; None if the processor has none that keep the contract."""
    return _routines("nki_gemm_amx", TILES) if engine().has_tiles else None


@cache
def pair_routines() -> WordRoutines | None:
    """The routines of pairs; None if the processor has no instruction for them that keeps the contract."""
    return _routines("nki_gemm_pairs", PAIRS) if engine().has_bfloat16 else None


def _routines(name: str, order: WordOrder) -> WordRoutines | None:
    """The routines for words in this order, in a module of this name; None if the product breaks the contract."""

    def make() -> str:
        module = ir.Module(name)
        if order == TILES:
            add_amx_matmul(module)
            add_begin_and_end(module)
        else:
            add_pair_matmul(module)
        for add in (add_pack_panels, add_pack_columns, add_pack_rows, add_unpack):
            add(module, order)
        for add in (add_least, add_least_columns, add_widen):
            add(module)
        return taken(module)

    product = "matmul_amx" if order == TILES else "matmul_pairs"
    packing = "pack_panels", "pack_rows", "pack_columns", "least", "least_columns", "widen", "unpack"
    with engine().ahead({name: make, **_product(by_groups=True)}):
        addresses = engine().fixed(name, make)
        around = [addresses.get(f"nki_amx_{when}", 0) for when in ("begin", "end")]
        others = [addresses[f"nki_{each}"] for each in packing]
        routines = WordRoutines(order, addresses[f"nki_{product}"], *around, *others)
        return routines if _keeps_contract(routines) else None


@cache
def pairs_pay() -> bool:
    """True if pairs are multiplied faster than their numbers as float32: some processors have the instruction, but take
    longer for it than for two multiply-adds. Each is timed once in a process, in the cache; bits are equal.
    """
    routines, rows, depth = pair_routines(), 96, 256
    if routines is None:
        return False
    pairs = _WORDS_PRODUCT(routines.product)
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

    words = depth // 2, places[2], PANEL, rows, PANEL, routines.order.depth(depth), 0
    as_pairs = time(lambda: pairs(places[0], PANEL, places[1], *words))
    floats, block = routine(by_groups=True), columns_of_block()
    sizes = PANEL, PANEL, rows, PANEL, depth, 0
    return as_pairs < time(lambda: floats(places[0], PANEL, places[1], rows, block, places[2], *sizes))


def _keeps_contract(routines: WordRoutines) -> bool:
    """True if the product of words has the bits of :func:`matmul`."""
    rows, columns, depth = 48, PANEL, 128
    generator = np.random.default_rng(0)
    words = [generator.integers(0x3000, 0x5000, (depth, count), np.uint32) for count in (rows, columns)]
    for operand in words:  # signs, equal magnitudes that cancel, zeros, large numbers, infinities and NaN
        operand[generator.random(operand.shape) < 0.3] = 0x3F80
        operand[generator.random(operand.shape) < 0.1] = 0
        operand |= generator.integers(0, 2, operand.shape, np.uint32) << 15
        operand[:, 0] |= 0x7F00
        places = generator.integers(0, depth, 3), generator.integers(0, operand.shape[1], 3)
        operand[places] = (0x7F80, 0x7FC0, 0xFF80)
    expected, result = (np.empty((rows, columns), np.float32) for _ in range(2))
    stationary, moving = ((operand << 16).view(np.float32) for operand in words)
    matmul(stationary, moving, expected, False, by_groups=True)
    left, right = (_words(operand, routines.order) for operand in words)
    left = np.ascontiguousarray(left.T)
    sizes = rows, columns, routines.order.depth(depth), 0
    with configured(routines):
        places = [array.ctypes.data for array in (result, left, right)]
        _WORDS_PRODUCT(routines.product)(places[0], columns, places[1], left.shape[1], places[2], columns, *sizes)
    return expected.tobytes() == result.tobytes()


@contextmanager
def configured(routines: WordRoutines | None) -> Generator[None]:
    """Configure the tile registers of this thread meanwhile, if ``routines`` use them."""
    nothing = ctypes.CFUNCTYPE(None)
    if routines is not None and routines.begin:
        nothing(routines.begin)()
    yield
    if routines is not None and routines.end:
        nothing(routines.end)()


def _words(operand: NDArray[np.uint32], order: WordOrder) -> NDArray[np.uint32]:
    """The rows of an operand, bits of bfloat16, two by two in this order."""
    halves = operand.reshape(-1, 2, order.apart, operand.shape[1])
    words = np.left_shift(halves[:, 0], 16, dtype=np.uint32) | halves[:, 1]
    return words.reshape(-1, operand.shape[1])
