"""Native code that no kernel changes: the functions of the C files beside this one, at their addresses here.

``tools/native_runtime.py`` makes ``runtime.ll`` and others out of the C text: LLVM IR, optimised already, that is the
same on every machine; a file for each machine joins it. Each is loaded once in a process, as object code from
the user's cache if it is there. Functions of the C library and of Python are found by their names, so that the code
holds in every process.
"""

from __future__ import annotations

import ctypes
import platform
import re
import signal
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final

from nki.numerics.llvm_jit import Passes, engine
from nki.numerics.llvm_library import binding

_FOLDER: Final = Path(__file__).parent
_MACHINES: Final = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""The file of each machine."""
_DECLARED: Final = re.compile(r"^(?:declare [^@]*@|@)(?!llvm\.)(\w+)(?:\(.*| = external .*)\n", re.MULTILINE)
_INSTEAD: Final = "with NKI_SIMULATOR=1 kernels run without it"


def text(file: str, machine: str) -> str:
    """The IR of a C file on ``machine``, as Python names it. Raises ``KeyError`` for a machine without a file."""
    own = (_FOLDER / f"{_MACHINES[machine]}.ll").read_text(encoding="utf-8")
    common = (_FOLDER / f"{file}.ll").read_text(encoding="utf-8")
    clock = f"@nki_monotonic_clock = internal constant i32 {getattr(time, 'CLOCK_MONOTONIC', 1)}\n"
    common = _DECLARED.sub(lambda found: "" if found[1].startswith("nki_") else found[0], common)
    return f"{common}{clock}{own}"


def checked_text(file: str) -> str:
    """The IR of a C file for this process. Raises ``RuntimeError`` where native code cannot run."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise RuntimeError(f"native code runs on {', '.join(_MACHINES)}; this machine is {machine}; {_INSTEAD}")
    ir = text(file, machine)
    missing = [name for name in _DECLARED.findall(ir) if binding.address_of_symbol(name) is None]
    if missing:
        raise RuntimeError(f"native code calls functions that are not here: {', '.join(missing)}; {_INSTEAD}")
    return ir


@cache
def _addresses(file: str) -> dict[str, int]:
    return engine().fixed(f"nki_{file}", partial(checked_text, file), Passes.none)


def address(name: str, file: str = "runtime") -> int:
    """The address of the function ``nki_NAME`` of a C file.

    Those that a dispatch table calls get a frame, the arguments of the entry, and the partitions from and to which they
    run.
    """
    return _addresses(file)[f"nki_{name}"]


def has_threads() -> bool:
    """True if native code has threads here, which thread pools consist of."""
    return platform.machine() in _MACHINES and hasattr(signal, "pthread_sigmask")


@cache
def entry(name: str) -> Callable[..., int]:
    """A function that enters native code without the interpreter lock, and walks a part of a frame's table.

    ``run(frame, entries)`` raises what signal handlers and callbacks raised meanwhile, and so does
    ``lead(frame, first, entries, lines, cores)``, for the first of several cores: it opens the gate, and returns when
    all cores have ended. ``follow``, with the same arguments, is for the others: it waits at the gate, walks, and
    returns what the gate was; 0: it is neither open nor shut after a while.
    """
    # A prototype for functions that know Python: it keeps the lock, and raises the exception that they leave.
    result = ctypes.c_int64 if name == "follow" else None
    return ctypes.PYFUNCTYPE(result, ctypes.c_void_p, *[ctypes.c_int64] * (1 if name == "run" else 4))(address(name))
