"""Transposes of 8-bit floats on the Tensor engine of trn2, about which NKI's documents disagree."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.warning import NkiPortabilityWarning


def by_transpose(x, engine):
    turned = nl.ndarray((32, 32), x.dtype, buffer=nl.sbuf if engine == nisa.engine.vector else nl.psum)
    nisa.nc_transpose(turned, nl.load(x), engine=engine)
    out = nl.ndarray((32, 32), x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(turned))
    return out


def by_product(x, engine):
    turned = nl.ndarray((32, 32), x.dtype, buffer=nl.psum)
    nisa.nc_matmul(turned, nl.load(x), nl.shared_identity_matrix(32, dtype=x.dtype), is_transpose=True)
    out = nl.ndarray((32, 32), x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(turned))
    return out


@pytest.mark.parametrize("run", [nki.jit, nki.simulate])
@pytest.mark.parametrize(
    ("kernel", "engine", "dtype", "target", "warned"),
    [
        (by_transpose, nisa.engine.unknown, nl.float8_e4m3, "trn2", True),
        (by_transpose, nisa.engine.tensor, nl.float8_e5m2, "trn2", True),
        (by_product, nisa.engine.unknown, nl.float8_e4m3, "trn2", True),
        (by_transpose, nisa.engine.vector, nl.float8_e4m3, "trn2", False),
        (by_transpose, nisa.engine.tensor, nl.bfloat16, "trn2", False),
        (by_transpose, nisa.engine.tensor, nl.float8_e4m3, "trn3", False),
    ],
)
def test_a_transpose_that_documents_disagree_on_gives_a_warning(
    monkeypatch: pytest.MonkeyPatch, run: Any, kernel: Any, engine: Any, dtype: Any, target: str, warned: bool
) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = run(kernel)(x, engine)
    assert got.tobytes() == np.ascontiguousarray(x.T).tobytes()
    texts = [str(w.message) for w in caught if w.category is NkiPortabilityWarning]
    assert any("architecture guide one of 16-bit" in text for text in texts) == warned
