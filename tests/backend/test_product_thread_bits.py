"""Random products of odd shapes, accumulated and with what surrounds them: the same bits on 1 to 8 threads."""

from __future__ import annotations

import os
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]
SEEDS = max(2, int(os.environ.get("NKI_TEST_EXAMPLES", "50")) // 20)
THREADS = (1, 2, 3, 5, 8)
DEPTHS = (1, 3, 16, 31, 33, 96, 127, 128)
ROWS = (1, 2, 3, 8, 16, 17, 33, 64, 100, 127, 128)
COLUMNS = (1, 5, 17, 64, 100, 333, 512)
TOTAL = 1024
"""Columns of each operand, of which products take some."""
PITCH = 128
"""Columns from line to line of a moving operand that is a window of an image."""
DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3)


class Product(nl.NKIObject):
    """Summed depth (partitions of the operands), rows and columns of the result, where operands begin, and variants.

    ``spread``: the stationary operand takes every other column. ``lines``: the moving operand is a window of that many
    lines. Products read a copy of both.
    """

    depth: int
    rows: int
    columns: int
    left: int
    right: int
    turned: bool
    twice: bool
    half: bool
    changes: bool
    spread: bool
    lines: int


def some_products(source: random.Random) -> tuple[Product, ...]:
    """2 to 7 products; about half of the operands are those of the product before."""
    products: list[Product] = []
    for _ in range(source.randrange(2, 8)):
        depth, rows, columns = source.choice(DEPTHS), source.choice(ROWS), source.choice(COLUMNS)
        left, right = source.randrange(TOTAL - 255), source.randrange(TOTAL - columns)
        if source.random() < 0.3:  # whole groups and panels, as operands are packed
            depth, rows, columns = (128, 96)[source.randrange(2)], 128, 512
            left, right = left // 32 * 32, right // 32 * 32 % 512
        if products and source.random() < 0.5:
            depth, rows, left = products[-1].depth, products[-1].rows, products[-1].left
        if products and source.random() < 0.5:
            depth, columns, right = products[-1].depth, products[-1].columns, products[-1].right
        products.append(
            Product(
                depth=depth,
                rows=rows,
                columns=columns,
                left=left,
                right=right,
                turned=source.random() < 0.3,
                twice=source.random() < 0.5,
                half=source.random() < 0.5,
                changes=source.random() < 0.5,
                spread=source.random() < 0.2,
                lines=source.choice([lines for lines in (1, 1, 2, 4, 8) if columns % lines == 0]),
            )
        )
    return tuple(products)


@nki.jit
def products_of(a, b, products):
    """The products, each in rows of its own of the result; a result may change the moving operands of the next."""
    out = nl.ndarray((128 * len(products), 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    for number, product in enumerate(products):
        depth, rows, columns = product.depth, product.rows, product.columns
        stationary = left[0:depth, product.left : product.left + rows]
        if product.spread:
            stationary = left.reshape((128, TOTAL // 2, 2))[0:depth, product.left // 2 : product.left // 2 + rows, 1]
        moving = right[0:depth, product.right : product.right + columns]
        if product.lines > 1 and columns <= product.lines * PITCH:
            image, width = right.reshape((128, TOTAL // PITCH, PITCH)), columns // product.lines
            side = min(product.right // 8, PITCH - width)
            moving = image[0:depth, 0 : product.lines, side : side + width]
        total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        if product.turned:
            source = nl.ndarray((rows, depth), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(source, a[0:rows, product.left : product.left + depth])
            turned = nl.ndarray((depth, rows), dtype=a.dtype, buffer=nl.psum)
            nisa.nc_transpose(turned, source)
            stationary = nl.ndarray((depth, rows), dtype=a.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(stationary, turned)
        nisa.nc_matmul(total, stationary, moving)
        if product.twice:
            nisa.nc_matmul(total, stationary, moving)
        result = nl.ndarray((rows, columns), dtype=nl.bfloat16 if product.half else nl.float32, buffer=nl.sbuf)
        if product.half:
            nisa.activation(result, nl.tanh, total, scale=0.25)
        else:
            nisa.tensor_scalar(result, total, nl.multiply, 0.5)
        nisa.dma_copy(out[128 * number : 128 * number + rows, 0:columns], result)
        if product.changes:
            nisa.tensor_copy(right[0:rows, product.right : product.right + columns], result)
        fill = nl.zeros((128, 512), dtype=nl.float32)
        if rows < 128:
            nisa.dma_copy(out[128 * number + rows : 128 * (number + 1)], fill[0 : 128 - rows])
        if columns < 512:
            nisa.dma_copy(out[128 * number : 128 * number + rows, columns:512], fill[0:rows, columns:512])
    return out


@pytest.mark.parametrize("dtypes", [(x, x) for x in DTYPES] + [(DTYPES[1], DTYPES[3]), (DTYPES[2], DTYPES[1])])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_products(dtypes: tuple[Any, Any], seed: int, shared: pytest.MonkeyPatch) -> None:
    check(some_products(random.Random(f"{np.dtype(dtypes[0])} {seed}")), dtypes, seed, shared)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("spread", "lines"), [(False, 4), (True, 1), (True, 8)])
@pytest.mark.parametrize("size", [33, 128])
def test_operands_that_products_copy(
    dtype: Any, spread: bool, lines: int, size: int, shared: pytest.MonkeyPatch
) -> None:
    """Every range of the result's partitions copies all partitions of an operand, of which there are as many."""
    products = tuple(
        Product(
            depth=size,
            rows=size,
            columns=columns,
            left=40,
            right=columns,
            turned=False,
            twice=twice,
            half=False,
            changes=True,
            spread=spread,
            lines=lines,
        )
        for columns, twice in ((64, False), (512, True), (256, False))
    )
    check(products, (dtype, dtype), size, shared)


def check(products: tuple[Product, ...], dtypes: tuple[Any, Any], seed: int, shared: pytest.MonkeyPatch) -> None:
    """Test that ``products`` have the bits of the simulator on all :data:`THREADS`."""
    numbers = np.random.default_rng(seed)
    arrays = [(numbers.normal(size=(128, TOTAL)) / 4).astype(dtype) for dtype in dtypes]
    program = products_of.compile(*arrays, products).kernel
    expected = [np.ascontiguousarray(output).tobytes() for output in executor.run(program, list(arrays))]
    for outputs in launched(program, arrays, shared, THREADS):
        assert outputs == expected, products
