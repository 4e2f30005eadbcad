"""Arguments in a wrong order, masks of values, and truth values of tiles: the code of the fix works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.errors.test_advice import COLUMN, OPERATOR, Case, X, Y, check, load

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning"),
]

EVEN = np.tile(np.arange(0, 16, 2, dtype=np.float32), (8, 1))
LARGE = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
TILE = "c = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
BANK = "p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)\n"


def ordered(name: str, body: str, report: str, expected: Any, inputs: Any = (X, Y)) -> Case:
    return Case(name, load(body), report, expected, inputs)


ORDERS = [
    ordered("number before operator", TILE + "nisa.tensor_scalar(c, a, 2.0, nl.multiply)  # wrong",
            r"\[NKI-AR001\] tensor_scalar: op0 must be an operator", lambda x, y: x * 2),
    ordered("column before operator", TILE + "nisa.tensor_scalar(c, a, b, nl.multiply)  # wrong",
            r"\[NKI-AR001\] tensor_scalar: op0", lambda x, y: x * y, (X, COLUMN)),
    ordered("operator before the second tile", TILE + "nisa.tensor_tensor(c, a, nl.subtract, b)  # wrong",
            r"\[NKI-AR001\] tensor_tensor: data2", lambda x, y: x - y),
    ordered("data before the function", TILE + "nisa.activation(c, b, nl.exp)  # wrong",
            r"\[NKI-FE033\] `nisa.activation` does not take its arguments in this order", lambda x, y: np.exp(y)),
    ordered("data before the fold", """
        c = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(c, a, nl.add, axis=1)  # wrong
        """, r"\[NKI-FE033\] `nisa.tensor_reduce` does not take", lambda x, y: x.sum(1, keepdims=True)),
    ordered("a fold by a function of tiles", """
        c = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(c, a, nl.max, 1)  # wrong
        """, r"\[NKI-", lambda x, y: x.max(1, keepdims=True)),
    ordered("number before the tile", TILE + "nisa.memset(3.0, c)  # wrong", r"\[NKI-AR001\] memset: dst",
            lambda x, y: np.full((8, 8), 3, np.float32)),
    ordered("pattern before the tile", TILE + "nisa.iota([[2, 8]], c)  # wrong",
            r"\[NKI-FE033\] `nisa.iota` does not take", lambda x, y: EVEN),
    ordered("transposed tile before the bank", """
        p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(a, p)  # wrong
        c = p
        """, r"\[NKI-BU001/NT06\] nc_transpose", lambda x, y: x.T, (LARGE, LARGE)),
    ordered("operands before the bank", BANK + "nisa.nc_matmul(a, b, p)  # wrong\nc = p",
            r"\[NKI-BU001/BU01\] nc_matmul: moving 'p' is in psum", lambda x, y: x.T @ y),
    ordered("transposed by DMA", TILE + "nisa.dma_transpose(x, c)  # wrong",
            r"\[NKI-BU001/BU01\] dma_transpose: dst 'x' is in hbm", lambda x, y: x.T),
    Case("stored tile before the output", """
@nki.jit
def kernel(x, y):
    t = nl.load(x)
    o = nl.ndarray((8, 8), x.dtype, buffer=nl.shared_hbm)
    nl.store(t, o)  # wrong
    return o
""", r"\[NKI-BU001\] nl.store: dst 't' is in sbuf", lambda x, y: x),
    Case("a product into HBM", """
@nki.jit
def kernel(x, y):
    a, b = nl.load(x), nl.load(y)
    o = nl.ndarray((8, 8), x.dtype, buffer=nl.shared_hbm)
    nisa.nc_matmul(o, a, b)  # wrong
    return o
""", r"\[NKI-BU001/TL01\] nc_matmul: dst 'o' is in shared_hbm", lambda x, y: x.T @ y),
]  # fmt: skip
MASKS = [
    ordered("a load where values are positive", "c = nl.load(x, mask=x > 0)  # wrong",
            r"\[NKI-FE032\] `nl.load` no longer takes `mask`", lambda x, y: np.where(x > 0, x, 0).astype(np.float32)),
    ordered("a load where another tensor's values are small", "c = nl.load(x, mask=(y < 1.0) & (x != 0))  # wrong",
            r"\[NKI-FE032\]", lambda x, y: np.where((y < 1) & (x != 0), x, 0).astype(np.float32)),
    ordered("a function where a tile is negative", "c = nl.exp(a, mask=b <= 1)  # wrong", r"\[NKI-FE032\]",
            lambda x, y: np.where(y <= 1, np.exp(x), 0).astype(np.float32)),
    Case("a store where values are positive", """
@nki.jit
def kernel(x, y):
    t = nl.load(x)
    o = nl.ndarray((8, 8), x.dtype, buffer=nl.shared_hbm)
    nl.store(o, t, mask=t > 0)  # wrong
    return o
""", r"\[NKI-FE032\] `nl.store` no longer takes `mask`", lambda x, y: np.where(x > 0, x, 0).astype(np.float32)),
]  # fmt: skip
BETWEEN = OPERATOR + ".* on tensor 'a'"
TRUTH = [
    ordered("and", "c = nl.where(a > 0 and a < 1, a, 0.0)  # wrong", BETWEEN,
            lambda x, y: np.where((x > 0) & (x < 1), x, 0).astype(np.float32)),
    ordered("or of three", "c = nl.where(a > 1 or a < -1 or b > 1, a, 0.0)  # wrong", BETWEEN,
            lambda x, y: np.where((x > 1) | (x < -1) | (y > 1), x, 0).astype(np.float32)),
    ordered("not", "c = nl.where(not a > 0, a, 0.0)  # wrong", BETWEEN,
            lambda x, y: np.where(x > 0, 0, x).astype(np.float32)),
    ordered("chained", "c = nl.where(0 < a < 1, a, 0.0)  # wrong", BETWEEN,
            lambda x, y: np.where((x > 0) & (x < 1), x, 0).astype(np.float32)),
    ordered("ampersand", "c = nl.where((a > 0) & (a < 1), a, 0.0)  # wrong", BETWEEN,
            lambda x, y: np.where((x > 0) & (x < 1), x, 0).astype(np.float32)),
    ordered("bar and tilde", "c = nl.where(~(a > 0) | (b > 1), a, 0.0)  # wrong", BETWEEN,
            lambda x, y: np.where(~(x > 0) | (y > 1), x, 0).astype(np.float32)),
    ordered("a conditional expression", "c = a if a > b else b * 2  # wrong", BETWEEN,
            lambda x, y: np.where(x > y, x, 2 * y)),
]  # fmt: skip
CASES = [*ORDERS, *MASKS, *TRUTH]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_code_of_the_fix_works(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
