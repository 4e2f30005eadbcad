"""Kernels on PyTorch's distributed tensors (``DTensor``): each process computes the whole.

A kernel says nothing of how its results depend on parts of its tensors. So every argument is gathered first
(``Replicate``), and every result is replicated. ``torch.distributed.tensor.experimental.local_map`` runs a kernel on
shards instead.
"""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from nki.base.framework_errors import TensorLayoutError

if TYPE_CHECKING:
    from nki.jit import Kernel

_MODULE: Final = "torch.distributed.tensor"


def among(values: Iterable[Any]) -> bool:
    """True if a value is a ``DTensor``; imports nothing that is not imported already."""
    module = sys.modules.get(_MODULE)
    return module is not None and any(isinstance(value, module.DTensor) for value in values)


def call(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    changed_by: Callable[[Kernel, tuple[Any, ...], dict[str, Any]], Sequence[Any]],
) -> Any:
    """The results of ``kernel`` as replicated ``DTensor``s. ``changed_by`` finds the tensors that it changes.

    Raises :class:`TensorLayoutError` if a tensor is plain or of another mesh.
    """
    import torch
    from torch.distributed.tensor import DTensor, Replicate

    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    meshes = [t.device_mesh for t in tensors if isinstance(t, DTensor)]
    if len(meshes) < len(tensors) or any(mesh != meshes[0] for mesh in meshes):
        raise TensorLayoutError(
            f"kernel {kernel.func.__name__!r} gets distributed tensors together with plain ones or with ones of "
            "another mesh",
            fix="distribute all on one mesh (torch.distributed.tensor.distribute_tensor), or call the kernel under "
            "local_map",
        )
    replicated = [Replicate()] * meshes[0].ndim

    gathered: list[tuple[Any, Any]] = []

    def whole(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        local = value.redistribute(placements=replicated).to_local()
        gathered.append((local, value))
        return local

    def distributed(result: Any) -> Any:
        for local, changed in gathered:
            if result is local:
                return changed
        return DTensor.from_local(result, meshes[0], replicated, run_check=False)

    positional = tuple([whole(value) for value in args])
    named = {name: whole(value) for name, value in kwargs.items()}
    changes = changed_by(kernel, positional, named)
    results: Any = kernel(*positional, **named)
    for local, value in gathered:
        for each in changes:
            if each is local:
                value.copy_(DTensor.from_local(local, meshes[0], replicated, run_check=False))
    if isinstance(results, tuple):
        return tuple([distributed(result) for result in cast("tuple[Any, ...]", results)])
    return distributed(results)
