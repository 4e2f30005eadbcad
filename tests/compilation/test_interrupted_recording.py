"""Handlers of signals, and finalizers, that call a kernel while this thread records one: the call is of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc import nki as beta1
from neuronxcc.nki import language as beta1_nl
from tests.support.kernel_parts import returned

X = np.arange(12, dtype=np.float32).reshape(4, 3)


class Interrupting:
    """An object of the user's; reading ``width`` while a kernel is recorded does what happens at any other instant."""

    def __init__(self, happen: Callable[[], object]) -> None:
        self.happen = happen

    @property
    def width(self) -> int:
        self.happen()
        return 3


class Finalized:
    """An object that calls ``last`` when it goes."""

    def __init__(self, last: Callable[[], object]) -> None:
        self.last = last

    def __del__(self) -> None:
        self.last()


@nki.jit
def negative(x: Any) -> Any:
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, -1.0)
    return returned(t)


@nki.jit
def three() -> Any:
    t = nl.ndarray((2, 2), nl.float32, buffer=nl.sbuf)
    nisa.memset(t, 3.0)
    return returned(t)


@beta1.jit
def doubled(x: Any) -> Any:
    out = beta1_nl.ndarray(x.shape, dtype=x.dtype, buffer=beta1_nl.shared_hbm)
    beta1_nl.store(out, beta1_nl.load(x) * 2.0)
    return out


def interrupted(happen: Callable[[], object]) -> Callable[[Any], Any]:
    """A kernel that is interrupted while it is recorded."""
    thing = Interrupting(happen)

    @nki.jit
    def plus_one(x: Any) -> Any:
        t = nl.load(x)
        out = nl.ndarray((x.shape[0], thing.width), x.dtype, buffer=nl.shared_hbm)
        nisa.tensor_scalar(t, t, nl.add, 1.0)
        nl.store(out, t)
        return out

    return plus_one


CALLS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a kernel": (lambda: negative(X), -X),
    "a kernel on two cores": (lambda: negative[2](X), -X),
    "a kernel without arguments": (lambda: three(), np.full((2, 2), 3, np.float32)),
    "in the simulator": (lambda: nki.simulate(negative)(X), -X),
    "a kernel of mode simulation": (lambda: nki.jit(negative.func, mode="simulation")(X), -X),
    "a kernel of Beta 1": (lambda: doubled(X), 2 * X),
}


@pytest.fixture
def handled() -> Iterator[Callable[[Callable[[], object]], Callable[[], None]]]:
    """Makes of a function one that raises a signal, which the function handles."""
    before = signal.getsignal(signal.SIGTERM)

    def make(handler: Callable[[], object]) -> Callable[[], None]:
        signal.signal(signal.SIGTERM, lambda *_: handler())
        return lambda: signal.raise_signal(signal.SIGTERM)

    yield make
    signal.signal(signal.SIGTERM, before)


@pytest.mark.filterwarnings("ignore")  # of Beta 1, and of the mode
@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_a_handler_is_no_part_of_what_is_recorded(
    name: str, handled: Callable[[Callable[[], object]], Callable[[], None]]
) -> None:
    call, expected = CALLS[name]
    results: list[Any] = []
    kernel = interrupted(handled(lambda: results.append(call())))
    np.testing.assert_array_equal(kernel(X), X + 1)
    assert results
    for result in results:
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(kernel(X), X + 1)


def test_a_call_of_a_finalizer_is_no_part_of_what_is_recorded() -> None:
    results: list[Any] = []
    things = [Finalized(lambda: results.append(negative(X))) for _ in range(8)]
    kernel = interrupted(things.clear)
    np.testing.assert_array_equal(kernel(X), X + 1)
    assert len(results) == 8
    np.testing.assert_array_equal(results[0], -X)


def test_a_handler_may_call_the_kernel_that_is_recorded(
    handled: Callable[[Callable[[], object]], Callable[[], None]],
) -> None:
    results: list[Any] = []

    def call() -> None:
        if not begun:  # its own recording is interrupted as well
            begun.append(True)
            results.append(kernel(X))

    begun: list[bool] = []
    kernel = interrupted(handled(call))
    np.testing.assert_array_equal(kernel(X), X + 1)
    np.testing.assert_array_equal(results, [X + 1])


def test_an_error_of_the_call_is_the_handlers(
    handled: Callable[[Callable[[], object]], Callable[[], None]],
) -> None:
    caught: list[nki.NkiError] = []

    def fail() -> None:
        try:
            negative(X.astype(np.complex64))
        except nki.NkiError as error:
            caught.append(error)

    np.testing.assert_array_equal(interrupted(handled(fail))(X), X + 1)
    assert caught
    assert caught[0].code.startswith("NKI-DT")


def test_kernels_in_methods_and_callbacks_that_stay_as_they_are_are_inlined() -> None:
    class Holder:
        def __init__(self, tile: Any) -> None:
            self.tile = tile

        @property
        def negated(self) -> Any:
            return part(self.tile)

    @nki.jit
    def part(t: Any) -> Any:
        nisa.tensor_scalar(t, t, nl.multiply, -1.0)
        return t

    @nki.jit
    def kernel(x: Any) -> Any:
        holder = Holder(nl.load(x))
        return returned(next(map(part, [holder.negated])))

    np.testing.assert_array_equal(kernel(X), X)
