"""Signals while a kernel runs: it stops, no core runs on, and the exception names the loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.sim.hazards.messages import ExecutionLog
from tests.support.kernel_parts import returned
from tests.support.signals import Interrupt, interrupted

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
X = np.ones((4, 4), np.float32)
ZERO, ONE = np.array([[0]], np.int32), np.array([[1]], np.int32)


@nki.jit
def endless(a, n):
    t = nl.load(a)
    register = nisa.register_alloc(nl.load(n))
    while register:
        nisa.tensor_scalar(t, t, nl.multiply, 0.5)
    return returned(t)


@nki.jit
def endless_on_the_second_core(a, n):
    t = nl.load(a)
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    if nl.program_id(0) == 1:
        register = nisa.register_alloc(nl.load(n))
        while register:
            nisa.tensor_scalar(t, t, nl.multiply, 0.5)
        nl.store(out[0:2], t[0:2])
    else:
        nl.store(out[2:4], t[2:4])
    nisa.core_barrier(out, (0, 1))
    return out


@nki.jit
def endless_without_barrier(a, n):
    out = nl.ndarray((4, 40000), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(a)
    if nl.program_id(0) == 0:
        nisa.dma_copy(out[:, 0:4], t)
    else:
        register = nisa.register_alloc(nl.load(n))
        while register:
            nisa.dma_copy(out[:, 4:40000:4], nl.broadcast_to(t[:, 0:1], (4, 9999)))
        nisa.dma_copy(out[:, 4:8], t)
    return out


@nki.jit
def printing(a, n):
    t = nl.load(a)
    count = nisa.register_alloc(nl.load(n))

    def body(i):
        nl.device_print("x", t)

    nl.fori_loop(0, count, body)
    return returned(t)


def notes_of(call: Callable[[], Any], seconds: float = 0.2) -> str:
    """The notes of the exception that a signal causes in ``call``."""
    return "\n".join(getattr(interrupted(call, seconds), "__notes__", ()))


@pytest.mark.parametrize("run", [endless, nki.simulate(endless)], ids=["native", "simulate"])
def test_an_endless_loop_stops_and_is_named(run: Any) -> None:
    run(X, ZERO)
    notes = notes_of(lambda: run(X, ONE))
    assert "this interrupted the while loop" in notes and "while register:" in notes
    np.testing.assert_array_equal(run(X, ZERO), X)


@pytest.mark.parametrize(
    "run",
    [endless_on_the_second_core[2], nki.simulate(endless_on_the_second_core[2])],
    ids=["native", "simulate"],
)
def test_all_cores_stop(run: Any) -> None:
    run(X, ZERO)
    notes_of(lambda: run(X, ONE))
    np.testing.assert_array_equal(run(X, ZERO), X)


@pytest.mark.filterwarnings("ignore:.*written in part")  # the second core writes the columns at run time
def test_no_core_writes_after_the_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = endless_without_barrier[2]
    executable = kernel.compile(X, ONE)
    out = np.zeros((4, 40000), np.float32)
    notes = notes_of(lambda: executable.launch([a.ctypes.data for a in (X, ONE, out)]))
    assert "while register:" in notes
    out[...] = 0
    time.sleep(0.05)
    assert not out.any()


def test_an_interrupt_while_printing_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    printing(X, ONE)
    assert "this interrupted the for loop" in notes_of(lambda: printing(X, np.array([[1 << 30]], np.int32)), 0.3)
    assert "Exception ignored" not in capsys.readouterr().err


def test_an_exception_of_printing_ends_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    printing(X, ZERO)
    monkeypatch.setattr("nki.base.tensor_text.device_print", fail)
    with pytest.raises(OSError, match="the disk is full"):
        printing(X, ONE)


def test_a_handler_may_call_kernels_itself() -> None:
    def handler(*_: object) -> None:
        np.testing.assert_array_equal(endless(X, ZERO), X)
        raise Interrupt

    endless(X, ZERO)
    interrupted(lambda: endless(X, ONE), 0.1, handler)


def test_torch_calls_stop() -> None:
    import torch

    endless(torch.tensor(X), torch.tensor(ZERO))
    assert "while register:" in notes_of(lambda: endless(torch.tensor(X), torch.tensor(ONE)))


def test_a_long_loop_takes_no_memory_in_the_log() -> None:
    log = ExecutionLog()
    loop = endless.compile(X, ONE).kernel.core.body
    body = [statement for statement in loop if isinstance(statement, nki.ir.instruction.Inst)]
    times = [log.add(inst) for _ in range(5000) for inst in body]
    assert times == list(range(times[0], times[0] + len(times)))
    assert log.mnemonic(times[-1]) == body[-1].mnemonic and log.where(times[0]) is body[0].where
    assert len({id(part) for part in log._full}) <= len(body) < len(log._full) + 1
