"""Python's interpreter as native code sees it: its lock, its signals, and calls of Python objects.

All of it goes through the C API and not through ctypes callbacks: a signal handler may raise at the first instruction
of a Python function, before any ``try`` in it, and a callback of ctypes would lose that exception and return garbage.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from llvmlite import ir

from nki.numerics.jit import engine

I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()
VOID: Final = ir.VoidType()


def _call_function(b: Any, library: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call the C function ``name`` of ``library``, by its name: the code holds in other processes, too."""
    kind = ir.FunctionType(result, [a.type for a in arguments])
    address = int(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)
    function = engine().named(b.module, name, address, kind)
    if function is None:  # called with other types before
        function = b.inttoptr(ir.Constant(I64, address), kind.as_pointer())
    return b.call(function, arguments)


def call_libc(b: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call a function of the C library."""
    return _call_function(b, ctypes.CDLL(None), name, result, arguments)


def call_compiled(b: Any, address: int, kind: ir.FunctionType, arguments: list[Any]) -> Any:
    """Call the function that :meth:`~nki.numerics.jit.Engine.compile` has put at ``address``."""
    function = engine().declared(b.module, address, kind)
    return b.call(function or b.inttoptr(ir.Constant(I64, address), kind.as_pointer()), arguments)


def call_api(b: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call a function of the C API."""
    return _call_function(b, ctypes.pythonapi, name, result, arguments)


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
