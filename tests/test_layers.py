"""The shape of the source: which module may import which, where modules may live, and how long they may grow."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
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
    "source_text": (),
    "language": ("frontend", "source_text"),
    "numerics": ("isa",),
    "backend": ("numerics", "transforms", "rendezvous"),
    "shadows": ("backend",),
    "sim": ("passes", "rendezvous"),
    "dtype": ("base",),
    "tensor": ("base",),
    "typing": ("language",),
    "collectives": ("language",),
    "compilation": ("passes", "transforms", "language", "backend", "sim"),
    "jit": ("compilation",),
    "frameworks": ("jit",),
    "jax": ("frameworks",),
    "torch": ("frameworks",),
    "testing": ("frameworks", "sweeps"),
    "profiling": ("jit",),
    "harness": ("frameworks", "profiling"),
    "beta1": ("harness",),
    "_internal": ("harness",),
    "compiler": ("harness",),
    "framework": ("harness",),
    "runtime": ("harness",),
    "simulator": ("harness",),
    "migrate": ("proofs",),
    "describe": ("jit",),
    "workload": ("jit",),
    "sweeps": ("workload", "profiling"),
    "proofs": ("workload", "profiling", "shadows"),
    "rounding": ("workload", "profiling", "shadows"),
    "optimising": ("proofs", "rounding"),
    "cli": ("describe", "migrate", "sweeps", "optimising", "testing"),
    "__main__": ("cli",),
}

# What a function may import when it runs: packages that a user may not have.
OPTIONAL = {"torch", "torch_xla", "jax", "jaxlib"}
NATIVE = (("nki", "backend", "cpu"), ("nki", "numerics"))
"""The folders that emit LLVM IR."""

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
FILE_LINES = 500
FUNCTION_LINES = 60
# Path, or path::function, and why it may be longer.
LONG: dict[str, str] = {}

Name = tuple[str, ...]
"""A dotted name in parts; for a module its path, which ends in ``__init__`` for a folder's own module."""
Graph = dict[Name, dict[Name, int]]
"""The modules that each module imports, with the line."""


@dataclass(frozen=True)
class Module:
    """A module: its name, its text, and all nodes of its syntax tree."""

    parts: Name
    text: str
    nodes: list[ast.AST]

    @property
    def path(self) -> str:
        return f"{'/'.join(self.parts)}.py"

    @property
    def imports(self) -> list[tuple[int, Name]]:
        """Line and dotted name of each import."""
        found = [node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        return [(node.lineno, name) for node in found for name in imported(node, self.parts)]


@functools.cache
def source() -> list[Module]:
    return modules(SOURCE)


def modules(folder: Path) -> list[Module]:
    """Every module below ``folder``."""
    found: list[Module] = []
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        found.append(Module(file.relative_to(folder).with_suffix("").parts, text, list(ast.walk(ast.parse(text)))))
    return found


def imported(node: ast.Import | ast.ImportFrom, parts: Name) -> list[Name]:
    """The dotted names that an import statement of module ``parts`` names."""
    if isinstance(node, ast.Import):
        return [tuple(alias.name.split(".")) for alias in node.names]
    start = parts[: len(parts) - node.level] if node.level else ()
    module = (*start, *(node.module.split(".") if node.module else ()))
    return [(*module, alias.name) for alias in node.names]


def layer(parts: Name) -> str:
    """The layer of a dotted name inside ``nki``; "" for the top-level package itself, and for what is outside."""
    return parts[1] if len(parts) > 1 and parts[0] == "nki" and parts[1] != "__init__" else ""


def wrong_arrow(importer: Name, name: Name) -> str:
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


def named_modules(nodes: list[ast.AST]) -> Iterator[tuple[int, Name]]:
    """Line and name of each module of ours in a string constant of a file that imports modules by name."""
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in nodes}
    if not names & {"import_module", "imported"}:
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"nki(\.\w+)+", node.value):
            parts = tuple(node.value.split("."))
            if SOURCE.joinpath(*parts).is_dir() or SOURCE.joinpath(*parts).with_suffix(".py").is_file():
                yield node.lineno, parts


