"""What "NKI Migration Guide from Beta 1 to Beta 2" says that its release has not, under the rules of that release."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.warning import NkiPortabilityWarning
from tests.support.both_executors import both, numbers, refused


def finished(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# Remove nki.jit decorator on sub-kernels


def test_decorators_on_sub_kernels_under_their_release(monkeypatch):
    @nki.jit
    def doubled(tile):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)

    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        doubled(tile)
        return finished(tile)

    a = numbers(8, 16)
    monkeypatch.setenv("NKI_VERSION", "0.2")
    with pytest.warns(NkiPortabilityWarning, match=r"`doubled` has a decorator.*write `nki.jit\(doubled\)\(…\)`"):
        assert np.array_equal(kernel(a), 2 * a)
    with pytest.warns(NkiPortabilityWarning, match="refuses that, 2.28 takes it"):
        assert np.array_equal(nki.simulate(kernel)(a), 2 * a)
    monkeypatch.setenv("NKI_VERSION", "0.3")
    assert np.array_equal(kernel(a), 2 * a)


# What features are not available


def nested(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return finished(tile[0:32, 0:32][4:16, nl.ds(2, 8)])


def nested_in_hbm(x):
    tile = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(0, 16)][2:6, 0:8])
    return finished(tile)


def nested_destination(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:64][0:64, 0:64], src=x)
    return finished(tile)


NESTED = {
    nested: "`tile[0:32, 0:32][4:16, nl.ds(2, 8)]` slices a slice",
    nested_in_hbm: "`part = x[nl.ds(0, 16)]`, `part[2:6, 0:8]`",
    nested_destination: "`part = tile[0:64]`, `part[0:64, 0:64]`",
}


@pytest.mark.parametrize("kernel", NESTED)
def test_nested_slicing(kernel, monkeypatch):
    x = numbers(64, 64)
    expected = {nested: x[4:16, 2:10], nested_in_hbm: x[2:6, 0:8], nested_destination: x}[kernel]
    assert np.array_equal(both(kernel, x), expected)
    monkeypatch.setenv("NKI_VERSION", "0.2")
    told = refused(kernel, x)
    assert "NKI-FE034" in told and NESTED[kernel] in told


def test_parts_with_names_and_parts_of_lists_are_no_nested_slices(monkeypatch):
    # The public library of that release slices tiles of PSUM so.
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        tiles = [tile, tile, tile]
        part = tiles[1:3][0][0:32, 0:32]
        assert x.shape[0:2][1] == 64
        return finished(part[4:16, 2:10])

    x = numbers(64, 64)
    monkeypatch.setenv("NKI_VERSION", "0.2")
    assert np.array_equal(both(kernel, x), x[4:16, 2:10])
