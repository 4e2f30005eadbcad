"""``nki check``: errors and warnings of the kernels in Python files, of their compilation for the arguments that the
files show, and with ``--run`` of a run in the simulator.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from nki.base.errors import NkiError
from nki.base.source import Span, caret, parsed
from nki.base.usage import UsageError, nearest
from nki.base.version import version
from nki.base.warning import NkiWarning, Warned, collecting
from nki.base.wording import plural, shown_path
from nki.cli.host.host_statements import examples
from nki.cli.kernel_check import Compilations, Finding, Skipped, place_of
from nki.cli.kernel_files import kernel_files
from nki.cli.output.documents import Check
from nki.cli.output.findings import finding
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.terminal_progress import files_bar
from nki.compilation.pipeline import NATIVE_STOP
from nki.frontend.capture import capture, functions_of, source_lines
from nki.frontend.frontend_errors import KernelErrors
from nki.frontend.lint import Survey
from nki.workload.failed_import import is_of, not_imported
from nki.workload.job import prepared
from nki.workload.load_kernel import code_of, find, importable, root_of, split


@dataclass(frozen=True, slots=True)
class Subject:
    """A file to check, or one kernel of it."""

    path: Path
    name: str = ""


@dataclass(slots=True)
class Checked:
    """The result of a check."""

    survey: Survey = field(default_factory=Survey)
    compilations: Compilations = field(default_factory=Compilations)
    beta1: list[Path] = field(default_factory=list[Path])
    """Files with kernels of NKI Beta 1, which were checked as such."""

    @property
    def findings(self) -> list[Finding]:
        """Errors and warnings; no warning about code that may be reached where the compiler has found an error, and
        no error twice.
        """
        known = {(_place(one.span), one.code) for one in self.survey.findings if isinstance(one, NkiError)}
        compiled = [
            one
            for one in self.compilations.findings
            if not isinstance(one, NkiError) or (_place(one.span), one.code) not in known
        ]
        findings = [*self.survey.findings, *compiled]
        certain = {_place(one.span) for one in findings if isinstance(one, NkiError)}
        return [one for one in findings if isinstance(one, NkiError) or _place(one.span) not in certain]


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki check``."""
    subjects = _subjects(options.files)
    given = options.run or options.arg
    if given and (len(options.files) > 1 or Path(options.files[0]).is_dir()):
        raise UsageError(f"{'--run runs' if options.run else '--arg is about'} one kernel", "pass one FILE.py:NAME")
    if (options.target or (options.cores, options.grid) != (None, None)) and not given:
        raise UsageError("--target, --cores and --grid are about one kernel", "add its arguments with --arg")
    checked = check(subjects, everything=bool(options.all), compiling=not given)
    if given:
        checked.survey.findings += _with_arguments(options)
        checked.compilations.compiled.add((options.files[0], 0))
    findings = _in_order(checked.findings, [str(subject.path.resolve()) for subject in subjects])
    errors = sum(isinstance(one, NkiError) for one in findings)
    if options.json:
        print_document(_report(checked, findings, len(subjects)))
    else:
        for one in findings:
            print(_text(one) + "\n")
        for line in _not_compiled(checked.compilations.skipped):
            print(line)
        for path in checked.beta1:
            shown = shown_path(str(path.resolve()))
            print(f"{shown} is of NKI Beta 1, and was checked as that; `nki migrate {shown}` rewrites it\n")
        print(_summary(errors, len(findings) - errors, checked, len(subjects)))
    return 1 if errors or (findings and options.strict) else 0


def _with_arguments(options: argparse.Namespace) -> list[Finding]:
    """Errors and warnings of the one kernel for the given arguments: of its compilation, and with ``--run`` of a run in
    the simulator. The kernel's output goes to stderr.
    """
    errors: list[Finding] = []
    with aside(), collecting(aside=True) as warned:
        try:
            with prepared(options.files[0], options.arg, options.target, options.cores, options.grid) as work:
                if options.run:
                    work.simulate(work.arrays(options.seed))
                else:
                    work.compile(NATIVE_STOP)
        except KernelErrors as several:
            errors += several.errors
        except NkiError as error:
            errors.append(error)
    return [*warned, *errors]


def _subjects(given: Sequence[str]) -> list[Subject]:
    """The files that arguments name; of a folder those that define kernels."""
    subjects: list[Subject] = []
    for text in given:
        if Path(text).is_dir():
            subjects += [Subject(path) for path in kernel_files(Path(text))]
        else:
            file, name = split(text) if ".py:" in text else (text, "")
            subjects.append(Subject(_path(file), name))
    if not subjects:
        raise UsageError(f"no Python file in {' '.join(given)} defines a kernel", "pass files, or other folders")
    return subjects


def _path(given: str) -> Path:
    path = Path(given)
    if not path.is_file():
        known = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise UsageError(f"there is no file {path}", nearest(path.name, known, f"such files in {path.parent}"))
    if path.suffix != ".py":
        raise UsageError(f"{path} is not a Python file", "pass .py files, or folders")
    return path


