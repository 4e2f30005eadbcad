"""The environment variables that this project reads, each in one place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast


def _choose_lookup() -> Callable[[bytes], bytes | None]:
    """The fastest way to a variable: each launch asks for six.

    CPython keeps the environment in a dictionary, ``os.environ._data``, which has no public name. Its look-up takes
    0.07 µs; ``os.environb`` 1.3 and ``os.environ`` 1.6, in Python code. A launch of a small kernel takes 6.8 µs with
    the first, 8.8 and 9.4 with the others. An interpreter without that dictionary takes the public way.
    """
    raw: Any = getattr(os.environ, "_data", None)
    if os.name == "posix" and isinstance(raw, dict):
        return cast("dict[bytes, bytes]", raw).get
    return lambda name: os.environ.get(name.decode(), "").encode() or None


_lookup: Final = _choose_lookup()
_OFF: Final = (None, b"", b"0")


def simulator() -> bool:
    """``NKI_SIMULATOR=1``: run kernels eagerly, instruction by instruction, instead of compiling them."""
    return _lookup(b"NKI_SIMULATOR") not in _OFF


def compiler_flags() -> str:
    """``NEURON_CC_FLAGS``: options of the vendor's compiler. Beta 1 reads the ones about DMA descriptors."""
    return os.environ.get("NEURON_CC_FLAGS", "")


def facts() -> str:
    """``NKI_FACTS``: a file of calibrated facts that profiles load (``nki profile --calibrate`` writes it); empty if
    unset.
    """
    return os.environ.get("NKI_FACTS", "")


def target() -> bytes | None:
    """``NEURON_PLATFORM_TARGET_OVERRIDE``: the target of kernels that name none; not checked here."""
    return _lookup(b"NEURON_PLATFORM_TARGET_OVERRIDE")


def precise_fp() -> bool:
    """``NKI_PRECISE_FP=0`` makes it False: what kernels make in low precision is stored as float32."""
    return _lookup(b"NKI_PRECISE_FP") != b"0"


def logical_cores() -> bytes:
    """``NEURON_LOGICAL_NC_CONFIG``: 1 or 2, the number of cores of every launch; not checked here, empty if unset."""
    return _lookup(b"NEURON_LOGICAL_NC_CONFIG") or b""


def version() -> bytes | None:
    """``NKI_VERSION``, as it stands: the rules of this release of NKI hold, such as 0.6; unset: of all releases."""
    return _lookup(b"NKI_VERSION")


def frontend() -> bytes | None:
    """``NKI_COMPILER_FRONTEND``: without NKI_VERSION, parser and custom mean rules of 0.6, tracer rules of 0.7."""
    return _lookup(b"NKI_COMPILER_FRONTEND")


def of_compilation() -> tuple[object, ...]:
    """The variables on which a compilation depends: a key, equal if they have the same values."""
    look = _lookup  # one call for all: each cached launch asks
    return (
        look(b"NEURON_PLATFORM_TARGET_OVERRIDE"),
        look(b"NKI_PRECISE_FP") != b"0",
        look(b"NEURON_LOGICAL_NC_CONFIG"),
        look(b"NKI_VERSION"),
        look(b"NKI_COMPILER_FRONTEND"),
    )


def hazards() -> bool:
    """``OPEN_NKI_HAZARDS=0``: compiler and simulator do not look for hazards; runs go on with whatever memory holds."""
    return os.environ.get("OPEN_NKI_HAZARDS", "1") not in ("", "0")


def check() -> bool:
    """``NKI_CHECK=1``: the simulator runs the first call of each compiled kernel too, like ``nki.jit(check=True)``."""
    return os.environ.get("NKI_CHECK", "0") not in ("", "0")


def debug() -> bool:
    """``NKI_DEBUG=1``: errors keep the frames of the compiler in their tracebacks."""
    return os.environ.get("NKI_DEBUG", "0") not in ("", "0")


def draws_progress() -> bool:
    """``TERM=dumb`` makes it False: a terminal that cannot take a line back shows no progress."""
    return os.environ.get("TERM") != "dumb"


def framework_debug() -> bool:
    """``NEURON_FRAMEWORK_DEBUG=1``: XLA keeps the HLO of each program, in binary form (``docs/torch_xla.md``)."""
    return os.environ.get("NEURON_FRAMEWORK_DEBUG", "0") not in ("", "0")


def threads() -> bytes:
    """``NKI_NUM_THREADS``: the threads that run a kernel, at least 1; not checked here, empty if unset."""
    return _lookup(b"NKI_NUM_THREADS") or b""


def rank_timeout() -> str:
    """``NKI_RANK_TIMEOUT``: seconds for which ranks that are processes wait for each other; empty if unset."""
    return os.environ.get("NKI_RANK_TIMEOUT", "")


def openmp_threads() -> bytes:
    """``OMP_NUM_THREADS``: the same for all libraries of the process; a list of numbers by level of nesting."""
    return _lookup(b"OMP_NUM_THREADS") or b""


def cache_folder() -> Path:
    """``OPEN_NKI_CACHE``, else ``open-nki`` in the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``)."""
    folder = os.environ.get("OPEN_NKI_CACHE")
    if folder:
        return _path(folder)
    return _path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "open-nki"


def debug_output_folder() -> Path | None:
    """``NEURON_RT_DEBUG_OUTPUT_DIR``: where ``nl.device_print`` also writes the tensors that it prints."""
    folder = os.environ.get("NEURON_RT_DEBUG_OUTPUT_DIR")
    return _path(folder) if folder else None


def cache_disabled() -> bool:
    """``OPEN_NKI_CACHE_DISABLE=1``: compiled kernels are neither kept on disk nor looked for there."""
    return os.environ.get("OPEN_NKI_CACHE_DISABLE", "0") not in ("", "0")


def cache_native() -> bool:
    """``NKI_CACHE_NATIVE=0``: object code is neither kept on disk nor loaded from there."""
    return os.environ.get("NKI_CACHE_NATIVE", "1") not in ("", "0")


def first_call() -> bytes:
    """``OPEN_NKI_FIRST_CALL``: ``native`` or ``interpreted``, how first calls run whatever takes less time; empty if it
    is neither.
    """
    value = _lookup(b"OPEN_NKI_FIRST_CALL") or b""
    return value if value in (b"native", b"interpreted") else b""


def check_stages() -> bool:
    """``OPEN_NKI_CHECK_STAGES=1``: every compiler stage checks its whole result, as the tests do."""
    return os.environ.get("OPEN_NKI_CHECK_STAGES", "0") not in ("", "0")


def reorder() -> bool:
    """``OPEN_NKI_REORDER=0``: stage ``schedule`` keeps every queue in the order of the program."""
    return os.environ.get("OPEN_NKI_REORDER", "1") not in ("", "0")


def _path(text: str) -> Path:
    """The path in a variable; a shell expands ``~`` only at the beginning of a word, and a Dockerfile nowhere."""
    return Path(os.path.expanduser(text))  # Path.expanduser raises for a user who does not exist
