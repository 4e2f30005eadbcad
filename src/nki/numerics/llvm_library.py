"""LLVM's library, and what llvmlite leaves to its users: compilation in several threads, and the end of loaded code.

llvmlite lets one thread at a time into LLVM. Each module has a context and a machine of its own, and nothing else is
shared. So the two calls that take the time, the optimisation of a module and the emission of its object code, go past
that lock; with a release of llvmlite that hides the functions, they wait for it.

Objects of llvmlite free LLVM's memory when Python finalizes them. The garbage collector finalizes the members of a
cycle in any order, in any thread, in the middle of any allocation; and a kernel is a member of a cycle wherever the
globals or the closure of its function hold it. So a kernel holds no object of llvmlite. These are in a table of the
process, from which the collector never takes them. A kernel holds a token; its end puts the entry into a queue,
without a lock. The thread that loads code next frees what is in the queue: first the engine, then the context of its
module.
"""

from __future__ import annotations

import _thread
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Final, Generic, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from nki.base import gc_pause
from nki.base.locks import held_at_fork
from nki.numerics.codegen_error import NativeLibraryError

try:
    from llvmlite import binding
except OSError as error:
    raise NativeLibraryError(
        f"LLVM, which makes native code, cannot be loaded: {error.__context__ or error!s:.300}",
        fix="raise the limit of the process on memory (ulimit -v), as LLVM takes 250 MiB of addresses; or install its "
        "library again: pip install --force-reinstall llvmlite",
    ) from error

T = TypeVar("T")
Token = NDArray[np.uint8]
"""An object as long as which code stays in memory.

It is an array, because the collector does not know arrays: one that a cycle holds ends with the memory of its last
owner. What it does know, it finalizes earlier, beside a user's objects, and their finalizers may still call the kernel.
"""
lock: Final = held_at_fork()
"""LLVM is entered by one thread at a time; forking waits for it."""
_loaded: Final[dict[int, tuple[ref[Token], list[Any]]]] = {}
"""By the identity of the reference to a token: that, and objects of llvmlite in the order in which they were made."""
_released: Final[deque[ref[Token]]] = deque()
"""The references to tokens that are gone."""
_ffi: Final = binding.ffi


def _unlocked(name: str) -> Any:
    """LLVM's function ``name`` without llvmlite's lock."""
    function = getattr(_ffi.lib, name)
    return getattr(function, "_cfn", function)


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """Run the passes of ``manager``, which is gone then; its builder and the module belong to this thread."""
    try:
        _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)
    finally:
        # llvmlite frees no manager: the class inherits an empty method before the one that frees, 48 KiB for each.
        if (dispose := getattr(_ffi.lib, "LLVMPY_DisposeNewModulePassManger", None)) is not None:
            dispose(manager)
            manager.detach()


def emit_object(machine: Any, module: Any) -> bytes:
    """The object code of ``module``; both belong to this thread. Raises ``RuntimeError`` with LLVM's message."""
    emit, lib = _unlocked("LLVMPY_TargetMachineEmitToMemory"), _ffi.lib
    with _ffi.OutputString() as message:
        buffer = emit(machine, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


def is_inside() -> bool:
    """True if this thread holds llvmlite's lock: it runs a handler of a signal that came in a call of llvmlite.

    Other threads wait for that lock then, so this one must not wait for them. The lock is re-entrant, and handlers run
    between calls of LLVM itself. False with a release of llvmlite that hides the lock.
    """
    lock = getattr(getattr(_ffi.lib, "_lock", None), "_lock", None)
    return lock is not None and lock._is_owned()


class Workers(Generic[T]):
    """Threads that call ``work`` with each item: one for each CPU, as items come.

    Nothing depends on their start, which a limit of processes or of memory may prevent, also after the system has
    promised it: :meth:`finish` does what they have not begun.

    The garbage collector is off as long as they run: it would call finalizers in a thread for which the one with LLVM's
    lock waits, and a finalizer may call a kernel.
    """

    most: ClassVar[int | None] = None
    """Limit on the threads, None for one for each CPU; with 0 the thread that waits does all by itself."""

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        """An entry for each item that was worked on."""
        self._open = 0
        """Items with entries that were not taken yet."""
        self._threads = 0
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._most = processors if self.most is None else self.most
        self._pause = ExitStack()

    def give(self, item: T) -> None:
        """Let a thread work on ``item``."""
        if not self._open:
            self._pause.enter_context(gc_pause.paused())
        self._open += 1
        self._items.put(item)
        if self._threads < self._most and not is_inside():
            try:
                _thread.start_new_thread(self._run, ())
            except (RuntimeError, MemoryError):  # no thread is to be had; those that there are suffice
                self._most = self._threads
            else:
                self._threads += 1

    def finish(self) -> None:
        """Work until all items are done; the threads end then. Raises what ``work`` raises here."""
        with self._pause:
            for _ in range(self._threads):
                self._items.put(None)
            self._threads = 0
            with suppress(Empty):
                while (item := self._items.get_nowait()) is not None:
                    self._do(item)
                self._items.put(None)  # of a thread
            while self._open:
                self._ended.get()
                self._open -= 1

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            self._do(item)

    def _do(self, item: T) -> None:
        try:
            self._work(item)
        finally:
            self._ended.put(None)


def load(
    object_code: bytes, names: Iterable[str], machine: Any, parsed: Callable[[str, Any], Any]
) -> tuple[Token, dict[str, int]]:
    """Load ``object_code``; the addresses of its functions ``names``. The caller holds the lock.

    ``machine`` is a target machine that nothing else uses, ``parsed(ir, context)`` a new module.
    """
    dispose()
    token = np.empty(0, np.uint8)
    reference, own = ref(token, _released.append), list[Any]()
    _loaded[id(reference)] = reference, own
    # As an object file, because a JIT engine that compiles keeps its whole machine: 1 MiB for each module.
    object_file = binding.ObjectFileRef.from_data(object_code)
    own.append(context := binding.create_context())
    own.append(jit := binding.create_mcjit_compiler(parsed("", context), machine))
    jit.add_object_file(object_file)
    jit.finalize_object()
    return token, {name: jit.get_function_address(name) for name in names}


def dispose() -> None:
    """Free the code that nothing uses any more. The caller holds the lock."""
    while True:
        try:
            reference = _released.popleft()  # the handler of a signal that comes here meanwhile does not find it
        except IndexError:
            return
        _, own = _loaded.get(id(reference), (reference, []))  # no entry: a signal ended the load at its first step
        for each in reversed(own):
            each.close()
        _loaded.pop(id(reference), None)  # last: what an exception interrupts stays, and no finalizer frees it again


__all__ = [
    "Token",
    "Workers",
    "binding",
    "dispose",
    "emit_object",
    "is_inside",
    "load",
    "lock",
    "run_passes",
]
