"""Arrays without elements: shapes and dtypes of the results of NumPy, PyTorch and JAX, without their work.

A stand-in is a NumPy array with all elements at one place in memory, a PyTorch tensor on the device ``meta``, or a
``jax.ShapeDtypeStruct``. Only library functions that are listed here are called, and only with stand-ins and constants.
Values that depend on elements are ``UNKNOWN``. PyTorch and JAX are looked up among the modules that the user's file has
imported.
"""

# Libraries declare their types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import numpy as np

from nki.frontend.scopes import UNKNOWN

SMALL: Final = 1 << 16
"""Limit on the elements of arrays that NumPy may compute with."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CREATORS: Final = _words("zeros ones empty full arange eye identity array asarray linspace")
_LIKE: Final = _words("zeros_like ones_like empty_like full_like")
_SHAPING: Final = _words(
    """
    ascontiguousarray asfortranarray reshape transpose swapaxes moveaxis broadcast_to expand_dims squeeze ravel
    """
)
_COMPUTING: Final = _words(
    """
    concatenate stack vstack hstack sqrt exp log log2 abs sin cos tanh maximum minimum clip matmul dot outer tril
    triu where floor ceil prod absolute negative power square add subtract multiply divide
    """
)
_RANDOM: Final = _words("rand randn random random_sample standard_normal normal uniform randint integers")
_METHODS: Final = _words("astype copy reshape transpose swapaxes ravel flatten squeeze view clip newbyteorder")
_TORCH: Final = _words(
    """
    zeros ones empty full rand randn randint arange linspace eye tensor as_tensor zeros_like ones_like empty_like
    rand_like randn_like full_like cat stack transpose permute reshape squeeze unsqueeze relu exp sigmoid
    """
)
_TORCH_METHODS: Final = _words(
    """
    bfloat16 half float double int long short bool to type contiguous clone detach t transpose permute reshape
    view flatten unsqueeze squeeze expand requires_grad_ mul add sub div abs cpu cuda uniform_ normal_ fill_ zero_
    view_as mul_ add_ div_ sub_ size dim numel
    """
)
_JAX_HOMES: Final = ("jax.numpy", "jax.random", "jax.nn")
_JAX_METHODS: Final = _words("astype reshape transpose swapaxes ravel flatten squeeze copy")
_IGNORED: Final = ("device", "generator", "pin_memory")
"""Keywords that change neither shape nor dtype."""
_ATTRIBUTES: Final = ("shape", "dtype", "ndim", "size", "T", "mT", "itemsize", "nbytes")


class Generator:
    """A random number generator of NumPy."""


def standin(shape: Any, dtype: Any = float) -> Any:
    """A NumPy array of ``shape`` without memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def is_array(value: Any) -> bool:
    """True for an array of a framework, or for what stands for one."""
    return isinstance(value, np.ndarray) or _is_torch(value) or _is_jax(value)


def without_elements(value: Any) -> Any:
    """A real array as a stand-in; anything else as it is."""
    if _is_torch(value):
        return value.detach().to("meta")
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.Array):
        return jax.ShapeDtypeStruct(value.shape, value.dtype)
    return value


def argument(value: Any) -> Any:
    """A stand-in as an argument of a kernel: for JAX a NumPy array, which has the same dtypes."""
    return standin(value.shape, value.dtype) if _is_jax(value) else value


