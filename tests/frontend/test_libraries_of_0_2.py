"""The libraries of NKI 0.2 run under its release, and later releases refuse what they refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ShapeError
from nki.base.warning import NkiDeprecationWarning
from nki.frontend.frontend_errors import KernelErrors, NewerApiError, RemovedApiError
from nki.language import par_dim


def of_0_2(x, axis=1, called=False, newer=False):
    """What the libraries of NKI 0.2 write: addresses, ``nl.copy`` as an operator, axes counted from the last one."""
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 64))
    nisa.dma_copy(dst=tile, src=x)
    operator = nl.copy
    nisa.activation(dst=tile, op=nl.copy, data=tile)
    nisa.activation(dst=tile, op=operator, data=tile)
    if called:
        tile = nl.copy(tile)
    if newer:
        nisa.dma_copy(dst=tile, src=x, engine=nisa.engine.unknown)
    kept = x.shape[: len(x.shape) - (len(axis) if isinstance(axis, tuple) else 1)]
    total = nl.ndarray(kept, x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(total, nl.add, tile, axis=axis)
    out = nl.ndarray(kept, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
def test_what_the_libraries_of_0_2_write(run: Any) -> None:
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    kernel = run(nki.jit(of_0_2, nki_version="0.2"))
    for axis, reduced in ((1, 3), ((1, 2), (2, 3)), ((2, 1), (2, 3)), (3, 3), (-1, 3), ((4,), 3), ((3, 4), (2, 3))):
        assert np.array_equal(kernel(x, axis), x.sum(reduced))
    for version in (None, "0.3", "0.7"):
        with pytest.raises(ShapeError, match="the reduced dimensions must be the last ones"):
            nki.jit(of_0_2, nki_version=version).compile(x)


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize(
    ("name", "text"), [("called", "`nl.copy` came with NKI 0.3"), ("newer", "`engine= of nisa.dma")]
)
def test_a_later_name_is_an_error_where_a_branch_reaches_it(name: str, text: str) -> None:
    x = np.ones((2, 3, 4, 5), np.float32)
    nki.jit(of_0_2, nki_version="0.2").compile(x)
    with pytest.raises(NewerApiError, match=text):
        nki.jit(of_0_2, nki_version="0.2").compile(x, **{name: True})


def marked(x, shape):
    tile = nl.ndarray(shape(*x.shape), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def first(rows, columns):
    return (nl.par_dim(rows), columns)


def first_of_a_list(rows, columns):
    return [par_dim(rows), columns]


def behind_blocks(rows, columns):
    return (2, nl.par_dim(rows), columns)


def imported_behind_blocks(rows, columns):
    return [2, par_dim(rows), columns]


def computed_behind_blocks(rows, columns):
    size = par_dim(rows)
    return (2, size, columns)


X = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.mark.parametrize("shape", [first, first_of_a_list])
def test_the_first_size_may_be_marked_as_partitions_until_0_2(shape: Any) -> None:
    assert np.array_equal(nki.jit(marked, nki_version="0.2")(X, shape), X)
    with pytest.warns(NkiDeprecationWarning, match="par_dim` is deprecated since NKI 0.3: write the number itself"):
        assert np.array_equal(nki.jit(marked)(X, shape), X)
    for version in ("0.3", "0.7"):
        with pytest.raises(RemovedApiError, match=r"no longer has `(nl.)?par_dim`"):
            nki.jit(marked, nki_version=version)(X, shape)


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize("version", ["0.2", None])
@pytest.mark.parametrize("shape", [behind_blocks, imported_behind_blocks, computed_behind_blocks])
def test_dimensions_of_blocks_stay_of_beta_1(shape: Any, version: str | None) -> None:
    with pytest.raises(RemovedApiError, match="NKI Beta 1"):
        nki.jit(marked, nki_version=version)(X, shape)


def chosen(x, bounds):
    """``range_select`` of ``x``, with whole columns of ``bounds``."""
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    columns = nl.ndarray(bounds.shape, bounds.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=columns, src=bounds)
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, columns[:, 0], columns[:, 1:2])
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_bounds_of_more_partitions_than_the_tile_are_read_from_the_first_until_0_2() -> None:
    x = np.ones((5, 8), np.float32)
    bounds = np.stack([np.arange(16.0), np.arange(16.0) + 3], axis=1).astype(np.float32)
    place = np.arange(8)
    expected = np.where((place >= bounds[:5, :1]) & (place < bounds[:5, 1:]), x, np.finfo(np.float32).min)
    assert np.array_equal(nki.jit(chosen, nki_version="0.2")(x, bounds), expected)
    for version in ("0.3", None):
        with pytest.raises(ShapeError, match="a vector operand has the shape"):
            nki.jit(chosen, nki_version=version)(x, bounds)
    with pytest.raises(ShapeError, match="a vector operand has the shape"):
        nki.jit(chosen, nki_version="0.2")(x, bounds[:3])


def multiplied(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    product = nl.ndarray((x.shape[1], x.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, tile, tile, is_moving_zero=False, psumAccumulateFlag=3)
    copy = nl.ndarray(product.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(copy, product)
    out = nl.ndarray(product.shape, nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copy)
    return out


def test_parameters_that_neuron_2_27_had_and_2_28_has_not_are_of_0_2() -> None:
    assert np.array_equal(nki.jit(multiplied, nki_version="0.2")(X), X.T @ X)
    with pytest.raises(KernelErrors, match=r"takes no `(is_moving_zero|psumAccumulateFlag)` since NKI 0.3"):
        nki.jit(multiplied, nki_version="0.3")(X)


def compared(x):
    assert (x.shape[1:] == [3, 4]) is WANTED and (x.shape[1:] != [3, 4]) is not WANTED
    assert ([2, 3, 4] == x.shape) is WANTED and x.shape == (2, 3, 4)  # noqa: SIM300  # the list on the left, too
    assert x.shape[1:] != [3, 5] and [3, 4] == [3, 4]
    return through_a_tile(x)


def through_a_tile(x):
    tile = nl.ndarray((2, 12), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.reshape((2, 12)))
    out = nl.ndarray((2, 12), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


WANTED = True


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
def test_a_list_equals_a_tuple_of_its_items_in_0_2(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2, 3, 4), np.float32)
    nki.jit(compared, nki_version="0.2").compile(x)
    monkeypatch.setitem(globals(), "WANTED", False)
    for version in ("0.3", "0.7", None):
        nki.jit(compared, nki_version=version).compile(x)


def quantised(x):
    tile, out = nl.load(x), nl.ndarray((32, 1), nl.uint8, buffer=nl.shared_hbm)
    packed, scales = nl.ndarray((32, 1), nl.float8_e4m3fn_x4), nl.zeros((32, 1), nl.uint8)
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=scales)
    values = nl.ndarray((32, 1), nl.float8_e4m3fn_x4, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=scales)
    nisa.dma_copy(dst=values, src=packed)
    return out, values


@pytest.mark.parametrize(("version", "code", "largest"), [("0.4", 127, 448), ("0.5", 128, 240), (None, 128, 240)])
@pytest.mark.parametrize("simulated", [False, True])
def test_scales_of_quantised_blocks_are_twice_as_large_since_0_5(
    version: str | None, code: int, largest: float, simulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 480 the OCP conversion makes 480 times 2 ** 0, beyond the format; since NKI 0.5 it is 240 times 2 ** 1."""
    monkeypatch.delenv("NKI_VERSION", raising=False)
    if version is not None:
        monkeypatch.setenv("NKI_VERSION", version)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    scales, values = (nki.simulate if simulated else nki.jit)(quantised)(np.full((32, 4), 480, ml_dtypes.bfloat16))
    assert set(scales[:4, 0].tolist()) == {code}
    assert set(values.view(ml_dtypes.float8_e4m3fn).astype(float).reshape(-1)) == {largest}
