"""Resident memory of this process and of others, on Linux; 0 elsewhere."""

from __future__ import annotations

import contextlib
from pathlib import Path


def of_process(process: int | str = "self", name: str = "VmRSS") -> int:
    """Bytes of the entry ``name`` in the status of a process; 0 if there is none."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    return 0


class Highest:
    """The highest peak of this process in the test that runs, in bytes."""

    octets = 0


def begin() -> int:
    """Set the peak of this process back to what is resident now, which this returns, in bytes."""
    Highest.octets = max(Highest.octets, peak())
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return of_process()


def peak() -> int:
    """The most bytes that were resident since :func:`begin`."""
    return of_process(name="VmHWM")


def available() -> int:
    """Bytes that the machine can give to new work; 8 GiB where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 8 << 30
