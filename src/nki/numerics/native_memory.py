"""Code that LLVM has loaded: one owner, one order of disposal, under one lock.

Objects of llvmlite free LLVM's memory when Python finalizes them. The garbage collector finalizes the members of a
cycle in any order, in any thread, in the middle of any allocation; and a kernel is a member of a cycle wherever the
globals or the closure of its function hold it. So a kernel holds no object of llvmlite. These are in a table of the
process, from which the collector never takes them. A kernel holds a token, whose end puts the entry into a queue,
without a lock. The thread that loads code next frees what is in the queue: first the engine, then the context of its
module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from nki.base.locks import held_at_fork
from nki.numerics.llvm_library import binding

Token = NDArray[np.uint8]
"""An object as long as which code stays in memory.

It is an array, because the collector does not know arrays: one that a cycle holds ends with the memory of its last
owner. What it does know, it finalizes earlier, beside a user's objects, whose finalizers may still call the kernel.
"""
lock: Final = held_at_fork()
"""LLVM is entered by one thread at a time; forking waits for it."""
_loaded: Final[dict[int, tuple[ref[Token], list[Any]]]] = {}
"""By the identity of the reference to a token: that, and objects of llvmlite in the order in which they were made."""
_released: Final[deque[ref[Token]]] = deque()
"""The references to tokens that are gone."""


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


__all__ = ["Token", "dispose", "load", "lock"]
