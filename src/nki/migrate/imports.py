"""Imports of a Beta 1 file under the names of today, all at the top of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Final

from nki.language.releases.v0_2 import OF_BETA_1
from nki.source_text.lines import Line, as_it_is, comment_behind
from nki.source_text.names import Names
from nki.source_text.source import code_of

_GONE: Final = {
    "affine_range", "sequential_range", "static_range",
    *(full.rpartition(".")[2] for full in OF_BETA_1.names if not full.startswith("nki.compiler.")),
}  # fmt: skip
"""Names that rewritten code no longer uses."""
_CONSTANTS: Final = ("nki.language.constants", "nki.isa.constants")
"""Modules of Beta 1 with names that the package itself has today."""

Import = ast.Import | ast.ImportFrom


def is_import(group: Sequence[ast.stmt]) -> bool:
    """True for a line of imports alone."""
    return all(isinstance(small, Import) for small in group)


def renamed(small: Import) -> list[str]:
    """The import statements of today, as code, that one of Beta 1 becomes; others stay as they are."""
    if isinstance(small, ast.ImportFrom):
        return _import_from(small, small.module) if small.module is not None and not small.level else [code_of(small)]
    packages = ("neuronxcc", "torch_neuronx", "jax_neuronx")
    return [text for alias in small.names if alias.name not in packages for text in _import(alias.name, alias.asname)]


def _import(full: str, bound: str | None) -> list[str]:
    name = full.removeprefix("neuronxcc.")
    if name.startswith("nki.compiler"):
        return []
    if name in _CONSTANTS and bound:
        name = name.removesuffix(".constants")
    if name == "nki" and bound in (None, "nki"):
        return ["import nki"]
    return [f"import {name} as {bound}" if bound else f"import {name}"]


def _import_from(small: ast.ImportFrom, module: str) -> list[str]:
    name = module.removeprefix("neuronxcc.")
    if small.names[0].name == "*":
        return [f"from {name} import *"] if not module.startswith("neuronxcc.nki.compiler") else []
    if module == "torch_neuronx":
        kept = [ast.unparse(alias) for alias in small.names if alias.name != "nki_jit"]
        nki = ["import nki"] if len(kept) < len(small.names) else []
        return [*nki, *([f"from {module} import {', '.join(kept)}"] if kept else [])]
    if not module.startswith("neuronxcc"):
        return [code_of(small)]
    if name in _CONSTANTS:
        name = name.removesuffix(".constants")
    result: list[str] = []
    kept: list[str] = []
    for alias in small.names:
        one = alias.name
        if one in ("nki", "language", "isa", "typing") and name in ("neuronxcc", "nki"):
            full = "nki" if one == "nki" else f"nki.{one}"
            result += _import(full, alias.asname or one)
        elif one != "compiler" and one not in _GONE and not name.startswith("nki.compiler"):
            kept.append(ast.unparse(alias))
    return [*result, *([f"from {name} import {', '.join(kept)}"] if kept else [])]


class Imports:
    """The imports of a new file; ``written`` has the code of those that stand at its top."""

    def __init__(self) -> None:
        self.written: set[str] = set()

    def lines(self, group: Sequence[ast.stmt]) -> list[Line]:
        """One line of imports."""
        texts = [text for small in group if isinstance(small, Import) for text in renamed(small)]
        fresh = [text for text in dict.fromkeys(texts) if text not in self.written]
        self.written |= set(fresh)
        if fresh == [code_of(small) for small in group]:
            return [as_it_is(*group)]
        lines = [Line(text) for text in fresh]
        if lines:
            lines[-1].comment = comment_behind(group[-1])
        return lines

    def added(self, inner: Iterable[Import], names: Names, used: set[str]) -> list[Line]:
        """The imports of functions, and of modules that new code names; ``used`` are the names outside of imports."""
        hoisted = [text for small in inner for text in renamed(small) if text not in self.written]
        for alias, text in (("nki", "import nki"), ("nl", "import nki.language as nl"),
                            ("nisa", "import nki.isa as nisa"), ("nt", "import nki.typing as nt")):  # fmt: skip
            bound = names.bound.get(alias, "") in ("nki", "nki.language", "nki.isa", "nki.typing")
            if alias in used and (not bound or text not in self.written):
                hoisted.append(text)
        return [Line(text) for text in dict.fromkeys(hoisted) if text not in self.written]


def place_of(body: Sequence[ast.stmt]) -> int:
    """The place of the first import in a file without any: behind its docstring."""
    return int(bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant))


__all__ = ["Import", "Imports", "is_import", "place_of", "renamed"]
