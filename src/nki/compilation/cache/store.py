"""Compiled kernels on disk: the next process does not run their Python again.

``kernels`` holds an entry for each compilation, ``klir`` the artifacts that graphs of PyTorch and JAX name. An entry is
the kernel's artifact, a ``.klir`` file named by the kernel's fingerprint: data only, which is verified like any
artifact before it is used. If an entry or the folder is unusable, the kernel is compiled instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from nki import target as targets
from nki.base import files, gc_pause, knobs
from nki.base.errors import NkiError
from nki.base.source import Span
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, NkiSpillWarning, NkiWarning, Warned
from nki.compilation import pipeline
from nki.compilation.hazard_check import CheckHazards
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.program import Program
from nki.ir.text import artifact
from nki.ir.types import TensorSpec
from nki.numerics import object_cache
from nki.target.model import Target

SUFFIX: Final = ".klir"
LIMIT: Final = 512 << 20
"""Limit on the bytes of all entries; the least recently used entries are removed first."""
_ROUND: Final = LIMIT // 16
"""Bytes that a process may write before it checks the folder's size again."""

_STAGES: Final = pipeline.STAGES.without(CheckHazards.name)
"""The stages that an entry passes again: all that native code trusts. Hazards were looked for as it was compiled."""

_CATEGORIES: Final = {
    kind.__name__: kind for kind in (NkiWarning, NkiDeprecationWarning, NkiPortabilityWarning, NkiSpillWarning)
}

_written = {"bytes": _ROUND}  # the first entry of a process looks


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the cache. ``used`` is the time of its last use, in seconds since 1970."""

    path: Path
    kernel: str
    file: str
    line: int
    arguments: tuple[str, ...]
    target: str
    instructions: int
    size: int
    used: float

    @property
    def age(self) -> float:
        return max(0.0, time.time() - self.used)


def folder() -> Path:
    """The folder of the entries."""
    return knobs.cache_folder() / "kernels"


def artifacts_folder() -> Path:
    """The folder of the artifacts that graphs name."""
    return knobs.cache_folder() / "klir"


def load(
    digest: str, specs: Mapping[str, Any], target: Target, floats: Sequence[str] = ()
) -> tuple[Program, list[Warned]] | None:
    """The kernel under ``digest``, verified, and the warnings of its compilation; None if there is no entry.

    An entry is removed unless it was written for ``digest``, its inputs are the tensors among ``specs``, and each
    launch passes it ``floats``.
    """
    path = _path(digest)
    data = files.read(path)
    if data is None:
        return None
    try:
        with gc_pause.paused():
            program = artifact.loads(data, str(path))
            about = artifact.about(data)
            warned = [_warning(item) for item in about["warnings"]]
            if about["digest"] != digest or not _fits(program, specs, target, floats):
                raise ValueError(f"{path} holds another kernel")
            program = pipeline.compile(
                None, {}, targets.find(program.target), start=program, stop=pipeline.NATIVE_STOP, stages=_STAGES
            )
    except (NkiError, KeyError, TypeError, ValueError):
        files.remove(path)  # damaged, or not what this version writes
        return None
    return program, warned


def store(digest: str, program: Program, code: Any, arguments: Mapping[str, Any], warned: Iterable[Warned]) -> None:
    """Keep ``program``, the compiled kernel of the function with ``code``, if the folder can be written to."""
    about = {
        "digest": digest,
        "kernel": program.name,
        "file": code.co_filename,
        "line": code.co_firstlineno,
        "arguments": [_shown(name, value) for name, value in arguments.items()],
        "target": program.target,
        "instructions": program.size,
        "warnings": [[w.span.file, w.span.line, w.message, w.category.__name__] for w in warned],
    }
    data = artifact.dumps(program, about)
    try:
        files.write(_path(digest), data)
    except OSError:
        return
    _count(len(data))


def store_artifact(kernel: str, data: bytes) -> Path:
    """The path of a file with ``data``, an artifact of ``kernel``; named by its content, so that it is written once.

    There is no file if the folder cannot be written to.
    """
    path = artifacts_folder() / f"{_plain(kernel)}-{hashlib.sha256(data).hexdigest()[:20]}{SUFFIX}"
    if not files.use(path):
        with contextlib.suppress(OSError):
            files.write(path, data)
            _count(len(data))
    return path


def _count(written: int) -> None:
    """Count written bytes, and trim the folders now and then."""
    _written["bytes"] += written
    if _written["bytes"] > _ROUND:
        _written["bytes"] = 0
        files.trim(SUFFIX, LIMIT, folder(), artifacts_folder())


def _plain(kernel: str) -> str:
    """The name of a kernel as a part of a file's name."""
    return re.sub(r"\W", "_", kernel)


