"""Object code of this host in the user's cache: the next process loads routines instead of compiling them.

Native code runs with all rights of the process, so these files are trusted, unlike artifacts. They lie in a folder that
belongs to the user and that nobody else can write to; each access opens the folder, checks owner and mode of what it
opened, and reaches files through that handle alone. A file has to be the user's own, too, and begins with a digest of
its name and contents. What is damaged is removed, and what is not there is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgpack

from nki.base import files, knobs
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
        data = None if handle is None else files.contents(Path(name), handle, _is_own, os.O_NOFOLLOW | os.O_CLOEXEC)
        if data is None:
            return None
        contents = data[_HEAD:]
        if data[:_HEAD] != _MAGIC + _digest(name, contents):
            files.remove(Path(name), handle)
            return None
        with contextlib.suppress(OSError, NotImplementedError):  # not every system takes both options
            os.utime(name, dir_fd=handle, follow_symlinks=False)
        return contents


def _is_own(status: os.stat_result) -> bool:
    """True of the user's own file, which no one else can write to."""
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return own and not status.st_mode & _OTHERS_WRITE and status.st_size <= _MOST


def write(name: str, contents: bytes) -> None:
    """Keep ``contents`` under ``name``, whole or not at all; nothing happens if the folder cannot be used."""
    with _opened(create=True) as handle:
        if handle is None or len(contents) + _HEAD > _MOST:
            return
        try:
            files.write(Path(name), _MAGIC + _digest(name, contents) + contents, handle)
        except OSError:
            return
        _written["bytes"] += len(contents) + _HEAD
        if _written["bytes"] > _ROUND:
            _written["bytes"] = 0
            files.trim("", LIMIT, handle)


def load(name: str, make: Callable[..., T]) -> T | None:
    """``make`` of the values that :func:`store` has kept under ``name``, which are trusted as code is; None if none."""
    contents = read(name)
    try:
        return None if contents is None else make(*msgpack.unpackb(contents, use_list=False))
    except (TypeError, ValueError):  # complete, and not what this version writes
        with _opened(create=False) as handle:
            if handle is not None:
                files.remove(Path(name), handle)
        return None


def store(name: str, values: tuple[Any, ...]) -> None:
    """:func:`write` values of plain types."""
    write(name, msgpack.packb(values))


def sizes() -> list[int]:
    """The bytes of each file, also if the cache is switched off."""
    with _opened(create=False, enabled=os.name == "posix") as handle:
        return [] if handle is None else [status.st_size for _, status in files.files("", handle)]


def clear() -> int:
    """Remove all files, also if the cache is switched off; their number."""
    with _opened(create=False, enabled=os.name == "posix") as handle:
        found = [] if handle is None else files.files("", handle)
        for path, _ in found:
            files.remove(path, handle)
        return len(found)


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


def _digest(name: str, contents: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + contents).digest()
