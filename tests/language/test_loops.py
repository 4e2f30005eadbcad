"""Loops that run on the device: compiled, simulated, from text and from an artifact, against Python's own loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target
from nki.backend.numpy import executor
from nki.base.errors import PsumError
from nki.base.warning import NkiDeprecationWarning
from nki.compilation import pipeline
from nki.compilation.executable import Executable
from nki.ir.loop import For, While, loops
from nki.ir.program import Program
from nki.ir.text import artifact, parser, printer
from nki.ir.types import TensorSpec
from tests.support.kernel_parts import returned

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")


def whole(*values: int) -> Array:
    return np.array([values], np.int32)


def same(kernel: Any, *arguments: Any) -> Any:
    """What the compiled kernel gives, if the simulator, its text and its artifact give the same bits."""
    made = kernel.compile(*arguments)
    got = kernel(*arguments)
    results = got if isinstance(got, tuple) else (got,)
    arrays = [np.ascontiguousarray(a) for a in arguments if isinstance(a, np.ndarray)]
    eager = nki.simulate(kernel)(*arguments)
    again = parser.parse(printer.show(made.kernel))
    assert again == made.kernel == artifact.loads(artifact.dumps(made.kernel))
    for other in (eager if isinstance(eager, tuple) else (eager,), executor.run(again, arrays), native(again, arrays)):
        for one, two in zip(results, other, strict=True):
            assert one.dtype == two.dtype and one.tobytes() == two.tobytes()
    return got


def native(kernel: Program, arrays: list[Array]) -> list[Array]:
    checked = pipeline.compile(None, {}, target.find(kernel.target), start=kernel)
    outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in checked.signature.output_specs()]
    Executable(checked).launch([a.ctypes.data for a in (*arrays, *outputs)])
    return outputs


def loaded(source):
    """A register with the element of an HBM tensor."""
    tile = nl.ndarray((1, 1), nl.int32)
    nisa.dma_copy(tile, source)
    register = nisa.register_alloc()
    nisa.register_load(register, tile)
    return register


# One form at a time


@nki.jit
def counted_by_range(bounds, step):
    """The sum of a range, and how many rounds it took."""
    sums = nl.zeros((1, 2), nl.int32)
    value = nl.ndarray((1, 1), nl.int32)
    for i in nl.dynamic_range(loaded(bounds[:, 0:1]), loaded(bounds[:, 1:2]), step):
        nisa.register_store(value, i)
        nisa.tensor_tensor(sums[:, 0:1], sums[:, 0:1], value, nl.add)
        nisa.tensor_scalar(sums[:, 1:2], sums[:, 1:2], nl.add, 1)
    return returned(sums)


@nki.jit
def counted_by_function(bounds, step):
    sums = nl.zeros((1, 2), nl.int32)
    value = nl.ndarray((1, 1), nl.int32)

    def body(i):
        nisa.register_store(value, i)
        nisa.tensor_tensor(sums[:, 0:1], sums[:, 0:1], value, nl.add)
        nisa.tensor_scalar(sums[:, 1:2], sums[:, 1:2], nl.add, 1)

    nl.fori_loop(loaded(bounds[:, 0:1]), loaded(bounds[:, 1:2]), body, step)
    return returned(sums)


@pytest.mark.parametrize("kernel", [counted_by_range, counted_by_function])
@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 5, 1), (2, 11, 3), (-4, 3, 2), (3, 3, 1), (7, -7, 1), (0, 1, 9), (2**31 - 3, 2**31 - 1, 1)],
)
def test_counted_loops_are_python_ranges(kernel: Any, start: int, stop: int, step: int) -> None:
    values = range(start, stop, step)
    total = (sum(values) + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(same(kernel, whole(start, stop), step), whole(total, len(values)))


@nki.jit
def counted_by_constants(start, stop, step):
    total, value = nl.zeros((1, 1), nl.int32), nl.ndarray((1, 1), nl.int32)

    def body(i):
        nisa.register_store(value, i)
        nisa.tensor_tensor(total, total, value, nl.add)

    nl.fori_loop(start, stop, body, step)
    return returned(total)


def test_constant_bounds_stay_a_loop() -> None:
    made = counted_by_constants.compile(3, 1000, 7).kernel
    (loop,) = loops(made.core.body)
    assert isinstance(loop, For) and (loop.start, loop.stop, loop.step) == (3, 1000, 7)
    assert len(list(made.instructions())) < 8
    assert same(counted_by_constants, 3, 1000, 7).item() == sum(range(3, 1000, 7))


@nki.jit
def halved_by_while(start):
    """How often a number can be halved until it is 0, and the last number."""
    state = nl.zeros((1, 2), nl.int32)
    nisa.dma_copy(state[:, 0:1], start)
    register = nisa.register_alloc(state[:, 0:1])
    while register:
        nisa.tensor_scalar(state[:, 0:1], state[:, 0:1], nl.right_shift, 1)
        nisa.tensor_scalar(state[:, 1:2], state[:, 1:2], nl.add, 1)
        nisa.register_load(register, state[:, 0:1])
    return returned(state)


@nki.jit
def halved_by_function(start):
    state = nl.zeros((1, 2), nl.int32)
    nisa.dma_copy(state[:, 0:1], start)
    first = nisa.register_alloc(state[:, 0:1])

    def body(register):
        nisa.tensor_scalar(state[:, 0:1], state[:, 0:1], nl.right_shift, 1)
        nisa.tensor_scalar(state[:, 1:2], state[:, 1:2], nl.add, 1)
        nisa.register_load(register, state[:, 0:1])
        return register

    nl.while_loop(first, body)
    nisa.register_store(state[:, 0:1], first)
    return returned(state)


@pytest.mark.parametrize("start", [0, 1, 2, 3, 1000, 2**31 - 1])
def test_while_asks_before_each_round(start: int) -> None:
    np.testing.assert_array_equal(same(halved_by_while, whole(start)), whole(0, start.bit_length()))
    # A loop over a function works on a copy of the register: afterwards it holds what it held before.
    np.testing.assert_array_equal(same(halved_by_function, whole(start)), whole(start, start.bit_length()))


def test_loops_stay_loops() -> None:
    assert [type(loop) for loop in loops(halved_by_while.compile(whole(9)).kernel.core.body)] == [While]
    assert [type(loop) for loop in loops(halved_by_function.compile(whole(9)).kernel.core.body)] == [While]


@pytest.mark.filterwarnings("default::nki.base.warning.NkiDeprecationWarning")
def test_older_forms_name_the_newer_ones() -> None:
    for kernel, arguments, named in (
        (counted_by_range, (whole(0, 1), 4), r"nl\.fori_loop"),
        (halved_by_while, (whole(0),), r"nl\.while_loop"),
    ):
        with pytest.warns(NkiDeprecationWarning, match=named) as caught:
            kernel.compile(*arguments)
        assert {w.filename for w in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        halved_by_function.compile(whole(0))


@nki.jit
def bound_changes_inside(start):
    """The end is read once, when the loop begins."""
    count, end = nl.zeros((1, 1), nl.int32), loaded(start)

    def body(i):
        nisa.tensor_scalar(count, count, nl.add, 1)
        nisa.register_move(end, 1)

    nl.fori_loop(0, end, body)
    return returned(count)


def test_bounds_are_read_once() -> None:
    assert same(bound_changes_inside, whole(6)).item() == 6


@nki.jit
def early_end_of_the_body(skip):
    """What Python decides in a body is decided once, for all rounds."""
    count, rounds = nl.zeros((1, 1), nl.int32), 0
    for _ in nl.dynamic_range(5):
        rounds += 1
        nisa.tensor_scalar(count, count, nl.add, 1)
        if skip:
            continue
        for extra in range(10):
            if extra == 2:
                break
            nisa.tensor_scalar(count, count, nl.add, 10)
    assert rounds == 1
    return returned(count)


@pytest.mark.parametrize(("skip", "count"), [(True, 5), (False, 105)])
def test_python_runs_the_body_once(skip: bool, count: int) -> None:
    assert same(early_end_of_the_body, skip).item() == count


@nki.jit
def waits_on_attributes(config):
    """A condition may be an attribute, an entry or a call; one that Python decides is a loop of Python's."""
    count = nl.zeros((1, 1), nl.int32)
    registers = {"go": nisa.register_alloc(1)}

    def going():
        return registers["go"]

    while registers["go"]:
        nisa.tensor_scalar(count, count, nl.add, 1)
        nisa.register_move(registers["go"], 0)
    while going():
        nisa.tensor_scalar(count, count, nl.add, 100)
        nisa.register_move(registers["go"], 0)
    left = [1, 2, 3]
    while left:
        nisa.tensor_scalar(count, count, nl.add, left.pop() * 1000)
        if config == len(left):
            break
    else:
        nisa.tensor_scalar(count, count, nl.add, 50000)
    return returned(count)


