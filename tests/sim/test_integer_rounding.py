"""Integers beyond 2**24 in the engines' float32: a warning wherever Python's integers give another result, no other."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.warning import NkiWarning

LIMIT = 1 << 24
OPERATORS: dict[str, tuple[Any, Callable[[int, int], int]]] = {
    "add": (nl.add, operator.add),
    "subtract": (nl.subtract, operator.sub),
    "multiply": (nl.multiply, operator.mul),
    "maximum": (nl.maximum, max),
    "minimum": (nl.minimum, min),
    "equal": (nl.equal, operator.eq),
    "less": (nl.less, operator.lt),
    "bitwise_xor": (nl.bitwise_xor, operator.xor),
    "bitwise_and": (nl.bitwise_and, operator.and_),
}


@nki.jit
def combined(a, b, op):
    x, y = nl.load(a), nl.load(b)
    r = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(r, x, y, op, engine=nisa.engine.vector)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, r)
    return out


@nki.jit
def with_number(a, number, op):
    x = nl.load(a)
    nisa.tensor_scalar(x, x, op, number)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, x)
    return out


def simulated(kernel: Any, *args: Any) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The result, which equals native code's to the bit, and the warnings of the simulator."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = nki.simulate(kernel)(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert kernel(*args).tobytes() == result.tobytes()
    assert all(issubclass(w.category, NkiWarning) for w in caught)
    return result, [str(w.message) for w in caught]


def column(*numbers: int, dtype: str = "int32") -> np.ndarray[Any, Any]:
    return np.array(numbers, dtype)[None, :]


def saturated(number: int) -> int:
    return max(-(2**31), min(2**31 - 1, int(number)))


WORDS = st.one_of(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(LIMIT - 3, LIMIT + 3),
    st.integers(-3, 3),
    st.sampled_from((2**31 - 1, -(2**31), 2**30, LIMIT * 3 + 1)),
)


@pytest.mark.parametrize("name", OPERATORS)
@settings(deadline=None, max_examples=60)
@given(numbers=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4))
def test_a_warning_where_pythons_integers_give_another_result(name: str, numbers: list[tuple[int, int]]) -> None:
    op, python = OPERATORS[name]
    a, b = (column(*side) for side in zip(*numbers, strict=True))
    wanted = [saturated(python(x, y)) for x, y in numbers]
    result, found = simulated(combined, a, b, op)
    assert bool(found) == (result[0].tolist() != wanted)
    if found:
        place = next(i for i, (one, other) in enumerate(zip(result[0], wanted, strict=True)) if one != other)
        assert f"gets {result[0, place]} instead of {wanted[place]} at [0, {place}]" in found[0]


def test_the_warning_names_value_tensor_and_line() -> None:
    with pytest.warns(NkiWarning) as caught:
        nki.simulate(combined)(column(5, LIMIT + 1), column(1, 1), nl.add)
    assert len(caught) == 1
    assert caught[0].lineno == combined.func.__code__.co_firstlineno + 4
    assert str(caught[0].message).startswith(
        "tensor_tensor: int32 value 16777217 of 'x' (1, 2) is not exact in float32: the engine computes with "
        "16777216; "
        "'r' (1, 2) int32 gets 16777216 instead of 16777218 at [0, 1]."
    )


def test_a_result_that_float32_does_not_hold() -> None:
    _, found = simulated(combined, column(4097), column(4099), nl.multiply)
    assert found[0].startswith("tensor_tensor: a result is not exact in float32, in which the engine computes; 'r'")


@pytest.mark.parametrize(("number", "op"), [(1, nl.add), (LIMIT + 1, nl.maximum), (2, nl.multiply)])
def test_numbers_and_work_in_place(number: int, op: Any) -> None:
    _, found = simulated(with_number, column(3, LIMIT + 1), number, op)
    assert len(found) == 1


QUIET: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "small": (combined, (column(LIMIT, -5), column(-LIMIT, 6), nl.add)),
    "saturated": (with_number, (column(2**31 - 128), 2**31 - 128, nl.add)),
    "multiples": (with_number, (column(2**30, 3 * LIMIT), 128, nl.subtract)),
    "bits": (with_number, (column(LIMIT + 1, -7), 0x5A5A5A5, nl.bitwise_or)),
    "shift": (with_number, (column(LIMIT + 1, 9), 3, nl.left_shift)),
    "mark of padding": (with_number, (column(2**31 - 1), 2**31 - 1, nl.minimum)),
}


@pytest.mark.parametrize("name", QUIET)
def test_no_false_alarms(name: str) -> None:
    kernel, arguments = QUIET[name]
    assert simulated(kernel, *arguments)[1] == []


@nki.jit
def moved(a):
    """Copies, transfers, a selection, GpSimd's own arithmetic, and a conversion to float32, which rounds anywhere."""
    x = nl.load(a)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(y, x)
    nisa.tensor_tensor(y, y, x, nl.add)
    chosen = nl.ndarray(a.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(chosen, 1)
    nisa.tensor_copy_predicated(y, x, chosen)
    floats = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(floats, x)
    nisa.tensor_scalar(floats, floats, nl.multiply, 0.1)
    nisa.tensor_scalar(floats, x, nl.multiply, 2.0**-31)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, y)
    kept = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(kept, floats)
    return out


def test_what_moves_or_is_exact() -> None:
    a = np.random.default_rng(3).integers(-(2**31), 2**31, (16, 33)).astype(np.int32)
    assert simulated(moved, a)[1] == []


@nki.jit
def converted(a, dtype):
    x = nl.load(a)
    y = nl.ndarray(a.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(y, x)
    out = nl.ndarray(a.shape, dtype=dtype, buffer=nl.shared_hbm)
    nl.store(out, y)
    return out


@pytest.mark.parametrize(("dtype", "count"), [(nl.uint32, 1), (nl.int32, 0), (nl.int16, 0), (nl.float32, 0)])
def test_conversions(dtype: Any, count: int) -> None:
    assert len(simulated(converted, column(LIMIT + 1), dtype)[1]) == count


@nki.jit
def sums(a):
    x = nl.load(a)
    total = nl.ndarray((a.shape[0], 1), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(total, nl.add, x, axis=1)
    out = nl.ndarray(total.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


def test_a_sum_of_exact_numbers() -> None:
    found = simulated(sums, column(LIMIT, 1, 1))[1]
    assert len(found) == 1 and "gets 16777216 instead of 16777218" in found[0]
    assert simulated(sums, column(LIMIT - 2, 1, 1))[1] == []


@nki.jit
def repeated(a):
    x = nl.load(a)
    for _ in range(5):
        nisa.tensor_scalar(x, x, nl.add, 3)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, x)
    return out


def test_once_for_each_line() -> None:
    assert len(simulated(repeated, column(LIMIT + 1))[1]) == 1


@nki.jit
def half_written(a):
    x = nl.ndarray((1, 4), dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray((1, 4), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(x[:, 0:2], a)
    nisa.tensor_scalar(y, x, nl.add, 1)
    out = nl.ndarray((1, 2), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, y[:, 0:2])
    return out


def test_unwritten_lanes_are_no_integers() -> None:
    assert simulated(half_written, column(1, 2))[1] == []


def test_switched_on_by_check_and_off_with_hazards(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = column(LIMIT + 1), column(1)
    with pytest.warns(NkiWarning, match="is not exact in float32"):
        nki.jit(combined.func, check=True)(a, b, nl.add)
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    assert simulated(combined, a, b, nl.add)[1] == []
