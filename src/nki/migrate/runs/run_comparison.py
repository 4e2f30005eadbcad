"""Two versions of a kernel on the same data."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from nki import language
from nki.base.text_loader import spec_of
from nki.jit import jit
from nki.proofs.subjects import Launch
from nki.proofs.verdict import Verdict

_ROUNDING = {1: 0.13, 2: 2.0**-6, 4: 2.0**-16}
"""By bytes of an element: the largest difference, relative to the largest number, that is one of rounding."""


@dataclass(frozen=True, slots=True)
class Call:
    """A launch of a kernel: ``grid`` is () without one."""

    kernel: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    grid: tuple[int, ...] = ()

    def copied(self) -> Call:
        """The call with arrays of its own, for kernels change arrays."""
        kwargs = {name: _copied(value) for name, value in self.kwargs.items()}
        return Call(self.kernel, tuple(_copied(value) for value in self.args), kwargs, self.grid)


def is_array(value: Any) -> bool:
    """True for a NumPy array."""
    return isinstance(value, np.ndarray)


def _copied(value: Any) -> Any:
    return value.copy() if is_array(value) else value


@dataclass(frozen=True, slots=True)
class Outcome:
    """The comparison of one call: ``text`` says it, ``same`` is True for equal bits and for differences of rounding.

    ``proof``: if both versions are one function for all inputs of these shapes; None where nothing asked.
    """

    kernel: str
    text: str
    same: bool
    proof: Verdict | None = None

    @property
    def passes(self) -> bool:
        """True unless the runs or the proof show that the versions differ."""
        return self.same and (self.proof is None or self.proof.verdict != "different")


@contextlib.contextmanager
def loaded(path: Path, source: str, folder: Path, *, beta1: bool = True) -> Generator[ModuleType]:
    """``source`` as a module in the file ``path``; the modules of ``folder`` can be imported.

    ``beta1``: the file may use what the package of Beta 1 adds to Python's own modules.
    """
    path.write_text(source, encoding="utf-8")
    name = path.stem
    before = list(sys.path)
    sys.path[:0] = [str(folder)]
    spec = spec_of(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    added = logging.__dict__.pop("OFF", None) if not beta1 else None  # the package of Beta 1 adds it to Python's
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = spec.loader
            executed(lambda: loader.exec_module(module))
            yield module
    finally:
        if added is not None:
            logging.__dict__["OFF"] = added
        sys.path[:] = before
        sys.modules.pop(name, None)


class _Missing(ModuleType):
    """A module that is not installed: host code that a migration does not run may name anything in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "func":  # what wraps a function has one
            raise AttributeError(name)
        return _Missing(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self


def executed(run: Callable[[], None]) -> None:
    """Run the code of a module; packages that are not installed are imported as empty ones."""
    before = set(sys.modules)
    try:
        for _ in range(20):
            try:
                run()
                return
            except ModuleNotFoundError as error:
                name = error.name or ""
                if not name or name.split(".")[0] in ("nki", "neuronxcc") or name in sys.modules:
                    raise
                sys.modules[name] = _Missing(name)
    finally:
        for name in set(sys.modules) - before:
            if isinstance(sys.modules[name], _Missing):
                del sys.modules[name]


def launch_of(module: ModuleType, call: Call, *, new: bool) -> Launch:
    """The kernel of a call, and the arguments of its launch: arrays of its own."""
    kernel: Any = module
    for part in call.kernel.split("."):
        kernel = getattr(kernel, part)
    if not hasattr(kernel, "func"):
        kernel = _made(kernel, new=new)
    call = call.copied()
    if new:
        call = Call(
            call.kernel, tuple(map(_today, call.args)), {k: _today(v) for k, v in call.kwargs.items()}, call.grid
        )
    kwargs = dict(call.kwargs)
    if call.grid and not new:
        kernel = kernel[call.grid]
    elif call.grid and "grid" in inspect.signature(kernel.func).parameters:
        kwargs["grid"] = call.grid
    return Launch(kernel, call.args, kwargs)


def launched(module: ModuleType, call: Call, *, new: bool) -> list[Any]:
    """The arrays that a call returns, and those that it changed."""
    kernel, args, kwargs = launch_of(module, call, new=new)
    results = _arrays(kernel(*args, **kwargs))
    return [*results, *(value for value in (*args, *kwargs.values()) if is_array(value))]


def _today(value: Any) -> Any:
    """An operator of NumPy as the language's; other arguments as they are."""
    name = getattr(value, "__name__", "")
    return getattr(language, name, value) if isinstance(value, np.ufunc) else value


def _made(function: Any, *, new: bool) -> Any:
    """A function without decorator as a kernel."""
    if new:
        return jit(function)
    namespace: Any = importlib.import_module("neuronxcc.nki")
    return namespace.jit(function)


def _arrays(result: Any) -> list[Any]:
    if result is None:
        return []
    if isinstance(result, tuple | list):
        return [array for part in cast("list[Any]", result) for array in _arrays(part)]
    return [np.asarray(result)]


def compared(call: Call, old: list[Any], new: list[Any]) -> Outcome:
    """The comparison of the results of two versions."""
    inputs = sum(isinstance(value, np.ndarray) for value in (*call.args, *call.kwargs.values()))
    changes = list(zip(old[len(old) - inputs :], new[len(new) - inputs :], strict=True))
    first, second = old[: len(old) - inputs], new[: len(new) - inputs]
    if len(first) != len(second) and first:
        return Outcome(call.kernel, f"{len(second)} results in place of {len(first)}", False)
    pairs = [*zip(first, second, strict=False), *changes]
    shapes = [(a.shape, b.shape) for a, b in pairs if a.shape != b.shape]
    if shapes:
        return Outcome(call.kernel, f"a result of shape {shapes[0][1]} in place of {shapes[0][0]}", False)
    kinds = [(str(a.dtype), str(b.dtype)) for a, b in pairs if a.dtype != b.dtype]
    if kinds:
        return Outcome(call.kernel, f"a result of dtype {kinds[0][1]} in place of {kinds[0][0]}", False)
    if pairs and not any(_tells(a) for a, _ in pairs):
        return Outcome(
            call.kernel, "the runs tell nothing: all numbers are 0 or not finite; pass other arguments", False
        )
    if all(_same_bits(a, b) for a, b in pairs):
        return Outcome(call.kernel, "same bits", True)
    worst, relative, size = max((_difference(a, b) for a, b in pairs), key=lambda each: each[1])
    text = f"largest difference {worst:.3g} ({relative:.2g} of the largest number)"
    return Outcome(call.kernel, text, relative <= _ROUNDING.get(size, 0.0))


def _tells(a: Any) -> bool:
    """True for an array with a finite number other than 0, and for an empty one."""
    values = a.astype(np.float64)
    return values.size == 0 or bool(np.any(np.isfinite(values) & (values != 0)))


def _same_bits(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "iub":
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.all((x == y) & (np.signbit(x) == np.signbit(y)) | (np.isnan(x) & np.isnan(y))))


def _difference(a: Any, b: Any) -> tuple[float, float, int]:
    """The largest difference, the same relative to the largest number, and the bytes of an element."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return float("nan"), float("inf"), 0
    both = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(x[~both], y[~both], equal_nan=True):
        return float("inf"), float("inf"), 0
    if not both.any():
        return 0.0, 0.0, min(a.dtype.itemsize, b.dtype.itemsize)
    worst = float(np.abs(x - y)[both].max())
    scale = float(np.abs(x[both]).max()) or 1.0
    size = 0 if a.dtype.kind in "iub" else min(a.dtype.itemsize, b.dtype.itemsize)
    return worst, worst / scale, size


__all__ = ["Call", "Outcome", "compared", "is_array", "launch_of", "launched", "loaded"]
