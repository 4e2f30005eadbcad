"""Teams: threads that help a launch through its parallel regions.

The thread that launches leads: it alone walks the table. At a parallel region it offers chunks of partitions, takes
chunks itself, and goes on when all are done; helpers take those that are free. So a helper that is late, or that the
operating system does not run, costs its help only, and a leader without helpers does all the work.

A ticket holds the number of the offer in its upper half, and a bit for each chunk that nobody has taken in its lower
half. A leader offers nothing new before all chunks are done, so the words of an offer stay as long as a chunk of it can
be taken. Helpers look at the ticket for some microseconds, then sleep until the next offer. They belong to no
interpreter: they run native code only, without Python's lock, and handle no signals.

A team helps one launch at a time. A launch that finds it busy runs alone.
"""

from __future__ import annotations

import ctypes
import platform
import signal
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime import poll
from nki.backend.cpu.runtime.dispatch import I8, I32, I64, POINTER, ROUTINE, VOID, count, element
from nki.backend.cpu.runtime.frame import STATUS
from nki.backend.cpu.runtime.interpreter import call_libc
from nki.numerics.floating_point import default_environment
from nki.numerics.jit import engine
from nki.numerics.llvm import Variable, i64, while_

MOST_CHUNKS: Final = 32
"""Chunks of an offer, each of which has a bit of the ticket."""
FREE: Final = (1 << MOST_CHUNKS) - 1

TICKET, DONE, BUSY, SLEEPERS, STOP, OFFER, MUTEX, CONDITION = 0, 64, 128, 192, 200, 256, 384, 512
"""Byte offsets in the block of a team: what different threads write lies in different lines."""
_BLOCK: Final = 640
FRAMES, STEP, ROWS, COUNT, ARGUMENTS, CHUNK, CHUNKS, MEMBERS = range(8)
"""Words of an offer: the address of the helpers' frames and the bytes from one to the next; the address of the rows,
their number and the address of their arguments; partitions of a chunk, number of chunks; threads that may take chunks.
"""
SPINS: Final = 2000
"""Looks at the ticket before a helper sleeps: about 50 microseconds."""
_PAUSE: Final[dict[str, tuple[str, list[int]]]] = {
    "x86_64": ("llvm.x86.sse2.pause", []),
    "AMD64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [1]),
    "arm64": ("llvm.aarch64.hint", [1]),
}
"""By machine, the intrinsic with which a thread tells the processor that it waits, and its arguments."""

_RANGE: Final = ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER, I64, I64])


class Team:
    """``size - 1`` threads that wait for launches, which share its block of memory, at ``address``.

    The block and the threads' code stay for ever, as a thread may look at them after the team is gone.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.address = _allocate(_BLOCK)
        libc = ctypes.CDLL(None)
        libc.pthread_mutex_init(ctypes.c_void_p(self.address + MUTEX), None)
        libc.pthread_cond_init(ctypes.c_void_p(self.address + CONDITION), None)
        self._threads = [thread for index in range(1, size) if (thread := self._start(libc, index)) is not None]

    def _start(self, libc: Any, index: int) -> int | None:
        """Start helper ``index``: its handle; None if the operating system refuses, and the work is done without it."""
        record = _allocate(16)
        ctypes.c_int64.from_address(record).value = self.address
        ctypes.c_int64.from_address(record + 8).value = index
        handle = ctypes.c_void_p()
        entry = ctypes.c_void_p(_helper_address())
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with default_environment():
                failed = libc.pthread_create(ctypes.byref(handle), None, entry, ctypes.c_void_p(record))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return None if failed else handle.value

    def stop(self, wait: bool = False) -> None:
        """Let the helpers end; a launch that they help goes on without them. ``wait``: until they have ended."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_addresses()["nki_stop"])(self.address)
        if wait:
            for thread in self._threads:
                ctypes.CDLL(None).pthread_join(ctypes.c_void_p(thread), None)


