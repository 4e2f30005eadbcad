"""The two native routines that no instruction owns: the walk over a table, and filling memory with a pattern."""

# llvmlite ships no type information.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.engine import engine

I8: Final = ir.IntType(8)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()


@cache
def _addresses() -> dict[str, int]:
    module = ir.Module("nki_driver")
    _add_walk(module)
    _add_fill(module)
    return engine().compile(module)


@cache
def walk() -> Callable[[int, int, int, Any], None]:
    """``walk(table, rows, args, bases)``: call each row's routine with ``bases`` and its arguments, without the GIL."""
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return prototype(_addresses()["nki_walk"])


def fill_address() -> int:
    """A routine whose arguments are a place, a number of bytes and an 8-byte pattern."""
    return _addresses()["nki_fill"]


def _element(b: Any, base: Any, index: Any, kind: ir.Type, size: int = 8) -> Any:
    place = b.gep(base, [b.mul(index, ir.Constant(I64, size))], source_etype=I8)
    return b.load(place, typ=kind, align=1 if size == 1 else 8)


def _count(b: Any, function: ir.Function, stop: Any, body: Callable[[Any], None]) -> None:
    """``for index in range(stop): body(index)``."""
    before = b.block
    head, inside, done = (function.append_basic_block(n) for n in ("head", "inside", "done"))
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


def _add_walk(module: ir.Module) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER]), "nki_walk")
    table, rows, args, bases = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    routine = ir.FunctionType(VOID, [POINTER, POINTER])

    def row(index: Any) -> None:
        at = b.mul(index, ir.Constant(I64, 2))
        target = b.inttoptr(_element(b, table, at, I64), routine.as_pointer())
        first = _element(b, table, b.add(at, ir.Constant(I64, 1)), I64)
        b.call(target, [bases, b.gep(args, [b.mul(first, ir.Constant(I64, 8))], source_etype=I8)])

    _count(b, function, rows, row)
    b.ret_void()


def _add_fill(module: ir.Module) -> None:
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER]), "nki_fill")
    bases, args = function.args
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    slot, start, nbytes, pattern = (_element(b, args, ir.Constant(I64, i), I64) for i in range(4))
    target = b.gep(_element(b, bases, slot, POINTER), [start], source_etype=I8)
    words = b.lshr(nbytes, ir.Constant(I64, 3))

    def word(index: Any) -> None:
        b.store(pattern, b.gep(target, [b.shl(index, ir.Constant(I64, 3))], source_etype=I8), align=1)

    def byte(index: Any) -> None:
        value = b.trunc(b.lshr(pattern, b.shl(index, ir.Constant(I64, 3))), I8)
        at = b.add(b.shl(words, ir.Constant(I64, 3)), index)
        b.store(value, b.gep(target, [at], source_etype=I8), align=1)

    _count(b, function, words, word)
    _count(b, function, b.and_(nbytes, ir.Constant(I64, 7)), byte)
    b.ret_void()
