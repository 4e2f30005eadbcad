"""Kernels that commands take: in a Python file, compiled, or as text."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Generator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, cast

from nki.base.errors import NkiError, TextError
from nki.base.text_loader import spec_of
from nki.base.usage import UsageError, nearest
from nki.compilation.bridges import STAND_INS
from nki.ir.program import Program
from nki.ir.text import artifact, parser
from nki.jit import Kernel
from nki.workload.failed_import import is_of, not_imported, not_there

FORMS: Final = "FILE.py:KERNEL, FILE.klir (from `nki dump --artifact`), FILE.nki (text from `nki dump`), or - for text"

SOME: Final = 8
"""Files of a folder that an error names, at most."""


@contextlib.contextmanager
def opened(source: str) -> Generator[Kernel | Program]:
    """The kernel that ``source`` names; its folder and the present one are importable while the context lasts."""
    file, name = split(source)
    path = Path(file)
    if file == "-":
        yield parser.parse(sys.stdin.read(), "<stdin>")
        return
    _check_exists(path)
    if path.suffix == ".klir":
        yield artifact.load(path)
    elif path.suffix == ".nki":
        yield parser.parse(_read(path), str(path))
    else:
        with _from_python(path) as module:
            yield find(module, name, path)


@contextlib.contextmanager
def opened_step(source: str) -> Generator[Callable[..., Any]]:
    """The function or module that ``source`` names, as FILE.py:NAME, which calls kernels; else as :func:`opened`."""
    file, name = split(source)
    path = Path(file)
    if not name:
        raise UsageError(f"{source} names no step", "pass FILE.py:NAME, a function that calls kernels")
    _check_exists(path)
    with _from_python(path) as module:
        known = [n for n, value in vars(module).items() if _is_own_function(value, module) and not n.startswith("_")]
        step = _named(module, name, path, known, "function")
        if isinstance(step, type) or not callable(step):
            fix = nearest(name, known, "functions in the file")
            raise UsageError(f"{name!r} in {path} is {type(step).__name__} and no function", fix)
        yield step


def _check_exists(path: Path) -> None:
    if not path.is_file():
        known = sorted(p.name for p in path.parent.glob(f"*{path.suffix}")) if path.parent.is_dir() else []
        raise UsageError(f"there is no file {path}", nearest(path.name, known, f"such files in {path.parent}"))


@contextlib.contextmanager
def _from_python(path: Path) -> Generator[ModuleType]:
    """The file as a module; a file that cannot be imported is a mistake of the user's."""
    with contextlib.ExitStack() as loaded:
        try:
            module = loaded.enter_context(imported(path))
        except (Exception, SystemExit) as failure:
            if isinstance(failure, UsageError) or not is_of(failure, path):
                raise
            raise not_imported(failure, path) from None
        yield module


@contextlib.contextmanager
def imported(path: Path) -> Generator[ModuleType]:
    """The file as a module; while the context lasts, its folder, the present one and the stand-ins for the vendor's
    packages are importable.
    """
    before = list(sys.path)
    with STAND_INS.provided():
        try:
            yield _module(path)
        finally:
            sys.path[:] = before


_MISSING: Final = re.compile(r"cannot import name '(\w+)' from '(nki(?:\.\w+)*)'")
"""Python's text for a name that a module of NKI does not have."""


@contextlib.contextmanager
def importable(path: Path, report: Callable[[NkiError], None]) -> Generator[ModuleType]:
    """The file as a module. Each name that it imports from NKI and that NKI does not have is reported; the module is
    without it, so that the rest of the file can be checked.
    """
    stand_in, names = object(), list[tuple[ModuleType, str]]()
    with contextlib.ExitStack() as stack:
        try:
            while True:
                try:
                    module = stack.enter_context(imported(path))
                    break
                except ImportError as failure:
                    missing = _MISSING.match(str(failure))
                    if missing is None or not is_of(failure, path):
                        raise
                    report(not_there(failure, path, missing[2], missing[1]))
                    names.append((sys.modules[missing[2]], missing[1]))
                    setattr(*names[-1], stand_in)
        finally:
            for owner, name in names:
                delattr(owner, name)
        for name in [name for name, value in vars(module).items() if value is stand_in]:
            delattr(module, name)
        yield module


