"""The ``.nkix`` file: an exported program of PyTorch or JAX, with a list of the compiled kernels that it holds.

A ZIP archive of two uncompressed members, so that other tools can look inside: ``manifest.json`` and ``program.pt2`` or
``program.jax``. Its comment, the last 64 bytes of the file, is the SHA-256 of everything before it, in hexadecimal.
Equal models give equal bytes. Reading one runs no code from it, and nothing is extracted to disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from nki.base import files
from nki.base.version import version
from nki.compilation.launch_errors import ModelFileError

FORMAT: Final = "open-nki model"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PROGRAMS: Final = {"torch": "program.pt2", "jax": "program.jax"}
"""The name of the program by framework."""
_DIGEST: Final = 64
"""Hexadecimal digits of a SHA-256."""
_LARGEST_MANIFEST: Final = 1 << 24
"""Bytes: a damaged file must not exhaust memory."""
_FIRST: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest date that a ZIP archive can hold; a real one would make equal models differ."""
_AGAIN: Final = "export the model again, or copy the file again"


@dataclass(frozen=True)
class ModelFile:
    """A model file with the right digests.

    The manifest has ``framework``, ``versions`` of the packages that wrote it, ``inputs`` and ``outputs`` (a text
    each), ``kernels`` (``name``, ``target``, ``inputs``, ``outputs``, ``digest`` of the artifact and its size in
    ``bytes``), and ``program``.
    """

    path: Path
    manifest: dict[str, Any]
    program: bytes
    size: int
    """Bytes of the whole file."""

    @property
    def framework(self) -> str:
        """``torch`` or ``jax``."""
        return str(self.manifest["framework"])

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """The kernels that the program holds, each once, in the order of their first call."""
        return cast("list[dict[str, Any]]", self.manifest["kernels"])


def dumps(framework: str, program: bytes, description: dict[str, Any]) -> bytes:
    """The file of ``program``; ``description`` has the manifest's other fields."""
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "framework": framework,
        "program": {"sha256": hashlib.sha256(program).hexdigest(), "bytes": len(program)},
        **description,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in ((MANIFEST, json.dumps(manifest, indent=1).encode()), (PROGRAMS[framework], program)):
            member = zipfile.ZipInfo(name, _FIRST)
            member.create_system, member.external_attr = 3, 0o600 << 16  # of Unix, on every system
            archive.writestr(member, data)
        archive.comment = b"0" * _DIGEST
    body = buffer.getvalue()[:-_DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def write(path: Path, data: bytes) -> None:
    """Write the file whole or not at all."""
    try:
        files.write(path, data)
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error}", fix="check the path") from None


def read(path: Path) -> ModelFile:
    """The model file at ``path``. Raises :class:`ModelFileError` for a damaged, foreign or newer file."""
    return loads(contents(path), path)


def contents(path: Path) -> bytes:
    """The bytes of a file that should hold a model. Raises :class:`ModelFileError` if there is none."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise ModelFileError(f"cannot read {path}: {error}", fix="check the path") from None


def loads(data: bytes, path: Path) -> ModelFile:
    """The model file in ``data``, which errors call ``path``."""
    if not data.startswith(b"PK\x03\x04"):
        raise ModelFileError(f"{path} is not a model of open-nki", fix="pass a file that nki.export wrote")
    body, digest = memoryview(data)[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ModelFileError(f"{path} is damaged, cut short or changed: its digest does not match", fix=_AGAIN)
    members = _members(data, path)
    manifest = _manifest(members, path)
    program = members.get(PROGRAMS[manifest["framework"]])
    if program is None or len(members) != 2:
        raise ModelFileError(
            f"{path} holds {', '.join(map(repr, members)):.200}, not {MANIFEST} and one program", fix=_AGAIN
        )
    if hashlib.sha256(program).hexdigest() != manifest["program"].get("sha256"):
        raise ModelFileError(f"{path}: the program does not have the digest that its manifest gives", fix=_AGAIN)
    return ModelFile(path, manifest, program, len(data))


def _members(data: bytes, path: Path) -> dict[str, bytes]:
    """The members of the archive, none compressed, of different names."""
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                if member.filename in members or member.compress_type != zipfile.ZIP_STORED:
                    raise ModelFileError(
                        f"{path} holds {member.filename!r:.80} twice or compressed, as nki.export writes no file",
                        fix=_AGAIN,
                    )
                if member.filename != MANIFEST and member.filename not in PROGRAMS.values():
                    raise ModelFileError(
                        f"{path} holds {member.filename!r:.80}, which is no part of a model", fix=_AGAIN
                    )
                members[member.filename] = archive.read(member)
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, struct.error) as error:
        raise ModelFileError(f"{path} is no ZIP archive, or a damaged one: {error}", fix=_AGAIN) from None
    return members


def _manifest(members: dict[str, bytes], path: Path) -> dict[str, Any]:
    text = members.get(MANIFEST, b"")
    try:
        if len(text) > _LARGEST_MANIFEST:
            raise ValueError(f"it has {len(text)} bytes, more than {_LARGEST_MANIFEST}")
        manifest: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} has no readable {MANIFEST}: {error}", fix=_AGAIN) from None
    if not isinstance(manifest, dict) or cast("dict[str, Any]", manifest).get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model of open-nki", fix="pass a file that nki.export wrote")
    fields = cast("dict[str, Any]", manifest)
    versions = fields.get("versions")
    if fields.get("version") != VERSION:
        writer = cast("dict[str, Any]", versions).get("open-nki") if isinstance(versions, dict) else None
        raise ModelFileError(
            f"{path} has format version {fields.get('version')!r:.20} (by open-nki {writer!s:.40}); this is open-nki "
            f"{version()}, which reads version {VERSION}",
            fix="update open-nki, or export the model again with this version",
        )
    kinds = {"versions": dict, "program": dict, "kernels": list, "inputs": list, "outputs": list}
    for name, kind in kinds.items():
        if not isinstance(fields.get(name), kind):
            raise ModelFileError(f"{path}: {MANIFEST} has no {name!r}", fix=_AGAIN)
    if fields.get("framework") not in PROGRAMS:
        raise ModelFileError(
            f"{path} holds a program of {fields.get('framework')!r:.40}; known are {', '.join(PROGRAMS)}",
            fix="update open-nki",
        )
    for kernel in fields["kernels"]:
        _check_kernel(kernel, path)
    return fields


def _check_kernel(kernel: Any, path: Path) -> None:
    """Refuse a row that :func:`nki.cli.info.command` could not print."""
    texts = ("name", "target", "digest")
    lists = ("inputs", "outputs")
    row = cast("dict[str, Any]", kernel) if isinstance(kernel, dict) else {}
    if (
        not all(isinstance(row.get(name), str) for name in texts)
        or not all(isinstance(row.get(name), list) for name in lists)
        or not isinstance(row.get("bytes"), int)
    ):
        raise ModelFileError(f"{path}: {MANIFEST} describes a kernel as {kernel!r:.80}", fix=_AGAIN)
