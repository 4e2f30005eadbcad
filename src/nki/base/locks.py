"""Locks of this package, which a child process finds in a usable state whatever the threads of its parent did.

A child has only the thread that forked, and a copy of every lock as it was: one that another thread held stays locked
for ever. There are two ways out. A lock that guards plain Python data, which is consistent between any two
instructions, is replaced by a new one in the child. A lock that guards a library's memory is acquired before the fork
and released after it, so that no other thread is inside the library at that moment.
"""

from __future__ import annotations

import _thread
import importlib
import os
import sys
import threading
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any
from weakref import WeakSet


class Lock:
    """A re-entrant lock for Python data; in a child process it is free."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _renewed.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Free the lock if a thread that this process does not have holds it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_renewed: WeakSet[Lock] = WeakSet()


def _renew() -> None:
    for lock in list(_renewed):
        lock.renew()


_held: list[Any] = []
"""Locks that forking waits for, in the order of their creation."""
_taken: list[Any] = []
"""Those that the thread that forks has acquired."""


def held_at_fork() -> threading.RLock:  # pyright: ignore[reportGeneralTypeIssues]
    """A lock that forking waits for: neither parent nor child is then in the middle of what it guards."""
    lock = threading.RLock()
    _held.append(lock)
    return lock


def _take() -> None:
    """Acquire every lock, the newest first: who holds a newer one may ask for an older one."""
    while True:
        locks = list(reversed(_held))
        for lock in locks:
            lock.acquire()
        if len(locks) == len(_held):
            break
        for lock in locks:  # a module that another thread imported meanwhile has a lock of its own
            lock.release()
    _taken[:] = locks


def _release() -> None:
    for lock in _taken:
        lock.release()
    _taken.clear()


_imports = held_at_fork()
_PACKAGE = __name__.partition(".")[0]
_PATIENCE = 30.0
"""Seconds after which a thread that the system has promised counts as lost."""


def imported(name: str) -> Any:
    """The module ``name``, imported now if it was not; nothing finds it half imported.

    Not a child process, and not the handler of a signal that calls a kernel: the handler interrupts the main thread and
    could not wait for it. So another thread imports for the main thread, which can.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    if threading.current_thread() is not threading.main_thread() or _is_importing():
        return _import(name)
    outcome: SimpleQueue[BaseException | None] = SimpleQueue()
    try:
        _thread.start_new_thread(_import_for_main, (name, outcome))
        outcome.get(timeout=_PATIENCE)
    except (RuntimeError, MemoryError, Empty):  # there is no thread to be had
        return _import(name)
    if (error := outcome.get()) is not None:
        raise error
    return sys.modules[name]


def _is_importing() -> bool:
    """True if this thread imports a module of this package: another one would wait for it."""
    frame: Any = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and str(frame.f_locals.get("name")).startswith(_PACKAGE):
            return True
        frame = frame.f_back
    return False


def _import(name: str) -> Any:
    with _imports:
        return importlib.import_module(name)


def _import_for_main(name: str, outcome: SimpleQueue[BaseException | None]) -> None:
    outcome.put(None)  # it runs
    try:
        _import(name)
    except BaseException as error:
        outcome.put(error)
    else:
        outcome.put(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_release, after_in_child=_release)
    os.register_at_fork(after_in_child=_renew)