def local_imports(nodes: list[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when a function does."""
    for function in nodes:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom))


def import_graph(found: list[Module]) -> Graph:
    """The imports among modules, those for types only and those by name (``named_modules``) as well.

    That Python runs the ``__init__`` of each folder around a module is no import of the module's own.
    """
    files = {each.parts[:-1] if each.parts[-1] == "__init__" else each.parts: each.parts for each in found}
    graph: Graph = {each.parts: {} for each in found}
    for each in found:
        for line, name in [*each.imports, *named_modules(each.nodes)]:
            target = files.get(name) or files.get(name[:-1])
            if target not in (None, each.parts):
                graph[each.parts].setdefault(target, line)
    return graph


def circles(graph: Graph) -> Iterator[str]:
    """A circle of modules, where each imports the next one, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[Name] = error.args[1][::-1]
        yield f"{place(graph, circle[0], circle[1])}: imports in a circle: {' -> '.join(map('.'.join, circle))}"


def two_ways(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """Neighbouring folders that import from each other: two paths, and the place of one import from the first."""
    seen: dict[tuple[Name, Name], str] = {}
    for importer in graph:
        for name in graph[importer]:
            depth = next(n for n, (one, two) in enumerate(zip(importer, name, strict=False)) if one != two)
            if depth < min(len(importer), len(name)) - 1:
                pair = importer[: depth + 1], name[: depth + 1]
                seen.setdefault(pair, place(graph, importer, name))
    yield from (("/".join(a), "/".join(b), at) for (a, b), at in sorted(seen.items()) if a < b and (b, a) in seen)


def place(graph: Graph, importer: Name, name: Name) -> str:
    """The file and the line of an import."""
    return f"{'/'.join(importer)}.py:{graph[importer][name]}"


def complaints(found: list[Module]) -> Iterator[str]:
    """Everything that breaks a rule of this file, as ``path:line: reason``."""
    graph = import_graph(found)
    yield from circles(graph)
    yield from (f"{at}: {a} and {b} import from each other" for a, b, at in two_ways(graph))
    for each in found:
        if FORBIDDEN_NAMES & set(each.parts):
            yield f"{each.path}:1: a module is named after what it does, not {each.parts[-1]}"
        for line, name in each.imports:
            if reason := wrong_arrow(each.parts, name):
                yield f"{each.path}:{line}: {reason}"
        for line, name in named_modules(each.nodes):
            if reason := wrong_arrow(each.parts, name):
                yield f"{each.path}:{line}: {reason}, also not by its name"
        for node in local_imports(each.nodes):
            names = imported(node, each.parts)
            # A framework's own adapter may import that framework's adapter module when it is first needed.
            if not all(name[0] in OPTIONAL or name[:2] == ("nki", "frameworks") for name in names):
                yield f"{each.path}:{node.lineno}: only optional packages are imported inside functions"
        yield from too_long(each)


def too_long(module: Module) -> Iterator[str]:
    """Files and functions beyond the limits, unless LONG excuses them."""
    lines = len(module.text.splitlines())
    if lines > FILE_LINES and module.path not in LONG:
        yield f"{module.path}:1: {lines} lines, more than {FILE_LINES}"
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if length > FUNCTION_LINES and f"{module.path}::{node.name}" not in LONG:
                yield f"{module.path}:{node.lineno}: {node.name} has {length} lines, more than {FUNCTION_LINES}"


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function's docstring: documentation is never too long."""
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def test_the_source_keeps_the_rules() -> None:
    found = list(complaints(source()))
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
        ("compilation/a.py", "from nki.jit import jit", "nki.compilation must not import nki.jit"),
        ("compilation/a.py", "from nki.compiler import driver", "nki.compilation must not import nki.compiler"),
        ("jit.py", "from nki.frameworks import numpy", "nki.jit must not import nki.frameworks"),
        ("jit.py", "from nki.compiler import driver", "nki.jit must not import nki.compiler"),
        ("frameworks/a.py", "from nki.harness import device", "nki.frameworks must not import nki.harness"),
        ("cli.py", "from nki.harness import torch", "nki.cli must not import nki.harness"),
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
    write(tmp_path, {path: text})
    found = list(complaints(modules(tmp_path)))
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
    write(tmp_path, accepted)
    assert list(complaints(modules(tmp_path))) == []


def write(folder: Path, files: dict[str, str]) -> None:
    """Write ``files``, texts by path in ``nki``, into ``folder``."""
    for path, text in files.items():
        file = folder / "nki" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "texts",
    [
        ("import numpy\nfrom nki.ir.program import Program", "from . import loop"),
        ("from nki.ir.program import Program", "if TYPE_CHECKING:\n    from nki.ir.loop import For"),
        ("from nki.ir import program", "later = imported('nki.ir.loop')"),
        ("from nki.ir import program", "from nki.ir.types import Form", "import nki.ir.loop"),
    ],
)
def test_the_checker_catches_circles(tmp_path: Path, texts: tuple[str, ...]) -> None:
    names = ("loop", "program", "types")[: len(texts)]
    write(tmp_path, {f"ir/{name}.py": text for name, text in zip(names, texts, strict=True)})
    circles = ([f"nki.ir.{name}" for name in (*names[n:], *names[:n], names[n])] for n in range(len(names)))
    [found] = complaints(modules(tmp_path))
    assert any(found.endswith(f": imports in a circle: {' -> '.join(circle)}") for circle in circles), found


def test_the_checker_catches_folders_that_import_from_each_other(tmp_path: Path) -> None:
    one_way = {"ir/one/a.py": "from nki.ir.two import c", "ir/two/c.py": "", "ir/one/d.py": "", "ir/e.py": ""}
    write(tmp_path, {**one_way, "ir/two/b.py": "from nki.ir import e"})
    assert list(complaints(modules(tmp_path))) == []
    write(tmp_path, {"ir/two/b.py": "import numpy\nfrom nki.ir.one.d import f"})
    assert list(complaints(modules(tmp_path))) == [
        "nki/ir/one/a.py:1: nki/ir/one and nki/ir/two import from each other"
    ]


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
