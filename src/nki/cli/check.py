"""``nki check``: errors and warnings of the kernels in Python files; ``--run`` adds those of a run in the simulator."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import sysconfig
import traceback
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final

from nki.base.errors import FileImportError, NkiError
from nki.base.source import Span, caret, code_span, note_file
from nki.base.toolchain import is_toolchain
from nki.base.usage import UsageError, nearest
from nki.base.version import version
from nki.base.warning import Warned, collecting
from nki.cli.job import prepared
from nki.cli.load_kernel import code_of, imported, root_of, split
from nki.cli.run import plural
from nki.frontend.lint import Survey

_HOST: Final = ("<frozen ", *{sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})

Finding = NkiError | Warned


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki check``."""
    if options.run and len(options.files) > 1:
        raise UsageError("--run runs one kernel", "pass one FILE.py:NAME")
    if not options.run and (options.arg or options.target):
        raise UsageError("--arg and --target are about a kernel that is run", "add --run")
    paths = [_path(split(given)[0] if options.run else given) for given in options.files]
    survey = surveyed(paths, everything=bool(options.all))
    if options.run and not any(isinstance(one, NkiError) for one in survey.findings):
        survey.findings += _ran(options.files[0], options)
    findings = _in_order(survey.findings, [str(path.resolve()) for path in paths])
    errors = sum(isinstance(one, NkiError) for one in findings)
    if options.json:
        counts = {"files": len(paths), "kernels": survey.kernels, "functions": len(survey.functions)}
        print(json.dumps({"version": version(), **counts, "findings": [described(one) for one in findings]}))
    else:
        for one in findings:
            print(_text(one) + "\n")
        print(_summary(errors, len(findings) - errors, survey, len(paths)))
    return 1 if errors or (findings and options.strict) else 0


def _ran(source: str, options: argparse.Namespace) -> list[Finding]:
    """Errors and warnings of a simulator run of the kernel ``source``; the kernel's output goes to stderr."""
    errors: list[Finding] = []
    with contextlib.redirect_stdout(sys.stderr), collecting(aside=True) as warned:
        try:
            with prepared(source, options.arg, options.target, options.cores) as work:
                work.simulate(work.arrays(options.seed))
        except NkiError as error:
            errors.append(error)
    return [*warned, *errors]


def _path(given: str) -> Path:
    path = Path(given)
    if not path.is_file():
        known = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise UsageError(f"there is no file {path}", nearest(path.name, known, f"such files in {path.parent}"))
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file", "pass .py files")
    return path


def surveyed(paths: Sequence[Path], *, everything: bool = False) -> Survey:
    """Import the files and collect their findings; the output of their modules goes to stderr."""
    survey = Survey()
    with contextlib.redirect_stdout(sys.stderr):
        for path in paths:
            with _alone(path):
                try:
                    with imported(path) as module:
                        survey.file(module, code_of(module), everything=everything)
                except (Exception, SystemExit) as failure:
                    if not _is_of(failure, path):
                        raise
                    survey.findings.append(_not_imported(failure, path))
    return survey


@contextlib.contextmanager
def _alone(path: Path) -> Generator[None]:
    """Context manager: forgets the modules beside the file that its import loaded, because files in other folders may
    import others under the same names. Modules of packages stay.
    """
    root, before = root_of(path), set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).parent == root and Path(file).name != "__init__.py":
                del sys.modules[name]


def _is_of(failure: BaseException, path: Path) -> bool:
    """True if the file's own code was running, or being parsed, when ``failure`` was raised; else False."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(failure.__traceback__)]
    return str(path.resolve()) in files or isinstance(failure, SyntaxError | UnicodeDecodeError)


def _not_imported(failure: BaseException, path: Path) -> NkiError:
    """The error for a file that cannot be imported, at the line of the user's that raised it."""
    span = _raised_at(failure, path)
    if isinstance(failure, NkiError):
        return failure.at(span)
    text = failure.msg if isinstance(failure, SyntaxError) else str(failure)
    kind = type(failure).__name__
    shown = f"{kind}: {text}" if text else kind
    return FileImportError(f"the file cannot be imported: {shown}", fix="correct that first", span=span)


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


def _in_order(findings: list[Finding], files: list[str]) -> list[Finding]:
    """The given files first, in their order, then others as they were met; each from top to bottom, nothing twice."""
    for one in findings:
        if one.span is not None and one.span.file not in files:
            files.append(one.span.file)
    unique = {_identity(one): one for one in reversed(findings)}.values()
    spans = {id(one): one.span or Span(files[0], 0) for one in unique}
    return sorted(
        unique, key=lambda one: (files.index(spans[id(one)].file), spans[id(one)].line, spans[id(one)].column)
    )


def _identity(one: Finding) -> tuple[Any, ...]:
    span = one.span
    return (span.file, span.line, span.column, one.message) if span else (one.message,)


def described(one: Finding) -> dict[str, Any]:
    """A finding as JSON values. Lines and columns count from 1; ``end_column`` is the first one after the code."""
    span = one.span or Span("", 0)
    error = one if isinstance(one, NkiError) else None
    return {
        "code": error.code if error else one.category.__name__ if isinstance(one, Warned) else "",
        "severity": "error" if error else "warning",
        "message": one.message,
        "file": span.file,
        "line": span.line,
        "column": span.column + 1,
        "end_column": span.end_column + 1 if span.end_column else None,
        "fix": error.fix if error else "",
        "rule": error.rule if error else "",
        "function": span.function,
    }


def _text(one: Finding) -> str:
    if isinstance(one, NkiError):
        return str(one).removesuffix(f"\n  (open-nki {version()})")
    lines = [f"[{one.category.__name__}] {one.message}", f"  --> {one.span}", caret(one.span)]
    return "\n".join(line for line in lines if line)


def _summary(errors: int, warnings: int, survey: Survey, files: int) -> str:
    counts = [plural(errors, "error")] * bool(errors) + [plural(warnings, "warning")] * bool(warnings)
    looked = f"{plural(files, 'file')}, {plural(survey.kernels, 'kernel')}, {plural(len(survey.functions), 'function')}"
    return f"{' and '.join(counts) or 'nothing found'} in {looked}"


__all__ = ["command", "described", "surveyed"]