def check(subjects: Sequence[Subject], *, everything: bool = False, compiling: bool = True) -> Checked:
    """Import the files, check their kernels, and compile them where the files show for which arguments; the output of
    modules and kernels goes to stderr.
    """
    checked = Checked()
    roots: set[Path] = set()
    with aside():
        for number, subject in enumerate(subjects):
            files_bar(number, len(subjects), str(subject.path))
            with _alone(subject.path, roots):
                try:
                    with _noted(checked.survey), importable(subject.path, checked.survey.findings.append) as module:
                        _file(module, subject, checked, everything=everything, compiling=compiling)
                except (Exception, SystemExit) as failure:
                    if isinstance(failure, UsageError) or not is_of(failure, subject.path):
                        raise
                    checked.survey.findings.append(not_imported(failure, subject.path))
        files_bar(len(subjects), len(subjects), "")
    return checked


def _file(module: ModuleType, subject: Subject, checked: Checked, *, everything: bool, compiling: bool) -> None:
    """Check one imported file."""
    code = code_of(module)
    own = functions_of(module, code)
    if subject.name:
        kernels = [capture(find(module, subject.name, subject.path).func)]
        checked.survey.kernel(kernels[0])
    else:
        kernels = checked.survey.file(module, own, code.co_filename, everything=everything)
    if any("neuronxcc.nki" in one.dialect.namespaces for one in kernels):
        checked.beta1.append(subject.path)
    if compiling:
        tree = parsed("".join(source_lines(code.co_filename)), code.co_filename)
        calls = examples(module, tree, own, code.co_filename)
        if subject.name:
            places = {(one.file, one.code.co_firstlineno) for one in kernels}
            calls = [call for call in calls if place_of(call.kernel) in places]
        checked.compilations.kernels(module, kernels, calls)


@contextlib.contextmanager
def _noted(survey: Survey) -> Generator[None]:
    """Context manager: makes findings of NKI's warnings that modules give when they are imported, each at the line that
    it names; shows all others as Python does.
    """
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", NkiWarning)
        try:
            yield
        finally:
            noted = [each for each in given if issubclass(each.category, NkiWarning)]
    for each in given:
        if each in noted:
            span = Span(each.filename, each.lineno)
            survey.findings.append(Warned(span, str(each.message), cast("type[NkiWarning]", each.category)))
        else:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno, each.file, each.line)


@contextlib.contextmanager
def _alone(path: Path, roots: set[Path]) -> Generator[None]:
    """Context manager: forgets the modules beside the file that its import loaded, because files in other folders may
    import others under the same names. Modules of packages stay, until a file comes from a folder with other packages
    of their names. ``roots``, to which it adds, are the folders that the files before were imported from.
    """
    root = root_of(path)
    folders = {entry.name for entry in root.iterdir() if entry.is_dir()}
    others = {name for name in folders & sys.modules.keys() if _is_elsewhere(name, root, roots)}
    for name in [name for name in sys.modules if name.partition(".")[0] in others]:
        del sys.modules[name]
    roots.add(root)
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).parent == root and Path(file).name != "__init__.py":
                del sys.modules[name]


def _is_elsewhere(name: str, root: Path, roots: set[Path]) -> bool:
    """True for a package that an earlier file loaded from one of ``roots``, which is not ``root``."""
    folders = {Path(place).resolve().parent for place in getattr(sys.modules[name], "__path__", ())}
    return root not in folders and not folders.isdisjoint(roots)


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


def _place(span: Span | None) -> tuple[str, int, int] | None:
    return (span.file, span.line, span.column) if span is not None else None


def _identity(one: Finding) -> tuple[Any, ...]:
    span = one.span
    return (span.file, span.line, span.column, one.message) if span else (one.message,)


def _text(one: Finding) -> str:
    if isinstance(one, NkiError):
        return str(one).removesuffix(f"\n  (open-nki {version()})")
    lines = [f"[{one.category.__name__}] {one.message}", f"  --> {one.span}", caret(one.span)]
    return "\n".join(line for line in lines if line)


def _not_compiled(skipped: Sequence[Skipped]) -> Iterator[str]:
    """Lines about the kernels that were not compiled, and the options that would do."""
    for one in skipped:
        yield f"not compiled: {one.name} ({one.span.file}:{one.span.line}): {one.reason}"
        if one.arguments:
            yield f"  nki check {shown_path(one.span.file)}:{one.name} {one.arguments}"
    if skipped:
        yield 'or annotate the parameters (x: "128x512:float32"), or call the kernel under if __name__ == "__main__"\n'


def _report(checked: Checked, findings: Sequence[Finding], files: int) -> Check:
    """The result as a document."""
    survey, compilations = checked.survey, checked.compilations
    report: Check = {
        **stamp(),
        "files": files,
        "kernels": survey.kernels,
        "functions": len(survey.functions),
        "compiled": len(compilations.compiled),
        "not_compiled": [
            {"kernel": s.name, "file": s.span.file, "line": s.span.line, "reason": s.reason, "arguments": s.arguments}
            for s in compilations.skipped
        ],
        "findings": list(map(finding, findings)),
    }
    if checked.beta1:
        report["beta1"] = [str(path) for path in checked.beta1]
    return report


def _summary(errors: int, warnings: int, checked: Checked, files: int) -> str:
    counts = [plural(errors, "error")] * bool(errors) + [plural(warnings, "warning")] * bool(warnings)
    survey, compiled = checked.survey, len(checked.compilations.compiled)
    kernels = f"{plural(survey.kernels, 'kernel')} ({compiled} compiled)"
    looked = f"{plural(files, 'file')}, {kernels}, {plural(len(survey.functions), 'function')}"
    return f"{' and '.join(counts) or 'nothing found'} in {looked} (open-nki {version()})"


__all__ = ["Subject", "check", "command"]
