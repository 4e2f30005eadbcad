"""Arguments of kernels on the command line: random tensors, files, constants."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki import language
from nki.base import element_types as dtypes
from nki.base.dtype_conversion import from_float32
from nki.base.element_types import DType
from nki.base.errors import UnknownDTypeError
from nki.base.usage import UsageError, nearest
from nki.ir.types import TensorSpec

Array = NDArray[Any]

FORMS: Final = (
    "SHAPE:DTYPE (256x1024:float32), SHAPE:DTYPE:FILL (FILL: random, uniform, wide, zeros, ones, arange), FILE.npy, "
    "FILE.npy:DTYPE, a Python constant (0.5, 3, True, None, \"'text'\", '(1, 2)') or nl.NAME; NAME=… before any of them"
)
RUNS: Final = 5
"""Native runs to take the median of, unless the command says otherwise."""
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_RANDOM: Final = re.compile(r"(\d+(?:x\d+)*):(\w+)(?::(\w+))?")
_SHAPE: Final = re.compile(r"\d+(?:x\d+)+")
_NEARLY: Final = re.compile(r"[(\[]?\s*(\d+(?:[\s,x*×]+\d+)*)[\s,x]*[)\]]?\s*:\s*(\w+)\s*:?")
"""A shape and a dtype with other separators than SHAPE:DTYPE has."""
_FILE: Final = re.compile(r"(.+\.npy)(?::(\w+))?")


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor argument: its shape, its dtype and the function that creates it.

    ``given``: the command says what it contains, by a file or by the name of a filling.
    """

    shape: tuple[int, ...]
    dtype: DType
    make: Callable[[np.random.Generator], Array]
    given: bool = False
    fill: str = ""
    """The rule of its numbers; empty for a file."""

    def spec(self, name: str) -> TensorSpec:
        return TensorSpec(name, self.shape, self.dtype)

    def array(self, seed: int, index: int) -> Array:
        """The elements, dense. ``index`` is the tensor's place among the inputs: each has numbers of its own."""
        try:
            return np.ascontiguousarray(self.make(np.random.default_rng([seed, index])))
        except (MemoryError, ValueError) as error:
            raise UsageError(f"a tensor of {self.dtype} {self.shape} cannot be made here: {error}") from None


def parse(text: str) -> tuple[str, Any]:
    """The parameter that ``text`` names ("" for the next one) and a :class:`TensorArgument` or a constant."""
    named = _NAMED.fullmatch(text)
    name, value = (named[1], named[2]) if named else ("", text)
    if match := _RANDOM.fullmatch(value):
        shape = tuple(int(n) for n in match[1].split("x"))
        dtype, fill = _dtype(match[2], text), match[3] or "random"
        if fill not in (rules := _rules(dtype)):
            raise UsageError(f"--arg {text}: there is no fill {fill!r}", nearest(fill, rules, "fills"))
        tensor = filled(shape, dtype, fill)
        return name, replace(tensor, given=match[3] is not None)
    if match := _FILE.fullmatch(value):
        return name, _file(Path(match[1]), _dtype(match[2], text) if match[2] else None)
    return name, _constant(value, text)


def _dtype(name: str, text: str) -> DType:
    try:
        return dtypes.of(name)
    except UnknownDTypeError:
        fix = nearest(name, dtypes.BY_NAME, "dtypes")
        raise UsageError(f"--arg {text}: {name!r} is not an NKI dtype", fix) from None


def _constant(value: str, text: str) -> Any:
    if value.startswith("nl.") and not value.startswith("nl._") and hasattr(language, value[3:]):
        return getattr(language, value[3:])
    if value.lstrip("+-") in ("inf", "nan"):
        return float(value)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    if _SHAPE.fullmatch(value):
        raise UsageError(f"--arg {text}: the dtype is missing", f"write {value}:float32")
    if value.isidentifier():
        raise UsageError(f"--arg {text}: a string needs its quotes", f"write \"'{value}'\"; accepted are {FORMS}")
    if match := _NEARLY.fullmatch(value):
        shape = "x".join(re.findall(r"\d+", match[1]))
        raise UsageError(f"--arg {text} cannot be read", f"did you mean {shape}:{match[2]}?")
    raise UsageError(f"--arg {text} cannot be read", f"accepted are {FORMS}")


def filled(shape: tuple[int, ...], dtype: DType, fill: str = "random") -> TensorArgument:
    """A tensor of ``shape`` with numbers from the rule ``fill``."""
    rule = _rules(dtype)[fill]
    return TensorArgument(shape, dtype, lambda rng: rule(rng, shape, dtype), fill=fill)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Floats from the standard normal distribution, integers up to 100 in magnitude, fair coins, powers of two."""
    if dtype is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        return rng.integers(0 if dtype.kind == "u" else -100, 101, shape).astype(dtype.dtype)
    if not dtype.computes:  # float8_e8m0fnu: scales
        return np.exp2(rng.integers(-8, 9, shape).astype(np.float32)).astype(dtype.dtype)
    return from_float32(rng.standard_normal(shape, np.float32), dtype)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Floats between -1 and 1, all equally likely; numbers of other dtypes are as of :func:`_random`."""
    if not dtype.is_float or not dtype.computes:
        return _random(rng, shape, dtype)
    return from_float32(rng.uniform(-1, 1, shape).astype(np.float32), dtype)


