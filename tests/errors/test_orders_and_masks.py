"""Arguments in a wrong order, masks of values, and truth values of tiles: the code of the fix works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
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


def refused(kernel: Any, *inputs: Any) -> str:
    with pytest.raises(NkiError) as caught:
        nki.jit(kernel)(*inputs)
    return re.sub(r"\s+", " ", str(caught.value))


SWAPPED = "if 'u' is to receive the result, pass it as dst and 't' as"


def copied(x: Any) -> Any:
    t = nl.load(x)
    u = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(t, u)
    return x


def activated(x: Any) -> Any:
    t = nl.load(x)
    u = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.activation(t, nl.exp, u)
    return x


@pytest.mark.parametrize(("kernel", "operand"), [(copied, "src"), (activated, "data")])
@pytest.mark.parametrize("simulated", [False, True])
def test_swapped_tiles_are_named(kernel: Any, operand: str, simulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", "1" if simulated else "0")
    assert f"fix: {SWAPPED} {operand}: the destination comes first; else write it first" in refused(kernel, X)


def test_a_fresh_destination_is_not_called_swapped() -> None:
    def kernel(x: Any) -> Any:
        t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        u = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(t, u)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    report = refused(kernel, X)
    assert "[NKI-HZ001]" in report and "fix: write it first" in report


def test_a_sum_without_a_beginning_is_told_how_sums_begin() -> None:
    def kernel(x: Any) -> Any:
        t = nl.load(x)
        total = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        for _ in range(4):
            nisa.tensor_tensor(total, total, t, nl.add)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, total)
        return out

    assert "fix: set it first: a sum begins with `nisa.memset(total, 0.0)` in front of its loop" in refused(kernel, X)


def test_a_load_with_its_operands_swapped() -> None:
    def kernel(x: Any) -> Any:
        t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(x, t)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    fix = "fix: the destination comes first: nothing writes 't', so pass it as dst, and 'x' in its place"
    assert fix in refused(kernel, X)


def test_an_output_and_an_input_swapped() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(x, out)
        return out

    assert "fix: the destination comes first: nothing writes 'out', so pass it as dst" in refused(kernel, X)


def test_a_column_is_not_called_swapped() -> None:
    def kernel(x: Any) -> Any:
        t = nl.load(x)
        s = nl.ndarray((8, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(t, t, nl.multiply, s)
        return x

    assert "fix: write it first" in refused(kernel, X)


def test_a_bank_filled_by_dma() -> None:
    def kernel(x: Any) -> Any:
        p = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
        nisa.dma_copy(p, x)
        return x

    assert "and copy on chip: write `nisa.tensor_copy(dst=p, src=nl.load(x))`" in refused(kernel, X)


def test_a_sum_of_tiles_in_a_list() -> None:
    def kernel(x: Any) -> Any:
        return sum([nl.load(x), nl.load(x)])

    assert "fix: write `functools.reduce(nl.add, [nl.load(x), nl.load(x)])`" in refused(kernel, X)


def test_an_input_that_changes_is_not_called_swapped() -> None:
    def kernel(x: Any) -> Any:
        t = nl.load(x)
        nisa.dma_copy(x, t)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    assert "fix: return it as well" in refused(kernel, X)


def test_an_assertion_on_a_tile_is_not_made_true() -> None:
    """``assert nl.equal(t, 0)`` would hold whatever the tile has."""

    def kernel(x: Any) -> Any:
        t = nl.load(x)
        assert t[0, 0] == 0
        return x

    report = refused(kernel, X)
    assert "`assert` on a tensor" in report and "nl.equal" not in report


def test_a_branch_on_a_tile_beside_a_condition_of_python() -> None:
    def kernel(x: Any) -> Any:
        t = nl.load(x)
        if x.shape[0] == 8 and t > 0:
            nisa.memset(t, 0.0)
        return x

    fix = "fix: compute both results and choose element by element: `nl.where(nl.greater(t, 0), x, y)`, inside `if x"
    assert fix in refused(kernel, X)


def test_a_loop_count_of_floats_is_converted() -> None:
    def kernel(x: Any) -> Any:
        for _ in range(x[0, 0]):
            pass
        return x

    assert "nisa.register_alloc(nl.copy(nl.load(x[0, 0]), dtype=nl.int32))" in refused(kernel, X)


def test_a_tensor_is_no_pointer() -> None:
    def kernel(x: Any) -> Any:
        return nl.load(x + 128)

    assert "fix: a tensor is no pointer: pass the part that is meant, `x[start:start + size, :]`" in refused(kernel, X)


def test_a_sum_of_inputs_in_a_store_is_no_pointer() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, x + 1.0)
        return out

    assert "fix: write `nl.store(out, nl.add(nl.load(x), 1.0))`" in refused(kernel, X)


def test_the_greater_of_elements_and_zero_is_no_reduction() -> None:
    def kernel(x: Any) -> Any:
        return nl.max(nl.load(x), 0)

    assert "for the maximum of each element and 0 write `nl.maximum(nl.load(x), 0)`" in refused(kernel, X)
