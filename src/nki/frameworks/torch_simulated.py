"""Kernels that the eager simulator runs inside graphs of ``torch.compile``, under ``NKI_SIMULATOR=1`` for example.

The graph calls the same operators as for a compiled kernel, by a name that holds only in this process: neither a graph
from PyTorch's on-disk cache nor an exported program can call it elsewhere.
"""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nki.base.errors import ArtifactError
from nki.base.locks import Lock

if TYPE_CHECKING:
    import torch

    from nki.ir.types import TensorSpec

MARK: Final = "nki-simulated:"
_process: Final = uuid.uuid4().hex
_numbers: Final[dict[Any, str]] = {}
_kernels: Final[dict[str, Simulated]] = {}
_lock: Final = Lock()


@dataclass(frozen=True)
class Simulated:
    """A kernel with all its arguments but the tensors. It stays as long as the process, so it holds no native code."""

    name: str
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    """Shapes and dtypes of inputs and results, which are known before a run."""
    changes: Mapping[int, int]
    run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
    """Fresh results for tensors in the order of ``inputs``."""


def remember(key: Any, simulated: Simulated) -> str:
    """The name by which graphs of this process call it; calls with an equal ``key`` share one."""
    with _lock:
        name = _numbers.get(key)
        if name is None:
            name = _numbers[key] = f"{MARK}{_process}:{len(_numbers)}"
        _kernels[name] = simulated
        return name


def find(name: str) -> Simulated:
    """The kernel with a name of :func:`remember`. Raises :class:`ArtifactError` for one of another process."""
    found = _kernels.get(name)
    if found is None:
        raise ArtifactError(
            "the graph calls a kernel in the eager simulator of another process",
            fix="trace it again in this process, or without nki.simulate and NKI_SIMULATOR=1",
        )
    return found
