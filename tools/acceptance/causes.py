"""The cause of a failure or of a skip in a few words, the same for all tests that fail alike."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

from nki.base.errors import NkiError
from tools.acceptance.comparisons import UnwrittenValuesError, WrongValuesError
from tools.acceptance.launches import DifferentBitsError
from tools.acceptance.library import ROOT
from tools.acceptance.orchestrator import TooLargeError
from tools.acceptance.phases import TimeLimitError

ALONE: Final = "alone"
"""No cause: the test is to run again with the whole memory of the machine."""
VALUES: Final = "values differ from the reference"
UNWRITTEN: Final = "values of elements that the kernel never writes"
BITS: Final = "executors differ"
SKIPPED: Final = "skipped by the library"
EXPECTED: Final = "expected by the library"
"""It marks the test as one that fails (xfail)."""
ASSERTION: Final = "the kernel's own assertion"
LIBRARY: Final = "the library's test"
LIMIT: Final = "time limit"
MEMORY: Final = "memory of this machine"
CRASH: Final = "crash of the process"
LOST: Final = "not collected again"
_ASSERTIONS: Final = "Kernel validation exception"
"""Words of the library's own helper for assertions in kernels."""


def of_error(error: BaseException, tree: Path, phase: str) -> str:
    """The cause of a failed test of the library at ``tree`` that raised ``error`` in ``phase``."""
    if isinstance(error, TooLargeError):
        return ALONE
    if isinstance(error, TimeLimitError):
        return f"{LIMIT}: {phase}"
    if isinstance(error, UnwrittenValuesError):
        return UNWRITTEN
    if isinstance(error, WrongValuesError):
        return VALUES
    if isinstance(error, DifferentBitsError):
        return BITS
    if isinstance(error, MemoryError):
        return MEMORY
    if _ASSERTIONS in str(error):
        return ASSERTION
    if isinstance(error, NkiError):
        return f"{error.code} {type(error).__name__}"
    return f"{_owner(error.__traceback__, tree)}: {type(error).__name__}"


def _owner(trace: TracebackType | None, tree: Path) -> str:
    """The last of the library and Open NKI that was at work: a kernel that raises a Python error is the library's."""
    for frame in reversed(traceback.extract_tb(trace)):
        if frame.filename.startswith(f"{tree}/test"):
            return LIBRARY
        if frame.filename.startswith(f"{tree}/"):
            return "the kernel's Python"
        if frame.filename.startswith(f"{ROOT}/"):
            return "Open NKI"
    return LIBRARY


def places(trace: TracebackType | None, count: int = 4) -> list[str]:
    """File and line of the innermost ``count`` frames, outermost first."""
    linecache.clearcache()
    return [f"{'/'.join(Path(f.filename).parts[-3:])}:{f.lineno}" for f in traceback.extract_tb(trace)[-count:]]
