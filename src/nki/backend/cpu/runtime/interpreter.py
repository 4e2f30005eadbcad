"""Python's interpreter as native code sees it: its lock, its signals, and calls of Python objects.

All of it goes through the C API and not through ctypes callbacks: a signal handler may raise at the first instruction
of a Python function, before any ``try`` in it, and a callback of ctypes would lose that exception and return garbage.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from llvmlite import ir

I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()


def address_of(name: str) -> int:
    """The address of a function of the C API."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def call_address(b: Any, address: int, result: ir.Type, arguments: list[Any]) -> Any:
    """Call the C function at ``address``."""
    kind = ir.FunctionType(result, [a.type for a in arguments])
    return b.call(b.inttoptr(ir.Constant(I64, address), kind.as_pointer()), arguments)


def call_libc(b: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call a function of the C library."""
    return call_address(b, libc(name), result, arguments)


def libc(name: str) -> int:
    """The address of a function of the C library."""
    return int(ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0)


def call_api(b: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call a function of the C API."""
    return call_address(b, address_of(name), result, arguments)


def with_lock(b: Any) -> Any:
    """Acquire the interpreter lock, whether this thread has a Python state or not; what :func:`without_lock` takes."""
    return call_api(b, "PyGILState_Ensure", I32, [])


def without_lock(b: Any, state: Any) -> None:
    """Undo :func:`with_lock`."""
    call_api(b, "PyGILState_Release", VOID, [state])


def call_object(b: Any, target: Any, numbers: list[Any]) -> Any:
    """The result of the Python object at address ``target``, called with whole numbers; NULL if it raised.

    ``target`` must stay alive; the interpreter lock must be held.
    """
    objects = [call_api(b, "PyLong_FromLongLong", POINTER, [number]) for number in numbers]
    with b.goto_entry_block():
        arguments = b.alloca(ir.ArrayType(I64, len(objects)))
    arguments.type = POINTER
    for number, each in enumerate(objects):
        b.store(each, b.gep(arguments, [ir.Constant(I64, number)], source_etype=I64))
    count, none = ir.Constant(I64, len(objects)), ir.Constant(I64, 0)
    callee = b.inttoptr(ir.Constant(I64, target), POINTER)
    result = call_api(b, "PyObject_Vectorcall", POINTER, [callee, arguments, count, b.inttoptr(none, POINTER)])
    for each in objects:
        call_api(b, "Py_DecRef", VOID, [each])
    return result


def is_null(b: Any, pointer: Any) -> Any:
    """True if ``pointer`` is NULL."""
    return b.icmp_signed("==", b.ptrtoint(pointer, I64), ir.Constant(I64, 0))
