"""A Python function as a C function that another library calls, which reports every failure to that library.

An exception that leaves the function, a signal's at its very first instruction included, becomes an error of the
library, made by a function in a table of its own; see :class:`ErrorTable`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime.interpreter import call_api, call_object, is_null, with_lock, without_lock
from nki.numerics.jit import engine

I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()
INTERRUPTED: Final = 1
"""A bit that addresses do not have."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """The place of the library's function that makes an error, and the form of its argument, by byte offsets.

    ``api``: the pointer to the library's table in the argument of the call; ``create``: the function in that table. It
    takes a structure of ``size`` bytes, which begins with its size, and has a text at ``message`` and the 32-bit number
    ``internal`` at ``code``.
    """

    api: int
    create: int
    size: int
    message: int
    code: int
    internal: int


def foreign_function(target: Callable[[int], int], errors: ErrorTable) -> int:
    """The address of ``void* f(void* argument)``: ``target(argument)``, an address or 0; keep ``target`` alive.

    If ``target`` raises, the result is an error whose text is the name of the exception's class. A KeyboardInterrupt
    comes up again in the main thread, and so it does if ``target`` adds :data:`INTERRUPTED` to the address.
    """
    module = ir.Module("nki_foreign")
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER]), "nki_foreign")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    argument = function.args[0]
    result = b.alloca(POINTER)
    state = with_lock(b)
    returned = call_object(b, id(target), [b.ptrtoint(argument, I64)])
    with b.if_else(is_null(b, returned)) as (then, otherwise):
        with then:
            b.store(_error(b, argument, errors), result)
        with otherwise:
            value = b.ptrtoint(call_api(b, "PyLong_AsVoidPtr", POINTER, [returned]), I64)
            call_api(b, "Py_DecRef", VOID, [returned])
            flag = ir.Constant(I64, INTERRUPTED)
            b.store(b.inttoptr(b.and_(value, b.not_(flag)), POINTER), result)
            with b.if_then(b.icmp_signed("!=", b.and_(value, flag), ir.Constant(I64, 0)), likely=False):
                call_api(b, "PyErr_SetInterrupt", VOID, [])
    without_lock(b, state)
    b.ret(b.load(result, typ=POINTER))
    return engine().compile(module)["nki_foreign"]


def _error(b: Any, argument: Any, errors: ErrorTable) -> Any:
    """The library's error for the Python exception that is set, which is cleared."""
    with b.goto_entry_block():
        parts = [b.alloca(POINTER) for _ in range(3)]
        structure = b.alloca(ir.ArrayType(I64, -(-errors.size // 8)))
    for slot in (*parts, structure):
        slot.type = POINTER
    interrupt = b.inttoptr(ir.Constant(I64, id(KeyboardInterrupt)), POINTER)
    interrupted = call_api(b, "PyErr_ExceptionMatches", I32, [interrupt])
    call_api(b, "PyErr_Fetch", VOID, parts)
    name = call_api(b, "PyExceptionClass_Name", POINTER, [b.load(parts[0], typ=POINTER)])
    b.store(ir.Constant(ir.ArrayType(I64, -(-errors.size // 8)), None), structure)
    b.store(ir.Constant(I64, errors.size), structure)
    b.store(name, _at(b, structure, errors.message))
    b.store(ir.Constant(I32, errors.internal), _at(b, structure, errors.code))
    api = b.load(_at(b, argument, errors.api), typ=POINTER)
    create = b.load(_at(b, api, errors.create), typ=I64)
    error = b.call(b.inttoptr(create, ir.FunctionType(POINTER, [POINTER]).as_pointer()), [structure])
    call_api(b, "PyErr_Restore", VOID, [b.load(part, typ=POINTER) for part in parts])
    call_api(b, "PyErr_Clear", VOID, [])
    with b.if_then(b.icmp_signed("!=", interrupted, ir.Constant(I32, 0))):
        call_api(b, "PyErr_SetInterrupt", VOID, [])
    return error


def _at(b: Any, base: Any, offset: int) -> Any:
    return b.gep(base, [ir.Constant(I64, offset)], source_etype=I8)
