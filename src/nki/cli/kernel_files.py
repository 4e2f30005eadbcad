"""Python files below a folder that define kernels."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from nki.base.source import parsed


def kernel_files(folder: Path) -> Iterator[Path]:
    """The files below ``folder`` that define kernels, in order; not the files of hidden folders and of virtual
    environments. A file with the word and without valid syntax counts: its error is a finding.
    """
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if n[0] != "." and n not in ("__pycache__", "node_modules"))
        folders[:] = [n for n in folders if not os.path.exists(os.path.join(root, n, "pyvenv.cfg"))]
        for name in sorted(names):
            path = Path(root, name)
            if name.endswith(".py") and path.is_file() and _defines_kernels(path):
                yield path


def _defines_kernels(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    if "nki" not in text or "jit" not in text:
        return False
    try:
        nodes = list(ast.walk(parsed(text, str(path))))
    except (SyntaxError, ValueError, RecursionError):
        return "nki.jit" in text
    imports = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imports += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    if not any("nki" in name.split(".") for name in imports):
        return False
    return any(_is_jit(node) for node in nodes)


def _is_jit(node: ast.AST) -> bool:
    """True for ``nki.jit`` in code, and for the import of a ``jit`` from there."""
    match node:
        case ast.Attribute(attr="jit", value=ast.Name(id=name)):
            return "nki" in name
        case ast.ImportFrom(module=str(module), names=names):
            return "nki" in module.split(".") and any(alias.name == "jit" for alias in names)
        case _:
            return False


__all__ = ["kernel_files"]
