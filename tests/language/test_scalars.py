"""Scalars: arithmetic, indices, bounds and stores on the device, in both executors; what Python cannot do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.ir.text import parser, printer
from tests.support.both_executors import both, numbers, refused
from tests.support.kernel_parts import returned

WIDTHS = [np.int32, np.int64]


def whole(value: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return np.array([[value]], dtype)


def loaded(x):
    tile = nl.ndarray((1, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return nisa.scalar_load(tile)


def stored(scalar):
    out = nl.ndarray((1, 1), dtype=scalar.dtype, buffer=nl.shared_hbm)
    nisa.scalar_store(out, scalar)
    return out


@nki.jit
def steps(x, y, program):
    """``program``: (operator, which side the scalar is on, a number or None for ``y``), applied one after the other."""
    value, other = loaded(x), loaded(y)
    for sign, left, number in program:
        operand = other if number is None else number
        one, two = (value, operand) if left else (operand, value)
        if sign == "+":
            value = one + two
        elif sign == "-":
            value = one - two
        else:
            value = one * two
    return stored(-value)


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def expected(x: int, y: int, program: Any, bits: int) -> int:
    for sign, left, number in program:
        operand = y if number is None else number
        one, two = (x, operand) if left else (operand, x)
        x = wrapped({"+": one + two, "-": one - two, "*": one * two}[sign], bits)
    return wrapped(-x, bits)


def numbers_of(bits: int) -> st.SearchStrategy[int]:
    limit = 1 << (bits - 1)
    return st.integers(-limit, limit - 1) | st.sampled_from([-limit, limit - 1, -1, 0, 1, 1 << 31, 100000]).filter(
        lambda n: n < limit
    )


@pytest.mark.parametrize("dtype", WIDTHS)
@settings(max_examples=25)
@given(st.data())
def test_arithmetic_wraps_at_the_width(dtype: Any, data: st.DataObject) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    whole_numbers = numbers_of(bits)
    step = st.tuples(st.sampled_from("+-*"), st.booleans(), st.none() | whole_numbers)
    program = tuple(data.draw(st.lists(step, max_size=4)))
    x, y = data.draw(whole_numbers), data.draw(whole_numbers)
    result = both(steps, whole(x, dtype), whole(y, dtype), program)
    assert result.dtype == dtype and result.item() == expected(x, y, program, bits)


@pytest.mark.parametrize(("x", "y", "program", "result"), [
    (100000, 100000, (("*", True, None),), -1410065408),
    (2**31 - 1, 0, (("+", True, 1),), -(2**31)),
])  # fmt: skip
def test_the_examples_of_the_reference(x: int, y: int, program: Any, result: int) -> None:
    assert both(steps, whole(x), whole(y), program).item() == result


@nki.jit
def in_place(x):
    value = loaded(x)
    value += 3
    value -= 1
    value *= value
    return stored(value)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_assignments_make_new_scalars(dtype: Any) -> None:
    assert both(in_place, whole(5, dtype)).item() == 49


@nki.jit
def triangle(x, limit):
    """Row ``n - 1 - i`` of ``x``, for every i below ``n``, where n is ``2 * limit - 1``; HBM and tiles are indexed."""
    count = loaded(limit) * 2 - 1
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out[...] = x
    line = nl.ndarray((1, x.shape[1] * x.shape[0]), x.dtype)
    line[...] = x.reshape((1, x.shape[0] * x.shape[1]))

    def body(i):
        back = count - 1 - i
        column = line[:, nl.ds(back * x.shape[1], x.shape[1])]
        nisa.tensor_scalar(column, column, nl.add, 1.0)
        nisa.dma_copy(out.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=i), column)

    nl.fori_loop(0, count, body)
    return out


def test_scalars_are_bounds_and_offsets() -> None:
    x = numbers(8, 6)
    wanted = x.copy()
    wanted[:5] = x[4::-1] + 1
    assert (both(triangle, x, whole(3)) == wanted).all()


@nki.jit
def row_of(x, at):
    row = nl.ndarray((1, x.shape[1]), x.dtype)
    nisa.dma_copy(row, x[nl.ds(loaded(at) + 1, 1)])
    return returned(row)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_an_index_outside_is_an_error(dtype: Any) -> None:
    x = numbers(8, 6)
    assert (both(row_of, x, whole(6, dtype)) == x[7]).all()
    bits = 8 * np.dtype(dtype).itemsize
    for at, shown in ((7, "8"), (-2, str((1 << bits) - 1) if bits == 32 else "-1")):
        report = refused(row_of, x, whole(at, dtype))
        assert report.startswith("[NKI-RG005]") and shown in report


@nki.jit
def nested(x):
    """Rounds of rounds, each adding its number to its place."""
    out = nl.ndarray((4, 4), dtype=nl.int32, buffer=nl.shared_hbm)

    def outer(i):
        def inner(j):
            nisa.scalar_store(out.reshape((16, 1))[i * 4 + j], i * 10 + j)

        nl.fori_loop(0, 4, inner)

    nl.fori_loop(0, 4, outer)
    return out


def test_loops_hand_out_scalars() -> None:
    x = whole(0)
    assert both(nested, x).tolist() == [[i * 10 + j for j in range(4)] for i in range(4)]
    program = nested.compile(x).kernel
    assert parser.parse(printer.show(program)) == program


@nki.jit
def kinds(x, seen):
    def body(i):
        assert isinstance(i, nisa.NkiScalar) == seen
        nisa.memset(out_tile, 1)

    out_tile = nl.zeros((1, 1), nl.int32)
    bound = loaded(x) if seen else nisa.register_alloc(nl.load(x))
    nl.fori_loop(0, bound, body)
    nl.fori_loop(bound, 3, body)
    return nl.store(nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm), out_tile)


@pytest.mark.parametrize("seen", [True, False])
def test_a_register_as_a_bound_makes_the_counter_a_register(seen: bool) -> None:
    def kernel(x, seen):
        kinds.func(x, seen)
        return stored(loaded(x))

    assert both(kernel, whole(2), seen).item() == 2


@nki.jit
def moved(x):
    """64-bit numbers through HBM, SBUF and a scalar."""
    out = nl.ndarray(x.shape, dtype=nl.int64, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.int64)
    nisa.memset(tile, -(2**40))
    tile[0:1, 0:2] = x[0:1, 0:2]
    out[...] = tile
    return out


def test_tensors_of_64_bits_are_moved_bit_for_bit() -> None:
    x = np.array([[2**62 + 1, -(2**63), 5]], np.int64)
    assert both(moved, x).tolist() == [[2**62 + 1, -(2**63), -(2**40)]]


def narrow():
    return nisa.scalar_load(nl.zeros((1, 1), nl.int32))


def used_in_an_if(x):
    if narrow() < 3:
        print(x)


def equal_in_an_if(x):
    if narrow() == narrow():
        print(x)


def used_as_truth(x):
    if narrow():
        print(x)


def used_in_a_while(x):
    while narrow():
        print(x)


def counted(x):
    for _ in range(narrow()):
        pass


MISTAKES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "unsigned": (lambda x: nisa.scalar_load(nl.zeros((1, 1), nl.uint32)), "NKI-DT002", ".view(nl.int32)"),
    "two elements": (lambda x: nisa.scalar_load(nl.zeros((1, 2), nl.int32)), "NKI-SH001", "a scalar is one element"),
    "no tensor": (lambda x: nisa.scalar_load(3), "NKI-AR001", "src is 3 (int), not a tensor"),
    "from PSUM": (lambda x: nisa.scalar_load(nl.ndarray((1, 1), nl.int32, buffer=nl.psum)), "NKI-BU001", "in psum"),
    "number stored": (
        lambda x: nisa.scalar_store(nl.zeros((1, 1), nl.int32), 3), "NKI-AR001", "value must be a tensor, not 3 (int)",
    ),
    "register stored": (
        lambda x: nisa.scalar_store(nl.zeros((1, 1), nl.int32), nisa.register_alloc(3)),
        "NKI-AR001", "and not a scalar",
    ),
    "stored narrower": (
        lambda x: nisa.scalar_store(nl.zeros((1, 1), nl.int32), loaded(x)), "NKI-DT002", "a scalar keeps its dtype",
    ),
    "two widths": (lambda x: loaded(x) + narrow(), "NKI-RG001", "of int64 and"),
    "with a register": (lambda x: loaded(x) * nisa.register_alloc(3), "NKI-RG001", "(VirtualRegister)"),
    "with a float": (lambda x: loaded(x) * 1.5, "NKI-RG001", "1.5 (float)"),
    "with a bool": (lambda x: loaded(x) + True, "NKI-RG001", "True (bool)"),
    "with a tile": (lambda x: loaded(x) + nl.zeros((1, 1), nl.int32), "NKI-RG001", "(NkiTensor)"),
    "too large": (lambda x: loaded(x) + 2**63, "NKI-RG001", "use a number from -2**63 to 2**63 - 1"),
    "divided": (lambda x: loaded(x) // 2, "NKI-RG001", "scalars have +, - and *"),
    "shifted": (lambda x: 1 << loaded(x), "NKI-RG001", "scalars have +, - and *"),
    "if": (used_in_an_if, "NKI-RG001", "< 3` compares scalars and is used as a condition"),
    "if equal": (equal_in_an_if, "NKI-RG001", "compares scalars and is used as a condition"),
    "compared": (lambda x: loaded(x) < 3, "NKI-RG001", "compares scalars of int64, which have no comparison"),
    "truth": (used_as_truth, "NKI-RG001", "used as a condition"),
    "while": (used_in_a_while, "NKI-TN003", "used as the condition of a loop"),
    "range": (counted, "NKI-RG001", "used as a number that is needed when the kernel is compiled"),
    "bound of 64 bits": (
        lambda x: nl.fori_loop(0, loaded(x), lambda i: None), "NKI-RG003", "a bound has 32 bits",
    ),
    "offset of 64 bits on chip": (
        lambda x: nl.zeros((4, 8), nl.float32)[:, loaded(x)], "NKI-RG004", "only scalars in HBM have 64 bits",
    ),
    "operand": (
        lambda x: (lambda tile: nisa.tensor_scalar(tile, tile, nl.add, narrow()))(nl.zeros((1, 1), nl.float32)),
        "NKI-BU001", "nisa.scalar_store",
    ),
    "overwritten": (lambda x: nisa.register_move(narrow() + 1, 3), "NKI-RG002", "which never changes"),
    "computed on 64 bits": (
        lambda x: (lambda tile: nisa.tensor_tensor(tile, tile, tile, nl.add))(nl.ndarray((1, 1), nl.int64)),
        "NKI-DT002", "is int64, which no compute instruction takes",
    ),
    "copied to 32 bits": (
        lambda x: nisa.tensor_copy(nl.ndarray((1, 1), nl.int32), nl.zeros((1, 1), nl.int64)), "NKI-DT002", "int64",
    ),
    "read as 32 bits": (
        lambda x: nisa.dma_copy(nl.ndarray((1, 1), nl.int32), x), "NKI-DT002", "cannot convert int64 to int32",
    ),
    "filled beyond": (
        lambda x: nisa.memset(nl.ndarray((1, 1), nl.int64), 2**53 + 1), "NKI-AR001", "cannot be stored",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "code", "text"), MISTAKES.values(), ids=MISTAKES)
def test_what_is_refused(mistake: Callable[[Any], Any], code: str, text: str) -> None:
    @nki.jit
    def kernel(x, mistake):
        mistake(x)
        return stored(loaded(x))

    report = refused(kernel, whole(3, np.int64), mistake)
    assert text in report, report
    assert report.startswith(f"[{code}"), report


# Tiles of 64 bits: the reference of scalar_load says that compute instructions do not take them


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize(
    "copy",
    [
        lambda other, tile: nisa.tensor_copy(other, tile),
        lambda other, tile: other.__setitem__(..., tile),
        lambda other, tile: nl.copy(tile),
    ],
    ids=["tensor_copy", "assignment", "copy"],
)
def test_no_engine_copies_tiles_of_64_bits(copy: Callable[..., Any], dtype: Any) -> None:
    def kernel(x):
        tile = nl.load(x)
        copy(nl.ndarray(tile.shape, tile.dtype), tile)
        return x

    report = refused(kernel, np.ones((2, 2), dtype))
    assert "64, which no compute instruction takes" in report
    assert "nisa.dma_copy" in report and "t.view(nl.int32)" in report


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize(
    "copy",
    [
        lambda other, tile: nisa.dma_copy(other, tile),
        lambda other, tile: nisa.tensor_copy(other.view(nl.int32), tile.view(nl.int32)),
    ],
    ids=["dma", "words"],
)
def test_both_ways_out_move_every_bit(copy: Callable[..., Any], dtype: Any) -> None:
    def kernel(x):
        tile = nl.load(x)
        other = nl.ndarray(tile.shape, tile.dtype)
        copy(other, tile)
        return returned(other)

    x = np.array([[2**63 - 1, 2**40 + 3], [5, 2**53 + 1]], dtype)
    np.testing.assert_array_equal(both(kernel, x), x)
