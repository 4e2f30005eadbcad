"""Folders of files that anyone may lose at any time: written whole or not at all, bounded in size, never an error."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_PART = ".part"
_STALE = 3600.0
"""Seconds after which an unfinished file belongs to a process that has died."""
_SERIAL = itertools.count()
_Entry = tuple[str, os.stat_result]


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
    return [(Path(path), status) for path, status in _by_last_use(_entries(suffix, folders))]


def use(path: Path) -> bool:
    """Count the file as used now; False if there is none, or something else under its name."""
    if not path.is_file():
        return False
    with contextlib.suppress(OSError):
        os.utime(path)
    return True


def trim(suffix: str, limit: int, *folders: Path) -> None:
    """Remove what has not been used for longest until ``limit`` bytes are left in all, and what was never finished."""
    finished = list(_entries(suffix, folders))
    total = sum(status.st_size for _, status in finished)
    if total > limit:
        for path, status in reversed(_by_last_use(finished)):
            if total <= limit:
                break
            total -= status.st_size
            remove(Path(path))
    for path, status in _entries(_PART, folders):
        if time.time() - status.st_mtime > _STALE:
            remove(Path(path))


def remove(path: Path) -> None:
    """Remove a file; that may fail, or another process may have done it."""
    with contextlib.suppress(OSError):
        path.unlink()


def _by_last_use(entries: Iterable[_Entry]) -> list[_Entry]:
    """The last one first."""
    return sorted(entries, key=lambda entry: (-entry[1].st_mtime_ns, entry[0]))


def _entries(suffix: str, folders: Iterable[Path]) -> Iterator[_Entry]:
    """The regular files in ``folders`` with names that end in ``suffix``.

    Each kernel that is stored asks for all: a cache has ten thousands of files, so only those are looked at.
    """
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    with contextlib.suppress(OSError):
                        status = entry.stat()
                        if stat.S_ISREG(status.st_mode):
                            yield entry.path, status
