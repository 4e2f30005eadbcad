"""Data that is compiled into a kernel: the bytes of a tensor that nothing writes."""

from __future__ import annotations

import hashlib
import weakref


class Constant:
    """The bytes of a tensor, row-major, and their SHA-256 digest. Made by :func:`constant`; equal ones are one object,
    so that all kernels of a process share the memory.
    """

    __slots__ = ("__weakref__", "data", "digest")

    def __init__(self, data: bytes, digest: str) -> None:
        self.data = data
        self.digest = digest

    def __repr__(self) -> str:
        return f"<{len(self.data)} bytes {self.digest[:12]}>"

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return constant, (self.data,)


_known: weakref.WeakValueDictionary[str, Constant] = weakref.WeakValueDictionary()


def constant(data: bytes) -> Constant:
    """The constant of these bytes."""
    digest = hashlib.sha256(data).hexdigest()
    return _known.setdefault(digest, Constant(data, digest))
