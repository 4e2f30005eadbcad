"""Entry into native code: the functions that release the interpreter lock, walk a table, and raise what went wrong.

While a table is walked, floating point has its default environment: XLA and PyTorch may have told the thread to flush
subnormals to zero, and a kernel's bits must not depend on that.

Workers of a launch on several cores wait at a gate, the first control word of the launch, until its leader has entered
native code; from there on no Python code of the launch runs, which a signal could interrupt, before all workers have
ended. The gate is 0 (wait), :data:`OPEN` or :data:`SHUT`: the launch has failed before it began.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime import barrier, parallel_region, poll
from nki.backend.cpu.runtime.dispatch import WALK, walk_address
from nki.backend.cpu.runtime.frame import ANYWHERE, CONTROL
from nki.backend.cpu.runtime.interpreter import call_api, call_compiled, call_libc
from nki.numerics.jit import engine
from nki.numerics.llvm import while_

I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()

OPEN, SHUT = 1, 2
"""Values of the gate."""
_IS_X86: Final = platform.machine() in ("x86_64", "AMD64")
_ENVIRONMENT_WORDS: Final = 64
"""More than any processor's floating-point environment takes."""
_DEFAULT_MXCSR: Final = 0x1F80
_SUBNORMALS_AND_ROUNDING: Final = 0xE040
"""Bits of MXCSR: flush to zero, the rounding mode, subnormals are zero."""
_SPINS_BEFORE_YIELD: Final = 2000
_YIELDS_BEFORE_SLEEP: Final = 200
_SLEEP: Final = 50
"""Microseconds."""
_PATIENCE: Final = 100_000_000
"""Nanoseconds that a worker waits at the gate before it asks whether its launch still exists."""
_ENTRY: Final = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_CORE: Final = (*_ENTRY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@cache
def run() -> Callable[[int, int, int, int], None]:
    """``run(table, rows, args, frame)``: walk a table without the interpreter lock.

    Raises what signal handlers and callbacks raised meanwhile.
    """
    # A prototype for functions that know Python: it keeps the lock, and raises the exception that they leave.
    return ctypes.PYFUNCTYPE(None, *_ENTRY)(_addresses()["nki_run"])


@cache
def run_with_team() -> Callable[[int, int, int, int], None]:
    """Like :func:`run`, for a frame with a team, which helps unless it helps another launch."""
    addresses = engine().fixed("nki_enter_with_team", _module_with_team)
    return ctypes.PYFUNCTYPE(None, *_ENTRY)(addresses["nki_run_with_team"])


@cache
def lead() -> Callable[[int, int, int, int, int, int, int], None]:
    """``lead(table, rows, args, frame, lines, rank, cores)``: like :func:`run` for the leader of several cores.

    Opens the gate, and returns when all cores have ended.
    """
    return ctypes.PYFUNCTYPE(None, *_CORE)(_addresses()["nki_lead"])


@cache
def follow() -> Callable[[int, int, int, int, int, int, int], int]:
    """``follow(table, rows, args, frame, lines, rank, cores)``: wait at the gate, then walk; what the gate was.

    0: it is neither open nor shut after a while. Raises nothing: the leader does.
    """
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *_CORE)(_addresses()["nki_follow"])


@cache
def _addresses() -> dict[str, int]:
    return engine().fixed("nki_enter", _module)


def _module() -> ir.Module:
    module = ir.Module("nki_enter")
    _add_run(module)
    _add_lead(module)
    _add_follow(module)
    return module


def _add_run(module: ir.Module) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER]), "nki_run")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    state = call_api(b, "PyEval_SaveThread", POINTER, [])
    _walk(b, function.args)
    call_api(b, "PyEval_RestoreThread", VOID, [state])
    poll.raise_kept(b, poll.slot(b, function.args[3], CONTROL))
    b.ret_void()


def _module_with_team() -> ir.Module:
    module = ir.Module("nki_enter_with_team")
    _add_run_with_team(module)
    return module


def _add_run_with_team(module: ir.Module) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER]), "nki_run_with_team")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    frame = function.args[3]
    state = call_api(b, "PyEval_SaveThread", POINTER, [])
    # No Python code runs between begin and end, which a signal could interrupt.
    call_compiled(b, parallel_region.begin_address(), parallel_region.FRAME, [frame])
    _walk(b, function.args)
    call_compiled(b, parallel_region.end_address(), parallel_region.FRAME, [frame])
    call_api(b, "PyEval_RestoreThread", VOID, [state])
    poll.raise_kept(b, poll.slot(b, frame, CONTROL))
    b.ret_void()


