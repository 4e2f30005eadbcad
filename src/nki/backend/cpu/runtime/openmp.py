"""Launches on the OpenMP threads of PyTorch.

PyTorch's threads wait actively: after each of its operators they keep their cores busy for some milliseconds, and
another team that wakes then gets no core. So a launch that PyTorch asks for runs in a parallel region of the very
runtime that PyTorch computes with: the threads that wait are the ones that work.

A launch is one parallel region. Its first thread, the one that launches, leads; the others help through a team's block
of memory as helpers do (:mod:`nki.backend.cpu.runtime.team`), and return to the runtime when the leader ends. The
runtime may give fewer threads than were asked for, or only the first, as it does inside another parallel region:
nothing waits for a thread that never comes.

The runtime's functions are those of the libraries that the process has loaded already, for a second runtime would bring
threads of its own. They come in as arguments, since they lie elsewhere in each process.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from llvmlite import ir

from nki.backend.cpu.runtime import parallel_region, poll, team
from nki.backend.cpu.runtime.dispatch import I32, I64, POINTER, VOID, WALK, element, walk_address
from nki.backend.cpu.runtime.enter import default_environment
from nki.backend.cpu.runtime.frame import CONTROL, TEAM, THREADS
from nki.backend.cpu.runtime.interpreter import call_api, call_compiled
from nki.numerics.jit import engine
from nki.numerics.llvm import i64

_REGION: Final = ir.FunctionType(VOID, [POINTER])
_PARALLEL: Final = ir.FunctionType(VOID, [POINTER, POINTER, I32, I32])
_THREAD_NUMBER: Final = ir.FunctionType(I32, [])
_RUN: Final = ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER, I64, I64])
_LAUNCH: Final = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class OpenMP:
    """The addresses of two functions of a runtime: ``GOMP_parallel``, which the OpenMP runtimes of GCC, LLVM and Intel
    have, and ``omp_get_thread_num``.
    """

    parallel: int
    thread_number: int

    def run(self, table: int, rows: int, args: int, frame: int) -> None:
        """Like :func:`~nki.backend.cpu.runtime.enter.run_with_team`, for a frame with a team without threads."""
        _run()(table, rows, args, frame, self.parallel, self.thread_number)


@cache
def of_torch() -> OpenMP | None:
    """The runtime that PyTorch computes with; None if this build of it has another one or none."""
    torch: Any = sys.modules.get("torch")
    path = getattr(getattr(torch, "_C", None), "__file__", None)
    if path is None or not hasattr(os, "RTLD_NOLOAD"):
        return None
    # As the dynamic linker does for PyTorch: a runtime that all libraries see comes before those that PyTorch names.
    for library in (None, path):
        try:
            loaded = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            found = [getattr(loaded, name) for name in ("GOMP_parallel", "omp_get_thread_num")]
        except (OSError, AttributeError):
            continue
        return OpenMP(*(int(ctypes.cast(function, ctypes.c_void_p).value or 0) for function in found))
    return None


@cache
def _run() -> Callable[[int, int, int, int, int, int], None]:
    return ctypes.PYFUNCTYPE(None, *_LAUNCH)(engine().fixed("nki_openmp", _module)["nki_run_on_openmp"])


def _module() -> ir.Module:
    module = ir.Module("nki_openmp")
    member = _add_member(module, team.add_walk_range(module))
    _add_run(module, member)
    return module


def _add_run(module: ir.Module, member: ir.Function) -> None:
    """``void nki_run_on_openmp(table, rows, args, frame, parallel, thread_number)``."""
    function = ir.Function(
        module, ir.FunctionType(VOID, [POINTER, I64, POINTER, POINTER, I64, I64]), "nki_run_on_openmp"
    )
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    table, rows, args, frame, parallel, thread_number = function.args
    record = b.alloca(ir.ArrayType(I64, len(_RECORD)))
    record.type = POINTER
    for number, value in enumerate((table, rows, args, frame, thread_number)):
        b.store(value, poll.word(b, record, number))
    state = call_api(b, "PyEval_SaveThread", POINTER, [])
    call_compiled(b, parallel_region.begin_address(), parallel_region.FRAME, [frame])
    members = element(b, frame, i64(TEAM), POINTER)
    with b.if_else(b.icmp_signed("==", b.ptrtoint(members, I64), i64(0)), likely=False) as (then, otherwise):
        with then, default_environment(b):
            b.call(engine().declared(module, walk_address(), WALK), [table, rows, args, frame])
        with otherwise:
            b.atomic_rmw("xchg", team.word(b, members, team.STOP), i64(0), "seq_cst")
            threads = b.trunc(element(b, frame, i64(THREADS), I64), I32)
            b.call(b.inttoptr(parallel, _PARALLEL.as_pointer()), [member, record, threads, ir.Constant(I32, 0)])
    call_compiled(b, parallel_region.end_address(), parallel_region.FRAME, [frame])
    call_api(b, "PyEval_RestoreThread", VOID, [state])
    poll.raise_kept(b, poll.slot(b, frame, CONTROL))
    b.ret_void()


_RECORD: Final = ("table", "rows", "args", "frame", "thread_number")
"""Words that the members of a parallel region get, on the stack of its leader."""


def _add_member(module: ir.Module, walk: ir.Function) -> ir.Function:
    """``void nki_member(i64* record)``: the part of a thread in a parallel region."""
    function = ir.Function(module, _REGION, "nki_member")
    b: Any = ir.IRBuilder(function.append_basic_block("entry"))
    table, rows, args, frame, thread_number = (
        element(b, function.args[0], i64(number), I64 if name in ("rows", "thread_number") else POINTER)
        for number, name in enumerate(_RECORD)
    )
    members = element(b, frame, i64(TEAM), POINTER)
    index = b.sext(b.call(b.inttoptr(thread_number, _THREAD_NUMBER.as_pointer()), []), I64)
    with default_environment(b), b.if_else(b.icmp_signed("==", index, i64(0))) as (then, otherwise):
        with then:
            b.call(engine().declared(module, walk_address(), WALK), [table, rows, args, frame])
            team.stop(b, members)
        with otherwise:
            team.help_until_stop(b, walk, members, index)
    b.ret_void()
    return function