def split(source: str) -> tuple[str, str]:
    """The file and the name in it."""
    if source == "-" or source.endswith((".klir", ".nki", ".py")):
        return source, ""
    file, _, name = source.rpartition(":")
    if not file.endswith(".py"):
        files = sorted(path.name for path in Path(source).glob("*.py")) if Path(source).is_dir() else []
        if files:
            raise UsageError(f"{source} is a folder", f"name a file in it: {', '.join(files[:SOME])}")
        raise UsageError(f"{source!r} names no kernel", f"pass {FORMS}")
    return file, name


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TextError(f"{path} is not text", fix="pass the output of `nki dump`") from None


def _module(path: Path) -> ModuleType:
    """The file run as a module under its own name, inside the packages around it."""
    path = path.resolve()
    root = root_of(path)
    parts = path.relative_to(root).with_suffix("").parts
    package = [str(path.parent)] if len(parts) > 1 and parts[-1] == "__init__" else None
    if package:
        parts = parts[:-1]
    sys.path[:0] = [str(root), str(Path.cwd())]
    name = ".".join(parts)
    if len(parts) > 1 and name not in sys.modules:
        # As Python does, the packages around it first: they may import this very file, and it would run twice.
        importlib.import_module(".".join(parts[:-1]))
        if getattr(sys.modules.get(name), "__file__", None) == str(path):
            return sys.modules[name]
    there = sys.modules.get(name)
    if there is not None and getattr(there, "__file__", None) != str(path):
        name = f"nki_cli_{path.stem}"  # the name belongs to a module that others use
    spec = spec_of(name, path, package)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", f"pass {FORMS}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def code_of(module: ModuleType) -> CodeType:
    """The code of an imported file, as Python keeps it."""
    loader = cast("SourceFileLoader", module.__loader__)
    code = loader.get_code(module.__name__)
    if code is None:
        raise ImportError(f"{module.__file__} has no code")
    return code


def root_of(path: Path) -> Path:
    """The folder from which a Python file is imported: the first above it that is no package."""
    root = path.resolve().parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def find(module: ModuleType, name: str, path: Path) -> Kernel:
    """The kernel ``name``, or the only one if no name is given. Functions without decorator count too."""
    for measured, value in list(vars(module).items()):
        if (kernel := _held(value)) is not None:
            setattr(module, measured, kernel)
    known = [n for n, value in vars(module).items() if isinstance(value, Kernel)]
    known += [n for n, value in vars(module).items() if _is_own_function(value, module) and not n.startswith("_")]
    if not name:
        decorated = [n for n in known if isinstance(getattr(module, n), Kernel)]
        if not decorated:
            fix = "write @nki.jit above a kernel" + (f", or name one of: {', '.join(known)}" if known else "")
            raise UsageError(f"{path} has no kernel", fix)
        if len(decorated) > 1:
            listed = ", ".join(f"{path}:{n}" for n in decorated)
            raise UsageError(f"{path} has {len(decorated)} kernels; say which", f"write one of {listed}")
        name = decorated[0]
    value = _named(module, name, path, known, "kernel")
    if isinstance(value, Kernel):
        return value
    if isinstance(value, FunctionType):
        return _undecorated(value)
    raise UsageError(
        f"{name!r} in {path} is {type(value).__name__} and not a function", nearest(name, known, "kernels in the file")
    )


def _named(module: ModuleType, name: str, path: Path, known: Sequence[str], kind: str) -> Any:
    """The value of ``name``, which may have dots, in ``module``."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{path} has no {kind} {name!r}", nearest(name, known, f"{kind}s in the file"))
        value = getattr(value, part)
    return value


def _held(value: Any) -> Kernel | None:
    """The kernel that what Beta 1's ``@nki.benchmark`` and the like make keeps and runs."""
    kernel = getattr(value, "kernel", None)
    return kernel if isinstance(kernel, Kernel) else None


def with_kernels(value: Any) -> Any:
    """``value`` as a kernel, if it holds one, or is a function that uses Beta 1; else ``value``."""
    if isinstance(value, FunctionType) and _uses_beta1(value):
        return _undecorated(value)
    return _held(value) or value


def _undecorated(function: FunctionType) -> Kernel:
    """The kernel that a function without decorator is: of Beta 1 if it uses a module of Beta 1."""
    if _uses_beta1(function):
        return importlib.import_module("neuronxcc.nki").jit(function)
    return Kernel(cast("Callable[..., Any]", function))


def _uses_beta1(function: FunctionType) -> bool:
    used = [function.__globals__.get(name) for name in function.__code__.co_names]
    return any(isinstance(one, ModuleType) and one.__name__.startswith("neuronxcc.nki") for one in used)


def _is_own_function(value: object, module: ModuleType) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module.__name__
