"""Kernels inside exported programs: the bytes of an artifact as text, which operators and custom calls carry.

A graph that stays in its process names a kernel by the path of a file in the cache. An exported program outlives that
file, so it holds ``nki-kernel:1:NAME:DIGEST:BYTES``: a version of this form, the kernel's name, the SHA-256 of the
artifact in hexadecimal, and the artifact (the bytes of a ``.klir`` file) in base64. The text without ``:BYTES`` is the
kernel's reference; custom calls of XLA keep the two apart, because they look the reference up in each launch.

Reading one runs no code from it: the kernel is parsed, checked and compiled like the kernel of a ``.klir`` file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Final

from nki.base.errors import ArtifactError
from nki.base.locks import Lock, imported
from nki.compilation.executable_cache import NamedExecutables
from nki.ir.text import artifact

if TYPE_CHECKING:
    from nki.compilation.executable import Executable

MARK: Final = "nki-kernel:"
"""Begins the reference of an embedded kernel, and no path: a path in a graph is absolute."""
_VERSION: Final = "1"
_REFERENCE: Final = re.compile(r"nki-kernel:1:(\w+):([0-9a-f]{64})", re.ASCII)
_LONGEST: Final = 2 * artifact.LARGEST
"""Characters of one embedded kernel: a damaged program must not exhaust memory."""
_FIX: Final = "export the program again with this version of open-nki"

_named: Final = NamedExecutables(lambda _reference, _executable: True)
"""By reference. The bytes beside each reference give the executable again."""
_lock: Final = Lock()


def embed(executable: Executable) -> str:
    """The text that an exported program holds in place of a path.

    Raises :class:`ArtifactError` under ``NKI_PRECISE_FP=0``: no other process would repeat its float32 results.
    """
    text = executable.text
    if text is None:
        if not executable.precise:
            raise ArtifactError(
                f"kernel {executable.name!r} was compiled with NKI_PRECISE_FP=0, which exported programs do not keep",
                fix="export without NKI_PRECISE_FP=0",
            )
        data = artifact.dumps(executable.kernel)
        name = re.sub(r"\W", "_", executable.name, flags=re.ASCII) or "_"
        reference = f"{MARK}{_VERSION}:{name}:{hashlib.sha256(data).hexdigest()}"
        text = executable.text = f"{reference}:{base64.b64encode(data).decode()}"
        # One that checks its first launch keeps that to itself.
        if type(executable) is imported("nki.compilation.executable").Executable and _named.get(reference) is None:
            _named.add(reference, executable)
    return text


def divided(text: str) -> tuple[str, str]:
    """The reference and the bytes, in base64, of an embedded kernel; no bytes if the text has none."""
    reference = _reference(text)
    return reference, text[len(reference) + 1 :]


def _reference(text: str) -> str:
    """``nki-kernel:1:NAME:DIGEST``; found without a look at the bytes, which are long."""
    end = text.find(":", text.find(":", text.find(":", len(MARK)) + 1) + 1)
    return text if end < 0 else text[:end]


def load(text: str) -> Executable:
    """The kernel in ``text``, compiled unless one with its digest is in memory. Raises :class:`ArtifactError`."""
    reference = _reference(text)
    found = _named.get(reference)
    if found is not None:
        return found
    with _lock:
        found = _named.get(reference)
        if found is None:
            data = read(text)
            try:
                found = imported("nki.compilation.executable").Executable.parsed(data, _origin(reference))
            except ArtifactError as error:
                raise ArtifactError(error.message, fix=_FIX) from None
            _named.add(reference, found)
        return found


def read(text: str) -> bytes:
    """The artifact in ``text``. Its digest is right; its contents are not read yet."""
    reference, encoded = divided(text)
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        version = reference.removeprefix(MARK).partition(":")[0]
        if reference.startswith(MARK) and version.isdecimal() and version != _VERSION:
            raise ArtifactError(
                f"the program holds a kernel in form {version:.20}; this version of open-nki reads form {_VERSION}",
                fix="update open-nki, or export the program again with this version",
            )
        raise ArtifactError(f"the program holds a damaged reference to a kernel: {reference!r:.80}", fix=_FIX)
    origin = _origin(reference)
    if not encoded:
        raise ArtifactError(f"{origin} has no bytes: the program does not hold it", fix=_FIX)
    if len(encoded) > _LONGEST:
        raise ArtifactError(f"{origin} has {len(encoded)} characters; at most {_LONGEST} are read", fix=_FIX)
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ArtifactError(f"{origin} is damaged: its bytes are not base64", fix=_FIX) from None
    if hashlib.sha256(data).hexdigest() != match[2]:
        raise ArtifactError(f"{origin} is damaged: its bytes do not have the digest {match[2]}", fix=_FIX)
    return data


def _origin(reference: str) -> str:
    return f"the embedded kernel {reference.split(':')[2]!r:.60}"
