"""``nki migrate``: files of older NKI rewritten for the present one, and both versions compared and proved equal."""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import inspect
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from nki.base import element_types as dtypes
from nki.base.element_types import DType
from nki.base.locks import imported as imported_lazily
from nki.base.source import parsed
from nki.base.usage import UsageError
from nki.base.warning import stamped
from nki.base.wording import shown_path
from nki.cli.host import arrays
from nki.cli.host.host_statements import examples
from nki.cli.output.documents import Compared, Migrate, MigratedFile
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.frontend.capture import functions_of
from nki.ir.types import TensorSpec
from nki.jit import Kernel
from nki.proofs.record import record
from nki.proofs.verdict import reported
from nki.workload import arguments as argument
from nki.workload.arguments import TensorArgument
from nki.workload.load_kernel import code_of, imported, split

if TYPE_CHECKING:
    from nki.migrate.migration import Migration
    from nki.migrate.runs.run_comparison import Call, Outcome

_PLAIN = (bool, int, float, str)
EXAMPLES = 12
"""Calls of one file that are run."""


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki migrate``."""
    if options.arg and len(options.files) > 1:
        raise UsageError("--arg is about one kernel", "pass one FILE.py:NAME")
    if options.diff and options.write:
        raise UsageError("--diff and --write exclude each other", "leave one out")
    if not 0 <= options.seconds < float("inf"):
        raise UsageError(
            f"--seconds {options.seconds:g}: no such limit", "pass a number such as 60, or 0 for no proofs"
        )
    done = True
    shown: list[MigratedFile] = []
    for text in options.files:
        file, name = split(text) if ".py:" in text else (text, "")
        with aside():
            migration = _migration(Path(file), name, options)
        _write(migration, options)
        if options.json:
            shown.append(_described(migration, options))
        else:
            _show(migration, options)
        done &= migration.done
    if options.json:
        document: Migrate = {**stamp(), "files": shown}
        print_document(document)
    return 0 if done else 1


def _migration(path: Path, name: str, options: argparse.Namespace) -> Migration:
    migration: Any = imported_lazily("nki.migrate.migration")
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text") from None
    try:
        ast.parse(source)
        calls = _calls(path, source, name, options)
        return migration.migrated(path.resolve(), source, calls, name, to=options.to, seconds=options.seconds)
    except SyntaxError as error:
        raise UsageError(f"{path} is not Python: {error.msg}") from None


def _calls(path: Path, source: str, name: str, options: argparse.Namespace) -> list[Call]:
    """The calls of the file's kernels: of ``--arg``, else those that the file shows."""
    comparison: Any = imported_lazily("nki.migrate.runs.run_comparison")
    grid = tuple(int(n) for n in options.grid.split(",")) if options.grid else ()
    if options.arg and name:
        return [_given(name, options, grid, comparison)]
    found: list[Call] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with imported(path) as module:
                if options.arg:
                    return [_given(kernel, options, grid, comparison) for kernel in _fitting(module, path, options)]
                found = list(_shown(module, source, name, comparison))[:EXAMPLES]
                if found and not any(map(_has_integers, found)):
                    return found
        except UsageError:
            raise
        except (Exception, SystemExit):
            pass  # the runs of both versions load the file in another way
        host: Any = imported_lazily("nki.migrate.runs.host_runs")
        run = [call for call in host.of_file(path, source, EXAMPLES) if not name or call.kernel == name]
        return run or found


def _fitting(module: ModuleType, path: Path, options: argparse.Namespace) -> list[str]:
    """The kernels of a file with parameters that take the arguments of the command line."""
    kernels = _kernels(module)
    parsed = [argument.parse(text) for text in options.arg]
    args, kwargs = [value for key, value in parsed if not key], {key: value for key, value in parsed if key}
    found: list[str] = []
    for name in kernels:
        signature = inspect.signature(vars(module)[name].func)
        with contextlib.suppress(TypeError):
            bound = signature.bind(*args, **kwargs).arguments
            defaults = {key: signature.parameters[key].default for key in bound}
            # a tensor is no value of a parameter that has a number or a word as default
            if not any(isinstance(bound[key], TensorArgument) and isinstance(defaults[key], _PLAIN) for key in bound):
                found.append(name)
    if not found:
        hint = f"the kernels of {path} are {', '.join(kernels)}" if kernels else f"pass {path}:NAME"
        raise UsageError(f"no kernel of {path} takes {len(parsed)} such arguments", hint)
    return found