@pytest.mark.parametrize(("config", "count"), [(1, 5001), (7, 56001)])
def test_conditions_of_all_kinds(config: int, count: int) -> None:
    assert same(waits_on_attributes, config).item() == count


# What happens in bodies


@nki.jit
def tiles_of_a_body(x, rounds):
    """A tensor made in a body exists once: it keeps from one round to the next what was written."""
    total = nl.zeros(x.shape, nl.float32)

    def body(i):
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        nisa.tensor_tensor(total, total, tile, nl.add)

    nl.fori_loop(0, loaded(rounds), body)
    return returned(total)


def test_tensors_of_a_body() -> None:
    x = np.random.default_rng(1).standard_normal((33, 5)).astype(np.float32)
    want = np.zeros_like(x)
    for rounds in range(4):
        np.testing.assert_array_equal(same(tiles_of_a_body, x, whole(rounds)), want)
        want = want + x


@nki.jit
def products(a, b, rounds):
    """PSUM tiles of a body start anew in each round; one from outside is cleared, then only added to."""
    results = nl.ndarray((2, a.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    outside = nl.zeros((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    last = nl.zeros((a.shape[1], b.shape[1]), nl.float32)

    def body(i):
        inside = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
        for _ in range(2):
            nisa.nc_matmul(inside, left, right)
        nisa.nc_matmul(outside, left, right)
        nisa.tensor_copy(last, inside)

    nl.fori_loop(0, loaded(rounds), body)
    total = nl.ndarray((a.shape[1], b.shape[1]), nl.float32)
    nisa.tensor_copy(total, outside)
    nisa.dma_copy(results[0], last)
    nisa.dma_copy(results[1], total)
    return results


def test_accumulation_in_a_body_is_decided_for_all_rounds() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, (16, n)).astype(np.float32) for n in (8, 12))
    for rounds in (0, 1, 3):
        got = same(products, a, b, whole(rounds))
        np.testing.assert_array_equal(got[0], 2 * (a.T @ b) if rounds else np.zeros((8, 12)))
        np.testing.assert_array_equal(got[1], rounds * (a.T @ b))


@nki.jit
def undecided_in_a_body(a):
    results = nl.ndarray((a.shape[1], a.shape[1]), nl.float32, buffer=nl.shared_hbm)
    tile, copied = nl.load(a), nl.ndarray(results.shape, nl.float32)
    outside = nl.ndarray(results.shape, nl.float32, buffer=nl.psum)
    nl.fori_loop(0, 3, lambda i: nisa.nc_matmul(outside, tile, tile))
    nisa.tensor_copy(copied, outside)
    nisa.dma_copy(results, copied)
    return results


@nki.jit
def undecided_after_a_body(a):
    results = nl.ndarray((a.shape[1], a.shape[1]), nl.float32, buffer=nl.shared_hbm)
    tile, copied = nl.load(a), nl.ndarray(results.shape, nl.float32)
    outside = nl.ndarray(results.shape, nl.float32, buffer=nl.psum)
    nl.fori_loop(0, nisa.register_alloc(1), lambda i: nisa.nc_matmul(outside, tile, tile, accumulate=False))
    nisa.nc_matmul(outside, tile, tile)
    nisa.tensor_copy(copied, outside)
    nisa.dma_copy(results, copied)
    return results


@pytest.mark.parametrize("run", [lambda k: k.compile, nki.simulate], ids=["compiled", "simulated"])
@pytest.mark.parametrize(
    ("kernel", "why"), [(undecided_in_a_body, "made outside"), (undecided_after_a_body, "may not have run")]
)
def test_what_depends_on_the_round_must_be_said(kernel: Any, why: str, run: Callable[[Any], Any]) -> None:
    with pytest.raises(PsumError, match=why) as caught:
        run(kernel)(np.ones((8, 8), np.float32))
    assert "accumulate=True or False" in caught.value.fix


@nki.jit
def unwritten_in_a_body(x, rounds):
    """Memory that no round has written is poison, natively and eagerly alike."""
    results = nl.ndarray((2, *x.shape), nl.float32, buffer=nl.shared_hbm)
    early, late = nl.ndarray(x.shape, nl.float32), nl.ndarray(x.shape, nl.float32)

    def body(i):
        own = nl.ndarray(x.shape, nl.float32)
        nisa.tensor_copy(early, own)
        nisa.dma_copy(own, x)
        nisa.tensor_copy(late, own)

    nl.fori_loop(0, loaded(rounds), body)
    nisa.dma_copy(results[0], early)
    nisa.dma_copy(results[1], late)
    return results


def test_unwritten_memory_is_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")  # with which the simulator would stop at the first of it
    x = np.ones((4, 3), np.float32)
    for rounds, kept in ((0, [False, False]), (1, [False, True]), (2, [True, True])):
        got = same(unwritten_in_a_body, x, whole(rounds))
        assert [bool((part == 1).all()) for part in got] == kept
        assert [bool(np.isnan(part).all()) for part in got] == [not k for k in kept]


def test_the_simulator_shows_the_first_round(capsys: pytest.CaptureFixture[str]) -> None:
    nki.simulate(shown)(whole(3))
    out = capsys.readouterr().out
    assert out.count("[[1]]") == 1 and "VirtualRegister i = 0" in out


@nki.jit
def shown(rounds):
    count = nl.zeros((1, 1), nl.int32)

    def body(i):
        nisa.tensor_scalar(count, count, nl.add, 1)
        print(count, i)

    nl.fori_loop(0, loaded(rounds), body)
    return returned(count)


# Random programs


@nki.jit
def interpreted(numbers, program):
    """Runs ``program``, a list of steps on the elements of one row; a step may be a loop over steps."""
    row = nl.ndarray(numbers.shape, nl.int32)
    nisa.dma_copy(row, numbers)
    steps(row, program)
    return returned(row)


def steps(row, program):
    for step in program:
        kind, at, number, inner = step[0], step[1], step[2], step[3]
        cell = row[:, at : at + 1]
        if kind == "add":
            nisa.tensor_scalar(cell, cell, nl.add, number)
        elif kind == "copy":
            nisa.tensor_copy(cell, row[:, number : number + 1])
        elif kind == "index":
            value = nl.ndarray((1, 1), nl.int32)
            nisa.tensor_scalar(value, row[:, number : number + 1], nl.bitwise_and, 3)
            nisa.tensor_copy(cell, row.ap([[4, 1], [1, 1]], 0, scalar_offset=value, indirect_dim=1))
        elif kind == "for":
            bound = nl.ndarray((1, 1), nl.int32)
            nisa.tensor_scalar(bound, cell, nl.bitwise_and, 3)
            nl.fori_loop(0, nisa.register_alloc(bound), counting(row, number, inner))
        else:
            left = nl.ndarray((1, 1), nl.int32)
            nisa.tensor_scalar(left, cell, nl.bitwise_and, 3)
            nl.while_loop(nisa.register_alloc(left), waiting(row, left, inner))


def counting(row, at, inner):
    def body(i):
        value = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(value, i)
        nisa.tensor_tensor(row[:, at : at + 1], row[:, at : at + 1], value, nl.add)
        steps(row, inner)

    return body


def waiting(row, left, inner):
    def body(register):
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        steps(row, inner)
        nisa.register_load(register, left)
        return register

    return body


def expected(row: list[int], program: Any) -> None:
    for kind, at, number, inner in program:
        if kind == "add":
            row[at] += number
        elif kind == "copy":
            row[at] = row[number]
        elif kind == "index":
            row[at] = row[row[number] & 3]
        else:
            for i in range(row[at] & 3):
                if kind == "for":
                    row[number] += i
                expected(row, inner)


CELL = st.integers(0, 3)
SIMPLE = st.tuples(st.sampled_from(["add", "copy", "index"]), CELL, CELL, st.just(()))
PROGRAMS = st.recursive(
    st.lists(SIMPLE, max_size=3),
    lambda inner: st.lists(
        st.one_of(SIMPLE, st.tuples(st.sampled_from(["for", "while"]), CELL, CELL, inner)), max_size=3
    ),
    max_leaves=8,
)


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), PROGRAMS)
def test_random_programs_do_what_python_does(numbers: list[int], program: Any) -> None:
    row = list(numbers)
    expected(row, program)
    np.testing.assert_array_equal(same(interpreted, whole(*numbers), program), whole(*row))


def test_a_kernel_of_loops_is_text() -> None:
    specs = {"start": TensorSpec("start", (1, 1), nl.int32)}
    shown = printer.show(pipeline.compile(halved_by_while.func, specs, target.GEN3))
    assert "while register {" in shown and shown.count("}\n") == 2
