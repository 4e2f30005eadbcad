"""The migration of one file: rewrite it, run both versions, and prove that they are one function."""

from __future__ import annotations

import ast
import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from nki.base.errors import NkiError
from nki.language.beta1_rewriting.facts import Facts
from nki.language.beta1_rewriting.report import MARK, Report
from nki.language.releases import RELEASES
from nki.migrate.beta1_file import rewritten
from nki.migrate.release_forms import renewed
from nki.migrate.runs.kernel_proof import proved
from nki.migrate.runs.programs import PROGRAM, broken
from nki.migrate.runs.recording import instrumented, lines_not_run, recording
from nki.migrate.runs.run_comparison import Call, Outcome, compared, launch_of, launched, loaded
from nki.proofs.verdict import reported
from nki.source_text.names import Names
from nki.source_text.source import Source

SECONDS: Final = 60.0
"""The time for the proofs of one file, unless the command says otherwise."""


@dataclass(slots=True)
class Migration:
    """A migrated file: its new source, what was left in it, and the comparisons of the two versions."""

    path: Path
    old: str
    new: str = ""
    beta1: bool = False
    left: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    kernels: set[str] = field(default_factory=set[str])
    """The kernels of the file."""
    only: str = ""
    """The one kernel that was asked for."""

    @property
    def done(self) -> bool:
        """True if nothing is left to do, and no run or proof found a difference; of one kernel and what it calls.

        A file of Beta 1 is not done if no kernel of it was compared: nothing vouches for its new form.
        """
        if not all(one.passes for one in self.outcomes) or (self.beta1 and (not self.outcomes or self.uncompared)):
            return False
        return not any(MARK in text for text in _reached(self.new, self.only))

    @property
    def uncompared(self) -> list[str]:
        """The kernels that no comparison reached, of those that were asked for."""
        if self.only:
            return []
        proved = {name for one in self.outcomes for name in _used(self.new, one.kernel)}
        return sorted(self.kernels - proved)


def _used(source: str, name: str) -> set[str]:
    """The names at the top of a file that a function uses, with its own."""
    tree = ast.parse(source)
    parts = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found: set[str] = set()
    waiting = [name.split(".")[0]]
    while waiting:
        one = waiting.pop()
        if one in parts and one not in found:
            found.add(one)
            waiting += [part.id for part in ast.walk(parts[one]) if isinstance(part, ast.Name)]
    return found


def _reached(source: str, name: str) -> list[str]:
    """The parts of a file that a function uses, with the code outside of functions; all of it without a name."""
    tree = ast.parse(source) if name else None
    if tree is None:
        return [source]
    lines = source.split("\n")
    used, found = _used(source, name), list[str]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in used:
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
            while start > 0 and lines[start - 1].startswith("#"):
                start -= 1
            found.append("\n".join(lines[start : node.end_lineno]))
    return found or [source]


def is_beta1(source: str) -> bool:
    """True for a file that imports the names of Beta 1. Raises ``SyntaxError``."""
    return Names.of(ast.parse(source)).beta1


def migrated(
    path: Path,
    source: str,
    calls: Sequence[Call],
    only: str = "",
    *,
    to: str = RELEASES[-1].version,
    seconds: float = SECONDS,
) -> Migration:
    """The file rewritten for release ``to``, with ``calls`` of its kernels as the examples that both versions run.

    Kernels of Beta 1 become kernels of the last release with a parser, and from there on kernels of ``to``.
    ``seconds``: for the proofs of all calls together; a proof that needs more than its share is undecided. 0: none.
    """
    result = Migration(path, source, only=only)
    old = Source(source)
    names = Names.of(old.tree)
    result.beta1 = names.beta1
    report, error, result.new = Report(), "", source
    with tempfile.TemporaryDirectory(prefix="nki-migrate-") as folder:
        if names.beta1:
            facts = _recorded(old, names, path, Path(folder), calls, result)
            result.new = rewritten(old, facts, report, [call.kernel for call in calls])
            if is_beta1(result.new):
                report.todo("an import of `neuronxcc` stays: this package has no counterpart of it")
        release = RELEASES.find(to)
        if release.traced:
            result.new = renewed(result.new, report, release, beta1=names.beta1)
        result.left += report.left
        result.notes += report.notes
        result.kernels = report.kernels
        if result.new != source:
            _compare(result, path, Path(folder), calls, seconds)
            error = "" if only else broken(path, source, result.new)
    if error:
        same = [replace(one, text="its numbers are equal") if one.same else one for one in result.outcomes]
        result.outcomes = [*same, Outcome(PROGRAM, f"the new file fails as a program: {error}", False)]
    differing = [one for one in result.outcomes if not one.passes]
    if differing:
        result.new = _with_marks(result.new, differing)
    return result