def _given(name: str, options: argparse.Namespace, grid: tuple[int, ...], comparison: Any) -> Call:
    """The call with the arguments of the command line."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for index, text in enumerate(options.arg):
        key, value = argument.parse(text)
        if isinstance(value, TensorArgument):
            value = value.array(options.seed, index)
        if key:
            kwargs[key] = value
        else:
            args.append(value)
    return comparison.Call(name, tuple(args), kwargs, grid)


def _kernels(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, Kernel) and value.func.__module__ == module.__name__
    ]


def _shown(module: ModuleType, source: str, name: str, comparison: Any) -> Iterator[Call]:
    """The calls that the host code of the file shows."""
    code = code_of(module)
    own = functions_of(module, code)
    known = {id(_function(value)): key for key, value in reversed(vars(module).items()) if _function(value) is not None}
    done: list[str] = []
    for example in examples(module, parsed(source, code.co_filename), own, code.co_filename):
        kernel = known.get(id(_function(example.kernel)), "")
        if not example.known or not kernel or (name and kernel != name):
            continue
        args = [_filled(value, index) for index, value in enumerate(example.args)]
        kwargs = {key: _filled(value, 50 + index) for index, (key, value) in enumerate(example.kwargs.items())}
        grid = _grid(example.kernel)
        text = repr((kernel, [_key(value) for value in (*args, *kwargs.values())], grid))
        if text not in done:
            done.append(text)
            yield comparison.Call(kernel, tuple(args), kwargs, grid)


def _has_integers(call: Call) -> bool:
    """True for a call with integer arrays: indices, for which random numbers will not do."""
    values: list[Any] = [*call.args, *call.kwargs.values()]
    return any(arrays.is_array(value) and value.dtype.kind in "iu" for value in values)


def _function(value: Any) -> FunctionType | None:
    inner = getattr(value, "func", value)
    return inner if isinstance(inner, FunctionType) else None


def _grid(kernel: Any) -> tuple[int, ...]:
    grid: Any = getattr(kernel, "grid", ())
    return tuple(int(size) for size in grid)


def _key(value: Any) -> Any:
    array: Any = value
    return (array.shape, str(array.dtype)) if arrays.is_array(array) else repr(array)


def _filled(value: Any, index: int) -> Any:
    """An argument with random elements."""
    known: Any = arrays.argument(value)
    if arrays.is_array(known) or isinstance(known, TensorSpec):
        spec: Any = known
        dtype = dtypes.of(spec.dtype) if not isinstance(spec.dtype, DType) else spec.dtype
        return argument.filled(tuple(spec.shape), dtype).array(0, index)
    return known


def _write(migration: Migration, options: argparse.Namespace) -> None:
    if options.write and migration.new != migration.old:
        migration.path.write_text(migration.new, encoding="utf-8")


def _difference(migration: Migration) -> str:
    shown = shown_path(str(migration.path))
    old, new = migration.old.splitlines(keepends=True), migration.new.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, shown, shown))


def _described(migration: Migration, options: argparse.Namespace) -> MigratedFile:
    """A file as a record."""
    changed = migration.new != migration.old
    return {
        "file": str(migration.path),
        "changed": changed,
        "done": migration.done,
        "source": migration.new,
        "diff": _difference(migration),
        "written": bool(options.write) and changed,
        "comparisons": [_compared(one) for one in migration.outcomes],
        "to_do": list(dict.fromkeys(migration.left)),
        "notes": list(dict.fromkeys(migration.notes)),
        "not_compared": migration.uncompared,
    }


def _compared(outcome: Outcome) -> Compared:
    proof = None if outcome.proof is None else record(outcome.proof)
    return {"kernel": outcome.kernel, "text": outcome.text, "same": outcome.same, "proof": proof}


def _show(migration: Migration, options: argparse.Namespace) -> None:
    """Print the new source, or its difference, unless it was written; the rest goes to stderr."""
    shown = shown_path(str(migration.path))
    if options.diff:
        sys.stdout.write(_difference(migration))
    elif not options.write:
        sys.stdout.write(migration.new)
    lines = _report(migration, shown)
    for line in [*lines[:-1], stamped(lines[-1])]:
        print(line, file=sys.stderr)


def _report(migration: Migration, shown: str) -> Sequence[str]:
    if migration.new == migration.old:
        return [f"{shown}: nothing to change"]
    lines: list[str] = []
    for one in migration.outcomes:
        lines.append(f"{shown}: {one.kernel}: {one.text}")
        if one.proof is not None:
            runs = sum(each.kernel == one.kernel for each in migration.outcomes)
            lines += [f"{shown}: {one.kernel}: {line}" for line in reported(one.proof, runs)]
    lines += [f"{shown}: to do: {text}" for text in dict.fromkeys(migration.left)]
    lines += [f"{shown}: note: {text}" for text in dict.fromkeys(migration.notes)]
    if not migration.outcomes and not any("was not compared" in text for text in migration.notes):
        lines.append(f"{shown}: not compared: no arguments are known; pass --arg 128x512:float32 for each parameter")
    elif migration.uncompared:
        lines.append(f"{shown}: not compared: {', '.join(migration.uncompared)}")
    return lines


__all__ = ["command"]
