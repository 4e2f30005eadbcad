"""The matrix product for arrays: strides, shapes and refusals; its bits are tested with the routine itself."""

from __future__ import annotations

import numpy as np
import pytest

from nki.numerics.matmul.host import matmul


def draw(*shape: int) -> np.ndarray:
    """Small whole numbers: every product and sum is exact."""
    return np.random.default_rng(shape).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("size", [(128, 128, 512), (3, 5, 7), (9, 1, 1), (1, 9, 1), (64, 32, 33), (0, 4, 4), (4, 0, 4)])
def test_product(size: tuple[int, int, int], accumulate: bool) -> None:
    depth, rows, columns = size
    left, right, out = draw(depth, rows), draw(depth, columns), draw(rows, columns)
    want = left.T @ right + (out if accumulate else 0)
    matmul(left, right, out, accumulate)
    assert np.array_equal(out, want)


@pytest.mark.parametrize("accumulate", [False, True])
def test_any_strides(accumulate: bool) -> None:
    left, right = draw(40, 30)[::2, ::-1], draw(50, 20).T[:, ::2]
    for holder in (draw(30, 25), draw(60, 25)[::-2], draw(30, 50)[:, ::2], draw(25, 30).T):
        want = left.T @ right + (holder if accumulate else 0)
        matmul(left, right, holder, accumulate)
        assert np.array_equal(holder, want)


def test_one_row_repeated() -> None:
    left = np.broadcast_to(draw(1, 17), (9, 17))
    right, out = draw(9, 40), np.empty((17, 40), np.float32)
    matmul(left, right, out, False)
    assert np.array_equal(out, left.T @ right)


def test_unaligned_arrays() -> None:
    raw = np.zeros(4 * 16 * 16 + 1, np.uint8)
    left = raw[1:].view(np.float32).reshape(16, 16)
    left[...] = draw(16, 16)
    right, out = draw(16, 16), np.empty((16, 16), np.float32)
    matmul(left, right, out, False)
    assert np.array_equal(out, left.T @ right)


def test_refuses_shapes_and_dtypes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="shapes"):
        matmul(draw(4, 4), draw(5, 4), draw(4, 4), False)
    with pytest.raises(ValueError, match="shapes"):
        matmul(draw(4, 4), draw(4, 4), draw(4, 5), False)
    with pytest.raises(ValueError, match="float32"):
        matmul(draw(4, 4).astype(np.float64), draw(4, 4), draw(4, 4), False)  # type: ignore[arg-type]
