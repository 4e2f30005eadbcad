"""Native code that no kernel changes: the functions of ``runtime.c`` and ``gather.c``, at their addresses here.

``tools/native_runtime.py`` makes ``runtime.ll`` and ``gather.ll`` out of the C text: LLVM IR, optimised already, that
is the same on every machine; a file for each machine joins it. Each is loaded once in a process, as object code from
the user's cache if it is there. Functions of the C library and of Python are found by their names, so that the code
holds in every process.
"""

from __future__ import annotations

import ctypes
import platform
import re
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final

from nki.numerics.jit import engine
from nki.numerics.llvm_library import binding

_FOLDER: Final = Path(__file__).parent
_MACHINES: Final = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
"""The file of each machine."""
_DECLARED: Final = re.compile(r"^(?:declare [^@]*@|@)(?!llvm\.)(\w+)(?:\(.*| = external .*)\n", re.MULTILINE)
_INSTEAD: Final = "with NKI_SIMULATOR=1 kernels run without it"
_ENTRY: Final = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_CORE: Final = (*_ENTRY, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


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
    return engine().fixed(f"nki_{file}", partial(checked_text, file), optimised=True)


def address(name: str, file: str = "runtime") -> int:
    """The address of the function ``nki_NAME`` of a C file.

    Functions of rows get a frame, the arguments of the row, and the partitions from and to which they run.
    """
    return _addresses(file)[f"nki_{name}"]


def has_threads() -> bool:
    """True if native code has threads on this machine."""
    return platform.machine() in _MACHINES


@cache
def run() -> Callable[[int, int, int, int], None]:
    """``run(table, rows, args, frame)``: walk a table without the interpreter lock.

    Raises what signal handlers and callbacks raised meanwhile.
    """
    # A prototype for functions that know Python: it keeps the lock, and raises the exception that they leave.
    return ctypes.PYFUNCTYPE(None, *_ENTRY)(address("run"))


@cache
def run_with_team() -> Callable[[int, int, int, int], None]:
    """Like :func:`run`, for a frame with a team, which helps unless it helps another launch."""
    return ctypes.PYFUNCTYPE(None, *_ENTRY)(address("run_with_team"))


@cache
def lead() -> Callable[[int, int, int, int, int, int, int], None]:
    """``lead(table, rows, args, frame, lines, rank, cores)``: like :func:`run` for the leader of several cores.

    Opens the gate, and returns when all cores have ended.
    """
    return ctypes.PYFUNCTYPE(None, *_CORE)(address("lead"))


@cache
def follow() -> Callable[[int, int, int, int, int, int, int], int]:
    """``follow(table, rows, args, frame, lines, rank, cores)``: wait at the gate, then walk; what the gate was.

    0: it is neither open nor shut after a while. Raises nothing: the leader does.
    """
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *_CORE)(address("follow"))
