"""What else the Tensor engine does: windows that overlap in PSUM, parts of the array, double rows, wide results."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import copied, returned

from .case import EPSILON, Array, case, integers, normals

E4 = ml_dtypes.float8_e4m3


def full_convolution(x: Array, taps: Array) -> Array:
    """out[m, h, w] = sum over c, i, j of taps[i, j, c, m] * x[c, h - i, w - j]."""
    rows, columns = taps.shape[:2]
    out = np.zeros((taps.shape[3], x.shape[1] + rows - 1, x.shape[2] + columns - 1))
    for i in range(rows):
        for j in range(columns):
            out[:, i : i + x.shape[1], j : j + x.shape[2]] += np.einsum("cm,chw->mhw", taps[i, j], x)
    return out


@case(normals((48, 9, 11), (3, 2, 48, 20)), full_convolution, 16 * EPSILON)
@nki.jit
def convolution_by_overlapping_windows(x, taps):
    """Each tap adds to a window of its own; a window begins where nothing was written and continues over others."""
    _, height, width = x.shape
    rows, columns, _, filters = taps.shape
    image = nl.load(x)
    psum = nl.ndarray((filters, height + rows - 1, width + columns - 1), dtype=nl.float32, buffer=nl.psum)
    for i in range(rows):
        for j in range(columns):
            tap = nl.load(taps[i, j])
            nisa.nc_matmul(psum[:, nl.ds(i, height), nl.ds(j, width)], tap, image)
    return returned(copied(psum))


def valid_convolution(x: Array, taps: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, taps.shape[:2], axis=(1, 2))
    return np.einsum("ijcm,chwij->mhw", taps, windows)


@case(normals((48, 9, 12), (3, 2, 48, 20)), valid_convolution, 16 * EPSILON)
@nki.jit
def convolution_by_shifted_operands(x, taps):
    """Windows of the image as moving operands of three dimensions, into one flat result."""
    _, height, width = x.shape
    rows, columns, _, filters = taps.shape
    image = nl.load(x)
    high, wide = height - rows + 1, width - columns + 1
    psum = nl.ndarray((filters, high * wide), dtype=nl.float32, buffer=nl.psum)
    for i in range(rows):
        for j in range(columns):
            nisa.nc_matmul(psum, nl.load(taps[i, j]), image[:, nl.ds(i, high), nl.ds(j, wide)])
    return returned(copied(psum.reshape((filters, high, wide))))


@case(normals((4, 32, 16), (4, 32, 40)), lambda a, b: np.einsum("tkm,tkn->tmn", a, b).reshape(64, 40), 16 * EPSILON)
@nki.jit
def parts_of_the_array(a, b):
    """Two products of up to 64 columns side by side in the array, each in its partitions of PSUM."""
    psum = nl.ndarray((128, 40), dtype=nl.float32, buffer=nl.psum)
    out = nl.ndarray((64, 40), dtype=nl.float32, buffer=nl.shared_hbm)
    for t in range(4):
        part = 64 * (t % 2)
        nisa.nc_matmul(
            psum[nl.ds(part, 16), :],
            nl.load(a[t]),
            nl.load(b[t]),
            accumulate=False,
            tile_position=[0, part],
            tile_size=[64, 64],
        )
        tile = nl.ndarray((16, 40), dtype=nl.float32)
        nisa.tensor_copy(tile, psum[nl.ds(part, 16), :])
        nisa.dma_copy(out[nl.ds(16 * t, 16), :], tile)
    return out


def doubled(a: Array, b: Array) -> Array:
    return 2 * np.einsum("kjm,kjn->mn", a, b)


@case(normals((96, 2, 24), (96, 2, 36), dtype=E4), doubled, 16 * EPSILON, ("trn2", "trn3"))
@nki.jit
def double_rows(a, b):
    """The mode by its name and as an enumeration; contraction over partitions and rows of two."""
    left, right = nl.load(a), nl.load(b)
    psum = nl.ndarray((24, 36), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(psum, left, right.reshape((96, 2, 6, 6)), perf_mode="double_row")
    nisa.nc_matmul(psum, left, right, perf_mode=nisa.matmul_perf_mode.double_row)
    return returned(copied(psum))


def wide(kind: Any, columns: int) -> Any:
    return lambda random: [random.integers(-2, 3, shape).astype(kind) for shape in ((8, 4), (8, columns))]


@case(wide(ml_dtypes.bfloat16, 8192), lambda a, b: 2 * (a.T @ b), 0.0, ("trn3",))
@nki.jit
def all_of_psum(a, b):
    """8192 bfloat16 columns, twice, in one instruction each; the sums are small and exact."""
    psum = nl.ndarray((4, 8192), dtype=nl.bfloat16, buffer=nl.psum)
    left, right = nl.load(a), nl.load(b)
    nisa.nc_matmul(psum, left, right)
    nisa.nc_matmul(psum, left, right)
    return returned(copied(psum))


@case(integers(-(2**31), 2**31, 20, 3, 8), lambda x: [x.reshape(20, 24).T, x[:, 0].T], 0.0)
@nki.jit
def transposes(x):
    """Free dimensions count as one; on the Vector engine within SBUF, on the Tensor engine into PSUM."""
    tile = nl.load(x)
    within = nl.ndarray((24, 20), dtype=x.dtype)
    nisa.nc_transpose(within, tile, engine=nisa.engine.vector)
    out = nl.ndarray((24, 20), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, within)
    across = nl.ndarray((8, 20), dtype=nl.float8_e5m2_x4, buffer=nl.psum)
    nisa.nc_transpose(across, tile[:, 0].view(nl.float8_e5m2_x4), engine=nisa.engine.tensor)
    return out, returned(copied(across.view(nl.int32)))
