"""MX: matrix products of packed 8-bit and 4-bit numbers with a power of two for every 32 of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import copied, returned

from .case import EPSILON, Array, case

GEN4 = ("trn3",)


def load_scales(codes, rows):
    """A tile with the scales of ``rows`` partitions, four of them in each quadrant."""
    tile = nl.ndarray((rows, codes.shape[1]), dtype=codes.dtype, buffer=nl.sbuf)
    for quadrant in range(rows // 32):
        nisa.dma_copy(
            dst=tile[nl.ds(32 * quadrant, 4), :],
            src=codes[nl.ds(4 * quadrant, 4), :],
        )
    return tile


# What the host quantised: numbers of 4 or 8 bits in words, and the scales without gaps.


def packed(random: np.random.Generator, element: Any, rows: int, columns: int) -> list[Array]:
    """Words, and scales: a row of them for 8 rows of words."""
    numbers = random.standard_normal((rows, columns, 4)).astype(np.float32).astype(element)
    width = 4 if element == ml_dtypes.float4_e2m1fn else 8
    codes = numbers.view(np.uint8).astype(np.uint32) << np.arange(0, 4 * width, width, dtype=np.uint32)
    words = np.bitwise_or.reduce(codes, axis=-1).astype(np.uint16 if width == 4 else np.uint32)
    return [words, random.integers(120, 131, (rows // 8, columns)).astype(np.uint8)]


def meaning(words: Array, scales: Array, element: Any) -> Array:
    """(rows, columns, 4) numbers, scales included."""
    width = 8 * words.itemsize // 4
    codes = (words[..., None] >> np.arange(0, 4 * width, width).astype(words.dtype)) & ((1 << width) - 1)
    factors = np.repeat(np.ldexp(1.0, scales.astype(np.int64) - 127), 8, axis=0)
    return codes.astype(np.uint8).view(element).astype(np.float64) * factors[..., None]


def offline(left: Any, right: Any, rows: int) -> Any:
    return lambda random: [*packed(random, left, rows, 64), *packed(random, right, rows, 96)]


def product(left: Any, right: Any) -> Any:
    return lambda a, s, b, t: np.einsum("kiq,kjq->ij", meaning(a, s, left), meaning(b, t, right))


E4, E5, F4 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn


@case(offline(E5, E5, 128), product(E5, E5), 40 * EPSILON, GEN4)
@nki.jit
def mx_product(left, left_scale, right, right_scale):
    """float32 in PSUM; the words become packed numbers by a view."""
    tiles = []
    for words in (left, right):
        tile = nl.ndarray(words.shape, dtype=nl.float8_e5m2_x4)
        nisa.dma_copy(tile, words.view(nl.float8_e5m2_x4))
        tiles.append(tile)
    psum = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(psum, tiles[0], tiles[1], load_scales(left_scale, 128), load_scales(right_scale, 128))
    return returned(copied(psum))


@case(offline(F4, E4, 64), product(F4, E4), 2.0**-8, GEN4)
@nki.jit
def mx_product_of_4_and_8_bits(left, left_scale, right, right_scale):
    """bfloat16 in PSUM, in two parts of 32 partitions that add up; scales as float8_e8m0fnu."""
    one = nl.ndarray(left.shape, dtype=nl.uint16)
    other = nl.ndarray(right.shape, dtype=nl.float8_e4m3fn_x4)
    nisa.dma_copy(one, left)
    nisa.dma_copy(other, right.view(nl.float8_e4m3fn_x4))
    scales = [load_scales(codes, 64).view(nl.float8_e8m0fnu) for codes in (left_scale, right_scale)]
    psum = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.bfloat16, buffer=nl.psum)
    for part in range(2):
        here = nl.ds(32 * part, 32)
        nisa.nc_matmul_mx(
            psum,
            one.view(nl.float4_e2m1fn_x4)[here],
            other[here],
            scales[0][here],
            scales[1][nl.ds(32 * part, 4)],
            tile_position=(32 * part, 0),
            tile_size=(32, 128),
        )
    return returned(copied(psum))


# What the kernel quantises: element (k, n) of the contraction goes to partition k % rows, number k // rows.


def interleaved(x):
    """(4 x rows, columns) in HBM as (rows, columns, 4) in SBUF."""
    rows, columns = x.shape[0] // 4, x.shape[1]
    tile = nl.ndarray((rows, columns, 4), dtype=x.dtype)
    nisa.dma_copy(tile, x.ap([[columns, rows], [1, columns], [rows * columns, 4]]))
    return tile


def two_matrices(random: np.random.Generator) -> list[Array]:
    return [random.standard_normal((512, n)).astype(ml_dtypes.bfloat16) for n in (64, 96)]


# Rounding to four significant bits (e4m3fn): each product is off by up to 2 * 2**-4, sums of 512 by less.
@case(two_matrices, lambda a, b: a.T @ b, 0.05, GEN4)
@nki.jit
def mx_quantised_here(a, b):
    """Both tiles share one tile of scales, at 0 and 12 partitions from the beginning of each quadrant."""
    shared = nl.ndarray((128, max(a.shape[1], b.shape[1])), dtype=nl.uint8)
    scales = [shared[0:, : a.shape[1]], shared[12:, : b.shape[1]]]
    tiles = []
    for x, scale in zip((a, b), scales, strict=True):
        tile = nl.ndarray((128, x.shape[1]), dtype=nl.float8_e4m3fn_x4)
        nisa.quantize_mx(dst=tile, src=interleaved(x), dst_scale=scale)
        tiles.append(tile)
    psum = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(psum, tiles[0], tiles[1], scales[0], scales[1])
    return returned(copied(psum))


def groups(random: np.random.Generator) -> list[Array]:
    made = random.standard_normal((64, 24)) * np.exp2(random.integers(-40, 40, (8, 1, 6, 1))).repeat(8, 1).repeat(
        4, 3
    ).reshape(64, 24)
    return [made.astype(ml_dtypes.bfloat16)]


def quantised(x: Array) -> list[Array]:
    blocks = x.reshape(8, 8, 6, 4)
    power = np.floor(np.log2(np.abs(blocks).max(axis=(1, 3)))) - 14
    codes = (blocks / np.exp2(power)[:, None, :, None]).astype(ml_dtypes.float8_e5m2)
    scale = np.full((64, 6), 7, np.uint8)
    scale[[0, 1, 2, 3, 32, 33, 34, 35]] = power + 127
    zeros = np.zeros((64, 6), np.uint32)
    return [codes.reshape(64, 24).view(np.uint32), scale, zeros]


@case(groups, quantised, 0.0, GEN4)
@nki.jit
def mx_words(x):
    """The words and scales themselves, what was beside the scales before, and a cleared packed tile."""
    outs = [nl.ndarray((64, 6), d, buffer=nl.shared_hbm) for d in (nl.uint32, nl.uint8, nl.uint32)]
    words, scale = nl.ndarray((64, 6), nl.float8_e5m2_x4), nl.ndarray((64, 6), nl.uint8)
    nisa.memset(scale, 7)
    nisa.quantize_mx(words, nl.load(x), scale)
    nisa.dma_copy(outs[0], words.view(nl.uint32))
    nisa.dma_copy(outs[1], scale)
    copied = nl.ndarray((64, 6), nl.float8_e5m2_x4)
    nisa.tensor_copy(copied, words)
    nisa.memset(copied, 0)
    nisa.dma_copy(outs[2].view(nl.float8_e5m2_x4), copied)
    return tuple(outs)