@cache
def is_supported() -> bool:
    """True if the platform has the threads that teams consist of."""
    return hasattr(signal, "pthread_sigmask") and platform.machine() in _PAUSE


def _allocate(nbytes: int) -> int:
    """The address of ``nbytes`` of zeros, at the start of a cache line, that are never freed."""
    allocate = ctypes.CDLL(None).calloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
    address = allocate(1, nbytes + 64)
    if not address:
        raise MemoryError
    return int(address) + -int(address) % 64


@cache
def _addresses() -> dict[str, int]:
    return engine().fixed("nki_team", _module)


def _module() -> ir.Module:
    module = ir.Module("nki_team")
    walk = add_walk_range(module)
    _add_helper(module, walk)
    _add_stop(module)
    return module


def _helper_address() -> int:
    return _addresses()["nki_helper"]


def word(b: Any, team: Any, offset: int) -> Any:
    """The place of a word of the team's block."""
    return b.gep(team, [i64(offset)], source_etype=I8)


def load(b: Any, team: Any, offset: int) -> Any:
    """The present value of a word that other threads change."""
    return b.load_atomic(word(b, team, offset), "seq_cst", 8, typ=I64)


def add_walk_range(module: ir.Module) -> ir.Function:
    """Add ``void nki_walk_range(rows, count, args, frame, first, last)``: call each row's routine for these partitions.

    Ends early if the frame's status tells of an error.
    """
    function = ir.Function(module, _RANGE, "nki_walk_range")
    rows, number, args, frame, first, last = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    status = element(b, frame, i64(STATUS), POINTER)

    def row(index: Any) -> None:
        at = b.mul(index, i64(2))
        target = b.inttoptr(element(b, rows, at, I64), ROUTINE.as_pointer())
        start = element(b, rows, b.add(at, i64(1)), I64)
        arguments = b.gep(args, [b.mul(start, i64(8))], source_etype=I8)
        b.call(target, [frame, arguments, first, last])
        with b.if_then(b.icmp_signed("!=", b.load(status, typ=I64), i64(0)), likely=False):
            b.ret_void()

    count(b, number, row)
    b.ret_void()
    return function


def take_chunk(b: Any, team: Any, ticket: Any, preferred: Any, then: Callable[[Any], None]) -> None:
    """Take a chunk of ``ticket``, which has a free one, and run ``then`` with its number; nothing if it has changed.

    It is the first free chunk from ``preferred`` on, so that a thread finds in its cache what it had there before.
    """
    free = b.and_(ticket, i64(FREE))
    beyond = b.shl(b.lshr(free, preferred), preferred)
    chunk = _lowest(b, b.select(b.icmp_signed("!=", beyond, i64(0)), beyond, free))
    after = b.and_(ticket, b.not_(b.shl(i64(1), chunk)))
    exchanged = b.cmpxchg(word(b, team, TICKET), ticket, after, "seq_cst", "seq_cst")
    with b.if_then(b.extract_value(exchanged, 1)):
        then(chunk)
        b.atomic_rmw("add", word(b, team, DONE), i64(1), "seq_cst")


def _lowest(b: Any, bits: Any) -> Any:
    """The position of the lowest bit that is set."""
    kind = ir.FunctionType(I64, [I64, ir.IntType(1)])
    name = "llvm.cttz.i64"
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, [bits, ir.Constant(ir.IntType(1), 1)])


def pause(b: Any) -> None:
    """Tell the processor that this thread waits."""
    name, numbers = _PAUSE[platform.machine()]
    kind = ir.FunctionType(VOID, [I32] * len(numbers))
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    b.call(function, [ir.Constant(I32, number) for number in numbers])


def lock(b: Any, team: Any) -> None:
    """Hold the mutex of the team."""
    call_libc(b, "pthread_mutex_lock", I32, [word(b, team, MUTEX)])


def unlock(b: Any, team: Any) -> None:
    """Undo :func:`lock`."""
    call_libc(b, "pthread_mutex_unlock", I32, [word(b, team, MUTEX)])


