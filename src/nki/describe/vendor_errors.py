"""Errors of the vendor's graph compiler and of its runtime, for ``nki explain``."""

from __future__ import annotations

import re
import textwrap
from typing import Final

from nki.base.usage import UsageError, nearest
from nki.describe import compiler_errors, runtime_errors

_OF_COMPILER: Final = {f"NCC_{code}": row for row in compiler_errors.ROWS for code in row.codes.split()}
_OF_RUNTIME: Final = {code: row for row in runtime_errors.ROWS for code in row.codes.split()}
CODES: Final = _OF_COMPILER | _OF_RUNTIME
_KEYS: Final = {code.upper(): code for code in CODES}
_BY_NUMBER: Final = {str(number): name for name, number in runtime_errors.STATUS.items()}
_FORM: Final = re.compile(r"(NCC|NRT)_[A-Z_]+\d*|(TDRV|ENC|NMGR|NRT|NCCL|HAL):\w+|\d{1,4}", re.IGNORECASE)


def is_code(name: str) -> bool:
    """True for a name that looks like a code of the vendor's compiler or runtime, and for the number of a status."""
    return _FORM.fullmatch(name) is not None


def about(name: str) -> str:
    """The explanation of a code. Raises :class:`UsageError` for one that is not in the tables."""
    code = _KEYS.get(_BY_NUMBER.get(name, name).upper())
    if code is None:
        raise UsageError(f"nothing public is known about {name}", nearest(name, CODES, "known codes"))
    row = CODES[code]
    prefix = "NCC_" if code in _OF_COMPILER else ""
    others = [f"{prefix}{other}" for other in row.codes.split() if f"{prefix}{other}" != code]
    parts = [f"{code}: {_kind(code)}", "", _wrapped(row.meaning)]
    if row.advice:
        parts += [_wrapped(row.advice)]
    found = f"found before by {', '.join(row.checks.split())} (nki explain says more)" if row.checks else ""
    parts += ["", _wrapped(found or "no check of Open NKI finds it before")]
    if others:
        parts += [_wrapped(f"same meaning: {', '.join(others)}")]
    return "\n".join([*parts, _wrapped(f"source: {row.source}")])


def _kind(code: str) -> str:
    if code in _OF_COMPILER:
        internal = code.startswith("NCC_I")
        return f"{'internal error' if internal else 'error'} of the vendor's graph compiler"
    number = runtime_errors.STATUS.get(code)
    return "message of the Neuron runtime" if number is None else f"status {number} of the Neuron runtime"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
