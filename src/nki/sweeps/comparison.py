"""Results of a kernel against the results of a reference, and the reference itself."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base import element_types as dtypes
from nki.base.element_types import DType
from nki.base.sweep_errors import BadReferenceError, WrongResultError
from nki.base.usage import nearest
from nki.ir.types import Tensor
from nki.sweeps.space import Tolerance
from nki.workload import load_kernel
from nki.workload.reference import (
    ROUNDING,
    SUMMING,
    as_array,
    deviations,
    eps,
    in_double_precision,
    of_arrays_or_tensors,
    results_of,
)

Array = NDArray[Any]
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ReferenceName:
    """The reference ``name`` in a Python ``file``; without a file an importable name, as torch.nn.functional.silu."""

    file: str
    name: str

    @property
    def shown(self) -> str:
        return f"{self.file}:{self.name}" if self.file else self.name

    def digest(self) -> str:
        """A digest that changes with the reference's file."""
        content = Path(self.file).read_bytes() if self.file else b""
        return hashlib.sha256(content + b"\0" + self.name.encode()).hexdigest()

    def found(self, module: ModuleType | None = None) -> Function:
        """The function. ``module`` is the kernel's, which is not imported again. Raises :class:`BadReferenceError`."""
        if self.file:
            if module is None or getattr(module, "__file__", None) != self.file:
                with load_kernel.imported(Path(self.file)) as own:
                    module = own
            return self._attribute(module, self.name)
        package, _, name = self.name.rpartition(".")
        try:
            return self._attribute(importlib.import_module(package), name)
        except ImportError as error:
            raise BadReferenceError(
                f"the reference {self.name!r} cannot be imported: {error}",
                fix="write FILE.py:NAME, NAME for a function in the kernel's file, or package.module.NAME",
            ) from None

    def _attribute(self, module: ModuleType, name: str) -> Function:
        function = getattr(module, name, None)
        if not callable(function):
            functions = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
            raise BadReferenceError(
                f"{self.file or module.__name__} has no function {name!r}, which the sweep has as its reference",
                fix=nearest(name, functions, "functions"),
            )
        return function


def named(text: str, kernel_file: str) -> ReferenceName | None:
    """The reference that ``text`` names; None for no text."""
    if not text:
        return None
    file, _, name = text.rpartition(":")
    if not file and "." not in name:
        file = kernel_file
    if file and not Path(file).is_file():
        beside = Path(kernel_file).parent / file  # as the space's author may see it
        if not beside.is_file():
            raise BadReferenceError(f"there is no file {file}, which should hold the reference", fix="check the path")
        file = str(beside)
    return ReferenceName(str(Path(file).resolve()) if file else "", name)


def expected(
    reference: Function,
    arguments: Mapping[str, Any],
    arrays: Sequence[Array],
    tensors: Sequence[str],
    working: Any = np.float64,
) -> list[Array]:
    """Results of ``reference``, in float64 where they are floats.

    It gets the kernel's arguments under their names: tensors of floats as arrays of the dtype ``working``, or as such
    tensors of PyTorch if it refuses arrays; of the constants the ones that it takes. Raises :class:`BadReferenceError`.
    """
    values: dict[str, Any] = {n: _wide(a, working) for n, a in zip(tensors, arrays, strict=True)}
    constants = {n: v for n, v in arguments.items() if n not in values}
    call = of_arrays_or_tensors(reference, sys.modules.get("torch"))
    name = getattr(reference, "__name__", "reference")
    taken = _taken(reference, constants)
    try:
        loaded = "jax" in sys.modules
        found = _called(call, values.values(), taken)
        if not loaded and "jax" in sys.modules:  # it imports JAX itself, and has now computed in float32
            found = _called(call, values.values(), taken)
    except Exception as error:
        raise BadReferenceError(
            f"the reference {name!r} raises {type(error).__name__}: {error}",
            fix=f"it is called as {name}({', '.join(values)}, …) with float64 arrays; constants go by name",
        ) from error
    return [_wide(as_array(each)) for each in found]


def _called(function: Function, values: Iterable[Any], named: Mapping[str, Any]) -> list[Any]:
    with np.errstate(all="ignore"), in_double_precision():
        return results_of(function(*values, **named))


def _taken(reference: Function, constants: Mapping[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(reference).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return {name: value for name, value in constants.items() if takes_any or name in parameters}


def _wide(array: Array, working: Any = np.float64) -> Array:
    """A copy, for a reference may change its arguments as a kernel does."""
    return array.astype(working) if array.dtype.kind == "f" or _is_small_float(array) else array.copy()


def _is_small_float(array: Array) -> bool:
    return array.dtype.kind == "V" and dtypes.of(array.dtype).is_float


def compare(
    outputs: Sequence[Tensor], results: Sequence[Array], wanted: Sequence[Array], tolerance: Tolerance
) -> float:
    """The greatest error, as a part of the greatest magnitude of its reference.

    By default an element may be off by ROUNDING · eps of the result's dtype + SUMMING · eps of float32 (or of what
    ``tolerance`` says) of that magnitude; integers not at all. NaN and infinities agree with themselves alone.
    Raises :class:`WrongResultError`, and :class:`BadReferenceError` for other numbers of results or other shapes.
    """
    if len(results) != len(wanted):
        raise BadReferenceError(
            f"the reference returns {len(wanted)} results, the kernel {len(results)}",
            fix="return the same results in the same order",
        )
    worst = 0.0
    for tensor, result, right in zip(outputs, results, wanted, strict=True):
        if result.shape != right.shape:
            raise BadReferenceError(
                f"the reference returns shape {right.shape} for '{tensor.name}', the kernel {result.shape}",
                fix="return the same results in the same order and shape",
            )
        worst = max(
            worst, _worst(tensor.name, tensor.dtype, result.astype(np.float64), right.astype(np.float64), tolerance)
        )
    return worst


def _worst(name: str, dtype: DType, found: Array, right: Array, tolerance: Tolerance) -> float:
    finite = np.isfinite(right)
    largest = float(np.abs(right[finite]).max(initial=0.0))
    allowed = tolerance.absolute + tolerance.relative * np.abs(np.where(finite, right, 0.0))
    if tolerance == Tolerance():
        rounding = ROUNDING * eps(dtype.dtype) + SUMMING * eps(np.dtype(np.float32)) if dtype.is_float else 0.0
        allowed = allowed + rounding * largest
    elif tolerance.of_largest is not None:
        allowed = allowed + tolerance.of_largest * largest
    error = deviations(found, right)
    excess = error - allowed
    at = np.unravel_index(int(np.argmax(excess)), excess.shape) if excess.size else ()
    if excess.size and excess[at] > 0:
        place = f"{name}[{', '.join(str(int(i)) for i in at)}]"
        raise WrongResultError(
            f"{place} is {found[at]:.9g}, the reference says {right[at]:.9g}: off by {error[at]:.3g}, tolerance "
            f"{allowed[at]:.3g}; {int((excess > 0).sum())} of {excess.size} elements are wrong",
            fix="compare the formulas, or set `tolerance` in the space",
        )
    return float(error.max(initial=0.0)) / largest if largest else 0.0
