"""LLVM in several threads: each module has a context and a machine of its own, and nothing else is shared.

llvmlite lets one thread at a time into LLVM. The two calls that take the time, the optimisation of a module and the
emission of its object code, go past that lock; with a release of llvmlite that hides the functions, they wait for it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from llvmlite import binding

T = TypeVar("T")
_ffi: Final = binding.ffi


def _unlocked(name: str) -> Any:
    """LLVM's function ``name`` without llvmlite's lock."""
    function = getattr(_ffi.lib, name)
    return getattr(function, "_cfn", function)


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """Run the passes of ``manager``; its builder and the module belong to this thread."""
    _unlocked("LLVMPY_RunNewModulePassManager")(manager, module, builder)


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


class Workers(Generic[T]):
    """Threads that call ``work``, which must not raise, with each item: one for each CPU, as items come.

    Where the system gives no thread, as under a limit of processes or of memory, :meth:`finish` does the work.
    """

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def give(self, item: T) -> None:
        """Let a thread work on ``item``."""
        self._items.put(item)
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name="nki compiles", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread is to be had; those that there are suffice
                self._most = len(self._threads)
            else:
                self._threads.append(thread)

    def finish(self) -> None:
        """Wait until all items are done."""
        for _ in self._threads or (None,):
            self._items.put(None)
        if not self._threads:
            self._run()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            self._work(item)
