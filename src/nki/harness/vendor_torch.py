"""Functions of the vendor's packages for PyTorch that put kernels into programs, on tensors of the CPU."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from nki.base.locks import imported
from nki.harness.simulation import as_kernel
from nki.jit import Kernel


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
