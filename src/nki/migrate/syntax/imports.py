"""Imports of a Beta 1 file under the names of today, all at the top of the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import libcst as cst

from nki.migrate.syntax.code import code_of, statement
from nki.migrate.syntax.names import Names, names_in

_GONE: Final = {"par_dim", "arange", "mgrid", "trace", "spmd_dim", "nc", "loop_reduce", "all_reduce", "atomic_rmw",
                "fp32", "static_cast", "affine_range", "sequential_range", "static_range"}  # fmt: skip
"""Names that rewritten code no longer uses."""


_CONSTANTS = ("nki.language.constants", "nki.isa.constants")
"""Modules of Beta 1 whose names the package itself has today."""


def renamed(small: cst.BaseSmallStatement) -> list[str]:
    """The import statements of today, as code, that one of Beta 1 becomes; others stay as they are."""
    if isinstance(small, cst.Import):
        result: list[str] = []
        for alias in small.names:
            full = code_of(alias.name)
            bound = code_of(alias.asname.name) if alias.asname is not None else ""
            if full in ("neuronxcc", "torch_neuronx", "jax_neuronx"):
                continue
            result += _import(full, bound)
        return result
    if isinstance(small, cst.ImportFrom) and small.module is not None and not small.relative:
        return _import_from(small, code_of(small.module))
    return [code_of(small)]


def _import(full: str, bound: str) -> list[str]:
    name = full.removeprefix("neuronxcc.")
    if name.startswith("nki.compiler"):
        return []
    if name in _CONSTANTS and bound:
        name = name.removesuffix(".constants")
    if name == "nki" and bound in ("", "nki"):
        return ["import nki"]
    return [f"import {name} as {bound}" if bound else f"import {name}"]


def _import_from(small: cst.ImportFrom, module: str) -> list[str]:
    name = module.removeprefix("neuronxcc.")
    if isinstance(small.names, cst.ImportStar):
        return [f"from {name} import *"] if not module.startswith("neuronxcc.nki.compiler") else []
    if module == "torch_neuronx":
        kept = [code_of(alias).rstrip(", ") for alias in small.names if code_of(alias.name) != "nki_jit"]
        nki = ["import nki"] if len(kept) < len(small.names) else []
        return [*nki, *([f"from {module} import {', '.join(kept)}"] if kept else [])]
    if not module.startswith("neuronxcc"):
        return [code_of(small)]
    if name in _CONSTANTS:
        name = name.removesuffix(".constants")
    result: list[str] = []
    kept: list[str] = []
    for alias in small.names:
        one = code_of(alias.name)
        bound = code_of(alias.asname.name) if alias.asname is not None else ""
        if one in ("nki", "language", "isa", "typing") and name in ("neuronxcc", "nki"):
            full = "nki" if one == "nki" else f"nki.{one}"
            result += _import(full, bound or one)
        elif one == "compiler" or one in _GONE or name.startswith("nki.compiler"):
            continue
        else:
            kept.append(f"{one} as {bound}" if bound else one)
    return [*result, *([f"from {name} import {', '.join(kept)}"] if kept else [])]


def placed(
    body: Sequence[cst.BaseStatement], inner: Iterable[cst.BaseSmallStatement], names: Names
) -> list[cst.BaseStatement]:
    """The body of a module with imports of today; those of functions go behind the last one at the top."""
    result: list[cst.BaseStatement] = []
    written: set[str] = set()
    last = -1
    for line in body:
        if _is_import(line) and isinstance(line, cst.SimpleStatementLine):
            new = _line(line, written)
            result += new
            last = len(result) - 1 if new else last
        else:
            result.append(line)
    used = set[str]()
    for line in result:
        if not _is_import(line):
            used |= names_in(line)
    hoisted = [text for small in inner for text in renamed(small) if text not in written]
    for alias, text in (("nki", "import nki"), ("nl", "import nki.language as nl"), ("nisa", "import nki.isa as nisa"),
                        ("nt", "import nki.typing as nt")):  # fmt: skip
        bound = names.bound.get(alias, "") in ("nki", "nki.language", "nki.isa", "nki.typing")
        if alias in used and (not bound or text not in written):
            hoisted.append(text)
    new = [statement(text) for text in dict.fromkeys(hoisted) if text not in written]
    if last < 0:
        last = 0 if result and _is_docstring(result[0]) else -1
        while last + 1 < len(result) and "__future__" in code_of(result[last + 1]):
            last += 1
    return [*result[: last + 1], *new, *result[last + 1 :]]


def _is_import(line: cst.BaseStatement) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and any(
        isinstance(small, cst.Import | cst.ImportFrom) for small in line.body
    )


def _is_docstring(line: cst.BaseStatement) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr) and isinstance(
        line.body[0].value, cst.SimpleString | cst.ConcatenatedString
    )  # fmt: skip


def _line(line: cst.SimpleStatementLine, written: set[str]) -> list[cst.BaseStatement]:
    """One line of imports."""
    texts: list[str] = []
    for small in line.body:
        texts += renamed(small)
    fresh = [text for text in dict.fromkeys(texts) if text not in written]
    written |= set(fresh)
    if fresh == [code_of(line.body[0])]:
        return [line]
    new: list[cst.BaseStatement] = [statement(text) for text in fresh]
    if new and isinstance(new[0], cst.SimpleStatementLine):
        new[0] = new[0].with_changes(leading_lines=line.leading_lines)
        last = new[-1]
        if isinstance(last, cst.SimpleStatementLine):
            new[-1] = last.with_changes(trailing_whitespace=line.trailing_whitespace)
    return new


__all__ = ["placed", "renamed"]
