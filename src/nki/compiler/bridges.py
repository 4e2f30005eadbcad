"""Bridges to frameworks: modules that are imported when a tensor of their framework is met first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

from nki.base.dtype import DType

P = ParamSpec("P")
R = TypeVar("R")


class TensorMap(Protocol):
    """Mapping of a framework's tensors to kernel arguments; see ``nki.frameworks.kernel.TensorMap``."""

    def is_framework_tensor(self, t: Any) -> bool: ...
    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]: ...
    def translate_to_neuron_dtype(self, _dtype: Any) -> DType: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bridge:
    """A module with an ``ADAPTER``, imported when a tensor of its framework is met first.

    ``roots`` are the root modules of the framework's tensor types, or modules of some of them; none: the bridge for
    everything else. Of several frameworks in one call, the bridge with the highest ``rank`` takes it.
    """

    module: str
    roots: tuple[str, ...]
    rank: int


_by_root: dict[str, Bridge] = {}


def register_bridges(bridges: Iterable[Bridge]) -> None:
    """Make bridges known; ``nki`` does so for those of ``nki.frameworks``."""
    for bridge in bridges:
        _by_root.update(dict.fromkeys(bridge.roots or ("",), bridge))


def module_for(kinds: Iterable[type[Any]]) -> str:
    """The module of the bridge for arguments of these types; that of NumPy if no framework has one of them."""
    modules = [base.__module__ for kind in kinds for base in kind.__mro__]
    roots = (*modules, *(module.partition(".")[0] for module in modules))
    candidates = [_by_root[root] for root in roots if root in _by_root]
    return max(candidates, key=lambda bridge: bridge.rank, default=_by_root[""]).module


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which the compiler of PyTorch runs as it is where it traces a call; it takes the result as given.

    The mark is that of ``torch.compiler.assume_constant_result``, set without an import of PyTorch.
    """
    setattr(function, "_dynamo_marked_constant", True)  # noqa: B010
    return function


__all__ = ["Bridge", "TensorMap", "module_for", "register_bridges", "untraced"]
