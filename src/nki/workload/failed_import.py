"""Files of kernels that cannot be imported: the error, at the line of the user's that raised it."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final

from nki.base.errors import FileImportError, NkiError
from nki.base.source import Span, code_span, is_toolchain, note_file
from nki.frontend.frontend_errors import RemovedApiError
from nki.language.nki_dialects import NKI

_HOST: Final = ("<frozen ", *{sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def is_of(failure: BaseException, path: Path) -> bool:
    """True if the file's own code was running, or being parsed, when ``failure`` was raised, or the code of a package
    around it, which Python imports first; else False.
    """
    own = {str(path.resolve())}
    for folder in path.resolve().parents:
        if not (folder / "__init__.py").is_file():
            break
        own.add(str(folder / "__init__.py"))
    files = {frame.f_code.co_filename for frame, _ in traceback.walk_tb(failure.__traceback__)}
    return not own.isdisjoint(files) or isinstance(failure, SyntaxError | UnicodeDecodeError)


def not_imported(failure: BaseException, path: Path) -> NkiError:
    """The error for a file that cannot be imported, at the line of the user's that raised it."""
    span = _raised_at(failure, path)
    if isinstance(failure, NkiError):
        return failure.at(span)
    text = failure.msg if isinstance(failure, SyntaxError) else str(failure)
    kind = type(failure).__name__
    shown = f"{kind}: {text}" if text else kind
    fix = "correct that first"
    if isinstance(failure, ModuleNotFoundError) and failure.name:
        fix = f"install {failure.name}, or run the command in the folder that holds it"
    return FileImportError(f"the file cannot be imported: {shown}", fix=fix, span=span)


def not_there(failure: ImportError, path: Path, module: str, name: str) -> NkiError:
    """The error for a name that a module of NKI does not have."""
    removed = NKI.removed.names.get(f"{module}.{name}")
    if removed is None:
        return not_imported(failure, path)
    message = f"`{module}` no longer has `{name}`, which is of NKI Beta 1"
    return RemovedApiError(message, fix=removed, span=_raised_at(failure, path))


def _raised_at(failure: BaseException, path: Path) -> Span:
    if isinstance(failure, SyntaxError) and failure.filename is not None:
        note_file(failure.filename)
        column = max(0, (failure.offset or 1) - 1)
        return Span(failure.filename, failure.lineno or 1, column, max(0, (failure.end_offset or 1) - 1))
    note_file(str(path.resolve()))
    tb, span = failure.__traceback__, Span(str(path.resolve()), 1)
    while tb is not None:
        code = tb.tb_frame.f_code
        if not (is_toolchain(code) or code.co_filename.startswith(_HOST) or "site-packages" in code.co_filename):
            span = code_span(code, tb.tb_lasti, "")
        tb = tb.tb_next
    return span
