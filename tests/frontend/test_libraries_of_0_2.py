"""The libraries of NKI 0.2 run under its release, and later releases refuse what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ShapeError
from nki.frontend.frontend_errors import NewerApiError


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
    for axis, reduced in ((1, 3), ((1, 2), (2, 3)), ((2, 1), (2, 3)), (3, 3), (-1, 3)):
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
