"""The native routines that no instruction owns: the walk over a table, loops over a part of it, and filling memory.

Every routine gets the frame of its worker: see :mod:`nki.backend.cpu.runtime.frame`. An instruction's routine runs a
range of partitions, which may be larger than the number that the instruction has; the walk asks for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime import poll
from nki.backend.cpu.runtime.frame import ANYWHERE, ARGS, STATUS, TABLE
from nki.backend.cpu.runtime.poll import slot
from nki.numerics.jit import engine

I8: Final = ir.IntType(8)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()
I32: Final = ir.IntType(32)

ROUTINE: Final = ir.FunctionType(VOID, [POINTER, POINTER, I64, I64])
"""``void routine(i8** frame, i64* args, i64 first, i64 last)``: run partitions ``first`` to ``last`` - 1."""
EVERY_PARTITION: Final = (ir.Constant(I64, 0), ir.Constant(I64, (1 << 63) - 1))
"""A range that every routine limits to its own number of partitions."""
_ROWS_PER_POLL: Final = ir.Constant(I64, 31)
"""A mask: the rows of a long table between two polls, but one."""


WALK: Final = ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER])
"""The type of :func:`walk_address`."""


@cache
def _addresses() -> dict[str, int]:
    return engine().fixed("nki_driver", _module)


def _module() -> ir.Module:
    module = ir.Module("nki_driver")
    walked = _add_walk(module)
    _add_for(module, walked)
    _add_while(module, walked)
    _add_fill(module)
    _add_copy(module)
    return module


def walk_address() -> int:
    """``void walk(table, rows, args, frame)``: call each row's routine with ``frame`` and its arguments.

    Ends early if the launch has failed or is cancelled.
    """
    return _addresses()["nki_walk"]


def fill_address() -> int:
    """A routine whose arguments are a place, a number of bytes and an 8-byte pattern."""
    return _addresses()["nki_fill"]


def copy_address() -> int:
    """A routine whose arguments are two places, to and from, and a number of bytes, a multiple of 8."""
    return _addresses()["nki_copy"]


def for_address() -> int:
    """A routine that walks rows repeatedly, counting in a register.

    Its arguments are the places of the register, the first value and the end, then step, first row, number of rows,
    and the number of the loop.
    """
    return _addresses()["nki_for"]


def while_address() -> int:
    """A routine that walks rows as long as a register is not 0.

    Its arguments are the place of the register, first row, number of rows, and the number of the loop.
    """
    return _addresses()["nki_while"]


def element(b: Any, base: Any, index: Any, kind: ir.Type, size: int = 8) -> Any:
    """Load element ``index`` of the words, of ``size`` bytes each, at ``base``."""
    place = b.gep(base, [b.mul(index, ir.Constant(I64, size))], source_etype=I8)
    return b.load(place, typ=kind, align=1 if size == 1 else 8)


def count(b: Any, stop: Any, body: Callable[[Any], None]) -> None:
    """``for index in range(stop): body(index)``."""
    before = b.block
    head, inside, done = (b.append_basic_block(n) for n in ("head", "inside", "done"))
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(I64)
    index.add_incoming(ir.Constant(I64, 0), before)
    b.cbranch(b.icmp_signed("<", index, stop), inside, done)
    b.position_at_end(inside)
    body(index)
    index.add_incoming(b.add(index, ir.Constant(I64, 1)), b.block)
    b.branch(head)
    b.position_at_end(done)


def _add_walk(module: ir.Module) -> ir.Function:
    function = ir.Function(module, WALK, "nki_walk")
    table, rows, args, frame = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))

    status, left = slot(b, frame, STATUS), poll.countdown(b, frame)

    def row(index: Any) -> None:
        at = b.mul(index, ir.Constant(I64, 2))
        target = b.inttoptr(element(b, table, at, I64), ROUTINE.as_pointer())
        first = element(b, table, b.add(at, ir.Constant(I64, 1)), I64)
        arguments = b.gep(args, [b.mul(first, ir.Constant(I64, 8))], source_etype=I8)
        b.call(target, [frame, arguments, *EVERY_PARTITION])
        with b.if_then(b.icmp_signed("==", b.and_(index, _ROWS_PER_POLL), _ROWS_PER_POLL), likely=False):
            poll.poll(b, frame, left, ir.Constant(I64, -ANYWHERE))
        with b.if_then(b.icmp_signed("!=", b.load(status, typ=I64), ir.Constant(I64, 0)), likely=False):
            b.ret_void()

    count(b, rows, row)
    b.ret_void()
    return function


def place(b: Any, frame: Any, args: Any, first: int) -> Any:
    """The address that two arguments give: a slot of the frame, and a byte offset from the pointer in it."""
    slot, offset = (element(b, args, ir.Constant(I64, first + i), I64) for i in range(2))
    return b.gep(element(b, frame, slot, POINTER), [offset], source_etype=I8)


def _looping(
    b: Any,
    frame: Any,
    walked: ir.Function,
    rows: tuple[Any, Any, Any],
    condition: Callable[[], Any],
    step: Callable[[], None],
) -> None:
    """Walk ``rows`` (the first, how many, of which loop) and ``step``, as long as ``condition`` holds and nothing went
    wrong.
    """
    table, args, status = (element(b, frame, ir.Constant(I64, slot), POINTER) for slot in (TABLE, ARGS, STATUS))
    first = b.gep(table, [b.mul(rows[0], ir.Constant(I64, 16))], source_etype=I8)
    countdown, left = poll.countdown(b, frame), b.alloca(I64)
    b.store(b.load(countdown, typ=I64), left)
    head, inside, done = (b.append_basic_block(n) for n in ("head", "inside", "done"))
    b.branch(head)
    b.position_at_end(head)
    well = b.icmp_signed("==", b.load(status, typ=I64), ir.Constant(I64, 0))
    b.cbranch(b.and_(condition(), well), inside, done)
    b.position_at_end(inside)
    b.call(walked, [first, rows[1], args, frame])
    step()
    poll.poll(b, frame, left, rows[2])
    b.branch(head)
    b.position_at_end(done)
    b.store(b.load(left, typ=I64), countdown)
    with b.if_then(b.icmp_signed("==", b.load(status, typ=I64), ir.Constant(I64, ANYWHERE)), likely=False):
        b.store(b.neg(rows[2]), status)  # the innermost loop is where the launch was interrupted
    b.ret_void()


def _add_for(module: ir.Module, walked: ir.Function) -> None:
    function = ir.Function(module, ROUTINE, "nki_for")
    frame, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    register = place(b, frame, args, 0)
    start, stop = (b.sext(b.load(place(b, frame, args, i), typ=I32), I64) for i in (2, 4))
    step, first, rows, number = (element(b, args, ir.Constant(I64, i), I64) for i in (6, 7, 8, 9))
    counter = b.alloca(I64)
    b.store(start, counter)

    def condition() -> Any:
        value = b.load(counter, typ=I64)
        going = b.icmp_signed("<", value, stop)
        b.store(b.select(going, b.trunc(value, I32), b.load(register, typ=I32)), register)
        return going

    def advance() -> None:
        b.store(b.add(b.load(counter, typ=I64), step), counter)

    _looping(b, frame, walked, (first, rows, number), condition, advance)


def _add_while(module: ir.Module, walked: ir.Function) -> None:
    function = ir.Function(module, ROUTINE, "nki_while")
    frame, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    register = place(b, frame, args, 0)
    first, rows, number = (element(b, args, ir.Constant(I64, i), I64) for i in (2, 3, 4))

    def condition() -> Any:
        return b.icmp_signed("!=", b.load(register, typ=I32), ir.Constant(I32, 0))

    _looping(b, frame, walked, (first, rows, number), condition, lambda: None)


def _add_fill(module: ir.Module) -> None:
    function = ir.Function(module, ROUTINE, "nki_fill")
    frame, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    slot, start, nbytes, pattern = (element(b, args, ir.Constant(I64, i), I64) for i in range(4))
    target = b.gep(element(b, frame, slot, POINTER), [start], source_etype=I8)
    words = b.lshr(nbytes, ir.Constant(I64, 3))

    def word(index: Any) -> None:
        b.store(pattern, b.gep(target, [b.shl(index, ir.Constant(I64, 3))], source_etype=I8), align=1)

    def byte(index: Any) -> None:
        value = b.trunc(b.lshr(pattern, b.shl(index, ir.Constant(I64, 3))), I8)
        at = b.add(b.shl(words, ir.Constant(I64, 3)), index)
        b.store(value, b.gep(target, [at], source_etype=I8), align=1)

    count(b, words, word)
    count(b, b.and_(nbytes, ir.Constant(I64, 7)), byte)
    b.ret_void()


def _add_copy(module: ir.Module) -> None:
    function = ir.Function(module, ROUTINE, "nki_copy")
    frame, args, *_ = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    target, source = (place(b, frame, args, i) for i in (0, 2))

    def word(index: Any) -> None:
        at = [b.shl(index, ir.Constant(I64, 3))]
        b.store(b.load(b.gep(source, at, source_etype=I8), typ=I64), b.gep(target, at, source_etype=I8))

    count(b, b.lshr(element(b, args, ir.Constant(I64, 4), I64), ir.Constant(I64, 3)), word)
    b.ret_void()