def entries() -> list[Entry]:
    """All entries, most recently used first; other files are ignored."""
    candidates = (_entry(path, status.st_size, status.st_mtime) for path, status in files.files(SUFFIX, folder()))
    return [entry for entry in candidates if entry is not None]


def artifacts() -> list[tuple[Path, int]]:
    """Path and size of every artifact that was stored for a graph, most recently used first."""
    return [(path, status.st_size) for path, status in files.files(SUFFIX, artifacts_folder())]


def clear(kernel: str | None = None) -> int:
    """Remove the entries and artifacts of ``kernel`` (None: all files of the folders); the number of removed files."""
    paths = [path for path, _ in files.files(SUFFIX, folder(), artifacts_folder())]
    if kernel is not None:
        paths = [entry.path for entry in entries() if entry.kernel == kernel]
        prefix = f"{_plain(kernel)}-"
        paths += [path for path, _ in artifacts() if path.name.startswith(prefix)]
    for path in paths:
        files.remove(path)
    return len(paths)


def native_folder() -> Path:
    """The folder of native code, which has a limit of its own."""
    return object_cache.folder()


def native_sizes() -> list[int]:
    """The bytes of each file of native code."""
    return object_cache.sizes()


def clear_native() -> int:
    """Remove all native code; the number of removed files."""
    return object_cache.clear()


def note_path(digest: str) -> Path:
    """The file that tells for which floats kernels under ``digest`` were compiled; see ``specialized_entries``."""
    return folder() / f"{digest[:40]}-floats{SUFFIX}"


def _path(digest: str) -> Path:
    return folder() / f"{digest[:40]}{SUFFIX}"


def _warning(item: Any) -> Warned:
    file, line, message, category = item
    return Warned(Span(str(file), int(line)), str(message), _CATEGORIES[category])


def _fits(program: Program, specs: Mapping[str, Any], target: Target, floats: Sequence[str]) -> bool:
    """True if ``program`` is for ``target`` and takes the tensors among ``specs``, which native code trusts, and
    ``floats``.
    """
    if [spec.name for spec in program.signature.floats] != list(floats):
        return False
    expected = [(spec.shape, spec.dtype) for spec in specs.values() if isinstance(spec, TensorSpec)]
    return program.target == target.name and expected == [(t.shape, t.dtype) for t in program.signature.inputs]


def _shown(name: str, value: Any) -> str:
    if isinstance(value, TensorSpec):
        return f"{name}={'x'.join(map(str, value.shape))}:{value.dtype}"
    if type(value) is RuntimeFloat:
        return f"{name}: float"
    text = repr(value) if value is None or isinstance(value, bool | int | float | str | tuple | list) else "…"  # pyright: ignore[reportUnknownArgumentType]
    return f"{name}={text if len(text) <= 40 else '…'}"


def _entry(path: Path, size: int, used: float) -> Entry | None:
    try:
        about = artifact.about(files.contents(path) or b"")
        return Entry(
            path,
            str(about["kernel"]),
            str(about["file"]),
            int(about["line"]),
            tuple(map(str, cast("list[Any]", about["arguments"]))),
            str(about["target"]),
            int(about["instructions"]),
            size,
            used,
        )
    except (NkiError, OSError, KeyError, TypeError, ValueError):
        return None
