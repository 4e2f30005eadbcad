"""Functions of the vendor's packages for PyTorch that put kernels into programs, on tensors of the CPU."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, Final, NoReturn, cast

from nki.base.errors import DeviceOnlyError
from nki.base.locks import imported
from nki.harness.simulation import as_kernel
from nki.jit import Kernel
from nki.jit import jit as jit_of_today

IS_NKI_V2_AVAILABLE: Final = True
"""``import nki`` works."""


def wrap_nki(nki_kernel: Any, **_: Any) -> Kernel:
    """The kernel itself, which is an operator in every graph of PyTorch; ``wrap_nki(kernel)[lnc](…)`` launches it.

    Options choose how the vendor's compiler traces it, and do nothing.
    """
    return as_kernel(nki_kernel)


def nki_op(name: str, fn: Callable[..., Any] | None = None, mutates_args: str | Iterable[str] = ()) -> Any:
    """Register ``fn``, which calls kernels, as the operator ``name`` of PyTorch (``namespace::name``).

    Kernels give shapes and dtypes for fake tensors, so ``fn`` is its own fake form, too. An argument that a kernel
    changes and returns comes back as a copy, since PyTorch lets no operator return its arguments. The result comes from
    ``torch.library.custom_op``: it has ``register_autograd``.
    """
    library: Any = imported("torch.library")

    def registered(function: Callable[..., Any]) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return _apart(function(*args, **kwargs), [*args, *kwargs.values()])

        schema = library.infer_schema(function, mutates_args=mutates_args)
        operator = library.custom_op(name, call, mutates_args=mutates_args, schema=schema)
        operator.register_fake(call)
        return operator

    return registered if fn is None else registered(fn)


def _apart(results: Any, arguments: list[Any]) -> Any:
    """``results`` with copies of those tensors that share memory with one of the ``arguments``."""
    if isinstance(results, (tuple, list)):
        return tuple([_apart(result, arguments) for result in cast("Iterable[Any]", results)])
    if hasattr(results, "untyped_storage") and _memory(results) in map(_memory, arguments):
        return results.clone()
    return results


def _memory(value: Any) -> int | None:
    return value.untyped_storage()._cdata if hasattr(value, "untyped_storage") else None


def nki_jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``neuronxcc.nki.jit``: the decorator of Beta 1 under its older name."""
    return imported("neuronxcc.nki").jit(func, **options)


def jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``torch_neuronx.nki.jit``: ``neuronxcc.nki.jit`` for a function that uses ``neuronxcc``, else ``nki.jit``."""
    if func is None:
        return functools.partial(jit, **options)
    return (nki_jit if _uses_beta1(func) else jit_of_today)(func, **options)


def _uses_beta1(func: Any) -> bool:
    """True if ``func`` imports ``neuronxcc`` or reads a global that comes from it."""
    read = [func.__globals__.get(name, name) for code in _codes(func.__code__) for name in code.co_names]
    homes = [value if isinstance(value, str) else getattr(value, "__module__", None) for value in read]
    named = [getattr(value, "__name__", None) for value in read]
    return any(str(home).partition(".")[0] == "neuronxcc" for home in (*homes, *named))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """``code``, and the code of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def synchronize(*_: Any) -> None:
    """Nothing waits: a kernel on tensors of the CPU has run when its call returns."""


class RmsNorm:
    """``RmsNorm.apply(x, weight, eps, dim)``: an operator of the vendor's compiler, here of PyTorch."""

    @staticmethod
    def apply(hidden_states: Any, weight: Any, eps: float, dim: int) -> Any:
        """``x / sqrt(mean(x², dim) + eps) · weight`` in float32, in the dtype of ``x``; the shape of ``weight`` is
        broadcast.
        """
        wide = hidden_states.float()
        normed = wide * imported("torch").rsqrt(wide.square().mean(dim, keepdim=True) + eps)
        return (normed * weight.float()).to(hidden_states.dtype)


def xla_hlo_call(func: Callable[..., Any]) -> Callable[..., NoReturn]:
    """A function that writes HLO of the vendor's compiler: files with one can be imported, and its call is an error.

    The call raises :class:`DeviceOnlyError`.
    """

    @functools.wraps(func)
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise DeviceOnlyError(
            f"{func.__name__} writes HLO for the vendor's compiler, in a language that Open NKI does not have",
            fix="write it with operators of PyTorch for tensors of the CPU, or as a kernel of NKI",
        )

    return refused
