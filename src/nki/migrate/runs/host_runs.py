"""The launches that the tests of a Beta 1 file make, with their arguments."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import sys
import tempfile
import unittest
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final
from unittest import mock

from nki.migrate.runs.run_comparison import Call, executed, is_array

_EACH: Final = 2
"""Launches of one kernel that are kept."""


class _EnoughError(BaseException):
    """The end of a run with enough launches; no error that host code could handle."""


def of_file(path: Path, source: str, limit: int) -> list[Call]:
    """The first ``limit`` launches that a file makes when it runs as a program, and when its tests run.

    What the host code raises ends that part of it and nothing else. It runs in a temporary folder.
    """
    found: list[Call] = []
    module = ModuleType("__main__")

    def note(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        function = _function(kernel)
        name = next((key for key, value in vars(module).items() if function and _function(value) is function), None)
        arrays = [value for value in (*args, *kwargs.values()) if is_array(value)]
        if name is None or not arrays:
            return
        grid = tuple(getattr(kernel, "grid", ()))
        call = Call(name, args, kwargs, grid[:-1] if len(grid) > 1 else grid).copied()
        same = [one for one in found if one.kernel == name]
        if len(same) < _EACH and not any(_key(call) == _key(one) for one in same):
            found.append(call)
        if len(found) >= limit:
            raise _EnoughError

    with tempfile.TemporaryDirectory(prefix="nki-migrate-") as folder, _noted(note), _inside(Path(folder), path):
        copy = Path(folder) / f"{path.stem}_host.py"
        copy.write_text(source, encoding="utf-8")
        module.__file__ = str(copy)
        code = compile(source, str(copy), "exec")
        _quietly(lambda: executed(lambda: exec(code, vars(module))))
        for test in _tests(module):
            if len(found) < limit:
                _quietly(test)
    return found


def _quietly(run: Callable[[], Any]) -> None:
    with contextlib.suppress(Exception, SystemExit, _EnoughError), contextlib.redirect_stdout(io.StringIO()):
        run()


@contextlib.contextmanager
def _inside(folder: Path, path: Path) -> Generator[None]:
    """Context manager: ``folder`` is the present one, and the modules beside ``path`` can be imported."""
    before, arguments = list(sys.path), list(sys.argv)
    sys.path[:0] = [str(path.resolve().parent)]
    sys.argv = [str(path)]
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path[:], sys.argv = before, arguments


def _key(call: Call) -> str:
    values = [*call.args, *call.kwargs.values()]
    return repr((call.kernel, call.grid, [(v.shape, v.dtype) if is_array(v) else v for v in values]))


def _function(value: Any) -> FunctionType | None:
    """The function of a kernel, or a plain function."""
    for _ in range(4):
        if isinstance(value, FunctionType):
            return value
        value = getattr(value, "func", getattr(value, "__wrapped__", None))
    return None


@contextlib.contextmanager
def _noted(note: Callable[..., None]) -> Generator[None]:
    """Context manager: every launch of a Beta 1 kernel is noted."""
    launch: Any = sys.modules[importlib.import_module("neuronxcc.nki").jit.__module__]
    called, simulate = launch.Beta1Kernel.__call__, launch.simulate

    def call(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        note(kernel, args, kwargs)
        return called(kernel, *args, **kwargs)

    def simulated(kernel: Any) -> Any:
        inner = simulate(kernel)

        def run(*args: Any, **kwargs: Any) -> Any:
            note(kernel, args, kwargs)
            return inner(*args, **kwargs)

        return run

    with mock.patch.object(launch.Beta1Kernel, "__call__", call), mock.patch.object(launch, "simulate", simulated):
        yield


def _tests(module: ModuleType) -> Iterator[Callable[[], Any]]:
    """The tests of a file that need no arguments, and its ``main``."""
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == module.__name__:
            for method in unittest.defaultTestLoader.getTestCaseNames(value):
                yield getattr(value(method), method)
        elif isinstance(value, type) and name.startswith("Test") and value.__module__ == module.__name__:
            for method, function in vars(value).items():
                if method.startswith("test") and isinstance(function, FunctionType) and _bare(function, 1):
                    yield getattr(value(), method)
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            host = name.startswith("test") or name in ("main", "check_correct", "run")
            if host and _bare(value, 0):
                yield value


def _bare(function: FunctionType, own: int) -> bool:
    """True if a function needs no arguments besides its first ``own``."""
    parameters = list(inspect.signature(function).parameters.values())[own:]
    return all(one.default is not inspect.Parameter.empty for one in parameters)


__all__ = ["of_file"]
