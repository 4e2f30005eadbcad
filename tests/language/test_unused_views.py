"""Views that a kernel makes before it knows whether there is work: unused they are no mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import IndexRangeError, NkiError, ViewError
from tests.support.kernel_parts import returned

BOTH = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["compiled", "simulated"])
A = np.arange(12 * 8, dtype=np.float32).reshape(12, 8)
Run = Callable[[Any], Callable[..., Any]]


@nki.jit
def pieces(a, size):
    """Rows in pieces of ``size``; the last piece may have none."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for first in range(0, a.shape[0] + 1, size):
        left = min(size, a.shape[0] - first)
        rows, same = a[nl.ds(first, left)], out[first : first + left]
        assert rows.shape == same.shape == (left, a.shape[1])
        if left:
            nl.store(same, nl.load(rows))
    return out


@BOTH
@pytest.mark.parametrize("size", [3, 4, 5, 12])
def test_an_empty_piece_is_no_mistake_while_nothing_uses_it(run: Run, size: int) -> None:
    assert np.array_equal(run(pieces)(A, size), A)


@BOTH
def test_a_pattern_that_leaves_its_storage_is_no_mistake_while_nothing_uses_it(run: Run) -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a)
        for column in range(9):
            view = t.ap([[8, 12], [1, 1]], offset=column)
            if column < 8:
                nisa.dma_copy(out[:, column : column + 1], view)
        return out

    assert np.array_equal(run(kernel)(A), A)


@BOTH
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda t: t[:, 3:3], IndexRangeError),
        (lambda t: t[:, nl.ds(8, 0)], IndexRangeError),
        (lambda t: t[:, 3:3].expand_dim(1), IndexRangeError),
        (lambda t: t.slice(1, 2, 2), IndexRangeError),
        (lambda t: t.ap([[8, 12], [1, 4]], offset=5), ViewError),
        (lambda t: t.ap([[8, 12], [1, 4]], offset=5)[0:4], ViewError),
        (lambda t: t.ap([[8, 13], [1, 8]]), IndexRangeError),
    ],
)
def test_what_uses_it_is_refused_at_the_line_that_made_it(
    run: Run, change: Callable[[Any], Any], error: type[NkiError]
) -> None:
    @nki.jit
    def kernel(a):
        t = nl.load(a)
        view = change(t)
        nisa.memset(view, 0.0)
        return returned(t)

    with pytest.raises(error) as caught:
        run(kernel)(A)
    assert caught.value.span is not None
    assert "change(t)" in str(caught.value) or "lambda t" in str(caught.value)


@BOTH
def test_a_tensor_as_a_condition_is_there(run: Run) -> None:
    """As kernels ask for tensors that they may not have been given; what it holds is not asked."""

    @nki.jit
    def kernel(a, other):
        return returned(nl.load(other if other else a))

    assert np.array_equal(run(kernel)(A, None), A)
    with pytest.warns(nki.NkiWarning, match="'other' is used as a condition, which is true of every tensor"):
        assert np.array_equal(run(kernel)(A, 0 * A), 0 * A)
