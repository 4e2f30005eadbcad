"""Errors and warnings as records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, NotRequired, TypedDict

from nki.base.errors import NkiError
from nki.base.source import Place
from nki.base.usage import UsageError
from nki.base.warning import Warned
from nki.cli.output.printed import Stamp, stamp
from nki.frontend.frontend_errors import KernelErrors

Mistake = NkiError | Warned | UsageError


class Finding(TypedDict):
    """An error or a warning. A field about the place is null where there is no place."""

    code: Annotated[
        str, "the code of an error, such as `NKI-SH001`; `usage` for a wrong command; the class of a warning"
    ]
    severity: Annotated[Literal["error", "warning"], "an error stops the kernel, a warning does not"]
    message: Annotated[str, "what is wrong, in one sentence"]
    file: Annotated[str | None, "the file of the mistake"]
    line: Annotated[int | None, "its line, from 1"]
    column: Annotated[int | None, "its first column, in characters from 1"]
    end_column: Annotated[int | None, "the first column behind it; null if unknown"]
    function: Annotated[str, "the function around it, or empty"]
    fix: Annotated[str, "what to do, or empty"]
    rule: Annotated[str, "the rule of the instruction, such as `SE01` (`nki explain` knows it), or empty"]
    calls: NotRequired[Annotated[list[Place], "the calls that led there, outermost first"]]


class Failure(Stamp, Finding):
    """An error that ended the command, or one target of several."""

    errors: NotRequired[Annotated[list[Finding], "every mistake of a kernel that has several"]]
    warnings: Annotated[list[Finding], "the warnings that came before"]


def finding(mistake: Mistake) -> Finding:
    """An error or a warning as a record."""
    span = None if isinstance(mistake, UsageError) else mistake.span
    error = mistake if isinstance(mistake, NkiError) else None
    result: Finding = {
        "code": _code(mistake),
        "severity": "warning" if isinstance(mistake, Warned) else "error",
        "message": mistake.message,
        "file": span.file if span else None,
        "line": span.line if span else None,
        "column": span.column + 1 if span else None,
        "end_column": span.end_column + 1 if span and span.end_column else None,
        "function": span.function if span else "",
        "fix": "" if isinstance(mistake, Warned) else mistake.fix,
        "rule": error.rule if error else "",
    }
    if error is not None and error.stack:
        result["calls"] = [call.place for call in error.stack]
    return result


def _code(mistake: Mistake) -> str:
    if isinstance(mistake, NkiError):
        return mistake.code
    return "usage" if isinstance(mistake, UsageError) else mistake.category.__name__


def failure(error: NkiError | UsageError, warned: Iterable[Warned] = ()) -> Failure:
    """The document about an error, with the warnings before it."""
    result: Failure = {**stamp(), **finding(error), "warnings": warnings(warned)}
    if isinstance(error, KernelErrors):
        result["errors"] = [finding(part) for part in error.errors]
    return result


def warnings(warned: Iterable[Warned]) -> list[Finding]:
    """The warnings as records, none of them twice."""
    distinct = {(each.span.file, each.span.line, each.message): each for each in warned}
    return [finding(each) for each in distinct.values()]
