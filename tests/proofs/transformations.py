"""Everything in the source that changes a program, found by reading it, and what of that has changed one in a run.

A transformation is a class of stages that runs (``Stage``, without classes that others inherit), a function or method
that takes and gives a program or the program of a core, one that makes a core with another body or other places, or a
rule on statements of the kernel IR. A new one is found by its signature; no list has to name it.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

import nki
from nki.ir.program import CoreProgram, Program

SOURCE: Final = Path(nki.__file__).parent
PACKAGES: Final = ("passes", "transforms", "backend", "compilation")
"""Where functions that change programs are looked for; stages are looked for everywhere."""
_PROGRAMS: Final = {"Program", "CoreProgram"}
_STATEMENTS: Final = "list[LoopStatement]"
_MAKERS: Final = {"with_body", "with_placement", "with_cores"}
_INTERFACE: Final = {"run", "transform", "check", "edits"}
"""The methods of stages: a stage counts once."""


@cache
def _trees() -> dict[str, ast.Module]:
    """The syntax of each module that may have a transformation, by its path below the package."""
    texts = {str(file.relative_to(SOURCE)): file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))}
    asked = {path: text for path, text in texts.items() if path.split("/")[0] in PACKAGES or "Stage)" in text}
    return {path: ast.parse(text) for path, text in asked.items()}


@cache
def stages() -> frozenset[str]:
    """The names of the classes of stages that no other class inherits from, in all of the source."""
    bases = {
        node.name: [ast.unparse(base) for base in node.bases]
        for tree in _trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"Stage"}
    while more := {name for name, of in bases.items() if found.intersection(of)} - found:
        found |= more
    return frozenset(found - {base for name in found for base in bases.get(name, ())} - {"Stage"})


@cache
def functions() -> frozenset[str]:
    """The functions, as ``module:qualified name``, that change programs or statements and are not a stage's own."""
    found = set[str]()
    for path, tree in _trees().items():
        if path.split("/")[0] in PACKAGES:
            found.update(f"{path}:{name}" for name in _functions(tree.body, ""))
    return frozenset(found)


def _functions(body: Iterable[ast.stmt], prefix: str, of_stage: bool = False) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            is_stage = node.name in stages() or any("Stage" in ast.unparse(base) for base in node.bases)
            yield from _functions(node.body, f"{prefix}{node.name}.", is_stage)
        elif isinstance(node, ast.FunctionDef) and not (of_stage and node.name in _INTERFACE) and _changes(node):
            yield prefix + node.name


def _changes(function: ast.FunctionDef) -> bool:
    parameters = [each.annotation for each in (*function.args.posonlyargs, *function.args.args)]
    if _names_program(function.returns) and any(map(_names_program, parameters)):
        return True
    if function.returns is not None and ast.unparse(function.returns) == _STATEMENTS:
        return any(each is not None and ast.unparse(each) == _STATEMENTS for each in parameters)
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in _MAKERS for call in calls)


def _names_program(annotation: ast.expr | None) -> bool:
    nodes = ast.walk(annotation) if annotation is not None else ()
    return any(isinstance(node, ast.Name) and node.id in _PROGRAMS for node in nodes)


def contents(program: Program) -> list[object]:
    """What stages change: the instructions, in order, what each waits for, and the places of tiles."""
    return [
        (dict(core.placement), [(inst.identity(), inst.waits) for inst in core.instructions()])
        for core in program.cores
    ]


class Changes:
    """The functions that have changed something, by the subject that was compiled then."""

    def __init__(self) -> None:
        self.by_subject: dict[str, set[str]] = defaultdict(set)
        self.subject = ""
        self._arguments: dict[FrameType, list[Any]] = {}

    def note(self, name: str) -> None:
        self.by_subject[name].add(self.subject)

    @contextmanager
    def watched(self, subject: str) -> Iterator[None]:
        """Note what changes programs while this runs."""
        self.subject = subject
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._arguments.clear()

    def _event(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        name = _NAMES.get((code.co_filename, code.co_qualname), "")
        if name == "":
            name = _NAMES[code.co_filename, code.co_qualname] = _name(code.co_filename, code.co_qualname)
        if name is None:
            return
        if event == "call":
            values = [frame.f_locals.get(each) for each in code.co_varnames[: code.co_argcount]]
            self._arguments[frame] = [list(each) if isinstance(each, list) else each for each in values]
        elif _is_change(self._arguments.pop(frame, []), result):
            self.note(name)


_NAMES: Final[dict[tuple[str, str], str | None]] = {}


def _name(file: str, function: str) -> str | None:
    try:
        name = f"{Path(file).relative_to(SOURCE)}:{function}"
    except ValueError:
        return None
    return name if name in functions() else None


def _is_change(arguments: list[Any], result: Any) -> bool:
    """True if the program or the statements in ``result`` are none of the ``arguments``."""
    results = result if isinstance(result, tuple) else (result,)
    made = [each for each in results if isinstance(each, Program | CoreProgram | list)]
    return any(not any(_is_same(each, argument) for argument in arguments) for each in made)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(lambda a, b: a is b, one, other))
    return one is other


__all__ = ["Changes", "contents", "functions", "stages"]