def wake(b: Any, team: Any) -> None:
    """Wake the helpers that sleep."""
    with b.if_then(b.icmp_signed(">", load(b, team, SLEEPERS), i64(0)), likely=False):
        lock(b, team)
        call_libc(b, "pthread_cond_broadcast", I32, [word(b, team, CONDITION)])
        unlock(b, team)


def _add_stop(module: ir.Module) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER]), "nki_stop")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    stop(b, function.args[0])
    b.ret_void()


def stop(b: Any, team: Any) -> None:
    """Let the helpers end, which may sleep."""
    b.atomic_rmw("xchg", word(b, team, STOP), i64(1), "seq_cst")
    wake(b, team)


def _add_helper(module: ir.Module, walk: ir.Function) -> None:
    """``void* nki_helper(i64* record)``: the thread of a helper; the record holds the team's address and its number."""
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER]), "nki_helper")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    record = function.args[0]
    help_until_stop(b, walk, element(b, record, i64(0), POINTER), element(b, record, i64(1), I64))
    b.ret(b.inttoptr(i64(0), POINTER))


def help_until_stop(b: Any, walk: ir.Function, team: Any, index: Any) -> None:
    """Take chunks of what ``team`` is offered, as its helper ``index``, until it is to stop."""
    idle = Variable(b)
    idle.set(i64(0))
    with while_(b, lambda: b.icmp_signed("==", load(b, team, STOP), i64(0))):
        ticket = load(b, team, TICKET)
        # These words may be those of the next offer; then the ticket has changed, and the chunk is not taken.
        offer = [element(b, word(b, team, OFFER), i64(n), I64) for n in range(8)]
        free = b.icmp_signed("!=", b.and_(ticket, i64(FREE)), i64(0))
        with b.if_else(b.and_(free, b.icmp_signed("<", index, offer[MEMBERS]))) as (then, otherwise):
            with then:
                preferred = b.sdiv(b.mul(index, offer[CHUNKS]), offer[MEMBERS])
                take_chunk(b, team, ticket, preferred, lambda chunk: _run(b, walk, offer, index, chunk))
                idle.set(i64(0))
            with otherwise:
                pause(b)
                idle.set(b.add(idle.get(), i64(1)))
                with b.if_then(b.icmp_signed(">", idle.get(), i64(SPINS)), likely=False):
                    _sleep(b, team, ticket)
                    idle.set(i64(0))


def _run(b: Any, walk: ir.Function, offer: list[Any], index: Any, chunk: Any) -> None:
    """Run a chunk in the frame of helper ``index``, unless the launch is cancelled."""
    place = b.add(offer[FRAMES], b.mul(b.sub(index, i64(1)), offer[STEP]))
    frame, rows, args = (b.inttoptr(each, POINTER) for each in (place, offer[ROWS], offer[ARGUMENTS]))
    cancelled = b.load(poll.cancelled(b, frame), typ=I64)
    with b.if_then(b.icmp_signed("==", cancelled, i64(0))):
        first = b.mul(chunk, offer[CHUNK])
        b.call(walk, [rows, offer[COUNT], args, frame, first, b.add(first, offer[CHUNK])])


def _sleep(b: Any, team: Any, ticket: Any) -> None:
    """Sleep until there is another offer than that of ``ticket``."""
    lock(b, team)
    b.atomic_rmw("add", word(b, team, SLEEPERS), i64(1), "seq_cst")

    def nothing_new() -> Any:
        number = b.lshr(load(b, team, TICKET), i64(MOST_CHUNKS))
        same = b.icmp_signed("==", number, b.lshr(ticket, i64(MOST_CHUNKS)))
        return b.and_(same, b.icmp_signed("==", load(b, team, STOP), i64(0)))

    with while_(b, nothing_new):
        call_libc(b, "pthread_cond_wait", I32, [word(b, team, CONDITION), word(b, team, MUTEX)])
    b.atomic_rmw("sub", word(b, team, SLEEPERS), i64(1), "seq_cst")
    unlock(b, team)
