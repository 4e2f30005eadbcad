"""A kernel that is of Beta 1 in parts, read for advice: what each of its statements would be today."""

from __future__ import annotations

import ast
import re
import sys
import types
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import nki.isa as nisa
import nki.language
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.language.beta1_rewriting.facts import Facts, Tensor
from nki.language.beta1_rewriting.functions import Functions
from nki.language.beta1_rewriting.report import Report
from nki.language.beta1_rewriting.statements import Statements
from nki.language.beta1_rewriting.types import Types
from nki.language.nki_tensor import NkiTensor
from nki.source_text.lines import Line, first_row, rendered
from nki.source_text.names import Names, normal
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import Source, names_in

_NL: Final = "nki.language"
_BARE: Final = {
    **{name: f"{_NL}.{name}" for name in ("arange", "mgrid", "par_dim", "affine_range", "sequential_range")},
    "sb_mod": "nki.compiler.sbuf.mod_alloc",
}
"""Names that files import one by one, and that no module has any longer."""
_WIDE: Final = 10_000
"""Columns of a line of advice."""


@dataclass(slots=True)
class Reading:
    """A function that was rewritten: ``nodes`` has its statements, written anew, by the identity of the old ones."""

    names: Names
    report: Report
    nodes: dict[int, Any]
    types: Types

    def lines(self, statement: ast.stmt) -> list[str] | None:
        """The lines in place of a statement; None if the source does not tell, or nothing changes."""
        lines = self._new(statement)
        if lines is None or any(line.mark or line.kept for line in lines):
            return None
        if hasattr(statement, "body") and len(lines) == 1 and lines[0].body is not None:
            texts = [lines[0].text]
        else:
            texts = rendered([replace(line, above=[]) for line in lines], _WIDE)
        code = self.renamed("\n".join(texts))
        return None if code == ast.unparse(statement) or self._is_of_beta1(code) else code.split("\n") if code else []

    def _new(self, statement: ast.stmt) -> list[Line] | None:
        return self.report.lines.get(id(self.nodes[id(statement)]))

    def is_definition(self, statement: ast.stmt) -> bool:
        """True for an assignment of index tiles, masks and the like, which new code does not have."""
        return isinstance(statement, ast.Assign) and self._new(statement) == []

    def renamed(self, text: str) -> str:
        """Code with the names that the kernel has for the modules of NKI."""
        for module, name in ((_NL, "nl"), ("nki.isa", "nisa")):
            alias = self.names.alias(module) or name
            text = re.sub(rf"(?<![\w.]){name}\.", f"{alias}.", text) if alias != name else text
        return text

    def _is_of_beta1(self, code: str) -> bool:
        """True for code with a name that is gone, and for no code at all."""
        try:
            tree = ast.parse(f"{code}\n    pass" if code.endswith(":") else code)
        except SyntaxError:
            return True
        language = nki.language
        full = (self.names.full(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
        return any(name.rpartition(".")[0] == _NL and not hasattr(language, name.rpartition(".")[2]) for name in full)


def read(captured: Any) -> Reading:
    """A captured function, read from its first statement on."""
    cells = {name: captured.closure(name) for name in captured.cells}
    names = Names(dict(_BARE))
    for name, value in {**captured.globals, **cells}.items():
        if value is not UNKNOWN and (full := _full_name(value)):
            names.bound[name] = full
    return _read(captured.node, names, {})


def read_at(site: Site) -> Reading:
    """A statement that has failed, with the values of its names."""
    names = Names(dict(_BARE))
    tensors: dict[str, Tensor] = {}
    for name, value in site.variables.items():
        if full := _full_name(value):
            names.bound[name] = full
        elif (tensor := _tensor_of(name, value)) is not None:
            tensors[name] = tensor
    return _read(site.statement, names, tensors)


def _read(node: ast.stmt, names: Names, tensors: dict[str, Tensor]) -> Reading:
    """A function, or one statement, written anew and rewritten."""
    new = Source(ast.unparse(node)).tree.body[0]
    report, facts = Report(), Facts(assumed=True)
    functions = Functions(names, facts, report)
    if isinstance(new, ast.FunctionDef):
        body = functions.body(new, None)
        body.block(new.body, first_row(new.body[0]) - 1)
    else:
        body = Statements(Types(names, facts), report, names_in(new))
        body.functions = functions.function
        body.types.tensors.update(tensors)
        body.block([new], 0)
    pairs = zip(*([part for part in ast.walk(each) if isinstance(part, ast.stmt)] for each in (node, new)), strict=True)
    return Reading(names, report, {id(old): one for old, one in pairs}, body.types)


def _tensor_of(name: str, value: object, depth: int = 0) -> Tensor | None:
    """A tensor, or tensors in lists."""
    if isinstance(value, NkiTensor):
        buffer = next((kind for kind in ("psum", "hbm") if kind in value.buffer.value), "sbuf")
        return Tensor(None, f"{name}{'[0]' * depth}.dtype", buffer, (Polynomial.of(1),) * depth)
    if isinstance(value, list) and value:
        return _tensor_of(name, cast("list[object]", value)[0], depth + 1)
    return None


def _full_name(value: object) -> str:
    """The full name of a module, or of a function of ``nki.isa`` and ``nki.language`` that was imported by itself."""
    if isinstance(value, types.ModuleType):
        return normal(value.__name__)
    name = getattr(value, "__name__", "")
    if isinstance(name, str) and callable(value):
        for module in (nisa, sys.modules[_NL]):
            if name and getattr(module, name, None) is value:
                return f"{module.__name__}.{name}"
    return ""


__all__ = ["Reading", "read", "read_at"]