def _wide(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Floats of both signs with magnitudes from 2^-8 to 2^8, all binary orders equally likely."""
    if not dtype.is_float or not dtype.computes:
        return _random(rng, shape, dtype)
    magnitudes = np.exp2(rng.uniform(-8, 8, shape).astype(np.float32))
    return from_float32(np.where(rng.integers(0, 2, shape) > 0, magnitudes, -magnitudes), dtype)


def _count(_: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """0, 1, 2, … row by row, from 0 again where ``dtype`` ends being exact."""
    if dtype.is_float:
        digits = 10 if dtype is dtypes.tfloat32 else _mantissa_bits(dtype)
        period = 2 ** (digits + 1)
    else:
        period = int(dtype.largest) + 1
    numbers = np.arange(math.prod(shape)) % period
    return numbers.astype(dtype.dtype).reshape(shape)


def _mantissa_bits(dtype: DType) -> int:
    limits = cast("Any", ml_dtypes.finfo(dtype.dtype))  # its attributes are declared without types
    return int(limits.nmant)


def _packed(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Four random elements in each word; in four bits every pattern is a number, in eight some are NaN."""
    if dtype is dtypes.float4_e2m1fn_x4:
        return rng.integers(0, 1 << 16, shape).astype(dtype.plain).view(dtype.dtype)
    element = dtypes.float8_e4m3fn if dtype is dtypes.float8_e4m3fn_x4 else dtypes.float8_e5m2
    four = from_float32(rng.standard_normal((*shape, 4), np.float32), element)
    return four.view(dtype.dtype)[..., 0]


Fill = Callable[[np.random.Generator, tuple[int, ...], DType], Array]
FILLS: Final[dict[str, Fill]] = {
    "random": _random,
    "uniform": _uniform,
    "wide": _wide,
    "zeros": lambda _, shape, dtype: np.zeros(shape, dtype.dtype),
    "ones": lambda _, shape, dtype: np.ones(shape, dtype.dtype),
    "arange": _count,
}
PACKED: Final[dict[str, Fill]] = {"random": _packed, "zeros": FILLS["zeros"]}
"""Fill rules of packed types."""


def _rules(dtype: DType) -> dict[str, Fill]:
    return PACKED if dtype.kind == "x" else FILLS


def _file(path: Path, dtype: DType | None) -> TensorArgument:
    try:
        array: Array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        near = nearest(path.name, (p.name for p in sorted(path.parent.glob("*.npy"))), f".npy files in {path.parent}")
        raise UsageError(f"there is no file {path}", near) from None
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"cannot read {path}: {error}", "pass a file that numpy.save wrote") from None
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if dtype is None:
        dtype = _own(array, path)
    elements = np.ascontiguousarray(converted(array, dtype, path)).reshape(array.shape)
    return TensorArgument(elements.shape, dtype, lambda _: elements, given=True)


def _own(array: Array, path: Path) -> DType:
    """The NKI dtype of a file's elements."""
    if array.dtype.type is np.void and array.dtype.names is None:
        raise UsageError(
            f"{path} holds raw elements of {array.dtype.itemsize} bytes (NumPy's files do not name such types)",
            f"say which they are: {path}:bfloat16",
        )
    try:
        return dtypes.of(array.dtype)
    except UnknownDTypeError:
        wanted = "int32" if array.dtype.kind in "iu" else "float32"
        raise UsageError(
            f"{path} holds {array.dtype}, which NKI does not have", f"convert it: {path}:{wanted}"
        ) from None


def converted(array: Array, dtype: DType, path: Path) -> Array:
    """``array`` as ``dtype``: raw elements as they are, numbers rounded and saturated as on the hardware."""
    stored = array.dtype
    if stored in (dtype.dtype, dtype.plain) and not dtype.computes:
        return array.view(dtype.dtype)
    if stored.type is np.void:
        if stored.names is not None or stored.itemsize != dtype.itemsize:
            raise UsageError(f"{path} holds {stored}, not elements of {dtype}")
        return array.view(dtype.dtype)
    if not dtype.computes:
        raise UsageError(f"{path} holds {stored}; {dtype} must be stored as {dtype.plain}")
    if stored.kind not in "biuf":
        raise UsageError(f"{path} holds {stored}; {dtype} is made of real numbers")
    if dtype.is_integer and stored.kind in "iub":
        bounds = np.iinfo(dtype.dtype)
        # float64 is exact wherever nothing is clipped: NKI's integers have 32 bits at most.
        return np.clip(array.astype(np.float64), bounds.min, bounds.max).astype(dtype.dtype)
    with np.errstate(all="ignore"):
        return from_float32(array.astype(np.float32), dtype)
