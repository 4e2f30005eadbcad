"""LLVM's library, which is loaded when this module is first imported."""

from __future__ import annotations

from nki.numerics.errors import NativeLibraryError

try:
    from llvmlite import binding
except OSError as error:
    raise NativeLibraryError(
        f"LLVM, which makes native code, cannot be loaded: {error.__context__ or error!s:.300}",
        fix="raise the limit of the process on memory (ulimit -v), as LLVM takes 250 MiB of addresses; or install its "
        "library again: pip install --force-reinstall llvmlite",
    ) from error

__all__ = ["binding"]
