"""Errors of what makes native code."""

from __future__ import annotations

from nki.base.errors import NkiError


class NativeLibraryError(NkiError):
    """LLVM, which makes native code, cannot be loaded: too little memory, or a damaged library."""

    code = "NKI-KN031"
