"""Older NKI that still runs, with a warning at its line; and what warns only, because it may never run."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import DynamicLoopError
from nki.base.warning import NkiDeprecationWarning, NkiWarning
from nki.frontend.frontend_errors import RemovedApiError
from tests.support.kernel_parts import returned

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def with_strings(x):
    tile = nl.ndarray(x.shape, dtype="float32", buffer="sbuf")
    nisa.dma_copy(dst=tile, src=x)
    return returned(tile)


def with_numpy_types(x):
    tile = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return returned(tile)


def with_dtype_left_over(x):
    tile = nl.load(x)
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=other, src=tile, dtype=nl.float32)
    return returned(other)


def with_integers(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x, dge_mode=3)
    return returned(tile)


@pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
@pytest.mark.parametrize(
    ("kernel", "messages"),
    [
        (with_strings, ["dtype 'float32'.*`nl.float32`", "buffer 'sbuf'.*`nl.sbuf`"]),
        (with_numpy_types, ["dtype <class 'numpy.float32'>.*`nl.float32`"]),
        (with_integers, ["dge_mode=3 is of an older NKI.*`nisa.dge_mode.none`"]),
        (with_dtype_left_over, ["`nisa.tensor_copy` takes no `dtype`: leave it out"]),
    ],
)
def test_it_runs_and_says_what_to_write(kernel, messages, run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.array_equal(run(kernel)(X), X)
    assert len(caught) == len(messages)
    for warning, message in zip(caught, messages, strict=True):
        assert issubclass(warning.category, NkiDeprecationWarning) and warning.filename == __file__
        assert pytest.approx(warning.lineno, abs=4) == kernel.__code__.co_firstlineno
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(str(warning.message))


def test_a_misspelt_keyword_in_a_branch_counts_when_it_runs():
    @nki.jit
    def kernel(x, flag):
        tile = nl.load(x)
        if flag:
            nisa.tensor_copy(dst=tile, src=tile, mask=None)
        return returned(tile)

    with pytest.warns(NkiWarning, match=r"no longer takes `mask`, which is an error if this line is reached"):
        assert np.array_equal(kernel(X, False), X)
    with pytest.warns(NkiWarning), pytest.raises(RemovedApiError, match=r"`tensor_copy` no longer takes `mask`"):
        kernel(X, True)


def test_instructions_are_in_order_anyway():
    @nki.jit
    def kernel(x):
        with nl.no_reorder():
            tile = nl.load(x)
            for _ in nl.range(2):
                nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        return returned(tile)

    assert np.array_equal(kernel(X), 4 * X) and np.array_equal(nki.simulate(kernel)(X), 4 * X)


def test_no_loop_on_the_device_while_the_order_is_kept():
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        with nl.no_reorder():
            nl.fori_loop(0, 2, lambda i: nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add))
        return returned(tile)

    with pytest.raises(DynamicLoopError, match="no_reorder"):
        kernel(X)
