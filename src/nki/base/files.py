"""Folders of files that anyone may lose at any time: written whole or not at all, bounded in size, never an error.

A file is named by its path; or by its name in an open folder, with the folder's handle passed as ``folder``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

_PART: Final = ".part"
_STALE: Final = 3600.0
"""Seconds after which an unfinished file belongs to a process that has died."""
_SERIAL: Final = itertools.count()
_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_Folder = Path | int
"""A path, or a handle."""
_Entry = tuple[str, os.stat_result, int | None]
"""Path or name, status, and the handle of the folder if that is open."""


def _regular(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def write(path: Path, data: bytes, folder: int | None = None) -> None:
    """Write whole or not at all: another process may read or write the same file. Raises ``OSError``."""
    if folder is None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Not by ``tempfile``, which takes longer to import than ``nki.target``.
    part = path.parent / f"{path.stem}.{os.getpid()}.{time.time_ns()}.{next(_SERIAL)}{_PART}"
    try:
        with os.fdopen(os.open(part, _WRITE, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
        os.replace(part, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # Ctrl-C, too, leaves nothing behind
        remove(part, folder)
        raise


def read(path: Path) -> bytes | None:
    """The contents of the file, None if it cannot be read. The file counts as used now."""
    data = contents(path)
    if data is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
    return data


def contents(
    path: Path, folder: int | None = None, accepts: Callable[[os.stat_result], bool] = _regular, flags: int = 0
) -> bytes | None:
    """The contents of a regular file, None if there is none, it cannot be read, or its status is not what ``accepts``.

    Anyone may put a fifo or a device under the name: to open one, or to read from it, may wait forever.
    """
    try:
        handle = os.open(path, _READ | flags, dir_fd=folder)
        with os.fdopen(handle, "rb") as file:
            return file.read() if accepts(os.fstat(handle)) else None
    except OSError:
        return None


def files(suffix: str, *folders: _Folder) -> list[tuple[Path, os.stat_result]]:
    """The files in ``folders``, the one used last first; none where there is no folder."""
    return [(Path(path), status) for path, status, _ in _by_last_use(_entries(suffix, folders))]


def use(path: Path) -> bool:
    """Count the file as used now; False if there is none, or something else under its name."""
    if not path.is_file():
        return False
    with contextlib.suppress(OSError):
        os.utime(path)
    return True


def trim(suffix: str, limit: int, *folders: _Folder) -> None:
    """Remove what has not been used for longest until ``limit`` bytes are left in all, and what was never finished."""
    finished = [entry for entry in _entries(suffix, folders) if not entry[0].endswith(_PART)]
    total = sum(status.st_size for _, status, _ in finished)
    if total > limit:
        for path, status, folder in reversed(_by_last_use(finished)):
            if total <= limit:
                break
            total -= status.st_size
            remove(Path(path), folder)
    for path, status, folder in _entries(_PART, folders):
        if time.time() - status.st_mtime > _STALE:
            remove(Path(path), folder)


def remove(path: Path, folder: int | None = None) -> None:
    """Remove a file; that may fail, or another process may have done it."""
    with contextlib.suppress(OSError):
        os.unlink(path, dir_fd=folder)


def _by_last_use(entries: Iterable[_Entry]) -> list[_Entry]:
    """The last one first."""
    return sorted(entries, key=lambda entry: (-entry[1].st_mtime_ns, entry[0]))


def _entries(suffix: str, folders: Iterable[_Folder]) -> Iterator[_Entry]:
    """The regular files in ``folders`` with names that end in ``suffix``; in one that is open, links are none.

    Each kernel that is stored asks for all: a cache has ten thousands of files, so only those are looked at.
    """
    for folder in folders:
        handle = folder if isinstance(folder, int) else None
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=handle is None)
                        if _regular(status):
                            yield entry.path, status, handle
