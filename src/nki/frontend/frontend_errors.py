"""The mistakes that the frontend reports: one class each. Messages say what stands there, fixes say the way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nki.base.errors import NkiError
from nki.base.version import version


class KernelErrors(NkiError):
    """Everything that is wrong with one kernel, in the order of the source."""

    code = "NKI-FE000"

    def __init__(self, kernel: str, errors: Sequence[NkiError]) -> None:
        super().__init__(f"{len(errors)} errors in kernel `{kernel}`")
        self.errors = tuple(errors)

    def __str__(self) -> str:
        signature = f"  (open-nki {version()})"
        parts = [str(error).removesuffix("\n" + signature) for error in self.errors]
        called = [f"  called from {place}" for place in reversed(self.stack)]
        return "\n".join([f"[{self.code}] {self.message}", *(f"\n{part}" for part in parts), *called, signature])


# Capturing


class NoSourceError(NkiError):
    """The function has no source text: it was typed at a prompt, made by ``exec`` or given with ``python -c``."""

    code = "NKI-FE001"


class SourceChangedError(NkiError):
    """The file no longer holds the function that Python imported from it."""

    code = "NKI-FE002"


class NotAFunctionError(NkiError):
    """A class, a built-in or something that is no function at all should become a kernel."""

    code = "NKI-FE003"


class ReleaseError(NkiError):
    """``NKI_VERSION``, ``nki.jit(nki_version=…)`` or ``NKI_COMPILER_FRONTEND`` names no release of NKI."""

    code = "NKI-FE004"


# Python that NKI up to 0.6 does not have; ``async`` and ``await`` have no meaning in any release


class GeneratorError(NkiError):
    """``yield``, or a generator function."""

    code = "NKI-FE010"


class AsyncError(NkiError):
    """``async`` and ``await``."""

    code = "NKI-FE011"


class WithError(NkiError):
    """A ``with`` block."""

    code = "NKI-FE012"


class TryError(NkiError):
    """``try`` and ``except``."""

    code = "NKI-FE013"


class RaiseError(NkiError):
    """``raise``."""

    code = "NKI-FE014"


class GlobalError(NkiError):
    """``global`` and ``nonlocal``: a kernel is a pure function of its arguments."""

    code = "NKI-FE015"


class DelError(NkiError):
    """``del``."""

    code = "NKI-FE016"


class ImportInKernelError(NkiError):
    """An ``import`` inside a kernel."""

    code = "NKI-FE017"


class ClassInKernelError(NkiError):
    """A class defined inside a kernel."""

    code = "NKI-FE018"


class MatchError(NkiError):
    """``match``."""

    code = "NKI-FE019"


class WalrusError(NkiError):
    """An assignment inside an expression, ``:=``."""

    code = "NKI-FE020"


class LiteralError(NkiError):
    """A literal of a type that NKI does not have: sets, bytes, complex numbers."""

    code = "NKI-FE021"


class DictKeyError(NkiError):
    """A dictionary key that is no string."""

    code = "NKI-FE022"


class SignatureError(NkiError):
    """``*args`` or ``**kwargs`` among the parameters of a kernel."""

    code = "NKI-FE023"


class SyntaxNotInNkiError(NkiError):
    """Newer Python syntax about types and templates, which means nothing in a kernel."""

    code = "NKI-FE024"


class DecoratorError(NkiError):
    """A decorator on a function inside a kernel that NKI does not know."""

    code = "NKI-FE025"


class HostBuiltinError(NkiError):
    """A built-in function that needs the running interpreter: ``eval``, ``open`` and the like."""

    code = "NKI-FE026"


class OutsideChangedError(NkiError):
    """A change of something outside the kernel, through a global or a closure variable: ``TABLE["a"] = 1``."""

    code = "NKI-FE027"


class EndlessLoopError(NkiError):
    """A ``while`` with a condition that stays true."""

    code = "NKI-FE028"


# Names and calls


class UnknownNameError(NkiError):
    """A name that nothing defines."""

    code = "NKI-FE030"


class UnknownApiError(NkiError):
    """A name that one of NKI's own modules does not have."""

    code = "NKI-FE031"


class RemovedApiError(NkiError):
    """A name, argument or habit of NKI Beta 1 that is gone."""

    code = "NKI-FE032"


class NewerApiError(NkiError):
    """A name, a parameter or a form of a later release of NKI than the one that was chosen."""

    code = "NKI-FE034"


class CallArgumentError(NkiError):
    """Arguments that do not fit the signature of the NKI function that is called."""

    code = "NKI-FE033"


# The kernel's own Python, as it runs at compile time


class KernelAssertError(NkiError):
    """An ``assert`` of the kernel does not hold; its text is kept word for word."""

    code = "NKI-FE040"


class KernelPythonError(NkiError):
    """A Python exception raised by the kernel's compile-time code."""

    code = "NKI-FE041"


PARSER_ERRORS: Final[tuple[type[NkiError], ...]] = (
    NoSourceError,
    SourceChangedError,
    GeneratorError,
    WithError,
    TryError,
    RaiseError,
    GlobalError,
    DelError,
    ImportInKernelError,
    ClassInKernelError,
    MatchError,
    WalrusError,
    LiteralError,
    DictKeyError,
    SignatureError,
    SyntaxNotInNkiError,
    DecoratorError,
    HostBuiltinError,
    OutsideChangedError,
)
"""Errors about Python that a parser of kernels refuses, and that CPython runs where it traces them."""