def _add_lead(module: ir.Module) -> None:
    function = ir.Function(
        module, ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER, POINTER, I64, I64]), "nki_lead"
    )
    *entry, lines, rank, cores = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    frame = entry[3]
    control = poll.slot(b, frame, CONTROL)
    state = call_api(b, "PyEval_SaveThread", POINTER, [])
    b.atomic_rmw("xchg", poll.word(b, control, poll.GATE), _i64(OPEN), "seq_cst")
    _walk(b, entry)
    barrier.add_end(b, lines, rank, cores)

    def others_run() -> Any:
        ended = b.load_atomic(poll.word(b, control, poll.ENDED), "acquire", 8, typ=I64)
        return b.icmp_signed("<", ended, b.sub(cores, _i64(1)))

    _wait_while(b, others_run, lambda: poll.poll_now(b, frame, _i64(-ANYWHERE)))
    call_api(b, "PyEval_RestoreThread", VOID, [state])
    poll.raise_kept(b, control)
    b.ret_void()


def _add_follow(module: ir.Module) -> None:
    function = ir.Function(
        module, ir.FunctionType(I64, [POINTER, I64, POINTER, POINTER, POINTER, I64, I64]), "nki_follow"
    )
    *entry, lines, rank, cores = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    control = poll.slot(b, entry[3], CONTROL)
    state = call_api(b, "PyEval_SaveThread", POINTER, [])
    deadline = b.add(poll.time(b), _i64(_PATIENCE))
    gate = poll.word(b, control, poll.GATE)

    def is_open() -> Any:
        return b.load_atomic(gate, "acquire", 8, typ=I64)

    def give_up() -> None:
        with b.if_then(b.icmp_signed(">", poll.time(b), deadline), likely=False):
            call_api(b, "PyEval_RestoreThread", VOID, [state])
            b.ret(_i64(0))

    _wait_while(b, lambda: b.icmp_signed("==", is_open(), _i64(0)), give_up)
    value = is_open()
    with b.if_then(b.icmp_signed("==", value, _i64(OPEN))):
        _walk(b, entry)
        barrier.add_end(b, lines, rank, cores)
        b.atomic_rmw("add", poll.word(b, control, poll.ENDED), _i64(1), "seq_cst")  # the leader may free all memory now
    call_api(b, "PyEval_RestoreThread", VOID, [state])
    b.ret(value)


def _walk(b: Any, entry: Any) -> None:
    """Walk a table in the default floating-point environment."""
    with default_environment(b):
        b.call(engine().declared(b.module, walk_address(), WALK), entry)


@contextmanager
def default_environment(b: Any) -> Generator[None]:
    """Emit code inside that runs in the default floating-point environment; behind it the thread has its own again."""
    if not _IS_X86:
        with b.goto_entry_block():
            before = b.alloca(ir.ArrayType(I64, _ENVIRONMENT_WORDS))
        before.type = POINTER
        call_libc(b, "fegetenv", I32, [before])
        call_libc(b, "fesetenv", I32, [b.inttoptr(_i64(-1), POINTER)])  # FE_DFL_ENV
        yield
        call_libc(b, "fesetenv", I32, [before])
        return
    with b.goto_entry_block():
        before, default = b.alloca(I32), b.alloca(I32)
    before.type = default.type = POINTER
    store, load = (_intrinsic(b.module, f"llvm.x86.sse.{name}") for name in ("stmxcsr", "ldmxcsr"))
    b.call(store, [before])
    control = b.load(before, typ=I32)
    differs = b.icmp_signed("!=", b.and_(control, ir.Constant(I32, _SUBNORMALS_AND_ROUNDING)), ir.Constant(I32, 0))
    with b.if_then(differs, likely=False):
        b.store(ir.Constant(I32, _DEFAULT_MXCSR), default)
        b.call(load, [default])
    yield
    with b.if_then(differs, likely=False):
        b.call(load, [before])


def _intrinsic(module: ir.Module, name: str) -> Any:
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(VOID, [POINTER]), name)


def _wait_while(b: Any, condition: Callable[[], Any], when_long: Callable[[], None]) -> None:
    """Wait as long as ``condition``: spin, then let other threads run, then sleep; ``when_long`` runs between these."""
    rounds = b.alloca(I64)
    b.store(_i64(0), rounds)
    with while_(b, condition):
        count = b.add(b.load(rounds, typ=I64), _i64(1))
        b.store(count, rounds)
        with b.if_then(b.icmp_signed(">", count, _i64(_SPINS_BEFORE_YIELD)), likely=False):
            with b.if_else(b.icmp_signed(">", count, _i64(_SPINS_BEFORE_YIELD + _YIELDS_BEFORE_SLEEP))) as (
                then,
                other,
            ):
                with then:
                    call_libc(b, "usleep", I32, [ir.Constant(I32, _SLEEP)])
                with other:
                    call_libc(b, "sched_yield", I32, [])
            when_long()


def _i64(number: int) -> Any:
    return ir.Constant(I64, number)
