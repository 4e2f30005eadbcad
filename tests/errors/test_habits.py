"""Habits of NumPy, PyTorch, JAX and Triton in a kernel: the error says what NKI has, and its code works."""

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
from nki.target import ENVIRONMENT
from tests.errors.test_advice import COLUMN, OPERATOR, THREE, WIDE, Case, X, Y, check, into, load, simple

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning"),
]


def _four_times(x: Any, y: Any) -> Any:
    return 4 * x + y


CASES = [
    # A name that the body of a loop assigns
    Case("accumulate by name", load("""
        c = nl.copy(b)

        def body(i):
            c = nl.add(c, a)  # wrong

        nl.fori_loop(0, 4, body)
        """), r"\[NKI-FE041\] `c` has no value yet in `body`, which assigns it", _four_times),
    Case("accumulate in place by name", load("""
        c = nl.copy(b)

        def body(i):
            c += a  # wrong

        nl.fori_loop(0, 4, body)
        """), r"\[NKI-FE041\] `c` has no value yet in `body`", _four_times),
    # Functions of PyTorch with a call as argument
    simple("torch.exp of a load", "c = torch.exp(nl.load(x))", r"\[NKI-TN003\] torch.exp on a tensor, which has values",
           lambda x, y: np.exp(x)),
    simple("functional.relu of a load", "c = functional.relu(nl.load(x))", r"\[NKI-TN003\] functional.relu on a",
           lambda x, y: np.maximum(x, 0)),
    # A mask as an index
    Case("a number where a mask holds", load("c = nl.copy(b)\nc[a > 0] = 1.0  # wrong"), OPERATOR + "> on tensor 'a'",
         lambda x, y: np.where(x > 0, np.float32(1), y)),
    Case("a tile where a mask holds", load("c = nl.copy(b)\nc[a <= 0.5] = a  # wrong"), OPERATOR + "<= on tensor 'a'",
         lambda x, y: np.where(x <= 0.5, x, y)),
    # Rows of a tile
    Case("a row to another row", load("c = nl.copy(b)\nc[3] = a[5]  # wrong"),
         r"\[NKI-SH002/TL03\] tensor_copy: dst 'c' starts at partition 3",
         lambda x, y: np.vstack([y[:3], x[5:6], y[4:]])),
    # Destinations
    into("a reduction into a tile of the whole size", "sbuf", "nisa.tensor_reduce(dst=c, op=nl.add, data=a, axis=1)",
         r"\[NKI-SH001/TR03\] tensor_reduce: dst 'c' \(8, 8\)", lambda x, y: x.sum(1, keepdims=True)),
    Case("a reduction of one of two dimensions", load("""
        d = a.reshape((8, 4, 4))
        c = nl.ndarray((8, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=c, op=nl.maximum, data=d, axis=-1)  # wrong
        """), r"\[NKI-SH001/TR03\] tensor_reduce", lambda x, y: x.reshape(8, 4, 4).max(2), (WIDE, Y)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_code_of_the_fix_works(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_greatest_magnitudes_have_one_fix_on_all_targets(target: str, tmp_path: Path, monkeypatch: Any) -> None:
    """No target reduces with ``abs_max``: none is named as the way out."""
    monkeypatch.setenv(ENVIRONMENT, target)
    body = load(
        "c = nl.ndarray((8, 1), dtype=nl.float32)\n"
        "nisa.tensor_reduce(dst=c, op=nl.abs_max, data=a, axis=1)  # wrong"
    )  # fmt: skip
    report = r"\[NKI-OP001/TR01\] tensor_reduce: op=nl.abs_max is not a reduction operator"
    check(Case("abs_max", body, report, lambda x, y: np.abs(x).max(1, keepdims=True)), tmp_path)


def refused(kernel: Any, *inputs: Any) -> str:
    with pytest.raises(NkiError) as caught:
        nki.jit(kernel)(*inputs)
    return re.sub(r"\s+", " ", str(caught.value))


def test_a_store_into_a_tile_without_a_memory() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype)
        nl.store(out, nl.load(x))
        return out

    def repaired(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    report = refused(kernel, X)
    assert re.search(r"fix: in line \d+ write `out = nl.ndarray\(x.shape, x.dtype, buffer=nl.shared_hbm\)`", report)
    assert np.array_equal(nki.jit(repaired)(X), X)


def test_sizes_that_are_no_tuple_before_a_memory() -> None:
    def kernel(x: Any) -> Any:
        out = nl.ndarray(8, 8, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    assert "fix: the sizes are one tuple: write `nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)`" in refused(
        kernel, X
    )


def test_an_array_of_another_library_as_a_destination() -> None:
    def kernel(x: Any) -> Any:
        tile = np.zeros((8, 8), np.float32)
        nisa.tensor_copy(tile, nl.load(x))
        return x

    assert "allocate it in the kernel: write `tile = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)`" in refused(
        kernel, X
    )


def _carries(x: Any) -> Any:
    total = nl.zeros((8, 1), nl.float32)

    def body(i: Any, carry: Any) -> Any:
        return nl.add(carry, 1.0)

    total = nl.fori_loop(0, 4, body, total)
    return x


def _carries_by_step(x: Any) -> Any:
    total = nl.zeros((8, 1), nl.float32)
    nl.fori_loop(0, 4, lambda i: None, total)
    return x


def _tests_and_body(x: Any) -> Any:
    register = nisa.register_alloc(3)
    nl.while_loop(register, lambda: register)
    return x


def _body_is_a_value(x: Any) -> Any:
    nl.fori_loop(0, 4, nl.load(x))
    return x


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (_carries, "nl.fori_loop calls its body with one argument, and it is body(i: 'Any', carry: 'Any')"),
        (_carries_by_step, "the fourth argument of a run-time loop is its step, and is tensor 'total' (8, 1)"),
        (_tests_and_body, "nl.while_loop calls its body with one argument, and it is <lambda>()"),
        (_body_is_a_value, "nl.fori_loop: the body is tensor 'x_tile' (8, 8), not a function"),
    ],
)
def test_loops_as_jax_has_them(kernel: Any, text: str) -> None:
    report = refused(kernel, X)
    assert text in report
    assert "[NKI-RG003]" in report
    assert "fix: " in report


ROUNDS = [
    Case("slices at a scalar", """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    def body(i):
        nisa.dma_copy(out[i * 2 : (i + 1) * 2, :], x[6 - i * 2 : 8 - i * 2])  # wrong

    nl.fori_loop(0, 4, body)
    return out
""", r"\[NKI-RG001\] slice `i \* 2:\(i \+ 1\) \* 2`: its bounds exist only when",
         lambda x: x.reshape(4, 2, 8)[::-1], (X,)),
    Case("a slice at a register", """
@nki.jit
def kernel(x, n):
    count = nisa.register_alloc(nl.load(n))
    out = nl.zeros(x.shape, x.dtype, buffer=nl.shared_hbm)

    def body(i):
        t = nl.load(x[i : i + 1])  # wrong
        nl.store(out[nl.ds(i, 1)], t)

    nl.fori_loop(0, count, body)
    return out
""", r"\[NKI-RG001\] slice `i:i \+ 1`", lambda x, n: np.where(np.arange(8)[:, None] < 3, x, 0), (X, THREE)),
]  # fmt: skip


@pytest.mark.parametrize("case", ROUNDS, ids=[case.name for case in ROUNDS])
def test_slices_that_a_loop_on_the_device_moves(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def _slice_computed_with_a_register(x: Any) -> Any:
    tile = nl.load(x[0:2])

    def body(i: Any) -> None:
        nl.store(x[i * 2 : i * 2 + 2], tile)

    nl.fori_loop(0, nisa.register_alloc(4), body)
    return x


def _slice_of_any_size(x: Any) -> Any:
    def body(i: Any) -> None:
        nl.load(x[0:i])

    nl.fori_loop(0, 4, body)
    return x


def _slice_between_two_counters(x: Any) -> Any:
    def outer(i: Any) -> None:
        nl.fori_loop(0, 4, lambda j: nl.load(x[i : j + 2]))

    nl.fori_loop(0, 4, outer)
    return x


def _tile_of_a_list(x: Any) -> Any:
    tiles = [nl.load(x[k : k + 1]) for k in range(8)]

    def body(i: Any) -> None:
        nl.store(x[nl.ds(i, 1)], tiles[i])

    nl.fori_loop(0, 8, body)
    return x


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (
            _slice_computed_with_a_register,
            "fix: count with nl.fori_loop, its bounds integers or scalars of nisa.scalar_load, and write "
            "`nl.store(x[nl.ds(i * 2, 2)], tile)`",
        ),
        (_slice_of_any_size, "register 'i' used as a number that is needed when the kernel is compiled"),
        (_slice_between_two_counters, "used as a number that is needed when the kernel is compiled"),
        (_tile_of_a_list, "`tiles[i]`: an item of a list is chosen when the kernel is compiled"),
    ],
)
def test_what_a_loop_on_the_device_cannot_choose(kernel: Any, text: str) -> None:
    assert text in refused(kernel, X)


def test_a_number_that_a_function_inside_assigns() -> None:
    def kernel(x: Any) -> Any:
        rounds = 0

        def body(i: Any) -> None:
            rounds += 1  # noqa: F823, F841

        nl.fori_loop(0, 4, body)
        return x

    report = refused(kernel, X)
    assert "`rounds` has no value yet in `body`" in report
    assert "begin `body` with `nonlocal rounds`, or take another name" in report


def test_a_name_of_no_function_around_keeps_pythons_text() -> None:
    def kernel(x: Any) -> Any:
        if x.shape[0] == 9:
            tile = nl.load(x)
        nl.store(x, tile)
        return x

    assert "UnboundLocalError: cannot access local variable 'tile'" in refused(kernel, X)


def _by_f_string(x: Any) -> Any:
    tile = nl.load(x)
    print(f"first {tile[0, 0]:.3f} of {x.shape[0]}")
    return x


def _by_percent(x: Any) -> Any:
    tile = nl.load(x)
    print("%.2f" % tile)  # noqa: UP031
    return x


def _by_format(x: Any) -> Any:
    tile = nl.load(x)
    print("{:.2f}".format(tile))  # noqa: UP032
    return x


@pytest.mark.parametrize(
    ("kernel", "name"), [(_by_f_string, "tile[0, 0]"), (_by_percent, "tile"), (_by_format, "tile")]
)
def test_values_as_text(kernel: Any, name: str) -> None:
    report = refused(kernel, X)
    assert "as text, which has values only when the kernel runs" in report
    assert f"fix: print them then: write `nl.device_print('{name}', {name})`" in report


def test_a_loop_that_a_tile_would_end() -> None:
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        while nl.max(tile, axis=1)[0, 0] > 1:
            nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
        return x

    def repaired(x: Any) -> Any:
        tile = nl.load(x)

        def body(again: Any) -> Any:
            nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
            nisa.register_load(again, nl.greater(nl.max(tile, axis=1)[0, 0], 1, dtype=nl.int32))
            return again

        nl.while_loop(nisa.register_alloc(nl.greater(nl.max(tile, axis=1)[0, 0], 1, dtype=nl.int32)), body)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    report = refused(kernel, X)
    flag = "nl.greater(nl.max(tile, axis=1)[0, 0], 1, dtype=nl.int32)"
    assert f"end it with `nisa.register_load(again, {flag})` and `return again`" in report
    assert f"call `nl.while_loop(nisa.register_alloc({flag}), body)`" in report
    large = np.full((8, 8), 5, np.float32)
    assert np.array_equal(nki.jit(repaired)(large), large / 8)


def _joins(x: Any) -> Any:
    return np.concatenate([nl.load(x), nl.load(x)])


def _sums_up(x: Any) -> Any:
    import torch

    return torch.cumsum(nl.load(x), 1)


def _draws(x: Any) -> Any:
    import torch

    return torch.bernoulli(nl.load(x))


@pytest.mark.parametrize(
    ("kernel", "fix"),
    [
        (_joins, "copy each part into its slice: `nisa.tensor_copy(dst=whole[:, 0:n], src=part)`"),
        (_sums_up, "use `nisa.tensor_tensor_scan`"),
        (_draws, "use functions of nki.language and nki.isa: torch computes on values known at compile time only"),
    ],
)
def test_functions_without_a_counterpart_of_one_name(kernel: Any, fix: str) -> None:
    report = refused(kernel, X)
    assert "[NKI-TN003]" in report
    assert fix in report


def test_a_body_may_have_parameters_with_values() -> None:
    def kernel(x: Any) -> Any:
        tile = nl.load(x)

        def body(i: Any, scale: float = 2.0) -> None:
            nisa.tensor_scalar(tile, tile, nl.multiply, scale)

        nl.fori_loop(0, 2, body)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    assert np.array_equal(nki.jit(kernel)(COLUMN), 4 * COLUMN)
