"""The shape of the source: which module may import which, where modules may live, and how long they may grow."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# The layers that each layer imports from directly; it also sees what those see. Layers that no arrow joins never import
# each other.
ARROWS: dict[str, tuple[str, ...]] = {
    "base": (),
    "target": ("base",),
    "ir": ("target",),
    "cost": ("ir",),
    "analysis": ("ir",),
    "rendezvous": ("ir",),
    "isa": ("cost",),
    "passes": ("isa", "analysis"),
    "transforms": ("isa", "analysis"),
    "frontend": ("isa",),
    "language": ("frontend",),
    "numerics": ("isa",),
    "backend": ("numerics", "transforms", "rendezvous"),
    "sim": ("passes", "rendezvous"),
    "dtype": ("base",),
    "tensor": ("base",),
    "typing": ("language",),
    "collectives": ("language",),
    "compiler": ("passes", "transforms", "language", "backend", "sim"),
    "jit": ("compiler",),
    "frameworks": ("jit",),
    "jax": ("frameworks",),
    "torch": ("frameworks",),
    "testing": ("frameworks",),
    "profiling": ("jit",),
    "harness": ("frameworks", "profiling"),
    "beta1": ("harness",),
    "framework": ("harness",),
    "runtime": ("harness",),
    "simulator": ("harness",),
    "migrate": ("jit",),
    "describe": ("jit",),
    "cli": ("describe", "profiling", "migrate"),
    "__main__": ("cli",),
}

ENTRY_POINTS = {
    ("nki", "_internal"),
    *(
        ("nki", "compiler", name)
        for name in ("_internal", "driver", "frontend", "kernel_builder", "ncc_driver", "target")
    ),
}
"""Modules of the layer ``harness`` that lie in another folder, for public code imports them by these names."""

# What a function may import when it runs: packages that a user may not have.
OPTIONAL = {"torch", "torch_xla", "jax", "jaxlib", "libcst"}
NATIVE = (("nki", "backend", "cpu"), ("nki", "numerics"))
"""The folders that emit LLVM IR."""

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
FILE_LINES = 500
FOLDER_FILES = 24
LARGE_FOLDERS = {"nki/isa/instructions"}
"""One file per mnemonic or documented family, as many as there are."""
FUNCTION_LINES = 60
# Path, or path::function, and why it may be longer.
LONG: dict[str, str] = {}


def modules(source: Path) -> Iterator[tuple[Path, tuple[str, ...], ast.Module]]:
    """Every module below ``source``: its file, its dotted name in parts, its syntax tree."""
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        yield file, parts, ast.parse(file.read_text(encoding="utf-8"), str(file))


def imported(node: ast.Import | ast.ImportFrom, parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The dotted names that an import statement of module ``parts`` names."""
    if isinstance(node, ast.Import):
        return [tuple(alias.name.split(".")) for alias in node.names]
    start = parts[: len(parts) - node.level] if node.level else ()
    module = (*start, *(node.module.split(".") if node.module else ()))
    return [(*module, alias.name) for alias in node.names]


def layer(parts: tuple[str, ...]) -> str:
    """The layer of a dotted name inside ``nki``; "" for the top-level package itself, and for what is outside."""
    if parts[:3] in ENTRY_POINTS:
        return "harness"
    return parts[1] if len(parts) > 1 and parts[0] == "nki" and parts[1] != "__init__" else ""


def wrong_arrow(importer: tuple[str, ...], name: tuple[str, ...]) -> str:
    """What is wrong with ``importer`` importing ``name``; "" when nothing is."""
    if name[0] == "llvmlite" and not any(importer[: len(folder)] == folder for folder in NATIVE):
        return "only nki.backend.cpu and nki.numerics may import llvmlite"
    if name[0] != "nki":
        return ""
    here, there = layer(importer), layer(name)
    if not here or here == there:
        return ""  # the top-level package shows everybody's public names; a layer is free inside
    if there not in ARROWS:
        return "only nki/__init__.py joins the public names; import from the module that defines the name"
    if here not in ARROWS:
        return f"nki.{here} has no place in the layers: give it one in ARROWS"
    return "" if there in below(here) else f"nki.{here} must not import nki.{there}"