def call(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a library function, ``UNKNOWN`` for one that is not listed here."""
    kwargs = {name: value for name, value in kwargs.items() if name not in _IGNORED}
    if UNKNOWN in _flat([*args, *kwargs.values()]):
        return UNKNOWN
    module, name = str(getattr(function, "__module__", "")), str(getattr(function, "__name__", ""))
    torch = sys.modules.get("torch")
    if torch is not None and name in _TORCH and getattr(torch, name, None) is function:
        with torch.device("meta"):
            return _guarded(function, *args, **kwargs)
    if torch is not None and name == "from_numpy" and function is torch.from_numpy and isinstance(args[0], np.ndarray):
        return _guarded(lambda: torch.from_numpy(np.zeros((), args[0].dtype)).to("meta").expand(args[0].shape))
    if any(function is getattr(sys.modules.get(home), name, UNKNOWN) for home in _JAX_HOMES):
        return _jax(function, args, kwargs) if name not in ("load", "save", "savez") else UNKNOWN
    if module == "math" or (isinstance(function, type) and issubclass(function, np.generic | np.dtype)):
        return _guarded(function, *args, **kwargs) if not any(map(is_array, args)) else UNKNOWN
    return _numpy(function, name, args, kwargs)


def _numpy(function: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function of NumPy; it takes arrays of JAX and PyTorch, too."""
    args = [method(a, "numpy", [], {}) if _is_torch(a) else argument(a) for a in args]
    if UNKNOWN in _flat(args) or any(_is_torch(a) or _is_jax(a) for a in kwargs.values()):
        return UNKNOWN
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.random.RandomState) and name in _RANDOM:
        return _random(name, args, kwargs)
    if function is np.random.default_rng or function is np.random.RandomState:
        return Generator()
    if function is np.ma.MaskedArray:
        return _guarded(lambda data, **_: np.ma.array(data), *args, **kwargs)
    if all(function is not getattr(home, name, UNKNOWN) for home in (np, np.ma)):
        return UNKNOWN
    if name in ("zeros", "ones", "empty"):
        return _guarded(lambda shape, dtype=float, **_: standin(shape, dtype), *args, **kwargs)
    if name == "full":
        return _guarded(_full, *args, **kwargs)
    if name in _LIKE:
        return _guarded(_like, *args, **kwargs)
    if name in _CREATORS and not any(isinstance(a, int) and abs(a) > SMALL for a in args):
        return _guarded(function, *args, **kwargs)
    if name == "arange":
        count = _guarded(lambda *bounds: len(range(*bounds)), *args)
        return UNKNOWN if count is UNKNOWN else standin((count,), kwargs.get("dtype", np.int64))
    if name in _SHAPING or (name in _COMPUTING and _small(args)):
        return _only_arrays(_guarded(function, *args, **kwargs), args)
    return UNKNOWN


