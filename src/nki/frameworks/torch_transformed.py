"""Operators with a gradient in compiled ``torch.func`` transforms: ``open_nki::transformed``.

PyTorch's compiler keeps no backward of an ``autograd.Function`` that it meets inside ``torch.func.grad``: it would take
the derivative of what the forward is made of. So there it meets an operator of PyTorch instead,
``open_nki::transformed(Tensor[] tensors, str call) -> Tensor[]``: its gradient belongs to each level of a transform,
as with PyTorch's own operators. ``call`` names, in this process only, a Function and all of its arguments but
the tensors. Below the levels the operator is what the Function's forward makes of it: launches of kernels.
"""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateUsage=false
# pyright: reportUntypedBaseClass=false, reportUnnecessaryComparison=false

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import torch
from torch._C._functorch import TransformType, get_interpreter_stack
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction
from torch.fx.experimental.symbolic_shapes import guard_scalar

from nki.base.errors import ArtifactError
from nki.base.framework_errors import NotDifferentiableError
from nki.compilation.cache.captured_values import constant_key
from nki.frameworks.torch_operators import at_next_level, batched_by_element, below_autograd, has_tangent

if TYPE_CHECKING:
    from collections.abc import Sequence


class Function(Protocol):
    """The part of an ``autograd.Function`` that counts here; ``inputs`` are all arguments."""

    @staticmethod
    def forward(*inputs: Any) -> Any: ...
    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None: ...
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any: ...


@dataclass(slots=True)
class _Call:
    function: type[Function]
    arguments: tuple[Any, ...]
    """With :data:`_TENSOR` for each tensor."""
    is_tuple: bool = False
    """True if the forward, when it last ran, returned a tuple."""

    def inputs(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """The arguments with ``tensors`` in their places."""
        rest = iter(tensors)
        return tuple([next(rest) if x is _TENSOR else x for x in self.arguments])


class _Tensor:
    pass


_TENSOR: Final = _Tensor()
_PROCESS: Final = uuid.uuid4().hex
"""Caches of graphs on disk must not take a call of this process for one of another."""
_calls: Final[dict[str, _Call]] = {}
_names: Final[dict[Any, str]] = {}
"""The names of calls, by what they differ in."""


class Owner(Protocol):
    """The first argument of a Function, which leads to it: Dynamo takes no Function for a constant."""

    @property
    def function(self) -> type[Function]: ...


def functionalizes() -> bool:
    """True inside ``torch.func.functionalize``, at any level."""
    return any(level.key() == TransformType.Functionalize for level in get_interpreter_stack() or ())


def uses_autograd(function: Any) -> bool:
    """True if the Python of ``function``, or of functions that it calls, asks PyTorch's engine for a gradient."""
    engine = (torch.autograd.grad, torch.autograd.backward)
    seen = set[int]()
    todo: list[Any] = [function]
    while todo:
        item = todo.pop()
        item = getattr(item, "func", getattr(item, "__func__", item))
        if not isinstance(item, FunctionType) or id(item) in seen:
            continue
        seen.add(id(item))
        if item.__module__.partition(".")[0] in ("torch", "nki"):
            continue
        codes = [item.__code__]
        names = set[str]()
        for code in codes:
            names.update(code.co_names)
            codes.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
        cells = [cell.cell_contents for cell in item.__closure__ or () if not _is_empty(cell)]
        used = [*(item.__globals__[name] for name in names if name in item.__globals__), *cells]
        if {"autograd", "grad"} <= names or "backward" in names or any(each is e for each in used for e in engine):
            return True
        todo.extend(used)
    return False


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def apply(owner: Owner, *arguments: Any) -> Any:
    """``owner.function.apply(owner, *arguments)``, traced by Dynamo inside ``torch.func``.

    ``arguments`` hold no tensors inside.
    """
    tensors = [x for x in arguments if isinstance(x, torch.Tensor)]
    constants = [None if isinstance(x, torch.Tensor) else _plain(x) for x in arguments]
    name = _named(owner, tuple([isinstance(x, torch.Tensor) for x in arguments]), *constants)
    results = transformed_op(tensors, name)
    return tuple(results) if _is_tuple(name) else results[0]


def _plain(value: Any) -> Any:
    """``value`` without symbols, for which Dynamo may hold numbers."""
    return guard_scalar(value) if isinstance(value, (int, float)) else value


@torch.compiler.assume_constant_result
def _named(owner: Owner, are_tensors: tuple[bool, ...], *constants: Any) -> str:
    """The name of a call with these arguments; those that are tensors are given by their places only."""
    key = (owner, are_tensors, constant_key("", constants))
    name = _names.get(key)
    if name is None:
        arguments = [_TENSOR if is_tensor else x for is_tensor, x in zip(are_tensors, constants, strict=True)]
        name = _names[key] = f"{_PROCESS}:{len(_calls)}"
        _calls[name] = _Call(owner.function, (owner, *arguments))
    return name


def _call_of(name: str) -> _Call:
    call = _calls.get(name)
    if call is None:
        raise ArtifactError(
            "the graph calls an operator with a gradient that another process has made", fix="trace it again here"
        )
    return call


@torch.compiler.assume_constant_result
def _is_tuple(name: str) -> bool:
    return _calls[name].is_tuple


class _Level(_SingleLevelFunction):
    """The call at one level of ``torch.func`` or at none; the levels below have their own."""

    @staticmethod
    def forward(keys: torch._C.DispatchKeySet, name: str, *inputs: Any) -> Any:
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        return tuple(at_next_level(transformed_op, keys, tensors, name))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, name, *rest = inputs
        ctx.function = _call_of(name).function
        ctx.function.setup_context(ctx, tuple(rest), output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, *ctx.function.backward(ctx, *grads)


def _differentiated(keys: torch._C.DispatchKeySet, tensors: list[torch.Tensor], name: str) -> list[torch.Tensor]:
    if has_tangent(tensors):
        raise NotDifferentiableError(
            "an operator with a backward alone has no derivative in forward mode (torch.func.jvp)",
            fix="use torch.func.vjp or grad",
        )
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return below_autograd(transformed_op, keys, tensors, name)
    with enable_single_level_autograd_function():
        outputs: tuple[torch.Tensor, ...] = cast("Any", _Level).apply(keys, name, *_call_of(name).inputs(tensors))
        return list(outputs)


def _run(tensors: list[torch.Tensor], name: str) -> list[torch.Tensor]:
    call = _call_of(name)
    results = call.function.forward(*call.inputs(tensors))
    call.is_tuple = isinstance(results, tuple)
    return list(results) if call.is_tuple else [results]


_library: Final = torch.library.Library("open_nki", "FRAGMENT")
_library.define("transformed(Tensor[] tensors, str call) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
# Modes of PyTorch take what is composite apart; without kernels of backends this would come before the gradient.
for key in ("CompositeImplicitAutograd", "CPU"):
    _library.impl("transformed", _run, key)
_library.impl("transformed", _differentiated, "Autograd", with_keyset=True)
transformed_op: Final = torch.ops.open_nki.transformed.default
torch.library.register_vmap("open_nki::transformed", partial(batched_by_element, transformed_op), lib=_library)