def below(name: str) -> set[str]:
    """Every layer that ``name`` sees."""
    return {lower for direct in ARROWS[name] for lower in (direct, *below(direct))}


def named_modules(tree: ast.Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and name of each module of ours in a string constant of a file that imports modules by name."""
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in ast.walk(tree)}
    if not names & {"import_module", "imported"}:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"nki(\.\w+)+", node.value):
            parts = tuple(node.value.split("."))
            if SOURCE.joinpath(*parts).is_dir() or SOURCE.joinpath(*parts).with_suffix(".py").is_file():
                yield node.lineno, parts


def local_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a function does."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom))


def crowded(source: Path) -> Iterator[str]:
    """Folders with too many files."""
    for folder in sorted({file.parent for file in source.rglob("*.py")}):
        name = folder.relative_to(source).as_posix()
        count = len(list(folder.glob("*.py")))
        if count > FOLDER_FILES and name not in LARGE_FOLDERS:
            yield f"{name}:1: {count} files, more than {FOLDER_FILES}"


def complaints(source: Path) -> Iterator[str]:
    """Everything below ``source`` that breaks a rule of this file, as ``path:line: reason``."""
    yield from crowded(source)
    for file, parts, tree in modules(source):
        where = file.relative_to(source).as_posix()
        if FORBIDDEN_NAMES & set(parts):
            yield f"{where}:1: a module is named after what it does, not {parts[-1]}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name in imported(node, parts):
                    if reason := wrong_arrow(parts, name):
                        yield f"{where}:{node.lineno}: {reason}"
        for line, name in named_modules(tree):
            if reason := wrong_arrow(parts, name):
                yield f"{where}:{line}: {reason}, also not by its name"
        for node in local_imports(tree):
            names = imported(node, parts)
            # A framework's own adapter may import that framework's adapter module when it is first needed.
            if not all(name[0] in OPTIONAL or name[:2] == ("nki", "frameworks") for name in names):
                yield f"{where}:{node.lineno}: only optional packages are imported inside functions"
        yield from too_long(where, file, tree)


def too_long(where: str, file: Path, tree: ast.Module) -> Iterator[str]:
    """Files and functions beyond the limits, unless LONG excuses them."""
    lines = len(file.read_text(encoding="utf-8").splitlines())
    if lines > FILE_LINES and where not in LONG:
        yield f"{where}:1: {lines} lines, more than {FILE_LINES}"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if length > FUNCTION_LINES and f"{where}::{node.name}" not in LONG:
                yield f"{where}:{node.lineno}: {node.name} has {length} lines, more than {FUNCTION_LINES}"


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's docstring: documentation is never too long."""
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def test_the_source_keeps_the_rules() -> None:
    found = list(complaints(SOURCE))
    assert not found, "\n" + "\n".join(found)


def test_every_excuse_is_still_needed() -> None:
    for path in LONG:
        file, _, function = path.partition("::")
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        if function:
            found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function]
            assert any((n.end_lineno or 0) - n.lineno + 1 - docstring_lines(n) > FUNCTION_LINES for n in found), path
        else:
            assert len((SOURCE / file).read_text(encoding="utf-8").splitlines()) > FILE_LINES, path


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("base/a.py", "from nki.target import find", "nki.base must not import nki.target"),
        ("base/a.py", "import nki.ir.program", "nki.base must not import nki.ir"),
        ("target/a.py", "from nki import ir", "nki.target must not import nki.ir"),
        ("target/a.py", "from ..ir import kernel", "nki.target must not import nki.ir"),
        ("ir/a.py", "from nki.isa.rules import rule", "nki.ir must not import nki.isa"),
        ("isa/a.py", "from nki.frontend import check", "nki.isa must not import nki.frontend"),
        ("frontend/a.py", "from nki.language import tile_size", "nki.frontend must not import nki.language"),
        ("cost/a.py", "from nki.isa import rules", "nki.cost must not import nki.isa"),
        ("analysis/a.py", "from nki.isa import rules", "nki.analysis must not import nki.isa"),
        ("transforms/a.py", "from nki.backend.cpu import runtime", "nki.transforms must not import nki.backend"),
        ("backend/a.py", "from nki.passes import order", "nki.backend must not import nki.passes"),
        ("describe/a.py", "from nki.cli import main", "nki.describe must not import nki.cli"),
        (
            "jit.py",
            "import importlib\nbridge = importlib.import_module('nki.frameworks.torch')",
            "nki.jit must not import nki.frameworks, also not by its name",
        ),
        ("passes/a.py", "from nki.backend import reference", "nki.passes must not import nki.backend"),
        ("backend/a.py", "from nki.sim import timing", "nki.backend must not import nki.sim"),
        ("sim/a.py", "from nki.language import add", "nki.sim must not import nki.language"),
        ("compiler/a.py", "from nki.jit import jit", "nki.compiler must not import nki.jit"),
        ("jit.py", "from nki.frameworks import numpy", "nki.jit must not import nki.frameworks"),
        ("jit.py", "from nki.compiler import driver", "nki.jit must not import nki.harness"),
        ("frameworks/a.py", "from nki.harness import device", "nki.frameworks must not import nki.harness"),
        ("cli.py", "from nki.frameworks import torch", "nki.cli must not import nki.frameworks"),
        ("ir/a.py", "from nki import jit", "nki.ir must not import nki.jit"),
        ("ir/a.py", "if True:\n    from nki.jit import jit", "nki.ir must not import nki.jit"),
        ("ir/a.py", "import nki", "only nki/__init__.py joins the public names"),
        ("ir/a.py", "from nki import __version__", "only nki/__init__.py joins the public names"),
        ("extra/a.py", "from nki.base import dtype", "nki.extra has no place"),
        ("ir/a.py", "import llvmlite.ir", "only nki.backend.cpu and nki.numerics may import llvmlite"),
        (
            "backend/reference.py",
            "from llvmlite import ir",
            "only nki.backend.cpu and nki.numerics may import llvmlite",
        ),
        ("ir/a.py", "def f():\n    import json", "only optional packages"),
        ("ir/a.py", "class C:\n    def f(self):\n        from nki.base import dtype", "only optional packages"),
        ("ir/utils.py", "", "a module is named after what it does"),
        ("ir/helpers/a.py", "", "a module is named after what it does"),
        ("ir/a.py", "x = 1\n" * 501, "501 lines, more than 500"),
        ("ir/a.py", "def f():\n" + "    x = 1\n" * 60, "f has 61 lines, more than 60"),
    ],
)
def test_the_checker_catches(tmp_path: Path, path: str, text: str, reason: str) -> None:
    file = tmp_path / "nki" / path
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    found = list(complaints(tmp_path))
    assert len(found) == 1, found
    assert found[0].startswith(f"nki/{path}:")
    assert reason in found[0]