def _full(shape: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Any:
    return standin(shape, dtype or np.asarray(fill_value).dtype)


def _like(a: Any, *_: Any, dtype: Any = None, **__: Any) -> Any:
    return standin(np.shape(a), dtype or a.dtype)


def _random(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function of random numbers."""
    if name in ("rand", "randn"):
        return standin(tuple(args))
    places = {"normal": 2, "uniform": 2, "randint": 2, "integers": 2}
    size = kwargs.get("size", args[places.get(name, 0)] if len(args) > places.get(name, 0) else None)
    own = np.int64 if name in ("randint", "integers") else np.float64
    after = args[places.get(name, 0) + 1 :]
    return UNKNOWN if size is None else _guarded(standin, size, kwargs.get("dtype", after[0] if after else own))


def method(owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a method of an array, of a generator or of a dtype."""
    kwargs = {key: value for key, value in kwargs.items() if key not in _IGNORED}
    if UNKNOWN in _flat([*args, *kwargs.values()]):
        return UNKNOWN
    if isinstance(owner, Generator):
        return _random(name, args, kwargs) if name in _RANDOM else UNKNOWN
    if _is_jax(owner):
        return _jax(lambda a: getattr(a, name)(*args, **kwargs), [owner], {}) if name in _JAX_METHODS else UNKNOWN
    if _is_torch(owner):
        return _torch_method(owner, name, args, kwargs)
    if name not in _METHODS:
        return UNKNOWN
    if name == "astype":
        return _guarded(lambda dtype, **_: standin(owner.shape, dtype), *args, **kwargs)
    if name in ("copy", "clip"):
        return standin(owner.shape, owner.dtype)
    if name in ("reshape", "ravel", "flatten") and owner.size > SMALL:
        return _reshaped(owner, (-1,) if name != "reshape" else args)
    return _guarded(getattr(owner, name), *args, **kwargs)


def _reshaped(owner: Any, args: Iterable[Any]) -> Any:
    shape = list(_flat(args))
    if shape.count(-1) == 1:
        shape[shape.index(-1)] = owner.size // max(1, -math.prod(shape))
    return standin(tuple(shape), owner.dtype) if math.prod(shape) == owner.size else UNKNOWN


def _torch_method(owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if name == "numpy":
        torch: Any = sys.modules["torch"]
        elements = _guarded(lambda: torch.empty((), dtype=owner.dtype).numpy())
        return UNKNOWN if elements is UNKNOWN else standin(tuple(owner.shape), elements.dtype)
    if name in ("cpu", "cuda"):
        return owner
    if name == "to":
        args = [a for a in args if not isinstance(a, str) and type(a).__name__ != "device"]
        if not args and not kwargs:
            return owner
    return _guarded(getattr(owner, name), *args, **kwargs) if name in _TORCH_METHODS else UNKNOWN


def attribute(owner: Any, name: str) -> Any:
    """An attribute of an array."""
    if name not in _ATTRIBUTES:
        return UNKNOWN
    if _is_jax(owner) and name in ("T", "mT"):
        return _jax(lambda a: getattr(a, name), [owner], {})
    value = _guarded(getattr, owner, name)
    return tuple(value) if name == "shape" else value


def operation(function: Callable[..., Any], operands: list[Any]) -> Any:
    """The result of an operator with an array among its operands."""
    if UNKNOWN in _flat(operands):
        return UNKNOWN
    if any(map(_is_jax, operands)):
        return _jax(function, operands, {})
    if any(map(_is_torch, operands)):
        return _guarded(function, *operands)
    if function is operator.getitem:
        return _only_arrays(_guarded(operator.getitem, *operands), operands) if not _selects(operands[1]) else UNKNOWN
    scalars = [np.zeros((1,) * a.ndim, a.dtype) if isinstance(a, np.ndarray) else a for a in operands]
    result = _guarded(function, *scalars)
    if not isinstance(result, np.ndarray) or function is operator.matmul:
        return _only_arrays(_guarded(function, *operands), operands) if _small(operands) else UNKNOWN
    shape = _guarded(np.broadcast_shapes, *(np.shape(a) for a in operands))
    return UNKNOWN if shape is UNKNOWN else standin(shape, cast("Any", result).dtype)


def _selects(index: Any) -> bool:
    """True if the shape of what ``index`` selects depends on its elements."""
    return any(
        isinstance(part, bool | _Same) and (isinstance(part, bool) or getattr(part.dtype, "kind", "") == "b")
        for part in _flat([index])
    )


def _jax(function: Any, args: list[Any], kwargs: Mapping[str, Any]) -> Any:
    """The type of what ``function`` returns, by JAX's own abstract evaluation."""
    jax: Any = sys.modules["jax"]
    places = [i for i, a in enumerate(args) if is_array(a)]

    def of_arrays(*arrays: Any) -> Any:
        operands = list(args)
        for place, array in zip(places, arrays, strict=True):
            operands[place] = array
        return function(*operands, **kwargs)

    return _guarded(jax.eval_shape, of_arrays, *(args[i] for i in places))


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter)


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.ShapeDtypeStruct)


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    """The parts of lists and tuples, arrays left out when something is looked up among them by equality."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(cast("Iterable[Any]", value))
        else:
            yield _Same(value) if is_array(value) else value


class _Same:
    """An array that is equal to nothing else, for arrays compare their elements."""

    def __init__(self, array: Any) -> None:
        self.dtype = array.dtype


def _small(values: Iterable[Any]) -> bool:
    return all(value.size <= SMALL for value in values if isinstance(value, np.ndarray))


def _only_arrays(result: Any, operands: Iterable[Any]) -> Any:
    """``result``, unless it is a number that came from the elements of an array."""
    if isinstance(result, np.ndarray) or not any(map(is_array, operands)):
        return cast("Any", result)
    return UNKNOWN


def _guarded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a library function, ``UNKNOWN`` if it refuses its arguments."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args, **kwargs)
    except Exception:  # a library may raise anything for wrong arguments: the file says so when it runs
        return UNKNOWN
    # Of what NumPy takes for no array, such as a list of them, it makes an array of objects.
    return UNKNOWN if isinstance(result, np.ndarray) and result.dtype.kind == "O" else result


__all__ = [
    "Generator", "argument", "attribute", "call", "is_array", "method", "operation", "standin", "without_elements",
]  # fmt: skip
