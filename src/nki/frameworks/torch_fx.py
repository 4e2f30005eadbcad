"""Kernels in ``torch.fx.symbolic_trace``: a call is recorded as it is, for its tensors have no shapes yet."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from torch.fx import Proxy
from torch.fx.node import has_side_effect

from nki.frameworks.torch import TorchAdapter
from nki.frontend.python.flattened_arguments import leaves
from nki.jit import simulate

if TYPE_CHECKING:
    from nki.jit import Kernel


class FxAdapter(TorchAdapter):
    """Records kernels as calls of functions in a graph of ``torch.fx``."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The kernel may change an argument: passes that drop calls without users must leave it in its place.
        return record(has_side_effect(kernel), args, kwargs)

    def simulate(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return record(has_side_effect(simulate(kernel)), args, kwargs)


def is_recorded(values: Sequence[Any]) -> bool:
    """True if one of the arguments is a value of a graph that ``torch.fx`` records."""
    return any(isinstance(value, Proxy) for value in leaves(values))


def record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Proxy:
    """The value of a call of ``function`` in the graph that the arguments belong to."""
    proxy: Any = next(value for value in leaves((*args, *kwargs.values())) if isinstance(value, Proxy))
    return proxy.tracer.create_proxy("call_function", function, args, dict(kwargs))


ADAPTER: Final = FxAdapter()