def test_the_checker_accepts(tmp_path: Path) -> None:
    accepted = {
        "__init__.py": "from nki.jit import jit\nfrom nki.base.version import __version__",
        "base/a.py": "import numpy\nfrom nki.base import dtype\nfrom . import dtype\nfrom .dtype import of",
        "passes/a.py": "from nki.isa import registry\nfrom nki.ir.kernel import Kernel",
        "isa/a.py": "from nki.cost import engines",
        "backend/numpy/a.py": "from nki.numerics import matmul\nfrom nki.rendezvous import turns",
        "language/a.py": "from nki.frontend import values",
        "backend/cpu/a.py": "from llvmlite import ir\nimport llvmlite.binding",
        "frameworks/a.py": "def f():\n    import torch\n    from jax import ffi\n    from nki.frameworks import torch",
        "cli.py": "from nki import target, jit",
        "compiler/driver.py": "from nki.harness.compilation import compile_to_bir",
        "ir/a.py": 'def f():\n    """' + "long story\n" * 80 + '"""\n' + "    x = 1\n" * 58,
    }
    for path, text in accepted.items():
        file = tmp_path / "nki" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert list(complaints(tmp_path)) == []


def test_import_nki_pulls_in_neither_frameworks_nor_llvm() -> None:
    script = """
        import sys, nki
        slow = {"torch", "torch_xla", "jax", "jaxlib", "llvmlite"}
        print(*sorted({name.partition(".")[0] for name in sys.modules} & slow))
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []
