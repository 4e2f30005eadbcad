"""Threads, nesting and failures: what one call does never shows in another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError, OutsideKernelError, TensorOperatorError
from nki.frontend.frontend_errors import KernelAssertError, KernelPythonError
from nki.ir.recorder import is_recording
from tests.support.kernel_parts import returned

THREADS = 8


def together(work: Callable[[int], Any]) -> list[Any]:
    """``work(0) … work(7)`` in threads that start at the same moment; their results, or what they raised."""
    barrier = threading.Barrier(THREADS)
    results: list[Any] = [None] * THREADS

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = work(index)
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def fresh(steps: int) -> Any:
    """A kernel without a call so far: exp(x / 64 + 0 + 1 + …)."""

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 1 / 64)
        for i in range(steps):
            nisa.tensor_scalar(tile, tile, nl.add, float(i))
        nisa.activation(tile, nl.exp, tile)
        return returned(tile)

    return kernel


def data(index: int) -> Any:
    return np.random.default_rng(index).standard_normal((100, 37)).astype(np.float32)


def test_the_first_calls_of_one_kernel_at_once():
    kernel = fresh(3)
    for _ in range(2):  # the second time it is compiled
        results = together(lambda i: [kernel(data(i)) for _ in range(4)])
        for i, got in enumerate(results):
            wanted = nki.simulate(kernel)(data(i))
            assert isinstance(got, list), got
            assert all(g.tobytes() == wanted.tobytes() for g in got)


def test_many_kernels_at_once_each_thread_in_its_own_order():
    kernels = [fresh(n) for n in range(THREADS)]
    results = together(lambda i: {n: kernels[n](data(n)) for n in np.roll(range(THREADS), i)})
    for got in results:
        assert isinstance(got, dict), got
        for n, array in got.items():
            assert array.tobytes() == nki.simulate(kernels[n])(data(n)).tobytes()


def test_the_simulator_in_threads(capsys):
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        assert f"{x.shape[1]}.5" in repr(tile[0:1, 0:1])
        return returned(tile)

    inputs = [np.full((2, 3 + i), 3.5 + i, np.float32) for i in range(THREADS)]
    results = together(lambda i: [nki.simulate(kernel)(inputs[i]) for _ in range(20)])
    for i, got in enumerate(results):
        assert isinstance(got, list), got
        assert all(np.array_equal(g, inputs[i]) for g in got)


def test_errors_in_threads_belong_to_their_thread():
    good, results = fresh(1), None

    @nki.jit
    def bad(x):
        return nl.load(x) + 1

    results = together(lambda i: (bad if i % 2 else good)(data(i)))
    assert [isinstance(r, TensorOperatorError) for r in results] == [bool(i % 2) for i in range(THREADS)]
    assert not is_recording()


class Stop(BaseException):
    pass


@pytest.mark.parametrize("simulator", ["0", "1"])
@pytest.mark.parametrize("failure", [ValueError("no"), KeyError("k"), NkiError("ours"), Stop()], ids=type)
def test_a_failure_leaves_nothing_behind(failure, simulator, monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", simulator)

    def fail(tile):
        list(map(throw, [tile]))

    class Thrower:
        def __init__(self, tile):
            raise failure

    throw = Thrower

    @nki.jit
    def bad(x):
        tile = nl.load(x)
        fail(tile)
        return tile

    expected = type(failure) if isinstance(failure, Stop | NkiError) else KernelPythonError
    with pytest.raises(expected):
        bad(data(0))
    assert not is_recording()
    with pytest.raises(OutsideKernelError):
        nl.ndarray((4, 4), nl.float32)
    assert fresh(2)(data(1)).shape == (100, 37)


def test_a_kernel_that_failed_works_for_other_arguments():
    @nki.jit
    def narrow(x):
        assert x.shape[1] < 10
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    for _ in range(2):
        with pytest.raises(KernelAssertError):
            narrow(data(0))
        assert np.array_equal(narrow(data(0)[:, :5]), data(0)[:, :5])


def test_recursion_that_ends():
    @nki.jit
    def halves(tile, depth):
        """Adds ``depth`` in total, by calling itself on both halves of the columns."""
        if depth > 0:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            middle = tile.shape[1] // 2
            halves(tile[:, :middle], depth - 1)
            halves(tile[:, middle:], depth - 1)

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        halves(tile, 3)
        return returned(tile)

    x = data(3)
    assert np.array_equal(kernel(x), x + 1 + 1 + 1)
    assert np.array_equal(nki.simulate(kernel)(x), x + 1 + 1 + 1)


def test_a_kernel_called_while_another_is_compiled_on_arrays_of_its_own():
    """Compile-time code may run another thread's kernel; inside this one's, arrays are no tensors."""
    inner = fresh(1)
    found = []

    def elsewhere():
        thread = threading.Thread(target=lambda: found.append(inner(data(0))))
        thread.start()
        thread.join()

    class Elsewhere:
        def __init__(self):
            elsewhere()

    @nki.jit
    def outer(x):
        Elsewhere()
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    assert np.array_equal(outer(data(1)), data(1))
    assert found[0].tobytes() == nki.simulate(inner)(data(0)).tobytes()


SCALE = 2.0
TABLE = {"scales": [1.0, 1.0]}
ARRAY = np.ones(2, np.float32)


class Settings:
    scale = 1.0


def multiply(tile, by):
    nisa.tensor_scalar(tile, tile, nl.multiply, by * Settings.scale)


def times(tile):
    multiply(tile, SCALE)
    for scale in TABLE["scales"]:
        multiply(tile, scale)
    multiply(tile, float(ARRAY[1]))


@nki.jit
def depends_on_globals(x):
    tile = nl.load(x)
    times(tile)
    return returned(tile)


def test_values_from_outside_are_those_of_the_call(monkeypatch):
    x = data(0)
    depends_on_globals(x)
    compiled = depends_on_globals._executables
    assert len(compiled) == 1
    before = next(iter(compiled.values()))
    assert np.array_equal(depends_on_globals(x), x * 2)
    assert next(iter(compiled.values())) is before, "compiled anew without a reason"
    for change in (
        lambda: monkeypatch.setitem(globals(), "SCALE", 3.0),
        lambda: monkeypatch.setitem(TABLE, "scales", [*TABLE["scales"], 5.0]),
        lambda: TABLE["scales"].append(0.5),
        lambda: monkeypatch.setattr(Settings, "scale", 0.5),
        lambda: ARRAY.fill(7.0),
        lambda: monkeypatch.setitem(globals(), "multiply", lambda tile, by: None),
        lambda: ARRAY.fill(1.0),
        monkeypatch.undo,
    ):
        change()
        assert depends_on_globals(x).tobytes() == nki.simulate(depends_on_globals)(x).tobytes()
    assert np.array_equal(depends_on_globals(x), x * 2)


def test_closure_variables_are_those_of_the_call():
    amount = 1.0

    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.add, amount)
        return returned(tile)

    x = data(0)
    for amount in (1.0, 2.0, 2, 0.5, 1.0):
        assert np.array_equal(kernel(x), x + np.float32(amount))


class Pair(NamedTuple):
    low: float
    high: float


class Riap(NamedTuple):
    high: float
    low: float


@pytest.mark.parametrize(
    "constants",
    [
        (Pair(1.0, 2.0), Riap(1.0, 2.0), Pair(1.0, 2.0)),
        (Pair(1, 2), Pair(1.0, 2.0), Pair(True, 2)),
        (Pair(0.0, 2.0), Pair(-0.0, 2.0)),
        (Pair(float("nan"), 2.0), Pair(float("nan"), 2.0)),
    ],
    ids=["names", "types", "zeros", "nan"],
)
def test_constants_that_are_equal_and_mean_something_else(constants):
    @nki.jit
    def kernel(x, pair):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, float(pair.low))
        nisa.reciprocal(tile, tile)
        nisa.tensor_scalar(tile, tile, nl.add, float(pair.high))
        return returned(tile)

    for pair in constants:
        with np.errstate(all="ignore"):
            wanted = 1 / (data(0) * np.float32(pair.low)) + np.float32(pair.high)
        assert np.array_equal(kernel(data(0), pair), wanted, equal_nan=True)
