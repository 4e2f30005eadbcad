"""Folders of files that anyone may lose at any time: written whole or not at all, bounded in size, never an error."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_PART = ".part"
_STALE = 3600.0
"""Seconds after which an unfinished file belongs to a process that has died."""
_SERIAL = itertools.count()


def write(path: Path, data: bytes) -> None:
    """Write whole or not at all: another process may read or write the same file. Raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Not by ``tempfile``, which takes longer to import than ``nki.target``.
    name = path.parent / f"{path.stem}.{os.getpid()}.{time.time_ns()}.{next(_SERIAL)}{_PART}"
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:  # Ctrl-C, too, leaves nothing behind
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def read(path: Path) -> bytes | None:
    """The contents of the file, None if it cannot be read. The file counts as used now."""
    data = contents(path)
    if data is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
    return data


def contents(path: Path) -> bytes | None:
    """The contents of a regular file, None if there is none or it cannot be read.

    Anyone may put a fifo or a device under the name: to open one, or to read from it, may wait forever.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None


def files(suffix: str, *folders: Path) -> list[tuple[Path, os.stat_result]]:
    """The finished files in ``folders``, the one used last first; none where there is no folder."""
    entries = [(path, status) for folder in folders for path, status in _all(folder) if path.suffix == suffix]
    return sorted(entries, key=lambda item: (-item[1].st_mtime_ns, item[0].name))


def use(path: Path) -> bool:
    """Count the file as used now; False if there is none, or something else under its name."""
    if not path.is_file():
        return False
    with contextlib.suppress(OSError):
        os.utime(path)
    return True


def trim(suffix: str, limit: int, *folders: Path) -> None:
    """Remove what has not been used for longest until ``limit`` bytes are left in all, and what was never finished."""
    total = 0
    for path, status in files(suffix, *folders):
        total += status.st_size
        if total > limit:
            remove(path)
    for path, status in files(_PART, *folders):
        if time.time() - status.st_mtime > _STALE:
            remove(path)


def remove(path: Path) -> None:
    """Remove a file; that may fail, or somebody else may have done it."""
    with contextlib.suppress(OSError):
        path.unlink()


def _all(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The regular files in ``folder``."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = folder / name
        with contextlib.suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield path, status
