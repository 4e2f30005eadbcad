"""The ``.klir`` artifact: a kernel as a file that needs neither its source nor this process.

A MessagePack map: ``format`` ("open-nki klir"), ``version`` of the format, ``compiler`` that wrote it, ``kernel`` (the
text form, zlib-compressed) and ``digest`` (SHA-256 of the uncompressed text); ``about``, if its writer has something to
say of it that is no part of the kernel. Reading one runs no code from it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgpack

from nki.base.errors import ArtifactError, TextError
from nki.base.version import version
from nki.ir.program import Program
from nki.ir.text.parser import MOST_DATA, parse
from nki.ir.text.printer import show

FORMAT = "open-nki klir"
VERSION = 3
LARGEST = 1 << 28
"""Bytes of text that an artifact may hold: a damaged file must not exhaust memory."""
_FIX = "compile the kernel again"


def dumps(kernel: Program, about: Mapping[str, Any] | None = None) -> bytes:
    """The artifact of ``kernel``; ``about``, of JSON values, comes along and is read by :func:`about` only."""
    text = show(kernel).encode()
    if len(text) > LARGEST:
        raise ArtifactError(
            f"kernel {kernel.name!r} takes {len(text)} bytes of text; an artifact holds at most {LARGEST}",
            fix="pass large constants as arguments",
        )
    data = sum(t.nbytes for t in {t: None for core in kernel.cores for t in core.constants()})
    if data > MOST_DATA:
        raise ArtifactError(
            f"kernel {kernel.name!r} holds {data} bytes of constants; an artifact holds at most {MOST_DATA}",
            fix="pass large constants as arguments",
        )
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "compiler": version(),
        "digest": hashlib.sha256(text).hexdigest(),
        "kernel": zlib.compress(text, 6),
    }
    if about is not None:
        content["about"] = dict(about)
    return msgpack.packb(content)


def note(about: Mapping[str, Any]) -> bytes:
    """A file of this format that holds ``about``, of JSON values, and no kernel."""
    return msgpack.packb({"format": FORMAT, "version": VERSION, "compiler": version(), "about": dict(about)})


def loads(data: bytes, origin: str = "artifact") -> Program:
    """The kernel in ``data``. Raises :class:`ArtifactError` for damaged, foreign or newer files."""
    fields = _fields(data, origin)
    packed = fields.get("kernel")
    if not isinstance(packed, bytes):
        raise ArtifactError(f"{origin} holds no kernel", fix=_FIX)
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(packed, LARGEST)
    except zlib.error:
        raise ArtifactError(f"{origin} is damaged", fix=_FIX) from None
    if not unpacker.eof or unpacker.unused_data or hashlib.sha256(text).hexdigest() != fields.get("digest"):
        raise ArtifactError(f"{origin} is damaged: its digest does not match", fix=_FIX)
    try:
        return parse(text.decode())
    except (TextError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{origin} holds a kernel that this version cannot read: {error}", fix=_FIX) from None


def digest(data: bytes, origin: str = "artifact") -> str:
    """The SHA-256 of the kernel's text, whichever compiler wrote it. The kernel is not checked."""
    return str(_fields(data, origin).get("digest"))


def about(data: bytes, origin: str = "artifact") -> dict[str, Any]:
    """The writer's description of the artifact, empty if there is none. The kernel is not checked."""
    description = _fields(data, origin).get("about")
    return cast(dict[str, Any], description) if isinstance(description, dict) else {}


def _fields(data: bytes, origin: str) -> dict[str, Any]:
    """The artifact's fields, of the right format and version."""
    try:
        content: Any = msgpack.unpackb(data)
    except Exception:  # msgpack documents no common base for what damaged input can raise
        raise ArtifactError(f"{origin} is not a kernel artifact, or is damaged", fix=_FIX) from None
    if not isinstance(content, dict) or cast(dict[str, Any], content).get("format") != FORMAT:
        raise ArtifactError(f"{origin} is not an Open NKI artifact", fix="pass a .klir file that this project wrote")
    fields = cast(dict[str, Any], content)
    if fields.get("version") != VERSION:
        raise ArtifactError(
            f"{origin} has format version {fields.get('version')} (by open-nki {fields.get('compiler')}); "
            f"this is open-nki {version()}, which reads version {VERSION}",
            fix=_FIX,
        )
    return fields


def load(path: Path) -> Program:
    """The kernel in the file at ``path``."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise ArtifactError(f"cannot read {path}: {error}", fix="check the path") from None
    return loads(data, str(path))
