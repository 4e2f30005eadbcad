"""Object code of this host in the user's cache: the next process loads routines instead of compiling them.

Native code runs with all rights of the process, so these files are trusted, unlike artifacts. They lie in a folder that
belongs to the user and that nobody else can write to; each access opens the folder, checks owner and mode of what it
opened, and reaches files through that handle alone. A file has to be the user's own, too, and begins with a digest of
its name and contents. What is damaged is removed, and what is not there is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgpack

from nki.base import knobs
from nki.base.warning import NkiWarning

T = TypeVar("T")
LIMIT: Final = 256 << 20
"""Limit on the bytes of all files; those that were not used for longest are removed first."""
_ROUND: Final = LIMIT // 16
"""Bytes that a process may write before it checks the folder's size again."""
_MAGIC: Final = b"nki native 2\n"
_HEAD: Final = len(_MAGIC) + 32
_MOST: Final = 64 << 20
"""Bytes of the largest file."""
_PART: Final = ".part"
_STALE: Final = 3600.0
"""Seconds after which an unfinished file belongs to a process that has died."""
_SERIAL = itertools.count()
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

_written = {"bytes": _ROUND}  # the first file of a process looks
_refused: set[str] = set()


def folder() -> Path:
    """The folder of the object code."""
    return knobs.cache_folder() / "native"


def is_enabled() -> bool:
    """True unless switched off, or on a system without owners of files."""
    return os.name == "posix" and knobs.cache_native() and not knobs.cache_disabled()


def read(name: str) -> bytes | None:
    """The contents under ``name``; None if there is none. The file counts as used now."""
    with _opened(create=False) as handle:
        if handle is None:
            return None
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if not own or status.st_mode & _OTHERS_WRITE or status.st_size > _MOST:
                return None
            data = _all_of(file)
            with contextlib.suppress(OSError):
                os.utime(file)
        except OSError:
            return None
        finally:
            os.close(file)
        contents = data[_HEAD:]
        if data[:_HEAD] == _MAGIC + _digest(name, contents):
            return contents
        _remove(name, handle)
        return None


def write(name: str, contents: bytes) -> None:
    """Keep ``contents`` under ``name``, whole or not at all; nothing happens if the folder cannot be used."""
    with _opened(create=True) as handle:
        if handle is None or len(contents) + _HEAD > _MOST:
            return
        part = f"{name}.{os.getpid()}.{time.time_ns()}.{next(_SERIAL)}{_PART}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(part, flags, 0o600, dir_fd=handle), "wb") as file:
                file.write(_MAGIC + _digest(name, contents) + contents)
            os.replace(part, name, src_dir_fd=handle, dst_dir_fd=handle)
        except OSError:
            _remove(part, handle)
            return
        except BaseException:  # Ctrl-C, too, leaves nothing behind
            _remove(part, handle)
            raise
        _written["bytes"] += len(contents) + _HEAD
        if _written["bytes"] > _ROUND:
            _written["bytes"] = 0
            _trim(handle)


def load(name: str, make: Callable[..., T]) -> T | None:
    """``make`` of the values that :func:`store` has kept under ``name``, which are trusted as code is; None if none."""
    contents = read(name)
    try:
        return None if contents is None else make(*msgpack.unpackb(contents, use_list=False))
    except (TypeError, ValueError):  # complete, and not what this version writes
        with _opened(create=False) as handle:
            if handle is not None:
                _remove(name, handle)
        return None


def store(name: str, values: tuple[Any, ...]) -> None:
    """:func:`write` values of plain types."""
    write(name, msgpack.packb(values))


def sizes() -> list[int]:
    """The bytes of each file, also if the cache is switched off."""
    with _opened(create=False, enabled=os.name == "posix") as handle:
        return [] if handle is None else [status.st_size for _, status in _files(handle)]


def clear() -> int:
    """Remove all files, also if the cache is switched off; their number."""
    with _opened(create=False, enabled=os.name == "posix") as handle:
        names = [] if handle is None else [name for name, _ in _files(handle)]
        for name in names:
            assert handle is not None
            _remove(name, handle)
        return len(names)


@contextmanager
def _opened(create: bool, enabled: bool | None = None) -> Generator[int | None]:
    """A handle of the folder, None if there is none that can be used."""
    handle = _open(create) if (is_enabled() if enabled is None else enabled) else None
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _open(create: bool) -> int | None:
    path = folder()
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        if path.is_symlink():
            _refuse(path, "is a link")
        return None
    status = os.fstat(handle)
    if status.st_uid != os.geteuid():
        problem = "belongs to another user"
    elif status.st_mode & _OTHERS_WRITE:
        problem = f"can be written to by others (mode {stat.S_IMODE(status.st_mode):o})"
    else:
        return handle
    os.close(handle)
    _refuse(path, problem)
    return None


def _refuse(path: Path, problem: str) -> None:
    """Warn, once in a process, that the folder is not used."""
    if str(path) in _refused:
        return
    _refused.add(str(path))
    warnings.warn(
        f"native code is not cached: {path} {problem}. Make it a folder of your own with mode 700, or set "
        "NKI_CACHE_NATIVE=0",
        NkiWarning,
        stacklevel=2,
    )


def _all_of(file: int) -> bytes:
    parts: list[bytes] = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _digest(name: str, contents: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + contents).digest()


def _remove(name: str, handle: int) -> None:
    """Remove a file; that may fail, or somebody else may have done it."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=handle)


def _files(handle: int) -> list[tuple[str, os.stat_result]]:
    """The regular files of the folder, the one used last first."""
    entries: list[tuple[str, os.stat_result]] = []
    for name in os.listdir(handle):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                entries.append((name, status))
    return sorted(entries, key=lambda item: (-item[1].st_mtime_ns, item[0]))


def _trim(handle: int) -> None:
    """Remove what has not been used for longest until :data:`LIMIT` bytes are left, and what was never finished."""
    total = 0
    for name, status in _files(handle):
        if name.endswith(_PART):
            if time.time() - status.st_mtime > _STALE:
                _remove(name, handle)
            continue
        total += status.st_size
        if total > LIMIT:
            _remove(name, handle)