def _recorded(old: Source, names: Names, path: Path, folder: Path, calls: Sequence[Call], result: Migration) -> Facts:
    """The facts of a run of each call."""
    facts = Facts()
    if not calls:
        return facts
    source, nodes = instrumented(old, names)
    try:
        with loaded(folder / f"{path.stem}_recorded.py", source, path.parent) as copy, recording(facts, nodes):
            for call in calls:
                try:
                    launched(copy, call, new=False)
                except Exception as error:  # whatever users' code raises: the rewriting goes on with less
                    result.notes.append(f"`{call.kernel}` does not run as it is: {_brief(error)}")
    except Exception as error:
        result.notes.append(f"the file does not load as it is: {_brief(error)}")
    for first, last in lines_not_run(old.tree, facts, nodes):
        where = f"line {first}" if first == last else f"lines {first} to {last}"
        result.notes.append(
            f"{where} of the old file did not run with these arguments: no number proves their new form"
        )
    return facts


def _brief(error: BaseException) -> str:
    text = str(error).split("\n", 1)[0] if isinstance(error, NkiError) else f"{type(error).__name__}: {error}"
    return text.split("\n", 1)[0]


def _compare(result: Migration, path: Path, folder: Path, calls: Sequence[Call], seconds: float) -> None:
    """Run each call in both versions, and prove that these are one function."""
    for left, call in zip(range(len(calls), 0, -1), calls, strict=True):
        with contextlib.ExitStack() as files:
            try:
                before = files.enter_context(loaded(folder / f"{path.stem}_before.py", result.old, path.parent))
                old = launched(before, call, new=False)
            except Exception as error:
                result.notes.append(f"`{call.kernel}` was not compared: it does not run as it is: {_brief(error)}")
                continue
            try:
                after = files.enter_context(
                    loaded(folder / f"{path.stem}_after.py", result.new, path.parent, beta1=False)
                )
                new = launched(after, call, new=True)
            except Exception as error:
                older = _older_neighbours(result.new, path) if result.beta1 else ""
                text = f"the new version does not run: {_brief(error)}{older}"
                result.outcomes.append(Outcome(call.kernel, text, False))
                continue
            outcome = compared(call, old, new)
            if seconds:
                sides = launch_of(before, call, new=False), launch_of(after, call, new=True)
                proof = proved(*sides, seconds / left)
                outcome, seconds = replace(outcome, proof=proof), max(0.0, seconds - proof.seconds)
            result.outcomes.append(outcome)


def _older_neighbours(source: str, path: Path) -> str:
    """A clause that names the files of Beta 1 beside ``path`` that its code imports; "" if there are none."""
    modules = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) and node.module
            else [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        )
    }  # fmt: skip
    files = [path.parent / f"{name.replace('.', '/')}.py" for name in sorted(modules)]
    older = [file.name for file in files if file.is_file() and is_beta1(file.read_text(encoding="utf-8"))]
    return f"; it imports {' and '.join(older)}, of Beta 1: migrate that as well" if older else ""


def _with_marks(source: str, differing: Sequence[Outcome]) -> str:
    """The source with a comment above each kernel with results that differ."""
    lines = source.split("\n")
    for one in differing:
        name = one.kernel.rpartition(".")[2]
        head = "if __name__" if name == PROGRAM else f"def {name}("
        place = next((k for k, line in enumerate(lines) if line.lstrip().startswith(head)), None)
        if place is None:
            place = 0
        while place > 0 and lines[place - 1].lstrip().startswith("@"):
            place -= 1
        indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
        lines.insert(place, f"{indent}{MARK} {_complaint(one)}")
    return "\n".join(lines)


def _complaint(one: Outcome) -> str:
    """The difference, in one line."""
    if not one.same or one.proof is None:
        return one.text
    return reported(one.proof, 0)[0]


__all__ = ["SECONDS", "Migration", "is_beta1", "migrated"]
