"""Interruption of running native code: signals, exceptions of callbacks, and their way to the other workers.

Native code runs without the interpreter lock, so Python cannot handle a signal meanwhile. Loops and long tables
therefore poll: every few iterations they look at the clock, and twenty times a second they let Python handle signals.
What a handler raises, or a callback, is kept in the control words of the launch. Each worker stops at its next poll;
when all of them have, the function that has entered native code raises it.

The control words of a launch: the gate (:mod:`nki.backend.cpu.runtime.enter`), 1 once the launch is cancelled, the
number of workers that have ended, 1 once an exception is kept, and that exception: type, value, traceback.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime.frame import ANYWHERE, CONTROL, STATUS
from nki.backend.cpu.runtime.interpreter import (
    call_api,
    call_compiled,
    call_libc,
    call_object,
    is_null,
    with_lock,
    without_lock,
)
from nki.numerics.jit import engine

I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()

GATE, CANCELLED, ENDED, KEPT, EXCEPTION = range(5)
"""Control words."""
INTERRUPTED: Final = -2
"""Second word of the status of a worker that has stopped because its launch is cancelled."""

_COUNTDOWN, _BUDGET, _LOOKED, _ASKED = 4, 5, 6, 7
"""Words of the status: a countdown to the next look at the clock, polls between two, the time of the last look, and of
the last time that Python handled signals."""
PATIENCE: Final = 32
"""Polls of a launch before the first look at the clock: the count begins at 0, and a look is due at minus this."""
_MOST_POLLS: Final = 64
_SOON, _LATE = 100_000, 5_000_000
"""Nanoseconds between two looks at the clock that are too few, too many."""
_ASK_EVERY: Final = 50_000_000
"""Nanoseconds after which Python handles signals."""
_CLOCK_MONOTONIC: Final = 1

POLL: Final = ir.FunctionType(VOID, [POINTER, I64])
"""``void poll(i8** frame, i64 loop)``: stores ``-loop`` in the status if the launch is to stop."""


def word(b: Any, base: Any, number: int) -> Any:
    """The place of word ``number`` from ``base``."""
    return b.gep(base, [ir.Constant(I64, 8 * number)], source_etype=I8)


def slot(b: Any, frame: Any, number: int) -> Any:
    """The pointer in slot ``number`` of ``frame``."""
    return b.load(word(b, frame, number), typ=POINTER)


def cancelled(b: Any, frame: Any) -> Any:
    """The place of the word that is 1 once the launch is cancelled."""
    return word(b, slot(b, frame, CONTROL), CANCELLED)


def countdown(b: Any, frame: Any) -> Any:
    """The place of a number that polls count down; below -:data:`PATIENCE`, :data:`POLL` is to be called."""
    return word(b, slot(b, frame, STATUS), _COUNTDOWN)


def poll(b: Any, frame: Any, left: Any, loop: Any) -> None:
    """Count ``left``, the place of the countdown or a copy of it, down by one, and poll if that is due."""
    after = b.sub(b.load(left, typ=I64), _i64(1))
    b.store(after, left)
    with b.if_then(b.icmp_signed("<", after, _i64(-PATIENCE)), likely=False):
        poll_now(b, frame, loop)
        b.store(b.load(countdown(b, frame), typ=I64), left)


def poll_now(b: Any, frame: Any, loop: Any) -> None:
    """Look at the clock, and poll if it is time."""
    call_compiled(b, address(), POLL, [frame, loop])


def stop(b: Any, frame: Any, loop: Any) -> None:
    """Let this worker stop, unless it has failed already."""
    status = slot(b, frame, STATUS)
    with b.if_then(b.icmp_signed("==", b.load(status, typ=I64), _i64(0))):
        b.store(b.neg(loop), status)
        b.store(_i64(INTERRUPTED), word(b, status, 1))


def keep_exception(b: Any, control: Any) -> None:
    """Cancel the launch and keep the exception that has just been raised, unless there is one; with the lock held."""
    first = b.atomic_rmw("xchg", word(b, control, KEPT), _i64(1), "seq_cst")
    with b.if_else(b.icmp_signed("==", first, _i64(0))) as (then, otherwise):
        with then:
            parts = [word(b, control, EXCEPTION + number) for number in range(3)]
            call_api(b, "PyErr_Fetch", VOID, parts)
        with otherwise:
            call_api(b, "PyErr_Clear", VOID, [])
    b.atomic_rmw("xchg", word(b, control, CANCELLED), _i64(1), "seq_cst")


def raise_kept(b: Any, control: Any) -> None:
    """Set the exception that the launch keeps, if any, in this thread; with the lock held, all workers having ended."""
    with b.if_then(b.icmp_signed("!=", b.load(word(b, control, KEPT), typ=I64), _i64(0)), likely=False):
        parts = [b.load(word(b, control, EXCEPTION + number), typ=POINTER) for number in range(3)]
        call_api(b, "PyErr_Restore", VOID, parts)


@cache
def address() -> int:
    """The function :data:`POLL`."""
    return engine().fixed("nki_poll", _module)["nki_poll"]


def _module() -> ir.Module:
    module = ir.Module("nki_poll")
    function = ir.Function(module, POLL, "nki_poll")
    frame, loop = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    status, control = slot(b, frame, STATUS), slot(b, frame, CONTROL)
    with b.if_then(b.icmp_signed("!=", b.load(word(b, control, CANCELLED), typ=I64), _i64(0)), likely=False):
        stop(b, frame, loop)
        b.ret_void()
    now = time(b)
    budget = b.load(word(b, status, _BUDGET), typ=I64)
    with b.if_then(b.icmp_signed("==", budget, _i64(0)), likely=False):  # the first poll of the launch
        b.store(now, word(b, status, _ASKED))
    since = b.sub(now, b.load(word(b, status, _LOOKED), typ=I64))
    doubled = b.select(b.icmp_signed("<", budget, _i64(_MOST_POLLS)), b.add(b.add(budget, budget), _i64(1)), budget)
    budget = b.select(b.icmp_signed(">", since, _i64(_LATE)), b.lshr(budget, _i64(2)), budget)
    budget = b.select(b.icmp_signed("<", since, _i64(_SOON)), doubled, budget)
    b.store(budget, word(b, status, _BUDGET))
    b.store(b.sub(budget, _i64(PATIENCE)), word(b, status, _COUNTDOWN))
    b.store(now, word(b, status, _LOOKED))
    asked = b.load(word(b, status, _ASKED), typ=I64)
    with b.if_then(b.icmp_signed(">", b.sub(now, asked), _i64(_ASK_EVERY)), likely=False):
        b.store(now, word(b, status, _ASKED))
        _handle_signals(b, frame, control, loop)
    b.ret_void()
    return module


def _handle_signals(b: Any, frame: Any, control: Any, loop: Any) -> None:
    state = with_lock(b)
    failed = b.icmp_signed("!=", call_api(b, "PyErr_CheckSignals", I32, []), ir.Constant(I32, 0))
    with b.if_then(failed, likely=False):
        keep_exception(b, control)
        stop(b, frame, loop)
    without_lock(b, state)


@cache
def print_address(callback: int) -> int:
    """A native function of (frame, number, number) that calls the Python object at address ``callback`` with these.

    What it raises ends the launch.
    """
    module = ir.Module("nki_print")
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64]), "nki_print")
    frame, place, number = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    control = slot(b, frame, CONTROL)
    with b.if_then(b.icmp_signed("!=", b.load(word(b, control, CANCELLED), typ=I64), _i64(0)), likely=False):
        stop(b, frame, _i64(-ANYWHERE))
        b.ret_void()
    state = with_lock(b)
    result = call_object(b, callback, [b.ptrtoint(place, I64), number])
    with b.if_else(is_null(b, result)) as (then, otherwise):
        with then:
            keep_exception(b, control)
            stop(b, frame, _i64(-ANYWHERE))
        with otherwise:
            call_api(b, "Py_DecRef", VOID, [result])
    without_lock(b, state)
    b.ret_void()
    return engine().compile(module)["nki_print"]


def time(b: Any) -> Any:
    """The present time in nanoseconds, from a clock that never goes back."""
    with b.goto_entry_block():
        spec = b.alloca(ir.ArrayType(I64, 2))
    spec.type = POINTER
    call_libc(b, "clock_gettime", I32, [ir.Constant(I32, _CLOCK_MONOTONIC), spec])
    seconds, nanoseconds = (b.load(word(b, spec, number), typ=I64) for number in range(2))
    return b.add(b.mul(seconds, _i64(1_000_000_000)), nanoseconds)


def _i64(number: int) -> Any:
    return ir.Constant(I64, number)
